"""Flows: the keys of their files (`FlowKeys`, `NodeKeys`), and the compiled form.

A compiled `Flow` (`Node`, `Given`) holds plain values that the interpreter runs. Nothing here acts.
Texts of the file may be templates. Values that templates read never are.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from pydantic import Field, TypeAdapter, ValidationError

from taofold.core.values import Effort
from taofold.files.actions import Kind
from taofold.files.agent import AgentKeys
from taofold.files.checked_yaml import KeyPath, Strict
from taofold.files.expressions.condition import Condition
from taofold.files.expressions.template import Template

MOST_VISITS: Final = 1000
"""Maximum turns of one loop, items of one fan-out, visits of one node."""
END: Final = ("end", "__end__")
"""Targets of `goto` that leave the list of nodes."""
FAIL: Final = "__fail__"
"""Target of `goto` that fails the run: none of the conditions before it holds."""

OWN: Final = frozenset(
    {
        *("reasoning_trace", "reasoning_answer", "reasoning_thinking", "react_steps"),
        *("improvement_history", "errors"),
    }
)
"""Variables of the state that actions and failed nodes set."""

Bound = Annotated[int, Field(ge=1, le=MOST_VISITS)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$", max_length=64)]
Seconds = Annotated[float, Field(ge=0)]


class Branching(Strict):
    """One continuation. Without `if` it is always taken."""

    if_: Annotated[str, Field(alias="if")] = ""
    to: str


class While(Strict):
    """Repeats the node's `steps` while the condition holds."""

    condition: str
    max_iterations: Bound


class Retry(Strict):
    """Repeats a failed node `max` times at most, after `backoff` s, then `factor` times that."""

    max: Annotated[int, Field(ge=1, le=100)]
    backoff: Seconds = 0.0
    factor: Annotated[float, Field(ge=1)] = 2.0
    longest: Annotated[float, Field(gt=0, le=600)] = 60.0


class OnError(Strict):
    """Handles a failed node: first `retry`, then `fallback`, else `then`."""

    retry: Retry | None = None
    fallback: str = ""
    then: Literal["raise", "continue"] = "raise"


class Parallel(Strict):
    """Runs the node's `steps` for every item, or several lists of nodes, at the same time."""

    items: Any = None
    as_: Annotated[Name, Field(alias="as")] = "item"
    branches: dict[str, Any] = {}
    max_concurrency: Annotated[int, Field(ge=1, le=100)] = 8
    fail_fast: bool = False
    result: Any = None
    """The result of a branch. Default: its last node's value."""


class NodeKeys(Strict):
    """The keys of a node."""

    name: Name
    description: str = ""
    if_: Annotated[str, Field(alias="if")] = ""
    """The node runs only if this condition holds. Otherwise the flow continues after it."""
    uses: str = ""
    action: str = ""
    """The same as `uses`."""
    with_: Annotated[dict[str, Any], Field(alias="with")] = {}
    set: dict[str, Any] = {}
    while_: Annotated[While | None, Field(alias="while")] = None
    parallel: Parallel | None = None
    steps: Annotated[list[Any], Field(max_length=MOST_VISITS)] = []
    output: str | dict[str, str] = ""
    """The variable for the value, or variables with a path into it or a template of `result`."""
    merge: bool = False
    """Sets a variable for each key of the value, a mapping, instead of one for the value."""
    goto: str | list[Branching] = ""
    on_error: OnError | None = None
    timeout: Annotated[float, Field(gt=0)] | None = None
    """Maximum seconds of each model or tool call of the node."""
    approve: bool | str = False
    """Asks for approval first. A text is the question."""

    @property
    def action_name(self) -> str:
        """The action that it performs. "" = none."""
        return self.uses or self.action

    @property
    def work(self) -> list[str]:
        """The keys that define its work, besides `steps`. Few of them can be combined."""
        written = {
            "uses": bool(self.action_name),
            "set": "set" in self.model_fields_set,
            "while": self.while_ is not None,
            "parallel": self.parallel is not None,
        }
        return [key for key, value in written.items() if value]


class DspySettings(Strict):
    """Defaults of the actions `reason.dspy.*`."""

    enabled: bool = True
    model: str = ""
    prompt_model: str = ""
    temperature: Annotated[float, Field(ge=0)] | None = None
    teleprompter: str = ""
    adapter: Literal["taofold", "json", "chat"] = "taofold"


class FlowSettings(Strict):
    """Defaults of all nodes."""

    model: str = ""
    provider: str = ""
    """Provider of model names without one."""
    temperature: Annotated[float, Field(ge=0)] | None = None
    effort: Effort | None = None
    tracing: bool = True
    """Keeps `reasoning_trace` in the state. The log has everything in any case."""
    search: str = ""
    """The backend of web.search."""
    dspy: DspySettings = DspySettings()


class Import(Strict):
    """Another flow file, as the action `flow.NAMESPACE`."""

    path: str
    namespace: Name


class FlowKeys(AgentKeys):
    """The keys of a file with nodes. They include all keys of an agent except `strategy`."""

    nodes: Annotated[list[Any], Field(min_length=1, max_length=MOST_VISITS)]
    version: str = ""
    """The author's label. It has no effect."""
    start: str | list[Branching] = ""
    """The first node, or conditions as in `goto`. Default: the first of `nodes`."""
    initial_state: dict[str, Any] = {}
    """Values of variables at the start, unless the run is started with others."""
    settings: FlowSettings = FlowSettings()
    variables: dict[str, Any] = {}
    imports: list[Import] = []
    agents: dict[Name, str] = {}
    """Other agents, by file or module:attr, as the action `agent.NAME`."""
    state_schema: Any = None
    """Types of the state's variables, checked when a run starts and when a node sets one."""
    input: str = ""
    """The state's variable that holds the goal."""
    result: Any = None
    """The answer. Default: the last node's value."""


# Values here are any JSON, or come from an untyped library.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false


class Given:
    """A value of a file whose texts may be templates. Values that it reads are never templates."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def render(self, variables: Mapping[str, Any]) -> Any:
        """Returns the value. Raises `Unrenderable`."""
        return _rendered(self._value, variables)

    @property
    def literal(self) -> bool:
        """True if there is nothing to render."""
        return not any(True for _ in templates(self._value))

    @property
    def raw(self) -> Any:
        """The value of the file, with templates compiled."""
        return self._value


def templates(value: Any) -> "list[Template]":
    """Returns every template in `value`."""
    if isinstance(value, Template):
        return [value]
    if isinstance(value, dict):
        return [template for inner in value.values() for template in templates(inner)]
    if isinstance(value, list):
        return [template for inner in value for template in templates(inner)]
    return []


def _rendered(value: Any, variables: Mapping[str, Any]) -> Any:
    if isinstance(value, Template):
        return value.render(variables)
    if isinstance(value, dict):
        return {key: _rendered(inner, variables) for key, inner in value.items()}
    if isinstance(value, list):
        return [_rendered(inner, variables) for inner in value]
    return value


@dataclass(frozen=True, slots=True)
class Edge:
    """A continuation of a node. `condition` None = always."""

    to: str
    condition: Condition | None = None


@dataclass(frozen=True, slots=True)
class Loop:
    """Repeats while `condition` holds, at most `most` times."""

    condition: Condition
    most: int


@dataclass(frozen=True, slots=True)
class Spread:
    """A fan-out over `items`, each called `name`, or over named lists of nodes."""

    items: Given | None
    name: str
    branches: Mapping[str, "tuple[Node, ...]"]
    lanes: int
    fail_fast: bool
    result: Given | None


@dataclass(frozen=True, slots=True)
class Node:
    """One node. Exactly one of `kind`, `sets`, `loop` and `spread` defines its work."""

    name: str
    key_path: KeyPath
    description: str = ""
    kind: Kind | None = None
    inputs: Given = field(default_factory=lambda: Given({}))
    models: Mapping[str, str] = field(default_factory=dict[str, str])
    """Keys that name a model, with the model's name in the run."""
    deferred: Mapping[str, Template] = field(default_factory=dict[str, Template])
    sets: Given | None = None
    condition: Condition | None = None
    """The node runs only if it holds. None = always."""
    merge: bool = False
    merged: frozenset[str] = frozenset()
    """The variables that `merge` may set, as far as the file shows them."""
    loop: Loop | None = None
    spread: Spread | None = None
    steps: "tuple[Node, ...]" = ()
    output: str | Mapping[str, str | Template] = ""
    goto: tuple[Edge, ...] = ()
    on_error: OnError = OnError()
    timeout: float | None = None
    approve: Given | None = None

    @property
    def inner(self) -> "list[tuple[str, tuple[Node, ...]]]":
        """The lists of nodes inside, by name."""
        lists = [("", self.steps)] if self.steps else []
        if self.spread is not None:
            lists += list(self.spread.branches.items())
        return lists

    @property
    def outputs(self) -> set[str]:
        """The variables that the node itself sets."""
        if self.sets is not None:
            return set(self.sets.raw)
        if self.merge:
            return set(self.merged)
        if not isinstance(self.output, str):
            return set(self.output)
        # Nested lists have no value of their own.
        plain = self.kind is not None or self.spread is not None or self.loop is not None
        name = self.output or (self.name if plain else "")
        return {name} if name else set()

    @property
    def produced(self) -> set[str]:
        """The variables that it and the nodes inside set. They may be missing at the start."""
        return self.outputs.union(*[node.produced for _, inner in self.inner for node in inner])


@dataclass(frozen=True, slots=True)
class Flow:
    """A whole flow."""

    name: str
    keys: FlowKeys
    nodes: tuple[Node, ...]
    variables: Mapping[str, Any]
    start: tuple[Edge, ...] = ()
    """The edges to the first node. () = the first of `nodes`."""
    state: TypeAdapter[Any] | None = None
    """Type of the whole state at the start of a run."""
    types: Mapping[str, TypeAdapter[Any]] = field(default_factory=dict[str, TypeAdapter[Any]])
    """Types of single variables, for when a node sets one."""
    result: Given | None = None
    typed: bool = False
    """True if the file declares the type of the answer."""
    needs: frozenset[str] = frozenset()
    """Variables that it reads and that nothing in the file sets or declares."""
    reads_goal: bool = False
    """True if a template or condition reads `goal`."""

    def start_state(self, data: Mapping[str, Any], goal: str) -> dict[str, Any]:
        """Returns the state at the start of a run, with the goal in its variable."""
        state, name = {**self.keys.initial_state, **data}, self.keys.input
        return {**state, name: state.get(name, goal)} if name else state

    def state_fault(self, state: Mapping[str, Any]) -> str:
        """Returns the reason why the state does not fit `state_schema`, or ""."""
        return _fault(self.state, state)

    def missing(self, state: Mapping[str, Any]) -> list[str]:
        """Returns the variables that `state_schema` requires and the state lacks."""
        try:
            if self.state is not None:
                self.state.validate_python(state)
        except ValidationError as error:
            missing = [one["loc"] for one in error.errors() if one["type"] == "missing"]
            return [str(place[0]) for place in missing if len(place) == 1]
        return []

    @property
    def known(self) -> set[str]:
        """The variables of the state that the file names."""
        produced = {name for node in self.nodes for name in node.produced}
        own = {self.keys.input, *self.keys.initial_state}
        return {*produced, *self.types, *self.needs, *own} - {""}

    @property
    def code(self) -> str:
        """The code of all nodes. It may read variables that the file does not name."""
        each = [(node.kind, node.inputs.raw) for node in self.every if node.kind is not None]
        return "\n".join([str(raw.get(key, "")) for kind, raw in each for key in kind.verbatim])

    def update_fault(self, update: Mapping[str, Any]) -> str:
        """Returns the reason why a variable's new value does not fit `state_schema`, or ""."""
        for name, value in update.items():
            if fault := _fault(self.types.get(name), value):
                return f"{name!r} does not fit state_schema: {fault}"
        return ""

    @property
    def every(self) -> "list[Node]":
        """All nodes, nested ones included."""
        nodes: list[Node] = []
        todo = list(self.nodes)
        while todo:
            node = todo.pop(0)
            nodes.append(node)
            for _, inner in node.inner:
                todo += inner
        return nodes


def _fault(adapter: TypeAdapter[Any] | None, value: Any) -> str:
    if adapter is None:
        return ""
    try:
        adapter.validate_python(value)
    except ValidationError as error:
        return faults_text(error)
    return ""


def faults_text(error: ValidationError) -> str:
    """Returns the faults in one line."""
    faults = [
        f"{'.'.join(map(str, detail['loc'])) or 'value'}: {detail['msg']}"
        for detail in error.errors()
    ]
    return "; ".join(faults)[:500]

"""Flow files: read, checked, compiled. An agent file with `nodes` is one.

Reading finds every fault, in imported files too, and imports no code.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, TypeAdapter, create_model

from taofold.core.effects import Strategy
from taofold.core.json_values import is_array, is_object
from taofold.files.actions import ActionCall, Actions, Done, Keys, Kind, build_actions_registry
from taofold.files.actions.kind import Open, Text
from taofold.files.actions.tools import done, perform
from taofold.files.actions.types import NoType, record
from taofold.files.agent import AgentFile, read_document
from taofold.files.document import Fault, YamlDocument, check, load
from taofold.files.flow.compile import Compiler, Nodes
from taofold.files.flow.flow import OWN, Flow, FlowKeys, Node
from taofold.files.flow.run import nested_flow
from taofold.files.references import is_name
from taofold.policy import Policy

# Values here are JSON of any shape, or come from a library without types.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false


_DEEPEST: Final = 5


@dataclass(frozen=True, slots=True)
class FlowFile(AgentFile):
    """A flow file without faults. `imported` are the flows it uses, by namespace."""

    flow: Flow
    imported: dict[str, "FlowFile"]


def read_agent(
    path: Path, operator: Policy | None = None, source: str = "", *, root: Path | None = None
) -> tuple[AgentFile | None, list[Fault]]:
    """The agent or flow file at `path`, or everything wrong with it.

    `root` is the project: what is imported must lie inside. Without it that is the current
    directory, if the file lies there, else the file's own.
    """
    document, faults = load(path, source)
    if document is None:
        return None, faults
    if "nodes" not in document.value:
        return read_document(document, operator)
    if root is None:
        here, target = Path.cwd().resolve(), path.resolve()
        root = here if target.is_relative_to(here) else target.parent
    return read_flow(document, operator, root=root)


def read_flow(
    document: YamlDocument,
    operator: Policy | None = None,
    *,
    root: Path,
    actions: Actions | None = None,
    above: tuple[Path, ...] = (),
) -> tuple[FlowFile | None, list[Fault]]:
    """The flow that the document describes. `above` are the files that import this one."""
    agent, faults = read_document(document, operator, FlowKeys)
    # Once more, so that the nodes are looked at even if something else of the file is wrong.
    keys = agent.keys if agent is not None else check(document, FlowKeys)[0]
    if not isinstance(keys, FlowKeys):
        return None, sorted([*faults, *_inside(document)], key=lambda fault: fault.line)
    actions = build_actions_registry() if actions is None else actions
    compiler = Compiler(document, actions, keys, faults)
    imported = _imports(compiler, operator, root, above)
    kinds = [_agent_kind(name) for name in keys.agents]
    kinds += [_flow_kind(name, file.flow) for name, file in imported.items()]
    # The flows and agents of this file are actions in it, and nowhere else.
    compiler.actions = _with(actions, kinds)
    flow = _flow(compiler, document)
    if compiler.faults or agent is None:
        return None, sorted(compiler.faults, key=lambda fault: fault.line)
    file = FlowFile(document, keys, agent.tools, agent.policy, flow, imported)
    return file, []


def _inside(document: YamlDocument) -> list[Fault]:
    """The faults of the nodes, where the top of the file has faults of its own."""
    # A stand-in that satisfies the schema: only the document's own nodes are compiled.
    keys = FlowKeys(nodes=[{}])
    kinds = [_agent_kind(str(name)) for name in _names(document.value.get("agents"))]
    entries = document.value.get("imports")
    kinds += [
        _kind_of(f"flow.{entry.get('namespace')}", Open)
        for entry in (entries if is_array(entries) else ())
        if is_object(entry)
    ]
    compiler = Compiler(document, _with(build_actions_registry(), kinds), keys)
    Nodes(compiler).all(document.value.get("nodes"), ("nodes",))
    return compiler.faults


def _names(value: Any) -> list[Any]:
    return list(value) if is_object(value) else []


def _flow(compiler: Compiler, document: YamlDocument) -> Flow:
    keys = compiler.keys
    if "strategy" in keys.model_fields_set:
        compiler.wrong(("strategy",), "a flow is the strategy: take it out")
    nodes = Nodes(compiler).all(document.value.get("nodes"), ("nodes",))
    result = None
    if keys.result is not None:
        result = compiler.given(keys.result, ("result",))
    for name, spec in keys.agents.items():
        if not is_name(spec) and not spec.endswith((".yaml", ".yml")):
            compiler.wrong(("agents", name), f"{spec!r} is no agent file and no module:attr")
    state = _state(compiler, _produced(nodes))
    types: dict[str, TypeAdapter[Any]] = {}
    if state is not None:
        for name, info in state.model_fields.items():
            types[name] = TypeAdapter(info.annotation)
        if keys.input and keys.input not in types:
            compiler.wrong(("input",), f"{keys.input!r} is not in state_schema")
    needs = compiler.check_reads({*_produced(nodes), *types, keys.input, *OWN} - {""})
    adapter = None if state is None else TypeAdapter(state)
    typed = "output" in keys.model_fields_set
    return Flow(keys.name, keys, nodes, keys.variables, adapter, types, result, typed, needs)


def _state(compiler: Compiler, produced: set[str]) -> Any:
    """What `state_schema` says: of what is there at the start. Other variables are free."""
    written = compiler.keys.state_schema
    if written is None:
        return None
    if not is_object(written):
        compiler.wrong(("state_schema",), "must be a mapping of names to types")
        return None
    if written.get("type") == "object" and is_object(written.get("properties")):
        required = written.get("required", [])
        properties: dict[str, Any] = written["properties"]
        written = {n if n in required else f"{n}?": t for n, t in properties.items()}
    # What a node sets need not be there at the start, even if the schema requires it.
    late = {name: f"{name}?" for name in map(str, written) if name in produced}
    try:
        state = record({late.get(str(n), str(n)): t for n, t in written.items()}, "State")
    except NoType as error:
        compiler.wrong(("state_schema", *error.path), str(error))
        return None
    # Other variables may stand beside those that are typed.
    return create_model("State", __base__=(_Free, state))


class _Free(BaseModel):
    model_config = ConfigDict(extra="allow")


def _produced(nodes: Sequence[Node]) -> set[str]:
    """The variables that nodes set: at the start they need not be there."""
    names: set[str] = set()
    for node in nodes:
        if node.sets is not None:
            names |= set(node.sets.raw)
        elif isinstance(node.output, str):
            names.add(node.output or node.name)
        else:
            names |= set(node.output)
        for _, inner in node.inner:
            names |= _produced(inner)
    return names


def _imports(
    compiler: Compiler, operator: Policy | None, root: Path, above: tuple[Path, ...]
) -> dict[str, FlowFile]:
    files: dict[str, FlowFile] = {}
    here = compiler.document.folder
    for number, entry in enumerate(compiler.keys.imports):
        key_path = ("imports", number, "path")
        path = (here / entry.path).resolve()
        # After links were followed.
        if not path.is_relative_to(root.resolve()):
            compiler.wrong(key_path, f"{entry.path!r} leads out of the project {str(root)!r}")
            continue
        if entry.namespace in files:
            compiler.wrong(("imports", number, "namespace"), f"{entry.namespace!r} is taken")
            continue
        if path in above or len(above) >= _DEEPEST:
            compiler.wrong(key_path, f"{entry.path!r} imports itself, or imports nest too deep")
            continue
        document, faults = load(path, entry.path)
        if document is not None and "nodes" not in document.value:
            faults = [document.fault((), "is no flow: it has no 'nodes'")]
            document = None
        if document is not None:
            file, faults = read_flow(document, operator, root=root, above=(*above, path))
            if file is not None:
                files[entry.namespace] = file
        if faults:
            compiler.wrong(key_path, f"{entry.path!r} has faults")
            compiler.faults += faults
    return files


class _Goal(Keys):
    goal: Text


def _ask_agent(name: str, call: ActionCall[_Goal]) -> Strategy[Done]:
    observation = yield from perform(call.node, name, {"goal": call.keys.goal}, call.thought)
    return done(observation)


def _agent_kind(name: str) -> Kind:
    run = partial(_ask_agent, name)
    return Kind(f"agent.{name}", f"Ask the agent {name}.", _Goal, run, tools=(name,))


def _flow_kind(name: str, flow: Flow) -> Kind:
    return replace(_kind_of(f"flow.{name}", Open), run=partial(nested_flow, flow))


def _kind_of(name: str, keys: Any) -> Kind:
    return Kind(name, name, keys, lambda call: perform(call.node, name, {}))  # type: ignore[arg-type, return-value] # pyright: ignore[reportArgumentType]


class _More(Actions):
    """The registry with the agents and flows of one file."""

    def __init__(self, actions: Actions, given: list[Kind]) -> None:
        super().__init__(actions.values())
        self._given = {kind.name: kind for kind in given}

    def __getitem__(self, name: str) -> Kind:
        return self._given[name] if name in self._given else super().__getitem__(name)

    def __iter__(self) -> Any:
        yield from super().__iter__()
        yield from self._given

    def __contains__(self, name: object) -> bool:
        return name in self._given or super().__contains__(name)


def _with(actions: Actions, given: list[Kind]) -> Actions:
    return _More(actions, given)

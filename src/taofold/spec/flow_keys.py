"""The keys of a flow file, beside those of an agent file."""

from typing import Annotated, Any, Final

from pydantic import Field

from taofold.core.values import Effort
from taofold.spec.agent_file import AgentKeys
from taofold.spec.document import Strict

MOST: Final = 1000
"""Turns of one loop, items of one fan-out, visits of one node."""
END: Final = ("end", "__end__")
"""Targets of `goto` that leave the list of nodes."""

Bound = Annotated[int, Field(ge=1, le=MOST)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$", max_length=64)]
Seconds = Annotated[float, Field(ge=0)]


class Branching(Strict):
    """One way on. Without `if` it is always taken."""

    if_: Annotated[str, Field(alias="if")] = ""
    to: str


class While(Strict):
    """Repeat the node's `steps` while the condition holds."""

    condition: str
    max_iterations: Bound


class Retry(Strict):
    """Try again: at most `max` times, waiting `backoff` seconds, then `factor` times that."""

    max: Annotated[int, Field(ge=1, le=100)]
    backoff: Seconds = 0.0
    factor: Annotated[float, Field(ge=1)] = 2.0
    longest: Annotated[float, Field(gt=0, le=600)] = 60.0


class OnError(Strict):
    """What to do when a node fails: first `retry`, then `fallback`, else `then`."""

    retry: Retry | None = None
    fallback: str = ""
    then: Annotated[str, Field(pattern="^(raise|continue)$")] = "raise"


class Parallel(Strict):
    """Run the node's `steps` for every item, or several lists of nodes, at the same time."""

    items: Any = None
    as_: Annotated[Name, Field(alias="as")] = "item"
    branches: dict[str, Any] = {}
    max_concurrency: Annotated[int, Field(ge=1, le=100)] = 8
    fail_fast: bool = False
    result: Any = None
    """What a branch gives; its last node's value, if nothing is said."""


class NodeKeys(Strict):
    """The keys of a node."""

    name: Name
    description: str = ""
    uses: str = ""
    action: str = ""
    """The same as `uses`."""
    with_: Annotated[dict[str, Any], Field(alias="with")] = {}
    set: dict[str, Any] = {}
    while_: Annotated[While | None, Field(alias="while")] = None
    parallel: Parallel | None = None
    steps: Annotated[list[Any], Field(max_length=MOST)] = []
    output: str | dict[str, str] = ""
    goto: str | list[Branching] = ""
    on_error: OnError | None = None
    timeout: Annotated[float, Field(gt=0)] | None = None
    """Seconds for each call of a model or a tool that it makes."""
    approve: bool | str = False
    """Ask a person first; a text says what."""


class DspySettings(Strict):
    """Defaults of the actions `reason.dspy.*`."""

    enabled: bool = True
    model: str = ""
    prompt_model: str = ""
    temperature: Annotated[float, Field(ge=0)] | None = None
    teleprompter: str = ""
    adapter: Annotated[str, Field(pattern="^(taofold|json|chat)$")] = "taofold"


class Settings(Strict):
    """Defaults of all nodes."""

    model: str = ""
    provider: str = ""
    """Completes a model that is named without one."""
    temperature: Annotated[float, Field(ge=0)] | None = None
    effort: Effort | None = None
    tracing: bool = True
    """Keep `reasoning_trace` in the state. The log has everything in any case."""
    search: str = ""
    """The backend of web.search."""
    dspy: DspySettings = DspySettings()


class Import(Strict):
    """Another flow file, as the action `flow.NAMESPACE`."""

    path: str
    namespace: Name


class FlowKeys(AgentKeys):
    """The keys of a file with nodes. Of an agent's keys they have all but `strategy`."""

    nodes: Annotated[list[Any], Field(min_length=1, max_length=MOST)]
    settings: Settings = Settings()
    variables: dict[str, Any] = {}
    imports: list[Import] = []
    agents: dict[Name, str] = {}
    """Other agents, by file or module:attr: the action `agent.NAME`."""
    state_schema: Any = None
    """The types of the state's variables, checked when a run starts and when a node sets one."""
    input: str = ""
    """The state's variable that holds the goal."""
    result: Any = None
    """The answer; the last node's value, if nothing is said."""

"""Options of a run besides its goal. `Agent.run` describes each one."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, TypedDict

from taofold.agent.history import Earlier
from taofold.core.happenings import Happening
from taofold.core.values import Principal
from taofold.tools.context import Deps

if TYPE_CHECKING:
    from taofold.agent.batch import BatchState

IfWaiting: TypeAlias = Literal["answer", "withdraw", "refuse"]
"""Effect of a new message in a session whose run waits.

`"answer"`: it answers the run's question, and the run goes on. Pending approvals are withdrawn.
`"withdraw"`: everything that the run waits for is withdrawn. `"refuse"`: raises `Conflict`.
"""
STRICT: Final = "strict"
"""Key in `RunStarted.settings`: whether the run enforces the rules of the loop."""
JUDGE: Final = "grounding_judge"
"""Key in `RunStarted.settings`: the name of the model that judges the thoughts of the run."""
TOOL_SEARCH: Final = "tool_search"
"""Key in `RunStarted.settings`: some tools are offered only after a search has found them.

Its value is "local" or "provider", the side that searches, if a model of the run can load found
tools into its context, else true.
"""
COMPACTION: Final = "compaction"
"""Key in `RunStarted.settings`: a model summarises older steps."""
ACTIVE: Final = "active_agent"
"""Key in `RunStarted.settings`: the agent that was active last in the session, if it is another."""
NOT_CONTINUED: Final = "agent_not_continued"
"""Key in `RunStarted.settings`: why the run does not begin with the session's last agent.

Its value has the name of that `agent`, and the `reason`. The strategy notes it under this kind.
"""
REFERENCE: Final = "reference"
"""Key in `RunStarted.settings`: the prefix of the lines of the goal that are reference data."""
INSTRUCTIONS: Final = "instructions"
"""Key in `RunStarted.settings`: the agent's instructions."""


class StartOptions(TypedDict, total=False):
    """Options that are recorded with a new run."""

    session: str
    tags: Mapping[str, str] | None
    data: Mapping[str, Any] | None
    ui_context: str
    history: Sequence[Earlier]
    settings: Mapping[str, Any] | None


class RunOptions(StartOptions, Generic[Deps], total=False):
    """Options of `Agent.run` that `run_sync`, `stream` and `map` pass on."""

    deps: Deps | None
    principal: Principal | None
    run_id: str
    if_waiting: IfWaiting


class ResumeOptions(TypedDict, Generic[Deps], total=False):
    """Options of `Agent.resume` that `resume_sync` passes on."""

    deps: Deps | None
    principal: Principal | None
    listener: Callable[[Happening], None] | None
    takeover: bool


class MapOptions(RunOptions[Deps], Generic[Deps], total=False):
    """Options of `Agent.map` that `map_sync` passes on."""

    name: str
    concurrency: int
    usd: float | None
    progress: "Callable[[BatchState], None] | Literal['terminal'] | None"

"""Options of a run besides its goal. `Agent.run` describes each one."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, TypedDict

from taofold.agent.history import Earlier
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


class MapOptions(RunOptions[Deps], Generic[Deps], total=False):
    """Options of `Agent.map` that `map_sync` passes on."""

    name: str
    concurrency: int
    usd: float | None
    progress: "Callable[[BatchState], None] | Literal['terminal'] | None"

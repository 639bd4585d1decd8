"""What a run may be given besides its goal. `Agent.run` describes each option."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, TypedDict

from taofold.agent.history import Earlier
from taofold.core.values import Principal
from taofold.tools.context import Deps

if TYPE_CHECKING:
    from taofold.agent.batch import BatchState

IfWaiting: TypeAlias = Literal["answer", "withdraw", "refuse"]
"""What a new message does in a session whose run waits.

"answer": it answers the question of the run, which goes on; what waits for an approval is
withdrawn. "withdraw": all that the run waits for is withdrawn. "refuse": raises `Conflict`.
"""
STRICT: Final = "strict"
"""The key of `RunStarted.settings` that records if the run enforces the rules of the loop."""
INSTRUCTIONS: Final = "instructions"
"""The key of `RunStarted.settings` that holds the agent's instructions."""


class StartOptions(TypedDict, total=False):
    """What is recorded of a new run besides its goal."""

    session: str
    tags: Mapping[str, str] | None
    data: Mapping[str, Any] | None
    ui_context: str
    history: Sequence[Earlier]
    settings: Mapping[str, Any] | None


class RunOptions(StartOptions, Generic[Deps], total=False):
    """The options of `Agent.run`, as `run_sync`, `stream` and `map` hand them on."""

    deps: Deps | None
    principal: Principal | None
    run_id: str
    if_waiting: IfWaiting


class MapOptions(RunOptions[Deps], Generic[Deps], total=False):
    """The options of `Agent.map`, as `map_sync` hands them on."""

    name: str
    concurrency: int
    usd: float | None
    progress: "Callable[[BatchState], None] | Literal['terminal'] | None"

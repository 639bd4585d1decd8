"""What a run may be given besides its goal. `Agent.run` describes each option."""

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypedDict

from taofold.agent.history import Earlier
from taofold.agent.sessions import IfWaiting
from taofold.core.values import Principal
from taofold.tools.context import Deps


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

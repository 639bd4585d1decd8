"""What a tool is told about the call it serves."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Generic

from typing_extensions import TypeVar

from taofold.core.values import JSON, ObservationStatus, Principal

Deps = TypeVar("Deps", default=None)


@dataclass(slots=True)
class RunContext(Generic[Deps]):
    """The optional first parameter of a tool.

    `effect_id` is the same for every attempt at this very call, also after a crash:
    pass it on as an idempotency key. `timeout_s` is what is left for the call.
    """

    deps: Deps
    run_id: str = ""
    effect_id: str = ""
    step: int = 0
    principal: Principal = Principal()
    timeout_s: float = 60.0
    partial: list[str] = field(default_factory=list[str])
    """What the tool has produced so far; kept in the observation if it times out."""
    on_progress: Callable[[str], None] | None = None
    data: Mapping[str, JSON] = field(default_factory=dict[str, Any])

    @property
    def state(self) -> dict[str, JSON]:
        """A copy of the run's state: changing it changes nothing (return an update instead)."""
        return deepcopy(dict(self.data))

    def report(self, text: str) -> None:
        """Tell listeners about progress, and keep `text` should the call time out."""
        self.partial.append(text)
        if self.on_progress is not None:
            self.on_progress(text)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a tool may return instead of a bare value, when it has more to say."""

    value: JSON = None
    status: ObservationStatus = "success"
    extraction: str = ""
    update: tuple[str, JSON] | None = None
    """A state update `(key, value)`."""

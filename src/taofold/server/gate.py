"""A gate in front of a model: the place where a run can be stopped without losing anything.

Before it asks its model a run may be told to wait: because too many run already, or because
the server stops. It then parks, as it does for a person: rows in the log, no process.
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Final

from taofold.core.values import Profile, Reply
from taofold.runtime.model import Model, OnText, Request
from taofold.runtime.signals import Park

QUEUED: Final = "queued"
STOPPED: Final = "server_stopped"
PARKED: Final = frozenset({QUEUED, STOPPED})
"""What a run waits for that no person needs to do."""

_open: Callable[[], str] = str
barrier: ContextVar[Callable[[], str]] = ContextVar("barrier", default=_open)
"""Says why the run of this task must wait, "" = it may go on."""


class Gate:
    """`inner`, asked only while the run's barrier is open."""

    def __init__(self, inner: Model) -> None:
        self._inner = inner

    @property
    def name(self) -> str:
        """The model's."""
        return self._inner.name

    @property
    def profile(self) -> Profile:
        """The model's."""
        return self._inner.profile

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        """Ask the model.

        Raises:
            Park: the run must wait.
        """
        reason = barrier.get()()
        if reason:
            raise Park(reason)
        return await self._inner.complete(request, on_text)

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        """The model's."""
        return self._inner.price(input_tokens, output_tokens)

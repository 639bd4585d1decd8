"""The seam of engines: anything that has runs advanced."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from taofold.runtime.setup import Pause
from taofold.runtime.waiting import Advanced

Advance: TypeAlias = Callable[[str, Pause], Awaitable[Advanced]]
"""Does what can be done for a run now; asks `Pause` before each model call whether it may go on.

It may be called for any run, at any time and again: it claims the run in the log, so what is
driven elsewhere, waits or has ended is left alone, and says so.
"""


class Engine(Protocol):
    """Has runs advanced.

    A run is a task of somebody's while something can be done for it, and rows in the log
    while it waits: an engine holds nothing for runs that wait, whatever they wait for.
    """

    @property
    def stopping(self) -> bool:
        """Is it coming to its end? Nothing is begun any more."""
        ...

    async def start(self) -> None:
        """Begin to have runs advanced, those that an earlier engine left first."""
        ...

    async def wake(self, run: str) -> None:
        """Something can be done for `run` now. To say so twice is to say it once."""
        ...

    def drives(self, run: str) -> bool:
        """Is the run being advanced by this process now?"""
        ...

    async def stop(self, seconds: float) -> None:
        """Let every run come to a place where it can wait; cut off what takes longer."""
        ...

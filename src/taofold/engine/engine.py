"""The seam of engines: anything that has runs advanced; and the one that drives nothing itself."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from taofold.core.errors import Conflict, UnknownRun
from taofold.log.log import AT_ONCE, Log
from taofold.runtime import owner
from taofold.runtime.endings import QUEUED, Advanced
from taofold.runtime.setup import Pause

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


class RemoteEngine:
    """Has runs advanced by whoever else looks at the log: `taofold work`, another server.

    Everything that makes a run due is in the log, so nothing has to be told to anybody.
    """

    active = queued = finished = 0
    full = False

    def __init__(self, log: Log) -> None:
        self._log = log
        self.stuck: dict[str, str] = {}
        self.stopping = False

    def drives(self, run: str) -> bool:
        """Nothing is driven here."""
        return False

    async def start(self) -> None:
        """Nothing is to be started."""

    async def wake(self, run: str) -> None:
        """Let others have a run that was begun here; any other is due by itself."""
        try:
            row = await self._log.row(run)
            if row.status == "running" and owner.mine(row.owner):
                await self._log.append(
                    run, row.epoch, [], status="waiting", waiting_for=QUEUED, wake_at=AT_ONCE
                )
        except (Conflict, UnknownRun):  # somebody was quicker
            pass

    def nudge(self) -> None:
        """Nobody looks here."""

    async def stop(self, seconds: float) -> None:
        """Nothing is to be stopped."""
        self.stopping = True

"""The engine of a process that drives nothing: other processes do."""

from taofold.core.errors import Conflict, UnknownRun
from taofold.runtime import owner
from taofold.runtime.waiting import QUEUED
from taofold.store.log import AT_ONCE, Log


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

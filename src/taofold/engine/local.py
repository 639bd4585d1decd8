"""The embedded engine: runs are tasks of this process.

At most so many runs are driven at once; others park before their first model call and take their
turn. Any number of such processes share a log by its leases.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, assert_never

from taofold.engine.engine import Advance, settle, try_advance
from taofold.engine.reconciler import LOOK_S, Reconciler
from taofold.log.log import Log
from taofold.runtime.endings import QUEUED, STOPPED, Finished, More, Waiting

MOST: Final = 200
"""Runs that are driven at once."""


class LocalEngine:
    """Has runs advanced by tasks of this process.

    Args:
        log: Where the runs are.
        advance: Does what can be done for a run.
        now: The clock of approvals, in milliseconds since the epoch.
        ours: Says whether this process can advance a run at all; what it cannot is left to others.
        most: Runs that are driven at once.
        look_s: Seconds between two looks.
    """

    def __init__(
        self,
        log: Log,
        advance: Advance,
        *,
        now: Callable[[], int],
        ours: Callable[[str], Awaitable[bool]],
        most: int = MOST,
        look_s: float = LOOK_S,
    ) -> None:
        self._advance, self._most = advance, most
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._queued: dict[str, None] = {}
        self._reconciler = Reconciler(
            log,
            self.wake,
            now=now,
            ours=ours,
            drives=self.drives,
            full=lambda: self.full,
            look_s=look_s,
        )
        self.stuck = self._reconciler.stuck
        """Runs that cannot be continued here, and why."""
        self.stopping = False
        self.finished = 0

    @property
    def active(self) -> int:
        """How many runs are being driven."""
        return len(self._tasks)

    @property
    def full(self) -> bool:
        """Are as many runs driven as may be?"""
        return len(self._tasks) >= self._most

    @property
    def queued(self) -> int:
        """How many runs wait for their turn, as far as this process knows."""
        return len(self._queued)

    def drives(self, run: str) -> bool:
        """Is the run driven here now?"""
        return run in self._tasks

    async def start(self) -> None:
        """Continue what an earlier process left, then keep looking."""
        await self._reconciler.start()

    async def wake(self, run: str) -> None:
        """Have `run` advanced. If it is driven here, it will be looked at once more after that."""
        if self.stopping or run in self.stuck:
            return
        if run in self._tasks:
            self._again.add(run)
        else:
            self._spawn(run)

    def nudge(self) -> None:
        """Something in the log changed: look soon."""
        self._reconciler.nudge()

    async def reconcile(self) -> None:
        """Look once at the runs that are due, and have those advanced that can be."""
        await self._reconciler.reconcile()

    async def stop(self, seconds: float) -> None:
        """Look no more, let every run come to a place where it can wait; cut off the rest."""
        self.stopping = True
        await self._reconciler.stop()
        await settle(list(self._tasks.values()), seconds)

    def _spawn(self, run: str) -> None:
        self._queued.pop(run, None)
        task = asyncio.get_running_loop().create_task(self._driven(run, full=self.full))
        self._tasks[run] = task
        task.add_done_callback(lambda _: self._ended(run))

    async def _driven(self, run: str, *, full: bool) -> None:
        def pause() -> str:
            return STOPPED if self.stopping else QUEUED if full else ""

        advanced = await try_advance(self._advance, run, pause, self.stuck)
        match advanced:
            case Waiting(reason=reason) if reason == QUEUED:
                self._queued[run] = None
            case More():
                self._again.add(run)
            case Waiting() | Finished() | None:
                pass
            case _:
                assert_never(advanced)

    def _ended(self, run: str) -> None:
        self._tasks.pop(run, None)
        self.finished += 1
        if self.stopping:
            return
        if run in self._again:
            self._again.discard(run)
            self._spawn(run)
        elif self._queued and not self.full:
            self._spawn(next(iter(self._queued)))

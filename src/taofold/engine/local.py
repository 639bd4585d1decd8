"""The embedded engine: runs are tasks of this process, and a reconciler looks for more.

At most so many runs are driven at once; others park before their first model call and take their
turn. Everything the reconciler acts on is in the log, so it does not matter which process wrote it,
how often it looks, or who else looks: whoever is second finds nothing to do.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, assert_never

from taofold.core.errors import Conflict, LogError, Refused, TaofoldError, UnknownRun
from taofold.engine.engine import Advance
from taofold.log.log import AT_ONCE, ENDED, Log, RunRow
from taofold.runtime import control as people
from taofold.runtime import owner
from taofold.runtime.endings import QUEUED, STOPPED, UNATTENDED, Finished, More, Waiting
from taofold.runtime.lease import SILENT_S
from taofold.runtime.owner import remove_unbegun

MOST: Final = 200
"""Runs that are driven at once."""
LOOK_S: Final = 1.0
"""Seconds between two looks for runs that are due."""
PAGES: Final = 5
"""Pages of due runs in one look; the next look goes on behind them."""
_PAGE: Final = 100
_BREATH: Final = 20
_SOON_S: Final = 0.05
_REMEMBERED: Final = 10_000

_logger = logging.getLogger(__name__)


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
        self._log, self._advance, self._now, self._ours = log, advance, now, ours
        self._most, self._look_s = most, look_s
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._looking: asyncio.Task[None] | None = None
        self._nudged = asyncio.Event()
        self._behind: RunRow | None = None
        self._over: dict[str, tuple[int, int, float]] = {}
        """Leases that were seen over: epoch, end, and since when (monotonic seconds)."""
        self._foreign: OrderedDict[str, bool] = OrderedDict()
        self._queued: dict[str, None] = {}
        self.stuck: dict[str, str] = {}
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
        await self._safely(self.reconcile)
        self._looking = asyncio.create_task(self._look())

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
        self._nudged.set()

    async def stop(self, seconds: float) -> None:
        """Look no more, let every run come to a place where it can wait; cut off the rest."""
        self.stopping = True
        looking, self._looking = self._looking, None
        if looking is not None:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking
        tasks = list(self._tasks.values())
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def reconcile(self) -> None:
        """Look once at the runs that are due, and have those advanced that can be."""
        for _ in range(PAGES):
            rows = await self._log.due(self._now(), limit=_PAGE, after=self._behind)
            for number, row in enumerate(rows):
                if number % _BREATH == _BREATH - 1:
                    await asyncio.sleep(0)
                if self.stopping:
                    return
                if self.full and row.wake_at != AT_ONCE:
                    continue  # it would only wait for its turn again
                await self._look_at(row)
            self._behind = rows[-1] if len(rows) == _PAGE else None
            if self._behind is None:
                return

    async def _look(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._look_s):
                    await self._nudged.wait()
                    # Many changes at once are one reason to look.
                    await asyncio.sleep(min(_SOON_S, self._look_s))
            self._nudged.clear()
            await self._safely(self.reconcile)

    async def _safely(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except LogError as error:
            _logger.warning("the log cannot be used now: %s", error)
        except Exception:
            _logger.exception("looking after the runs failed; trying again")

    async def _look_at(self, row: RunRow) -> None:
        """Do what a due row needs."""
        run = row.run
        if row.status == "running" and not self._abandoned(row):
            return
        if await remove_unbegun(self._log, row):
            _logger.info("run %s was registered and never began", run)
            return
        try:
            top = await people.root(self._log, row)
        except UnknownRun:
            return
        if top.run != run and top.status in ENDED:
            await people.end_orphan(self._log, row, self._now())
            return
        allowed = await self._may(top.run)
        # A message for a run of others is theirs; that its approval expired anybody may note.
        if row.status == "waiting" and (allowed or row.wake_at != AT_ONCE):
            expired = await people.expire(self._log, row, self._now())
            if not expired and await self._settled(row):
                return
        if allowed and run not in self.stuck and not self.drives(top.run):
            await self.wake(top.run)

    async def _settled(self, row: RunRow) -> bool:
        """Is there nothing to do for a waiting run after all? Then it is noted when there will."""
        if row.waiting_for in UNATTENDED:
            return False
        return await people.settle_wake(self._log, row, self._now())

    def _abandoned(self, row: RunRow) -> bool:
        """Is the lease of a running run really over, not only by a clock that jumped?"""
        if owner.gone(row.owner) or (owner.mine(row.owner) and not self.drives(row.run)):
            return True
        clock = asyncio.get_running_loop().time()
        epoch, until, since = self._over.get(row.run, (0, 0, 0.0))
        if (epoch, until) != (row.epoch, row.lease_until):
            if len(self._over) > _REMEMBERED:
                self._over.clear()  # whose leases are over is seen again
            self._over[row.run] = (row.epoch, row.lease_until, clock)
            return False
        return clock - since >= SILENT_S

    async def _may(self, run: str) -> bool:
        """Can this process advance the run? What it cannot is remembered."""
        if run in self._foreign:
            return False
        if await self._ours(run):
            return True
        self._foreign[run] = True
        if len(self._foreign) > _REMEMBERED:
            self._foreign.popitem(last=False)
        return False

    def _spawn(self, run: str) -> None:
        self._queued.pop(run, None)
        task = asyncio.get_running_loop().create_task(self._driven(run, full=self.full))
        self._tasks[run] = task
        task.add_done_callback(lambda _: self._ended(run))

    async def _driven(self, run: str, *, full: bool) -> None:
        def pause() -> str:
            return STOPPED if self.stopping else QUEUED if full else ""

        try:
            advanced = await self._advance(run, pause)
            match advanced:
                case Waiting(reason=reason) if reason == QUEUED:
                    self._queued[run] = None
                case More():
                    self._again.add(run)
                case Waiting() | Finished():
                    pass
                case _:
                    assert_never(advanced)
        except (Conflict, Refused, UnknownRun) as error:
            _logger.info("run %s is not driven here: %s", run, error)
        except LogError as error:
            _logger.warning("run %s was interrupted: %s", run, error)
        except TaofoldError as error:
            self._stuck(run, error)
        except Exception as error:  # a run's failure is its own, and on its record
            _logger.exception("run %s failed", run)
            self._stuck(run, error)

    def _stuck(self, run: str, error: Exception) -> None:
        self.stuck[run] = str(error)
        _logger.warning("run %s cannot be continued here: %s", run, error)

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

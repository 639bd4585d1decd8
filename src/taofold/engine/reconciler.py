"""The reconciler finds due runs and wakes them, ends orphans, and records expired approvals.
`Steadiness` detects clocks that jump.

All its inputs are in the log, so the writing process, the frequency of checks and other reconcilers
do not matter: the second one finds nothing to do. It knows nothing about how a run is advanced.

An expired lease proves that its owner is silent only if the log's clock runs evenly, which
`Steadiness` checks: a clock that jumped expires all leases at once although their owners are alive.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from taofold.core.errors import LogAway, LogError, UnknownRun
from taofold.core.state import ENDED
from taofold.foreign_code import contained
from taofold.log.log import AT_ONCE, Log, RunRow
from taofold.runtime import control, ownership
from taofold.runtime.endings import UNATTENDED
from taofold.runtime.ownership import LEASE_MS, SILENT_S

LOOK_S: Final = 1.0
"""Seconds between two checks for due runs."""
PAGES: Final = 5
"""Maximum pages of due runs in one check; the next check continues behind them."""
_PAGE: Final = 100
_BREATH: Final = 20
_SOON_S: Final = 0.05
LONGEST_RETRY_S: Final = 30.0
"""Maximum seconds between two attempts after repeated failures of the log."""
_REMEMBERED: Final = 10_000

_logger = logging.getLogger(__name__)


class Retries:
    """Failures of the log: logged once, retried after a growing delay.

    Args:
        first_s: The first delay, in seconds; each further one of the same run is twice as long.
        most_s: The maximum delay, in seconds.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        first_s: float,
        *,
        most_s: float = LONGEST_RETRY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._first_s, self._most_s, self._clock = first_s, most_s, clock
        self._failing: dict[str, tuple[float, float]] = {}
        """The delay of each run, and its end."""
        self._said: set[str] = set()

    def left_s(self, run: str) -> float:
        """Returns the seconds until `run` is tried again; "" is the check for runs itself."""
        _, until = self._failing.get(run, (0.0, 0.0))
        return max(0.0, until - self._clock()) if until else 0.0

    def failed(self, run: str, error: LogError) -> None:
        """Records a failure of the log at `run`."""
        text = str(error)
        # A full disk fails for all runs with one text: it is logged once.
        if text not in self._said:
            self._said.add(text)
            _logger.warning("%sthe log cannot be used: %s", f"run {run}: " if run else "", text)
        if len(self._failing) > _REMEMBERED:
            self._failing.clear()  # they are tried at once, and fail again
        delay = min(max(self._first_s, 2 * self._failing.get(run, (0.0, 0.0))[0]), self._most_s)
        self._failing[run] = delay, self._clock() + delay

    def worked(self, run: str) -> None:
        """Records a success of the log for `run`."""
        if self._failing.pop(run, None) and not self._failing:
            self._said.clear()
            _logger.warning("the log can be used again")


class Reconciler:
    """A task that checks for due runs while it is started.

    Args:
        log: The log of the runs.
        wake: Makes a run advance; called for each advanceable run at each check until it is not
            due.
        now: The clock of approvals, in milliseconds since the epoch.
        ours: Returns whether this process can advance a run at all; other runs are left to others.
        drives: Returns whether this process advances a run now.
        full: Returns whether runs that would only queue should be skipped.
        look_s: Seconds between two checks.
    """

    def __init__(
        self,
        log: Log,
        wake: Callable[[str], Awaitable[None]],
        *,
        now: Callable[[], int],
        ours: Callable[[str], Awaitable[bool]],
        drives: Callable[[str], bool],
        full: Callable[[], bool] = bool,
        look_s: float = LOOK_S,
    ) -> None:
        self._log, self._wake, self._now, self._ours = log, wake, now, ours
        self._drives, self._full, self._look_s = drives, full, look_s
        self._looking: asyncio.Task[None] | None = None
        self._nudged = asyncio.Event()
        self._behind: RunRow | None = None
        self._over: dict[str, tuple[int, int, float]] = {}
        """Leases seen as expired: epoch, end, and first observation (monotonic seconds)."""
        self._clock = Steadiness(log, steady_s=STEADY_S)
        self._foreign: OrderedDict[str, bool] = OrderedDict()
        self.stuck: dict[str, str] = {}
        """Runs that cannot be continued here, and the reasons."""
        self.retries = Retries(look_s)
        self.stopping = False

    async def start(self) -> None:
        """Checks once, then keeps checking."""
        await self._safely(self.reconcile)
        self._looking = asyncio.create_task(self._look())

    def nudge(self) -> None:
        """Requests an early check: the log has changed."""
        self._nudged.set()

    async def stop(self) -> None:
        """Stops checking."""
        self.stopping = True
        looking, self._looking = self._looking, None
        if looking is not None:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking

    async def reconcile(self) -> None:
        """Checks the due runs once, and advances those that can be."""
        for _ in range(PAGES):
            rows = await self._log.due(self._now(), limit=_PAGE, after=self._behind)
            # After the query: an earlier jump is detected.
            await self._clock.look()
            for number, row in enumerate(rows):
                if number % _BREATH == _BREATH - 1:
                    await asyncio.sleep(0)
                if self.stopping:
                    return
                news = row.wake_at == AT_ONCE and row.waiting_for not in UNATTENDED
                if self._full() and not news:
                    continue  # it would only queue again
                await self._look_at_one(row)
            self._behind = rows[-1] if len(rows) == _PAGE else None
            if self._behind is None:
                return

    async def _look(self) -> None:
        clock = asyncio.get_running_loop().time
        looked_at = clock()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._look_s):
                    await self._nudged.wait()
            # One change causes an immediate check; many at once cause one check.
            soon = looked_at + min(_SOON_S, self._look_s) - clock()
            await asyncio.sleep(max(soon, self.retries.left_s("")))
            self._nudged.clear()
            looked_at = clock()
            await self._safely(self.reconcile)

    async def _safely(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            with contained():  # agents consist of foreign code
                await work()
            self.retries.worked("")
        except LogError as error:
            self.retries.failed("", error)
        except Exception:
            _logger.exception("checking the runs failed; trying again")

    async def _look_at_one(self, row: RunRow) -> None:
        """Handles one due row. An unreadable row does not delay the others."""
        if self.retries.left_s(row.run):
            return
        try:
            await self._look_at(row)
        except LogAway:
            raise
        except LogError as error:  # a newer release wrote it, or it is damaged
            self.retries.failed(row.run, error)

    async def _look_at(self, row: RunRow) -> None:
        run = row.run
        if row.status == "running" and not self._abandoned(row):
            return
        top = await self._goes_on_for(row)
        if top is None:
            return
        allowed = await self.may(top.run)
        # A message for another process's run is left to it; any process may record an expired
        # approval.
        if row.status == "waiting" and (allowed or row.wake_at != AT_ONCE):
            expired = await control.expire(self._log, row, self._now())
            if not expired and await self._settled(row):
                return
        if self.retries.left_s(top.run):
            return
        if allowed and run not in self.stuck and not self._drives(top.run):
            await self._wake(top.run)

    async def _goes_on_for(self, row: RunRow) -> RunRow | None:
        """Returns the run whose resumption resumes this one: itself, or its caller.

        None if nothing continues: an orphan is ended.
        """
        try:
            top = await control.root(self._log, row)
        except UnknownRun:
            return None
        if top.run != row.run and top.status in ENDED:
            await control.end_orphan(self._log, row, self._now())
            return None
        return top

    async def _settled(self, row: RunRow) -> bool:
        """Returns whether a waiting run has nothing to do; then records its next due time."""
        if row.waiting_for in UNATTENDED:
            return False
        return await control.settle_wake(self._log, row, self._now())

    def _abandoned(self, row: RunRow) -> bool:
        """Returns whether a running run's lease has expired, other than by a clock jump."""
        if ownership.gone(row.owner) or (ownership.mine(row.owner) and not self._drives(row.run)):
            return True
        if self._clock.steady:
            return True
        clock = asyncio.get_running_loop().time()
        epoch, until, since = self._over.get(row.run, (0, 0, 0.0))
        if (epoch, until) != (row.epoch, row.lease_until):
            if len(self._over) > _REMEMBERED:
                self._over.clear()  # expired leases are observed again
            self._over[row.run] = (row.epoch, row.lease_until, clock)
            return False
        return clock - since >= SILENT_S

    async def may(self, run: str) -> bool:
        """Returns whether this process can advance the run. A negative answer is cached."""
        if run in self._foreign:
            return False
        if await self._ours(run):
            return True
        self._foreign[run] = True
        if len(self._foreign) > _REMEMBERED:
            self._foreign.popitem(last=False)
        return False


STEADY_S: Final = LEASE_MS / 1000 + 1.0
"""Minimum seconds for which the clock must have been observed as steady."""
GAP_S: Final = 3.0
"""Maximum seconds between two checks. In a longer gap the database may have stood still, and with
it the renewal of leases.
"""
JUMP_S: Final = 0.5
"""Tolerated difference in seconds between two clocks within a check, on a busy machine."""


class Steadiness:
    """A comparison of the clock of `log` with this machine's monotonic one.

    A log without a clock (`clock`) is never steady.

    >>> from taofold.log.memory import MemoryLog
    >>> Steadiness(MemoryLog()).steady
    False
    """

    def __init__(
        self,
        log: Log,
        *,
        steady_s: float = STEADY_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read: Any = getattr(log, "clock", None)
        self._steady_s, self._monotonic = steady_s, monotonic
        self._ahead = 0.0
        """Seconds by which the log's clock was ahead at the start of the steady period."""
        self._since = self._looked_at = float("-inf")

    @property
    def steady(self) -> bool:
        """True if it has been steady for long enough, and until just now."""
        fresh = self._monotonic() - self._looked_at <= GAP_S
        return fresh and self._looked_at - self._since >= self._steady_s

    async def look(self) -> None:
        """Compares the clocks.

        Raises:
            LogError: The log cannot be read now.
        """
        if self._read is None:
            return
        before = self._monotonic()
        log_time = await self._read() / 1000
        now = self._monotonic()
        ahead = log_time - (before + now) / 2
        slow = now - before > JUMP_S or now - self._looked_at > GAP_S
        if slow or abs(ahead - self._ahead) > JUMP_S:
            self._since, self._ahead = now, ahead
        self._looked_at = now

"""`Engine`, the interface of engines, and the two that need no external queue.

`LocalEngine` drives runs as tasks of this process, up to a maximum at once; others park before
their first model call and queue. Any number of such processes share a log by its leases.
`RemoteEngine` drives nothing and leaves runs to other processes. The handling of failed, stuck and
released runs, common to all engines, is here too. Any class that passes
`taofold.testing.engine_conformance` is an engine.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import Any, Final, Protocol, TypeAlias, assert_never

from taofold.clocks import clock
from taofold.core.errors import Conflict, LogError, Refused, TaofoldError, UnknownRun
from taofold.engine.reconciler import LOOK_S, Reconciler, Retries
from taofold.foreign_code import contained
from taofold.log.log import AT_ONCE, Log
from taofold.runtime import ownership
from taofold.runtime.endings import QUEUED, STOPPED, Advanced, Finished, More, Waiting
from taofold.runtime.ownership import HEART
from taofold.runtime.setup import Pause

_logger = logging.getLogger(__name__)

Advance: TypeAlias = Callable[[str, Pause], Awaitable[Advanced]]
"""Does what can be done for a run now; calls `Pause` before each model call to learn whether to
stop.

It may be called for any run, at any time, repeatedly. It claims the run in the log, so a run that
is driven elsewhere, waits or has ended is left unchanged, and the result states this.
"""


class Engine(Protocol):
    """The interface of engines, which have runs advanced.

    A run is a task of some process while something can be done for it, and rows in the log while it
    waits. An engine holds nothing for waiting runs, for any reason of waiting.
    """

    stuck: dict[str, str]
    """Runs that cannot be continued here, and the reasons; a removed entry is tried again."""
    finished: int
    """The number of activations that have ended here."""

    @property
    def stopping(self) -> bool:
        """True if it is stopping: nothing is started any more."""
        ...

    @property
    def active(self) -> int:
        """The number of runs that this process advances."""
        ...

    @property
    def queued(self) -> int:
        """The number of queued runs, as far as this process knows."""
        ...

    async def start(self) -> None:
        """Starts to have runs advanced, those left by an earlier engine first."""
        ...

    async def wake(self, run: str) -> None:
        """Reports that something can be done for `run` now. Idempotent."""
        ...

    def nudge(self) -> None:
        """Requests an early check: the log has changed."""
        ...

    def drives(self, run: str) -> bool:
        """Returns whether this process advances the run now."""
        ...

    async def stop(self, seconds: float) -> None:
        """Lets every run reach a place where it can wait; cancels those that take longer."""
        ...


async def try_advance(
    advance: Advance, run: str, pause: Pause, stuck: dict[str, str], retries: Retries
) -> Advanced | None:
    """Returns the result of advancing `run`, or None if it could not be advanced.

    The reason is kept in `stuck` unless it may pass: another owner, or an unusable log (`retries`).
    """
    try:
        with contained():
            advanced = await advance(run, pause)
            retries.worked(run)
            return advanced
    except (Conflict, Refused, UnknownRun) as error:
        _logger.info("run %s is not driven here: %s", run, error)
    except LogError as error:
        retries.failed(run, error)
    except TaofoldError as error:
        stuck[run] = str(error)
        _logger.warning("run %s cannot be continued here: %s", run, error)
    except Exception as error:  # a run's failure is on its own record
        stuck[run] = str(error)
        _logger.exception("run %s failed", run)
    return None


async def release(log: Log, run: str) -> None:
    """Releases a run that this process began and does not drive.

    Raises:
        Conflict: Another process has it already.
        UnknownRun: There is no such run.
    """
    row = await log.row(run)
    if row.status == "running" and ownership.mine(row.owner) and not HEART.drives(log, run):
        await log.append(run, row.epoch, [], status="waiting", waiting_for=QUEUED, wake_at=AT_ONCE)


async def settle(tasks: Collection[asyncio.Task[Any]], seconds: float) -> None:
    """Waits until all `tasks` have ended; cancels those that take longer than `seconds`."""
    if not tasks:
        return
    _, late = await asyncio.wait(tasks, timeout=seconds)
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)


class RemoteEngine:
    """An engine whose runs are advanced by other processes on the log: `taofold work`, a server.

    The log holds everything that makes a run due, so no notification is needed.
    """

    active = queued = finished = 0

    def __init__(self, log: Log) -> None:
        self._log = log
        self.stuck: dict[str, str] = {}
        self.stopping = False

    def drives(self, run: str) -> bool:
        """Returns False: nothing is driven here."""
        return False

    async def start(self) -> None:
        """Does nothing."""

    async def wake(self, run: str) -> None:
        """Releases a run that was begun here; any other is due by itself."""
        with suppress(Conflict, UnknownRun):  # another process claimed it first
            await release(self._log, run)

    def nudge(self) -> None:
        """Does nothing."""

    async def stop(self, seconds: float) -> None:
        """Marks the engine as stopping."""
        self.stopping = True


MOST: Final = 200
"""Maximum number of runs driven at once."""


class LocalEngine:
    """An engine whose runs are advanced by tasks of this process.

    Args:
        log: The log of the runs.
        advance: Does what can be done for a run.
        now: The clock of approvals, in milliseconds since the epoch.
        ours: Returns whether this process can advance a run at all; other runs are left to others.
        most: Maximum number of runs driven at once.
        look_s: Seconds between two checks.
    """

    def __init__(
        self,
        log: Log,
        advance: Advance,
        *,
        now: Callable[[], int] = clock,
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
        """Runs that cannot be continued here, and the reasons."""
        self.stopping = False
        self.finished = 0

    @property
    def active(self) -> int:
        """The number of runs being driven."""
        return len(self._tasks)

    @property
    def full(self) -> bool:
        """True if the maximum number of runs is driven."""
        return len(self._tasks) >= self._most

    @property
    def queued(self) -> int:
        """The number of queued runs, as far as this process knows."""
        return len(self._queued)

    def drives(self, run: str) -> bool:
        """Returns whether the run is driven here now."""
        return run in self._tasks

    async def start(self) -> None:
        """Continues runs left by an earlier process, then keeps checking."""
        await self._reconciler.start()

    async def wake(self, run: str) -> None:
        """Makes `run` advance. A run that is driven here is checked once more afterwards."""
        if self.stopping or run in self.stuck:
            return
        if run in self._tasks:
            self._again.add(run)
        else:
            self._spawn(run)

    def nudge(self) -> None:
        """Requests an early check: the log has changed."""
        self._reconciler.nudge()

    async def reconcile(self) -> None:
        """Checks the due runs once, and advances those that can be."""
        await self._reconciler.reconcile()

    async def stop(self, seconds: float) -> None:
        """Stops checking, lets every run reach a place where it can wait; cancels the rest."""
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

        advanced = await try_advance(
            self._advance, run, pause, self.stuck, self._reconciler.retries
        )
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

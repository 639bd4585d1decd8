"""`Engine`, the interface of engines, and the two that need no queue of somebody else's.

`LocalEngine` drives runs as tasks of this process: at most so many at once; others park before
their first model call and take their turn. Any number of such processes share a log by its leases.
`RemoteEngine` drives nothing and leaves runs to other processes. What all engines do with a run
that fails, is set aside or must be let go is here too. Anything that passes
`taofold.testing.engine_conformance` is an engine.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import Any, Final, Protocol, TypeAlias, assert_never

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
"""Does what can be done for a run now; asks `Pause` before each model call whether it may go on.

It may be called for any run, at any time and again: it claims the run in the log, so what is
driven elsewhere, waits or has ended is left alone, and says so.
"""


class Engine(Protocol):
    """Has runs advanced.

    A run is a task of somebody's while something can be done for it, and rows in the log
    while it waits: an engine holds nothing for runs that wait, whatever they wait for.
    """

    stuck: dict[str, str]
    """Runs that cannot be continued here, and why; what is taken out is tried again."""
    finished: int
    """How many activations have ended here."""

    @property
    def stopping(self) -> bool:
        """Is it coming to its end? Nothing is begun any more."""
        ...

    @property
    def active(self) -> int:
        """How many runs this process advances."""
        ...

    @property
    def queued(self) -> int:
        """How many runs wait for their turn, as far as this process knows."""
        ...

    async def start(self) -> None:
        """Begin to have runs advanced, those that an earlier engine left first."""
        ...

    async def wake(self, run: str) -> None:
        """Something can be done for `run` now. To say so twice is to say it once."""
        ...

    def nudge(self) -> None:
        """Something in the log changed: look soon."""
        ...

    def drives(self, run: str) -> bool:
        """Is the run being advanced by this process now?"""
        ...

    async def stop(self, seconds: float) -> None:
        """Let every run come to a place where it can wait; cut off what takes longer."""
        ...


async def try_advance(
    advance: Advance, run: str, pause: Pause, stuck: dict[str, str], retries: Retries
) -> Advanced | None:
    """What came of advancing `run`; None if it could not be.

    Why it cannot be is kept in `stuck` unless it may pass: another owner, or a log that cannot be
    used (`retries`).
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
    except Exception as error:  # a run's failure is its own, and on its record
        stuck[run] = str(error)
        _logger.exception("run %s failed", run)
    return None


async def release(log: Log, run: str) -> None:
    """Let others have a run that was begun by this process and is driven by nobody.

    Raises:
        Conflict: another process has it already.
        UnknownRun: there is no such run.
    """
    row = await log.row(run)
    if row.status == "running" and ownership.mine(row.owner) and not HEART.drives(log, run):
        await log.append(run, row.epoch, [], status="waiting", waiting_for=QUEUED, wake_at=AT_ONCE)


async def settle(tasks: Collection[asyncio.Task[Any]], seconds: float) -> None:
    """Wait until all of `tasks` have ended; what takes longer than `seconds` is cancelled."""
    if not tasks:
        return
    _, late = await asyncio.wait(tasks, timeout=seconds)
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)


class RemoteEngine:
    """Has runs advanced by whoever else looks at the log: `taofold work`, another server.

    Everything that makes a run due is in the log, so nothing has to be told to anybody.
    """

    active = queued = finished = 0

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
        with suppress(Conflict, UnknownRun):  # somebody was quicker
            await release(self._log, run)

    def nudge(self) -> None:
        """Nobody looks here."""

    async def stop(self, seconds: float) -> None:
        """Nothing is to be stopped."""
        self.stopping = True


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

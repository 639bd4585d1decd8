"""Engines on somebody else's queue: a durable-execution engine says which worker advances a run.

The queue (`Dispatcher`) hands out one activation at a time; the log says what is due and who
drives it. So the queue may forget, repeat or delay what it was given: the reconciler of any worker
hands a run in again for as long as it is due, and an activation too many finds nothing to do. What
is handed in names the state of the run that it is for, its *ticket*: the same ticket twice is one
activation.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Protocol, TypeAlias

from taofold.core.errors import Conflict, LogError, Refused, UnknownRun
from taofold.core.state import ENDED
from taofold.engine.engine import Advance, release, settle, try_advance
from taofold.engine.reconciler import LOOK_S, Reconciler
from taofold.log.log import Log
from taofold.runtime.endings import STOPPED, Finished, More, Waiting

Drive: TypeAlias = Callable[[str], Coroutine[Any, Any, None]]
"""Advances a run in this process. Raises `Refused` if that has to be done elsewhere.

It goes on when whoever called it is cancelled: a queue that loses patience ends no run.
"""

REPEAT_S: Final = 2.0
"""A ticket is handed in again after so many seconds while its run is due."""
_REMEMBERED: Final = 10_000

_logger = logging.getLogger(__name__)


class Dispatcher(Protocol):
    """A queue of activations, shared by all workers of one `group`."""

    async def start(self, drive: Drive, *, group: str, most: int) -> None:
        """Connect, and take activations from the queue: at most `most` at once.

        Raises:
            ConfigError: the queue cannot be reached or used; the message says why.
        """
        ...

    async def enqueue(self, run: str, ticket: str) -> None:
        """Have some worker call its `drive(run)`. A ticket that is waiting or driven counts once.

        Raises:
            LogError: the queue cannot be reached now.
        """
        ...

    async def pause(self) -> None:
        """Take nothing more from the queue; what was taken goes on."""
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...


class DispatchEngine:
    """Has runs advanced by the workers that share a queue.

    Args:
        log: Where the runs are.
        advance: Does what can be done for a run.
        dispatcher: The queue.
        now: The clock of approvals, in milliseconds since the epoch.
        ours: Says whether this process can advance a run at all.
        group: Names the workers that can advance the same runs; others have queues of their own.
        most: Runs that this process advances at once.
        look_s: Seconds between two looks.
    """

    def __init__(
        self,
        log: Log,
        advance: Advance,
        dispatcher: Dispatcher,
        *,
        now: Callable[[], int],
        ours: Callable[[str], Awaitable[bool]],
        group: str,
        most: int,
        look_s: float = LOOK_S,
    ) -> None:
        self._log, self._advance, self._dispatcher = log, advance, dispatcher
        self._group, self._most = group, most
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._handed_in: dict[str, tuple[str, float]] = {}
        """The last ticket of each run, and when (monotonic seconds)."""
        self._reconciler = Reconciler(
            log, self.wake, now=now, ours=ours, drives=self.drives, look_s=look_s
        )
        self.stuck = self._reconciler.stuck
        self.stopping = False
        self.finished = 0

    @property
    def active(self) -> int:
        """How many runs are being driven."""
        return len(self._tasks)

    @property
    def queued(self) -> int:
        """What waits for its turn waits in the queue."""
        return 0

    def drives(self, run: str) -> bool:
        """Is the run driven here now?"""
        return run in self._tasks

    async def start(self) -> None:
        """Take part: hand in what is due, advance what the queue hands out."""
        await self._dispatcher.start(self._drive, group=self._group, most=self._most)
        await self._reconciler.start()

    async def wake(self, run: str) -> None:
        """Have `run` advanced by whichever worker the queue chooses."""
        if self.stopping or run in self.stuck:
            return
        try:
            await release(self._log, run)
            row = await self._log.row(run)
            if row.status not in ENDED and not row.held:
                await self._hand_in(run, f"{run}#{row.epoch}.{row.events}")
        except (Conflict, UnknownRun):  # somebody was quicker
            pass
        except LogError as error:  # the reconciler of some worker tries again
            _logger.warning("run %s is not handed in: %s", run, error)

    async def _hand_in(self, run: str, ticket: str) -> None:
        """Enqueue it, not at every look: a backlog would be handed in for as long as it lasts."""
        clock = asyncio.get_running_loop().time()
        before, since = self._handed_in.get(run, ("", 0.0))
        if before == ticket and clock - since < REPEAT_S:
            return
        if len(self._handed_in) > _REMEMBERED:
            self._handed_in.clear()
        await self._dispatcher.enqueue(run, ticket)
        self._handed_in[run] = ticket, clock

    def nudge(self) -> None:
        """Something in the log changed: look soon."""
        self._reconciler.nudge()

    async def reconcile(self) -> None:
        """Look once at the runs that are due, and hand in those that can be advanced."""
        await self._reconciler.reconcile()

    async def stop(self, seconds: float) -> None:
        """Take nothing more, let every run come to a place where it can wait, then disconnect."""
        self.stopping = True
        await self._reconciler.stop()
        await self._dispatcher.pause()
        await settle(list(self._tasks.values()), seconds)
        await self._dispatcher.close()

    async def _drive(self, run: str) -> None:
        task = self._tasks.get(run)
        if task is None:
            if self.stopping:
                raise Refused("this worker stops")
            if run in self.stuck or not await self._reconciler.may(run):
                raise Refused("its agent is offered elsewhere")
            task = self._tasks.get(run) or self._begun(run)
        await asyncio.shield(task)

    def _begun(self, run: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._driven(run))
        self._tasks[run] = task
        task.add_done_callback(lambda _: self._tasks.pop(run, None))
        return task

    async def _driven(self, run: str) -> None:
        def pause() -> str:
            return STOPPED if self.stopping else ""

        match await try_advance(self._advance, run, pause, self.stuck, self._reconciler.retries):
            case More():
                self.nudge()  # it is due again, and has another ticket
            case Waiting() | Finished() | None:
                pass
        self.finished += 1

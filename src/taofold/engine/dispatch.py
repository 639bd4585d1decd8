"""Engines on an external queue: a durable-execution engine chooses the worker that advances a run.

The queue (`Dispatcher`) hands out one activation at a time; the log holds the due times and the
owners. So the queue may lose, repeat or delay entries: the reconciler of any worker enqueues a run
again for as long as it is due, and a superfluous activation finds nothing to do. An entry names the
state of its run, its *ticket*: the same ticket twice is one activation.
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
"""Advances a run in this process. Raises `Refused` if another process has to do it.

It continues when its caller is cancelled: an impatient queue ends no run.
"""

REPEAT_S: Final = 2.0
"""Seconds after which a ticket is enqueued again while its run is due."""
_REMEMBERED: Final = 10_000

_logger = logging.getLogger(__name__)


class Dispatcher(Protocol):
    """A queue of activations, shared by all workers of one `group`."""

    async def start(self, drive: Drive, *, group: str, most: int) -> None:
        """Connects, and takes activations from the queue: at most `most` at once.

        Raises:
            ConfigError: The queue cannot be reached or used; the message has the reason.
        """
        ...

    async def enqueue(self, run: str, ticket: str) -> None:
        """Makes some worker call its `drive(run)`. A ticket that is waiting or driven counts once.

        Raises:
            LogError: The queue cannot be reached now.
        """
        ...

    async def pause(self) -> None:
        """Stops taking entries from the queue; taken ones continue."""
        ...

    async def close(self) -> None:
        """Disconnects."""
        ...


class DispatchEngine:
    """An engine whose runs are advanced by the workers that share a queue.

    Args:
        log: The log of the runs.
        advance: Does what can be done for a run.
        dispatcher: The queue.
        now: The clock of approvals, in milliseconds since the epoch.
        ours: Returns whether this process can advance a run at all.
        group: Names the workers that can advance the same runs; others have queues of their own.
        most: Maximum number of runs that this process advances at once.
        look_s: Seconds between two checks.
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
        """The last ticket of each run, and its time (monotonic seconds)."""
        self._reconciler = Reconciler(
            log, self.wake, now=now, ours=ours, drives=self.drives, look_s=look_s
        )
        self.stuck = self._reconciler.stuck
        self.stopping = False
        self.finished = 0

    @property
    def active(self) -> int:
        """The number of runs being driven."""
        return len(self._tasks)

    @property
    def queued(self) -> int:
        """0: waiting runs are in the external queue."""
        return 0

    def drives(self, run: str) -> bool:
        """Returns whether the run is driven here now."""
        return run in self._tasks

    async def start(self) -> None:
        """Starts to enqueue due runs and to advance runs from the queue."""
        await self._dispatcher.start(self._drive, group=self._group, most=self._most)
        await self._reconciler.start()

    async def wake(self, run: str) -> None:
        """Makes the worker chosen by the queue advance `run`."""
        if self.stopping or run in self.stuck:
            return
        try:
            await release(self._log, run)
            row = await self._log.row(run)
            if row.status not in ENDED and not row.held:
                await self._hand_in(run, f"{run}#{row.epoch}.{row.events}")
        except (Conflict, UnknownRun):  # another process claimed it first
            pass
        except LogError as error:  # the reconciler of some worker tries again
            _logger.warning("run %s is not handed in: %s", run, error)

    async def _hand_in(self, run: str, ticket: str) -> None:
        """Enqueues a run at most every `REPEAT_S`, so that a backlog does not flood the queue."""
        clock = asyncio.get_running_loop().time()
        before, since = self._handed_in.get(run, ("", 0.0))
        if before == ticket and clock - since < REPEAT_S:
            return
        if len(self._handed_in) > _REMEMBERED:
            self._handed_in.clear()
        await self._dispatcher.enqueue(run, ticket)
        self._handed_in[run] = ticket, clock

    def nudge(self) -> None:
        """Requests an early check: the log has changed."""
        self._reconciler.nudge()

    async def reconcile(self) -> None:
        """Checks the due runs once, and enqueues those that can be advanced."""
        await self._reconciler.reconcile()

    async def stop(self, seconds: float) -> None:
        """Stops taking entries, lets every run reach a waiting point, then disconnects."""
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
                self.nudge()  # it is due again, with another ticket
            case Waiting() | Finished() | None:
                pass
        self.finished += 1

"""Drives runs: new ones, those that a person decided on, those that a dead server left.

A run is a task while it does something and rows while it waits. At most `most` are driven
at once; others park before their first model call and take their turn. Whoever drives a run
is known to the log, so several servers share one without doing anything twice.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from taofold.agent.result import Happening
from taofold.core import events as e
from taofold.core.errors import Conflict, LogError, Refused, TaofoldError
from taofold.core.trace import opening
from taofold.core.values import Principal
from taofold.server.catalog import AnyAgent, Catalog
from taofold.server.gate import QUEUED, STOPPED, barrier
from taofold.server.hub import Hub
from taofold.store.log import Log, RunRow

MOST: Final = 200
"""Runs that are driven at once."""

_logger = logging.getLogger(__name__)

Drive = Callable[[AnyAgent, Callable[[Happening], None]], Awaitable[Any]]


class Worker:
    """The runs that this process drives."""

    def __init__(
        self,
        log: Log,
        catalog: Catalog,
        hub: Hub,
        *,
        current: Callable[[Principal], Principal],
        most: int = MOST,
    ) -> None:
        """`current` says which roles a run's principal has today."""
        self._log, self._catalog, self._hub, self._current = log, catalog, hub, current
        self._most = most
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._going: set[asyncio.Task[None]] = set()
        self._queue: deque[str] = deque()
        self._asked: dict[str, int] = {}
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
        return len(self._queue)

    def drives(self, run: str) -> bool:
        """Is the run driven here now?"""
        return run in self._tasks

    def due(self, now: int) -> bool:
        """Is there an approval whose time may be over?"""
        return any(at < now for at in self._asked.values())

    def forget_due(self, now: int) -> None:
        """What was due has been seen to."""
        self._asked = {run: at for run, at in self._asked.items() if at >= now}

    def expect(self, run: str, expires_at: int) -> None:
        """Remember when an approval of `run` expires; 0 = there is none any more."""
        if expires_at:
            self._asked[run] = min(expires_at, self._asked.get(run, expires_at))
        else:
            self._asked.pop(run, None)

    async def start(self, agent: AnyAgent, run: str, goal: str, **options: Any) -> None:
        """Start a run and return as soon as it is in the log.

        Raises:
            Conflict: its session has another run that has not ended, or its id is taken.
            ConfigError: it cannot be started so.
            Refused: the server stops.
        """
        if self.stopping:
            raise Refused("the server stops: ask another one, or ask again")
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def drive(known: AnyAgent, listener: Callable[[Happening], None]) -> Awaitable[Any]:
            def heard(happening: Happening) -> None:
                if not begun.done():
                    begun.set_result(None)
                listener(happening)

            return known.run(goal, run_id=run, listener=heard, **options)

        task = self._spawn(run, agent, drive, begun)
        await asyncio.wait({task, begun}, return_when=asyncio.FIRST_COMPLETED)
        if begun.done():
            begun.result()
        elif not task.cancelled():
            task.result()

    async def resume(self, run: str) -> None:
        """Carry on a run, in the background. If it is driven here, it will look again itself."""
        if self.stopping or run in self.stuck:
            return
        if run in self._tasks:
            self._again.add(run)
            return
        started = opening(await self._log.read(run, limit=1))
        if started is None or run in self._tasks:
            return
        try:
            agent = self._catalog.of(run, started)
        except TaofoldError as error:
            self._stuck(run, error)
            return
        principal = self._current(started.principal)

        def drive(known: AnyAgent, listener: Callable[[Happening], None]) -> Awaitable[Any]:
            return known.resume(run, principal=principal, listener=listener)

        self._spawn(run, agent, drive, None)

    def _spawn(
        self, run: str, agent: AnyAgent, drive: Drive, begun: "asyncio.Future[None] | None"
    ) -> "asyncio.Task[None]":
        if run in self._tasks:
            raise Conflict(f"there is already a run {run!r}")
        full = self.full
        task = asyncio.create_task(self._drive(run, agent, drive, begun, full=full))
        self._tasks[run] = task
        task.add_done_callback(lambda _: self._ended(run))
        return task

    async def _drive(
        self,
        run: str,
        agent: AnyAgent,
        drive: Drive,
        begun: "asyncio.Future[None] | None",
        *,
        full: bool,
    ) -> None:
        barrier.set(lambda: STOPPED if self.stopping else QUEUED if full else "")

        def listener(happening: Happening) -> None:
            self._notice(run, happening)
            self._hub.hear(run, happening)

        try:
            result = await drive(agent, listener)
            if result.status == "waiting" and result.stop_reason == QUEUED:
                self._queue.append(run)
        except (Conflict, Refused) as error:
            if begun is not None and not begun.done():
                begun.set_exception(error)
            else:
                _logger.info("run %s is not driven here: %s", run, error)
        except Exception as error:  # a run's failure is its own, and on its record
            if begun is not None and not begun.done():
                begun.set_exception(error)
            elif isinstance(error, LogError):
                _logger.warning("run %s was interrupted: %s", run, error)
            else:
                _logger.exception("run %s failed", run)
                self._stuck(run, error)

    def _notice(self, run: str, happening: Happening) -> None:
        event = happening.event if isinstance(happening, e.Record) else None
        if isinstance(event, e.Decided) and event.verdict == "ask":
            self.expect(run, event.expires_at)

    def _stuck(self, run: str, error: Exception) -> None:
        self.stuck[run] = str(error)
        _logger.warning("run %s cannot be continued here: %s", run, error)

    def _ended(self, run: str) -> None:
        self._tasks.pop(run, None)
        self._hub.forget(run)
        self._hub.poke(run)
        self.finished += 1
        if self.stopping:
            return
        again = run in self._again
        self._again.discard(run)
        if again:
            self._soon(run)
        elif self._queue and not self.full:
            self._soon(self._queue.popleft())

    def _soon(self, run: str) -> None:
        task = asyncio.get_running_loop().create_task(self._continued(run))
        self._going.add(task)
        task.add_done_callback(self._going.discard)

    async def _continued(self, run: str) -> None:
        """Resume a run that may have got on meanwhile."""
        with suppress(LogError):
            row = await self._log.row(run)
            if row.status == "waiting" and await wanted(self._log, row):
                await self.resume(run)

    async def stop(self, seconds: float) -> None:
        """Let every run come to a place where it can wait; cut off what takes longer."""
        self.stopping = True
        tasks = list(self._tasks.values())
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)


async def wanted(log: Log, row: RunRow) -> bool:
    """Has a waiting run something to do: its turn, or news from a person?"""
    if row.waiting_for in (QUEUED, STOPPED):
        return True
    if row.waiting_for == "expired":
        return True
    return any(signal.kind != "refused" for signal in await log.inbox(row.run))

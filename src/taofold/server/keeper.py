"""Looks after runs that nobody drives: expired approvals, decisions, what a crash left.

Everything it acts on is in the log, so it does not matter which process wrote it, or how
often it looks: whoever is second finds nothing to do.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from taofold.core import events as e
from taofold.core.errors import LogError, UnknownRun
from taofold.core.trace import opening
from taofold.runtime import owner, people
from taofold.server.catalog import Catalog
from taofold.server.gate import PARKED
from taofold.server.worker import Worker, wanted
from taofold.store.log import Log, RunRow

LOOK_S: Final = 1.0
"""Seconds between two looks at waiting runs."""
RECOVER_S: Final = 5.0
"""Seconds between two looks for runs whose process died."""
SWEEP_S: Final = 60.0
"""Seconds between two looks for approvals that another process asked for and that expired."""
_NEW_MS: Final = 10_000
_BREATH: Final = 20
INTERRUPTED: Final = "cancelled by interrupted"
"""How a run ends that was cut off because its server stopped."""

_logger = logging.getLogger(__name__)


class Keeper:
    """Continues what can be continued."""

    def __init__(
        self,
        log: Log,
        catalog: Catalog,
        worker: Worker,
        *,
        now: Callable[[], int],
        look_s: float = LOOK_S,
    ) -> None:
        self._log, self._catalog, self._worker, self._now = log, catalog, worker, now
        self._look_s = look_s
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Continue what an earlier server left, then keep looking."""
        await self._safely(self._begin)
        self._task = asyncio.create_task(self._loop())

    async def stop(self) -> None:
        """Look no more."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _loop(self) -> None:
        loop = asyncio.get_running_loop()
        recovered = swept = loop.time()
        while True:
            await asyncio.sleep(self._look_s)
            if self._worker.due(self._now()) or loop.time() - swept > SWEEP_S:
                swept = loop.time()
                await self._safely(self.sweep)
            await self._safely(self.look)
            if loop.time() - recovered > RECOVER_S:
                recovered = loop.time()
                await self._safely(self.recover)

    async def _safely(self, work: "Callable[[], object]") -> None:
        try:
            await work()  # type: ignore[misc]
        except LogError as error:
            _logger.warning("the log cannot be used now: %s", error)
        except Exception:
            _logger.exception("looking after the runs failed; trying again")

    async def _begin(self) -> None:
        await self.sweep()
        for row in await self._log.rows(status="waiting", limit=0):
            for one in people.pending_in(await self._log.read(row.run)):
                self._worker.expect(row.run, one.expires_at)
            await asyncio.sleep(0)
        await self.recover()
        for row in await self._log.rows(status="cancelled", limit=200):
            last = await self._log.read(row.run, after=row.events - 2)
            event = last[-1].event if last else None
            cut = isinstance(event, e.RunFinished) and event.error == INTERRUPTED
            if cut and not row.parent and await self._ours(row.run):
                await self._worker.resume(row.run)
        await self.look()

    async def sweep(self) -> None:
        """Close the approvals that nobody gave in time, and let their runs go on."""
        touched = await people.sweep(self._log, now=self._now)
        now = self._now()
        self._worker.forget_due(now)
        for run in touched:
            if await self._ours(run):
                await self._worker.resume(run)

    async def look(self) -> None:
        """Continue the waiting runs whose turn it is, or that a person has decided on."""
        rows = await self._log.rows(status="waiting", limit=0)
        for number, row in enumerate(rows):
            if number % _BREATH == 0:
                await asyncio.sleep(0)
            if self._worker.stopping or not await wanted(self._log, row):
                continue
            if row.waiting_for in PARKED and self._worker.full:
                continue  # it would only park again
            run = await root(self._log, row)
            if not self._worker.drives(run) and await self._ours(run):
                await self._worker.resume(run)

    async def recover(self) -> None:
        """Continue the runs whose process is gone."""
        for row in await self._log.rows(status="running", limit=0):
            if row.parent or self._worker.drives(row.run) or not self._abandoned(row):
                continue
            if not row.events:
                _logger.info("run %s was registered and never began", row.run)
                await self._log.delete(row.run)
            elif await self._ours(row.run):
                await self._worker.resume(row.run)
            await asyncio.sleep(0)

    def _abandoned(self, row: RunRow) -> bool:
        """Is it certain that nobody drives the run?"""
        old = self._now() - row.updated_at > _NEW_MS
        if not row.owner:
            return old
        if owner.mine(row.owner):
            return old
        return owner.alive(row.owner) is False

    async def _ours(self, run: str) -> bool:
        started = opening(await self._log.read(run, limit=1))
        return started is not None and self._catalog.ours(started)


async def root(log: Log, row: RunRow) -> str:
    """The run that nobody's call started: resuming it resumes its child runs."""
    while row.parent:
        try:
            row = await log.row(row.parent)
        except UnknownRun:
            break
    return row.run

"""The seam of engines: anything that has runs advanced; and the one that drives nothing itself.

Anything that passes `taofold.testing.engine_conformance` is an engine.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import Any, Protocol, TypeAlias

from taofold.core.errors import Conflict, LogError, Refused, TaofoldError, UnknownRun
from taofold.log.log import AT_ONCE, Log
from taofold.runtime import owner
from taofold.runtime.endings import QUEUED, Advanced
from taofold.runtime.lease import HEART
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
    advance: Advance, run: str, pause: Pause, stuck: dict[str, str]
) -> Advanced | None:
    """What came of advancing `run`; None if it could not be.

    Why it cannot be is kept in `stuck` unless it may pass: another owner, the log out of reach.
    """
    try:
        return await advance(run, pause)
    except (Conflict, Refused, UnknownRun) as error:
        _logger.info("run %s is not driven here: %s", run, error)
    except LogError as error:
        _logger.warning("run %s was interrupted: %s", run, error)
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
    if row.status == "running" and owner.mine(row.owner) and not HEART.drives(log, run):
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

"""Writes whose answer was lost: `CertainLog` determines whether they happened.

A connection may break after the server has committed, and the client then does not know the
outcome. A blind retry could be refused because the data exists already, or could hide another
process's write. So the log is read first; it holds everything that is needed: epochs, heads, and
ids of messages.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from taofold.core.errors import Conflict, LogError, OutcomeUnknown, UnknownRun
from taofold.core.events import Record
from taofold.log.log import Claim, Log, RunRow, Signal, WrappedLog, overtaken

T = TypeVar("T")

PAUSES_S: Final = (0.05, 0.2, 0.5, 1.0, 2.0, 4.0)
"""Pauses in seconds before each check of a write's outcome, and each further attempt."""


class CertainLog(WrappedLog):
    """A wrapper of `log` whose writes have a certain outcome when they return.

    A log that can lose the answer to a write (one behind a network) is opened behind this. If the
    outcome stays unknown for some seconds, the caller gets `OutcomeUnknown`. The run's owner then
    stops, its lease expires, and the next owner reads the actual state.
    """

    def __init__(self, log: Log, *, pauses_s: Sequence[float] = PAUSES_S) -> None:
        super().__init__(log)
        self._pauses_s = tuple(pauses_s)

    def __getattr__(self, name: str) -> Any:
        """Returns an attribute of the log beyond the protocol."""
        return getattr(self.log, name)

    async def create(
        self,
        row: RunRow,
        *,
        records: Sequence[Record] = (),
        owner: str = "",
        **named: Any,
    ) -> Claim:
        """Registers a run; an existing one is ours if it equals the intended one."""

        async def attempt() -> Claim:
            return await super(CertainLog, self).create(row, records=records, owner=owner, **named)

        async def found() -> Claim | None:
            try:
                # Time and owner distinguish it from another process's run with that name.
                there = await self.log.row(row.run)
            except UnknownRun:
                return None
            # Milliseconds, owner, epoch and the number of records together are unique to this call.
            expected = (row.goal, row.agent, row.created_at, owner, 1 if owner else 0, len(records))
            got = (there.goal, there.agent, there.created_at, there.owner, there.epoch)
            if (*got, there.events) != expected:
                raise Conflict(f"there is already a run {row.run!r}; choose another id")
            return Claim(there.epoch)

        return await self._certain(attempt, found)

    async def claim(self, run: str, owner: str, *, epoch: int | None = None, **named: Any) -> Claim:
        """Makes `owner` the owner; a claim whose answer was lost is recognised."""

        async def attempt() -> Claim:
            return await super(CertainLog, self).claim(run, owner, epoch=epoch, **named)

        async def found() -> Claim | None:
            if epoch is None:  # a further claim is as good as the lost one
                return None
            row = await self.log.row(run)
            if row.epoch == epoch:
                return None
            # Exactly one claim later and ours: it is the one whose answer was lost.
            if row.owner == owner and row.epoch == epoch + 1:
                return Claim(row.epoch)
            raise Conflict(overtaken(run, row.epoch, epoch))

        return await self._certain(attempt, found)

    async def append(self, run: str, epoch: int, records: Sequence[Record], **named: Any) -> bool:
        """Writes the records once. A write without records may be repeated: it is idempotent."""

        async def attempt() -> bool:
            return await super(CertainLog, self).append(run, epoch, records, **named)

        async def found() -> bool | None:
            row = await self.log.row(run)
            if row.epoch != epoch:
                raise Conflict(overtaken(run, row.epoch, epoch))
            # Only the owner writes under its epoch, so existing records are ours. Without records
            # there is no trace to find: the same row is simply written again.
            return True if records and row.events > records[-1].seq else None

        return await self._certain(attempt, found)

    async def post(self, run: str, signal: Signal) -> bool:
        """Puts `signal` in the inbox once; one whose answer was lost still counts as new."""

        async def attempt() -> bool:
            return await super(CertainLog, self).post(run, signal)

        async def found() -> bool | None:
            # Compared as a whole: another message that took the same id first is not ours.
            return True if signal in await self.log.inbox(run) else None

        return await self._certain(attempt, found)

    async def _certain(
        self, attempt: Callable[[], Awaitable[T]], found: Callable[[], Awaitable[T | None]]
    ) -> T:
        """Returns the outcome of `attempt`, found in the log if its answer was lost."""
        try:
            return await attempt()
        except OutcomeUnknown as error:
            unknown: LogError = error
        for pause in self._pauses_s:
            await asyncio.sleep(pause)
            try:
                outcome = await found()
                # Only after it is certain that the first attempt did not happen.
                return await attempt() if outcome is None else outcome
            # A real answer, and no reason to try again.
            except (Conflict, UnknownRun):
                raise
            except LogError as error:  # it cannot be reached yet
                unknown = error
        raise OutcomeUnknown(
            f"it is unknown whether a write happened: {unknown}. Resume the run when the "
            "log can be reached again"
        ) from unknown

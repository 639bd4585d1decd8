"""The stream of one loop in a journal: read, append, and detect other writers.

Also lists the loops (`ids`), and detects a loop without a driver (`lost`). Other processes append
too: a user injects lessons (`inject`), aborts, or takes over. The driver of the loop notices it at
its next write or poll, and decides again. Its lease, which runs have too
(`taofold.runtime.ownership`), or its process shows that a driver is alive.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from taofold.clocks import clock
from taofold.core.errors import Conflict, LogError, Refused, UnknownRun
from taofold.log.journal import Journal, StreamRow
from taofold.loop import events as loop_events
from taofold.loop.state import START, LoopState, fold
from taofold.loop.values import DRIVEN, Lessons
from taofold.runtime import ownership
from taofold.runtime.inbox import environment_redactor
from taofold.runtime.ownership import HEART, LEASE_MS

Heard = Callable[[loop_events.LoopRecord], None]
"""Receives every fact that this process wrote or read."""

_COURSE: Final = (
    loop_events.LoopEnded,
    loop_events.LoopCrashed,
    loop_events.LoopPaused,
    loop_events.LoopResumed,
)


class Overtaken(Conflict):
    """Another process ended the loop, or drives it now."""


class LoopStream:
    """One loop's facts and their folded state."""

    def __init__(
        self,
        journal: Journal,
        loop: str,
        *,
        now: Callable[[], int] = clock,
        heard: Heard | None = None,
    ) -> None:
        self.journal, self.loop, self.now, self.heard = journal, loop, now, heard
        self.state: LoopState = START
        self.records: list[loop_events.LoopRecord] = []
        self._lock = asyncio.Lock()
        self._redactor = environment_redactor()
        # Sequence numbers: this driver's start, and the last foreign fact about the course.
        self._mine = self._foreign = -1

    @property
    def name(self) -> str:
        """Its name in the journal."""
        return f"{loop_events.PREFIX}{self.loop}"

    async def read(self) -> LoopState:
        """Reads new facts.

        Raises:
            LogError: A fact cannot be read, or contradicts the ones before it.
        """
        async with self._lock:
            return await self._read()

    async def _read(self) -> LoopState:
        for fact in await self.journal.facts(self.name, after=self.state.head):
            try:
                record = loop_events.LoopRecord(fact.seq, fact.at, loop_events.decode(fact.body))
                self._take(record, fold([record], self.state))
                # Only facts of other processes come through here; `append` handles its own.
                if isinstance(record.event, _COURSE):
                    self._foreign = record.seq
            except (ValueError, Refused) as error:
                raise LogError(f"fact {fact.seq} of loop {self.loop!r}: {error}") from error
        return self.state

    async def append(self, *events: loop_events.LoopEvent, disk: bool = False) -> LoopState:
        """Writes `events` in one transaction.

        Raises:
            Refused: The loop's state does not allow them.
            Conflict: Another process wrote first. Nothing was written; its facts were read.
        """
        async with self._lock:
            return await self._append(events, disk=disk)

    async def _append(self, events: Sequence[loop_events.LoopEvent], *, disk: bool) -> LoopState:
        # Clocks of two machines differ: time in a stream never goes back.
        at = max(self.now(), self.state.at)
        head = self.state.head
        records = [
            loop_events.LoopRecord(head + 1 + n, at, event) for n, event in enumerate(events)
        ]
        states: list[LoopState] = []
        # Folded before anything is written, so that an invalid fact refuses the whole batch.
        for record in records:
            states.append(fold([record], states[-1] if states else self.state))
        facts = [(at, loop_events.encode_redacted(event, self._redactor)) for event in events]
        try:
            await self.journal.write(
                self.name, head, facts, disk=disk, owner=_driver(events), lease_ms=LEASE_MS
            )
        # Another process wrote first. Its facts are read before the caller decides again.
        except Conflict:
            await self._read()
            raise
        for record, state in zip(records, states, strict=True):
            self._take(record, state)
        return self.state

    async def record(
        self, owner: str, *events: loop_events.LoopEvent, disk: bool = False
    ) -> LoopState:
        """Appends for the driving process; ignores conflicts that leave the loop with it.

        Raises:
            Overtaken: The loop was ended, or another process drives it.
        """
        while True:
            self.hold(owner)
            try:
                return await self.append(*events, disk=disk)
            except Conflict:
                continue

    def begin(self) -> None:
        """From now on, other writers' facts about the loop's course take it away."""
        self._mine = self.state.head

    def hold(self, owner: str) -> None:
        """Checks that `owner` still drives the loop.

        Raises:
            Overtaken: It does not.
        """
        state = self.state
        if state.owner != owner:
            raise Overtaken(f"loop {self.loop!r} is driven by another process now")
        if self._foreign > self._mine:
            by = f" by {state.ended.by}" if state.ended is not None else ""
            raise Overtaken(f"loop {self.loop!r} was set to {state.status}{by} in the meantime")

    def _take(self, record: loop_events.LoopRecord, state: LoopState) -> None:
        self.state = state
        self.records.append(record)
        if self.heard is not None:
            self.heard(record)

    @asynccontextmanager
    async def driving(self) -> AsyncGenerator[None]:
        """Keeps the lease of the loop during the block, then releases it."""
        with HEART.driving(self.journal, self.name):
            try:
                yield
            finally:
                await asyncio.to_thread(HEART.release, self.journal, self.name)


def _driver(events: Sequence[loop_events.LoopEvent]) -> str:
    """Returns the driver of the loop after these facts, "" if they do not change it."""
    owners = [
        event.owner
        for event in events
        if isinstance(event, loop_events.LoopStarted | loop_events.LoopResumed)
    ]
    return owners[-1] if owners else ""


async def load(journal: Journal, loop: str, now: Callable[[], int] = clock) -> LoopStream:
    """Returns the stream of an existing loop.

    Raises:
        UnknownRun: There is none with this id.
    """
    stream = LoopStream(journal, loop, now=now)
    await stream.read()
    if stream.state.head < 0:
        raise UnknownRun(f"there is no loop {loop!r}")
    return stream


async def ids(journal: Journal) -> Sequence[str]:
    """Returns every loop's id, the newest first."""
    return [
        row.stream.removeprefix(loop_events.PREFIX)
        for row in await journal.streams(loop_events.PREFIX)
    ]


async def inject(journal: Journal, loop: str, lessons: Lessons, by: str = "local") -> int:
    """Adds lessons to a loop on a user's request; returns the first iteration to read them
    (XTL-30).

    Raises:
        UnknownRun: There is no such loop.
        Refused: It has no next iteration.
    """
    stream = await load(journal, loop)
    while True:
        number = len(stream.state.iterations) + 1
        event = loop_events.LessonsInjected(number=number, lessons=lessons, by=by, manual=True)
        try:
            await stream.append(event)
        except Conflict:
            continue
        return number


def lost(journal: Journal, state: LoopState, row: StreamRow | None, now: int) -> str:
    """Returns why no process drives the loop any more; "" if one does, or none should."""
    # A loop that waits or has ended needs no process.
    if state.status not in DRIVEN:
        return ""
    # For this process it is known: its heartbeat renews the lease, or it has released it.
    if row is not None and ownership.mine(state.owner):
        return "" if HEART.drives(journal, row.stream) else "this process has let it go"
    # Only a process of this machine can be checked; for others the lease is the only sign.
    if ownership.alive(state.owner) is False:
        return "the process that drove it is gone"
    if row is not None and row.held:
        return ""
    silent = max(0, now - (row.lease_until if row is not None else state.at)) / 1000
    return f"no sign of life: the lease of its process has been over for {silent:.0f} s"


def suspended(state: LoopState) -> bool:
    """Returns whether the loop's process certainly exists, even without a heartbeat."""
    return ownership.alive(state.owner) is True and not ownership.mine(state.owner)

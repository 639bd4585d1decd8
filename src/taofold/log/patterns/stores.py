"""Where a registry of patterns is kept: in the log's SQLite file, or in a journal in memory.

The facts are the truth, in the stream `patterns`; the tables beside them are written in the
same transaction. Two processes take turns, so every event of both counts.
"""

import asyncio
import os
import sqlite3
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from taofold.core.errors import Conflict, LogError
from taofold.learning.events import (
    STREAM,
    LearningEvent,
    PatternDiscovered,
    PatternImported,
    PatternMerged,
    SearchSettled,
    decode,
    encode,
)
from taofold.learning.fold import step
from taofold.learning.patterns.pattern import Pattern
from taofold.learning.registry import Registry
from taofold.learning.state import View, Writing
from taofold.log.journal import Fact, Journal, MemoryJournal
from taofold.log.log import Log
from taofold.log.open import innermost, journal_beside
from taofold.log.patterns import tables
from taofold.log.sqlite import journal as journals
from taofold.log.sqlite.file import SqliteFile, full_sync
from taofold.log.sqlite.log import SqliteLog
from taofold.policy.redaction import Redactor

T = TypeVar("T")

_CHUNK: Final = 2000
_TRIES: Final = 100
_HANDLES: Final = frozenset({"e", "loop", "id", "shown", "month"})
"""Fields of an event by which things are found again; all others are prose, or hold some."""


def now() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def open_registry(
    path: str | Path,
    *,
    adopt: bool = False,
    now: Callable[[], int] = now,
) -> Registry:
    """The registry in the log's file, made if it is missing; "memory" for one that passes.

    Raises:
        LogError: the file cannot be used; the message says why.
    """
    if str(path) == "memory":
        return memory_registry(now=now)
    book = SqliteBook(Path(str(path).removeprefix("sqlite:")), adopt=adopt)
    book.open()
    return Registry(book, now)


def memory_registry(
    journal: Journal | None = None,
    *,
    now: Callable[[], int] = now,
) -> Registry:
    """A registry that is folded in memory, from a journal's facts if one is given."""
    return Registry(JournalBook(journal or MemoryJournal()), now)


def registry_beside(log: Log) -> Registry:
    """The registry of patterns in the log's file or database.

    In a database its state is folded in memory from the facts, which others write too.
    """
    inner = innermost(log)
    if isinstance(inner, SqliteLog):
        return open_registry(inner.path)
    return memory_registry(journal_beside(log))


class SqliteBook:
    """The registry's facts and tables in one SQLite file. Opened at the first use."""

    def __init__(self, path: Path, *, wait_s: float = 5.0, adopt: bool = False) -> None:
        self._file = SqliteFile(path, wait_s=wait_s, adopt=adopt, max_bytes=0, sync=full_sync)
        self._faults: list[str] = []

    def open(self) -> None:
        """Open the file, or create it, now. Blocks."""
        self._file.open()

    async def read(self, work: Callable[[View], T]) -> T:
        """The result of `work`; the tables are brought up to date before."""

        def look(db: sqlite3.Connection) -> tuple[bool, T | None]:
            # A reader may not write: the tables are brought up to date in a transaction that may.
            if tables.position(db) != journals.head(db, STREAM):
                return False, None
            return True, work(tables.Tables(db))

        def renew(db: sqlite3.Connection) -> T:
            self._catch_up(db)
            return work(tables.Tables(db))

        fresh, result = await self._file.read(look)
        return result if fresh else await self._file.write(renew)  # type: ignore[return-value]

    async def write(self, work: Callable[[Writing], T], at: int) -> T:
        """The result of `work`, its events in one transaction with it."""

        def change(db: sqlite3.Connection) -> T:
            # Inside the writer's lock: the fold below sees every event of the other process.
            head = self._catch_up(db)
            tx = _Change(db, at)
            result = work(tx)
            if tx.events:
                facts = [(at, encode(event)) for event in tx.events]
                # Facts and tables move in one transaction: after a crash both
                # are old or both are new.
                tables.set_position(db, journals.append(db, STREAM, head, facts))
            return result

        return await self._file.write(change)

    async def faults(self) -> list[str]:
        """Facts that cannot be read."""
        facts = await self._file.read(lambda db: journals.read(db, STREAM, -1, -1))
        return [fault for fact in facts if (fault := _fault(fact))]

    async def close(self) -> None:
        """Let go of the file."""
        await asyncio.to_thread(self._file.close)

    def _catch_up(self, db: sqlite3.Connection) -> int:
        """Bring the tables up to the last fact; returns its number."""
        head = journals.head(db, STREAM)
        position = tables.position(db)
        # Ahead of the facts: the file was replaced by an older copy.
        if position is None or position > head:
            tables.build(db)
            position = -1
        if position == head:
            return head
        view = tables.Tables(db)
        while facts := journals.read(db, STREAM, position, _CHUNK):
            for fact in facts:
                event = _event(fact)
                # A damaged fact changes nothing, but its number counts: the
                # position goes on behind it.
                if event is not None:
                    view.keep(step(view, event, fact.at))
            position = facts[-1].seq
        tables.set_position(db, head)
        return head


class _Change(tables.Tables):
    """The tables in a writer's transaction: `emit` applies an event and collects it in `events`."""

    def __init__(self, db: sqlite3.Connection, at: int) -> None:
        super().__init__(db)
        self._at = at
        self._redactor = Redactor(Redactor.secrets_in(os.environ))
        self.events: list[LearningEvent] = []

    def clean(self, pattern: Pattern) -> Pattern:
        """The pattern without the secrets in what it says."""
        # Raises if nothing is left that is a pattern: then nothing is kept.
        cleaned = msgspec.convert(self._redactor.json(msgspec.to_builtins(pattern)), Pattern)
        return msgspec.structs.replace(cleaned, id=pattern.id)

    def emit(self, event: LearningEvent) -> None:
        """Note the event, without the secrets in its texts, and what it changes."""
        event = self._cleaned(event)
        self.events.append(event)
        self.keep(step(self, event, self._at))

    def _cleaned(self, event: LearningEvent) -> LearningEvent:
        if isinstance(event, SearchSettled):
            return event  # digests and numbers
        fields = {
            name: value if name in _HANDLES else self._redactor.json(value)
            for name, value in msgspec.to_builtins(event).items()
        }
        if isinstance(event, PatternDiscovered | PatternMerged | PatternImported):
            fields["pattern"] = self.clean(event.pattern)
        return msgspec.convert(fields, type(event))


class JournalBook:
    """The registry's facts in any journal; the tables lie in memory and are folded from them."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        # One fold at a time: `_catch_up` awaits between reading the facts and applying them.
        self._lock = asyncio.Lock()
        # Transactions are begun by hand; the server and its workers use one registry.
        self._db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        # Python warns of a connection that is collected open, and a registry need not be closed.
        weakref.finalize(self, self._db.close)
        tables.build(self._db)
        self._head = -1

    async def read(self, work: Callable[[View], T]) -> T:
        """The result of `work` on what the journal holds now."""
        async with self._lock:
            await self._catch_up()
            return work(tables.Tables(self._db))

    async def write(self, work: Callable[[Writing], T], at: int) -> T:
        """The result of `work`; run again if somebody else wrote meanwhile."""
        async with self._lock:
            for _ in range(_TRIES):
                await self._catch_up()
                self._db.execute("begin")
                try:
                    tx = _Change(self._db, at)
                    result = work(tx)
                    facts = [(at, encode(event)) for event in tx.events]
                    self._head = await self._journal.write(STREAM, self._head, facts)
                except Conflict:
                    # What `work` did to the tables in memory was never written.
                    self._db.execute("rollback")
                except BaseException:
                    self._db.execute("rollback")
                    raise
                else:
                    self._db.execute("commit")
                    return result
        raise LogError(f"the registry could not be written: {_TRIES} times somebody was quicker")

    async def faults(self) -> list[str]:
        """Facts that cannot be read."""
        return [fault for fact in await self._journal.facts(STREAM) if (fault := _fault(fact))]

    async def close(self) -> None:
        """Nothing to let go of: the journal is its owner's."""

    async def _catch_up(self) -> None:
        view = tables.Tables(self._db)
        for fact in await self._journal.facts(STREAM, after=self._head):
            event = _event(fact)
            if event is not None:
                view.keep(step(view, event, fact.at))
            self._head = fact.seq


def _event(fact: Fact) -> LearningEvent | None:
    """The event in a fact; a damaged one is left out, and told by `faults`."""
    try:
        return decode(fact.body)
    except (msgspec.DecodeError, ValueError):
        return None


def _fault(fact: Fact) -> str:
    try:
        decode(fact.body)
    except (msgspec.DecodeError, ValueError) as error:
        return f"fact {fact.seq} of {STREAM!r} is damaged and was left out: {error}"
    return ""

"""Storage of a pattern registry: in the log's SQLite file, or in memory from a journal.

The facts, in the stream `patterns`, are authoritative. `Tables` are written in the same transaction
so that the start of a loop need not fold the facts: patterns, notes about loops, rates of edits,
and a searched index of terms (FTS5). A journal's facts, as in PostgreSQL, are folded into such
tables in memory. Two processes take turns, so every event of both counts. `taofold.learning`
defines the events and the fold.
"""

import asyncio
import os
import platform
import re
import sqlite3
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from taofold.clocks import clock
from taofold.core.errors import Conflict, LogError
from taofold.learning.book import View, Writing
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
from taofold.learning.extraction.hosts import hosts_removed
from taofold.learning.fold import Changes, step
from taofold.learning.loops import LoopNote, LoopStats
from taofold.learning.patterns.pattern import Pattern, Rate
from taofold.learning.rates import MOST_KEYS, EditRates
from taofold.learning.registry import Registry
from taofold.learning.retrieval.index import POOL, PatternHit, entry
from taofold.log.journal import Fact, Journal, MemoryJournal
from taofold.log.log import Log
from taofold.log.open import innermost, journal_beside
from taofold.log.sqlite import journal as journals
from taofold.log.sqlite.file import SqliteFile, full_sync
from taofold.log.sqlite.log import SqliteLog
from taofold.policy.redaction import Redactor

T = TypeVar("T")

_CHUNK: Final = 2000
_TRIES: Final = 100
_HANDLES: Final = frozenset({"e", "loop", "id", "shown", "month", "project"})
"""Fields of an event that identify things; all others are prose, or hold some."""


def open_registry(
    path: str | Path,
    *,
    now: Callable[[], int] = clock,
) -> Registry:
    """Returns the registry in the log's file, created if missing; "memory" for a transient one.

    Raises:
        LogError: The file cannot be used; the message has the reason.
    """
    if str(path) == "memory":
        return memory_registry(now=now)
    book = SqliteBook(Path(str(path).removeprefix("sqlite:")))
    book.open()
    return Registry(book, now)


def memory_registry(
    journal: Journal | None = None,
    *,
    now: Callable[[], int] = clock,
) -> Registry:
    """Returns a registry folded in memory, from a journal's facts if one is given."""
    return Registry(JournalBook(journal or MemoryJournal()), now)


def registry_beside(log: Log) -> Registry:
    """Returns the registry of patterns in the log's file or database.

    In a database its state is folded in memory from the facts, which other processes write too.
    """
    inner = innermost(log)
    if isinstance(inner, SqliteLog):
        return open_registry(inner.path)
    return memory_registry(journal_beside(log))


TERMS: Final = 32
"""Maximum number of words of a query that are searched, the rarest first."""
MOST_POSTINGS: Final = 2_500
"""Maximum number of pattern entries of the searched words together."""
FORM: Final = 15
"""Version of these tables. Raise it when they, their words, or the result of a fold change."""

TABLES: Final = (
    """create table if not exists pattern_rows(
        number integer primary key autoincrement, id text not null unique, month text,
        said blob not null, stems text, body blob not null)""",
    "create index if not exists pattern_said on pattern_rows(said)",
    # An index only: the words are in pattern_rows, where a deletion from the index needs them.
    """create virtual table if not exists pattern_words using fts5(
        words, content='',
        tokenize="unicode61 remove_diacritics 0 tokenchars '_='")""",
    "create table if not exists pattern_terms(term text primary key, rows integer not null) "
    "without rowid",
    "create table if not exists pattern_loops(number integer primary key autoincrement, "
    "loop text not null unique, note blob not null)",
    "create table if not exists pattern_rates(key text primary key, wins real not null, "
    "expected real not null) without rowid",
    "create index if not exists pattern_best on pattern_rates(wins, expected)",
    "create table if not exists pattern_state(key text primary key, value) without rowid",
)
_MADE: Final = (  # virtual ones first: they remove the tables that they consist of
    "select name from sqlite_master where type = 'table' and name glob 'pattern_*' "
    "order by rootpage"
)
_HAS: Final = "select 1 from sqlite_master where name = 'pattern_state'"
_SET: Final = "insert or replace into pattern_state values(?, ?)"
_PUT: Final = (
    "insert into pattern_rows(id, month, said, stems, body) values(?1, ?2, ?3, ?4, ?5) "
    "on conflict(id) do update set month = ?2, said = ?3, stems = ?4, body = ?5"
)
_ENTRY: Final = "select number, stems from pattern_rows where id = ?"
_TELLING: Final = (
    "select key, wins, expected from pattern_rates order by wins desc, expected desc limit ?"
)
_RATES: Final = (
    "select key, wins, expected from pattern_rates where key in (select value from json_each(?))"
)
# FTS5 without content needs the indexed text for a deletion.
_UNINDEX: Final = "insert into pattern_words(pattern_words, rowid, words) values('delete', ?, ?)"
_INDEX: Final = "insert into pattern_words(rowid, words) values(?, ?)"
_COUNT: Final = (
    "insert into pattern_terms values(?1, ?2) on conflict(term) do update set rows = rows + ?2"
)
_SEARCH: Final = (  # `rank` is BM25
    "select id, stems from pattern_rows natural join "
    "(select rowid as number, rank as score from pattern_words where pattern_words match ? "
    "order by rank, rowid limit ?) order by score, number"
)
_NOTE: Final = (
    "insert into pattern_loops(loop, note) values(?1, ?2) on conflict(loop) do update set note = ?2"
)

_PLAIN: Final = re.compile("[a-z0-9_=]+")

_PATTERN: Final[msgspec.json.Decoder[Pattern]] = msgspec.json.Decoder(Pattern)
_LOOP: Final[msgspec.json.Decoder[LoopNote]] = msgspec.json.Decoder(LoopNote)
_STATS: Final[msgspec.json.Decoder[LoopStats]] = msgspec.json.Decoder(LoopStats)
_COSTS: Final[msgspec.json.Decoder[list[float]]] = msgspec.json.Decoder(list[float])
_ENCODE: Final = msgspec.json.Encoder().encode


def position(db: sqlite3.Connection) -> int | None:
    """Returns the number of the last fact in the tables; None if they must be built."""
    if db.execute(_HAS).fetchone() is None:
        return None
    stored = dict(db.execute("select key, value from pattern_state where key in ('form', 'head')"))
    return stored.get("head", -1) if stored.get("form") == FORM else None


def build(db: sqlite3.Connection) -> None:
    """Creates the tables, empty. Those of other releases are dropped."""
    for (name,) in db.execute(_MADE).fetchall():
        db.execute(f"drop table if exists {name}")
    for statement in TABLES:
        db.execute(statement)
    db.execute(_SET, ("form", FORM))
    db.execute(_SET, ("head", -1))


def set_position(db: sqlite3.Connection, head: int) -> None:
    """Records that everything up to fact `head` is in the tables."""
    db.execute(_SET, ("head", head))


class Tables:
    """The registry's state in an open database: the queries of commands."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def pattern(self, identity: str) -> Pattern | None:
        """Returns the pattern in the registry."""
        return self._body("select body from pattern_rows where id = ? and month is null", identity)

    def archived(self, identity: str) -> Pattern | None:
        """Returns the pattern in the archive."""
        return self._body(
            "select body from pattern_rows where id = ? and month is not null", identity
        )

    def loop(self, loop: str) -> LoopNote | None:
        """Returns the note about the loop."""
        row = self._db.execute("select note from pattern_loops where loop = ?", (loop,)).fetchone()
        return _LOOP.decode(row[0]) if row else None

    def rates(self, keys: Iterable[str] | None = None) -> EditRates:
        """Returns the success rates of edits with these keys, or the most informative of all."""
        if keys is None:
            rows = self._db.execute(_TELLING, (MOST_KEYS,))
        else:
            rows = self._db.execute(_RATES, (_ENCODE([*keys]).decode(),))
        by_key = {key: Rate(*counts) for key, *counts in rows}
        costs: bytes | None = self._state("costs")
        return EditRates(by_key, tuple(_COSTS.decode(costs))) if costs else EditRates(by_key)

    def stats(self) -> LoopStats:
        """Returns the sums."""
        body: bytes | None = self._state("stats")
        return _STATS.decode(body) if body else LoopStats()

    def patterns(self) -> Iterator[Pattern]:
        """Returns the registry's patterns, the oldest first."""
        rows = self._db.execute("select body from pattern_rows where month is null order by number")
        return (_PATTERN.decode(row[0]) for row in rows)

    def archive(self) -> Iterator[tuple[Pattern, str]]:
        """Returns the archived patterns, each with its month."""
        rows = self._db.execute(
            "select body, month from pattern_rows where month is not null order by number"
        )
        return ((_PATTERN.decode(row[0]), row[1]) for row in rows)

    def loops(self) -> Iterator[LoopNote]:
        """Returns the notes about loops, the oldest first."""
        rows = self._db.execute("select note from pattern_loops order by number")
        return (_LOOP.decode(row[0]) for row in rows)

    def ids(self, prefix: str) -> list[str]:
        """Returns the used ids that start with `prefix`."""
        rows = self._db.execute(
            # The last code point of Unicode: no id with the prefix sorts after it.
            "select id from pattern_rows where id >= ?1 and id < ?1 || char(1114111)",
            (prefix,),
        )
        return [row[0] for row in rows]

    def same(self, pattern: Pattern) -> str:
        """Returns the id of a pattern with identical content, preferring unarchived ones."""
        row = self._db.execute(
            "select id from pattern_rows where said = ? order by month is not null, number",
            (_content_digest(pattern),),
        ).fetchone()
        return row[0] if row else ""

    def search(self, terms: Sequence[str]) -> list[PatternHit]:
        """Returns patterns with the rarest of `terms`, the most similar first."""
        query = " OR ".join([f'"{_token(term)}"' for term in self._rarest(terms)])
        rows = self._db.execute(_SEARCH, (query, POOL)) if query else ()
        return [PatternHit(*row) for row in rows]

    def _rarest(self, terms: Sequence[str]) -> list[str]:
        """Returns the searched terms: the rarest of those that occur."""
        distinct = list(dict.fromkeys(terms))
        marks = ",".join("?" * len(distinct))
        rows = self._db.execute(
            f"select term, rows from pattern_terms where term in ({marks}) and rows > 0",  # noqa: S608 - marks only
            distinct,
        )
        counts: dict[str, int] = dict(rows.fetchall())
        there = sorted([term for term in distinct if term in counts], key=counts.__getitem__)
        left = MOST_POSTINGS
        chosen: list[str] = []
        for term in there[:TERMS]:
            left -= counts[term]
            # The rarest word is always searched.
            if left < 0 and chosen:
                break
            chosen.append(term)
        return chosen

    def fold(self, facts: Iterable[Fact]) -> None:
        """Writes the changes of the facts. A damaged one is skipped, and reported by `faults`."""
        for fact in facts:
            try:
                event = decode(fact.body)
            except (msgspec.DecodeError, ValueError):
                continue
            self.keep(step(self, event, fact.at))

    def keep(self, changes: Changes) -> None:
        """Writes the changes of an event."""
        for pattern in changes.patterns:
            self._put(pattern, None)
        if changes.archived is not None:
            self._put(*changes.archived)
        if changes.loop is not None:
            self._db.execute(_NOTE, (changes.loop.loop, _ENCODE(changes.loop)))
        if changes.rates is not None:
            self._db.executemany(
                "insert or replace into pattern_rates values(?, ?, ?)",
                [(key, rate.wins, rate.expected) for key, rate in changes.rates.by_key.items()],
            )
            self._db.execute(_SET, ("costs", _ENCODE(changes.rates.costs)))
        if changes.stats is not None:
            self._db.execute(_SET, ("stats", _ENCODE(changes.stats)))

    def _put(self, pattern: Pattern, month: str | None) -> None:
        """Writes a pattern, and updates the search index unless it is archived."""
        row = self._db.execute(_ENTRY, (pattern.id,)).fetchone()
        new = entry(pattern) if month is None else None
        values = (pattern.id, month, _content_digest(pattern), new, _ENCODE(pattern))
        inserted = self._db.execute(_PUT, values).lastrowid
        number, old = row or (inserted, None)
        # Most changes of a pattern are counters, which the search does not use.
        if old == new:
            return
        change: Counter[str] = Counter()
        if old is not None:
            self._db.execute(_UNINDEX, (number, _tokens(old)))
            change.subtract(set(old.split()))
        if new is not None:
            self._db.execute(_INDEX, (number, _tokens(new)))
            change.update(set(new.split()))
        self._db.executemany(_COUNT, [(term, n) for term, n in change.items() if n])

    def _body(self, statement: str, identity: str) -> Pattern | None:
        row = self._db.execute(statement, (identity,)).fetchone()
        return _PATTERN.decode(row[0]) if row else None

    def _state(self, key: str) -> Any:
        row = self._db.execute("select value from pattern_state where key = ?", (key,)).fetchone()
        return row[0] if row else None


def _tokens(words: str) -> str:
    return " ".join(map(_token, words.split()))


def _token(term: str) -> str:
    """Returns the term in a form that FTS5 splits in the same way as taofold.

    A rule's name such as `no-undef` would be two words to FTS5, and an error in a query.
    """
    return term if _PLAIN.fullmatch(term) else f"=x{term.encode().hex()}"


def _content_digest(pattern: Pattern) -> bytes:
    """Returns a digest of the pattern's content."""
    return blake2b(_ENCODE((pattern.name, pattern.body)), digest_size=16).digest()


class SqliteBook:
    """The registry's facts and tables in one SQLite file. Opened at the first use."""

    def __init__(self, path: Path) -> None:
        self._file = SqliteFile(path, wait_s=5.0, adopt=False, max_bytes=0, sync=full_sync)

    def open(self) -> None:
        """Opens the file, or creates it, now. Blocks."""
        self._file.open()

    async def read(self, work: Callable[[View], T]) -> T:
        """Returns the result of `work`; the tables are updated before."""

        def look(db: sqlite3.Connection) -> tuple[bool, T | None]:
            # A reader may not write: the tables are updated in a separate write transaction.
            if position(db) != journals.head(db, STREAM):
                return False, None
            return True, work(Tables(db))

        def renew(db: sqlite3.Connection) -> T:
            self._catch_up(db)
            return work(Tables(db))

        fresh, result = await self._file.read(look)
        return result if fresh else await self._file.write(renew)  # type: ignore[return-value]

    async def write(self, work: Callable[[Writing], T], at: int) -> T:
        """Returns the result of `work`, with its events in one transaction."""

        def change(db: sqlite3.Connection) -> T:
            # Inside the writer's lock: the fold below sees every event of the other process.
            head = self._catch_up(db)
            tx = _Change(db, at)
            result = work(tx)
            if tx.events:
                facts = [(at, encode(event)) for event in tx.events]
                # Facts and tables change in one transaction: after a crash both are old or both are
                # new.
                set_position(db, journals.append(db, STREAM, head, facts))
            return result

        return await self._file.write(change)

    async def faults(self) -> list[str]:
        """Returns the facts that cannot be read."""
        facts = await self._file.read(lambda db: journals.read(db, STREAM, -1, -1))
        return [fault for fact in facts if (fault := _fault(fact))]

    async def close(self) -> None:
        """Closes the file."""
        await asyncio.to_thread(self._file.close)

    def _catch_up(self, db: sqlite3.Connection) -> int:
        """Updates the tables to the last fact; returns its number."""
        head = journals.head(db, STREAM)
        read = position(db)
        # Ahead of the facts: the file was replaced by an older copy.
        if read is None or read > head:
            build(db)
            read = -1
        if read == head:
            return head
        while facts := journals.read(db, STREAM, read, _CHUNK):
            Tables(db).fold(facts)
            read = facts[-1].seq
        set_position(db, head)
        return head


class _Change(Tables):
    """The tables in a writer's transaction: `emit` applies an event and collects it in `events`."""

    def __init__(self, db: sqlite3.Connection, at: int) -> None:
        super().__init__(db)
        self._at = at
        # Patterns go to other projects and machines: even possible secrets are removed.
        self._redactor = Redactor(Redactor.secrets_in(os.environ), guesses=True)
        self.events: list[LearningEvent] = []

    def clean(self, pattern: Pattern) -> Pattern:
        """Returns the pattern without the secrets in its text."""
        # Raises if the rest is no pattern: then nothing is kept.
        said = msgspec.to_builtins(pattern)
        # Only its text: the sources are names of loops.
        for prose in said.keys() & {"name", "body", "tests"}:
            said[prose] = hosts_removed(said[prose], platform.node())
        cleaned = msgspec.convert(self._redactor.json(said), Pattern)
        # A project's name and its digest are no prose: they separate lessons.
        return msgspec.structs.replace(
            cleaned, id=pattern.id, scope=pattern.scope, only_in=pattern.only_in
        )

    def emit(self, event: LearningEvent) -> bool:
        """Applies and records the event without secrets. Returns whether it changed anything."""
        event = self._cleaned(event)
        changes = step(self, event, self._at)
        changed = changes != Changes()
        if changed:
            self.events.append(event)
            self.keep(changes)
        return changed

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
    """The registry's facts in any journal; the tables are in memory and folded from them."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        # One fold at a time: `_catch_up` awaits between reading the facts and applying them.
        self._lock = asyncio.Lock()
        # Transactions are begun explicitly; the server and its workers use one registry.
        self._db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        # Python warns about a connection that is collected open, and a registry need not be closed.
        weakref.finalize(self, self._db.close)
        build(self._db)
        self._head = -1

    async def read(self, work: Callable[[View], T]) -> T:
        """Returns the result of `work` on the journal's current content."""
        async with self._lock:
            await self._catch_up()
            return work(Tables(self._db))

    async def write(self, work: Callable[[Writing], T], at: int) -> T:
        """Returns the result of `work`; repeated if another process wrote in between."""
        async with self._lock:
            for _ in range(_TRIES):
                await self._catch_up()
                # Changes of `work` to the tables in memory are rolled back if they could not be
                # written.
                with suppress(Conflict), self._db:
                    self._db.execute("begin")
                    tx = _Change(self._db, at)
                    result = work(tx)
                    facts = [(at, encode(event)) for event in tx.events]
                    self._head = await self._journal.write(STREAM, self._head, facts)
                    return result
        raise LogError(
            f"the registry could not be written: {_TRIES} times another process was faster"
        )

    async def faults(self) -> list[str]:
        """Returns the facts that cannot be read."""
        return [fault for fact in await self._journal.facts(STREAM) if (fault := _fault(fact))]

    async def close(self) -> None:
        """Does nothing: the owner closes the journal."""

    async def _catch_up(self) -> None:
        if facts := await self._journal.facts(STREAM, after=self._head):
            Tables(self._db).fold(facts)
            self._head = facts[-1].seq


def _fault(fact: Fact) -> str:
    try:
        decode(fact.body)
    except (msgspec.DecodeError, ValueError) as error:
        return f"fact {fact.seq} of {STREAM!r} is damaged and was left out: {error}"
    return ""

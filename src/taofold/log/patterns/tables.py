"""The registry's state as tables beside the facts: a loop's start need not fold them."""

import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

import msgspec

from taofold.learning.fold import Changes
from taofold.learning.loops import LoopNote, LoopStats
from taofold.learning.patterns.pattern import Pattern, Rate
from taofold.learning.rates import EditRates
from taofold.learning.retrieval.index import (
    POOL,
    PatternHit,
    entry,
)

TERMS: Final = 32
"""Of a question, the rarest words that are searched for."""
MOST_POSTINGS: Final = 2_500
"""The search looks at the rarest words until they stand in so many patterns together."""
FORM: Final = 11
"""Of these tables. Raise it when they, the words in them, or a fold's result change."""

TABLES: Final = (
    """create table if not exists pattern_rows(
        number integer primary key autoincrement, id text not null unique, month text,
        said blob not null, body blob not null)""",
    """create table if not exists pattern_entries(number integer primary key, id text not null,
        stems text not null)""",
    "create index if not exists pattern_said on pattern_rows(said)",
    # An index only: the words stand in pattern_entries, where they are needed to take a row out.
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
_NAMES: Final = (
    "pattern_rows",
    "pattern_entries",
    "pattern_words",
    "pattern_terms",
    "pattern_loops",
    "pattern_rates",
    "pattern_fixes",
    "pattern_vectors",
    "pattern_state",
)
_HAS: Final = "select 1 from sqlite_master where name = 'pattern_state'"
_SET: Final = "insert or replace into pattern_state values(?, ?)"
_ROW: Final = "select number from pattern_rows where id = ?"
_INSERT: Final = "insert into pattern_rows(id, month, said, body) values(?, ?, ?, ?)"
_UPDATE: Final = "update pattern_rows set month = ?, said = ?, body = ? where number = ?"
_ENTRY: Final = "select stems from pattern_entries where number = ?"
_ENTER: Final = "insert into pattern_entries values(?, ?, ?)"
# FTS5 without content must be told what it had indexed.
_UNINDEX: Final = "insert into pattern_words(pattern_words, rowid, words) values('delete', ?, ?)"
_INDEX: Final = "insert into pattern_words(rowid, words) values(?, ?)"
_COUNT: Final = (
    "insert into pattern_terms values(?1, ?2) on conflict(term) do update set rows = rows + ?2"
)
_SEARCH: Final = (  # `rank` is BM25
    "select id, stems from pattern_entries natural join "
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
    """The number of the last fact in the tables; None if they must be built."""
    if db.execute(_HAS).fetchone() is None:
        return None
    stored = dict(db.execute("select key, value from pattern_state where key in ('form', 'head')"))
    return stored.get("head", -1) if stored.get("form") == FORM else None


def build(db: sqlite3.Connection) -> None:
    """Make the tables, empty."""
    for name in _NAMES:
        db.execute(f"drop table if exists {name}")
    for statement in TABLES:
        db.execute(statement)
    db.execute(_SET, ("form", FORM))
    db.execute(_SET, ("head", -1))
    db.execute(_SET, ("total", 0))


def set_position(db: sqlite3.Connection, head: int) -> None:
    """Note that everything up to fact `head` is in the tables."""
    db.execute(_SET, ("head", head))


class Tables:
    """The registry's state in an open database: what commands may ask."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def pattern(self, identity: str) -> Pattern | None:
        """The pattern in the registry."""
        return self._body("select body from pattern_rows where id = ? and month is null", identity)

    def archived(self, identity: str) -> Pattern | None:
        """The pattern in the archive."""
        return self._body(
            "select body from pattern_rows where id = ? and month is not null", identity
        )

    def loop(self, loop: str) -> LoopNote | None:
        """What is known of the loop."""
        row = self._db.execute("select note from pattern_loops where loop = ?", (loop,)).fetchone()
        return _LOOP.decode(row[0]) if row else None

    def rate(self, key: str) -> Rate:
        """How good edits with this key have been."""
        statement = "select wins, expected from pattern_rates where key = ?"
        return Rate(*self._db.execute(statement, (key,)).fetchone() or ())

    def costs(self) -> tuple[float, ...]:
        """What each order of candidates has cost, faded."""
        body: bytes | None = self._state("costs")
        return tuple(_COSTS.decode(body)) if body else EditRates().costs

    def rates(self, limit: int) -> dict[str, Rate]:
        """At most `limit` keys with their rates: those with wins, then the most expected."""
        rows = self._db.execute(
            "select key, wins, expected from pattern_rates order by wins desc, expected desc "
            "limit ?",
            (limit,),
        )
        return {key: Rate(wins, expected) for key, wins, expected in rows}

    def stats(self) -> LoopStats:
        """The sums."""
        body: bytes | None = self._state("stats")
        return _STATS.decode(body) if body else LoopStats()

    def patterns(self) -> Iterator[Pattern]:
        """The registry's patterns, the oldest first."""
        rows = self._db.execute("select body from pattern_rows where month is null order by number")
        return (_PATTERN.decode(row[0]) for row in rows)

    def archive(self) -> Iterator[tuple[Pattern, str]]:
        """What was archived, with its month."""
        rows = self._db.execute(
            "select body, month from pattern_rows where month is not null order by number"
        )
        return ((_PATTERN.decode(row[0]), row[1]) for row in rows)

    def loops(self) -> Iterator[LoopNote]:
        """What is known of loops, the oldest first."""
        rows = self._db.execute("select note from pattern_loops order by number")
        return (_LOOP.decode(row[0]) for row in rows)

    def ids(self, prefix: str) -> list[str]:
        """The ids in use that start with `prefix`."""
        rows = self._db.execute(
            # The last code point of Unicode: no id that begins with the prefix sorts behind it.
            "select id from pattern_rows where id >= ?1 and id < ?1 || char(1114111)",
            (prefix,),
        )
        return [row[0] for row in rows]

    def same(self, pattern: Pattern) -> str:
        """The id of a pattern that says exactly the same."""
        row = self._db.execute(
            "select id from pattern_rows where said = ? and month is null",
            (_content_digest(pattern),),
        ).fetchone()
        return row[0] if row else ""

    def search(self, terms: Sequence[str], limit: int = POOL) -> list[PatternHit]:
        """Patterns with the rarest of `terms`, the likeliest first."""
        rare = _rarest(terms, self.frequencies(terms)[0])
        query = " OR ".join([f'"{_token(term)}"' for term in rare])
        rows = self._db.execute(_SEARCH, (query, limit)) if rare else ()
        return [PatternHit(*row) for row in rows]

    def frequencies(self, terms: Iterable[str]) -> tuple[Mapping[str, int], int]:
        """In how many patterns each term stands, and how many patterns there are."""
        distinct = list(dict.fromkeys(terms))
        marks = ",".join("?" * len(distinct))
        rows = self._db.execute(
            f"select term, rows from pattern_terms where term in ({marks}) and rows > 0",  # noqa: S608 - marks only
            distinct,
        )
        return dict(rows.fetchall()), self._state("total") or 0

    def keep(self, changes: Changes) -> None:
        """Write what an event changed."""
        for identity, pattern in changes.patterns.items():
            if pattern is not None:
                self._put(pattern, None)
            # What moves to the archive keeps its row, and with it its number.
            elif identity not in changes.archive:
                self._drop(identity)
        for old in changes.archive.values():
            if old is not None:
                self._put(*old)
        if changes.loop is not None:
            self._db.execute(_NOTE, (changes.loop.loop, _ENCODE(changes.loop)))
        self._db.executemany(
            "insert or replace into pattern_rates values(?, ?, ?)",
            [(key, rate.wins, rate.expected) for key, rate in changes.rates.items()],
        )
        if changes.costs is not None:
            self._db.execute(_SET, ("costs", _ENCODE(changes.costs)))
        if changes.stats is not None:
            self._db.execute(_SET, ("stats", _ENCODE(changes.stats)))

    def _put(self, pattern: Pattern, month: str | None) -> None:
        """Write a pattern, and index it unless it is archived."""
        row = self._db.execute(_ROW, (pattern.id,)).fetchone()
        if row is None:
            values = (pattern.id, month, _content_digest(pattern), _ENCODE(pattern))
            number = self._db.execute(_INSERT, values).lastrowid or 0
        else:
            number = row[0]
            self._db.execute(_UPDATE, (month, _content_digest(pattern), _ENCODE(pattern), number))
        self._index(number, pattern.id, entry(pattern) if month is None else None)

    def _drop(self, identity: str) -> None:
        row = self._db.execute(_ROW, (identity,)).fetchone()
        if row is not None:
            self._index(row[0], identity, None)
            self._db.execute("delete from pattern_rows where number = ?", (row[0],))

    def _index(self, number: int, identity: str, new: str | None) -> None:
        """Let the search find a pattern by its new entry, or no more."""
        row = self._db.execute(_ENTRY, (number,)).fetchone()
        old = row[0] if row else None
        # Most changes of a pattern are counters, which no search looks at.
        if old == new:
            return
        change: Counter[str] = Counter()
        if old is not None:
            self._db.execute(_UNINDEX, (number, _tokens(old)))
            self._db.execute("delete from pattern_entries where number = ?", (number,))
            change.subtract(set(old.split()))
        if new is not None:
            self._db.execute(_INDEX, (number, _tokens(new)))
            self._db.execute(_ENTER, (number, identity, new))
            change.update(set(new.split()))
        self._db.executemany(_COUNT, [(term, n) for term, n in change.items() if n])
        # Only what the search finds counts: rarity is about the index, not the archive.
        total = (self._state("total") or 0) + bool(new) - bool(old)
        self._db.execute(_SET, ("total", total))

    def _body(self, statement: str, identity: str) -> Pattern | None:
        row = self._db.execute(statement, (identity,)).fetchone()
        return _PATTERN.decode(row[0]) if row else None

    def _state(self, key: str) -> Any:
        row = self._db.execute("select value from pattern_state where key = ?", (key,)).fetchone()
        return row[0] if row else None


def _rarest(terms: Sequence[str], known: Mapping[str, int]) -> list[str]:
    """Those of `terms` that are searched for: the rarest of those that occur."""
    there = sorted([t for t in dict.fromkeys(terms) if known.get(t)], key=lambda t: known[t])
    left = MOST_POSTINGS
    chosen: list[str] = []
    for term in there[:TERMS]:
        left -= known[term]
        # The rarest word is searched for in any case.
        if left < 0 and chosen:
            break
        chosen.append(term)
    return chosen


def _tokens(words: str) -> str:
    return " ".join(map(_token, words.split()))


def _token(term: str) -> str:
    """The term as FTS5 is given it: the letters at which that cuts words are no others than ours.

    A rule's name such as `no-undef` would be two words to it, and a question for it an error.
    """
    return term if _PLAIN.fullmatch(term) else f"=x{term.encode().hex()}"


def _content_digest(pattern: Pattern) -> bytes:
    """A digest of what the pattern says."""
    return blake2b(_ENCODE((pattern.name, pattern.body)), digest_size=16).digest()

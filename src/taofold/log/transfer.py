"""Moves a log from a file to a database, or back: every row, with a check that all arrived.

All or nothing: the target, which must be empty, is written in one transaction. It is read again and
compared with the source by digest before the commit. Runs keep their places, epochs, and the ids of
consumed messages. Caches derived from facts are left out.
"""

import hashlib
import importlib
import json
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from taofold.core.errors import ConfigError, LogError
from taofold.log.open import POSTGRES
from taofold.log.sqlite.log import SqliteLog
from taofold.log.sqlite.open import open_for_writing
from taofold.log.sqlite.statements import chain_id

# ruff: noqa: S608 - statements are built from constants of this module only


Row: TypeAlias = tuple[Any, ...]

TABLES: Final[dict[str, tuple[str, ...]]] = {
    "runs": (
        "number",
        "run",
        "status",
        "goal",
        "agent",
        "session",
        "parent",
        "principal",
        "created_at",
        "updated_at",
        "epoch",
        "owner",
        "waiting_for",
        "wake_at",
        "tags",
    ),
    "leases": ("number", "owner", "until"),
    "events": ("number", "seq", "at", "version", "body", "link"),
    "inbox": ("number", "place", "id", "body"),
    "seen": ("number", "id"),
    "blobs": ("digest", "body"),
    "refs": ("digest", "number"),
    "streams": ("number", "stream", "head", "created_at", "updated_at", "owner", "lease_until"),
    "facts": ("number", "seq", "at", "body"),
    "spend": ("scope", "hour", "tokens", "unpriced", "nano_usd"),
    "heads": ("number", "seq", "at", "link", "envelope", "stamp"),
}
"""The content of a log, in a form common to both kinds: texts and bodies as UTF-8 bytes."""
# As bytes on both sides: PostgreSQL's text cannot hold NUL, and the digests of both sides must
# cover the same bytes.
_TEXTS: Final = frozenset(
    (
        *("run", "goal", "agent", "session", "parent", "principal", "owner", "waiting_for"),
        *("tags", "scope"),
        *("id", "digest", "stream", "body"),
    )
)
KEYS: Final = {"blobs": 1, "leases": 1, "runs": 1, "streams": 1}
"""Number of columns that order a table's rows; the default is two."""


class Side(Protocol):
    """A log that is read, or written, in one transaction."""

    def rows(self, table: str) -> Iterator[Row]:
        """Yields all rows, in the order of their keys."""
        ...

    def put(self, table: str, rows: Iterable[Row]) -> None:
        """Writes rows."""
        ...

    def chain_id(self) -> str:
        """Returns the id that the chains of this log cover."""
        ...

    def set_chain_id(self, chain: str) -> None:
        """Makes `chain` the id that the chains of this log cover."""
        ...

    def commit(self) -> None:
        """Commits the writes."""
        ...

    def close(self) -> None:
        """Releases the log; uncommitted writes are discarded."""
        ...


class LogTransfer(msgspec.Struct, frozen=True):
    """The number of moved rows of each table, and one digest of all."""

    rows: dict[str, int]
    digest: str


class _Digest:
    """Counts and digests rows as they pass."""

    def __init__(self) -> None:
        self._sum, self.count = hashlib.blake2b(digest_size=20), 0

    def of(self, rows: Iterable[Row]) -> Iterator[Row]:
        for row in rows:
            cells = [value.hex() if isinstance(value, bytes) else value for value in row]
            self._sum.update(json.dumps(cells).encode() + b"\n")
            self.count += 1
            yield row

    def __str__(self) -> str:
        return f"{self.count}:{self._sum.hexdigest()}"


def migrate(source: str, target: str) -> LogTransfer:
    """Copies the log `source` to the empty log `target`. Blocks; no process may write during it.

    Both are `sqlite:PATH`, a path, or `postgresql://…`.

    Raises:
        ConfigError: One of them is no such log, or they are the same log.
        LogError: The target is not empty, a run of the source is being driven, or the rows that
            arrived differ from those sent. The target is unchanged.
    """
    if source == target:
        raise ConfigError("the source and the target are one log")
    with closing(_side(source, new=False)) as old, closing(_side(target, new=True)) as new:
        # All tables, not only runs: a journal in the target would be mixed with the source's.
        if any(next(new.rows(table), None) is not None for table in TABLES):
            raise LogError(
                f"{_without_password(target)} is not empty: a log is moved to an empty one"
            )
        if next(old.rows("held"), None) is not None:
            raise LogError(
                f"runs of {_without_password(source)} are being driven: stop servers and workers, "
                "then try again. Nothing was written"
            )
        sent = {table: _Digest() for table in TABLES}
        for table in TABLES:
            new.put(table, sent[table].of(old.rows(table)))
        # The copy is the same log: its chains stay valid.
        new.set_chain_id(old.chain_id())
        # Read back inside the same transaction: the stored rows are compared, not the sent ones.
        for table in TABLES:
            arrived = _Digest()
            for _ in arrived.of(new.rows(table)):
                pass
            if str(arrived) != str(sent[table]):
                raise LogError(
                    f"the rows of {table} that arrived differ from those sent ({arrived} for "
                    f"{sent[table]}). Nothing was kept"
                )
        new.commit()

    whole = hashlib.blake2b("\n".join(map(str, sent.values())).encode(), digest_size=20)
    return LogTransfer(
        {table: sent_table.count for table, sent_table in sent.items()}, whole.hexdigest()
    )


def _side(spec: str, *, new: bool) -> Side:
    if spec.startswith(POSTGRES):
        try:  # an extra: a file alone needs no database driver
            module: Any = importlib.import_module("taofold.log.postgres.transfer")
        except ImportError as error:
            raise ConfigError(
                "PostgreSQL needs psycopg: pip install 'taofold[postgres]'"
            ) from error
        side: Side = module.PostgresSide(spec)
        return side
    path = Path(spec.removeprefix("sqlite:")).expanduser()
    if not new and not path.is_file():
        raise ConfigError(f"there is no log at {str(path)!r}")
    return SqliteSide(path)


def _without_password(spec: str) -> str:
    """Returns the log without a password."""
    return "the database" if spec.startswith(POSTGRES) else repr(spec)


class SqliteSide:
    """The file of a log, locked against writers while it is open here."""

    def __init__(self, path: Path) -> None:
        log = SqliteLog(path)
        log.open()
        self._file = log._file
        self._db = open_for_writing(path, 10.0)
        # Takes the writer's lock at once: no process changes the source while it is read.
        self._db.execute("begin immediate")

    def rows(self, table: str) -> Iterator[Row]:
        """Yields all rows, in the order of their keys."""
        yield from self._db.execute(_SQLITE[table])

    def put(self, table: str, rows: Iterable[Row]) -> None:
        """Writes rows."""
        if table == "leases":
            statement = "update runs set lease_until = ?3 where number = ?1 and ?2 is not null"
        elif table in ("events", "facts"):
            names = ("id", *TABLES[table][2:])
            # Run number and sequence number in one key: records of a run are adjacent.
            statement = f"insert into {table}({', '.join(names)}) values(?1 << 32 | ?2, ?3, "
            statement += "?4, cast(?5 as text), ?6)" if table == "events" else "cast(?4 as text))"
        else:
            marks = [
                f"cast(?{n} as text)" if _is_text(table, name) else f"?{n}"
                for n, name in enumerate(TABLES[table], 1)
            ]
            statement = (
                f"insert into {table}({', '.join(TABLES[table])}) values({', '.join(marks)})"
            )
        self._db.executemany(statement, rows)

    def chain_id(self) -> str:
        """Returns the id that the chains of this log cover."""
        return chain_id(self._db)

    def set_chain_id(self, chain: str) -> None:
        """Makes `chain` the id that the chains of this log cover."""
        self._db.execute("update meta set value = ? where key = 'chain'", (chain,))

    def commit(self) -> None:
        """Commits the writes."""
        self._db.execute("commit")

    def close(self) -> None:
        """Closes the file."""
        self._db.close()
        self._file.close()


def _is_text(table: str, name: str) -> bool:
    """Returns whether the column is text in a file. In the common form it is bytes."""
    return name in _TEXTS and (table, name) != ("blobs", "body")


def _selected(table: str, names: tuple[str, ...]) -> str:
    columns = [f"cast({name} as blob)" if _is_text(table, name) else name for name in names]
    order = ", ".join(str(n + 1) for n in range(KEYS.get(table, 2)))
    return f"select {', '.join(columns)} from {table} order by {order}"


_ID: Final = "id >> 32, id & 4294967295, at"
_SQLITE: Final = {
    **{table: _selected(table, names) for table, names in TABLES.items()},
    "events": f"select {_ID}, coalesce(version, 1), cast(body as blob), link "
    "from events order by id",
    "facts": f"select {_ID}, cast(body as blob) from facts order by id",
    "leases": "select number, cast(owner as blob), lease_until from runs "
    "where status = 'running' and lease_until > 0 order by 1",
    "held": "select 1 from runs where status = 'running' and lease_until > "
    "cast((julianday('now') - 2440587.5) * 86400000 as integer)",
}

"""The SQLite journal: streams of facts in the same file as the runs.

A fact's id is `number << 32 | seq`, like an event's. The functions run inside a caller's
transaction; the class wraps them in transactions. It knows nothing about the meaning of facts.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, Final

from taofold.clocks import clock
from taofold.core.errors import Conflict, LogError
from taofold.log.journal import Fact, StreamRow, outrun
from taofold.log.log import LONGEST_LEASE_MS
from taofold.log.sqlite.file import SqliteFile, file_identity, full_sync

_LAST: Final = 0xFFFFFFFF
_CHUNK: Final = 2000
_WAIT_S: Final = 5.0
"""Maximum wait in seconds for another process's lock."""
_FIND: Final = "select number, head from streams where stream = ?"
_CREATE: Final = "insert into streams(stream, head, created_at, updated_at) values(?, -1, ?, ?)"
_MOVE: Final = "update streams set head = ?, updated_at = ? where number = ?"
_INSERT: Final = "insert into facts(id, at, body) values(?, ?, cast(? as text))"
_READ: Final = (
    "select id & 4294967295, at, cast(body as blob) from facts where id > ? and id <= ? "
    "order by id limit ?"
)
_ROW: Final = (
    "select stream, head, created_at, updated_at, owner, lease_until, "  # noqa: S608 - constants
    f"lease_until > ?1 and lease_until <= ?1 + {LONGEST_LEASE_MS} from streams"
)
# Not LIKE: a prefix may hold % or _.
_ROWS: Final = f"{_ROW} where substr(stream, 1, length(?2)) = ?2 order by number desc"
_HOLD: Final = "update streams set owner = ?, lease_until = ? where stream = ?"
_RENEW: Final = "update streams set lease_until = ? where stream = ? and owner = ?"
_TRIM: Final = "delete from facts where id >= ?1 << 32 and id < (?1 << 32) + ?2"
_DROP: Final = "delete from facts where id between ?1 << 32 and (?1 << 32) + 4294967295"


def head(db: sqlite3.Connection, stream: str) -> int:
    """Returns the number of the stream's last fact, -1 if there is none."""
    row = db.execute(_FIND, (stream,)).fetchone()
    return -1 if row is None else int(row[1])


def append(
    db: sqlite3.Connection, stream: str, after: int, facts: Sequence[tuple[int, bytes]]
) -> int:
    """Writes `facts` after number `after`, in the caller's transaction.

    Raises:
        Conflict: The stream's last fact is not `after`.
    """
    row = db.execute(_FIND, (stream,)).fetchone()
    last = -1 if row is None else int(row[1])
    if last != after:
        # Inside the transaction, so that no write can happen between this check and the insert.
        raise Conflict(outrun(stream, after, last))
    if not facts:
        return last
    if last + len(facts) > _LAST:
        raise LogError(f"stream {stream!r} is full: {last + 1} facts")
    if row is None:
        number = db.execute(_CREATE, (stream, facts[0][0], facts[0][0])).lastrowid or 0
    else:
        number = int(row[0])
    rows = [(number << 32 | last + 1 + n, at, body) for n, (at, body) in enumerate(facts)]
    db.executemany(_INSERT, rows)
    db.execute(_MOVE, (last + len(facts), facts[-1][0], number))
    return last + len(facts)


def read(db: sqlite3.Connection, stream: str, after: int, most: int) -> list[Fact]:
    """Returns at most `most` facts with `seq > after`, in order."""
    row = db.execute(_FIND, (stream,)).fetchone()
    if row is None:
        return []
    first = int(row[0]) << 32
    rows = db.execute(_READ, (first + max(after, -1), first + _LAST, most))
    return [Fact(*row) for row in rows]


class SqliteJournal:
    """A `Journal` in the SQLite file at `path`, which is created if it is missing.

    Args:
        path: The log's file.
        max_bytes: Maximum size of the file; 0 = limited by the disk.
        sync: Syncs a file; replaceable for tests.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        max_bytes: int = 0,
        sync: Callable[[int], None] = full_sync,
    ) -> None:
        self.path = Path(path)
        self._file = SqliteFile(
            self.path, wait_s=_WAIT_S, adopt=False, max_bytes=max_bytes, sync=sync
        )

    @property
    def identity(self) -> str:
        """The identity of the file, under any name."""
        return f"journal:{file_identity(self.path)}"

    def open(self) -> None:
        """Opens the file, or creates it, now. Blocks.

        Raises:
            LogError: The file is locked, damaged, read-only, or cannot be created.
            Incompatible: It is newer than this release, or foreign.
        """
        self._file.open()

    async def write(
        self,
        stream: str,
        after: int,
        facts: Sequence[tuple[int, bytes]],
        *,
        disk: bool = False,
        owner: str = "",
        lease_ms: int = 0,
        alone: bool = False,
    ) -> int:
        """Appends facts after number `after`, in one transaction.

        The bytes of deleted facts may remain in the file until the log is scrubbed.
        """

        def work(db: sqlite3.Connection) -> int:
            last = append(db, stream, after, facts)
            if alone and facts:
                [number] = db.execute(
                    "select number from streams where stream = ?", (stream,)
                ).fetchone()
                db.execute(_TRIM, (number, after + 1))
            if owner:
                db.execute(_HOLD, (owner, clock() + lease_ms, stream))
            return last

        last = await self._file.write(work)
        if disk and facts:
            await self._file.settle()
        return last

    def renew(self, owner: str, streams: Collection[str], lease_ms: int) -> set[str]:
        """Makes the leases of `streams` end in `lease_ms` from now. Blocks."""

        def work(db: sqlite3.Connection) -> set[str]:
            until = clock() + lease_ms
            return {name for name in streams if db.execute(_RENEW, (until, name, owner)).rowcount}

        return self._file.write_now(work)

    async def facts(self, stream: str, *, after: int = -1, limit: int = 0) -> list[Fact]:
        """Returns facts with `seq > after`, in order."""
        facts: list[Fact] = []
        while True:
            most = min(_CHUNK, limit - len(facts)) if limit > 0 else _CHUNK
            last = facts[-1].seq if facts else after
            rows = await self._chunk(stream, last, most)
            facts += rows
            if len(rows) < most or len(facts) == limit:
                return facts
            await asyncio.sleep(0)

    async def streams(self, prefix: str = "") -> list[StreamRow]:
        """Returns streams whose name starts with `prefix`, newest first."""
        values = (clock(), prefix)
        rows = await self._file.read(lambda db: db.execute(_ROWS, values).fetchall())
        return [_stream_row(row) for row in rows]

    async def row(self, stream: str) -> StreamRow | None:
        """Returns the stream's row."""
        values = (clock(), stream)
        row = await self._file.read(
            lambda db: db.execute(f"{_ROW} where stream = ?2", values).fetchone()
        )
        return None if row is None else _stream_row(row)

    async def drop(self, stream: str) -> None:
        """Deletes the stream; its bytes may remain in the file until the log is scrubbed."""

        def work(db: sqlite3.Connection) -> None:
            row = db.execute(_FIND, (stream,)).fetchone()
            if row is not None:
                db.execute(_DROP, (row[0],))
                db.execute("delete from streams where number = ?", (row[0],))

        await self._file.write(work)

    async def close(self) -> None:
        """Finishes pending calls and closes the file."""
        await asyncio.to_thread(self._file.close)

    async def _chunk(self, stream: str, after: int, most: int) -> list[Fact]:
        return await self._file.read(lambda db: read(db, stream, after, most))


def _stream_row(row: tuple[Any, ...]) -> StreamRow:
    columns: tuple[Any, ...] = (*row[:-1], bool(row[-1]))
    return StreamRow(*columns)

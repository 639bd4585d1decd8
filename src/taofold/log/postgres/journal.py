"""The PostgreSQL journal: streams of facts in the same database as the runs.

It knows nothing about the meaning of facts.
"""

import asyncio
from collections.abc import Collection, Sequence
from typing import Any, Final

from taofold.core.errors import Conflict
from taofold.log.journal import Fact, StreamRow, outrun
from taofold.log.log import LONGEST_LEASE_MS
from taofold.log.postgres.database import Database

_CHUNK: Final = 2000
# Within bigint; any number that a caller could have seen is smaller.
_LAST: Final = 2**62
_ROW: Final = (
    "select stream, head, created_at, updated_at, owner, lease_until, "  # noqa: S608 - constants
    f"lease_until > taofold_now() and lease_until <= taofold_now() + {LONGEST_LEASE_MS} "
    "from taofold_streams"
)
_WRITE: Final = "select * from taofold_write(%b, %b, %b, %b, %b, %b)"
_RENEW: Final = (
    "update taofold_streams set lease_until = taofold_now() + %b::bigint "
    "where stream = any(%b) and owner = %b returning stream"
)
_FACTS: Final = (
    "select f.seq, f.at, f.body from taofold_facts f join taofold_streams s "
    "on s.number = f.number where s.stream = %b and f.seq > %b order by f.seq limit %b"
)
_ALONE: Final = (
    "with written as materialized (select * from taofold_write(%b, %b, %b, %b, %b, %b)), "
    "gone as (delete from taofold_facts f using taofold_streams s, written w where w.code = 'ok' "
    "and s.number = f.number and s.stream = %b and f.seq <= %b) select * from written"
)
_DROP: Final = (
    "with gone as (delete from taofold_streams where stream = %b returning number) "
    "delete from taofold_facts where number in (select number from gone)"
)


class PostgresJournal:
    """A `Journal` in the PostgreSQL database at `dsn`, or in a `Database` shared with a log."""

    def __init__(self, dsn: str | Database) -> None:
        self._own = not isinstance(dsn, Database)
        self.database = dsn if isinstance(dsn, Database) else Database(dsn)

    @property
    def identity(self) -> str:
        """The identity of the tables, for any address."""
        return f"journal:{self.database.identity}"

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
        """Appends facts after number `after`, in one transaction."""
        values: tuple[Any, ...] = (
            stream.encode(),
            after,
            [at for at, _ in facts],
            [body for _, body in facts],
            owner.encode(),
            lease_ms,
        )
        # Locks of streams sort after each other and apart from those of runs.
        statement = _WRITE
        if alone and facts:
            statement, values = _ALONE, (*values, values[0], after)
        row = await self.database.write(b"stream " + stream.encode(), statement, values, disk=disk)
        code, at = row[0], int(row[1])
        if code == "outrun":
            raise Conflict(outrun(stream, after, at))
        return at

    def renew(self, owner: str, streams: Collection[str], lease_ms: int) -> set[str]:
        """Makes the leases of `streams` end in `lease_ms` from now. Blocks."""
        values = (lease_ms, [name.encode() for name in sorted(streams)], owner.encode())
        return {name.decode() for (name,) in self.database.renew_now(_RENEW, values)}

    async def facts(self, stream: str, *, after: int = -1, limit: int = 0) -> list[Fact]:
        """Returns facts with `seq > after`, in order."""
        facts: list[Fact] = []
        while True:
            most = min(_CHUNK, limit - len(facts)) if limit > 0 else _CHUNK
            last = facts[-1].seq if facts else min(max(after, -1), _LAST)
            rows = await self.database.fetch(_FACTS, (stream.encode(), last, most))
            facts += [Fact(*row) for row in rows]
            if len(rows) < most or len(facts) == limit:
                return facts
            await asyncio.sleep(0)

    async def streams(self, prefix: str = "") -> list[StreamRow]:
        """Returns streams whose name starts with `prefix`, newest first."""
        start = prefix.encode()
        rows = await self.database.fetch(
            f"{_ROW} where stream >= %b and stream < %b order by number desc",
            (start, start + b"\xff"),  # a byte that UTF-8 does not have
        )
        return [_stream_row(row) for row in rows]

    async def row(self, stream: str) -> StreamRow | None:
        """Returns the stream's row."""
        rows = await self.database.fetch(f"{_ROW} where stream = %b", (stream.encode(),))
        return _stream_row(rows[0]) if rows else None

    async def drop(self, stream: str) -> None:
        """Deletes the stream."""
        await self.database.fetch(_DROP + " returning 1", (stream.encode(),))

    async def close(self) -> None:
        """Closes the connections, if they are this journal's own."""
        if self._own:
            await asyncio.to_thread(self.database.close)


def _stream_row(row: tuple[Any, ...]) -> StreamRow:
    name, head, created, updated, owner, until, held = row
    return StreamRow(name.decode(), head, created, updated, owner.decode(), until, held)

"""The default log: one SQLite file, many runs, several processes.

Each method is one short transaction. It knows nothing about strategies or tools, and
reads no clock: what it knows of time is in the records.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from taofold.core.errors import Conflict, LogError, UnknownRun
from taofold.core.events import Record
from taofold.logs import purge
from taofold.logs import statements as sql
from taofold.logs.disk import full_sync
from taofold.logs.file import File
from taofold.store.log import ENDED, Claim, RunRow, Signal, misplaced, overtaken

_CHUNK: Final = 500
"""Records read between two breaths of the event loop: some 3 ms."""


class SqliteLog:
    """A `Log` in the SQLite file at `path`, opened at the first call or by `open`.

    Args:
        path: The file. Its folder must exist.
        wait_s: How long a call waits for other processes that write, in seconds.
        adopt: Trust a file that another user or machine created, from now on.
        max_bytes: Refuse to grow beyond this size; 0 = as the disk allows.
        sync: What makes a file's content survive a power cut.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        wait_s: float = 10.0,
        adopt: bool = False,
        max_bytes: int = 0,
        sync: Callable[[int], None] = full_sync,
    ) -> None:
        self.path = Path(path)
        self._wait_s = wait_s
        self._file = File(self.path, wait_s=wait_s, adopt=adopt, max_bytes=max_bytes, sync=sync)
        self._numbers: dict[str, int] = {}

    @property
    def closed(self) -> bool:
        """Was it closed? It does not open again."""
        return self._file.closed

    def open(self) -> None:
        """Open the file, or create it, now. Blocks.

        Raises:
            LogError: the file is locked, damaged, read-only, or cannot be created.
            Incompatible: it is newer than this release, or somebody else's.
        """
        self._file.open()

    async def create(self, row: RunRow) -> None:
        """Register a run."""

        def work(db: sqlite3.Connection) -> None:
            other = db.execute(sql.UNENDED, (row.session,)).fetchone() if row.session else None
            if other is not None:
                raise Conflict(
                    f"run {other[0]!r} of session {row.session!r} has not ended ({other[1]}); "
                    "finish or cancel it first"
                )
            try:
                db.execute(sql.CREATE, sql.values(row))
            except sqlite3.IntegrityError as error:
                raise Conflict(f"there is already a run {row.run!r}; choose another id") from error

        await self._file.write(work)

    async def claim(self, run: str, owner: str, *, epoch: int | None = None) -> Claim:
        """Become the owner of the run."""

        def work(db: sqlite3.Connection) -> Claim:
            number, current, before = sql.owner(db, run)
            if epoch is not None and epoch != current:
                raise Conflict(overtaken(RunRow(run, epoch=current, owner=before), epoch))
            db.execute(sql.CLAIM, (current + 1, owner, number))
            return Claim(current + 1, before)

        return await self._file.write(work)

    async def append(
        self,
        run: str,
        epoch: int,
        records: Sequence[Record],
        *,
        disk: bool = False,
        consume: Sequence[str] = (),
        blobs: Mapping[str, bytes] | None = None,
        status: str = "",
        waiting_for: str = "",
        if_quiet: bool = False,
    ) -> bool:
        """Write all of `records` in one transaction, or nothing."""
        bodies = sql.bodies(run, records)

        def work(db: sqlite3.Connection) -> bool:
            number, head = self._fence(db, run, epoch)
            rows: list[tuple[int, int, bytes]] = []
            for record, body in zip(records, bodies, strict=True):
                if record.seq != head or record.run != run:
                    raise Conflict(misplaced(run, head, record))
                rows.append((number << 32 | head, record.at, body))
                head += 1
            if if_quiet and _messages(db, number) - {*consume}:
                return False
            db.executemany(sql.INSERT, rows)
            if consume:
                db.executemany(sql.CONSUME, [(number, message) for message in consume])
            if status:
                db.execute(sql.STATUS, (status, waiting_for, number))
            purge.keep(db, number, blobs or {}, sql.referred(records))
            return True

        written = await self._file.write(work)
        if disk and written:
            await self._file.settle()
        return written

    async def read(self, run: str, *, after: int = -1, limit: int = 0) -> list[Record]:
        """Records with `seq > after`, in order."""
        number = await self._file.read(lambda db: sql.number(db, run))
        found: list[Record] = []
        last, end = (number << 32) + max(after, -1), (number << 32) + sql.LAST
        while True:
            count = min(_CHUNK, limit - len(found)) if limit > 0 else _CHUNK
            rows = await self._all(sql.READ, last, end, count)
            found += [sql.record(run, row) for row in rows]
            if len(rows) < _CHUNK or len(found) == limit:
                return found
            last = (number << 32) + found[-1].seq
            await asyncio.sleep(0)

    async def row(self, run: str) -> RunRow:
        """The run's row."""
        rows = await self._all(f"{sql.ROW} where run = ?", run)
        if not rows:
            raise UnknownRun(f"no run {run!r} in this log")
        return RunRow(*rows[0])

    async def rows(
        self, *, status: str = "", session: str = "", parent: str = "", limit: int = 100
    ) -> list[RunRow]:
        """Runs, newest first; a `limit` of 0 means all."""
        wanted = {"status": status, "session": session, "parent": parent}
        # `session <> ''` is what makes the partial indexes usable.
        clauses = [f"{name} = ? and {name} <> ''" for name, value in wanted.items() if value]
        where = f"where {' and '.join(clauses)}" if clauses else ""
        found = await self._all(
            f"{sql.ROW} {where} order by number desc limit ?",
            *(value for value in wanted.values() if value),
            limit if limit > 0 else -1,
        )
        return [RunRow(*row) for row in found]

    async def post(self, run: str, signal: Signal) -> bool:
        """Put `signal` in the inbox, once, on disk: a person was told that it is taken."""
        body = sql.message(signal)

        def work(db: sqlite3.Connection) -> bool:
            number = sql.number(db, run)
            if db.execute(sql.SEE, (number, signal.id)).rowcount == 0:
                return False
            db.execute(sql.POST, (number, signal.id, body))
            return True

        new = await self._file.write(work)
        await self._file.settle()
        return new

    async def inbox(self, run: str) -> list[Signal]:
        """Messages not yet consumed, in order of arrival."""

        def work(db: sqlite3.Connection) -> list[tuple[str]]:
            number = self._number(db, run)
            return db.execute(sql.INBOX, (number,)).fetchall()

        return [sql.signal(body) for (body,) in await self._file.read(work)]

    async def blob(self, digest: str) -> bytes:
        """The content with this digest."""
        rows = await self._all("select body from blobs where digest = ?", digest)
        if not rows:
            raise LogError(f"no blob {digest!r}: it was never written, or its run was deleted")
        body: bytes = rows[0][0]
        return body

    async def delete(self, run: str) -> None:
        """Forget the run, and the blobs that no other run refers to."""
        await self._file.read(lambda db: sql.number(db, run))
        await self._forget([run])

    async def prune(self, before_ms: int, *, keep: Collection[str] = ()) -> list[str]:
        """Delete the runs that ended and saw nothing since `before_ms`. Returns their ids.

        Args:
            before_ms: Milliseconds since the epoch.
            keep: Statuses of runs to spare, such as "failed".
        """
        rows = await self.rows(limit=0)
        old = [
            row.run
            for row in rows
            if row.updated_at < before_ms and row.status in ENDED and row.status not in keep
        ]
        if old:
            await self._forget(old)
        return old

    async def scrub(self) -> None:
        """Rewrite the file so that nothing deleted is left in it; `delete` and `prune` do it."""
        await self._file.read(lambda db: None)  # opened, and not closed
        await asyncio.to_thread(purge.scrub, self.path, self._wait_s)

    async def close(self) -> None:
        """Finish what was asked for and let go of the file."""
        await asyncio.to_thread(self._file.close)

    async def _all(self, statement: str, *values: object) -> list[Any]:
        return await self._file.read(lambda db: db.execute(statement, values).fetchall())

    async def _forget(self, runs: list[str]) -> None:
        await asyncio.to_thread(purge.forget, self.path, runs, self._wait_s)
        for run in runs:
            self._numbers.pop(run, None)

    def _number(self, db: sqlite3.Connection, run: str) -> int:
        number = self._numbers.get(run)
        if number is None:
            number = self._numbers[run] = sql.number(db, run)
        return number

    def _fence(self, db: sqlite3.Connection, run: str, epoch: int) -> tuple[int, int]:
        """The run's number and next sequence number, if `epoch` is the current one."""
        number = self._number(db, run)
        found = db.execute(sql.FENCE, (number << 32, number)).fetchone()
        if found is None:  # deleted by another process
            del self._numbers[run]
            raise UnknownRun(f"no run {run!r} in this log")
        if found[0] != epoch:
            row = RunRow(run, epoch=found[0], owner=found[2])
            raise Conflict(overtaken(row, epoch))
        return number, 0 if found[1] is None else (found[1] & sql.LAST) + 1


def _messages(db: sqlite3.Connection, number: int) -> set[str]:
    return {row[0] for row in db.execute("select id from inbox where number = ?", (number,))}

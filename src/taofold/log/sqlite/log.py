"""The default log: one SQLite file, many runs, several processes.

Each method is one short transaction. Leases are compared with this machine's clock, which all
processes that can share the file have in common. Deleted data is overwritten in the file (`scrub`).
It knows nothing about strategies or tools.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from taofold.clocks import clock
from taofold.core.errors import Conflict, LogError, UnknownRun
from taofold.core.events import Record
from taofold.evidence import chain
from taofold.evidence.chain import ChainHead, RunChain, StoredRecord
from taofold.log.log import (
    Claim,
    RunRow,
    Signal,
    Spending,
    Window,
    due_at,
    forgettable,
    lease_lasts,
    misplaced_text,
    overtaken,
    still_leased,
)
from taofold.log.spending import charges
from taofold.log.sqlite import statements as sql
from taofold.log.sqlite.file import SqliteFile, file_identity, full_sync
from taofold.log.sqlite.journal import SqliteJournal
from taofold.log.sqlite.open import explain, open_for_writing, truncate_wal
from taofold.log.sqlite.statements import LAST

_STATEMENTS: Final = (
    "delete from events where id between ?1 << 32 and (?1 << 32) + ?2",
    "delete from inbox where number = ?1 and ?2",
    "delete from seen where number = ?1 and ?2",
    "delete from heads where number = ?1 and ?2",
    "delete from runs where number = ?1 and ?2",
)
_LOST: Final = (
    "select digest from refs as mine where number = ? and not exists "
    "(select 1 from refs where digest = mine.digest and number <> mine.number)"
)


def keep(
    db: sqlite3.Connection, number: int, blobs: Mapping[str, bytes], referred: Iterable[str]
) -> None:
    """Writes `blobs`, and the references of run `number` to them and to `referred`."""
    if blobs:
        db.executemany("insert or ignore into blobs(digest, body) values(?, ?)", blobs.items())
    digests = {*blobs, *referred}
    if digests:
        db.executemany(
            "insert or ignore into refs(digest, number) values(?, ?)",
            [(digest, number) for digest in digests],
        )


def forget(path: Path, runs: Iterable[str], wait_s: float) -> None:
    """Deletes `runs` in one transaction, then scrubs the file. Blocks.

    Raises:
        LogError: The file is in use or full; the message states whether the runs are deleted.
    """
    try:
        with closing(open_for_writing(path, wait_s)) as db:
            # Freed pages are overwritten with zeros; otherwise a deleted secret stays readable in
            # the file.
            db.execute("pragma secure_delete = on")
            db.execute("begin immediate")
            for run in runs:
                row = db.execute("select number from runs where run = ?", (run,)).fetchone()
                if row is not None:
                    _forget(db, row[0])
            db.execute("commit")
    except sqlite3.Error as error:
        raise explain(error, path) from error
    scrub(path, wait_s)


def scrub(path: Path, wait_s: float) -> None:
    """Rewrites the file so that no deleted data is left in it. Blocks.

    Raises:
        LogError: Other processes are using the file, or the disk is full.
    """
    try:
        with closing(open_for_writing(path, wait_s)) as db:
            db.execute("pragma secure_delete = on")
            # Pages freed before secure_delete was on disappear only when the file is rewritten.
            db.execute("vacuum")
        emptied = truncate_wal(path, wait_s)
        reason = "" if emptied else "other processes are reading it"
    except sqlite3.Error as error:
        reason = str(error)
    if reason:
        raise LogError(
            f"the runs are deleted, but their bytes may still lie in {str(path)!r}, which could "
            f"not be rewritten: {reason}. Call scrub() when that is over"
        )


def _forget(db: sqlite3.Connection, number: int) -> None:
    # Before the references are deleted, which identify this run's blobs.
    lost = [row[0] for row in db.execute(_LOST, (number,))]
    db.executemany("delete from blobs where digest = ?", [(digest,) for digest in lost])
    db.execute("delete from refs where number = ?", (number,))
    for statement in _STATEMENTS:
        db.execute(statement, (number, LAST))


_CHUNK: Final = 500
"""Records read between two yields to the event loop: about 3 ms."""


class SqliteLog:
    """A `Log` in the SQLite file at `path`, opened at the first call or by `open`.

    Args:
        path: The file. Its folder must exist.
        wait_s: Maximum wait in seconds for other processes that write.
        adopt: Trusts a file that another user or machine created, from now on.
        max_bytes: Maximum size of the file; 0 = limited by the disk.
        sync: Makes a file's content survive a power failure.
        now: The clock of leases, in milliseconds.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        wait_s: float = 10.0,
        adopt: bool = False,
        max_bytes: int = 0,
        sync: Callable[[int], None] = full_sync,
        now: Callable[[], int] = clock,
    ) -> None:
        self.path = Path(path)
        self._wait_s, self._now = wait_s, now
        self._file = SqliteFile(
            self.path, wait_s=wait_s, adopt=adopt, max_bytes=max_bytes, sync=sync
        )
        self._numbers: dict[str, int] = {}
        self._links: dict[str, tuple[int, bytes]] = {}
        """For each run, the id and the link of the last record that this object wrote."""

    def journal(self) -> SqliteJournal:
        """Returns the journal in the same file, with its own connection; the caller closes it."""
        return SqliteJournal(self.path)

    @property
    def closed(self) -> bool:
        """True after `close`. It does not open again."""
        return self._file.closed

    @property
    def identity(self) -> str:
        """The identity of the file, under any name."""
        return file_identity(self.path)

    def open(self) -> None:
        """Opens the file, or creates it, now. Blocks.

        Raises:
            LogError: The file is locked, damaged, read-only, or cannot be created.
            Incompatible: It is newer than this release, or foreign.
        """
        self._file.open()

    async def create(
        self,
        row: RunRow,
        *,
        records: Sequence[Record] = (),
        blobs: Mapping[str, bytes] | None = None,
        owner: str = "",
        lease_ms: int = 0,
        disk: bool = False,
    ) -> Claim:
        """Registers a run with its first records."""
        # Encoded before the transaction begins: others wait for it.
        bodies = sql.bodies(row.run, records)
        leaves = sql.leaves(row.run, records, bodies)

        def work(db: sqlite3.Connection) -> Claim:
            # In the transaction of the insert: of two simultaneous processes one is refused.
            other = db.execute(sql.UNENDED, (row.session,)).fetchone() if row.session else None
            if other is not None:
                raise Conflict(
                    f"run {other[0]!r} of session {row.session!r} has not ended ({other[1]}); "
                    "finish or cancel it first"
                )
            until = self._now() + lease_ms if lease_ms else 0
            try:
                number = db.execute(sql.CREATE, sql.values(row, owner, until)).lastrowid or 0
            except sqlite3.IntegrityError as error:
                raise Conflict(f"there is already a run {row.run!r}; choose another id") from error
            links = chain.links(chain.genesis(sql.chain_id(db), row.run), leaves)
            _insert(db, row.run, number, 0, records, bodies, links, blobs)
            if links and row.status != "running":
                self._set_head(db, number, len(links) - 1, links[-1])
            return Claim(1 if owner else 0)

        claim = await self._file.write(work)
        if disk:
            await self._file.settle()
        return claim

    async def claim(
        self,
        run: str,
        owner: str,
        *,
        epoch: int | None = None,
        lease_ms: int = 0,
        force: bool = False,
    ) -> Claim:
        """Makes `owner` the owner of the run."""

        def work(db: sqlite3.Connection) -> Claim:
            number, current, before, status, until = sql.owner(db, run)
            if epoch is not None and epoch != current:
                raise Conflict(overtaken(run, current, epoch))
            # Inside the transaction, after any wait for the lock: the lease is compared with now.
            now = self._now()
            # The holder may take it again before its lease is over: it is the same process.
            held = status == "running" and lease_lasts(until, now)
            if held and not force and owner != before:
                raise Conflict(still_leased(run, until - now))
            if lease_ms:
                db.execute(sql.DRIVE, (current + 1, owner, now + lease_ms, number))
            else:
                db.execute(sql.CLAIM, (current + 1, owner, number))
            return Claim(current + 1, before)

        return await self._file.write(work)

    def renew(self, owner: str, runs: Collection[str], lease_ms: int) -> set[str]:
        """Makes the leases of `runs` end in `lease_ms` from now. Blocks."""

        def work(db: sqlite3.Connection) -> set[str]:
            until = self._now() + lease_ms
            return {run for run in runs if db.execute(sql.RENEW, (until, run, owner)).rowcount}

        return self._file.write_now(work)

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
        wake_at: int = 0,
        if_quiet: bool = False,
    ) -> bool:
        """Writes all of `records` in one transaction, or nothing."""
        bodies, costs = sql.bodies(run, records), charges(records)
        leaves = sql.leaves(run, records, bodies)
        rests = status not in ("", "running")
        last: tuple[int, bytes] | None = None

        def work(db: sqlite3.Connection) -> bool:
            nonlocal last
            number, head = self._fence(db, run, epoch)
            # Checked all the same: an overtaken owner must learn of it now, not at the next write.
            if if_quiet and _messages(db, number) - {*consume}:
                _rows(run, number, head, records, bodies, leaves)
                return False
            links = [self._last_link(db, run, number, head)] if records or rests else [b""]
            links += chain.links(links[0], leaves)
            last = number << 32 | (head + len(records) - 1), links[-1]
            _insert(db, run, number, head, records, bodies, links[1:], blobs)
            for cost in costs:
                db.execute(sql.CHARGE, (number, *cost))
            if consume:
                db.executemany(sql.CONSUME, [(number, message) for message in consume])
            if status:
                db.execute(sql.STATUS, (status, waiting_for, wake_at, number))
            if rests and head + len(records):
                self._set_head(db, number, head + len(records) - 1, links[-1])
            return True

        written = await self._file.write(work)
        # Only after the commit: another process may have written under an id that was rolled back.
        if written and records and last is not None:
            self._links[run] = last
        if disk and written:
            await self._file.settle()
        return written

    async def read(self, run: str, *, after: int = -1, limit: int = 0) -> list[Record]:
        """Returns records with `seq > after`, in order."""
        number = await self._file.read(lambda db: sql.number(db, run))
        records: list[Record] = []
        last, end = (number << 32) + max(after, -1), (number << 32) + sql.LAST
        while True:
            count = min(_CHUNK, limit - len(records)) if limit > 0 else _CHUNK
            rows = await self._all(sql.READ, last, end, count)
            records += [sql.record(run, row) for row in rows]
            if len(rows) < _CHUNK or len(records) == limit:
                return records
            last = (number << 32) + records[-1].seq
            # Another task may close the log here; then the next read raises.
            await asyncio.sleep(0)

    async def chain(self, run: str) -> RunChain:
        """Returns the stored records of the run with their links, and its heads."""

        def work(db: sqlite3.Connection) -> RunChain:
            return self._stored(db, run, sql.number(db, run))

        return await self._file.read(work)

    async def store_head(self, run: str) -> RunChain:
        """Stores the link of the last record as a head. Returns the chain."""

        def work(db: sqlite3.Connection) -> RunChain:
            number = sql.number(db, run)
            _, newest = db.execute(sql.FENCE, (number << 32, number)).fetchone()
            if newest is not None:
                head = newest & sql.LAST
                self._set_head(db, number, head, self._last_link(db, run, number, head + 1))
            return self._stored(db, run, number)

        return await self._file.write(work)

    async def tip(self, run: str, seq: int = sql.LAST) -> RunChain:
        """Returns the chain with one head, that of the last record up to `seq`, and no records.

        The head is stored, or not: then its time is 0. A run without records has no head.
        """

        def work(db: sqlite3.Connection) -> RunChain:
            number = sql.number(db, run)
            row = db.execute(sql.TIP, (number, seq)).fetchone()
            if row is None:
                return RunChain("", run)
            last, link = row
            at, envelope, stamp = db.execute(sql.HEAD, (number, last)).fetchone() or (0, b"", b"")
            head = ChainHead(last, link, at=at, envelope=envelope, stamp=stamp)
            return RunChain(db.execute(sql.CHAIN_ID).fetchone()[0], run, heads=(head,))

        return await self._file.read(work)

    async def attest(self, run: str, head: ChainHead, replaced: bytes) -> None:
        """Stores the envelope and the time stamp of a head, whose envelope is `replaced` now.

        Raises:
            Conflict: The log has no such head, or another envelope there.
        """

        def work(db: sqlite3.Connection) -> None:
            number = sql.number(db, run)
            values = (number, head.seq, head.envelope, head.stamp, replaced)
            if db.execute(sql.ATTEST, values).rowcount == 0:
                raise Conflict(
                    f"run {run!r} has no head at record {head.seq}, or it was signed meanwhile: "
                    "sign again"
                )

        await self._file.write(work)
        await self._file.settle()

    async def row(self, run: str) -> RunRow:
        """Returns the run's row."""
        rows = await self._all(f"{sql.ROW} where run = ?2", self._now(), run)
        if not rows:
            raise UnknownRun(f"no run {run!r} in this log")
        return sql.run_row(rows[0])

    async def rows(
        self,
        *,
        status: str = "",
        session: str = "",
        parent: str = "",
        principal: str = "",
        agent: str = "",
        tag: str = "",
        before: int = 0,
        limit: int = 100,
    ) -> list[RunRow]:
        """Returns runs, newest first; a `limit` of 0 means all."""
        filters = {"principal": principal, "agent": agent, "status": status}
        narrow = {"session": session, "parent": parent}
        # `session <> ''` makes the partial indexes usable; with them, `+` keeps SQLite from using a
        # wider one.
        plus = "+" if any(narrow.values()) else ""
        tests = [(f"{name} = ? and {name} <> ''", value) for name, value in narrow.items() if value]
        tests += [(f"{plus}{name} = ?", value) for name, value in filters.items() if value]
        clauses, values = [test for test, _ in tests], [value for _, value in tests]
        if before:
            clauses.append(f"{'runs.' if tag else ''}number < {int(before)}")
        most = limit if limit > 0 else -1
        if tag:
            statement = sql.TAGGED.format(and_="".join(f" and {clause}" for clause in clauses))
            rows = await self._all(statement, self._now(), tag, *values, most)
            return [sql.run_row(row) for row in rows]
        where = f"where {' and '.join(clauses)}" if clauses else ""
        rows = await self._all(
            f"{sql.ROW} {where} order by number desc limit ?",
            self._now(),
            *values,
            most,
        )
        return [sql.run_row(row) for row in rows]

    async def ids(self, prefix: str, *, limit: int = 10) -> list[str]:
        """Returns ids of runs that begin with `prefix`, in order."""
        # No text sorts after the last code point except ids that begin with it, which are missed.
        rows = await self._all(sql.IDS, prefix, prefix + chr(0x10FFFF), limit)
        return [run for (run,) in rows]

    async def clock(self) -> int:
        """Returns the time by the clock of leases, in milliseconds since the epoch."""
        return self._now()

    async def due(self, now: int, *, limit: int = 100, after: RunRow | None = None) -> list[RunRow]:
        """Returns due runs, the longest due first."""
        at, start = (0, 0) if after is None else (due_at(after), after.place)
        rows = await self._all(sql.DUE, self._now(), now, at, start, limit)
        return [sql.run_row(row) for row in rows]

    async def count(self, *, principal: str | None = None) -> dict[str, int]:
        """Returns the number of runs by status."""
        scope = "*" if principal is None else f"@{principal}"
        return dict(await self._all(sql.COUNT, scope))

    async def spent(self, windows: Sequence[Window]) -> list[Spending]:
        """Returns what was spent in each window."""

        def work(db: sqlite3.Connection) -> list[Spending]:
            asked = [(window.scope, window.since, window.until) for window in windows]
            return [Spending(*db.execute(sql.SPENT, values).fetchone()) for values in asked]

        return await self._file.read(work)

    async def spenders(self, prefix: str, since: int, until: int) -> dict[str, Spending]:
        """Returns the scopes that begin with `prefix` and spent in these hours, in order."""
        rows = await self._all(sql.SPENDERS, since, until, prefix)
        return {scope: Spending(*sums) for scope, *sums in rows}

    async def post(self, run: str, signal: Signal) -> bool:
        """Puts `signal` in the inbox, once, durably: its sender got a confirmation."""
        body = sql.message(signal)

        def work(db: sqlite3.Connection) -> bool:
            number = sql.number(db, run)
            # The ids are kept after the message is consumed: a repeated one is still the same
            # message.
            if db.execute(sql.SEE, (number, signal.id)).rowcount == 0:
                return False
            db.execute(sql.POST, (number, signal.id, body))
            if signal.kind != "refused":
                db.execute(sql.WAKE, (number,))
            return True

        new = await self._file.write(work)
        await self._file.settle()
        return new

    async def inbox(self, run: str) -> list[Signal]:
        """Returns the messages not yet consumed, in order of arrival."""

        def work(db: sqlite3.Connection) -> list[tuple[str]]:
            number = self._number(db, run)
            return db.execute(sql.INBOX, (number,)).fetchall()

        return [sql.signal(body) for (body,) in await self._file.read(work)]

    async def blob(self, digest: str) -> bytes:
        """Returns the content with this digest."""
        rows = await self._all("select body from blobs where digest = ?", digest)
        if not rows:
            raise LogError(f"no blob {digest!r}: it was never written, or its run was deleted")
        body: bytes = rows[0][0]
        return body

    async def delete(self, run: str) -> None:
        """Deletes the run, and the blobs that no other run references."""
        await self._file.read(lambda db: sql.number(db, run))
        await self._forget([run])

    async def prune(self, before_ms: int, *, keep: Collection[str] = ()) -> list[str]:
        """Deletes ended runs that are unchanged since `before_ms`. Returns their ids.

        Args:
            before_ms: Milliseconds since the epoch.
            keep: Statuses of runs to spare, such as "failed".
        """
        old = await forgettable(self, before_ms, keep)
        if old:
            await self._forget(old)
        return old

    async def scrub(self) -> None:
        """Rewrites the file so that no deleted data is left in it. `delete` and `prune` call it."""
        await self._file.read(lambda db: None)  # opened, and not closed
        await asyncio.to_thread(scrub, self.path, self._wait_s)

    async def close(self) -> None:
        """Finishes pending calls and closes the file."""
        await asyncio.to_thread(self._file.close)

    async def _all(self, statement: str, *values: object) -> list[Any]:
        return await self._file.read(lambda db: db.execute(statement, values).fetchall())

    async def _forget(self, runs: list[str]) -> None:
        await asyncio.to_thread(forget, self.path, runs, self._wait_s)
        for run in runs:
            self._numbers.pop(run, None)
            self._links.pop(run, None)

    def _last_link(self, db: sqlite3.Connection, run: str, number: int, head: int) -> bytes:
        """Returns the link before record `head`."""
        if head == 0:
            return chain.genesis(sql.chain_id(db), run)
        last = number << 32 | (head - 1)
        known, link = self._links.get(run, (0, b""))
        if known == last:
            return link
        stored: bytes = db.execute(sql.LINK, (last,)).fetchone()[0]
        return stored

    def _stored(self, db: sqlite3.Connection, run: str, number: int) -> RunChain:
        # Heads first: records that another process adds in between are behind them.
        heads = [ChainHead(*columns) for columns in db.execute(sql.HEADS, (number,))]
        records = [StoredRecord(*columns) for columns in db.execute(sql.STORED, (number,))]
        return RunChain(sql.chain_id(db), run, tuple(records), tuple(heads))

    def _set_head(self, db: sqlite3.Connection, number: int, seq: int, link: bytes) -> None:
        db.execute(sql.SET_HEAD, (number, seq, self._now(), link))

    def _number(self, db: sqlite3.Connection, run: str) -> int:
        number = self._numbers.get(run)
        if number is None:
            number = self._numbers[run] = sql.number(db, run)
        return number

    def _fence(self, db: sqlite3.Connection, run: str, epoch: int) -> tuple[int, int]:
        """Returns the run's number and next sequence number, if `epoch` is the current one."""
        number = self._number(db, run)
        # One statement reads the owner and the last event, with one lookup in the same b-tree.
        fence = db.execute(sql.FENCE, (number << 32, number)).fetchone()
        if fence is None:  # deleted by another process
            del self._numbers[run]
            raise UnknownRun(f"no run {run!r} in this log")
        if fence[0] != epoch:
            raise Conflict(overtaken(run, fence[0], epoch))
        return number, 0 if fence[1] is None else (fence[1] & sql.LAST) + 1


def _rows(
    run: str,
    number: int,
    head: int,
    records: Sequence[Record],
    bodies: Sequence[bytes],
    links: Sequence[bytes],
) -> list[tuple[int, int, bytes, bytes]]:
    """Returns the records as rows of the run that is at `head`.

    Raises:
        Conflict: A record is not the next one.
    """
    rows: list[tuple[int, int, bytes, bytes]] = []
    for seq, (record, body, link) in enumerate(zip(records, bodies, links, strict=True), head):
        if record.seq != seq or record.run != run:
            raise Conflict(misplaced_text(run, seq, record))
        rows.append((number << 32 | seq, record.at, body, link))
    return rows


def _insert(
    db: sqlite3.Connection,
    run: str,
    number: int,
    head: int,
    records: Sequence[Record],
    bodies: Sequence[bytes],
    links: Sequence[bytes],
    blobs: Mapping[str, bytes] | None = None,
) -> None:
    """Writes the next records, with their links and the blobs they reference."""
    db.executemany(sql.INSERT, _rows(run, number, head, records, bodies, links))
    keep(db, number, blobs or {}, sql.blob_digests(records))


def _messages(db: sqlite3.Connection, number: int) -> set[str]:
    return {row[0] for row in db.execute("select id from inbox where number = ?", (number,))}

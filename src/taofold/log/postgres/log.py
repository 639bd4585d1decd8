"""The log for more than one machine: a PostgreSQL database, used by any number of processes.

Each method is one short transaction; writing methods call a function of `schema`. Leases are
compared with the database's clock, so the clients' clocks do not matter. `prune` deletes old runs,
`broadcast` sends a message to the database's processes. It knows nothing about strategies or tools.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final

from taofold.core.errors import Conflict, LogError, UnknownRun
from taofold.core.events import SCHEMA_VERSION, Record
from taofold.evidence.chain import ChainHead, RunChain, StoredRecord
from taofold.log.log import (
    LONGEST_LEASE_MS,
    Claim,
    RunRow,
    Signal,
    Spending,
    Window,
    due_at,
    forgettable,
    misplaced_text,
    overtaken,
    still_leased,
)
from taofold.log.postgres.database import MOST, Database, Listener, Values
from taofold.log.postgres.journal import PostgresJournal
from taofold.log.postgres.psycopg_extras import BigintArray, ByteaArray
from taofold.log.postgres.schema import HELD
from taofold.log.spending import charges
from taofold.log.sqlite.statements import (
    blob_digests,
    bodies,
    leaves,
    message,
    read_tags,
    record,
    signal,
    tags_json,
)

_CHUNK: Final = 1000
"""Records read between two yields to the event loop."""
_LAST: Final = 2**31 - 1
_COMPACT: Final = 200
"""Number of status changes after which a process compacts them."""
_SUM: Final = 2000
"""Number of difference rows above which a count compacts them."""

_ROW: Final = (
    "select r.run, r.status, r.goal, r.agent, r.session, r.parent, r.principal, "  # noqa: S608 - constants
    "r.created_at, greatest(r.updated_at, coalesce(e.at, 0)), coalesce(e.seq, -1) + 1, r.epoch, "
    f"r.owner, r.waiting_for, coalesce(l.until, 0), r.wake_at, {HELD}, r.number, r.tags "
    "from {runs} r left join taofold_leases l on l.number = r.number "
    "left join lateral (select seq, at from taofold_events e where e.number = r.number "
    "order by seq desc limit 1) e on true "
)
_FROM_RUNS: Final = _ROW.format(runs="taofold_runs")
_LEASED: Final = (
    "select r.*, l.until as due from taofold_leases l join taofold_runs r on r.number = l.number "  # noqa: S608 - constants
    f"where r.status = 'running' and (l.until <= taofold_now() or l.until > taofold_now() + "
    f"{LONGEST_LEASE_MS}) and (l.until, l.number) > (%(at)b::bigint, %(place)b::bigint) "
    "order by l.until, l.number limit %(limit)b"
)
_WAKING: Final = (
    "select r.*, r.wake_at as due from taofold_runs r where r.status = 'waiting' "
    "and r.wake_at > 0 and r.wake_at <= %(now)b "
    "and (r.wake_at, r.number) > (%(at)b::bigint, %(place)b::bigint) "
    "order by r.wake_at, r.number limit %(limit)b"
)
_DUE: Final = (
    _ROW.format(  # noqa: S608
        runs=f"(select * from (({_LEASED}) union all ({_WAKING})) as row "  # noqa: S608 - constants
        "order by due, number limit %(limit)b)"
    )
    + "order by r.due, r.number"
)
_READ: Final = (
    "select r.number, e.seq, e.at, e.body, e.version from taofold_runs r left join lateral "
    "(select seq, at, body, version from taofold_events e where e.number = r.number "
    "and e.seq > %b order by seq limit %b) e on true where r.run = %b order by e.seq"
)
_CREATE: Final = f"select * from taofold_create({', '.join(['%b'] * 21)})"  # noqa: S608 - marks
_CLAIM: Final = "select * from taofold_claim(%b, %b, %b::bigint, %b, %b)"
# Many appends at once: each takes its own slices of the concatenated arrays.
_APPEND: Final = """
select a.* from unnest(%b::bytea[], %b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[],
    %b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[], %b::bytea[],
    %b::bytea[], %b::bigint[], %b::bigint[])
  with ordinality as w(run, epoch, first, flags, events, blobs, refs, consumed, costs, agents,
    status, waiting, wake, version, n),
  lateral (select (w.events >> 32)::int + 1 as e, (w.events & 2147483647)::int as e_end,
    (w.blobs >> 32)::int + 1 as b, (w.blobs & 2147483647)::int as b_end,
    (w.refs >> 32)::int + 1 as r, (w.refs & 2147483647)::int as r_end,
    (w.consumed >> 32)::int + 1 as c, (w.consumed & 2147483647)::int as c_end,
    (w.costs >> 32)::int + 1 as m, (w.costs & 2147483647)::int as m_end,
    (w.agents >> 32)::int + 1 as g, (w.agents & 2147483647)::int as g_end) as i,
  lateral taofold_append(w.run, w.epoch, w.first, (%b::bigint[])[e:e_end],
    (%b::bytea[])[e:e_end], w.version::smallint, (%b::bytea[])[e:e_end],
    (%b::bytea[])[b:b_end], (%b::bytea[])[b:b_end],
    (%b::bytea[])[r:r_end], (%b::bytea[])[c:c_end], (%b::bigint[])[m:m_end], (%b::bytea[])[g:g_end],
    convert_from(w.status, 'UTF8'), w.waiting, w.wake, w.flags = 1) as a
  order by w.n
"""
_POST: Final = "select * from taofold_post(%b, %b, %b, %b)"
_HEAD: Final = "select * from taofold_head(%b)"
_ATTEST: Final = "select * from taofold_attest(%b, %b, %b, %b, %b)"
_CHAIN_ID: Final = "select value from taofold_meta where key = 'chain'"
_HEADS: Final = (
    "select h.seq, h.link, h.at, h.envelope, h.stamp from taofold_heads h "
    "join taofold_runs r on r.number = h.number where r.run = %b order by h.seq"
)
_STORED: Final = (
    "select r.number, e.seq, e.at, e.version, e.body, e.link from taofold_runs r "
    "left join lateral (select seq, at, body, version, link from taofold_events e "
    "where e.number = r.number and e.seq > %b order by seq limit %b) e on true "
    "where r.run = %b order by e.seq"
)
_TIP: Final = (
    "select r.number, m.value, e.seq, e.link, coalesce(h.at, 0), coalesce(h.envelope, ''), "
    "coalesce(h.stamp, '') from taofold_runs r join taofold_meta m on m.key = 'chain' "
    "left join lateral (select seq, link from taofold_events e "
    "where e.number = r.number and e.seq <= %b order by seq desc limit 1) e on true "
    "left join taofold_heads h on h.number = r.number and h.seq = e.seq where r.run = %b"
)
_DELETE: Final = "select * from taofold_delete(%b)"
_RENEW: Final = (
    "update taofold_leases l set until = taofold_now() + %b::bigint from taofold_runs r "
    "where r.run = any(%b) and l.number = r.number and l.owner = %b and r.status = 'running' "
    "returning r.run"
)
_COUNT: Final = (
    "select status, sum(runs)::bigint, sum(rows)::bigint from ("
    "select status, runs, 0 as rows from taofold_totals where scope = %(scope)b union all "
    "select status, runs, 1 from taofold_changes where scope = %(scope)b) as row group by status"
)

_SUMS: Final = (
    "coalesce(sum(tokens), 0)::bigint, coalesce(sum(unpriced), 0)::bigint, "
    "coalesce(sum(nano_usd), 0)::bigint"
)
# One statement, and so one snapshot: a charge is in one of both tables.
_SPENT: Final = (
    f"select s.* from unnest(%b::bytea[], %b::bigint[], %b::bigint[]) "  # noqa: S608 - constants
    f"with ordinality as w(scope, since, until, n), lateral (select {_SUMS}, "
    "coalesce(sum(row), 0)::bigint from ("
    "select tokens, unpriced, nano_usd, 0 as row from taofold_spend "
    "where scope = w.scope and hour >= w.since and hour < w.until union all "
    "select tokens, unpriced, nano_usd, 1 from taofold_charges "
    "where scope = w.scope and hour >= w.since and hour < w.until) as part) as s order by w.n"
)
_SPENDERS: Final = (
    f"select scope, {_SUMS} from (select * from taofold_spend "  # noqa: S608 - constants
    "where hour >= %(since)b and hour < %(until)b union all "
    "select scope, hour, tokens, unpriced, nano_usd from taofold_charges "
    "where hour >= %(since)b and hour < %(until)b) as part "
    "where substr(scope, 1, length(%(prefix)b)) = %(prefix)b group by scope order by scope"
)


class PostgresLog:
    """A `Log` in the PostgreSQL database at `dsn`.

    A write whose connection breaks raises `OutcomeUnknown`: wrap it in a `CertainLog`, as
    `open_log` does.

    Args:
        dsn: The address, or a `Database` that is shared with a journal and closed by this log.
        most: Maximum number of connections.
        wait_s: Maximum wait in seconds for a free connection or an unreachable server.

    >>> log = PostgresLog("postgresql://ann@db.example/agents")
    >>> log.database.name
    'user=ann dbname=agents host=db.example'
    """

    def __init__(self, dsn: str | Database, *, most: int = MOST, wait_s: float = 10.0) -> None:
        if isinstance(dsn, str):
            dsn = Database(dsn, most=most, wait_s=wait_s)
        self.database = dsn
        self._changed = 0

    @property
    def closed(self) -> bool:
        """True after `close`. It does not open again."""
        return self.database.closed

    @property
    def identity(self) -> str:
        """The identity of the tables, for any address."""
        return self.database.identity

    def open(self) -> None:
        """Connects, and creates or upgrades the tables, now. Blocks.

        Raises:
            LogError: The database cannot be reached or used; the message has the reason.
            Incompatible: It is newer than this release.
        """
        self.database.open()

    def journal(self) -> PostgresJournal:
        """Returns the journal in the same database. It ends with this log."""
        return PostgresJournal(self.database)

    def on_change(self, listener: Listener) -> Callable[[], None]:
        """Calls `listener`, in another thread, with each run whose status or inbox changed.

        "" stands for any run: a change may have been missed. Returns a function that stops it.
        """
        return self.database.on_run_changed(listener)

    def broadcast(self, message: str) -> None:
        """Sends a message to all processes on this database. Does not wait; it may be lost.

        Raises:
            LogError: `message` is not ASCII of less than 8000 bytes, or the log is closed.
        """
        self.database.broadcast(message)

    def on_broadcast(self, listener: Listener) -> Callable[[], None]:
        """Calls `listener` in another thread with each message. Returns a stop function."""
        return self.database.on_broadcast(listener)

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
        content = blobs or {}
        events = _events(row.run, records)
        texts = (row.run, row.status, row.goal, row.agent, row.session, row.parent, row.principal)
        run, status, *others = (_bytes(text) for text in texts)
        values: tuple[Any, ...] = (
            run,
            status.decode(),
            *others,
            row.created_at,
            row.updated_at,
            _bytes(row.waiting_for),
            row.wake_at,
            _bytes(owner),
            lease_ms,
            *events,
            leaves(row.run, records, events[1]),
            _digests(content),
            list(content.values()),
            _digests(blob_digests(records)),
            tags_json(row),
        )
        # Checked here: the function in the database numbers the records itself and would not
        # notice.
        if _first(row.run, records, 0) != 0 and records:
            raise Conflict(misplaced_text(row.run, *_wrong(row.run, records, 0)))
        code, _, who, what = await self.database.alone(_CREATE, values, disk=disk)
        if code == "taken":
            raise Conflict(f"there is already a run {row.run!r}; choose another id")
        if code == "busy":
            raise Conflict(
                f"run {_text(who)!r} of session {row.session!r} has not ended ({what}); "
                "finish or cancel it first"
            )

        await self._count_changes()
        return Claim(1 if owner else 0)

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
        values = (_bytes(run), _bytes(owner), epoch, lease_ms, force)
        code, at, who, _ = await self.database.write(values[0], _CLAIM, values)
        if code == "ok":
            return Claim(at, _text(who))
        if code == "held":
            raise Conflict(still_leased(run, at))
        raise _refusal(code, run, at, epoch or 0)

    def renew(self, owner: str, runs: Collection[str], lease_ms: int) -> set[str]:
        """Makes the leases of `runs` end in `lease_ms` from now. Blocks."""
        # In one order, so that two renewing processes do not deadlock.
        values = (lease_ms, [_bytes(run) for run in sorted(runs)], _bytes(owner))
        return {_text(run) for (run,) in self.database.renew_now(_RENEW, values)}

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
        first = records[0].seq if records else 0
        ats, texts, version = _events(run, records)
        content, costs = blobs or {}, charges(records)
        values: tuple[Any, ...] = (
            _bytes(run),
            epoch,
            _first(run, records, first),
            if_quiet,
            _bytes(status),
            _bytes(waiting_for),
            wake_at,
            version,
            ats,
            texts,
            leaves(run, records, texts),
            _digests(content),
            list(content.values()),
            _digests(blob_digests(records)),
            _digests(consume),
            [number for cost in costs for number in cost[:4]],
            [_bytes(cost.agent) for cost in costs],
        )
        code, at, _, _ = await self.database.write(values[0], _appends, values, disk=disk)
        if code == "ok":
            if status or costs:
                await self._count_changes()
            return True

        if code == "loud":
            return False
        if code == "misplaced":
            raise Conflict(misplaced_text(run, *_wrong(run, records, at)))
        raise _refusal(code, run, at, epoch)

    async def read(self, run: str, *, after: int = -1, limit: int = 0) -> list[Record]:
        """Returns records with `seq > after`, in order."""
        records: list[Record] = []
        # Sequence numbers have 32 bits there; a larger one would be an error instead of an empty
        # answer.
        last = min(max(after, -1), _LAST)
        while True:
            count = min(_CHUNK, limit - len(records)) if limit > 0 else _CHUNK
            rows = await self.database.fetch(_READ, (last, count, _bytes(run)))
            if not rows:
                raise UnknownRun(f"no run {run!r} in this log")
            # The left join gives one row of nulls for a run without further records.
            if rows[0][1] is None:
                return records
            records += [record(run, row[1:]) for row in rows]
            if len(rows) < _CHUNK or len(records) == limit:
                return records
            last = records[-1].seq
            await asyncio.sleep(0)

    async def chain(self, run: str) -> RunChain:
        """Returns the stored records of the run with their links, and its heads."""
        ((identity,),) = await self.database.fetch(_CHAIN_ID)
        # Heads first: records that another process adds in between are behind them.
        heads = await self.database.fetch(_HEADS, (_bytes(run),))
        records: list[StoredRecord] = []
        while True:
            after = records[-1].seq if records else -1
            rows = await self.database.fetch(_STORED, (after, _CHUNK, _bytes(run)))
            if not rows:
                raise UnknownRun(f"no run {run!r} in this log")
            records += [StoredRecord(*row[1:]) for row in rows if row[1] is not None]
            if len(rows) < _CHUNK:
                break
        return RunChain(
            str(identity), run, tuple(records), tuple([ChainHead(*head) for head in heads])
        )

    async def store_head(self, run: str) -> RunChain:
        """Stores the link of the last record as a head. Returns the chain."""
        code, at, _, _ = await self.database.alone(_HEAD, (_bytes(run),))
        if code != "ok":
            raise _refusal(code, run, at, 0)
        return await self.chain(run)

    async def tip(self, run: str, seq: int = _LAST) -> RunChain:
        """Returns the chain with one head, that of the last record up to `seq`, and no records.

        The head is stored, or not: then its time is 0. A run without records has no head.
        """
        rows = await self.database.fetch(_TIP, (seq, _bytes(run)))
        if not rows:
            raise UnknownRun(f"no run {run!r} in this log")
        _, identity, last, link, at, envelope, stamp = rows[0]
        if last is None:
            return RunChain(str(identity), run)
        head = ChainHead(last, link, at=at, envelope=envelope, stamp=stamp)
        return RunChain(str(identity), run, heads=(head,))

    async def attest(self, run: str, head: ChainHead, replaced: bytes) -> None:
        """Stores the envelope and the time stamp of a head, whose envelope is `replaced` now.

        Raises:
            Conflict: The log has no such head, or another envelope there.
        """
        values = (_bytes(run), head.seq, head.envelope, head.stamp, replaced)
        code, _, _, _ = await self.database.alone(_ATTEST, values, disk=True)
        if code != "ok":
            raise Conflict(
                f"run {run!r} has no head at record {head.seq}, or it was signed meanwhile: "
                "sign again"
            )

    async def row(self, run: str) -> RunRow:
        """Returns the run's row."""
        rows = await self.database.fetch(f"{_FROM_RUNS} where r.run = %b", (_bytes(run),))
        if not rows:
            raise UnknownRun(f"no run {run!r} in this log")
        return _row(rows[0])

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
        names = {"session": session, "parent": parent, "principal": principal, "agent": agent}
        tests = [(f"r.{name} = %b", _bytes(value)) for name, value in names.items() if value]
        # A redundant condition that makes the partial indexes usable.
        tests += [(f"r.{name} <> %b", b"") for name in ("session", "parent") if names[name]]
        clauses, values = [test for test, _ in tests], list[Any]([value for _, value in tests])
        if status:
            clauses.append("r.status = %b")
            values.append(status)
        if before:
            clauses.append("r.number < %b")
            values.append(before)
        source, order = "taofold_runs r", "r.number"
        if tag:
            # The index of tags leads, newest first.
            source, order = "taofold_tags t join taofold_runs r on r.number = t.number", "t.number"
            clauses.append("t.tag = %b")
            values.append(_bytes(tag))
        where = f"where {' and '.join(clauses)}" if clauses else ""
        # Literals: with a bound limit a prepared plan is generic and sorts all rows.
        most = f"limit {int(limit)}" if limit > 0 else ""
        inner = f"(select r.* from {source} {where} order by {order} desc {most})"  # noqa: S608 - only parameters
        rows = await self.database.fetch(
            f"{_ROW.format(runs=inner)} order by r.number desc", values
        )
        return [_row(row) for row in rows]

    async def ids(self, prefix: str, *, limit: int = 10) -> list[str]:
        """Returns ids of runs that begin with `prefix`, in order."""
        start = _bytes(prefix)
        rows = await self.database.fetch(
            "select run from taofold_runs where run >= %b and run < %b order by run limit %b",
            (start, start + b"\xff", limit),  # a byte that UTF-8 does not have
        )
        return [_text(run) for (run,) in rows]

    async def clock(self) -> int:
        """Returns the time by the clock of leases, which is the database's."""
        ((now,),) = await self.database.fetch("select taofold_now()")
        return int(now)

    async def due(self, now: int, *, limit: int = 100, after: RunRow | None = None) -> list[RunRow]:
        """Returns due runs, the longest due first."""
        at, start = (0, 0) if after is None else (due_at(after), after.place)
        values = {"now": now, "at": at, "place": start, "limit": limit}
        rows = await self.database.fetch(_DUE, values)
        return [_row(row) for row in rows]

    async def count(self, *, principal: str | None = None) -> dict[str, int]:
        """Returns the number of runs by status."""
        scope = b"*" if principal is None else b"@" + _bytes(principal)
        row = await self.database.fetch(_COUNT, {"scope": scope})
        if sum(rows for _, _, rows in row) > _SUM:
            await self.compact()
        return {status: runs for status, runs, _ in row if runs}

    async def spent(self, windows: Sequence[Window]) -> list[Spending]:
        """Returns what was spent in each window."""
        scopes = ByteaArray.of([_bytes(window.scope) for window in windows])
        since = BigintArray.of([window.since for window in windows])
        until = BigintArray.of([window.until for window in windows])
        rows = await self.database.fetch(_SPENT, (scopes, since, until))
        if sum(count for *_, count in rows) > _SUM:
            await self.compact()
        return [Spending(*sums) for *sums, _ in rows]

    async def spenders(self, prefix: str, since: int, until: int) -> dict[str, Spending]:
        """Returns the scopes that begin with `prefix` and spent in these hours, in order."""
        values = {"prefix": _bytes(prefix), "since": since, "until": until}
        rows = await self.database.fetch(_SPENDERS, values)
        return {_text(scope): Spending(*sums) for scope, *sums in rows}

    async def compact(self) -> None:
        """Compacts changes of statuses and charges, so that the cost of sums does not grow."""
        await self.database.fetch("select taofold_compact()")

    async def post(self, run: str, signal: Signal) -> bool:
        """Puts `signal` in the inbox, once, durably: its sender got a confirmation."""
        values = (_bytes(run), _bytes(signal.id), message(signal), signal.kind != "refused")
        code, at, _, _ = await self.database.alone(_POST, values, disk=True)
        if code == "unknown":
            raise _refusal(code, run, at, 0)
        return bool(code == "ok")

    async def inbox(self, run: str) -> list[Signal]:
        """Returns the messages not yet consumed, in order of arrival."""
        rows = await self.database.inbox(_bytes(run))
        if not rows:
            raise UnknownRun(f"no run {run!r} in this log")
        return [signal(body) for (body,) in rows if body is not None]

    async def blob(self, digest: str) -> bytes:
        """Returns the content with this digest."""
        rows = await self.database.fetch(
            "select body from taofold_blobs where digest = %b", (_bytes(digest),)
        )
        if not rows:
            raise LogError(f"no blob {digest!r}: it was never written, or its run was deleted")
        body: bytes = rows[0][0]
        return body

    async def delete(self, run: str) -> None:
        """Deletes the run, and the blobs that no other run references."""
        code, at, _, _ = await self.database.alone(_DELETE, (_bytes(run),))
        if code != "ok":
            raise _refusal(code, run, at, 0)

    async def prune(self, before_ms: int, *, keep: Collection[str] = ()) -> list[str]:
        """Deletes ended runs that are unchanged since `before_ms`. Returns their ids.

        Args:
            before_ms: Milliseconds since the epoch.
            keep: Statuses of runs to spare, such as "failed".
        """
        old = await forgettable(self, before_ms, keep)
        for run in old:
            await self.delete(run)
        return old

    async def close(self) -> None:
        """Finishes pending calls and closes the connections."""
        await asyncio.to_thread(self.database.close)

    async def _count_changes(self) -> None:
        self._changed += 1
        # Now and then by each writer, so that no separate service is needed.
        if self._changed % _COMPACT == 0:
            await self.compact()


def _appends(calls: Sequence[Values]) -> tuple[str, Values]:
    """Returns one statement for the values of many appends."""
    runs, epochs, firsts, quiet, status, waiting, wakes, versions, *lists = zip(*calls, strict=True)
    ats, texts, hashes, digests, contents, refs, consumed, costs, agents = lists
    return _APPEND, (
        ByteaArray.of(runs),
        BigintArray.of(epochs),
        BigintArray.of(firsts),
        BigintArray.of(quiet),
        *(
            BigintArray.of(_slices(parts))
            for parts in (ats, digests, refs, consumed, costs, agents)
        ),
        ByteaArray.of(status),
        ByteaArray.of(waiting),
        BigintArray.of(wakes),
        BigintArray.of(versions),
        BigintArray.of([at for part in ats for at in part]),
        *(
            ByteaArray.of([content for part in parts for content in part])
            for parts in (texts, hashes, digests, contents, refs, consumed)
        ),
        BigintArray.of([number for part in costs for number in part]),
        ByteaArray.of([agent for part in agents for agent in part]),
    )


def _slices(parts: Sequence[Sequence[Any]]) -> list[int]:
    """Returns start and end of each part among all elements, as one number: 32 bits each."""
    ends = list(accumulate(map(len, parts)))
    return [(end - len(part)) << 32 | end for part, end in zip(parts, ends, strict=True)]


def _bytes(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise LogError(
            f"{text[:50]!r} cannot be written: {error.reason}. Nothing was written"
        ) from error


def _text(content: bytes | None) -> str:
    return "" if content is None else bytes(content).decode()


def _digests(digests: Iterable[str]) -> list[bytes]:
    return [_bytes(digest) for digest in digests]


def _events(run: str, records: Sequence[Record]) -> tuple[list[int], list[bytes], int]:
    """Returns the records' times, bodies and schema version."""
    return [record.at for record in records], bodies(run, records), SCHEMA_VERSION


def _first(run: str, records: Sequence[Record], first: int) -> int:
    """Returns the first record's number; -1 if one is misplaced, -2 if there are none."""
    if not records:
        return -2
    placed = all(
        record.seq == seq and record.run == run for seq, record in enumerate(records, first)
    )
    return first if placed else -1


def _wrong(run: str, records: Sequence[Record], head: int) -> tuple[int, Record]:
    """Returns the first misplaced record of a run that is at `head`, and the expected number."""
    for seq, written in enumerate(records, head):
        if written.seq != seq or written.run != run:
            return seq, written
    raise AssertionError("all records are in their places")


def _refusal(code: str, run: str, at: Any, epoch: int) -> LogError:
    if code == "unknown":
        return UnknownRun(f"no run {run!r} in this log")
    return Conflict(overtaken(run, at, epoch))


def _row(row: tuple[Any, ...]) -> RunRow:
    columns: list[Any] = [_text(value) if isinstance(value, bytes) else value for value in row]
    columns[-1] = read_tags(columns[-1])
    return RunRow(*columns)

"""The SQL of the log: its tables, its statements, and rows as values.

It knows nothing about transactions.
"""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from taofold.core.errors import Incompatible, LogError, UnknownRun
from taofold.core.events import SCHEMA_VERSION, Record, decode, encode
from taofold.core.state import ENDED
from taofold.evidence import chain
from taofold.log.log import LONGEST_LEASE_MS, RunRow, Signal

VERSION: Final = 7
"""Version of the layout. Raise it with statements in `UPGRADES`."""

# In the file's header (`pragma application_id`), where other programs find it too.
APPLICATION: Final = 0x7A0F01D5

_END: Final = 253_402_300_800_000
"""The year 10000, in milliseconds since the epoch."""
_JOURNAL: Final = (
    """create table streams(
        number integer primary key autoincrement, stream text not null unique,
        head integer not null, created_at integer not null, updated_at integer not null,
        owner text not null default '', lease_until integer not null default 0)""",
    "create table facts(id integer primary key, at integer not null, body text not null)",
)
OPEN_SESSION: Final = (
    f"session <> '' and status not in ({', '.join(repr(status) for status in sorted(ENDED))})"
)
"""Holds for the one run of a session that has not ended."""
# The rowid `number` is the last column of every index, so "newest first" needs no sort.
_RUNS_BY: Final = (
    f"create index runs_session_open on runs(session) where {OPEN_SESSION}",
    "create index runs_status on runs(status)",
    "create index runs_principal on runs(principal)",
    "create index runs_principal_status on runs(principal, status)",
    "create index runs_principal_agent on runs(principal, agent)",
    "create index runs_principal_agent_status on runs(principal, agent, status)",
    "create index runs_agent on runs(agent)",
    "create index runs_agent_status on runs(agent, status)",
)
"""Indexes for the filters of `rows`: within equal values they have the order of registration."""
_RUNS_DUE: Final = (
    "create index runs_leased on runs(lease_until) where status = 'running' and lease_until > 0",
    "create index runs_waking on runs(wake_at) where status = 'waiting' and wake_at > 0",
)
_SCOPES: Final = (("'*'", ""), ("'@' || {row}.principal", "where {row}.parent = ''"))
"""All runs, and those of a principal that have no parent."""


def _counting(row: str, by: int) -> str:
    """Returns statements of a trigger that count `row` in, or out."""
    return " ".join(
        f"insert into counts select {scope.format(row=row)}, {row}.status, {by} "
        f"{where.format(row=row) or 'where true'} "
        "on conflict(scope, status) do update set runs = runs + excluded.runs;"
        for scope, where in _SCOPES
    )


_COUNTS: Final = (
    "create table counts(scope text not null, status text not null, runs integer not null, "
    "primary key(scope, status)) without rowid",
    f"create trigger runs_counted after insert on runs begin {_counting('new', 1)} end",
    f"create trigger runs_uncounted after delete on runs begin {_counting('old', -1)} end",
    "create trigger runs_recounted after update of status on runs "
    f"when old.status <> new.status begin {_counting('old', -1)} {_counting('new', 1)} end",
)
"""The number of runs, kept by the database itself in every transaction that changes it."""
_TAGS: Final = (
    # Within one tag the runs are in the order of registration, as in lists.
    "create table tags(tag text not null, number integer not null, "
    "primary key(tag, number)) without rowid",
    "create trigger runs_tagged after insert on runs when new.tags <> '{}' begin "
    "insert into tags select key || '=' || value, new.number from json_each(new.tags); end",
    "create trigger runs_untagged after delete on runs when old.tags <> '{}' begin "
    "delete from tags where number = old.number "
    "and tag in (select key || '=' || value from json_each(old.tags)); end",
)
"""The tags of runs, and the index of them, kept by the database itself."""
_SPEND: Final = (
    "create table spend(scope text not null, hour integer not null, tokens integer not null, "
    "unpriced integer not null, nano_usd integer not null, primary key(scope, hour)) without rowid",
    "create index spend_hour on spend(hour)",
)
"""Spending by scope and hour (`log.spending`)."""
_HEADS: Final = (
    "create table heads(number integer not null, seq integer not null, at integer not null, "
    "link blob not null, envelope blob not null, stamp blob not null, "
    "primary key(number, seq)) without rowid"
)
"""The heads of chains (`evidence.chain`)."""
TABLES: Final = (
    """create table runs(
        number integer primary key autoincrement, run text not null unique,
        status text not null, goal text not null, agent text not null,
        session text not null, parent text not null, principal text not null,
        created_at integer not null, updated_at integer not null,
        epoch integer not null, owner text not null, waiting_for text not null,
        lease_until integer not null default 0, wake_at integer not null default 0,
        tags text not null default '{}')""",
    "create index runs_session on runs(session) where session <> ''",
    "create index runs_parent on runs(parent) where parent <> ''",
    *_RUNS_BY,
    *_RUNS_DUE,
    "create table events(id integer primary key, at integer not null, body text not null, "
    "version integer, link blob not null)",
    "create table inbox(number integer not null, place integer not null, id text not null, "
    "body text not null, primary key(number, place)) without rowid",
    "create table seen(number integer not null, id text not null, "
    "primary key(number, id)) without rowid",
    "create table blobs(digest text primary key, body blob not null)",
    "create table refs(digest text not null, number integer not null, "
    "primary key(digest, number)) without rowid",
    "create table meta(key text primary key, value text not null) without rowid",
    *_COUNTS,
    *_JOURNAL,
    *_TAGS,
    *_SPEND,
    _HEADS,
)
UPGRADES: Final[Mapping[int, tuple[str, ...]]] = {}
"""Statements that upgrade layout n to n + 1."""


LAST: Final = 0xFFFFFFFF
"""The highest sequence number a run can have."""

# Ids are `number << 32 | seq`: a run's events are one range of the primary key.
_RANGE: Final = "id between number << 32 and (number << 32) + 4294967295"
_COLUMNS: Final = (
    "select run, status, goal, agent, session, parent, principal, created_at, "  # noqa: S608 - constants
    "max(updated_at, coalesce("
    f"(select at from events where {_RANGE} order by id desc limit 1), 0)), "
    f"coalesce((select max(id) from events where {_RANGE}) & 4294967295, -1) + 1, "
    "epoch, owner, waiting_for, lease_until, wake_at, "
    f"status = 'running' and lease_until > ?1 and lease_until <= ?1 + {LONGEST_LEASE_MS}, "
    "number, tags "
)
ROW: Final = f"{_COLUMNS}from runs "
"""Selects a `RunRow`; parameter 1 is the log's clock."""
TAGGED: Final = (
    # The index of tags leads, newest first: the scan stops when there are enough rows.
    f"{_COLUMNS}from (select runs.* from tags cross join runs on runs.number = tags.number "  # noqa: S608 - constants
    "where tags.tag = ? {and_} order by tags.number desc limit ?) as runs order by number desc"
)
"""Selects the rows that have a tag; `and_` are further conditions."""
FENCE: Final = (
    "select epoch, (select max(id) from events where id between ?1 and ?1 + 4294967295) "
    "from runs where number = ?2"
)
INSERT: Final = (
    "insert into events(id, at, body, version, link) "
    f"values(?, ?, cast(? as text), {SCHEMA_VERSION}, ?)"
)
LINK: Final = "select link from events where id = ?"
TIP: Final = (
    "select id & 4294967295, link from events "
    "where id between ?1 << 32 and (?1 << 32) + ?2 order by id desc limit 1"
)
"""Selects the last record of a run up to a sequence number, and its link."""
HEAD: Final = "select at, envelope, stamp from heads where number = ? and seq = ?"
CHAIN_ID: Final = "select value from meta where key = 'chain'"
NEW_CHAIN: Final = "insert into meta values('chain', ?)"
STORED: Final = (
    "select id & 4294967295, at, coalesce(version, 1), cast(body as blob), link "
    "from events where id between ?1 << 32 and (?1 << 32) + 4294967295 order by id"
)
HEADS: Final = "select seq, link, at, envelope, stamp from heads where number = ? order by seq"
SET_HEAD: Final = (
    "insert into heads(number, seq, at, link, envelope, stamp) "
    "values(?1, ?2, ?3, ?4, x'', x'') on conflict(number, seq) do nothing"
)
ATTEST: Final = (
    "update heads set envelope = ?3, stamp = ?4 where number = ?1 and seq = ?2 and envelope = ?5"
)
READ: Final = (
    "select id & 4294967295, at, body, version from events where id > ? and id <= ? "
    "order by id limit ?"
)
CREATE: Final = (
    "insert into runs(run, status, goal, agent, session, parent, principal, created_at, "
    "updated_at, waiting_for, wake_at, tags, epoch, owner, lease_until) "
    "values(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, cast(? as text), ?, ?, ?)"
)
UNENDED: Final = f"select run, status from runs where session = ? and {OPEN_SESSION}"  # noqa: S608 - constants
OWNER: Final = "select number, epoch, owner, status, lease_until from runs where run = ?"
CLAIM: Final = "update runs set epoch = ?, owner = ?, lease_until = 0 where number = ?"
DRIVE: Final = (
    "update runs set epoch = ?, owner = ?, status = 'running', waiting_for = '', wake_at = 0, "
    "lease_until = ? where number = ?"
)
RENEW: Final = "update runs set lease_until = ? where run = ? and owner = ? and status = 'running'"
STATUS: Final = (
    "update runs set status = ?1, waiting_for = ?2, wake_at = ?3, "
    "lease_until = case ?1 when 'running' then lease_until else 0 end where number = ?4"
)
IDS: Final = "select run from runs where run >= ? and run < ? order by run limit ?"
WAKE: Final = "update runs set wake_at = 1 where number = ?"
_LEASED: Final = (
    # The index is named so that the cost depends on the due runs only. Without the index it fails
    # instead of scanning.
    f"{ROW} indexed by runs_leased where status = 'running' and lease_until > 0 and "
    f"(lease_until <= ?1 or lease_until > ?1 + {LONGEST_LEASE_MS}) "
    "and (lease_until, number) > (?3, ?4) order by lease_until, number limit ?5"
)
_WAKING: Final = (
    f"{ROW} indexed by runs_waking where status = 'waiting' and wake_at > 0 and wake_at <= ?2 "
    "and (wake_at, number) > (?3, ?4) order by wake_at, number limit ?5"
)
DUE: Final = (
    f"select * from (select * from ({_LEASED}) union all select * from ({_WAKING})) "  # noqa: S608 - constants
    "order by case status when 'running' then lease_until else wake_at end, number limit ?5"
)
"""Parameters: the log's clock, now, the last row's time and number, and the limit."""
COUNT: Final = "select status, runs from counts where scope = ? and runs > 0"
CHARGE: Final = (
    "insert into spend(scope, hour, tokens, unpriced, nano_usd) "
    "select scope, ?2, ?3, ?4, ?5 from (select 'all' as scope "
    "union all select 'principal:' || principal from runs where number = ?1 "
    "union all select 'agent:' || coalesce(nullif(?6, ''), agent) from runs where number = ?1 "
    "union all select 'tag:' || key || '=' || value from runs, json_each(runs.tags) "
    "where number = ?1) where true on conflict(scope, hour) do update set "
    "tokens = tokens + excluded.tokens, unpriced = unpriced + excluded.unpriced, "
    "nano_usd = nano_usd + excluded.nano_usd"
)
"""Charges all scopes of a run; parameters: its number, and a `Charge`."""
_SUMS: Final = "coalesce(sum(tokens), 0), coalesce(sum(unpriced), 0), coalesce(sum(nano_usd), 0)"
SPENT: Final = f"select {_SUMS} from spend where scope = ? and hour >= ? and hour < ?"  # noqa: S608 - constants
SPENDERS: Final = (
    f"select scope, {_SUMS} from spend where hour >= ? and hour < ? "  # noqa: S608 - constants
    "and substr(scope, 1, length(?3)) = ?3 group by scope order by scope"
)
SEE: Final = "insert or ignore into seen(number, id) values(?, ?)"
POST: Final = (
    "insert into inbox(number, place, id, body) values(?1, "
    "(select coalesce(max(place), 0) + 1 from inbox where number = ?1), ?2, cast(?3 as text))"
)
INBOX: Final = "select body from inbox where number = ? order by place"
CONSUME: Final = "delete from inbox where number = ? and id = ?"

_SIGNAL: Final = msgspec.json.Decoder(Signal)
_UNWRITABLE: Final = (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError)


def tags_json(row: RunRow) -> bytes:
    """Returns the tags of a run in the form that a log keeps."""
    return msgspec.json.encode(row.tags, order="sorted")


def values(row: RunRow, owner: str, lease_until: int) -> tuple[str | int | bytes, ...]:
    """Returns a new run's row for `CREATE`."""
    texts = (row.run, row.status, row.goal, row.agent, row.session, row.parent, row.principal)
    times = (row.created_at, row.updated_at, row.waiting_for, row.wake_at, tags_json(row))
    return (*texts, *times, 1 if owner else 0, owner, lease_until)


def run_row(row: tuple[Any, ...]) -> RunRow:
    """Returns the row that `ROW` selected."""
    columns: tuple[Any, ...] = (*row[:-3], bool(row[-3]), row[-2], read_tags(row[-1]))
    return RunRow(*columns)


def read_tags(text: str | bytes) -> dict[str, str]:
    """Returns the tags in a row of a run."""
    return msgspec.json.decode(text, type=dict[str, str])


def bodies(run: str, records: Iterable[Record]) -> list[bytes]:
    """Returns the records' JSON form.

    Raises:
        LogError: An event holds a value that JSON lacks.
    """
    done: list[bytes] = []
    for record in records:
        try:
            done.append(encode(record.event))
        except _UNWRITABLE as error:
            raise LogError(
                f"record {record.seq} of run {run!r} cannot be written as JSON: {error}. Nothing "
                "was written: return plain, valid values from tools and actions"
            ) from error
    return done


def leaves(run: str, records: Sequence[Record], bodies: Sequence[bytes]) -> list[bytes]:
    """Returns the hashes of records for the run's chain.

    Raises:
        LogError: An event is nested too deep, or its name is not valid text.
    """
    rows = [(record.seq, record.at, body) for record, body in zip(records, bodies, strict=True)]
    try:
        return chain.leaves(run, SCHEMA_VERSION, rows)
    except _UNWRITABLE as error:
        raise LogError(
            f"an event of run {run!r} cannot be written as JSON: {error}. Nothing was written: "
            "return plain, valid values from tools and actions"
        ) from error


def message(signal: Signal) -> bytes:
    """Returns the signal's JSON form.

    Raises:
        LogError: It holds a value that JSON lacks.
    """
    try:
        return msgspec.json.encode(signal)
    except _UNWRITABLE as error:
        raise LogError(
            f"signal {signal.id!r} cannot be written as JSON: {error}. Nothing was written"
        ) from error


def record(run: str, row: tuple[int, int, str | bytes, int | None]) -> Record:
    """Returns the record in a row of `READ`.

    Raises:
        LogError: The row is not an event.
        Incompatible: A newer release wrote it.
    """
    seq, at, body, version = row
    # A newer release may use the same field differently: rejected, not guessed.
    if version is not None and version > SCHEMA_VERSION:
        raise Incompatible(
            f"record {seq} of run {run!r} has schema {version}, this release reads up to "
            f"{SCHEMA_VERSION}: use the newer taofold"
        )
    try:
        if not 0 <= at < _END:  # a text is no time either
            raise ValueError(f"{at} is not a time")
        return Record(run, seq, at, decode(body, version or 0))
    except (ValueError, TypeError, KeyError, RecursionError, msgspec.MsgspecError) as error:
        raise LogError(f"record {seq} of run {run!r} is damaged: {error}") from error


def signal(body: str) -> Signal:
    """Returns the message in an inbox row.

    Raises:
        LogError: The row is not a message.
    """
    try:
        return _SIGNAL.decode(body)
    except msgspec.MsgspecError as error:
        raise LogError(f"a message in the inbox is damaged: {error}") from error


def number(connection: sqlite3.Connection, run: str) -> int:
    """Returns the run's number in this file.

    Raises:
        UnknownRun: No run has this id.
    """
    return owner(connection, run)[0]


def chain_id(connection: sqlite3.Connection) -> str:
    """Returns the id that the chains of all runs of this file cover."""
    return str(connection.execute(CHAIN_ID).fetchone()[0])


def owner(connection: sqlite3.Connection, run: str) -> tuple[int, int, str, str, int]:
    """Returns the run's number in this file, its epoch, owner, status and the end of its lease.

    Raises:
        UnknownRun: No run has this id.
    """
    row: tuple[int, int, str, str, int] | None = connection.execute(OWNER, (run,)).fetchone()
    if row is None:
        raise UnknownRun(f"no run {run!r} in this log")
    return row


def blob_digests(records: Iterable[Record]) -> list[str]:
    """Returns the digests of the blobs that the records reference."""
    return [digest for record in records for digest in record.event.blobs()]

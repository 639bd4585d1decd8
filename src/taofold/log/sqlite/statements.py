"""The SQL of the log, and how rows become values. It knows nothing about transactions."""

import sqlite3
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from taofold.core.errors import Incompatible, LogError, UnknownRun
from taofold.core.events import SCHEMA_VERSION, Record, decode, encode
from taofold.log.log import LONGEST_LEASE_MS, RunRow, Signal
from taofold.log.sqlite.schema import OPEN_SESSION

LAST: Final = 0xFFFFFFFF
"""The highest sequence number a run can have."""

# Ids are `number << 32 | seq`: a run's events are one range of the primary key.
_RANGE: Final = "id between number << 32 and (number << 32) + 4294967295"
ROW: Final = (
    "select run, status, goal, agent, session, parent, principal, created_at, "  # noqa: S608 - constants
    "max(updated_at, coalesce("
    f"(select at from events where {_RANGE} order by id desc limit 1), 0)), "
    f"coalesce((select max(id) from events where {_RANGE}) & 4294967295, -1) + 1, "
    "epoch, owner, waiting_for, lease_until, wake_at, "
    f"status = 'running' and lease_until > ?1 and lease_until <= ?1 + {LONGEST_LEASE_MS}, number "
    "from runs "
)
"""A `RunRow`; parameter 1 is the log's clock."""
FENCE: Final = (
    "select epoch, (select max(id) from events where id between ?1 and ?1 + 4294967295), owner "
    "from runs where number = ?2"
)
INSERT: Final = (
    f"insert into events(id, at, body, version) values(?, ?, cast(? as text), {SCHEMA_VERSION})"
)
READ: Final = (
    "select id & 4294967295, at, body, version from events where id > ? and id <= ? "
    "order by id limit ?"
)
CREATE: Final = (
    "insert into runs(run, status, goal, agent, session, parent, principal, created_at, "
    "updated_at, waiting_for, wake_at, epoch, owner, lease_until) "
    "values(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
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
    # Named: it costs what is due, not what there is. Without the index it
    # fails instead of scanning.
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
"""Parameters: the log's clock, now, the last row's time and number, and how many."""
COUNT: Final = "select status, runs from counts where scope = ? and runs > 0"
SEE: Final = "insert or ignore into seen(number, id) values(?, ?)"
POST: Final = (
    "insert into inbox(number, place, id, body) values(?1, "
    "(select coalesce(max(place), 0) + 1 from inbox where number = ?1), ?2, cast(?3 as text))"
)
INBOX: Final = "select body from inbox where number = ? order by place"
CONSUME: Final = "delete from inbox where number = ? and id = ?"

_UNMARKED: Final = 1
"""Rows of the first schema version carry none."""
_SIGNAL: Final = msgspec.json.Decoder(Signal)
_UNWRITABLE: Final = (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError)


def values(row: RunRow, owner: str, lease_until: int) -> tuple[str | int, ...]:
    """A new run's row for `CREATE`."""
    texts = (row.run, row.status, row.goal, row.agent, row.session, row.parent, row.principal)
    times = (row.created_at, row.updated_at, row.waiting_for, row.wake_at)
    return (*texts, *times, 1 if owner else 0, owner, lease_until)


def run_row(row: tuple[Any, ...]) -> RunRow:
    """The row that `ROW` selected."""
    columns: tuple[Any, ...] = (*row[:-2], bool(row[-2]), row[-1])
    return RunRow(*columns)


def bodies(run: str, records: Iterable[Record]) -> list[bytes]:
    """The records' JSON form.

    Raises:
        LogError: an event holds something that JSON cannot say.
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


def message(signal: Signal) -> bytes:
    """The signal's JSON form.

    Raises:
        LogError: it holds something that JSON cannot say.
    """
    try:
        return msgspec.json.encode(signal)
    except _UNWRITABLE as error:
        raise LogError(
            f"signal {signal.id!r} cannot be written as JSON: {error}. Nothing was written"
        ) from error


def record(run: str, row: tuple[int, int, str | bytes, int | None]) -> Record:
    """The record in a row of `READ`.

    Raises:
        LogError: the row is not an event.
        Incompatible: it was written by a newer release.
    """
    seq, at, body, version = row
    # A newer release may mean something else by the same field: refused, not guessed.
    if version is not None and version > SCHEMA_VERSION:
        raise Incompatible(
            f"record {seq} of run {run!r} has schema {version}, this release reads up to "
            f"{SCHEMA_VERSION}: use the newer taofold"
        )
    try:
        return Record(run, seq, at, decode(body, version or _UNMARKED))
    except (ValueError, TypeError, KeyError, msgspec.MsgspecError) as error:
        raise LogError(f"record {seq} of run {run!r} is damaged: {error}") from error


def signal(body: str) -> Signal:
    """The message in an inbox row.

    Raises:
        LogError: the row is not a message.
    """
    try:
        return _SIGNAL.decode(body)
    except msgspec.MsgspecError as error:
        raise LogError(f"a message in the inbox is damaged: {error}") from error


def number(connection: sqlite3.Connection, run: str) -> int:
    """The run's number in this file.

    Raises:
        UnknownRun: no run with this id.
    """
    return owner(connection, run)[0]


def owner(connection: sqlite3.Connection, run: str) -> tuple[int, int, str, str, int]:
    """The run's number in this file, its epoch, owner, status and the end of its lease.

    Raises:
        UnknownRun: no run with this id.
    """
    row: tuple[int, int, str, str, int] | None = connection.execute(OWNER, (run,)).fetchone()
    if row is None:
        raise UnknownRun(f"no run {run!r} in this log")
    return row


def blob_digests(records: Iterable[Record]) -> list[str]:
    """Digests of the blobs that the records speak of."""
    return [digest for record in records for digest in record.event.blobs()]

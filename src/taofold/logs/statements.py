"""The SQL of the log, and how rows become values. It knows nothing about transactions."""

import sqlite3
from collections.abc import Iterable
from typing import Final

import msgspec

from taofold.core.codec import SCHEMA_VERSION, decode, encode
from taofold.core.errors import Incompatible, LogError, UnknownRun
from taofold.core.events import Record, blobs_of
from taofold.store.log import ENDED, RunRow, Signal

LAST: Final = 0xFFFFFFFF
"""The highest sequence number a run can have."""

_RANGE: Final = "id between number << 32 and (number << 32) + 4294967295"
ROW: Final = (
    "select run, status, goal, agent, session, parent, principal, created_at, "  # noqa: S608 - constants
    "max(updated_at, coalesce("
    f"(select at from events where {_RANGE} order by id desc limit 1), 0)), "
    f"coalesce((select max(id) from events where {_RANGE}) & 4294967295, -1) + 1, "
    "epoch, owner, waiting_for from runs "
)
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
    "updated_at, waiting_for, epoch, owner) values(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, '')"
)
UNENDED: Final = (
    "select run, status from runs where session = ? and session <> '' and status not in "  # noqa: S608 - constants
    f"({', '.join(repr(status) for status in sorted(ENDED))})"
)
OWNER: Final = "select number, epoch, owner from runs where run = ?"
CLAIM: Final = "update runs set epoch = ?, owner = ? where number = ?"
STATUS: Final = "update runs set status = ?, waiting_for = ? where number = ?"
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


def values(row: RunRow) -> tuple[str | int, ...]:
    """A new run's row for `CREATE`."""
    texts = (row.run, row.status, row.goal, row.agent, row.session, row.parent, row.principal)
    return (*texts, row.created_at, row.updated_at, row.waiting_for)


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


def record(run: str, row: tuple[int, int, str, int | None]) -> Record:
    """The record in a row of `READ`.

    Raises:
        LogError: the row is not an event.
        Incompatible: it was written by a newer release.
    """
    seq, at, body, version = row
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


def owner(connection: sqlite3.Connection, run: str) -> tuple[int, int, str]:
    """The run's number in this file, its epoch and its owner.

    Raises:
        UnknownRun: no run with this id.
    """
    found: tuple[int, int, str] | None = connection.execute(OWNER, (run,)).fetchone()
    if found is None:
        raise UnknownRun(f"no run {run!r} in this log")
    return found


def referred(records: Iterable[Record]) -> list[str]:
    """Digests of the blobs that the records speak of."""
    return [digest for record in records for digest in blobs_of(record.event)]

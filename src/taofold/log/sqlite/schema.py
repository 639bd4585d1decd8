"""The tables of the SQLite log, and how a file of another release becomes one of this.

`check` tells what a file is without changing it; `prepare` makes the tables, or brings them up.
"""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from taofold.core.errors import Incompatible, LogError
from taofold.core.state import ENDED
from taofold.log.sqlite import identity as identity
from taofold.log.sqlite.connection import open_existing

VERSION: Final = 3
"""Version of the layout. Raise it with statements in `UPGRADES`."""

# In the file's header (`pragma application_id`), where other programs find it too.
APPLICATION: Final = 0x7A0F01D5
_WAIT_S: Final = 5.0

_JOURNAL: Final = (
    """create table streams(
        number integer primary key autoincrement, stream text not null unique,
        head integer not null, created_at integer not null, updated_at integer not null)""",
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
"""The filters of `rows`: within equal values an index is in the order of registration."""
_RUNS_DUE: Final = (
    "create index runs_leased on runs(lease_until) where status = 'running' and lease_until > 0",
    "create index runs_waking on runs(wake_at) where status = 'waiting' and wake_at > 0",
)
_SCOPES: Final = (("'*'", ""), ("'@' || {row}.principal", "where {row}.parent = ''"))
"""All runs, and those of a principal that have no parent."""


def _counting(row: str, by: int) -> str:
    """Statements of a trigger that count `row` in, or out."""
    return " ".join(
        f"insert into counts select {scope.format(row=row)}, {row}.status, {by} "
        f"{where.format(row=row) or 'where true'} "
        "on conflict(scope, status) do update set runs = runs + excluded.runs;"
        for scope, where in _SCOPES
    )


_COUNTS: Final = (
    "create table counts(scope text not null, status text not null, runs integer not null, "
    "primary key(scope, status)) without rowid",
    "insert into counts select '*', status, count(*) from runs group by status",
    "insert into counts select '@' || principal, status, count(*) from runs where parent = '' "
    "group by principal, status",
    f"create trigger runs_counted after insert on runs begin {_counting('new', 1)} end",
    f"create trigger runs_uncounted after delete on runs begin {_counting('old', -1)} end",
    "create trigger runs_recounted after update of status on runs "
    f"when old.status <> new.status begin {_counting('old', -1)} {_counting('new', 1)} end",
)
"""How many runs there are, kept by the database itself in every transaction that changes it."""
_LEASE: Final = ("lease_until integer not null default 0", "wake_at integer not null default 0")
_HELD: Final = ("owner text not null default ''", "lease_until integer not null default 0")
TABLES: Final = (
    f"""create table runs(
        number integer primary key autoincrement, run text not null unique,
        status text not null, goal text not null, agent text not null,
        session text not null, parent text not null, principal text not null,
        created_at integer not null, updated_at integer not null,
        epoch integer not null, owner text not null, waiting_for text not null,
        {", ".join(_LEASE)})""",
    "create index runs_session on runs(session) where session <> ''",
    "create index runs_parent on runs(parent) where parent <> ''",
    *_RUNS_BY,
    *_RUNS_DUE,
    "create table events(id integer primary key, at integer not null, body text not null, "
    "version integer)",
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
    *(f"alter table streams add column {column}" for column in _HELD),
)

_NOW_MS: Final = "cast((julianday('now') - 2440587.5) * 86400000 as integer)"
_CUT_OFF: Final = (
    "update runs set status = 'waiting', waiting_for = 'server_stopped' "
    "where status = 'cancelled' and parent = '' and exists (select 1 from events where id = "
    "(select max(id) from events where id between number << 32 and (number << 32) + 4294967295) "
    "and json_extract(body, '$.error') = 'cancelled by interrupted') and json_extract("
    "(select body from events where id = number << 32), '$.settings.server') is not null"
)
"""Version 2 said in an error's text that a server had cut a run off when it stopped."""
_LEASES: Final = (
    *(f"alter table runs add column {column}" for column in _LEASE),
    *(f"alter table streams add column {column}" for column in _HELD),
    *_RUNS_BY,
    *_RUNS_DUE,
    _CUT_OFF,
    # Whoever drives a run now gives no signs of life: it has a minute. So has a run that was
    # registered and never begun. One that waits is looked at once: when it is due was not kept.
    f"update runs set lease_until = {_NOW_MS} + 60000 where status = 'running' and (owner <> '' "  # noqa: S608 - constants
    "or not exists (select 1 from events where id = number << 32))",
    "update runs set wake_at = 1 where status = 'waiting'",
    *_COUNTS,
)
UPGRADES: Final[Mapping[int, tuple[str, ...]]] = {1: _JOURNAL, 2: _LEASES}
"""Statements that turn layout n into n + 1."""


def check(connection: sqlite3.Connection, path: Path, *, adopt: bool) -> int:
    """The layout version of the file; 0 if it is empty. Only reads.

    Raises:
        Incompatible: the file is newer, not a log, or was created by somebody else.
    """
    version = number(connection, "user_version")
    if number(connection, "application_id") != APPLICATION:
        # An empty file is one that we, or another process that began with us, have just created.
        if connection.execute("select count(*) from sqlite_master").fetchone()[0]:
            raise Incompatible(f"{str(path)!r} is a database, but not a taofold log")
        return 0
    if version > VERSION:
        raise Incompatible(
            f"{str(path)!r} has layout {version}, this release knows up to {VERSION}; "
            "nothing was changed: use the newer taofold"
        )
    if not adopt and not identity.ours(path, _notes(connection)):
        raise Incompatible(
            f"{str(path)!r} was not created by this user on this machine, or is a copy, so its "
            "approvals and events are not trusted; nothing was changed. If it is yours: "
            "`taofold runs adopt`, or open it once with adopt=True"
        )
    return version


def prepare(
    connection: sqlite3.Connection,
    path: Path,
    *,
    target: int = VERSION,
    upgrades: Mapping[int, tuple[str, ...]] = UPGRADES,
) -> None:
    """Create the tables, or upgrade them with a backup beside the file, and make it ours.

    One transaction: it happens as a whole or not at all.
    """
    connection.execute("begin immediate")
    try:
        version = number(connection, "user_version")
        if not number(connection, "application_id"):
            for statement in TABLES:
                connection.execute(statement)
            version = VERSION
        # In the same transaction that upgrades: nobody can write between the copy and the change.
        elif version < target:
            backup(path, version)
        for step in range(version, target):
            for statement in upgrades[step]:
                connection.execute(statement)
        connection.execute(f"pragma application_id = {APPLICATION}")
        connection.execute(f"pragma user_version = {target}")
        notes = identity.mark_as_ours(path, _notes(connection))
        connection.executemany("insert or replace into meta values(?, ?)", notes.items())
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise


def _notes(connection: sqlite3.Connection) -> dict[str, str]:
    """What the file says about itself."""
    return dict(connection.execute("select key, value from meta").fetchall())


def backup(path: Path, version: int) -> Path:
    """Copy the database to `<name>.v<version>.bak`, complete or not at all."""
    final = path.with_name(f"{path.name}.v{version}.bak")
    partial = final.with_name(final.name + ".part")
    # Left by a process that was killed in the middle of its copy.
    partial.unlink(missing_ok=True)
    # SQLite would create it with the umask's permissions, and a log is for its owner only.
    partial.touch(mode=0o600)
    try:
        with (
            closing(open_existing(path, "rw", _WAIT_S)) as source,
            closing(open_existing(partial, "rw", _WAIT_S)) as copy,
        ):
            source.backup(copy)
    except sqlite3.Error as error:
        raise LogError(
            f"{str(path)!r} was not upgraded: its backup {str(final)!r} failed ({error})"
        ) from error
    partial.replace(final)
    return final


def number(connection: sqlite3.Connection, pragma: str) -> int:
    """The value of a numeric pragma."""
    value: int = connection.execute(f"pragma {pragma}").fetchone()[0]
    return value

"""The tables of the SQLite log, how a file of another release becomes one of this, and opening it.

Nothing is written before the file is known to be a log, ours and readable.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final, TypeVar

from taofold.core.errors import Incompatible, LogError
from taofold.core.state import ENDED
from taofold.log import process_fork as forks
from taofold.log.sqlite import identity as identity
from taofold.log.sqlite.connection import busy, explain, open_existing, open_for_writing

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


T = TypeVar("T")

_PAGE_BYTES: Final = 2048
"""Each commit writes at least a page to the -wal file, and an event is a few hundred bytes."""
_MANY_FRAMES: Final = 1000
_PAUSE_S: Final = 0.01


def connect(
    path: Path, *, wait_s: float, adopt: bool = False, max_bytes: int = 0
) -> sqlite3.Connection:
    """Open the log at `path`, or create it. Blocks for at most about `wait_s` seconds.

    Raises:
        LogError: the file is locked, damaged, read-only, or cannot be created.
        Incompatible: it is newer than this release, or somebody else's.
    """
    forks.refuse(path)
    try:
        return _patiently(lambda: _connect(path, wait_s, adopt, max_bytes), wait_s)
    except sqlite3.Error as error:
        raise explain(error, path) from error


def checkpoint(connection: sqlite3.Connection) -> None:
    """Move the -wal file's content into the database, so that it starts over.

    Writers go on meanwhile. Where they are too many for it to ever be empty, they are
    locked out for the last bit, some milliseconds.
    """
    frames: int = connection.execute("pragma wal_checkpoint(passive)").fetchone()[1]
    # The passive checkpoint could not finish: somebody always read or wrote the newest frames.
    if frames > _MANY_FRAMES:
        connection.execute("pragma wal_checkpoint(restart)").fetchone()


def truncate_wal(path: Path, wait_s: float) -> bool:
    """Cut the -wal file to nothing. False if somebody was in the way."""
    with closing(open_for_writing(path, wait_s)) as connection:
        blocked: int = connection.execute("pragma wal_checkpoint(truncate)").fetchone()[0]
        return not blocked


def _connect(path: Path, wait_s: float, adopt: bool, max_bytes: int) -> sqlite3.Connection:
    _touch(path)
    stored_version = _inspect(path, adopt=adopt)
    connection = open_for_writing(path, wait_s)
    try:
        if not stored_version:
            # Takes effect in an empty file only; small pages keep a commit to the -wal small.
            connection.execute(f"pragma page_size = {_PAGE_BYTES}")
        # SQLite answers with the mode that it really took: on network drives it keeps another.
        mode: str = connection.execute("pragma journal_mode = wal").fetchone()[0]
        if mode != "wal":
            raise LogError(
                f"the folder of {str(path)!r} cannot hold a log: its file system does not allow "
                "several processes to share one (no WAL); choose a local disk"
            )
        if stored_version != VERSION or adopt:
            prepare(connection, path)
        if max_bytes:
            size = number(connection, "page_size")
            connection.execute(f"pragma max_page_count = {max(max_bytes // size, 1)}")
        # Waiting is ours from here on: SQLite's would block the event loop.
        connection.execute("pragma busy_timeout = 0")
    except BaseException:
        connection.close()
        raise
    return connection


def _touch(path: Path) -> None:
    """Create the file, for its owner only, if it is missing."""
    if not path.parent.is_dir():
        raise LogError(f"the folder {str(path.parent)!r} does not exist; create it first")
    if path.is_dir():
        raise LogError(f"{str(path)!r} is a folder; name a file in it")
    try:
        # O_EXCL: where another process creates it at the same moment, its file is the one.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        pass
    except OSError as error:
        raise LogError(f"the log {str(path)!r} cannot be created: {error.strerror}") from error
    for target in (path, path.parent):
        if not os.access(target, os.W_OK):
            raise LogError(
                f"{str(target)!r} is read-only, so the log {path.name!r} cannot be used: "
                "change its permissions, or copy the file to a folder where you may write"
            )


def _inspect(path: Path, *, adopt: bool) -> int:
    """The layout version of the file, found without changing a byte of it."""
    # mode=ro: nothing of a file that is not ours is changed, not even its -wal folded.
    with closing(open_existing(path, "ro", 0)) as reader:
        return check(reader, path, adopt=adopt)


def _patiently(work: Callable[[], T], wait_s: float) -> T:
    until = time.monotonic() + wait_s
    while True:
        try:
            return work()
        except sqlite3.Error as error:
            if not busy(error) or time.monotonic() > until:
                raise
        time.sleep(_PAUSE_S)

"""Opens a log's SQLite file: finds or creates it, verifies its origin, and upgrades its layout.

All connections to such a file are made here. This module also explains SQLite's errors, folds the
-wal file into the database, and makes a backup before a layout changes; transactions are in `file`.
Nothing is written before the file is known to be a log, ours (`origin`) and readable. `faults_in`
checks whether one is sound, for `doctor` and for restored backups.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from itertools import pairwise
from pathlib import Path
from typing import Final, Literal, TypeVar

from taofold.core.errors import ConfigError, Incompatible, LogError
from taofold.core.text import times
from taofold.log import process_fork as forks
from taofold.log.log import NOTHING_SAVED
from taofold.log.sqlite import statements as sql
from taofold.log.sqlite.origin import mark_as_ours, mark_wal, ours, wal_is_ours
from taofold.log.sqlite.statements import APPLICATION, TABLES, UPGRADES, VERSION
from taofold.reserved_places import check_file, in_project, open_file, reserve_file

BESIDE: Final = ("-wal", "-shm", "-journal")
"""The files that SQLite keeps beside a database and trusts when it opens it."""
_KEPT_WAL_BYTES: Final = 8 << 20


def open_existing(
    path: Path, mode: Literal["ro", "rw"], wait_s: float, *, immutable: bool = False
) -> sqlite3.Connection:
    """Returns a connection to an existing file; with "ro" it can change nothing.

    `immutable` means that there is no writer: SQLite then makes no files beside it.

    Raises:
        LogError: This process was forked while the file was open.
    """
    forks.refuse(path)
    # The files beside it decide what SQLite reads: no tool of an agent may write them either.
    reserve_file(path, BESIDE)
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}{'&immutable=1' if immutable else ''}",
        # Only a URI can set mode=rw: a file deleted in the meantime is not recreated empty.
        uri=True,
        timeout=wait_s,
        # Transactions are begun and ended explicitly; Python would begin them too late, as readers.
        isolation_level=None,
        check_same_thread=False,
    )


def open_for_writing(path: Path, wait_s: float) -> sqlite3.Connection:
    """Returns a writing connection to a file that is known to be a log."""
    connection = open_existing(path, "rw", wait_s)
    # The disk thread folds the -wal file, never in the middle of a step.
    for pragma in (
        "synchronous = normal",
        "wal_autocheckpoint = 0",
        f"journal_size_limit = {_KEPT_WAL_BYTES}",
        # A foreign file may hold triggers or views that call functions.
        "trusted_schema = off",
    ):
        connection.execute(f"pragma {pragma}")
    return connection


_TEXTS: Final = {
    sqlite3.SQLITE_BUSY: "is locked by another process",
    sqlite3.SQLITE_LOCKED: "is locked by another process",
    sqlite3.SQLITE_FULL: f"cannot grow: the disk is full. {NOTHING_SAVED} "
    "Free some space, then resume",
    sqlite3.SQLITE_READONLY: f"is read-only. {NOTHING_SAVED} "
    "Check the file's and its folder's permissions",
    sqlite3.SQLITE_CORRUPT: "is damaged. Nothing was changed: restore it from a backup, or save "
    "what can be read with `sqlite3 FILE .recover`",
    sqlite3.SQLITE_NOTADB: "is not a taofold log: it is not a SQLite database. Nothing was changed",
    sqlite3.SQLITE_IOERR: f"cannot be read or written: the disk reports an error. {NOTHING_SAVED}",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: check that the folder exists and that you may "
    "write there",
    sqlite3.SQLITE_TOOBIG: f"cannot take a record of this size. {NOTHING_SAVED}",
}


def code(error: sqlite3.Error) -> int:
    """Returns the primary result code; 0 if SQLite gave none."""
    # Extended codes hold the primary one in their lowest byte.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def busy(error: sqlite3.Error) -> bool:
    """Returns whether a retry may help."""
    return code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def explain(error: sqlite3.Error, path: Path) -> LogError:
    """Returns the error to raise for SQLite's: it names the file and the remedy."""
    if str(error).startswith("Could not decode to UTF-8"):
        # Bytes of a record have changed. Python reports this itself, without an SQLite code, and
        # quotes the whole record.
        return LogError(
            f"the log {str(path)!r} {_TEXTS[sqlite3.SQLITE_CORRUPT]} (a text in it is not UTF-8)"
        )
    text = _TEXTS.get(code(error))
    if text is None:
        return LogError(f"the log {str(path)!r} failed: {error}. {NOTHING_SAVED}")
    return LogError(f"the log {str(path)!r} {text} ({error})")


T = TypeVar("T")

_MORE: Final = "records follow"
"""The key of the note that the -wal file holds more than the database."""
_PAGE_BYTES: Final = 2048
"""Each commit writes at least a page to the -wal file, and an event is a few hundred bytes."""
_MANY_FRAMES: Final = 1000
_PAUSE_S: Final = 0.01
_COPY_S: Final = 5.0


def connect(
    path: Path, *, wait_s: float, adopt: bool = False, max_bytes: int = 0
) -> sqlite3.Connection:
    """Opens the log at `path`, or creates it. Blocks for at most about `wait_s` seconds.

    Raises:
        LogError: The file is locked, damaged, read-only, or cannot be created.
        Incompatible: It is newer than this release, or foreign.
    """
    forks.refuse(path)
    try:
        return _patiently(lambda: _connect(path, wait_s, adopt, max_bytes), wait_s)
    except sqlite3.Error as error:
        raise explain(error, path) from error


def checkpoint(connection: sqlite3.Connection) -> None:
    """Moves the -wal file's content into the database, so that it starts over.

    Writers continue. If they keep it from ever becoming empty, they are locked out for the last
    part, some milliseconds. The database then holds the note that records may follow in the -wal
    file, and the -wal file the note that they do not. A copy of the database alone is recognised by
    this (`lacks_records`).
    """
    # On a full disk the note cannot be written, and only the checkpoint frees space.
    with suppress(sqlite3.Error):
        _note_more(connection, "1")
    try:
        frames: int = connection.execute("pragma wal_checkpoint(passive)").fetchone()[1]
        # The passive checkpoint could not finish: other connections always used the newest frames.
        if frames > _MANY_FRAMES:
            connection.execute("pragma wal_checkpoint(restart)").fetchone()
    finally:
        with suppress(sqlite3.Error):
            _note_more(connection, "0")


def settle_note(connection: sqlite3.Connection) -> None:
    """Removes the note of a checkpoint in a killed process. Call it before closing."""
    with suppress(sqlite3.Error):  # another writer will do it
        if _notes(connection).get(_MORE) == "1":
            _note_more(connection, "0")


def _note_more(connection: sqlite3.Connection, value: str) -> None:
    _note(connection, {_MORE: value})


def lacks_records(path: Path) -> bool:
    """Returns whether the log is a copy made while it was in use, without its -wal file."""
    forks.refuse(path)
    if not path.exists() or not _is_alone(path):
        return False
    with closing(_reader(path, alone=True)) as reader:
        log = number(reader, "application_id") == APPLICATION
        return log and _notes(reader).get(_MORE) == "1"


def _is_alone(path: Path) -> bool:
    """Returns whether no -wal file is beside the log. SQLite searches at the target of links."""
    real = path.resolve()
    return not real.with_name(f"{real.name}-wal").exists()


def _reader(path: Path, *, alone: bool) -> sqlite3.Connection:
    """Returns a read-only connection. For a log without a -wal file it creates none either."""
    return open_existing(path, "ro", 0, immutable=alone)


def truncate_wal(path: Path, wait_s: float) -> bool:
    """Truncates the -wal file. Returns False if another connection prevented it."""
    until = time.monotonic() + wait_s
    with closing(open_for_writing(path, wait_s)) as connection:
        while True:
            blocked: int = connection.execute("pragma wal_checkpoint(truncate)").fetchone()[0]
            # SQLite does not wait for another checkpoint, which takes milliseconds.
            if not blocked or time.monotonic() > until:
                return not blocked
            time.sleep(_PAUSE_S)


def _connect(path: Path, wait_s: float, adopt: bool, max_bytes: int) -> sqlite3.Connection:
    _touch(path)
    if not adopt:
        _refuse_planted_journals(path)
    stored_version = _inspect(path, adopt=adopt)
    connection = open_for_writing(path, wait_s)
    try:
        if not stored_version:
            # Takes effect in an empty file only; small pages keep a commit to the -wal small.
            connection.execute(f"pragma page_size = {_PAGE_BYTES}")
        # SQLite returns the mode that it really set: on network drives it keeps another.
        mode: str = connection.execute("pragma journal_mode = wal").fetchone()[0]
        if mode != "wal":
            raise LogError(
                f"the folder of {str(path)!r} cannot hold a log: its file system does not allow "
                "several processes to share one (no WAL); choose a local disk"
            )
        # A read makes SQLite create the -wal file. It is marked before the first write: one with
        # content but without a mark was not written here.
        number(connection, "schema_version")
        mark_wal(path.with_name(path.name + "-wal"))
        if not stored_version and not adopt:
            # A file that was empty may now hold a log: from a process that started at the same
            # time, or from a journal that SQLite has played back.
            layout(connection, path, adopt=False, alone=False)
        if stored_version != VERSION or adopt:
            prepare(connection, path)
        if max_bytes:
            size = number(connection, "page_size")
            connection.execute(f"pragma max_page_count = {max(max_bytes // size, 1)}")
        # From here on this code does the waiting: SQLite's would block the event loop.
        connection.execute("pragma busy_timeout = 0")
    except BaseException:
        connection.close()
        raise
    return connection


def _touch(path: Path) -> None:
    """Creates the file, for its owner only, if it is missing."""
    if not path.parent.is_dir():
        raise LogError(f"the folder {str(path.parent)!r} does not exist; create it first")
    if path.is_dir():
        raise LogError(f"{str(path)!r} is a folder; name a file in it")
    try:
        if in_project(path):
            _refuse_foreign(path)
        # O_EXCL: if another process creates it at the same moment, its file is used.
        if not os.path.lexists(path):
            with suppress(FileExistsError):
                os.close(open_file(path, os.O_CREAT | os.O_EXCL | os.O_RDWR))
    except OSError as error:
        raise LogError(f"the log {str(path)!r} cannot be created: {error.strerror}") from error
    for target in (path, path.parent):
        if not os.access(target, os.W_OK):
            raise LogError(
                f"{str(target)!r} is read-only, so the log {path.name!r} cannot be used: "
                "change its permissions, or copy the file to a folder where you may write"
            )


def _refuse_foreign(path: Path) -> None:
    """Rejects files that a repository or another user has put in the place of a log.

    SQLite trusts the files beside a log and opens all of them by name.

    Raises:
        LogError: One of them is a link, has another kind, or belongs to another user.
    """
    for file in (path, *(path.with_name(path.name + end) for end in BESIDE)):
        try:
            # Never opened here: closing it would drop the locks of this process's connections.
            # Another process, as "the last one", would then remove the -wal file under them.
            check_file(file)
        except ConfigError as error:
            raise LogError(str(error)) from error


def _refuse_planted_journals(path: Path) -> None:
    """Rejects journals that would change a log and were not written here.

    Raises:
        Incompatible: There is one.
    """
    wal, journal = (path.with_name(path.name + end) for end in ("-wal", "-journal"))
    # A log has a rollback journal only while its first page is written.
    has_content = path.stat().st_size > _PAGE_BYTES
    planted = False
    with suppress(FileNotFoundError):  # another process may remove it at any moment
        planted = has_content and journal.stat().st_size > 0
    for file, refused in ((wal, not wal_is_ours(wal)), (journal, planted)):
        if refused:
            raise Incompatible(
                f"{str(file)!r} was not written by this user's taofold on this machine, and would "
                f"change the log {str(path)!r}; nothing was changed. If it came with the project, "
                "delete it. If it is yours (a restored backup): `taofold runs adopt`"
            )


def _inspect(path: Path, *, adopt: bool) -> int:
    """Returns the layout version of the file without changing it."""
    # mode=ro: a foreign file is not changed at all, not even by folding its -wal file.
    alone = _is_alone(path)
    with closing(_reader(path, alone=alone)) as reader:
        return layout(reader, path, adopt=adopt, alone=alone)


def _patiently(work: Callable[[], T], wait_s: float) -> T:
    until = time.monotonic() + wait_s
    while True:
        try:
            return work()
        except sqlite3.Error as error:
            if not busy(error) or time.monotonic() > until:
                raise
        time.sleep(_PAUSE_S)


def layout(connection: sqlite3.Connection, path: Path, *, adopt: bool, alone: bool) -> int:
    """Returns the layout version of the file; 0 if it is empty. Only reads.

    `alone`: no -wal file is beside it.

    Raises:
        Incompatible: The file is newer or too old, not a log, lacks its last records, or is another
            user's.
    """
    version = number(connection, "user_version")
    if number(connection, "application_id") != APPLICATION:
        # An empty file was just created, here or by a process that started at the same time.
        if connection.execute("select count(*) from sqlite_master").fetchone()[0]:
            raise Incompatible(f"{str(path)!r} is a database, but not a taofold log")
        return 0
    if version > VERSION:
        raise Incompatible(
            f"{str(path)!r} has layout {version}, this release knows up to {VERSION}; "
            "nothing was changed: use the newer taofold"
        )
    if version < (oldest := min(UPGRADES, default=VERSION)):
        raise Incompatible(
            f"{str(path)!r} has layout {version}, this release reads {oldest} to {VERSION}; "
            "nothing was changed: it was written before release 0.1.0"
        )
    notes = {} if adopt else _notes(connection)
    if alone and notes.get(_MORE) == "1":
        raise Incompatible(
            f"{str(path)!r} was copied while it was in use, without {path.name + '-wal'!r}: "
            "its last records are missing, and completed actions could be repeated; "
            "nothing was changed. Put that file beside it, or restore a backup that was made "
            "with `taofold log backup`; to continue without those records: `taofold runs adopt`"
        )
    if not adopt and not ours(path, notes):
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
    """Creates the tables, or upgrades them with a backup beside the file, and marks the file as
    ours.

    One transaction, all or nothing.
    """
    connection.execute("begin immediate")
    try:
        version = number(connection, "user_version")
        if not number(connection, "application_id"):
            for statement in TABLES:
                connection.execute(statement)
            connection.execute(sql.NEW_CHAIN, (os.urandom(16).hex(),))
            version = VERSION
        # In the same transaction as the upgrade: no write can happen between the copy and the
        # change.
        elif version < target:
            backup(path, version)
        for step in range(version, target):
            for statement in upgrades[step]:
                connection.execute(statement)
        connection.execute(f"pragma application_id = {APPLICATION}")
        connection.execute(f"pragma user_version = {target}")
        notes = mark_as_ours(path)
        notes |= {_MORE: "0"} if _MORE in _notes(connection) else {}
        _note(connection, notes)
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise


def _note(connection: sqlite3.Connection, notes: Mapping[str, str]) -> None:
    connection.executemany("insert or replace into meta values(?, ?)", notes.items())


def _notes(connection: sqlite3.Connection) -> dict[str, str]:
    """Returns the notes in the file about itself."""
    return dict(connection.execute("select key, value from meta").fetchall())


def backup(path: Path, version: int) -> Path:
    """Copies the database to `<name>.v<version>.bak`, atomically."""
    final = path.with_name(f"{path.name}.v{version}.bak")
    try:
        copy_to(path, final)
    except sqlite3.Error as error:
        raise LogError(
            f"{str(path)!r} was not upgraded: its backup {str(final)!r} failed ({error})"
        ) from error
    return final


def copy_to(path: Path, final: Path) -> None:
    """Copies the log at `path`, which may be in use, to `final`, atomically. Blocks.

    Raises:
        Incompatible: A journal beside it was not written here.
        sqlite3.Error: It could not be copied.
        OSError: The file cannot be created.
    """
    # Opened for writing, SQLite would add their content to the log.
    _refuse_planted_journals(path)
    partial = final.with_name(final.name + ".part")
    # Left by a process that was killed during its copy.
    partial.unlink(missing_ok=True)
    # SQLite would create it with the umask's permissions, and a log is for its owner only.
    os.close(open_file(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    try:
        with (
            closing(open_existing(path, "rw", _COPY_S)) as source,
            closing(open_existing(partial, "rw", _COPY_S)) as copy,
        ):
            source.backup(copy)
            settle_note(copy)
            # A copy of one's own log is marked as ours, so that it can be opened; a foreign one is
            # not.
            if ours(path, _notes(source)):
                _note(copy, mark_as_ours(partial))
            # So that the copy is one file: files beside it would belong to it otherwise.
            copy.execute("pragma journal_mode = delete")
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    partial.replace(final)


def number(connection: sqlite3.Connection, pragma: str) -> int:
    """Returns the value of a numeric pragma."""
    value: int = connection.execute(f"pragma {pragma}").fetchone()[0]
    return value


_LOST_BLOBS: Final = (
    "select digest, run from refs left join runs using(number) "
    "where not exists (select 1 from blobs where blobs.digest = refs.digest)"
)
_STRAYS: Final = "select count(*) from events where id >> 32 not in (select number from runs)"


def faults_in(path: Path) -> list[str]:
    """Returns the faults of the log at `path`, one line each; empty if it is sound. Blocks.

    Reads every record, about 10 microseconds each.
    """
    try:
        if lacks_records(path):
            return [f"it was copied while it was in use, without {path.name}-wal"]
        with closing(open_existing(path, "ro", _COPY_S)) as db:
            # Pages first: in a damaged file the rows below are meaningless.
            problems = [row[0] for row in db.execute("pragma quick_check") if row[0] != "ok"]
            return problems or _inconsistencies(db)
    except LogError as error:
        return [str(error)]
    except sqlite3.Error as error:
        return [str(explain(error, path))]


def _inconsistencies(db: sqlite3.Connection) -> list[str]:
    problems = [f"blob {d!r} of run {r!r} is missing" for d, r in db.execute(_LOST_BLOBS)]
    (strays,) = db.execute(_STRAYS).fetchone()
    if strays:
        problems.append(f"{times(strays, 'record')} of no run")
    for number, run in db.execute("select number, run from runs").fetchall():
        problems += _faults(db, number, run)
    return problems


def _faults(db: sqlite3.Connection, number: int, run: str) -> list[str]:
    problems: list[str] = []
    seqs = [-1]
    # READ selects ids greater than its first parameter; -1 as a limit means all.
    for row in db.execute(sql.READ, ((number << 32) - 1, (number << 32) + sql.LAST, -1)):
        seqs.append(row[0])
        try:
            sql.record(run, row)
        except LogError as error:
            problems.append(str(error))
    gaps = [a + 1 for a, b in pairwise(seqs) if b != a + 1]
    return problems + [f"record {seq} of run {run!r} is missing" for seq in gaps]

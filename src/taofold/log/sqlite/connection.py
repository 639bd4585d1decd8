"""Connections to a log's SQLite file: the one place that makes them, and what their errors mean.

Knows nothing about tables or transactions.
"""

import sqlite3
from pathlib import Path
from typing import Final, Literal

from taofold.core.errors import LogError
from taofold.log import process_fork as forks
from taofold.log.log import NOTHING_SAVED
from taofold.reserved_places import reserve_file

BESIDE: Final = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside a file and believes when it opens it."""
_KEPT_WAL_BYTES: Final = 8 << 20


def open_existing(path: Path, mode: Literal["ro", "rw"], wait_s: float) -> sqlite3.Connection:
    """A connection to a file that exists; with "ro" it can change nothing.

    Raises:
        LogError: this process was forked while the file was open.
    """
    forks.refuse(path)
    # The files beside it decide what SQLite reads: no tool of an agent may write them either.
    reserve_file(path, BESIDE)
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        # Only a URI can say mode=rw: a file that was deleted meanwhile is not made anew, empty.
        uri=True,
        timeout=wait_s,
        # Transactions are begun and ended by hand; Python would begin them too late, as readers.
        isolation_level=None,
        check_same_thread=False,
    )


def open_for_writing(path: Path, wait_s: float) -> sqlite3.Connection:
    """A connection that writes to a file that is known to be a log."""
    connection = open_existing(path, "rw", wait_s)
    # The -wal file is folded back by the disk thread, never in the middle of a step.
    for pragma in (
        "synchronous = normal",
        "wal_autocheckpoint = 0",
        f"journal_size_limit = {_KEPT_WAL_BYTES}",
        # A file from elsewhere may hold triggers or views with functions that act.
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
    sqlite3.SQLITE_NOTADB: "is not a taofold log: it is no SQLite database. Nothing was changed",
    sqlite3.SQLITE_IOERR: f"cannot be read or written: the disk reports an error. {NOTHING_SAVED}",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: check that the folder exists and that you may "
    "write there",
    sqlite3.SQLITE_TOOBIG: f"cannot take a record of this size. {NOTHING_SAVED}",
}


def code(error: sqlite3.Error) -> int:
    """The primary result code; 0 if SQLite gave none."""
    # Extended codes hold the primary one in their lowest byte.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def busy(error: sqlite3.Error) -> bool:
    """True if trying again may help."""
    return code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def explain(error: sqlite3.Error, path: Path) -> LogError:
    """What to raise instead of SQLite's own error: it names the file and says what to do."""
    if str(error).startswith("Could not decode to UTF-8"):
        # Bytes of a record have changed. Python says so itself, without a code of SQLite's, and
        # quotes the whole record.
        return LogError(
            f"the log {str(path)!r} {_TEXTS[sqlite3.SQLITE_CORRUPT]} (a text in it is no UTF-8)"
        )
    text = _TEXTS.get(code(error))
    if text is None:
        return LogError(f"the log {str(path)!r} failed: {error}. {NOTHING_SAVED}")
    return LogError(f"the log {str(path)!r} {text} ({error})")

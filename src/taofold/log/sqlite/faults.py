"""What SQLite's errors mean for the person who reads them."""

import sqlite3
from pathlib import Path
from typing import Final

from taofold.core.errors import LogError
from taofold.log.log import NOTHING_SAVED

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
    text = _TEXTS.get(code(error))
    if text is None:
        return LogError(f"the log {str(path)!r} failed: {error}. {NOTHING_SAVED}")
    return LogError(f"the log {str(path)!r} {text} ({error})")

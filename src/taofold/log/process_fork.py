"""Protects resources that a forked process must not use: the SQLite files its parent had open.

SQLite forbids it, and not only for the connection itself. A new connection to the same file would
find the parent's bookkeeping in memory, assume that it holds the locks, and take none. The parent
could then delete the -wal file under it (sqlite.org/howtocorrupt.html, 2.6). So a child is refused
such a file, under any name, instead of damaging it. It knows nothing about logs.

Objects with connections or threads (`ForkAware`), including those for PostgreSQL, are notified of
the fork in the child (`tell`).
"""

import ctypes
import os
import sqlite3
from pathlib import Path
from typing import Final, Protocol
from weakref import WeakSet

from taofold.core.errors import LogError


class ForkAware(Protocol):
    """An object that has connections or threads."""

    def forked(self) -> None:
        """Called in the child process."""
        ...


_known: Final["WeakSet[ForkAware]"] = WeakSet()
_inherited: Final[set[tuple[int, int]]] = set()


def tell(listener: ForkAware) -> None:
    """Makes every child process call `listener.forked()`, as long as `listener` lives."""
    _known.add(listener)


def inherit(path: Path, connection: sqlite3.Connection) -> None:
    """Records in the child that its parent has `path` open by `connection`."""
    # Never closed, not even when the interpreter ends: that could fold and delete a -wal file that
    # others use.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
    try:
        status = path.stat()
    except OSError:
        return
    # By device and inode: a link or another spelling of the path is the same file.
    _inherited.add((status.st_dev, status.st_ino))


def refuse(path: Path) -> None:
    """Raises if the parent process had this file open when it forked.

    Raises:
        LogError: It had.
    """
    if not _inherited:
        return
    # A missing file cannot be opened twice; SQLite reports other errors.
    try:
        status = path.stat()
    except OSError:
        return
    if (status.st_dev, status.st_ino) in _inherited:
        raise LogError(message(path))


def message(path: Path) -> str:
    """Returns the error with its remedy."""
    return (
        f"the log {str(path)!r} was open when this process was forked, and SQLite files cannot "
        "be used across a fork: start the process with 'spawn' (or exec), or close the log "
        "before the fork"
    )


def _forked() -> None:
    # A copy: the set is weak, and may lose members during the iteration.
    for closable in list(_known):
        closable.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)

"""What a forked process must not touch: the SQLite files its parent had open.

SQLite forbids it, and not only for the connection itself. A new connection to the same file
would find the parent's bookkeeping in memory, believe its locks are held, take none, and
the parent could delete the -wal file under it (sqlite.org/howtocorrupt.html, 2.6). So a
child is refused such a file, by whatever name, instead of damaging it. It knows nothing
about logs.

Whatever has connections or threads (`ForkAware`), also to PostgreSQL, is told in the child that
there was a fork (`tell`).
"""

import ctypes
import os
import sqlite3
from pathlib import Path
from typing import Final, Protocol
from weakref import WeakSet

from taofold.core.errors import LogError


class ForkAware(Protocol):
    """Something that has connections or threads."""

    def forked(self) -> None:
        """Called in the child process."""
        ...


_known: Final["WeakSet[ForkAware]"] = WeakSet()
_inherited: Final[set[tuple[int, int]]] = set()


def tell(listener: ForkAware) -> None:
    """Call `listener.forked()` in every child process, as long as `listener` lives."""
    _known.add(listener)


def inherit(path: Path, connection: sqlite3.Connection) -> None:
    """Note in the child that its parent has `path` open by `connection`."""
    # Never closed, not even when the interpreter ends: that could fold and delete a -wal
    # file that others use.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
    try:
        status = path.stat()
    except OSError:
        return
    # By device and inode: a link or another spelling of the path is the same file.
    _inherited.add((status.st_dev, status.st_ino))


def refuse(path: Path) -> None:
    """Raise if the parent process had this file open when it forked.

    Raises:
        LogError: it had.
    """
    if not _inherited:
        return
    # A file that is gone cannot be opened twice; SQLite will say what else is wrong.
    try:
        status = path.stat()
    except OSError:
        return
    if (status.st_dev, status.st_ino) in _inherited:
        raise LogError(message(path))


def message(path: Path) -> str:
    """What is wrong, and what to do."""
    return (
        f"the log {str(path)!r} was open when this process was forked, and SQLite files cannot "
        "be used across a fork: start the process with 'spawn' (or exec), or close the log "
        "before the fork"
    )


def _forked() -> None:
    # A copy: the set is weak, and may lose members while it is walked.
    for closable in list(_known):
        closable.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)

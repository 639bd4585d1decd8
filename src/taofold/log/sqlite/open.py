"""Opens a log's SQLite file: found or created, checked, prepared, in WAL mode.

Nothing is written before the file is known to be a log, ours and readable.
"""

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final, TypeVar

from taofold.core.errors import LogError
from taofold.log import process_fork as forks
from taofold.log.sqlite.connection import busy, explain, open_existing, open_for_writing
from taofold.log.sqlite.schema import VERSION, check, number, prepare

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

"""The one place where a connection to a file is made."""

import sqlite3
from pathlib import Path
from typing import Final, Literal

from taofold.log import process_fork as forks
from taofold.reserved import reserve_file

BESIDE: Final = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside a file and believes when it opens it."""
_KEPT_WAL_BYTES: Final = 8 << 20


def opened(path: Path, mode: Literal["ro", "rw"], wait_s: float) -> sqlite3.Connection:
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


def plain(path: Path, wait_s: float) -> sqlite3.Connection:
    """A connection that writes to a file that is known to be a log."""
    connection = opened(path, "rw", wait_s)
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

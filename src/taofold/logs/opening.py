"""The one place where a connection to a file is made: none is made across a fork.

It knows nothing about logs.
"""

import sqlite3
from pathlib import Path
from typing import Final, Literal

from taofold.logs import forks
from taofold.places.reserved import reserve_file

BESIDE: Final = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside a file and believes when it opens it."""
_KEPT_WAL_BYTES: Final = 8 << 20


def opened(path: Path, mode: Literal["ro", "rw"], wait_s: float) -> sqlite3.Connection:
    """A connection to a file that exists; with "ro" it can change nothing.

    Raises:
        LogError: this process was forked while the file was open.
    """
    forks.refuse(path)
    reserve_file(path, BESIDE)
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=wait_s,
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
        "trusted_schema = off",
    ):
        connection.execute(f"pragma {pragma}")
    return connection

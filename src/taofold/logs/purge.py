"""Forgetting runs: rows, messages, and the blobs that no other run speaks of.

`secure_delete` overwrites what is deleted, but not the copies that a page split left in
the gaps of other pages (measured: 18 of 60 random histories kept some), so the file is
rewritten and the -wal file emptied. Then the bytes are gone from the log's files; not from
backups, exports, or what a disk keeps of overwritten blocks.
"""

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from taofold.core.errors import LogError
from taofold.logs.connect import empty
from taofold.logs.faults import explain
from taofold.logs.opening import plain
from taofold.logs.statements import LAST

_STATEMENTS: Final = (
    "delete from events where id between ?1 << 32 and (?1 << 32) + ?2",
    "delete from inbox where number = ?1 and ?2",
    "delete from seen where number = ?1 and ?2",
    "delete from runs where number = ?1 and ?2",
)
_LOST: Final = (
    "select digest from refs as mine where number = ? and not exists "
    "(select 1 from refs where digest = mine.digest and number <> mine.number)"
)


def keep(
    db: sqlite3.Connection, number: int, blobs: Mapping[str, bytes], referred: Iterable[str]
) -> None:
    """Write `blobs`, and that run `number` speaks of them and of those `referred` to."""
    if blobs:
        db.executemany("insert or ignore into blobs(digest, body) values(?, ?)", blobs.items())
    digests = {*blobs, *referred}
    if digests:
        db.executemany(
            "insert or ignore into refs(digest, number) values(?, ?)",
            [(digest, number) for digest in digests],
        )


def forget(path: Path, runs: Iterable[str], wait_s: float) -> None:
    """Delete `runs` in one transaction, then `scrub`. Blocks.

    Raises:
        LogError: the file is in use or full; says whether the runs are deleted.
    """
    try:
        with closing(plain(path, wait_s)) as db:
            db.execute("pragma secure_delete = on")
            db.execute("begin immediate")
            for run in runs:
                found = db.execute("select number from runs where run = ?", (run,)).fetchone()
                if found is not None:
                    _forget(db, found[0])
            db.execute("commit")
    except sqlite3.Error as error:
        raise explain(error, path) from error
    scrub(path, wait_s)


def scrub(path: Path, wait_s: float) -> None:
    """Rewrite the file so that nothing deleted is left in it. Blocks.

    Raises:
        LogError: other processes are using the file, or the disk is full.
    """
    try:
        with closing(plain(path, wait_s)) as db:
            db.execute("pragma secure_delete = on")
            db.execute("vacuum")
        emptied = empty(path, wait_s)
        reason = "" if emptied else "other processes are reading it"
    except sqlite3.Error as error:
        reason = str(error)
    if reason:
        raise LogError(
            f"the runs are deleted, but their bytes may still lie in {str(path)!r}, which could "
            f"not be rewritten: {reason}. Call scrub() when that is over"
        )


def _forget(db: sqlite3.Connection, number: int) -> None:
    lost = [row[0] for row in db.execute(_LOST, (number,))]
    db.executemany("delete from blobs where digest = ?", [(digest,) for digest in lost])
    db.execute("delete from refs where number = ?", (number,))
    for statement in _STATEMENTS:
        db.execute(statement, (number, LAST))

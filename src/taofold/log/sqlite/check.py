"""Is a log's file sound? For `doctor` and for whoever restored a backup. It changes nothing."""

import sqlite3
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Final

from taofold.core.errors import LogError
from taofold.log.sqlite import statements as sql
from taofold.log.sqlite.connection import explain, open_existing

_WAIT_S: Final = 5.0
_LOST_BLOBS: Final = (
    "select digest, run from refs left join runs using(number) "
    "where not exists (select 1 from blobs where blobs.digest = refs.digest)"
)
_STRAYS: Final = "select count(*) from events where id >> 32 not in (select number from runs)"


def check(path: Path) -> list[str]:
    """What is wrong with the log at `path`, a line each; nothing, if it is sound. Blocks.

    Reads every record: some 10 microseconds each.
    """
    try:
        with closing(open_existing(path, "ro", _WAIT_S)) as db:
            # Pages first: what the rows below say is worth nothing in a damaged file.
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
        problems.append(f"{strays} records belong to no run")
    for number, run in db.execute("select number, run from runs").fetchall():
        problems += _faults(db, number, run)
    return problems


def _faults(db: sqlite3.Connection, number: int, run: str) -> list[str]:
    problems: list[str] = []
    seqs = [-1]
    # READ takes ids greater than its first parameter; -1 as a limit means all.
    for row in db.execute(sql.READ, ((number << 32) - 1, (number << 32) + sql.LAST, -1)):
        seqs.append(row[0])
        try:
            sql.record(run, row)
        except LogError as error:
            problems.append(str(error))
    gaps = [a + 1 for a, b in pairwise(seqs) if b != a + 1]
    return problems + [f"record {seq} of run {run!r} is missing" for seq in gaps]

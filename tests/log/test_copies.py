"""Copies of a SQLite log: one without its -wal file is detected, a backup is complete.

Mutants: no note before a checkpoint, or none removed after it; no checkpoint after the first write;
`copy_to` that copies the file and not the database; a log that keeps the note of a killed process.
"""

import shutil
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from taofold.core.errors import Incompatible
from taofold.core.events import Record, Updated
from taofold.log.log import RunRow
from taofold.log.sqlite.log import SqliteLog
from taofold.log.sqlite.open import copy_to, faults_in, lacks_records
from taofold.log.sqlite.origin import mark_wal

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def writing(path: Path, run: str = "r") -> AsyncGenerator[SqliteLog]:
    """A log into which records were written, while it is open."""
    log = SqliteLog(path)
    await log.create(RunRow(run, goal="g"))
    epoch = (await log.claim(run, "me")).epoch
    await log.append(run, epoch, [Record(run, 0, 0, Updated(name="n", value=1))], disk=True)
    try:
        yield log
    finally:
        await log.close()


async def folded(log: SqliteLog, path: Path) -> Path:
    """A copy of the database alone, made once its first checkpoint is over."""
    copy = path.with_name("copy.db")
    # The thread of the log may answer the first while the checkpoint is still due.
    for _ in range(2):
        await log._file.settle()
    shutil.copyfile(path, copy)
    return copy


async def test_a_copy_without_its_wal_is_refused_and_says_why(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with writing(path) as log:
        copy = await folded(log, path)
    shutil.copyfile(copy, path)  # the same file, so that it counts as this user's
    assert lacks_records(path)
    assert faults_in(path) == ["it was copied while it was in use, without runs.db-wal"]
    with pytest.raises(Incompatible, match=r"without 'runs\.db-wal': its last records"):
        SqliteLog(path).open()
    adopted = SqliteLog(path, adopt=True)
    adopted.open()
    await adopted.close()
    SqliteLog(path).open()


async def test_a_log_that_was_closed_is_complete_in_one_file(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    for run in ("a", "b"):
        async with writing(path, run):
            pass
        assert not lacks_records(path)
        assert faults_in(path) == []


async def test_a_link_to_a_log_in_use_is_no_copy(tmp_path: Path) -> None:
    path, link = tmp_path / "runs.db", tmp_path / "link.db"
    link.symlink_to(path)
    async with writing(path) as log:
        await folded(log, path)
        assert not lacks_records(link)


async def test_a_log_whose_first_process_has_closed_it_is_still_in_use(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with writing(path, "a") as log:
        async with writing(path, "b"):
            pass
        copy = await folded(log, path)
    assert lacks_records(copy)


async def test_a_backup_of_a_log_in_use_is_complete(tmp_path: Path) -> None:
    path, backup = tmp_path / "runs.db", tmp_path / "backup.db"
    async with writing(path) as log:
        copy_to(path, backup)
        assert not lacks_records(backup)
        assert [file.name for file in tmp_path.glob("backup*")] == ["backup.db"]
        restored = SqliteLog(backup, adopt=True)
        assert await restored.read("r") == await log.read("r")
        await restored.close()


async def test_the_note_of_a_killed_process_is_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with writing(path):
        pass
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("insert or replace into meta values('records follow', '1')")
        mark_wal(path.with_name("runs.db-wal"))
        reader = SqliteLog(path)
        reader.open()  # the -wal file of the connection above is beside it
        await reader.close()
    assert not lacks_records(path)

"""Whose log a file is: containers change their names, copies are not ours."""

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from taofold.cli.app import app
from taofold.core.errors import Incompatible
from taofold.log.log import RunRow
from taofold.log.sqlite import origin
from taofold.log.sqlite.log import SqliteLog


def opened(path: Path, *, adopt: bool = False) -> int:
    """How many runs the log at `path` has."""

    async def main() -> int:
        log = SqliteLog(path, adopt=adopt)
        if not await log.rows():
            await log.create(RunRow("r"))
        found = len(await log.rows())
        await log.close()
        return found

    return asyncio.run(main())


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Become another machine, with this id and name."""

    def become(machine_id: str = "", name: str = "") -> None:
        monkeypatch.setattr(origin, "machine", lambda: machine_id)
        monkeypatch.setattr(origin.socket, "gethostname", lambda: name)

    return become


@pytest.mark.parametrize(("before", "after"), [("", ""), ("", "b" * 32), ("a" * 32, "b" * 32)])
def test_a_container_made_anew_opens_the_log_on_its_volume(
    tmp_path: Path, host: Callable[..., None], before: str, after: str
) -> None:
    path = tmp_path / "log.db"
    host(before, "4f1c09aa")
    assert opened(path) == 1
    host(after, "77d3b1e0")
    assert opened(path) == 1


@pytest.mark.parametrize("attributes", [True, False])
def test_a_copy_is_not_ours_on_a_machine_without_an_id_until_it_is_adopted(
    tmp_path: Path, host: Callable[..., None], monkeypatch: pytest.MonkeyPatch, attributes: bool
) -> None:
    if not attributes:
        for name in ("getxattr", "setxattr"):
            monkeypatch.delattr(os, name, raising=False)
    path, copy = tmp_path / "log.db", tmp_path / "copy.db"
    host("", "box")
    opened(path)
    shutil.copyfile(path, copy)  # as a clone, a download or an archive makes it
    with pytest.raises(Incompatible, match="is a copy"):
        opened(copy)
    assert opened(copy, adopt=True) == 1
    assert opened(copy) == 1, "adopted for good"
    assert opened(path) == 1, "the original is still ours"


def test_a_file_that_only_says_that_it_was_marked_is_not_ours(
    tmp_path: Path, host: Callable[..., None]
) -> None:
    """Its number can be guessed; its mark lies beside its content, which is all that is sent."""
    path = tmp_path / "log.db"
    host("", "theirs")
    opened(path)
    copy = tmp_path / "copy.db"
    shutil.copyfile(path, copy)
    if not origin._markable(copy):
        pytest.skip("this file system keeps no extended attributes")
    with closing(sqlite3.connect(copy)) as db:
        db.execute("update meta set value = ? where key = 'inode'", (str(copy.stat().st_ino),))
        db.commit()
    host("", "ours")
    with pytest.raises(Incompatible, match="not created by this user"):
        opened(copy)


def test_the_same_machine_opens_a_copy_of_its_own(
    tmp_path: Path, host: Callable[..., None]
) -> None:
    host("a" * 32)
    opened(tmp_path / "log.db")
    shutil.copyfile(tmp_path / "log.db", tmp_path / "copy.db")
    assert opened(tmp_path / "copy.db") == 1


def test_a_log_of_an_earlier_release_is_known_by_the_machines_name(
    tmp_path: Path, host: Callable[..., None]
) -> None:
    path = tmp_path / "log.db"
    host("", "box")
    opened(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("delete from meta where key in ('mark', 'inode')")
        db.execute("update meta set value = ? where key = 'owner'", (origin._fingerprint("box"),))
        db.commit()
    assert opened(path) == 1
    host("", "other")
    with pytest.raises(Incompatible, match="taofold runs adopt"):
        opened(path)


def test_adopting_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAOFOLD_HOME", str(tmp_path))
    path = tmp_path / "runs.db"
    opened(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("update meta set value = 'them' where key in ('owner', 'mark')")
        db.commit()
    assert "taofold runs adopt" in str(CliRunner().invoke(app, ["runs", "list"]).exception)
    adopted = CliRunner().invoke(app, ["runs", "adopt"])
    assert (adopted.exit_code, "is trusted from now on: 1 run," in adopted.stderr) == (0, True)
    assert CliRunner().invoke(app, ["runs", "list"]).exit_code == 0


@pytest.mark.parametrize("place", ["runs.db", ".taofold/runs.db"])
def test_a_journal_that_came_with_a_project_changes_no_log(tmp_path: Path, place: str) -> None:
    """SQLite takes a -wal file for the newest content of the log beside it, whoever wrote it.

    Mutants: `wal_is_ours` is always true; nothing is marked.
    """
    path, theirs = tmp_path / place, tmp_path / "theirs.db"
    path.parent.mkdir(exist_ok=True, mode=0o700)
    assert opened(path) == 1
    opened(theirs)
    with closing(sqlite3.connect(theirs, isolation_level=None)) as stranger:
        stranger.execute("pragma wal_autocheckpoint = 0")
        stranger.execute("update runs set run = 'approved'")
        for end in ("-wal", "-shm"):
            shutil.copyfile(f"{theirs}{end}", f"{path}{end}")
            Path(f"{path}{end}").chmod(0o600)
    with pytest.raises(Incompatible, match="wal' was not written by this user's taofold"):
        opened(path)
    Path(f"{path}-wal").unlink()
    assert runs(path) == ["r"]
    Path(f"{path}-journal").write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(600))
    with pytest.raises(Incompatible, match="journal' was not written"):
        opened(path)


def test_a_journal_that_a_killed_process_left_is_ours(tmp_path: Path) -> None:
    path = tmp_path / "log.db"

    async def main() -> None:
        log = SqliteLog(path)
        await log.create(RunRow("r"), disk=True)
        # A second opener finds what the first has not folded into the file yet.
        assert Path(f"{path}-wal").stat().st_size > 0
        other = SqliteLog(path)
        assert len(await other.rows()) == 1
        await other.close()
        await log.close()

    asyncio.run(main())


def runs(path: Path) -> list[str]:
    """The runs of the log at `path`."""

    async def main() -> list[str]:
        log = SqliteLog(path)
        rows = await log.rows()
        await log.close()
        return [row.run for row in rows]

    return asyncio.run(main())

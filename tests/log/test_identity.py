"""Ownership of a log file: containers change host names, and copies are not owned."""

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from taofold import reserved_places
from taofold.cli.app import app
from taofold.core.errors import Incompatible, LogError
from taofold.log.log import RunRow
from taofold.log.sqlite import origin
from taofold.log.sqlite.log import SqliteLog
from taofold.log.sqlite.open import copy_to

REPLACING = """
import sys
from pathlib import Path
from taofold.log.sqlite.origin import mark_wal

wal, first = Path(sys.argv[1]), True
while True:
    wal.touch()
    mark_wal(wal)
    wal.write_bytes(b"x")
    if first:
        print(flush=True)
    first = False
    wal.unlink()
"""


def opened(path: Path, *, adopt: bool = False) -> int:
    """Counts the runs of the log at `path`."""

    async def main() -> int:
        log = SqliteLog(path, adopt=adopt)
        if not await log.rows():
            await log.create(RunRow("r"))
        found = len(await log.rows())
        await log.close()
        return found

    return asyncio.run(main())


@pytest.fixture
def attributes(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> bool:
    """Parametrizes file systems with and without extended attributes."""
    if not request.param:
        for name in ("getxattr", "setxattr", "removexattr"):
            monkeypatch.delattr(os, name, raising=False)
    return bool(request.param)


both = pytest.mark.parametrize("attributes", [True, False], indirect=True)


def become_somebody_else(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Another machine, or a new container: this user's state folder is empty."""
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))


def altered(path: Path, **notes: str) -> None:
    """Write what a log notes about itself, as any author of a file can."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.executemany("insert or replace into meta values(?, ?)", notes.items())


def noted(path: Path) -> dict[str, str]:
    with closing(sqlite3.connect(path)) as db:
        return dict(db.execute("select key, value from meta").fetchall())


@both
@pytest.mark.usefixtures("attributes")
def test_a_log_is_its_users_as_long_as_the_secret_is_kept(tmp_path: Path) -> None:
    """Mutant: a log on a file system without attributes is refused."""
    assert opened(tmp_path / "log.db") == 1
    assert opened(tmp_path / "log.db") == 1
    secret = reserved_places.state_folder() / origin.KEY_FILE
    assert len(secret.read_bytes()) == 32
    assert secret.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in secret.parent.parent.glob("logs*")] == ["logs"], "no leftovers"


def test_a_container_made_anew_opens_the_log_on_its_volume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.db"
    assert opened(path) == 1
    if not origin._keeps_attributes(path):
        pytest.skip("this file system keeps no extended attributes")
    become_somebody_else(monkeypatch, tmp_path / "state")
    assert opened(path) == 1


@both
@pytest.mark.usefixtures("attributes")
def test_a_copy_is_not_ours_until_it_is_adopted(tmp_path: Path) -> None:
    """Mutants: the seal, or the attribute, does not name the file's number."""
    path, copy = tmp_path / "log.db", tmp_path / "copy.db"
    opened(path)
    shutil.copy2(path, copy)  # with its attributes
    with pytest.raises(Incompatible, match="is a copy"):
        opened(copy)
    assert opened(copy, adopt=True) == 1
    assert opened(copy) == 1, "adopted for good"
    assert opened(path) == 1, "the original is still ours"


def test_a_log_that_moves_within_its_file_system_is_still_ours(tmp_path: Path) -> None:
    opened(tmp_path / "log.db")
    (tmp_path / "log.db").rename(tmp_path / "moved.db")
    assert opened(tmp_path / "moved.db") == 1


@both
@pytest.mark.usefixtures("attributes")
def test_nobody_forges_a_log_from_one_that_was_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The forger knows another log of the user, the user's id, and the file's future inode number.

    Mutants: the log's note proves its owner; the seal is made without the secret.
    """
    theirs, forged, mine = tmp_path / "passed-on.db", tmp_path / "forged.db", tmp_path / "mine"
    become_somebody_else(monkeypatch, mine)
    opened(theirs)
    become_somebody_else(monkeypatch, tmp_path / "attacker")
    opened(forged)
    token = noted(forged)["mark"]
    forgeries = [
        noted(theirs),
        noted(theirs) | {"mark": token},
        noted(forged),
        {"mark": token, "owner": origin._sealed(forged, token, b"")},
        {"mark": token, "owner": ""},
        {"mark": "", "owner": ""},
    ]
    if hasattr(os, "removexattr") and origin._keeps_attributes(forged):
        os.removexattr(forged, origin._ATTRIBUTE)  # what git, tar and downloads leave behind
    become_somebody_else(monkeypatch, mine)
    for notes in forgeries:
        altered(forged, **notes)
        with pytest.raises(Incompatible, match="not created by this user"):
            opened(forged)


@pytest.mark.parametrize("attributes", [False], indirect=True)
@pytest.mark.usefixtures("attributes")
def test_a_secret_that_others_can_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutant: the mode of the secret's file is not checked."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    opened(tmp_path / "log.db")
    secret = reserved_places.state_folder() / origin.KEY_FILE
    secret.chmod(0o644)
    with pytest.raises(LogError, match="is open to others"):
        opened(tmp_path / "log.db")
    secret.chmod(0o600)
    secret.write_bytes(b"short")
    with pytest.raises(LogError, match="is damaged"):
        opened(tmp_path / "log.db")


def test_processes_that_begin_together_agree_on_the_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutant: who comes last replaces the secret."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path = reserved_places.state_folder() / origin.KEY_FILE
    origin._make_secret(path)
    first = path.read_bytes()
    origin._make_secret(path)
    assert path.read_bytes() == first
    assert sorted(each.name for each in path.parent.parent.iterdir()) == ["logs"]


def test_a_home_where_nothing_can_be_kept_leaves_the_mark_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path) -> None:
        raise PermissionError

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(origin, "make_folder", refuse)
    path = tmp_path / "log.db"
    assert opened(path) == 1
    if not origin._keeps_attributes(path):
        pytest.skip("this file system keeps no extended attributes")
    assert opened(path) == 1


def test_a_backup_is_its_makers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutants: a copy has no mark; a copy of any original becomes ours."""
    path, backup = tmp_path / "log.db", tmp_path / "backup.db"
    opened(path)
    copy_to(path, backup)
    assert opened(backup) == 1
    copied = tmp_path / "cloned.db"
    shutil.copyfile(path, copied)
    copy_to(copied, tmp_path / "laundered.db")
    with pytest.raises(Incompatible, match="is a copy"):
        opened(tmp_path / "laundered.db")


def test_adopting_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAOFOLD_HOME", str(tmp_path))
    path = tmp_path / "runs.db"
    opened(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("update meta set value = 'them' where key in ('owner', 'mark')")
        db.commit()
    assert "taofold runs adopt" in str(CliRunner().invoke(app, ["runs", "list"]).exception)
    adopted = CliRunner().invoke(app, ["runs", "adopt"])
    assert (adopted.exit_code, "is now trusted: 1 run," in adopted.stderr) == (0, True)
    assert CliRunner().invoke(app, ["runs", "list"]).exit_code == 0


@pytest.mark.parametrize("place", ["runs.db", ".taofold/runs.db"])
def test_a_journal_that_came_with_a_project_changes_no_log(tmp_path: Path, place: str) -> None:
    """SQLite takes every -wal file beside the log for its newest content.

    Mutants: `wal_is_ours` is always true; no file is marked.
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


def test_a_journal_that_others_remove_and_create_meanwhile_is_ours(tmp_path: Path) -> None:
    """Mutant: the file is looked at several times, as if it were one file."""
    wal = tmp_path / "log.db-wal"
    program = [sys.executable, "-c", REPLACING, str(wal)]
    with subprocess.Popen(program, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        try:
            for _ in range(60_000):
                assert origin.wal_is_ours(wal)
        finally:
            other.kill()
    wal.unlink(missing_ok=True)
    wal.write_bytes(b"x")
    if origin._keeps_attributes(wal):
        assert not origin.wal_is_ours(wal)


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


def test_a_log_that_was_passed_on_and_comes_back_changed_is_not_ours(tmp_path: Path) -> None:
    """Git and tar create the file again, and it may get the number that the old one had.

    Mutant: a seal in the file is enough where the file system keeps attributes.
    """
    path = tmp_path / "log.db"
    opened(path)
    if not origin._keeps_attributes(path):
        pytest.skip("this file system keeps no extended attributes")
    os.removexattr(path, origin._ATTRIBUTE)  # the same number and the same notes in a new file
    with pytest.raises(Incompatible, match="not created by this user"):
        opened(path)


def hot_journal(content: bytes) -> bytes:
    """A rollback journal that SQLite plays back: it holds each page of a database."""
    size = int.from_bytes(content[16:18], "big")
    pages = [content[start : start + size] for start in range(0, len(content), size)]
    numbers = (len(pages), 12345, len(pages), 512, size)
    head = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + b"".join(n.to_bytes(4, "big") for n in numbers)
    rows = [
        number.to_bytes(4, "big")
        + page
        + ((12345 + sum(page[at] for at in range(size - 200, 0, -200))) & 0xFFFFFFFF).to_bytes(
            4, "big"
        )
        for number, page in enumerate(pages, 1)
    ]
    return head.ljust(512, b"\0") + b"".join(rows)


def test_a_journal_brings_no_log_into_an_empty_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutant: a file that was empty at the first look is made ours without a second look."""
    become_somebody_else(monkeypatch, tmp_path / "attacker")
    forged, path = tmp_path / "forged.db", tmp_path / "runs.db"
    opened(forged)
    with closing(sqlite3.connect(forged)) as db:
        db.execute("pragma journal_mode = delete")
    with closing(sqlite3.connect(path)) as db:
        db.execute("pragma page_size = 1024")
        db.execute("vacuum")
    Path(f"{path}-journal").write_bytes(hot_journal(forged.read_bytes()))
    become_somebody_else(monkeypatch, tmp_path / "mine")
    with pytest.raises(Incompatible, match="not created by this user"):
        opened(path)
    with closing(sqlite3.connect(path)) as db:  # it was played back
        assert db.execute("select count(*) from runs").fetchone() == (1,)
    with pytest.raises(Incompatible, match="not created by this user"):
        opened(path)


def test_a_backup_takes_no_planted_journal_into_the_log(tmp_path: Path) -> None:
    """Mutant: the source is opened for writing without a look at what lies beside it."""
    path, theirs = tmp_path / "log.db", tmp_path / "theirs.db"
    opened(path)
    opened(theirs)
    before = path.read_bytes()
    with closing(sqlite3.connect(theirs, isolation_level=None)) as stranger:
        stranger.execute("pragma wal_autocheckpoint = 0")
        stranger.execute("update runs set run = 'approved'")
        for end in ("-wal", "-shm"):
            shutil.copyfile(f"{theirs}{end}", f"{path}{end}")
    with pytest.raises(Incompatible, match="wal' was not written by this user's taofold"):
        copy_to(path, tmp_path / "backup.db")
    assert path.read_bytes() == before

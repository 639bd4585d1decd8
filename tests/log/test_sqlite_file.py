"""Faults of the SQLite log's file: each is reported, and the file is left unchanged."""

import asyncio
import os
import sqlite3
import stat
import threading
from collections.abc import Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import pytest

from taofold.core.errors import Incompatible, LogError
from taofold.core.events import SCHEMA_VERSION, Record, Updated
from taofold.log.log import RunRow
from taofold.log.sqlite import statements
from taofold.log.sqlite.log import SqliteLog
from taofold.log.sqlite.open import faults_in, number, open_for_writing, prepare
from tests.prerequisites import NOT_ROOT

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


async def filled(path: Path, events: int = 20) -> None:
    log = SqliteLog(path)
    await log.create(RunRow("r", goal="g"))
    epoch = (await log.claim("r", "me")).epoch
    records = [Record("r", i, i, Updated(name="n", value="x" * 50)) for i in range(events)]
    await log.append("r", epoch, records)
    await log.close()


async def count(path: Path) -> int:
    log = SqliteLog(path, wait_s=0.2)
    try:
        return len(await log.read("r"))
    finally:
        await log.close()


def alter(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "log.db"
    run(filled(path))
    return path


def test_the_file_is_for_its_owner_only(path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_is_no_database_is_reported_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    path.write_bytes(b"this is not a database, it is somebody's notes\n" * 100)
    before = path.read_bytes()
    with pytest.raises(LogError, match="not a SQLite database"):
        run(count(path))
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["log.db"]


def test_a_foreign_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    alter(path, "create table notes(text)")
    before = path.read_bytes()
    with pytest.raises(Incompatible, match="not a taofold log"):
        run(count(path))
    assert path.read_bytes() == before


def test_a_damaged_page_is_reported(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[2048:] = b"\xa5" * (len(content) - 2048)
    path.write_bytes(content)
    with pytest.raises(LogError, match=r"damaged.*recover"):
        run(count(path))
    assert path.read_bytes() == bytes(content)


def test_a_truncated_file_is_reported(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: 2048 * 3])
    with pytest.raises(LogError, match="damaged"):
        run(count(path))


def test_a_damaged_event_is_named(path: Path) -> None:
    alter(path, 'update events set body = \'{"e":"nothing we know"}\' where id & 4294967295 = 7')
    with pytest.raises(LogError, match=r"record 7 of run 'r' is damaged"):
        run(count(path))


DEEP = "[" * 50_000 + "]" * 50_000


@pytest.mark.parametrize(
    "change",
    [
        "at = 'noon'",
        f"at = {1 << 62}",
        f"""body = '{{"e":"noted","key":"1","kind":"x","data":{{"a":{DEEP}}}}}'""",
    ],
    ids=["time", "year", "depth"],
)
def test_an_event_that_no_release_writes_is_named(path: Path, change: str) -> None:
    alter(path, f"update events set {change} where id & 4294967295 = 7")
    with pytest.raises(LogError, match=r"record 7 of run 'r' is damaged"):
        run(count(path))


def test_a_record_that_is_no_text_any_more_is_damage_and_is_not_quoted(path: Path) -> None:
    broken = "cast(x'7b2265223a22ff7365637265742d7061796c6f6164227d' as text)"
    alter(path, f"update events set body = {broken} where id & 4294967295 = 7")
    with pytest.raises(LogError, match=r"damaged.*recover") as caught:
        run(count(path))
    assert "payload" not in str(caught.value)


def test_an_event_of_a_newer_release_is_refused(path: Path) -> None:
    newer = SCHEMA_VERSION + 1
    alter(path, f"update events set version = {newer} where id & 4294967295 = 7")
    with pytest.raises(Incompatible, match="newer taofold"):
        run(count(path))


@pytest.mark.scenario("PEER-30")
def test_a_newer_layout_is_refused_and_nothing_changed(path: Path) -> None:
    newer = statements.VERSION + 1
    alter(path, f"pragma user_version = {newer}", "pragma wal_checkpoint(truncate)")
    before = path.read_bytes()
    with pytest.raises(Incompatible, match=f"has layout {newer}"):
        run(count(path))
    assert path.read_bytes() == before
    assert not list(path.parent.glob("*.bak"))


@pytest.mark.scenario("PEER-30")
def test_an_older_layout_is_upgraded_with_a_backup(path: Path) -> None:
    now = statements.VERSION
    upgrades = {now: ("alter table runs add column note text not null default 'new'",)}
    with closing(open_for_writing(path, 1.0)) as db:
        prepare(db, path, target=now + 1, upgrades=upgrades)
        assert number(db, "user_version") == now + 1
        assert db.execute("select note from runs").fetchall() == [("new",)]
        assert db.execute("select count(*) from events").fetchone() == (20,)
    backup = path.with_name(f"log.db.v{now}.bak")
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert run(count(backup)) == 20, "the backup is a log of the old layout"


@pytest.mark.scenario("PEER-30")
def test_an_upgrade_that_fails_changes_nothing(path: Path) -> None:
    now = statements.VERSION
    upgrades = {now: ("alter table runs add column note text", "update nothing set x = 1")}
    with closing(open_for_writing(path, 1.0)) as db, pytest.raises(sqlite3.OperationalError):
        prepare(db, path, target=now + 1, upgrades=upgrades)
    assert run(count(path)) == 20
    with closing(sqlite3.connect(path)) as db:
        assert "note" not in {row[1] for row in db.execute("pragma table_info(runs)")}


def test_a_log_of_somebody_else_is_refused_until_it_is_adopted(path: Path) -> None:
    alter(path, "update meta set value = 'them' where key in ('owner', 'mark')")
    with pytest.raises(Incompatible, match="adopt=True"):
        run(count(path))

    async def adopt() -> None:
        log = SqliteLog(path, adopt=True)
        assert len(await log.read("r")) == 20
        await log.close()

    run(adopt())
    assert run(count(path)) == 20, "adopted for good"


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"folder .*nowhere' does not exist"):
        run(count(tmp_path / "nowhere" / "log.db"))
    assert not (tmp_path / "nowhere").exists()


def test_a_folder_is_no_log(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="is a folder"):
        run(count(tmp_path))


def test_a_read_only_file_or_folder_is_named(path: Path) -> None:
    for place, mode in ((path, 0o400), (path.parent, 0o500)):
        before = stat.S_IMODE(place.stat().st_mode)
        place.chmod(mode)
        try:
            if os.access(place, os.W_OK):
                NOT_ROOT.need()
            with pytest.raises(LogError, match="is read-only"):
                run(count(path))
        finally:
            place.chmod(before)
    assert run(count(path)) == 20


def test_a_full_disk_says_what_is_safe_and_loses_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        log = SqliteLog(tmp_path / "log.db", max_bytes=200_000)
        await log.create(RunRow("r"))
        await log.claim("r", "me")
        written, said = 0, ""
        while written < 1000 and not said:
            record = Record("r", written, 1, Updated(name="n", value="x" * 2000))
            try:
                await log.append("r", 1, [record])
                written += 1
            except LogError as error:
                said = str(error)
        assert "the disk is full. Nothing of this write was saved" in said
        assert 10 < written < 1000
        assert len(await log.read("r")) == written
        small = Record("r", written, 1, Updated(name="n"))
        await log.close()
        log = SqliteLog(tmp_path / "log.db")
        assert await log.append("r", 1, [small]), "there is room again"
        await log.close()

    run(main())


def test_a_locked_file_is_waited_for_and_then_reported(path: Path) -> None:
    async def main() -> None:
        log = SqliteLog(path, wait_s=0.05)
        log.open()
        record = Record("r", 20, 1, Updated(name="n"))
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("begin immediate")
            with pytest.raises(LogError, match=r"locked: another process .* 0\.05 s"):
                await log.append("r", 1, [record])
            assert len(await log.read("r")) == 20, "readers do not wait"
            patient = SqliteLog(path, wait_s=10)
            patient.open()
            writing = asyncio.ensure_future(patient.append("r", 1, [record]))
            for _ in range(3):
                await asyncio.sleep(0)
            assert not writing.done()
            other.execute("rollback")
            assert await writing
            await patient.close()
        await log.close()

    run(main())


@pytest.mark.parametrize("opened", [True, False], ids=["open", "not-yet-open"])
def test_writes_that_come_while_one_waits_for_a_lock_wait_behind_it(
    path: Path, opened: bool
) -> None:
    """Two branches of a run write: the first finds the file locked, the second comes after that."""

    async def main() -> None:
        log = SqliteLog(path)
        if opened:
            log.open()
        records = [Record("r", 20 + n, 1, Updated(name="n")) for n in range(4)]
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("begin immediate")
            writing = [asyncio.ensure_future(log.append("r", 1, records[:1]))]
            for _ in range(3):
                await asyncio.sleep(0)
            other.execute("rollback")
            for record in records[1:]:
                writing.append(asyncio.ensure_future(log.append("r", 1, [record], disk=True)))
                await asyncio.sleep(0)
            writing[1].cancel()
            ended = await asyncio.gather(*writing, return_exceptions=True)
        assert [type(end) for end in ended] == [bool, asyncio.CancelledError, bool, bool]
        assert [record.seq for record in await log.read("r", after=19)] == [20, 21, 22, 23]
        await log.close()

    run(main())


def test_a_file_that_another_process_is_creating_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    log = SqliteLog(path)
    opening = threading.Thread(target=log.open)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("begin exclusive")
        opening.start()
        opening.join(0.05)
        assert opening.is_alive()
        other.execute("rollback")
    opening.join()
    run(log.create(RunRow("r")))
    run(log.close())


def test_a_cancelled_write_is_brought_to_its_end(path: Path) -> None:
    async def main() -> None:
        log = SqliteLog(path)
        log.open()
        record = Record("r", 20, 1, Updated(name="n"))
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("begin immediate")
            writing = asyncio.ensure_future(log.append("r", 1, [record]))
            for _ in range(3):
                await asyncio.sleep(0)
            writing.cancel()
            await asyncio.sleep(0)
            assert not writing.done(), "it still waits for the lock"
            other.execute("rollback")
            with pytest.raises(asyncio.CancelledError):
                await writing
        assert len(await log.read("r")) == 21
        await log.close()

    run(main())


def test_a_write_that_fails_half_way_is_undone(path: Path) -> None:
    async def main() -> None:
        log = SqliteLog(path)
        record = Record("r", 20, 1, Updated(name="n"))
        with pytest.raises(LogError, match="not valid text"):
            await log.append("r", 1, [record], consume=["\ud800"])
        assert len(await log.read("r")) == 20
        await log.close()

    run(main())


def test_a_check_names_what_is_wrong(path: Path, tmp_path: Path) -> None:
    assert faults_in(path) == []
    alter(
        path,
        "delete from events where id & 4294967295 = 3",
        "update events set body = '{}' where id & 4294967295 = 7",
        "insert into events(id, at, body, link) values(99 << 32, 1, '{}', x'')",
        "insert into refs values('d1', 1)",
    )
    lines = faults_in(path)
    assert lines[:2] == ["blob 'd1' of run 'r' is missing", "1 record of no run"]
    assert lines[2].startswith("record 7 of run 'r' is damaged")
    assert lines[3:] == ["record 3 of run 'r' is missing"]
    notes = tmp_path / "notes"
    notes.write_text("no database " * 100)
    assert "not a SQLite database" in faults_in(notes)[0]


@pytest.mark.parametrize("what", ["deleted", "moved", "replaced", "folder"])
def test_nothing_is_written_to_a_file_that_lost_its_name(what: str, tmp_path: Path) -> None:
    """Mutant: no check. A run that is only in a deleted file is lost with its process."""
    folder = tmp_path / "logs"
    folder.mkdir()
    path = folder / "log.db"

    async def main() -> None:
        log = SqliteLog(path)
        await log.create(RunRow("r", goal="g"))
        match what:
            case "deleted":
                path.unlink()
            case "moved":
                path.rename(folder / "elsewhere.db")
            case "replaced":
                other = folder / "other.db"
                await filled(other)
                other.replace(path)
            case _:
                folder.rename(tmp_path / "away")
        with pytest.raises(LogError, match="while it is open"):
            await log.create(RunRow("s", goal="g"))
        if what == "moved":
            (folder / "elsewhere.db").rename(path)
            await log.create(RunRow("s", goal="g"))
        await log.close()

    run(main())


def test_a_program_may_change_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def main() -> None:
        log = SqliteLog(Path("log.db"))
        await log.create(RunRow("r", goal="g"))
        monkeypatch.chdir("/")
        await log.create(RunRow("s", goal="g"))
        await log.close()

    run(main())

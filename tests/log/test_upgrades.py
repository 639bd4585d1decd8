"""Files of earlier layouts become files of this one: nothing is lost or left behind."""

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from taofold.log.sqlite import statements
from taofold.log.sqlite.journal import SqliteJournal
from taofold.log.sqlite.log import SqliteLog
from taofold.log.sqlite.open import number
from taofold.log.sqlite.origin import mark_as_ours

LAYOUT_1 = (
    """create table runs(
        number integer primary key autoincrement, run text not null unique,
        status text not null, goal text not null, agent text not null,
        session text not null, parent text not null, principal text not null,
        created_at integer not null, updated_at integer not null,
        epoch integer not null, owner text not null, waiting_for text not null)""",
    "create index runs_session on runs(session) where session <> ''",
    "create index runs_parent on runs(parent) where parent <> ''",
    "create table events(id integer primary key, at integer not null, body text not null, "
    "version integer)",
    "create table inbox(number integer not null, place integer not null, id text not null, "
    "body text not null, primary key(number, place)) without rowid",
    "create table seen(number integer not null, id text not null, "
    "primary key(number, id)) without rowid",
    "create table blobs(digest text primary key, body blob not null)",
    "create table refs(digest text not null, number integer not null, "
    "primary key(digest, number)) without rowid",
    "create table meta(key text primary key, value text not null) without rowid",
)
LAYOUT_2 = (
    *LAYOUT_1,
    """create table streams(
        number integer primary key autoincrement, stream text not null unique,
        head integer not null, created_at integer not null, updated_at integer not null)""",
    "create table facts(id integer primary key, at integer not null, body text not null)",
)
ELSEWHERE = "another-boot/pid:[1]|77|1234|own|ab"


def made(path: Path, version: int, layout: tuple[str, ...]) -> Path:
    """A file as that release made it, with a run in each state that it could leave."""
    begun = {"e": "run_started", "goal": "old"}
    served = {**begun, "settings": {"server": {"agent": "a"}}}
    ended = {"e": "run_finished", "status": "cancelled", "stop_reason": "cancelled"}
    ended |= {"success": False, "error": "cancelled by interrupted"}
    by_ann = {**ended, "error": "cancelled by ann"}
    runs: list[tuple[str, str, str, str, list[dict[str, Any]]]] = [
        ("driven", "running", ELSEWHERE, "", [begun]),
        ("waiting", "waiting", "", "awaiting_approval", [begun]),
        ("never began", "running", "", "", []),
        ("cut off", "cancelled", ELSEWHERE, "", [served, ended]),
        ("ctrl-c", "cancelled", ELSEWHERE, "", [begun, ended]),
        ("cancelled", "cancelled", ELSEWHERE, "", [served, by_ann]),
        ("forked", "running", "", "", [begun]),
    ]
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in layout:
            db.execute(statement)
        for number, (run, status, owner, why, events) in enumerate(runs, 1):
            row = (run, status, "old", "a", "", "", "ann", 1, 1, 1, owner, why)
            marks = ", ".join("?" * (len(row) + 1))
            db.execute(f"insert into runs values({marks})", (number, *row))
            for seq, event in enumerate(events):
                values = (number << 32 | seq, 5, json.dumps(event), None)
                db.execute("insert into events values(?, ?, ?, ?)", values)
        db.executemany("insert into meta values(?, ?)", mark_as_ours(path).items())
        db.execute(f"pragma application_id = {statements.APPLICATION}")
        db.execute(f"pragma user_version = {version}")
        db.execute("pragma journal_mode = wal")
    return path


@pytest.fixture(params=[1, 2])
def old_file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    layout = LAYOUT_1 if request.param == 1 else LAYOUT_2
    return made(tmp_path / "log.db", request.param, layout)


def version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        return number(db, "user_version")


@pytest.mark.scenario("PEER-30")
def test_an_old_file_is_upgraded_with_a_backup_beside_it(old_file: Path) -> None:
    before = version(old_file)

    async def main() -> None:
        journal = SqliteJournal(old_file)
        assert await journal.write("s", -1, [(1, b"{}")]) == 0
        await journal.close()
        log = SqliteLog(old_file)
        assert (await log.row("driven")).goal == "old"
        await log.close()

    asyncio.run(main())
    backup = old_file.with_name(f"log.db.v{before}.bak")
    assert version(backup) == before
    with closing(sqlite3.connect(backup)) as db:
        assert db.execute("select count(*) from runs").fetchone() == (7,)


def test_an_upgraded_file_has_the_tables_of_a_new_one(old_file: Path, tmp_path: Path) -> None:
    def tables(path: Path) -> dict[str, Any]:
        log = SqliteLog(path)
        log.open()
        asyncio.run(log.close())
        with closing(sqlite3.connect(path)) as db:
            found = db.execute("select name, type, sql from sqlite_master").fetchall()
            columns = {
                name: [column[1:] for column in db.execute(f"pragma table_info({name})")]
                for name, kind, _ in found
                if kind == "table"
            }
            return columns | {name: sql for name, kind, sql in found if kind != "table"}

    assert tables(old_file) == tables(tmp_path / "new.db")


def test_after_an_upgrade_everything_that_goes_on_is_found(old_file: Path) -> None:
    async def main() -> None:
        log = SqliteLog(old_file)
        log.open()
        driven = await log.row("driven")
        assert driven.held, "whoever drives it gave no signs of life yet: it has a minute"
        assert [row.run for row in await log.due(10**15)] == ["waiting", "cut off"]
        log._now = lambda: driven.lease_until + 1
        due = await log.due(10**15)
        assert {row.run for row in due} == {"waiting", "cut off", "driven", "never began"}
        cut = await log.row("cut off")
        assert (cut.status, cut.waiting_for) == ("waiting", "server_stopped")
        assert (await log.row("ctrl-c")).status == "cancelled", "a person's stop stays one"
        assert await log.count() == {"running": 3, "waiting": 2, "cancelled": 2}
        assert await log.count(principal="ann") == await log.count()
        await log.close()

    asyncio.run(main())

"""A log moves from a file to a database and back, whole or not at all."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from taofold.core.errors import ConfigError, LogError
from taofold.core.events import Observed, Record
from taofold.core.values import Observation
from taofold.log.log import Log, RunRow, Signal
from taofold.log.sqlite.journal import SqliteJournal
from taofold.log.sqlite.log import SqliteLog
from taofold.log.transfer import SqliteSide, migrate
from taofold.testing.log_conformance.checks import updates
from tests import postgres

pytest.importorskip("psycopg", reason="psycopg is not installed (pip install 'taofold[postgres]')")

from taofold.log.postgres import PostgresLog


async def fill(path: Path) -> None:
    """A log with something of everything."""
    log, journal = SqliteLog(path), SqliteJournal(path)
    for run, status in (("a NUL\0é", "waiting"), ("gone", "finished"), ("b", "finished")):
        row = RunRow(run, "running", goal="g\0", session="s" * (run == "b"), principal="ann")
        await log.create(row, records=updates(run, 0, 3, value="é\0\U0001f600"), owner="me")
        blob = Observed(key="0", observation=Observation("excerpt", blob="d1"))
        await log.append(run, 1, [Record(run, 3, 9, blob)], blobs={"d1": b"\0\xff"}, status=status)
        await log.post(run, Signal("s1", "steer", data={"text": "\0"}))
        await log.post(run, Signal("s2", "steer"))
        await log.append(run, 1, [], consume=["s1"])
    await log.delete("gone")
    await journal.write("loop/a", -1, [(1, b'"\\u0000"'), (2, b"{}")])
    await journal.close()
    await log.close()


async def shown(log: Log) -> Any:
    rows = await log.rows(limit=0)
    return (
        rows, [await log.read(row.run) for row in rows], [await log.inbox(row.run) for row in rows],
        await log.blob("d1"), await log.count(), await log.count(principal="ann"),
    )  # fmt: skip


def test_there_and_back_is_the_same(tmp_path: Path) -> None:
    url = postgres.server().url()
    asyncio.run(fill(tmp_path / "a.db"))
    there = migrate(f"sqlite:{tmp_path / 'a.db'}", url)
    back = migrate(url, str(tmp_path / "b.db"))
    assert there == back
    assert there.rows["runs"] == 2
    assert there.rows["facts"] == 2

    async def look() -> None:
        first, middle, last = (
            SqliteLog(tmp_path / "a.db"),
            PostgresLog(url),
            SqliteLog(tmp_path / "b.db"),
        )
        assert await shown(first) == await shown(middle) == await shown(last)
        assert not await middle.post("b", Signal("s1", "steer"))  # it was taken once
        await middle.create(RunRow("next"))
        assert (await middle.rows())[0].run == "next"
        assert [row.stream for row in await middle.journal().streams()] == ["loop/a"]
        for log in (first, middle, last):
            await log.close()

    asyncio.run(look())


def test_what_is_not_empty_or_is_driven_is_left_alone(tmp_path: Path) -> None:
    url = postgres.server().url()
    asyncio.run(fill(tmp_path / "a.db"))
    migrate(str(tmp_path / "a.db"), url)
    with pytest.raises(LogError, match="not empty"):
        migrate(str(tmp_path / "a.db"), url)
    with pytest.raises(ConfigError, match="one log"):
        migrate(url, url)
    with pytest.raises(ConfigError, match="there is no log"):
        migrate(str(tmp_path / "missing.db"), postgres.server().url())

    async def drive() -> None:
        log = SqliteLog(tmp_path / "a.db")
        await log.create(RunRow("driven", "running"), owner="me", lease_ms=50_000)
        await log.close()

    asyncio.run(drive())
    with pytest.raises(LogError, match="are being driven"):
        migrate(str(tmp_path / "a.db"), postgres.server().url())


def test_what_does_not_arrive_whole_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres.server().url()
    asyncio.run(fill(tmp_path / "a.db"))
    migrate(str(tmp_path / "a.db"), url)
    real = SqliteSide.put

    def lossy(self: SqliteSide, table: str, rows: Any) -> None:
        taken = list(rows)
        real(self, table, taken[:-1] if table == "facts" else taken)

    monkeypatch.setattr(SqliteSide, "put", lossy)
    with pytest.raises(LogError, match="the rows of facts that arrived"):
        migrate(url, str(tmp_path / "b.db"))
    monkeypatch.undo()
    assert migrate(url, str(tmp_path / "b.db")).rows["runs"] == 2

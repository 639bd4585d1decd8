"""All journals satisfy the contracts. The SQLite one is in the log's file."""

import asyncio
from pathlib import Path

import pytest

from taofold.core.errors import LogError
from taofold.log.journal import MemoryJournal
from taofold.log.log import RunRow
from taofold.log.sqlite.journal import SqliteJournal
from taofold.log.sqlite.log import SqliteLog
from taofold.testing.journal_conformance import Contract, contracts


@pytest.mark.parametrize("contract", contracts(persistent=False), ids=lambda c: c.__name__)
def test_the_journal_in_memory_keeps(contract: Contract) -> None:
    journal = MemoryJournal()
    asyncio.run(contract(lambda: journal))


@pytest.mark.parametrize("contract", contracts(persistent=True), ids=lambda c: c.__name__)
def test_the_sqlite_journal_keeps(contract: Contract, tmp_path: Path) -> None:
    opened: list[SqliteJournal] = []

    def opener() -> SqliteJournal:
        opened.append(SqliteJournal(tmp_path / "log.db"))
        return opened[-1]

    async def main() -> None:
        try:
            await contract(opener)
        finally:
            for journal in opened:
                await journal.close()

    asyncio.run(main())


def test_a_write_of_nothing_takes_the_stream_in_memory_too() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        await journal.write("s", -1, [(1, b"{}")])
        await journal.write("s", 0, [], owner="ann", lease_ms=60_000)
        assert journal.renew("ann", ["s"], 60_000) == {"s"}

    asyncio.run(main())


def test_runs_and_streams_share_one_file(tmp_path: Path) -> None:
    async def main() -> None:
        log, journal = SqliteLog(tmp_path / "log.db"), SqliteJournal(tmp_path / "log.db")
        await log.create(RunRow("r"))
        await journal.write("loop/x", -1, [(1, b"{}")], disk=True)
        assert (await log.row("r")).run == "r"
        await log.delete("r")
        assert len(await journal.facts("loop/x")) == 1, "another's deletion leaves it alone"
        await journal.close()
        await log.close()

    asyncio.run(main())
    assert [path.name for path in tmp_path.iterdir()] == ["log.db"]


def test_a_journal_that_was_closed_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        journal = SqliteJournal(tmp_path / "log.db")
        await journal.write("s", -1, [(1, b"{}")])
        await journal.close()
        with pytest.raises(LogError, match="is closed"):
            await journal.facts("s")

    asyncio.run(main())


def test_a_write_that_fails_half_way_is_undone(tmp_path: Path) -> None:
    async def main() -> None:
        journal = SqliteJournal(tmp_path / "log.db", max_bytes=60_000)
        await journal.write("s", -1, [(1, b"1")])
        with pytest.raises(LogError, match="disk is full"):
            await journal.write("s", 0, [(2, b'"%s"' % (b"x" * 9000)) for _ in range(20)])
        assert [fact.seq for fact in await journal.facts("s")] == [0]
        assert await journal.write("s", 0, [(2, b"2")]) == 1
        await journal.close()

    asyncio.run(main())

"""Deleting means that the bytes are gone from the log's files."""

import asyncio
import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from taofold.core.errors import LogError, UnknownRun
from taofold.core.events import Record, Updated
from taofold.log.log import RunRow, Signal
from taofold.log.sqlite.log import SqliteLog

# Opening the file here would drop SQLite's locks on it (POSIX), so another process looks.
_COUNT = (
    "import pathlib, sys\n"
    "print(sum(p.read_bytes().count(sys.argv[2].encode()) for p in "
    "pathlib.Path(sys.argv[1]).iterdir()))"
)


def found(folder: Path, secret: str) -> int:
    command = [sys.executable, "-I", "-c", _COUNT, str(folder), secret]
    return int(subprocess.run(command, capture_output=True, check=True, text=True).stdout)


async def write(log: SqliteLog, runs: int, writes: int, seed: int) -> list[str]:
    """Interleaved histories of all sizes. Returns each run's secret."""
    chance = random.Random(seed)
    secrets = [f"SECRET-{number:02d}-" for number in range(runs)]
    heads = [0] * runs
    for number, secret in enumerate(secrets):
        await log.create(RunRow(f"r{number}", goal=secret, session=f"s-{secret}"))
        await log.claim(f"r{number}", secret)
    for turn in range(writes):
        number = chance.randrange(runs)
        name, secret = f"r{number}", secrets[number]
        value = secret * chance.choice((1, 1, 2, 20, 300))
        record = Record(name, heads[number], 1, Updated(name="n", value=value))
        blobs = {f"{secret}{turn}": secret.encode() * 50} if chance.random() < 0.2 else None
        await log.append(name, 1, [record], blobs=blobs)
        heads[number] += 1
        if chance.random() < 0.1:
            await log.post(name, Signal(f"{secret}{turn}", "steer", data={"text": secret}))
        if chance.random() < 0.1:
            await log.append(name, 1, [], consume=[s.id for s in await log.inbox(name)])
    return secrets


@pytest.mark.scenario("PEER-31")
@pytest.mark.parametrize("seed", [7, 16, 20])
def test_a_deleted_run_leaves_no_byte_behind(tmp_path: Path, seed: int) -> None:
    """With `secure_delete` alone, such histories left copies behind, in gaps of pages."""

    async def main() -> None:
        log = SqliteLog(tmp_path / "log.db", sync=lambda _: None)
        secrets = await write(log, 12, 600, seed)
        before = [await log.read(f"r{number}") for number in range(12)]
        assert all(found(tmp_path, secret) for secret in secrets)
        for number in (1, 4, 8):
            await log.delete(f"r{number}")
        left = {number for number in range(12) if found(tmp_path, secrets[number])}
        assert left == set(range(12)) - {1, 4, 8}
        for number in left:
            assert await log.read(f"r{number}") == before[number]
        with pytest.raises(UnknownRun):
            await log.read("r4")
        await log.close()

    asyncio.run(main())


def test_bytes_that_a_reader_keeps_are_reported_and_can_be_removed_later(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "log.db"
        log = SqliteLog(path, wait_s=0.05)
        (secret,) = await write(log, 1, 20, 1)
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("begin")
            reader.execute("select count(*) from events").fetchone()
            with pytest.raises(LogError, match=r"runs are deleted, but .* scrub\(\)"):
                await log.delete("r0")
            reader.execute("rollback")
        with pytest.raises(UnknownRun):
            await log.row("r0")
        await log.scrub()
        assert found(tmp_path, secret) == 0
        await log.close()

    asyncio.run(main())


def test_pruning_spares_what_has_not_ended_is_young_or_is_kept(tmp_path: Path) -> None:
    async def main() -> None:
        log = SqliteLog(tmp_path / "log.db")
        for name, status, at in (
            ("old", "finished", 10),
            ("old-failed", "failed", 10),
            ("old-waiting", "waiting", 10),
            ("young", "finished", 30),
        ):
            await log.create(RunRow(name, created_at=1, updated_at=1))
            epoch = (await log.claim(name, "me")).epoch
            record = Record(name, 0, at, Updated(name="n"))
            await log.append(name, epoch, [record], status=status)
        assert await log.prune(20, keep=("failed",)) == ["old"]
        assert [row.run for row in await log.rows()] == ["young", "old-waiting", "old-failed"]
        assert await log.prune(20, keep=("failed",)) == []
        await log.close()

    asyncio.run(main())

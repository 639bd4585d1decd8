"""Durability after a power cut, bytes per append, and waits for the disk."""

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from taofold.core.errors import Conflict, LogError
from taofold.core.events import Decided, Event, Observed, Proposed, Record, Replied, Started
from taofold.core.values import Action, Observation, Thought, Usage
from taofold.log.log import RunRow, Signal
from taofold.log.sqlite.file import FOLD_AFTER
from taofold.log.sqlite.log import SqliteLog
from taofold.log.sqlite.open import checkpoint, open_for_writing


def step(number: int) -> list[Record]:
    key, text = str(number), '{"thought": "look", "action": {"tool": "add"}}'
    events: tuple[Event, ...] = (
        Replied(key=key, prompt="a" * 16, content=text, usage=Usage(900, 30), model="m"),
        Proposed(key=key, thought=Thought("look"), actions=(Action("add", {"n": number}),)),
        Decided(key=key, verdict="allow", digest="d" * 16),
        Started(key=key),
        Observed(key=key, observation=Observation(number, extraction=key, duration_ms=0.1)),
    )
    return [Record("r", 5 * number + i, 1_700_000_000_000, e) for i, e in enumerate(events)]


async def opened(path: Path, sync: Callable[[int], None] = os.fsync) -> SqliteLog:
    log = SqliteLog(path, sync=sync)
    await log.create(RunRow("r"))
    await log.claim("r", "me")
    return log


@pytest.mark.scenario("PEER-19")
def test_bytes_per_step_do_not_grow(tmp_path: Path) -> None:
    async def size(steps: int) -> float:
        path = tmp_path / f"{steps}.db"
        log = await opened(path)
        for number in range(steps):
            records = step(number)
            await log.append("r", 1, records[:4])
            await log.append("r", 1, records[4:])
        await log.close()
        assert not list(tmp_path.glob("*-wal"))
        return path.stat().st_size / steps

    short, long, longer = (asyncio.run(size(steps)) for steps in (100, 400, 800))
    assert longer <= long <= short
    # With the hash of each record, of 32 bytes.
    assert long <= 1000


def test_an_append_to_disk_returns_only_after_a_sync_that_saw_it(tmp_path: Path) -> None:
    """After a power cut, the medium holds the file's content at the start of the last sync."""

    async def main() -> None:
        path, synced = tmp_path / "log.db", tmp_path / "synced"

        def sync(descriptor: int) -> None:
            assert os.path.samestat(os.fstat(descriptor), Path(f"{path}-wal").stat())
            synced.write_bytes(os.pread(descriptor, 1 << 30, 0))

        log = await opened(path, sync)
        await log.append("r", 1, step(0))
        assert not synced.exists(), "an ordinary append does not wait for the disk"
        for number in range(1, 4):
            await log.append("r", 1, step(number), disk=True)
            content = synced.read_bytes()
            assert f'"key":"{number}"'.encode() in content
        await log.post("r", Signal("s1", "steer", data={"text": "told that it is taken"}))
        assert b"told that it is taken" in synced.read_bytes()
        await log.close()

    asyncio.run(main())


def test_many_agents_share_a_sync_and_none_blocks_the_loop(tmp_path: Path) -> None:
    async def main() -> None:
        begun, go = threading.Event(), threading.Event()
        syncs: list[int] = []

        def sync(descriptor: int) -> None:
            syncs.append(descriptor)
            begun.set()
            go.wait(180)

        log = SqliteLog(tmp_path / "log.db", sync=sync)
        for number in range(40):
            await log.create(RunRow(f"r{number}"))
            await log.claim(f"r{number}", "me")
        started = Started(key="0")
        writes = [
            asyncio.ensure_future(
                log.append(f"r{number}", 1, [Record(f"r{number}", 0, 1, started)], disk=True)
            )
            for number in range(40)
        ]
        stale = log.append("r0", 9, [Record("r0", 1, 1, started)], disk=True)
        with pytest.raises(Conflict):
            await stale
        await asyncio.to_thread(begun.wait, 180)
        quick = [Record("r0", 1, 1, started)]
        assert await log.append("r0", 1, quick), "others write while the disk is busy"
        go.set()
        assert all(await asyncio.gather(*writes))
        assert len(syncs) <= 3
        await log.close()

    asyncio.run(main())


def test_the_wal_is_synced_before_it_is_folded_back(tmp_path: Path) -> None:
    """`synchronous = off` would let a power cut during a checkpoint damage the file."""
    path = tmp_path / "log.db"
    asyncio.run(opened(path)).open()
    with closing(open_for_writing(path, 1.0)) as db:
        assert db.execute("pragma synchronous").fetchone() == (1,)


class FullDisk(sqlite3.Connection):
    """A connection that can write no note: each write needs room in the -wal file."""

    full = False

    def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
        if self.full and sql.startswith("insert"):
            raise sqlite3.OperationalError("database or disk is full")
        return super().execute(sql, *args)


def test_the_wal_is_folded_back_although_no_note_can_be_written(tmp_path: Path) -> None:
    """Mutant: a checkpoint that ends when its note fails. Only a checkpoint makes room."""
    path = tmp_path / "log.db"

    async def make() -> None:
        log = await opened(path)
        await log.close()  # an open one makes checkpoints of its own, and two at once fail

    asyncio.run(make())
    with (
        closing(open_for_writing(path, 1.0)) as writer,
        closing(sqlite3.connect(path, factory=FullDisk, isolation_level=None)) as db,
    ):
        writer.execute("insert into meta values('probe', 'written to the wal')")
        writer.commit()
        db.full = True
        assert b"written to the wal" not in path.read_bytes()
        checkpoint(db)
        assert b"written to the wal" in path.read_bytes()


def test_a_disk_that_fails_to_sync_is_an_error_of_the_log(tmp_path: Path) -> None:
    async def main() -> None:
        def sync(descriptor: int) -> None:
            raise OSError(5, "Input/output error")

        log = await opened(tmp_path / "log.db", sync)
        with pytest.raises(LogError, match="the disk reports 'Input/output error'"):
            await log.append("r", 1, step(0), disk=True)
        await log.close()

    asyncio.run(main())


def test_the_wal_file_stays_small_while_a_log_is_written(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "log.db"
        log = await opened(path)
        for number in range(8000):
            await log.append("r", 1, step(number))
            if number % 1000 == 999:
                # On a busy machine the thread of the checkpoints may run late.
                async with asyncio.timeout(180):
                    while log._file._behind > FOLD_AFTER:  # noqa: ASYNC110 - a thread
                        await asyncio.sleep(0.001)
        # 8 MB is usual. Without checkpoints the file has 30 MB.
        assert Path(f"{path}-wal").stat().st_size < 22_000_000
        await log.close()

    asyncio.run(main())


def test_one_log_serves_several_threads_and_loops(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    failures: list[BaseException] = []

    def work(name: str) -> None:
        async def main() -> None:
            await log.create(RunRow(name))
            epoch = (await log.claim(name, "me")).epoch
            for seq in range(50):
                record = Record(name, seq, 1, Started(key="0"))
                await log.append(name, epoch, [record], disk=seq % 10 == 0)
            assert len(await log.read(name)) == 50

        try:
            asyncio.run(main())
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(f"r{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    asyncio.run(log.close())

"""Real processes on one file: racing each other, and killed in the middle of their writes."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from taofold.log.log import RunRow
from taofold.log.sqlite.journal import SqliteJournal
from taofold.log.sqlite.log import SqliteLog

T = TypeVar("T")
WORKER = Path(__file__).with_name("worker.py")


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def start(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, str(WORKER), str(path), name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


async def create(path: Path, *names: str) -> None:
    log = SqliteLog(path)
    for name in names:
        await log.create(RunRow(name))
    await log.close()


async def seqs(path: Path, name: str) -> list[int]:
    log = SqliteLog(path)
    try:
        return [record.seq for record in await log.read(name)]
    finally:
        await log.close()


def test_processes_on_one_file_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    run(create(path, "a", "b", "c"))
    workers = [start(path, name, 150) for name in ("a", "b", "c")]
    for worker in workers:
        _, errors = worker.communicate(timeout=180)
        assert (worker.returncode, errors) == (0, "")
    for name in ("a", "b", "c"):
        assert run(seqs(path, name)) == list(range(450))


def test_a_process_that_looks_and_leaves_takes_no_file_from_one_that_writes(
    tmp_path: Path,
) -> None:
    """Mutant: a file of the log is opened and closed beside SQLite, which drops its locks."""
    folder = tmp_path / ".taofold"
    folder.mkdir(mode=0o700)
    path = folder / "runs.db"
    look = (
        "import asyncio, sys\n"
        "from taofold.log.sqlite.log import SqliteLog\n"
        "async def look():\n"
        "    log = SqliteLog(sys.argv[1])\n"
        "    await log.rows()\n"
        "    await log.close()\n"
        "asyncio.run(look())\n"
    )

    async def write() -> int:
        log = SqliteLog(path)
        await log.create(RunRow("a"))
        journal = SqliteJournal(path)
        await journal.streams()
        wal = path.with_name("runs.db-wal").stat().st_ino
        looking = await asyncio.create_subprocess_exec(sys.executable, "-c", look, str(path))
        assert await looking.wait() == 0
        assert path.with_name("runs.db-wal").stat().st_ino == wal
        await log.create(RunRow("b"))
        await journal.close()
        await log.close()
        again = SqliteLog(path)
        rows = await again.rows()
        await again.close()
        return len(rows)

    assert run(write()) == 2


def test_processes_on_one_run_take_turns_and_write_each_record_once(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    run(create(path, "a"))
    workers = [start(path, "a", 60) for _ in range(3)]
    printed: list[str] = []
    for worker in workers:
        output, errors = worker.communicate(timeout=180)
        assert (worker.returncode, errors) == (0, "")
        printed += output.split()
    written = sorted(int(line) for line in printed if line != "conflict")
    assert written == list(range(2, 540, 3)), "each batch was acknowledged to one of them"
    assert run(seqs(path, "a")) == list(range(540))


def read_until_killed(worker: subprocess.Popen[str], lines: int) -> int:
    assert worker.stdout is not None
    last = -1
    for _ in range(lines):
        last = int(worker.stdout.readline())
    worker.send_signal(signal.SIGKILL)
    rest, _ = worker.communicate(timeout=180)
    complete = [line for line in rest.splitlines(keepends=True) if line.endswith("\n")]
    return int(complete[-1]) if complete else last


@pytest.mark.scenario("TAO-15")
def test_a_killed_process_loses_nothing_that_had_returned(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    run(create(path, "a"))
    for lines in (1, 7, 40, 211):
        acknowledged = read_until_killed(start(path, "a", 100_000), lines)
        found = run(seqs(path, "a"))
        assert found == list(range(len(found))), "a contiguous prefix"
        assert len(found) % 3 == 0, "no batch in halves"
        assert found[-1] >= acknowledged


def test_a_log_whose_writer_was_killed_can_be_opened_by_two_at_once(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    run(create(path, "a", "b"))
    read_until_killed(start(path, "a", 100_000), 50)
    workers = [start(path, name, 20) for name in ("a", "b")]
    for worker in workers:
        _, errors = worker.communicate(timeout=180)
        assert (worker.returncode, errors) == (0, "")
    assert len(run(seqs(path, "b"))) == 60

"""A forked process: it never waits for a thread it does not have, nor shares a connection.

Mutants it catches: no `register_at_fork`, a `refuse` that never does, a `check` or `backup` that
connects on its own."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import taofold

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")

# A process of its own: pytest's own threads and a fork do not go together.
SCRIPT = """
import asyncio, os, sys, warnings
from pathlib import Path
from taofold.core.errors import LogError
from taofold.core.events import Record, Updated
from taofold.log.sqlite.log import SqliteLog
from taofold.log.sqlite.open import faults_in
from taofold.log.sqlite.open import backup
from taofold.log.log import RunRow
warnings.simplefilter("ignore")
path, other, again = (Path(name) for name in sys.argv[1:4])

async def use(log, name, seq):
    claim = await log.claim(name, "me")
    await log.append(name, claim.epoch, [Record(name, seq, 1, Updated(name="n", value=seq))],
                     disk=True)

async def begin(log):
    await log.create(RunRow("r"))
    await use(log, "r", 0)

log, unused = SqliteLog(path), SqliteLog(other)
asyncio.run(begin(log))
again.symlink_to(path)
pid = os.fork()
if pid == 0:
    for one in (log, SqliteLog(path), SqliteLog(again)):
        try:
            asyncio.run(use(one, "r", 1))
        except LogError as error:
            print("forked" in str(error) and "spawn" in str(error), flush=True)
    print(["forked" in line for line in faults_in(again)], flush=True)
    try:
        backup(path, 1)
    except LogError as error:
        print("forked" in str(error), flush=True)
    asyncio.run(begin(unused))
    print("unused works", flush=True)
    asyncio.run(log.close())
    print("closed", flush=True)
    sys.exit(0)
print("child", os.waitpid(pid, 0)[1], flush=True)
asyncio.run(use(log, "r", 1))
print([r.seq for r in asyncio.run(log.read("r"))], flush=True)
asyncio.run(log.close())
"""


def test_a_forked_process_is_refused_the_logs_of_its_parent_and_does_not_hang(
    tmp_path: Path,
) -> None:
    names = [str(tmp_path / name) for name in ("log.db", "other.db", "again.db")]
    worker = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *names],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = worker.communicate(timeout=180)
    except subprocess.TimeoutExpired:
        os.killpg(worker.pid, signal.SIGKILL)
        output, errors = worker.communicate()
    assert output.splitlines() == [
        *["True"] * 3,
        "[True]",
        "True",
        "unused works",
        "closed",
        "child 0",
        "[0, 1]",
    ], errors


def test_only_one_place_connects_to_a_file() -> None:
    source = Path(taofold.__file__).parent
    said = [
        path.relative_to(source).as_posix()
        for path in sorted(source.rglob("*.py"))
        # A log in memory has no file that a child process could share.
        if "sqlite3.connect(" in path.read_text("utf-8").replace('sqlite3.connect(":memory:"', "")
    ]
    assert said == ["log/sqlite/open.py"]

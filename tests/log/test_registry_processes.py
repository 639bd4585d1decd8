"""Two processes and one registry: what both did counts."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from taofold.log.patterns.stores import open_registry
from tests.learning.make import EXTRACT, error

WORKER = """
import asyncio, sys
from taofold.log.patterns.stores import open_registry
from tests.learning.make import ALWAYS, case, looped

async def main(path, name, count):
    registry = open_registry(path)
    print("ready", flush=True)
    sys.stdin.readline()
    for n in range(count):
        assert await looped(registry, f"{name}-{n}", case(), won=True)
    await registry.close()

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


@pytest.mark.scenario("XTL-23")
@pytest.mark.document_item("001.concurrent.processes")
def test_two_processes_that_use_one_pattern_are_both_counted(tmp_path: Path) -> None:
    path = tmp_path / "log.db"

    async def begin() -> str:
        registry = open_registry(path)
        (found,) = await registry.discover("loop-0", [error()], EXTRACT)
        await registry.close()
        return found.id

    async def end(identity: str) -> None:
        registry = open_registry(path)
        pattern = await registry.show(identity)
        assert (pattern.counts.usage, pattern.counts.successes) == (51, 51)
        assert len({source.loop for source in pattern.sources}) == 51
        assert pattern.trend[-1].size == 51
        assert (await registry.stats()).shown.loops == 50
        assert await registry.faults() == []
        await registry.close()

    identity = asyncio.run(begin())
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(path), name, "25"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        for name in ("one", "two")
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:  # both are open before either writes
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    assert [worker.communicate(timeout=300)[0] for worker in workers] == ["", ""]
    assert [worker.returncode for worker in workers] == [0, 0]
    asyncio.run(end(identity))

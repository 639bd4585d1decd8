"""A loop killed at any point, and started again until done: nothing lost, nothing counted twice."""

import asyncio
import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from taofold.core import events as run
from taofold.core.events import Record
from taofold.log.sqlite.journal import SqliteJournal
from taofold.log.sqlite.log import SqliteLog
from taofold.loop.state import LoopState
from taofold.loop.stream import load
from tests.loop import worker
from tests.loop.worker import LOOP, USD
from tests.ports import PATIENCE

pytestmark = pytest.mark.crash

NURSERY = multiprocessing.get_context("forkserver")
NURSERY.set_forkserver_preload(["tests.loop.worker"])


def live(folder: Path, story: str, at: int) -> int:
    """Runs one process to its end. Returns its exit code: -9 if it was killed."""
    process = NURSERY.Process(target=worker.main, args=(str(folder), story, at))
    process.start()
    process.join(PATIENCE)
    assert process.exitcode is not None, "the worker hangs"
    return process.exitcode


def left(folder: Path) -> tuple[LoopState, list[str], dict[str, list[Record]]]:
    """State, kinds of facts and the runs, as they lie on disk."""

    async def read() -> Any:
        journal = SqliteJournal(folder / "log.db")
        log = SqliteLog(folder / "log.db")
        stream = await load(journal, LOOP)
        rows = await log.rows(limit=0)
        runs = {row.run: await log.read(row.run) for row in rows}
        await journal.close()
        await log.close()
        return stream.state, [type(one.event).__name__ for one in stream.records], runs

    return asyncio.run(read())


def check(folder: Path, story: str) -> None:
    """Checks the invariants after any number of process deaths."""
    state, kinds, runs = left(folder)
    assert state.status == story
    assert [one.run for one in state.iterations] == ["x.1", "x.2", "x.3"]
    assert sorted(runs) == ["x.1", "x.2", "x.3"]
    assert [round(one.quality, 3) for one in state.done][:2] == [0.667, 0.333]
    for kind in ("LoopStarted", "BaselineTaken", "LoopEnded", "Taught"):
        assert kinds.count(kind) == 1, kinds
    assert kinds.count("IterationStarted") == kinds.count("IterationEnded") == 3
    # The learner is queried before each iteration; each lesson is injected once per iteration.
    assert kinds.count("LessonsInjected") == 3
    for records in runs.values():
        written = [
            r for r in records
            if isinstance(r.event, run.Observed) and r.event.observation.status == "success"
        ]  # fmt: skip
        assert len(written) == 3, "list_files, write_file and finish, each once"
    paid = sum(isinstance(r.event, run.Replied) for records in runs.values() for r in records)
    assert state.spent.usage.usd == pytest.approx(USD * paid)
    assert state.spent.steps == 9
    kept = (folder / "work" / "a.py").read_text()
    assert kept == {"completed": "one two three", "exhausted": "one two"}[story]
    assert list(json.loads((folder / "learnt.json").read_text())) == [LOOP]


def points(tmp: Path, story: str) -> int:
    folder = tmp / "whole"
    folder.mkdir()
    assert live(folder, story, 0) == 0
    check(folder, story)
    return int((folder / "points").read_text())


@pytest.mark.scenario("RLP-12")
@pytest.mark.parametrize("story", ["completed", "exhausted"])
def test_a_loop_killed_at_any_point_is_resumed_and_nothing_is_counted_twice(
    tmp_path: Path, story: str
) -> None:
    every = points(tmp_path, story)
    assert every > 60
    first = 1 if story == "completed" else every * 2 // 3  # they differ only in the end
    for at in range(first, every + 1):
        folder = tmp_path / str(at)
        folder.mkdir()
        assert live(folder, story, at) == -9, f"no death at {at}"
        assert live(folder, story, 0) == 0, f"no second life after a death at {at}"
        check(folder, story)


def test_a_loop_that_dies_again_and_again_comes_to_its_end(tmp_path: Path) -> None:
    folder = tmp_path / "often"
    folder.mkdir()
    deaths = 0
    for step in range(60):
        if live(folder, "completed", 11 + step % 6) == 0:
            break
        deaths += 1
    assert deaths > 5
    check(folder, "completed")

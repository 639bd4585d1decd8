"""A process killed at any point, and restarted until done: nothing lost, nothing twice."""

import asyncio
import multiprocessing
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from taofold.core import events as e
from taofold.core.events import Record
from taofold.core.state import fold
from taofold.log.sqlite.log import SqliteLog
from tests.crash import worker
from tests.crash.worker import RUN, Side
from tests.runtime.kit import assert_alike, neutral

pytestmark = pytest.mark.crash

PATIENCE = 180.0
"""Seconds after which a process that does not get anywhere has failed."""

NURSERY = multiprocessing.get_context("forkserver")
NURSERY.set_forkserver_preload(["tests.crash.worker"])


def spawn(target: Any, *args: Any) -> Any:
    process = NURSERY.Process(target=target, args=args)
    process.start()
    return process


def live(folder: Path, at: int, mutant: bool = False) -> int:
    """Runs one process to its end. Returns its exit code: -9 if it was killed."""
    process = spawn(worker.main, str(folder), at, mutant)
    process.join(PATIENCE)
    assert process.exitcode is not None, "the worker hangs"
    return process.exitcode


def records(folder: Path, *, children: bool = False) -> list[Record]:
    """The records of the run, or of its child runs."""

    async def read() -> list[Record]:
        log = SqliteLog(folder / "log.db", sync=lambda _: None)
        try:
            rows = await log.rows(parent=RUN, limit=0) if children else [await log.row(RUN)]
            return [record for row in rows for record in await log.read(row.run)]
        except LookupError:
            return []
        finally:
            await log.close()

    return asyncio.run(read()) if (folder / "log.db").exists() else []


def plain(state: Any) -> dict[str, Any]:
    """Returns the state without the observation's text, which an approver's answer changes."""
    said = neutral(state)
    said["steps"] = [
        (step.thought, step.actions, [o.status for o in step.observations])
        for step in said["steps"]
    ]
    return said


def check(folder: Path, wanted: dict[str, Any]) -> None:
    log = records(folder)
    assert [record.seq for record in log] == list(range(len(log)))
    state = fold(log)
    assert state.status == "finished"
    assert state.output == "all done"
    assert_alike(plain(state), wanted, log, records(folder, children=True))
    done = Counter((kind, effect) for kind, effect in Side(folder).lines())
    for (kind, _), times in done.items():
        if kind in ("fire", "shoot", "pay"):
            assert times == 1, f"{kind} ran {times} times"
    kinds = Counter(kind for kind, _ in done)
    assert kinds == {"look": 3, "put": 2, "fire": 3, "shoot": 1, "pay": 1}, kinds


def story(folder: Path, points: list[int], wanted: dict[str, Any], mutant: bool = False) -> None:
    """Die at each of the points, one process after the other, then live."""
    folder.mkdir()
    before: list[Record] = []
    for at in [*points, 0]:
        code = live(folder, at, mutant)
        now = records(folder)
        assert now[: len(before)] == before, "an event that was durable is lost"
        before = now
        assert code in (0, -9), code
        if code == 0:
            break
    assert code == 0
    check(folder, wanted)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, dict[str, Any]]:
    """Returns the number of points and the final state of a run without a crash."""
    folder = tmp_path_factory.mktemp("whole")
    assert live(folder, 0) == 0
    wanted = plain(fold(records(folder)))
    check(folder, wanted)
    return int((folder / "points").read_text()), wanted


@pytest.mark.scenario("PEER-03", "PEER-04", "PEER-05", "TAO-15")
@pytest.mark.document_item("000.rule3.recovery")
def test_a_run_killed_at_any_point_is_finished_by_the_next_process(
    whole: tuple[int, dict[str, Any]], tmp_path: Path
) -> None:
    points, wanted = whole
    assert points > 60
    for at in range(1, points + 1):
        story(tmp_path / f"at{at}", [at], wanted)


@pytest.mark.scenario("PEER-04", "PEER-05")
def test_a_run_killed_twice_is_finished_too(
    whole: tuple[int, dict[str, Any]], tmp_path: Path
) -> None:
    points, wanted = whole
    dice = random.Random(7)
    for number in range(12):  # every pair and triple: test_deaths.py
        pair = [dice.randint(1, points), dice.randint(1, 30), dice.randint(1, 12)]
        story(tmp_path / f"pair{number}", pair, wanted)


def test_the_harness_goes_red_where_once_is_taken_for_repeatable(
    whole: tuple[int, dict[str, Any]], tmp_path: Path
) -> None:
    points, wanted = whole
    for at in range(points // 4, points + 1):
        try:
            story(tmp_path / f"at{at}", [at], wanted, mutant=True)
        except AssertionError as caught:
            if "ran 2 times" in str(caught):
                return
    pytest.fail("a tool that must run once ran twice, and the harness did not see it")


def until(condition: Any) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.005)


def frozen(folder: Path, spawned: bool) -> Any:
    """A worker that stopped in the middle of `shoot`."""
    (folder / "hold").touch()
    process = spawn(worker.worker, str(folder), spawned, False)
    until((folder / "inside").exists)
    os.kill(process.pid, signal.SIGSTOP)
    (folder / "hold").unlink()
    return process


def test_a_frozen_worker_of_ours_is_killed_before_its_run_is_taken_over(tmp_path: Path) -> None:
    old = frozen(tmp_path, spawned=True)
    refused = spawn(worker.worker, str(tmp_path), False, False)
    refused.join(PATIENCE)
    assert refused.exitcode == 5, "a live owner was overtaken unasked"
    new = spawn(worker.worker, str(tmp_path), False, True)
    new.join(PATIENCE)
    old.join(PATIENCE)
    assert old.exitcode == -signal.SIGKILL
    assert new.exitcode == 3
    asyncio.run(worker.answer(tmp_path, SqliteLog(tmp_path / "log.db")))
    assert live(tmp_path, 0) == 0
    kinds = Counter(kind for kind, _ in Side(tmp_path).lines())
    assert kinds["shoot"] == kinds["pay"] == 1
    assert kinds["fire"] == 3


def test_a_frozen_worker_that_is_not_ours_finds_itself_overtaken(tmp_path: Path) -> None:
    old = frozen(tmp_path, spawned=False)
    new = spawn(worker.worker, str(tmp_path), False, True)
    new.join(PATIENCE)
    assert new.exitcode == 3, "nobody was asked whether it had happened"
    asked = [r.event for r in records(tmp_path) if isinstance(r.event, e.Decided)][-1]
    assert "may even still finish" in asked.reason
    before = records(tmp_path)
    os.kill(old.pid, signal.SIGCONT)
    old.join(PATIENCE)
    assert old.exitcode == 5, "the old owner was not told"
    assert records(tmp_path) == before, "the old owner wrote"
    assert live(tmp_path, 0) == 0
    kinds = Counter(kind for kind, _ in Side(tmp_path).lines())
    assert kinds["shoot"] == kinds["pay"] == 1


@pytest.mark.parametrize("turn", range(6))
def test_of_two_workers_on_one_run_one_drives_it(turn: int, tmp_path: Path) -> None:
    assert live(tmp_path, 30) == -9
    barrier = NURSERY.Barrier(2)
    pair = [spawn(worker.worker, str(tmp_path), False, False, barrier) for _ in range(2)]
    for one in pair:
        one.join(PATIENCE)
    assert {one.exitcode for one in pair} <= {3, 5}
    assert 3 in {one.exitcode for one in pair}
    assert live(tmp_path, 0) == 0
    done = Counter((kind, effect) for kind, effect in Side(tmp_path).lines())
    assert all(n == 1 for (kind, _), n in done.items() if kind in ("fire", "shoot", "pay"))

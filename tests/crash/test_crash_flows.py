"""A flow killed at any point is finished by the next process: no node's effect is repeated."""

from collections import Counter
from pathlib import Path

import pytest

from taofold.core.state import fold
from tests.crash import flow_worker
from tests.crash.test_crash import NURSERY, PATIENCE, records
from tests.crash.worker import Side

pytestmark = pytest.mark.crash


def live(folder: Path, at: int) -> int:
    """Runs one process to its end. Returns its exit code: -9 if it was killed."""
    process = NURSERY.Process(target=flow_worker.main, args=(str(folder), at))
    process.start()
    process.join(PATIENCE)
    assert process.exitcode is not None, "the worker hangs"
    return process.exitcode


def check(folder: Path, wanted: object) -> None:
    log = records(folder)
    assert [record.seq for record in log] == list(range(len(log)))
    state = fold(log)
    assert (state.status, state.output) == ("finished", wanted)
    shots = Counter(kind for kind, _ in Side(folder).lines())
    assert shots == {"fire": 1, "shoot": 1, "pay": 1}, shots


@pytest.mark.scenario("PEER-03", "PEER-04")
def test_a_flow_killed_at_any_node_is_finished_by_the_next_process(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    assert live(whole, 0) == 0
    wanted = fold(records(whole)).output
    check(whole, wanted)
    points = int((whole / "points").read_text())
    assert points > 60
    for at in range(1, points - 3, 3):  # branches interleave: the last few may not be reached
        folder = tmp_path / f"at{at}"
        folder.mkdir()
        assert live(folder, at) == -9
        before = records(folder)
        assert live(folder, 0) == 0
        assert records(folder)[: len(before)] == before, "an event that was durable is lost"
        check(folder, wanted)

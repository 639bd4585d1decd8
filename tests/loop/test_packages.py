"""Installed packages that change during a loop pause it, and the user decides.

Mutants: the loop continues until its limit; the iteration counts, and so do its lessons; a pass is
revoked; tampering is forgotten; `resume` continues without confirmation; no fact is written.
"""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from taofold.core.errors import Refused
from taofold.loop import events as loop_events
from taofold.loop.driver import LoopDependencies
from taofold.loop.lifecycle import resume, start
from taofold.loop.state import LoopState, reduce
from taofold.loop.stream import load
from taofold.loop.values import LoopLimits
from taofold.loop.verdict import Verdict

from .kit import Folder, Teacher, contains, done, ground_of, means, wish, write

pytestmark = pytest.mark.anyio

CHANGES = ("pytest_cov 5.0 was installed in /venv",)


def interrupted(root: Path, script: list[str], **more: Any) -> LoopDependencies:
    """A loop whose gates fail after their first run as long as a package is there."""
    given = means(root, script, contains("good"), **more)
    ground = ground_of(given)
    judging = ground.judging

    def broken(folder: Path) -> Verdict:
        found = judging(folder)
        failing = ("plugin pytest_cov was added",)
        return replace(found, passed=False, reasons=failing) if ground.foreign else found

    ground.judging = broken
    return given


def installing(given: LoopDependencies) -> Folder:
    """The package appears as soon as the agent works."""
    ground, make = ground_of(given), given.agent

    def agent(folder: Path, state: LoopState) -> Any:
        if state.open is not None and not state.resumptions and state.pause is None:
            ground.foreign = CHANGES
        return make(folder, state)

    object.__setattr__(given, "agent", agent)
    return ground


async def facts(given: LoopDependencies, kind: type[loop_events.LoopFact]) -> list[Any]:
    stream = await load(given.journal, "x")
    return [one.event for one in stream.records if isinstance(one.event, kind)]


async def test_the_first_verdict_that_fails_so_pauses_the_loop_and_counts_for_nothing(
    tmp_path: Path,
) -> None:
    """Mutants: no pause; the iteration ends by it, and the lesson has failed once more."""
    teacher = Teacher("a lesson", ("p1",))
    given = interrupted(tmp_path, [write("a.py", "good"), done()], learner=teacher)
    installing(given)
    state = await start(given, wish(tmp_path), loop="x")
    assert state.status == "paused"
    assert state.pause is not None
    assert state.pause.packages == CHANGES
    assert CHANGES[0] in state.pause.reason
    assert state.done == ()
    assert state.open is not None
    assert teacher.taught == []


async def test_nothing_goes_on_until_the_packages_are_taken_in(tmp_path: Path) -> None:
    """Mutants: `resume` continues without confirmation; no fact; the old baseline holds; work is
    redone.
    """
    given = interrupted(tmp_path, [write("a.py", "good"), done()])
    ground = installing(given)
    await start(given, wish(tmp_path), loop="x")
    with pytest.raises(Refused) as refused:
        await resume(given, "x")
    for word in (CHANGES[0], "--retake-baseline", "undo that"):
        assert word in str(refused.value)
    assert await facts(given, loop_events.LoopResumed) == []
    state = await resume(given, "x", retake=True, by="anna")
    assert (state.status, len(state.done)) == ("completed", 1)
    [fact] = await facts(given, loop_events.BaselineRetaken)
    assert (fact.packages, fact.baseline, fact.by) == (CHANGES, "newer", "anna")
    assert state.baseline is not None
    assert state.baseline.baseline == "newer"
    assert ground.log.count("retake") == 1


async def test_packages_that_were_put_back_need_no_word(tmp_path: Path) -> None:
    given = interrupted(tmp_path, [write("a.py", "good"), done()])
    ground = installing(given)
    await start(given, wish(tmp_path), loop="x")
    ground.foreign = ()
    assert (await resume(given, "x")).status == "completed"
    assert await facts(given, loop_events.BaselineRetaken) == []


async def test_a_pass_stands_although_packages_changed(tmp_path: Path) -> None:
    """Mutant: the loop pauses although the gates pass."""
    given = means(tmp_path, [write("a.py", "good"), done()], contains("good"))
    installing(given)
    assert (await start(given, wish(tmp_path), loop="x")).status == "completed"


async def test_tampering_is_a_fact_before_the_loop_pauses(tmp_path: Path) -> None:
    """Mutant: a verdict with tampering is made again after the pause, when all was put back."""
    given = interrupted(tmp_path, [write("a.py", "good"), done(), done()])
    ground = installing(given)
    judging, verdicts = ground.judging, iter([False, True, False])
    ground.judging = lambda folder: replace(judging(folder), tampered=next(verdicts))
    state = await start(given, wish(tmp_path), loop="x")
    assert state.status == "paused"
    assert [ended.verdict.tampered for ended in state.done] == [True]
    assert state.open is not None


async def test_a_loop_that_has_no_limit_left_may_finish_the_iteration(tmp_path: Path) -> None:
    given = interrupted(tmp_path, [write("a.py", "good"), done()])
    installing(given)
    once = LoopLimits(iterations=1)
    await start(given, wish(tmp_path, bounds=once), loop="x")
    assert (await resume(given, "x", retake=True)).status == "completed"


def test_only_a_loop_that_stands_still_has_its_baseline_taken_again() -> None:
    fact = loop_events.BaselineRetaken(verdict=Verdict(False), baseline="mine")
    for status in ("running", "pending", "completing", "completed", "tampered"):
        with pytest.raises(Refused, match="cannot be taken again"):
            reduce(LoopState(status=status), loop_events.LoopRecord(0, 1, fact))  # type: ignore[arg-type]

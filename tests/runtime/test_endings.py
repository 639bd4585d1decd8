"""Limits of one activation, and the time at which a run without an owner is due."""

import pytest

from taofold.core.effects import Answer
from taofold.log.log import AT_ONCE, RunRow
from taofold.policy.redaction import MARK, Redactor
from taofold.runtime import endings
from taofold.runtime.endings import MORE, Share, is_due


@pytest.mark.parametrize("calls", [1, 2, 5])
def test_a_share_makes_so_many_calls_and_gives_way_at_the_next(calls: int) -> None:
    share = Share(calls)
    assert [share() for _ in range(calls + 2)] == [""] * calls + [MORE] * 2


def test_no_share_is_no_bound() -> None:
    share = Share(0)
    assert {share() for _ in range(100)} == {""}


def test_another_reason_to_give_way_comes_first_and_takes_nothing_of_the_share() -> None:
    reasons = iter(["server_stopped", "", ""])
    share = Share(1, lambda: next(reasons))
    assert [share() for _ in range(3)] == ["server_stopped", "", MORE]


@pytest.mark.parametrize(
    ("status", "wake_at", "due"),
    [
        ("running", 0, True),
        ("waiting", 0, False),
        ("waiting", 99, True),
        ("waiting", 100, True),
        ("waiting", 101, False),
        ("waiting", 1, True),
        ("waiting", -1, False),
    ],
)
def test_a_run_that_waits_is_due_from_its_time_on(status: str, wake_at: int, due: bool) -> None:
    assert is_due(RunRow("r", status, "go"), wake_at, 100) == due


@pytest.mark.parametrize(
    ("answer", "status", "success", "error"),
    [
        ("plain", "finished", True, ""),
        (Answer("a"), "finished", True, ""),
        (Answer("a", error="unverified"), "finished", False, "unverified"),
        (Answer("a", stop="max_steps"), "limited", False, "why"),
        (Answer("a", stop="max_steps", error="its own"), "limited", False, "why; its own"),
        (Answer(None, stop="error", error="broken"), "failed", False, "broken"),
        (Answer(None, stop="denied"), "failed", False, ""),
        (Answer(None, stop="loop_detected"), "limited", False, "why"),
    ],
)
def test_what_an_answer_ends_in(answer: object, status: str, success: bool, error: str) -> None:
    end = endings.finished(answer, why="why")
    assert (end.status, end.success, end.error) == (status, success, error)


def test_an_end_holds_no_secret() -> None:
    redactor = Redactor(["hunter2hunter2"])
    said = "it is hunter2hunter2"
    end = endings.finished(Answer({"a": said}, error=said), redactor)
    assert (end.output, end.error) == ({"a": f"it is {MARK}"}, f"it is {MARK}")
    assert endings.failed(ValueError(said), redactor).error == f"ValueError: it is {MARK}"
    assert "hunter2" in endings.failed(ValueError(said)).error


@pytest.mark.parametrize("reason", sorted(endings.UNATTENDED))
def test_a_run_that_waits_for_nobody_is_due_on_a_machine_whose_clock_is_behind(
    reason: str,
) -> None:
    assert endings.wake_time(reason, []) == AT_ONCE
    assert is_due(RunRow("r", "waiting", "go"), endings.wake_time(reason, []), now=1)

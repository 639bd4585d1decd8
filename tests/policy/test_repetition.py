"""The repetition guard alone: its counting, its message and its reset."""

from typing import Any

import pytest

from taofold.core.errors import ConfigError
from taofold.core.values import Action, Observation, Step, Thought
from taofold.policy.limits import Limits
from taofold.policy.repetition import (
    ALLOWED,
    BACKOFF_AFTER,
    BACKOFF_MS,
    CallIdentity,
    Judgement,
    Repetition,
    masked,
)

LOOK, PAY = Action("look", {"x": 1}), Action("pay", {"x": 1})


def seen(guard: Repetition, *calls: tuple[Action, Observation], **options: Any) -> None:
    actions, observations = zip(*calls, strict=True)
    guard.seen(Step(1, Thought("t"), actions, observations), **options)


def same(guard: Repetition, times: int, text: str = "same") -> None:
    for _ in range(times):
        seen(guard, (LOOK, Observation(text)))


def refused(level: str) -> Observation:
    return Observation("no", "failure", refused=level)


def test_a_guard_that_has_seen_nothing_lets_everything_run_at_once() -> None:
    assert Repetition().judge(LOOK) == Judgement("run", "", 0) == Judgement()
    assert not Repetition().toolless
    assert (Repetition().refused_row, Repetition().hint) == (0, "")


def test_calls_in_a_batch_count_among_themselves() -> None:
    guard = Repetition()
    levels = [guard.judge(LOOK, beside=beside).level for beside in range(5)]
    assert levels == ["run"] * ALLOWED + ["blocked"] * 2
    same(guard, 1)
    assert [guard.judge(LOOK, beside=n).level for n in range(3)] == ["run", "run", "blocked"]


def test_it_escalates_from_the_call_to_the_tools_to_the_end_and_progress_forgives() -> None:
    guard = Repetition()
    same(guard, ALLOWED)
    levels: list[str] = []
    for level in ("blocked", "toolless", "stop", "stop"):
        judged = guard.judge(LOOK)
        assert f"{LOOK.tool} was called {ALLOWED} times" in judged.reason
        levels.append(judged.level)
        assert guard.toolless is (len(levels) > 2)
        seen(guard, (LOOK, refused(level)))
    assert levels == ["blocked", "toolless", "stop", "stop"]
    seen(guard, (PAY, Observation("paid", "failure")), mutating=frozenset({"pay"}))
    assert guard.toolless, "a change that failed is none"
    seen(guard, (PAY, Observation("paid")), mutating=frozenset({"pay"}))
    assert not guard.toolless
    assert guard.judge(LOOK).level == "run"


def test_the_same_change_over_and_over_is_no_progress() -> None:
    guard = Repetition()
    for _ in range(ALLOWED):
        seen(guard, (PAY, Observation("paid")), mutating=frozenset({"pay"}))
    assert guard.judge(PAY).level == "blocked"


def test_what_was_refused_counts_in_a_row_over_whole_turns() -> None:
    guard = Repetition()
    seen(guard, (LOOK, refused("blocked")), (PAY, refused("denied")))
    assert guard.refused_row == 2
    seen(guard, (LOOK, refused("unknown")))
    assert guard.refused_row == 3
    seen(guard, (LOOK, refused("blocked")), (PAY, Observation("paid")))
    assert guard.refused_row == 0, "one of them was run"


def test_a_poll_that_changes_slows_down_from_its_fourth_time_to_a_second() -> None:
    guard, pauses = Repetition(), list[int]()
    for number in range(12):
        pauses.append(guard.judge(LOOK).backoff_ms)
        seen(guard, (LOOK, Observation(f"row {number}")))
    first, longest = BACKOFF_MS
    doubled = [min(first << n, longest) for n in range(12 - BACKOFF_AFTER)]
    assert pauses == [0] * BACKOFF_AFTER + doubled
    assert pauses[-1] == longest
    assert guard.hint == ""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("took 12 ms", "took 1.5 s"),
        ("at 10:00:01", "at 23:59:59.5"),
        ("on 2026-01-02T10:00:00Z", "on 2027-11-12 10:00"),
        ("obj 0x7f00", "obj 0xABCD1234"),
        ("in /tmp/a/b", "in /private/var/tmp/c"),
        ("id 00000000-0000-0000-0000-000000000000", "id 12345678-9abc-def0-1234-56789abcdef0"),
    ],
)
def test_what_changes_by_itself_is_no_change(one: str, other: str) -> None:
    assert masked(one) == masked(other)
    guard = Repetition(["look", "read", "list"])
    seen(guard, (LOOK, Observation(one)))
    assert guard.hint == ""
    seen(guard, (LOOK, Observation(other)))
    assert "(2 times)" in guard.hint
    assert guard.hint.endswith("Tools not used yet: list, read.")
    seen(guard, (LOOK, Observation(f"{other} and more")))
    assert guard.hint == ""


@pytest.mark.parametrize(
    ("one", "other"), [("row 1", "row 2"), ("0x1", "0x2"), ("12 miles", "13 miles")]
)
def test_what_does_not_change_by_itself_is_a_change(one: str, other: str) -> None:
    assert masked(one) != masked(other)


def test_a_large_result_is_known_by_its_digest_and_any_other_by_its_value() -> None:
    guard = Repetition()
    seen(guard, (LOOK, Observation("head", blob="d1")))
    seen(guard, (LOOK, Observation("head", blob="d2")))
    assert guard.hint == ""
    seen(guard, (LOOK, Observation("another head", blob="d2")))
    assert "(2 times)" in guard.hint
    seen(guard, (LOOK, Observation({"a": 1})))
    seen(guard, (LOOK, Observation({"a": 2})))
    assert guard.hint == ""


def test_a_call_that_failed_may_change_anything_or_have_more_time() -> None:
    guard = Repetition()
    slow = Action("look", {"x": 1, "timeout_s": 5})
    seen(guard, (slow, Observation("slow", "timeout")))
    assert guard.judge(slow).level == "repeat_same_action_unchanged"
    assert guard.judge(Action("look", {"x": 1, "timeout_s": 4})).level != "run"
    assert guard.judge(Action("look", {"x": 1, "timeout_s": 6})).level == "run"
    assert guard.judge(Action("look", {"x": 2, "timeout_s": 5})).level == "run"
    seen(guard, (PAY, Observation("paid")))
    assert guard.judge(slow).level == "run", "after another step it may succeed"


def test_a_tools_own_idea_of_the_same_call_counts_for_loops_alone() -> None:
    guard = Repetition()
    for number in range(ALLOWED):
        action = Action("look", {"x": number})
        identity = CallIdentity(f"look {number}", "look")
        assert guard.judge(action, identity).level == "run"
        seen(guard, (action, Observation("same")), calls=[identity])
    assert guard.judge(LOOK, CallIdentity("look 9", "look")).level == "blocked"
    assert guard.judge(LOOK, CallIdentity("look 9", "other")).level == "run"


NAMES = ("steps", "model_calls", "tool_calls", "seconds", "tokens", "usd")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [True, False, "3", -1, -0.5, float("nan"), [1]])
def test_a_limit_is_a_number_from_zero_on(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"limit {name} must be 0 or more"):
        Limits(**{name: value})


@pytest.mark.parametrize("name", NAMES)
def test_a_limit_without_end_is_none(name: str) -> None:
    assert getattr(Limits(**{name: float("inf")}), name) is None
    assert getattr(Limits(**{name: 0}), name) == 0

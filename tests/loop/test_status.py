"""Allowed transitions between loop statuses."""

from itertools import product

import pytest

from taofold.core.errors import Refused
from taofold.loop import events as loop_events
from taofold.loop.values import (
    ENDED,
    NEXT,
    RESUMABLE,
    STATUSES,
    Status,
    check,
    exit_code,
    may_follow,
    status_of,
)

from .kit import begun, iteration, scored, state_after

WAYS = {
    ("pending", "running"), ("pending", "completing"), ("running", "paused"), ("paused", "running"),
    ("running", "completing"), ("crashed", "running"), ("crashed", "aborted"),
    *[("completing", end) for end in (
        "completed", "exhausted", "timeout", "budget", "no_progress", "tampered", "failed")],
    *[(end, "running") for end in ("exhausted", "timeout", "budget", "no_progress")],
    *[(live, lost) for live in ("pending", "running", "paused", "completing")
      for lost in ("aborted", "crashed")],
}  # fmt: skip


@pytest.mark.scenario("RLP-15")
@pytest.mark.parametrize(("now", "then"), list(product(STATUSES, STATUSES)))
def test_only_the_documented_transitions_are_allowed(now: Status, then: Status) -> None:
    assert may_follow(now, then) == ((now, then) in WAYS)
    if (now, then) not in WAYS:
        with pytest.raises(Refused, match=f"is {now} and cannot become {then}"):
            check(now, then)


def test_what_ended_for_good_leads_nowhere() -> None:
    assert {one for one in STATUSES if not NEXT[one]} == {
        "completed", "tampered", "failed", "aborted"
    }  # fmt: skip
    assert {"paused", "exhausted", "timeout", "budget", "no_progress", "crashed"} == RESUMABLE
    assert "crashed" not in ENDED


@pytest.mark.parametrize(
    ("word", "status"),
    [("SUCCESS", "completed"), ("max_iterations", "exhausted"), ("max-iterations", "exhausted"),
     ("plateau", "no_progress"), ("timeout", "timeout"), ("aborted", "aborted")],
)  # fmt: skip
def test_words_of_earlier_systems_are_understood(word: str, status: str) -> None:
    assert status_of(word) == status


def test_an_unknown_word_is_refused() -> None:
    with pytest.raises(ValueError, match="not a status"):
        status_of("splendid")


def test_exit_codes_say_how_it_ended() -> None:
    codes = {one: exit_code(one) for one in STATUSES}
    assert codes.pop("completed") == 0
    assert codes.pop("paused") == 3
    assert codes.pop("aborted") == 130
    assert exit_code("paused", "interrupted") == 130
    assert exit_code("completed", in_place=False) == 4
    assert set(codes.values()) == {1}


@pytest.mark.scenario("RLP-15")
@pytest.mark.parametrize(
    "events",
    [
        [loop_events.IterationStarted(number=1, run="x.1")],
        [*begun()[:1], loop_events.IterationStarted(number=1, run="x.1")],
        [*begun(), loop_events.IterationStarted(number=2, run="x.2")],
        [*begun(), *iteration(1, scored(0.5)), *iteration(1, scored(0.5))],
        [*begun(), iteration(1, scored(0.5))[1]],
        [
            *begun(),
            iteration(1, scored(0.5))[0],
            loop_events.Completing(ending="exhausted", reason=""),
        ],
        [*begun(), loop_events.LoopEnded(ending="completed", reason="")],
        [*begun(), loop_events.LoopResumed(bounds=begun()[0].wish.bounds)],  # type: ignore[union-attr]
        [*begun(), loop_events.LoopEnded(ending="aborted", reason=""), *iteration(1, scored(1))],
        [
            *begun(),
            loop_events.LoopEnded(ending="aborted", reason=""),
            loop_events.LoopPaused(reason=""),
        ],
        [*begun(), *begun()[1:2]],
        [*begun(), *begun()[:1]],
    ],
)
def test_facts_that_contradict_the_ones_before_are_refused(
    events: list[loop_events.LoopEvent],
) -> None:
    with pytest.raises(Refused):
        state_after(*events)


def test_every_fact_survives_its_json_form() -> None:
    events = [
        *begun(), *iteration(1, scored(0.5), confidence=0.9, files={"a": "b"}),
        loop_events.Intervened(number=1, level="warn", kind="stuck", why="w", instruction="i"),
        loop_events.LoopPaused(reason="r", run="x"), loop_events.LoopCrashed(why="w"),
        loop_events.Completing(ending="exhausted", reason="r"),
        loop_events.FilesRestored(number=1, snapshot="s", reason=""),
        loop_events.LoopEnded(ending="exhausted", reason="r", best=1, degraded=True),
    ]  # fmt: skip
    assert [loop_events.decode(loop_events.encode(one)) for one in events] == events

"""The best iteration is what an unfinished loop leaves behind."""

import pytest

from taofold.loop.decisions import choose

from .kit import begun, iteration, scored, state_after


@pytest.mark.scenario("RLP-07")
def test_the_verified_iteration_is_chosen_and_the_decline_after_it_is_flagged() -> None:
    state = state_after(
        *begun(keep_improving=True), *iteration(1, scored(0.6)),
        *iteration(2, scored(0.85, passed=True)), *iteration(3, scored(0.83)),
    )  # fmt: skip
    chosen = choose(state)
    assert chosen is not None
    assert (chosen.number, chosen.snapshot, chosen.degraded) == (2, "s2", True)
    assert "verified" in chosen.reason


@pytest.mark.scenario("RLP-07")
def test_a_verified_iteration_comes_before_a_better_one_that_is_not() -> None:
    state = state_after(
        *begun(keep_improving=True), *iteration(1, scored(0.7, passed=True)),
        *iteration(2, scored(0.9)),
    )  # fmt: skip
    chosen = choose(state)
    assert chosen is not None
    assert chosen.number == 1


@pytest.mark.scenario("RLP-07")
def test_on_a_tie_the_earlier_iteration_wins() -> None:
    state = state_after(*begun(), *[x for n in (1, 2, 3) for x in iteration(n, scored(0.5))])
    chosen = choose(state)
    assert chosen is not None
    assert chosen.number == 1
    assert not chosen.degraded
    assert "earliest of 3" in chosen.reason


@pytest.mark.scenario("RLP-07")
def test_with_none_verified_the_reason_says_that_it_is_a_fallback() -> None:
    state = state_after(*begun(0.1), *iteration(1, scored(0.4)), *iteration(2, scored(0.6)))
    chosen = choose(state)
    assert chosen is not None
    assert chosen.number == 2
    assert "none verified; fallback" in chosen.reason


def test_a_blocked_iteration_is_not_verified() -> None:
    state = state_after(
        *begun(keep_improving=True), *iteration(1, scored(1.0, passed=True), blocked="why"),
        *iteration(2, scored(0.9, passed=True)),
    )  # fmt: skip
    chosen = choose(state)
    assert chosen is not None
    assert chosen.number == 2


def test_if_every_iteration_made_it_worse_the_start_is_the_best() -> None:
    state = state_after(*begun(0.9), *iteration(1, scored(0.4)), *iteration(2, scored(0.5)))
    chosen = choose(state)
    assert chosen is not None
    assert (chosen.number, chosen.snapshot) == (0, "s0")
    assert "every iteration is worse" in chosen.reason


def test_nothing_is_chosen_where_nothing_was_done() -> None:
    assert choose(state_after(*begun())) is None

"""Two counters for each kind of edit, and the gate over the orders that they make."""

import asyncio
from math import log

import pytest

from taofold.learning.patterns.pattern import Rate
from taofold.learning.rates import (
    EditRates,
    after,
    blended,
    key_of,
    learnt_order,
    outcome,
)
from taofold.log.patterns.stores import memory_registry

S, L = key_of("s", "swap"), key_of("l", "swap", "a line")
OTHER = key_of("s", "other"), key_of("l", "other", "a line")


def test_a_kind_that_wins_as_often_as_expected_is_worth_what_it_was() -> None:
    rates = EditRates({S: Rate(3.0, 3.0), L: Rate(1.0, 1.0)})
    assert rates.factor((S, L)) == pytest.approx(1.0)


def test_wins_raise_a_kind_and_absence_of_wins_lowers_one_that_stands_everywhere() -> None:
    rates = EditRates({S: Rate(3.0, 0.3), OTHER[0]: Rate(0.0, 4.0)})
    assert rates.factor((S, L)) > 2
    assert rates.factor(OTHER) < 0.5
    assert rates.factor((key_of("s", "new"), key_of("l", "new"))) == 1.0


def test_what_the_shape_leads_to_expect_is_not_counted_again_for_the_line() -> None:
    ranking = [(1.0, (S, L)), (1.0, OTHER)]
    first, _ = outcome(EditRates(), ranking, 0)
    assert first[L] == Rate(1.0, 0.5)
    known = EditRates({S: Rate(6.0, 0.0)})
    again, _ = outcome(known, ranking, 0)
    assert again[S] == Rate(1.0, 0.5)
    assert again[L] == Rate(1.0, 2.0), "four times as much: the shape is known to be right"


def test_an_outcome_says_how_surprised_each_order_was() -> None:
    known = EditRates({S: Rate(6.0, 0.0)})
    ranking = [(3.0, OTHER), (1.0, (S, L))]
    _, (own, learnt) = outcome(known, ranking, 1)
    assert own == pytest.approx(log(4), abs=1e-3)
    assert learnt == pytest.approx(log(7 / 4), abs=1e-3)


def test_an_edit_without_any_chance_counts_as_if_it_stood_last() -> None:
    _, (own, _) = outcome(EditRates(), [(1.0, OTHER), (0.0, (S, L))], 1)
    assert own == pytest.approx(log(3), abs=1e-3)


def test_the_gate_believes_the_order_that_was_surprised_least_and_the_other_comes_back() -> None:
    rates = EditRates()
    assert rates.belief == 0.5
    for _ in range(30):
        rates = rates.plus({}, (1, 9))
    assert rates.belief == pytest.approx(0.01, abs=1e-3), "a share is left to the learnt order"
    for _ in range(2):
        rates = rates.plus({}, (9, 2))
    assert rates.belief > 0.8, "two searches are enough, however long it was wrong"
    for _ in range(30):
        rates = rates.plus({}, (9, 1))
    assert rates.belief == pytest.approx(0.91, abs=1e-3), "and the policy's own keeps a share too"


def test_rates_that_tell_nothing_leave_a_search_to_its_own_order() -> None:
    rates = EditRates()
    for _ in range(100):
        rates = rates.plus({}, (2.0, 2.0))
    assert rates.belief == pytest.approx(0.1, abs=1e-3)


def test_the_gate_bears_surprises_of_any_size() -> None:
    rates = EditRates().plus({}, (1e6, 0.0))
    assert rates.belief == pytest.approx(0.91)
    assert rates.plus({}, (0.0, 1e6)).belief == pytest.approx(0.01)
    assert rates.plus({}, (1e6, 1e6)).belief > 0.8, "both alike: nothing but the tenth is moved"


def test_orders_are_mixed_by_their_shares_not_by_their_scores() -> None:
    first, second = blended((1.0, 3.0), (9.0, 1.0), 0.5)
    assert first == pytest.approx(0.5 * 1 / 4 + 0.5 * 9 / 12)
    assert first + second == pytest.approx(1.0)
    assert blended((1.0, 3.0), (9.0, 1.0), 0.0) == [0.25, 0.75], "its own order"


def test_what_was_learnt_goes_first_as_far_as_it_is_believed() -> None:
    scores = [1 / n for n in range(1, 21)]
    factors = [1.0] * 19 + [1000.0]
    assert learnt_order(scores, factors, 1.0) == [19, *range(19)]
    assert learnt_order(scores, factors, 0.0) == list(range(20))
    assert learnt_order([1.0] * 20, [1.0] * 20, 0.5) == list(range(20)), "equals stay in order"


def test_a_loop_counts_once() -> None:
    asyncio.run(_counts_once())


async def _counts_once() -> None:
    registry = memory_registry()
    assert await registry.searched("loop", {S: Rate(1.0, 0.5)}, (3, 1))
    assert not await registry.searched("loop", {S: Rate(1.0, 0.5)}, (3, 1))
    rates = await registry.rates()
    assert rates.by_key == {S: Rate(1.0, 0.5)}
    assert rates.costs == after(EditRates().costs, (3, 1)), "once, not twice"

"""Two counters for each kind of edit, and the gate over the orders that they make."""

import asyncio
import random
from math import log

import pytest

from taofold.learning.patterns.pattern import Rate
from taofold.learning.rates import (
    POWERS,
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


def test_an_outcome_says_where_the_edit_stood_in_each_order() -> None:
    known = EditRates({S: Rate(6.0, 0.0)})
    ranking = [(3.0, OTHER), (1.0, (S, L))]
    _, costs = outcome(known, ranking, 1)
    assert POWERS == (0.0, 0.5, 1.0)
    assert costs[0] == pytest.approx(log(4), abs=1e-3)
    assert costs[2] == pytest.approx(log(7 / 4), abs=1e-3)
    assert costs[0] > costs[1] > costs[2]


def test_the_gate_believes_the_order_that_was_surprised_least_and_others_come_back() -> None:
    rates = EditRates()
    assert rates.weights == pytest.approx((1 / 3, 1 / 3, 1 / 3))
    for _ in range(30):
        rates = rates.plus({}, (1, 2, 9))
    own, _, learnt = rates.weights
    assert own > 0.6
    assert 0.004 < learnt < 0.01, "a share is left to it"
    for _ in range(2):
        rates = rates.plus({}, (9, 5, 2))
    assert rates.weights[2] > 0.8, "two searches are enough, however long it was wrong"


def test_rates_that_tell_nothing_leave_a_search_to_its_own_order() -> None:
    rates = EditRates()
    for _ in range(100):
        rates = rates.plus({}, (2.0, 2.0, 2.0))
    assert rates.weights[0] == pytest.approx(0.8, abs=0.02)


def test_costs_of_a_release_with_other_orders_are_left_out() -> None:
    assert EditRates().plus({}, (1.0, 2.0)).costs == EditRates().costs


def test_orders_are_mixed_by_their_shares_not_by_their_scores() -> None:
    first, second = blended((1.0, 3.0), (9.0, 1.0), (0.5, 0.0, 0.5))
    assert first == pytest.approx(0.5 * 1 / 4 + 0.5 * 9 / 12)
    assert first + second == pytest.approx(1.0)
    assert blended((1.0, 3.0), (9.0, 1.0), (1.0, 0.0, 0.0)) == [0.25, 0.75], "its own order"


@pytest.mark.parametrize("seed", range(30))
def test_what_a_policy_tries_in_place_n_is_tried_in_place_2n_at_the_latest(seed: int) -> None:
    chance = random.Random(seed)
    scores = sorted([chance.random() for _ in range(chance.randint(1, 90))], reverse=True)
    factors = [chance.choice((0.01, 0.5, 1.0, 3.0, 50.0)) for _ in scores]
    order = learnt_order(scores, factors, (0.0, 0.0, 1.0))
    assert sorted(order) == list(range(len(scores))), "the set of edits stays what it was"
    for place, index in enumerate(order, 1):
        assert place <= 2 * (index + 1)


def test_what_was_learnt_goes_first_as_far_as_that_allows() -> None:
    scores = [1 / n for n in range(1, 21)]
    factors = [1.0] * 19 + [1000.0]
    assert learnt_order(scores, factors, (0.0, 0.0, 1.0)) == [19, *range(19)]
    assert learnt_order(scores, [1.0] * 20, (0.0, 0.0, 1.0)) == list(range(20))
    backwards = learnt_order(scores, [2.0**n for n in range(20)], (0.0, 0.0, 1.0))
    assert backwards[:4] == [19, 0, 18, 1], "alternately, where all is turned round"


def test_a_loop_counts_once() -> None:
    asyncio.run(_counts_once())


async def _counts_once() -> None:
    registry = memory_registry()
    assert await registry.searched("loop", {S: Rate(1.0, 0.5)}, (3, 2, 1))
    assert not await registry.searched("loop", {S: Rate(1.0, 0.5)}, (3, 2, 1))
    rates = await registry.rates()
    assert rates.by_key == {S: Rate(1.0, 0.5)}
    assert rates.costs == after(EditRates().costs, (3, 2, 1)), "once, not twice"

"""Two counters for each kind of edit, and the gate over the orders that they make."""

import asyncio
from math import log

import pytest

from taofold.learning.patterns.pattern import Rate
from taofold.learning.rates import POWERS, EditRates, key_of, outcome
from taofold.log.registry.registry import memory_registry

S, L = key_of("s", "swap"), key_of("l", "swap", "a line")
OTHER = key_of("s", "other"), key_of("l", "other", "a line")


def test_a_kind_that_wins_as_often_as_expected_is_worth_what_it_was() -> None:
    rates = EditRates({S: Rate(3.0, 3.0), L: Rate(1.0, 1.0)})
    assert rates.factor((S, L), 1.0) == pytest.approx(1.0)


def test_wins_raise_a_kind_and_absence_of_wins_lowers_one_that_stands_everywhere() -> None:
    rates = EditRates({S: Rate(3.0, 0.3), OTHER[0]: Rate(0.0, 4.0)})
    assert rates.factor((S, L), 1.0) > 2
    assert rates.factor(OTHER, 1.0) < 0.5
    assert rates.factor((key_of("s", "new"), key_of("l", "new")), 1.0) == 1.0


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


def test_the_gate_takes_the_order_that_has_cost_least_and_forgets() -> None:
    rates = EditRates()
    assert rates.power == 1.0
    for _ in range(3):
        rates = rates.plus({}, (1, 2, 9))
    assert rates.power == 0.0
    for _ in range(9):
        rates = rates.plus({}, (9, 5, 2))
    assert rates.power == 1.0


def test_a_loop_counts_once() -> None:
    asyncio.run(_counts_once())


async def _counts_once() -> None:
    registry = memory_registry()
    assert await registry.searched("loop", {S: Rate(1.0, 0.5)}, (3, 2, 1))
    assert not await registry.searched("loop", {S: Rate(1.0, 0.5)}, (3, 2, 1))
    rates = await registry.rates()
    assert rates.by_key == {S: Rate(1.0, 0.5)}
    assert rates.costs == (3.0, 2.0, 1.0)

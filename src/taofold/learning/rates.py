"""The success rates of kinds of edits at ending loops: two counters for each, and a gate.

Empirical Bayes over nested keys of an edit: its shape, its shape in such a statement, and its shape
on such a line. A key's rate is (wins + doubt) / (expected + doubt). Wins that the outer keys
already predict are not counted again for the inner ones. The outer keys transfer between projects
that share no line; the inner ones within a project.

The gate weighs two orders of the same edits, the policy's own and the learnt one, by their surprise
at the edits that were correct. A search ranks by their mixture, so misleading rates lose weight,
and the learnt order is never lost for good.

Source of the figures: `docs/internals/learning-benchmark.md`. Pure.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from math import exp, log, prod
from typing import Final

from taofold.core.values import Value
from taofold.learning.patterns.pattern import Rate

DOUBT: Final = 2.0
"""Pseudo-wins that draw a key's rate to 1."""
SHARE: Final = 0.1
"""The share of belief that is redistributed after each search; the learnt order gets this share of
it.
"""
MOST_KEYS: Final = 4_000
"""The most rates passed to one search: those with wins, then those with the most expected."""


class EditRates(Value, frozen=True):
    """The results of earlier searches.

    `costs` are the negative logarithms of the belief in the policy's own order and in the learnt
    one.
    """

    by_key: Mapping[str, Rate] = {}
    costs: tuple[float, ...] = (0.0, 0.0)

    @property
    def belief(self) -> float:
        """The belief in the learnt order; the rest is the belief in the policy's own."""
        return _belief(self.costs)

    def thetas(self, keys: Sequence[str]) -> tuple[float, ...]:
        """Returns the rate of each of an edit's keys, relative to its outer keys' prediction."""
        return tuple([self.theta(key) for key in keys])

    def theta(self, key: str) -> float:
        """Returns the rate of one key; 1 if it is unknown."""
        rate = self.by_key.get(key)
        return rate.factor(DOUBT) if rate is not None else 1.0

    def factor(self, keys: Sequence[str]) -> float:
        """Returns the factor for the score of an edit with these keys, before belief is applied."""
        return prod(self.thetas(keys))

    def plus(self, rates: Mapping[str, Rate], surprises: Sequence[float]) -> "EditRates":
        """Returns the rates with one search more."""
        merged = dict(self.by_key)
        for key, rate in rates.items():
            merged[key] = merged.get(key, Rate()).plus(rate)
        return EditRates(merged, after(self.costs, surprises))


def _belief(costs: Sequence[float]) -> float:
    own, learnt = costs
    # Minus the smaller, so that `exp` cannot underflow for both at once.
    least = min(own, learnt)
    return exp(least - learnt) / (exp(least - own) + exp(least - learnt))


def after(costs: Sequence[float], surprises: Sequence[float]) -> tuple[float, ...]:
    """Returns the orders' costs after one more search with these surprises.

    Bayes' rule over the two orders with a fixed share (Herbster and Warmuth, 1998): the search may
    have moved to a project whose edits are of another kind.
    """
    if not surprises:
        return tuple(costs)
    learnt = _belief((costs[0] + surprises[0], costs[1] + surprises[1]))
    # Mostly to the policy's own order, so that rates keep their weight only while they help.
    learnt = (1 - SHARE) * learnt + SHARE * SHARE
    return -log(1 - learnt), -log(learnt)


def learnt_order(scores: Sequence[float], factors: Sequence[float], belief: float) -> list[int]:
    """Returns the indices of a policy's own order, sorted by both orders together.

    Ties keep the policy's order.
    """
    chances = blended(scores, factors, belief)
    return sorted(range(len(chances)), key=lambda index: -chances[index])


def blended(scores: Sequence[float], factors: Sequence[float], belief: float) -> list[float]:
    """Returns each edit's chance: the mean of its shares in the two orders, weighted by belief.

    Shares and not scores are added: an order with ten times the scores has no more weight.
    """
    learnt = [score * factor for score, factor in zip(scores, factors, strict=True)]
    own_total, learnt_total = sum(scores) or 1.0, sum(learnt) or 1.0
    return [
        (1 - belief) * own / own_total + belief * raised / learnt_total
        for own, raised in zip(scores, learnt, strict=True)
    ]


def outcome(
    rates: EditRates, ranking: Sequence[tuple[float, Sequence[str]]], winner: int
) -> tuple[dict[str, Rate], tuple[float, ...]]:
    """Returns the result of a search that the edit number `winner` of `ranking` ended.

    Args:
        rates: The rates before the search.
        ranking: Every candidate's own score and keys, in the policy's own order.
        winner: Its index in `ranking`.

    Returns:
        The rates and the surprises (`costs`) of a `SearchSettled` event.
    """
    total = sum([score for score, _ in ranking]) or 1.0
    counted: dict[str, Rate] = {}
    for index, (score, keys) in enumerate(ranking):
        expected = score / total
        # From the shape to the line: wins predicted by a shape are not counted again for its lines,
        # or one win would raise an edit three times.
        for key, theta in zip(keys, rates.thetas(keys), strict=True):
            outcome_here = Rate(float(index == winner), expected)
            counted[key] = counted[key].plus(outcome_here) if key in counted else outcome_here
            expected *= theta
    return counted, _surprises(rates, ranking, winner)


def _surprises(
    rates: EditRates, ranking: Sequence[tuple[float, Sequence[str]]], winner: int
) -> tuple[float, ...]:
    """Returns the surprise of both orders at the correct edit: -ln of its share of the scores.

    Ranks would measure the cost of a search, but distinguish the orders only after many more
    searches.
    """
    own = [score for score, _ in ranking]
    learnt = [score * rates.factor(keys) for score, keys in ranking]
    return _surprise(own, winner), _surprise(learnt, winner)


def _surprise(scores: Sequence[float], winner: int) -> float:
    right = scores[winner]
    # An edit without a chance in an order would have infinite cost: it counts as the last one.
    share = right / sum(scores) if right > 0 else 1.0 / (len(scores) + 1.0)
    return round(-log(share), 4)


def key_of(level: str, *parts: object) -> str:
    """Returns a short name for an edit's effect, `level` first; equal parts have equal names."""
    # `repr` of strings is the same in every process; `hash` is not.
    digest = blake2b(repr(parts).encode("utf-8", "replace"), digest_size=6)
    return f"{level}{digest.hexdigest()}"

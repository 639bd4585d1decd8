"""How good kinds of edits have been at ending loops: two counters for each, and a gate.

Empirical Bayes over nested keys of an edit, its shape, its shape in such a statement and its shape
on a line like this one: a key's rate is (wins + doubt) / (expected + doubt), and what the outer
keys already expect is not counted again for the inner ones. The outer keys are what carries over
between projects that share no line; the inner one is what carries over within one.

The gate weighs three orders of the same edits, from the policy's own to one that believes the rates
in full, by how surprised each was at the edits that were right. A search ranks by their mixture, so
rates that mislead lose their say, and none is lost for good.

Source of the figures: `docs/learning-benchmark.md`. Pure.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from math import exp, log, prod
from typing import Final

from taofold.core.values import Value
from taofold.learning.patterns.pattern import Rate

POWERS: Final = (0.0, 0.5, 1.0)
"""The orders that the gate weighs: scores times the factor to this power; 0 = the policy's own."""
SHAPE: Final = "s"
STATEMENT: Final = "k"
LINE: Final = "l"
DOUBTS: Final = {SHAPE: 2.0, STATEMENT: 2.0, LINE: 1.0}
"""Pseudo-wins that draw a key's rate to 1, by the first letter of the key."""
SHARE: Final = 0.05
"""Of all weight, what is dealt out anew after each search, so that no order is lost for good."""
DEALT: Final = (0.8, 0.1, 0.1)
"""To whom: mostly to the policy's own order, so that rates keep their say only while they help."""
MOST_KEYS: Final = 4_000
"""Rates handed to one search: those with wins, then those with the most expected."""


class EditRates(Value, frozen=True):
    """What earlier searches came to.

    `costs` are minus the logarithm of how far each order in `POWERS` is believed.
    """

    by_key: Mapping[str, Rate] = {}
    costs: tuple[float, ...] = tuple([0.0] * len(POWERS))

    @property
    def weights(self) -> tuple[float, ...]:
        """How far each order in `POWERS` is believed; together 1."""
        return _weights(self.costs)

    def thetas(self, keys: Sequence[str]) -> tuple[float, ...]:
        """The rate of each of an edit's keys, beside what its outer keys let expect."""
        return tuple([self.theta(key) for key in keys])

    def theta(self, key: str) -> float:
        """The rate of one key; 1 for one that nothing is known of."""
        rate = self.by_key.get(key)
        return rate.factor(DOUBTS.get(key[:1], 1.0)) if rate is not None else 1.0

    def factor(self, keys: Sequence[str]) -> float:
        """What the score of an edit with these keys is multiplied by where rates are believed."""
        return prod(self.thetas(keys))

    def plus(self, rates: Mapping[str, Rate], costs: Sequence[float]) -> "EditRates":
        """With one search more."""
        merged = dict(self.by_key)
        for key, rate in rates.items():
            merged[key] = merged.get(key, Rate()).plus(rate)
        return EditRates(merged, after(self.costs, costs))


def _weights(costs: Sequence[float]) -> tuple[float, ...]:
    # Less the smallest, so that `exp` cannot underflow for all of them at once.
    least = min(costs)
    weights = [exp(least - cost) for cost in costs]
    total = sum(weights)
    return tuple([weight / total for weight in weights])


def after(costs: Sequence[float], surprises: Sequence[float]) -> tuple[float, ...]:
    """The orders' costs after one more search, at which each was so surprised.

    Bayes' rule over the orders with a fixed share (Herbster and Warmuth, 1998): the search may have
    moved to a project whose edits are of another kind.
    """
    if len(surprises) != len(costs):  # of a release with other orders
        return tuple(costs)
    weights = _weights([cost + more for cost, more in zip(costs, surprises, strict=True)])
    return tuple(
        [
            -log((1 - SHARE) * weight + SHARE * dealt)
            for weight, dealt in zip(weights, DEALT, strict=True)
        ]
    )


def blended(
    scores: Sequence[float], factors: Sequence[float], weights: Sequence[float]
) -> list[float]:
    """Each edit's chance by all orders together: the mean of its shares, by the orders' weights.

    Shares and not scores are added: an order that multiplies everything by ten is not louder.
    """
    chances = [0.0] * len(scores)
    for power, weight in zip(POWERS, weights, strict=True):
        powered = [score * factor**power for score, factor in zip(scores, factors, strict=True)]
        total = sum(powered) or 1.0
        chances = [c + weight * score / total for c, score in zip(chances, powered, strict=True)]
    return chances


def learnt_order(
    scores: Sequence[float], factors: Sequence[float], weights: Sequence[float]
) -> list[int]:
    """The indices of a policy's own order, the likeliest first by all orders together.

    What a policy would try in place n is tried in place 2n at the latest, whatever was learnt:
    rates that mislead can make a search twice as long, and no more. Equals keep the policy's order.
    """
    chances = blended(scores, factors, weights)
    likeliest = iter(sorted(range(len(chances)), key=lambda index: -chances[index]))
    own = iter(range(len(chances)))
    placed: dict[int, None] = {}
    oldest = next(own, None)
    while oldest is not None:
        position = len(placed) + 1
        due = position >= 2 * (oldest + 1)
        index = oldest if due else next(i for i in likeliest if i not in placed)
        placed[index] = None
        oldest = oldest if oldest not in placed else next((i for i in own if i not in placed), None)
    return list(placed)


def outcome(
    rates: EditRates, ranking: Sequence[tuple[float, Sequence[str]]], winner: int
) -> tuple[dict[str, Rate], tuple[float, ...]]:
    """What a search says that the edit number `winner` of `ranking` ended.

    Args:
        ranking: Every candidate's own score and keys, in the policy's own order.
        winner: Its index in `ranking`.

    Returns:
        The rates and the costs of a `SearchSettled` event.
    """
    total = sum([score for score, _ in ranking]) or 1.0
    counted: dict[str, Rate] = {}
    for index, (score, keys) in enumerate(ranking):
        expected = score / total
        # From the shape to the line: what a shape's wins let expect is no news of its lines, else
        # one win would raise an edit three times.
        for key, theta in zip(keys, rates.thetas(keys), strict=True):
            outcome_here = Rate(float(index == winner), expected)
            counted[key] = counted[key].plus(outcome_here) if key in counted else outcome_here
            expected *= theta
    return counted, _surprises(rates, ranking, winner)


def _surprises(
    rates: EditRates, ranking: Sequence[tuple[float, Sequence[str]]], winner: int
) -> tuple[float, ...]:
    """How surprised each order is at the edit that was right: -ln of its share of the scores.

    Places would say what a search pays, but tell orders apart after many more searches.
    """
    factors = [rates.factor(keys) for _, keys in ranking]
    surprises: list[float] = []
    for power in POWERS:
        scores = [
            score * factor**power for (score, _), factor in zip(ranking, factors, strict=True)
        ]
        right = scores[winner]
        # An edit that an order gives no chance would cost without end: as if it stood last.
        share = right / sum(scores) if right > 0 else 1.0 / (len(scores) + 1.0)
        surprises.append(round(-log(share), 4))
    return tuple(surprises)


def key_of(level: str, *parts: object) -> str:
    """A short name for what an edit does, `level` first; equal parts have equal names."""
    # `repr` of strings is the same in every process; `hash` is not.
    digest = blake2b(repr(parts).encode("utf-8", "replace"), digest_size=6)
    return f"{level}{digest.hexdigest()}"

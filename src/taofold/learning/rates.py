"""How good kinds of edits have been at ending loops: two counters for each, and a gate.

A search policy multiplies its own score of an edit by `Rates.factor`. The rule is empirical
Bayes over nested keys of an edit, its shape, its shape in such a statement and its shape on a line
like this one: a key's rate is (wins + doubt) / (expected + doubt), and what the outer keys already
expect is not counted again for the inner ones. The outer keys are what carries over between
projects that share no line; the inner one is what carries over within one.

Source of the figures: `docs/learning-benchmark.md`. Pure.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from math import log, prod
from typing import Final

from taofold.core.values import Value
from taofold.learning.patterns.pattern import Rate

POWERS: Final = (0.0, 0.5, 1.0)
"""Orders that the gate chooses from: scores times the factor to this power; 0 = its own order."""
SHAPE: Final = "s"
STATEMENT: Final = "k"
LINE: Final = "l"
DOUBTS: Final = {SHAPE: 2.0, STATEMENT: 2.0, LINE: 1.0}
"""Pseudo-wins that draw a key's rate to 1, by the first letter of the key."""
FADE: Final = 0.9
"""What of the orders' costs is left after each loop, so that an early lesson can be unlearnt."""
MOST_KEYS: Final = 4_000
"""Rates handed to one search: those with wins, then those with the most expected."""


class EditRates(Value, frozen=True):
    """What earlier searches came to. `costs` are what each order in `POWERS` cost, faded."""

    by_key: Mapping[str, Rate] = {}
    costs: tuple[float, ...] = tuple([0.0] * len(POWERS))

    @property
    def power(self) -> float:
        """The power of the order that has cost least; of equal ones the most learnt."""
        return min(zip(self.costs, POWERS, strict=True), key=lambda pair: (pair[0], -pair[1]))[1]

    def thetas(self, keys: Sequence[str]) -> tuple[float, ...]:
        """The rate of each of an edit's keys, beside what its outer keys let expect."""
        return tuple([self.theta(key) for key in keys])

    def theta(self, key: str) -> float:
        """The rate of one key; 1 for one that nothing is known of."""
        rate = self.by_key.get(key)
        return rate.factor(DOUBTS.get(key[:1], 1.0)) if rate is not None else 1.0

    def factor(self, keys: Sequence[str], power: float | None = None) -> float:
        """What the score of an edit with these keys is multiplied by."""
        return pow(prod(self.thetas(keys)), self.power if power is None else power)

    def plus(self, rates: Mapping[str, Rate], costs: Sequence[float]) -> "EditRates":
        """With one search more."""
        merged = dict(self.by_key)
        for key, rate in rates.items():
            merged[key] = merged.get(key, Rate()).plus(rate)
        return EditRates(merged, after(self.costs, costs))


def after(costs: Sequence[float], more: Sequence[float]) -> tuple[float, ...]:
    """The orders' costs after one more search, which cost `more`."""
    if len(more) != len(costs):
        return tuple(costs)
    return tuple([FADE * cost + one for cost, one in zip(costs, more, strict=True)])


def outcome(
    rates: EditRates, ranking: Sequence[tuple[float, Sequence[str]]], winner: int
) -> tuple[dict[str, Rate], tuple[float, ...]]:
    """What a search says that the edit number `winner` of `ranking` ended.

    Args:
        ranking: Every candidate's own score and keys, in the policy's own order.
        winner: Its index in `ranking`.

    Returns:
        The rates and the costs of a `Searched` event.
    """
    total = sum([score for score, _ in ranking]) or 1.0
    found: dict[str, Rate] = {}
    for index, (score, keys) in enumerate(ranking):
        expected = score / total
        for key, theta in zip(keys, rates.thetas(keys), strict=True):
            seen = Rate(float(index == winner), expected)
            found[key] = found[key].plus(seen) if key in found else seen
            expected *= theta
    return found, tuple([_cost(rates, ranking, winner, power) for power in POWERS])


def _cost(
    rates: EditRates, ranking: Sequence[tuple[float, Sequence[str]]], winner: int, power: float
) -> float:
    """The order's surprise at the edit that was right: -ln of its share of the scores.

    Places would say what a search pays, but tell orders apart after many more searches.
    """
    scores = [score * rates.factor(keys, power) for score, keys in ranking]
    if scores[winner] <= 0:
        return round(log(len(scores) + 1.0), 4)
    return round(log(sum(scores) / scores[winner]), 4)


def key_of(level: str, *parts: object) -> str:
    """A short name for what an edit does, `level` first; equal parts have equal names."""
    digest = blake2b(repr(parts).encode("utf-8", "replace"), digest_size=6)
    return f"{level}{digest.hexdigest()}"

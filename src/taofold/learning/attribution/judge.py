"""How good a pattern is here, by our own evidence, and whether it is worth showing.

What a pattern promises in a case (`promise`) is multiplied by how far it, and its change, kept
such promises: its wins by the wins promised, where each counts by how near the case where it
happened is to the present one; what all patterns together came to stands in where little is
known. Effectiveness is a chance, compared with that of a try that is told nothing.
"""

from collections.abc import Iterator, Sequence
from math import sqrt
from typing import Final, NamedTuple

from taofold.learning.patterns.bodies import Kind
from taofold.learning.patterns.case import Context
from taofold.learning.retrieval.index import signature_of
from taofold.learning.patterns.notes import Stats, Tally
from taofold.learning.attribution.promise import nearness
from taofold.learning.patterns.values import Arm, Evidence, Pattern

_LATER: Final = 0.5
"""How likely what is left is to help, beside a try taken at random, when fixes are asked."""
_FIRST: Final = 1.5
"""The same when anything else is: it is read before the first try."""
_DOUBT: Final = 1.5
"""The promised wins that all patterns together are worth, beside the record of one."""
_DOUBT_NEAR: Final = 0.6
"""The promised wins that the whole record is worth, beside that of cases like the present."""
_MOST: Final = 0.95
_USUAL_TRIES: Final = 20
_USUAL_WEIGHT: Final = 4
_USELESS_USES: Final = 5
_USELESS_SHOWN: Final = 20
_HARM_SHOWN: Final = 8
_HARM_COMPARED: Final = 3
_ONE_SIDED_95: Final = 1.645


def baseline(stats: Stats) -> float:
    """The chance that a try without any pattern ends the loop, at a try taken at random.

    That is 2 Σx / (Σx² + Σx) for loops of x tries: the chance itself if it is always the same,
    less if some loops are hard. Loops and tries alone would speak of the easy ones.
    """
    x, n = _USUAL_TRIES, _USUAL_WEIGHT
    tries = n * x + stats.tries.iterations
    squares = n * x * (2 * x - 1) + stats.tries.squares
    return 2 * tries / (squares + tries)


def needed(stats: Stats, kind: Kind) -> float:
    """The chance from which on a pattern is worth showing."""
    return baseline(stats) * (_LATER if kind == "error" else _FIRST)


def its_own(pattern: Pattern, here: Context) -> bool:
    """Is the failure of the kind that the pattern's signature describes, as far as can be told?

    A success rate is about this kind: what a fix does to other failures says how far it
    reaches, and is kept as evidence only.
    """
    found = signature_of(pattern)
    if found is None or not here.errors:
        return True
    return found.name in ("", *here.errors) and set(found.signs) <= {*here.signs}


class Record(NamedTuple):
    """How a pattern kept its promises: anywhere, and in cases like the present one."""

    anywhere: Tally = Tally()
    near: Tally = Tally()

    @property
    def unproven(self) -> float:
        """How much of the pattern's chance rests on trust in patterns as such, 0 to 1."""
        return _DOUBT / (self.anywhere.promised + _DOUBT)


class Records:
    """Records of patterns as they count in the case `here`.

    One loop says something of many patterns, and how near it is to the case is found out once.
    """

    def __init__(self, here: Context) -> None:
        self._here = here
        self._weights: dict[str, float] = {}

    def of(self, pattern: Pattern, tried: Sequence[Evidence]) -> Record:
        """The record of a pattern.

        Args:
            pattern: Its own evidence counts, but for what its change did.
            tried: What became of its change wherever that was looked at, for any error.
        """
        anywhere = near = Tally()
        for one in judged(pattern, tried):
            anywhere = anywhere.plus(one)
            near = near.plus(one, self._weight(one))
        return Record(anywhere, near)

    def _weight(self, one: Evidence) -> float:
        known = self._weights.get(one.loop)
        if known is None:
            known = self._weights[one.loop] = nearness(one.context, self._here) ** 2
        return known


def chance(start: float, record: Record, trust: float) -> float:
    """The chance that a pattern, if it is shown, is what helps. Its effectiveness.

    Args:
        start: What it promises here.
        record: How it kept such promises.
        trust: How all patterns together kept theirs.
    """
    kept = record.near.kept(_DOUBT_NEAR, record.anywhere.kept(_DOUBT, trust))
    return min(start * kept, _MOST)


def judged(pattern: Pattern, tried: Sequence[Evidence]) -> Iterator[Evidence]:
    """What is known of the pattern: its change's record, and its own where that is silent."""
    told = {one.loop for one in tried}
    yield from tried
    yield from (one for one in pattern.evidence if one.loop not in told)


def danger(pattern: Pattern) -> float:
    """The failure rate of an anti-pattern, shrunk: one failure of one is not 17 of 17."""
    counts = pattern.counts
    return (counts.failures + 1.0) / (counts.successes + counts.failures + 2.0)


def hurts(pattern: Pattern, stats: Stats) -> str:
    """Why the pattern is to be shown no more; "" if it may be.

    Looks at uses and at loops that only saw it, so that poison which nobody takes goes too.
    """
    uses = pattern.uses
    if pattern.helped:
        least = needed(stats, pattern.kind)
        if len(uses) >= 2 * _USELESS_USES and _highest(pattern.helped, len(uses)) < least:
            return f"it helped in {pattern.helped} of {len(uses)} loops that used it"
        return ""
    if len(uses) >= _USELESS_USES and pattern.kind != "anti":
        return f"{len(uses)} loops used it and it helped in none"
    without = _compared(pattern, stats)
    if pattern.shown.loops >= _HARM_SHOWN and _slower(pattern.shown, without):
        return (
            f"it never helped, and the {pattern.shown.loops} loops that saw it took "
            f"{pattern.shown.mean or 0:.1f} iterations against {without.mean or 0:.1f} without it"
        )
    if pattern.shown.loops >= _USELESS_SHOWN and not uses and pattern.kind != "anti":
        return f"{pattern.shown.loops} loops saw it and none used it"
    return ""


def _compared(pattern: Pattern, stats: Stats) -> Arm:
    """Loops to compare with: those kept from this pattern, else all that were kept from any."""
    for arm in (pattern.held, stats.held):
        if arm.loops >= _HARM_COMPARED:
            return arm
    return stats.plain


def variance(arm: Arm) -> float:
    """The sample variance of the iterations; 0 below two loops."""
    if arm.loops < 2:
        return 0.0
    mean = arm.iterations / arm.loops
    return max(arm.squares - arm.loops * mean * mean, 0.0) / (arm.loops - 1)


def _slower(arm: Arm, other: Arm) -> bool:
    """Did `arm` surely take longer than `other`?"""
    if other.loops < _HARM_COMPARED or arm.mean is None or other.mean is None:
        return False
    spread = sqrt(variance(arm) / arm.loops + variance(other) / other.loops)
    return arm.mean - other.mean > max(_ONE_SIDED_95 * spread, 0.1 * other.mean)


def _highest(wins: int, uses: int) -> float:
    """The upper end of Wilson's 90 % interval of a rate."""
    z = _ONE_SIDED_95
    rate, square = wins / uses, z * z / uses
    return (rate + square / 2 + z * sqrt(rate * (1 - rate) / uses + square / (4 * uses))) / (
        1 + square
    )

"""How good a pattern is here, by our own evidence, and whether it is worth showing.

A pattern's wins and losses count by how near the case where they happened is to the present
one, and are shrunk towards what patterns without a record did at this relevance. What a file
claims counts for nothing. Effectiveness is a chance, compared with the chance of an iteration
that is told nothing. The odds of a fix without a record were counted on the bugs of
`bench/learn` (docs/learning-benchmark.md); the other figures are judgement.
"""

from collections.abc import Iterator, Sequence
from math import exp, sqrt
from typing import Final

from taofold.patterns.case import Context
from taofold.patterns.index import signature_of
from taofold.patterns.notes import IGNORED, Stats
from taofold.patterns.values import Arm, Evidence, Pattern

PRIOR_WEIGHT: Final = 2.0
MARGIN: Final = 0.05
"""How much better than the baseline a pattern must look: reading it is not free either."""
FRESH: Final = 3
"""Outcomes tell about patterns without a record until their change has this many."""
_START: Final = -6.66
"""With `_RELEVANT`: the odds of a fix of relevance 0.4 are 3 to 100, of 0.78 60 to 100."""
_RELEVANT: Final = 7.9
_SAME_LINE: Final = 10.0
_LIKE_LINE: Final = 3.4
_USUAL_LINE: Final = 0.2
"""The likeness of lines that have nothing to do with one another."""
_MOST_START: Final = 0.6
"""What is expected at most of a pattern that never helped."""
_AGREE: Final = 4.0
_DISAGREE: Final = 0.8
_USUAL_ITERATIONS: Final = 5.0
_USUAL_WEIGHT: Final = 4.0
_LEAST_BASELINE: Final = 0.005
_MOST_BASELINE: Final = 0.5
_USELESS_USES: Final = 5
_USELESS_SHOWN: Final = 20
_HARM_SHOWN: Final = 8
_HARM_COMPARED: Final = 3
_ONE_SIDED_95: Final = 1.645


def baseline(stats: Stats) -> float:
    """The chance that one iteration without any pattern ends the loop."""
    loops = _USUAL_WEIGHT + stats.held.loops + stats.plain.loops
    iterations = _USUAL_ITERATIONS * _USUAL_WEIGHT + stats.held.iterations + stats.plain.iterations
    return max(_LEAST_BASELINE, min(loops / max(iterations, 1.0), _MOST_BASELINE))


def needed(stats: Stats) -> float:
    """The chance from which on a pattern is worth showing."""
    return baseline(stats) + MARGIN


def nearness(one: Context, other: Context) -> float:
    """How alike two cases are, 0 to 1."""
    if one.errors and other.errors:
        kind = 1.0 if set(one.errors) & set(other.errors) else 0.3
    else:
        kind = 0.6
    fewer = min(len(one.words), len(other.words))
    shared = len(set(one.words) & set(other.words)) / fewer if fewer else 0.0
    return kind * (0.25 + 0.75 * max(shared, 0.8 * (_agree(one, other) or 0.0)))


def _agree(one: Context, other: Context) -> float | None:
    """How much the signs of two cases have in common; None if one of them has none."""
    fewer = min(len(one.signs), len(other.signs))
    return len(set(one.signs) & set(other.signs)) / fewer if fewer else None


def its_own(pattern: Pattern, here: Context) -> bool:
    """Is the failure of the kind that the pattern's signature describes, as far as can be told?

    A success rate is about this kind: what a fix does to other failures says how far it
    reaches, and is kept as evidence only.
    """
    found = signature_of(pattern)
    if found is None or not here.errors:
        return True
    return found.name in ("", *here.errors) and set(found.signs) <= {*here.signs}


def agreement(pattern: Pattern, here: Context) -> float | None:
    """How well the failure's signs agree with the best case where the pattern was right."""
    known = [
        share
        for one in pattern.evidence
        if one.outcome in ("found", "won") and (share := _agree(one.context, here)) is not None
    ]
    return max(known, default=None)


def initial(pattern: Pattern, relevance: float, line: float | None, agree: float | None) -> float:
    """What to expect of a pattern of which nothing is known but how it suits the case.

    Args:
        pattern: Only its kind counts, and whether it is an import.
        relevance: 0 to 1, from the error and the text around it.
        line: How well the lines that the fix replaced are found in the code, 1 = these very
            lines; None: it replaced none.
        agree: The agreement of the failures' signs, 0 to 1; None if it cannot be told.
    """
    half = 0.5 if claimed(pattern) else 1.0
    if pattern.kind != "error":
        return (0.15 + 0.5 * relevance) * half
    odds = exp(_START + _RELEVANT * relevance) * _of_line(line)
    if agree is not None:
        odds *= _DISAGREE + (_AGREE - _DISAGREE) * agree**2
    return min(odds / (1 + odds), _MOST_START) * half


def _of_line(line: float | None) -> float:
    """How much more likely a fix is, if its line is here like this (1 = the very line)."""
    if line is None or line >= 1.0:
        return _SAME_LINE
    return exp(_LIKE_LINE * (line - _USUAL_LINE))


def prior(pattern: Pattern, start: float, stats: Stats) -> float:
    """The chance of a pattern without a record, corrected by how such patterns did here."""
    tally = stats.claimed if claimed(pattern) else stats.own
    return start * tally.trust


def record(pattern: Pattern) -> int:
    """In how many loops something was learnt about the pattern since it was found."""
    return sum(one.outcome != "found" for one in pattern.evidence)


def chance(
    pattern: Pattern,
    tried: Sequence[Evidence],
    here: Context,
    start: float,
    stats: Stats,
    line: float | None = None,
) -> float:
    """The chance that the pattern, if it is shown here, is what helps. Its effectiveness.

    Args:
        pattern: Its own evidence counts, but for what its change did.
        tried: What became of its change wherever that was made, for this error or another.
        here: The present case.
        start: What `initial` expects of it.
        stats: The sums over all loops.
        line: How well the lines that it replaces are found here; what happened where they
            stood says as much about this case.
    """
    found = 1.0 if line is None else line
    wins = losses = 0.0
    for one in judged(pattern, tried):
        weight = found * nearness(one.context, here) ** 2
        match one.outcome:
            case "won":
                wins += weight
            case "lost":
                losses += weight
            case "ignored":
                losses += weight * IGNORED
            case "found":
                pass
    expected = prior(pattern, start, stats)
    return (wins + PRIOR_WEIGHT * expected) / (wins + losses + PRIOR_WEIGHT)


def judged(pattern: Pattern, tried: Sequence[Evidence]) -> Iterator[Evidence]:
    """What is known of the pattern: its change's record, and its own where that is silent."""
    told = {one.loop for one in tried}
    yield from tried
    yield from (one for one in pattern.evidence if one.loop not in told)


def danger(pattern: Pattern) -> float:
    """The failure rate of an anti-pattern, shrunk: one failure of one is not 17 of 17."""
    counts = pattern.counts
    return (counts.failures + 1.0) / (counts.successes + counts.failures + 2.0)


def claimed(pattern: Pattern) -> bool:
    """Is it an import that has not helped here yet?"""
    return pattern.claim is not None and not pattern.helped and not pattern.counts.successes


def hurts(pattern: Pattern, stats: Stats) -> str:
    """Why the pattern is to be shown no more; "" if it may be.

    Looks at uses and at loops that only saw it, so that poison which nobody takes goes too.
    """
    uses = [one for one in pattern.sources if one.role == "applied" and not one.claimed]
    if pattern.helped:
        if len(uses) >= 2 * _USELESS_USES and _highest(pattern.helped, len(uses)) < needed(stats):
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

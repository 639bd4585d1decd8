"""What a pattern promises in a case, before its record: how well it suits what is failing.

The odds were counted on the bugs of `bench/learn` (docs/learning-benchmark.md).
"""

from math import exp
from typing import Final

from taofold.patterns.case import Context
from taofold.patterns.diffs_fit import Fit
from taofold.patterns.values import Pattern

_START: Final = -6.66
"""With `_RELEVANT`: the odds of a fix of relevance 0.4 are 3 to 100, of 0.78 60 to 100."""
_RELEVANT: Final = 7.9
_SAME_LINE: Final = 10.0
_LIKE_LINE: Final = 3.4
_USUAL_LINE: Final = 0.2
"""The likeness of lines that have nothing to do with one another."""
_SHORT_LINE: Final = 3
"""Tokens of a line that says little."""
_LIKE_SHORT: Final = 0.1
_MOST_TELLING: Final = 2.0
_MOST_START: Final = 0.6
"""What is expected at most of a pattern that never helped."""
_OF_OTHERS: Final = 0.65
_BESIDE: Final = 0.09
"""Relevance at which a pattern that is no fix promises nothing."""
_AGREE: Final = 4.0
_DISAGREE: Final = 0.8


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


def agreement(pattern: Pattern, here: Context) -> float | None:
    """How well the failure's signs agree with the best case where the pattern was right."""
    known = [
        share
        for one in pattern.evidence
        if one.outcome in ("found", "won") and (share := _agree(one.context, here)) is not None
    ]
    return max(known, default=None)


def initial(pattern: Pattern, relevance: float, line: Fit | None, agree: float | None) -> float:
    """What to expect of a pattern of which nothing is known but how it suits the case.

    Args:
        pattern: Only its kind counts, and whether it is an import.
        relevance: 0 to 1, from the error and the text around it.
        line: How well the lines that the fix replaced are found in the code; None: it
            replaced none.
        agree: The agreement of the failures' signs, 0 to 1; None if it cannot be told.
    """
    half = 0.5 if claimed(pattern) else 1.0
    if pattern.kind != "error":
        return _OF_OTHERS * max(relevance - _BESIDE, 0.0) * half
    odds = exp(_START + _RELEVANT * relevance) * _of_line(line)
    if agree is not None:
        odds *= _DISAGREE + (_AGREE - _DISAGREE) * agree**2
    return min(odds / (1 + odds), _MOST_START) * half


def _of_line(line: Fit | None) -> float:
    """How much more likely a fix is, if its line is here like this.

    The more a line says, the more it says that it is here. One of a few tokens stands
    everywhere, and something like it means nothing.
    """
    if line is None:
        return _SAME_LINE
    if line.share >= 1.0:
        return _SAME_LINE * min(line.size / _SHORT_LINE, _MOST_TELLING)
    like = exp(_LIKE_LINE * (line.share - _USUAL_LINE))
    return like if line.size > _SHORT_LINE else like * _LIKE_SHORT


def claimed(pattern: Pattern) -> bool:
    """Is it an import that has not helped here yet?"""
    return pattern.claim is not None and not pattern.helped and not pattern.counts.successes

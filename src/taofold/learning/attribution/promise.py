"""What a pattern promises in a case, before its record: how well it suits what is failing.

A conditional logit: of all changes that are looked at, one is what is needed, or none. It was
fitted to the bugs of `bench/learn` and to programs of students (docs/learning-benchmark.md).
"""

from math import exp, log
from typing import Final

from taofold.learning.patterns.case import Context
from taofold.learning.attribution.diffs_fit import Fit
from taofold.learning.patterns.values import Pattern

# Logarithms of odds, against none of the changes being what is needed.
_START: Final = -4.9
_RELEVANT: Final = 6.0
_NO_LINE: Final = 0.4
_SAME_LINE: Final = 1.6
_LONGER_LINE: Final = 2.2
_OTHER_LINE: Final = -2.8
_LIKE_LINE: Final = 3.3
_LIKE_SHORT: Final = -2.5
_SWAP: Final = 1.2
_NOT_HERE: Final = -6.0
_SIGNS: Final = -0.2
_AGREE: Final = 3.0
_USUAL_LINE: Final = 3
"""Tokens of a line that is worth `_SAME_LINE`."""
_LONG_LINE: Final = 10
_OF_OTHERS: Final = 0.65
_BESIDE: Final = 0.09
"""Relevance at which a pattern that is no fix promises nothing."""


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


def odds(relevance: float, line: Fit | None, agree: float | None) -> float:
    """How likely a fix is to be what is needed, by how likely it is that none of all is.

    Args:
        relevance: 0 to 1, from the error and the text around it.
        line: How well the lines that the fix replaced are found in the code; None: it
            replaced none.
        agree: The agreement of the failures' signs, 0 to 1; None if it cannot be told.
    """
    signs = 0.0 if agree is None else _SIGNS + _AGREE * agree**2
    return exp(_START + _RELEVANT * relevance + _of_line(line) + signs)


def of_others(relevance: float) -> float:
    """What to expect of a pattern that is no fix."""
    return _OF_OTHERS * max(relevance - _BESIDE, 0.0)


def _of_line(line: Fit | None) -> float:
    """What it says for a fix that its line is here like this.

    The more a line says, the more it says that it is here: one of a few tokens stands everywhere.
    """
    if line is None:
        return _NO_LINE
    if line.share >= 1.0:
        return _SAME_LINE + _LONGER_LINE * log(min(line.size, _LONG_LINE) / _USUAL_LINE)
    if not line.possible:
        return _NOT_HERE
    short = _LIKE_SHORT if line.size <= _USUAL_LINE else 0.0
    return _OTHER_LINE + _LIKE_LINE * line.share + short + (_SWAP if line.swaps else 0.0)


def claimed(pattern: Pattern) -> bool:
    """Is it an import that has not helped here yet?"""
    return pattern.claim is not None and not pattern.helped and not pattern.counts.successes

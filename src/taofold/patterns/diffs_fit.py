"""Could a stored change be made in this code at all? A number between 0 and 1.

Messages of failing assertions say little about their cause; whether there is a line like
the one that a fix replaced says more. Compares pairs of neighbouring tokens, names left out.
"""

from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from taofold.patterns.bodies import ErrorFix
from taofold.patterns.diffs import abstracted
from taofold.patterns.values import Pattern

UNSEEN: Final = 0.8
"""The fit where no code is known."""
_MOST: Final = 0.9
"""The fit of a line that holds all of the replaced one, and more."""
_MOST_LINES: Final = 400
Pairs: TypeAlias = frozenset[tuple[str, str]]


class Fit(NamedTuple):
    """How well the lines that a fix replaced are found in some code.

    `share` is 0 to 1: 1 = the very lines, names apart. `size` is how much the longest of them
    says, in tokens: `return x` has two, and stands everywhere.
    """

    share: float
    size: int


def fit(pattern: Pattern, code: str) -> Fit | None:
    """How well `pattern` fits `code`; None = its fix replaces no lines."""
    body = pattern.body
    if not isinstance(body, ErrorFix):
        return None
    replaced, size = _removed(body.fix.diff)
    if not replaced:
        return None
    if not code:
        return Fit(UNSEEN, size)
    here = _lines(code)
    if all(one in here for one in replaced):
        return Fit(1.0, size)
    best = sum(
        [max([len(one & line) / len(one) for line in here], default=0.0) for one in replaced]
    )
    return Fit(min((best / len(replaced)) ** 2, _MOST), size)


@lru_cache(maxsize=1024)
def _removed(diff: str) -> tuple[tuple[Pairs, ...], int]:
    """The lines that a diff takes out, and the tokens of the longest."""
    gone = [line[1:] for line in diff.split("\n") if line[:1] == "-"]
    found = tuple([one for line in gone if (one := _pairs(line))])
    return found, max([len(abstracted(line)) for line in gone], default=0)


@lru_cache(maxsize=8)
def _lines(code: str) -> tuple[Pairs, ...]:
    found = [_pairs(line) for line in code.split("\n")[:_MOST_LINES]]
    return tuple(dict.fromkeys([one for one in found if one]))


def _pairs(line: str) -> Pairs:
    return frozenset(pairwise(["", *abstracted(line), ""]))

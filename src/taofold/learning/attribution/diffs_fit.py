"""Could a stored change be made in this code at all? A number between 0 and 1.

Messages of failing assertions say little about their cause; whether there is a line like
the one that a fix replaced says more. Compares pairs of neighbouring tokens, names left out.
"""

from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from taofold.learning.patterns.bodies import ErrorFix
from taofold.learning.extraction.diffs import AROUND, RENAMED, SWAPPED, abstracted, shape
from taofold.learning.patterns.values import Pattern

UNSEEN: Final = 0.8
"""The fit where no code is known."""
_MOST: Final = 0.9
"""The fit of a line that holds all of the replaced one, and more."""
_MOST_LINES: Final = 400
_ANY: Final = frozenset({"ID", "STR", SWAPPED, AROUND})
"""What says nothing of a line in a shape."""
Pairs: TypeAlias = frozenset[tuple[str, str]]


class Fit(NamedTuple):
    """How well the lines that a fix replaced are found in some code.

    `share` is 0 to 1: 1 = the very lines, names apart. `size` is how much the longest of them
    says, in tokens: `return x` has two, and stands everywhere. `possible`: what the fix takes
    out of a line stands in some line, so that it could be done here at all. `swaps`: it only
    turns pieces of the line around.
    """

    share: float
    size: int
    possible: bool = True
    swaps: bool = False


def fit(pattern: Pattern, code: str) -> Fit | None:
    """How well `pattern` fits `code`; None = its fix replaces no lines."""
    body = pattern.body
    if not isinstance(body, ErrorFix):
        return None
    replaced, size, needed, swaps = _replaced(body.fix.diff)
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
    possible = needed is not None and any(needed <= tokens for tokens in here.values())
    return Fit(min((best / len(replaced)) ** 2, _MOST), size, possible, swaps)


@lru_cache(maxsize=1024)
def _replaced(diff: str) -> tuple[tuple[Pairs, ...], int, frozenset[str] | None, bool]:
    """The lines that a diff takes out, the tokens of the longest, and what another line needs.

    None: no other line will do.
    """
    gone = [line[1:] for line in diff.split("\n") if line[:1] == "-"]
    put = [line[1:] for line in diff.split("\n") if line[:1] == "+"]
    found = tuple([one for line in gone if (one := _pairs(line))])
    out, _ = shape("\n".join(gone), "\n".join(put))
    needed = None if out[:1] == (RENAMED,) else frozenset(out) - _ANY
    size = max([len(abstracted(line)) for line in gone], default=0)
    return found, size, needed, out[:1] == (SWAPPED,)


@lru_cache(maxsize=8)
def _lines(code: str) -> Mapping[Pairs, frozenset[str]]:
    """Each line's pairs of tokens, and its tokens."""
    found = {_pairs(line): frozenset(abstracted(line)) for line in code.split("\n")[:_MOST_LINES]}
    return {pairs: tokens for pairs, tokens in found.items() if pairs}


def _pairs(line: str) -> Pairs:
    return frozenset(pairwise(["", *abstracted(line), ""]))

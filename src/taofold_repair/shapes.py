"""The shape of an edit: what it takes out and puts in, names left out of account.

Rates of the search policy are kept by shapes. Knows nothing of rates or candidates.
"""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Final, TypeAlias

from taofold.learning.extraction.diffs import HOLE, abstracted, kind_of, tokens

RENAMED: Final = "rename"
"""Begins the shape of a change of one name: it says something of lines like its own only."""
SWAPPED: Final = "swap"
"""Begins the shape of a change that turns two pieces around; what stands between them follows."""
AROUND: Final = "around"
"""Stands for nothing that could be named between them."""
Shape: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]
"""The tokens that an edit takes out and puts in, names abstracted."""


@lru_cache(maxsize=4096)
def shape(old: str, new: str) -> Shape:
    """What turns `old` into `new`, whatever the names.

    Two pieces that change places are one shape whatever they are: it tells what stands between.
    """
    # Looked for first, among the names themselves:
    # once they are abstracted `f(a, b)` is `f(b, a)`.
    between = swap(tokens(HOLE.sub(r"\1", old)), tokens(HOLE.sub(r"\1", new)))
    if between is not None:
        signs = tuple(
            [kind_of(token) for token in between if not re.match(r"[\w.()\[\]\"']", token)]
        )
        return (SWAPPED, *(signs or [AROUND])), ()
    left, right = abstracted(old), abstracted(new)
    if left == right:
        return _renamed(tokens(HOLE.sub(r"\1", old)), tokens(HOLE.sub(r"\1", new))), ()
    out: list[str] = []
    put: list[str] = []
    for tag, a, b, c, d in _opcodes(left, right):
        if tag != "equal":
            out += left[a:b]
            put += right[c:d]
    return tuple(out), tuple(put)


def _renamed(old: Sequence[str], new: Sequence[str]) -> tuple[str, ...]:
    """The place of the one name, or text, that is another in `new`; () for none, or for more."""
    places = [n for n, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
    return (RENAMED, str(places[0])) if len(places) == 1 else ()


def _opcodes(left: Sequence[str], right: Sequence[str]) -> Sequence[tuple[str, int, int, int, int]]:
    return SequenceMatcher(None, left, right, autojunk=False).get_opcodes()


def swap(old: Sequence[str], new: Sequence[str]) -> tuple[str, ...] | None:
    """What stands between two pieces of `old` that are the other way round in `new`."""
    if len(old) != len(new) or sorted(old) != sorted(new) or old == new:
        return None
    places = [n for n, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
    first, last = places[0], places[-1] + 1
    # Every way to cut the differing part into three, the outer two changing
    # places. Cubic, but the part is short: both texts are the same outside of it.
    for again in range(first + 1, last):
        for cut in range(again, last):
            turned = [*old[cut:last], *old[again:cut], *old[first:again]]
            if turned == list(new[first:last]):
                return tuple(old[again:cut])
    return None

"""Text as a search sees it: stems of words, code taken apart, and runs of letters.

`parseIntSafe` and `parse_int_safe` give the same parts and themselves. Knows nothing about
patterns.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

_WORD: Final = re.compile(r"[^\W_]\w*|_+[^\W_]\w*")
_PART: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_A-Za-z]+")
_VOWEL: Final = re.compile(r"[aeiouy]")
_ENDINGS: Final = (
    *("ment", "ness", "able", "ible"),
    *("ly", "er", "or", "al", "ive", "ion"),
)
_SHORTEST_STEM: Final = 4
GRAM: Final = 4
_LONGEST_WORD: Final = 64

_GENERIC: Final = """
    a an and any are as at be been but by can cannot could did do does each else for from had
    has have how i if in into is it its like make may me more most must need no not of on one or
    our out over own please same should so some such than that the their them then there these
    they this those to too up us use very want was we were what when where which while who will
    with would you your
    add all bug case change check code error exception expect fail failure file fix function get
    green issue line list method miss module name new none number object pass problem program
    project python repair return run set task test type typescript update value work wrong write
    implement create build actual assert call true false self str int import def class main src
    py ts js expected got assertionerror assertion
"""
GENERIC: Final[frozenset[str]] = frozenset(_GENERIC.split())
"""Words that say nothing about what a task is about, unstemmed."""


def words(text: str) -> list[str]:
    """The stems in `text`, in order, with repeats; names of several parts also as a whole."""
    found: list[str] = []
    for word in _WORD.findall(text):
        found += _stems(word[:_LONGEST_WORD])
    return found


@lru_cache(maxsize=1 << 15)
def _stems(word: str) -> tuple[str, ...]:
    parts = _PART.findall(word)
    stems = [stem(part.lower()) for part in parts]
    return (*stems, word.lower()) if len(parts) > 1 else tuple(stems)


def stem(word: str) -> str:
    """`word`, in lower case, without its most common English endings."""
    if len(word) < _SHORTEST_STEM or not word.isascii() or word[0].isdigit():
        return word
    word = _singular(word)
    for ending in ("ing", "ed"):
        rest = word.removesuffix(ending)
        if rest != word and len(rest) > 2 and _VOWEL.search(rest):
            word = rest[:-1] if rest[-1] == rest[-2] and rest[-1] not in "lsz" else rest
            break
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            word = word.removesuffix(ending)
            break
    if len(word) > _SHORTEST_STEM and word[-1] in "ey":
        word = word[:-1] if word[-1] == "e" else f"{word[:-1]}i"
    return word


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > _SHORTEST_STEM:
        return f"{word[:-3]}y"
    if word.endswith("sses"):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


STOPS: Final[frozenset[str]] = GENERIC | frozenset([stem(word) for word in GENERIC])


def telling(text: str) -> list[str]:
    """The stems in `text` that say something: no generic words, no lone letters or digits."""
    return [one for one in words(text) if len(one) > 1 and one not in STOPS and not one.isdigit()]


def letters(text: str) -> str:
    """`text` prepared for `grams`: its words in lower case, each between `^` and `$`."""
    return "".join([f"^{word.lower()}$" for word in re.findall(r"\w+", text)])


def grams(prepared: str) -> list[str]:
    """The runs of letters in `letters(text)`, in order, none across words."""
    found: list[str] = []
    for word in dict.fromkeys(prepared.split("^")[1:]):
        marked = f"^{word}"
        found += [marked[i : i + GRAM] for i in range(max(len(marked) - GRAM + 1, 1))]
    return found


def distinct(items: Iterable[str], most: int) -> tuple[str, ...]:
    """The first `most` different ones, in order."""
    kept: dict[str, None] = {}
    for item in items:
        if len(kept) == most:
            break
        kept.setdefault(item)
    return tuple(kept)

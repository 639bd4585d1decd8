"""What somebody who mistyped a name probably meant. Pure."""

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from typing import Final

_MOST: Final = 12
"""Names listed when none is near."""
_COMPARED: Final = 500
"""Names that a word is compared with: data may have any number of keys."""


def near(word: str, known: Iterable[str]) -> str:
    """What `word` was probably meant to be, else what there is; "" if that is too much.

    >>> near("reakt", ["react", "plan"])
    "did you mean 'react'?"
    """
    names = sorted(islice(known, _COMPARED))
    found = get_close_matches(word.lower(), names, n=2, cutoff=0.6)
    if found:
        return f"did you mean {' or '.join(map(repr, found))}?"
    if not names or len(names) > _MOST:
        return ""
    return f"known are {', '.join(names)}"

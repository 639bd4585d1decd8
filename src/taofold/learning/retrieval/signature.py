"""Compares an error's message with a signature, in time proportional to the text.

A signature may look like a regular expression, and comes from a model or from a file, so it
is never run as one: only wildcards and escapes are understood. What else is in it makes
it a text to be compared word by word. Knows nothing about ranking.
"""

import re
from functools import lru_cache
from typing import Final

_WILD: Final = re.compile(r"(?:\\[dwsS]|\.|\[\^?[^\]\\]{1,20}\])[*+]\??|\\d|\{\{\s*\w+\s*\}\}")
_ESCAPED: Final = re.compile(r"\\([^A-Za-z0-9])")
_SPECIAL: Final = re.compile(r"(?<!\\)[()\[\]{}|*+?]|\\[A-Za-z0-9]")
_LONGEST: Final = 4000
"""Characters of a message that are looked at."""
_MOST_PIECES: Final = 60


@lru_cache(maxsize=4096)
def pieces(pattern: str) -> tuple[str, ...] | None:
    """The literal texts between the wildcards; None if `pattern` says more than wildcards.

    `Cannot read '.*' of null` is `("Cannot read '", "' of null")`. Anchors are ignored.
    """
    if len(pattern) > _LONGEST:
        return None
    found: list[str] = []
    for part in _WILD.split(pattern.removeprefix("^").removesuffix("$")):
        if _SPECIAL.search(part.replace("\\\\", "")) and not _plain(part):
            return None
        found.append(_ESCAPED.sub(r"\1", part))
    return tuple([piece for piece in found if piece]) if len(found) <= _MOST_PIECES else None


def _plain(part: str) -> bool:
    """Brackets that stand for themselves, as in a message that was never escaped."""
    return "\\" not in part and not re.search(r"[*+?|]|\[[^\]]*\]|\([^)]*\)", part)


def literal(pattern: str) -> str:
    """What the signature says in words, its wildcards as spaces."""
    known = pieces(pattern)
    if known is not None:
        return " ".join(known)
    return _ESCAPED.sub(r"\1", _WILD.sub(" ", pattern[:_LONGEST]))


def matches(pattern: str, message: str) -> bool:
    """Do the literal texts of `pattern` stand in `message`, in this order?

    False for a pattern without any literal text, and for one that says more than wildcards.
    """
    known = pieces(pattern)
    if not known:
        return False
    message = message[:_LONGEST]
    at = 0
    for piece in known:
        at = message.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    return True

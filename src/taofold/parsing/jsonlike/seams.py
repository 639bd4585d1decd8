"""Detects arguments that were repaired into something the model may not have written (`doubt_of`).

The doubtful cases: a key that is not one or is given twice, guesses of two kinds that depend on
each other, and a string that swallowed part of the JSON around it. Such a string contains a mark
that belongs between two values: a quoted key of the same call, a comma between two items, or a lone
bracket at its edge. Knows only the kinds of the repairs, not how the text was read.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from taofold.core.json_values import is_array, is_object
from taofold.parsing.outcome import Repair

Path = tuple[str | int, ...]
_IN_KEY = re.compile(r"[\"{}\[\]:,\n]")
_BETWEEN_ITEMS = re.compile(r",\s*+\"|\"\s*+,")
_BRACKETS = {"}": "{", "]": "[", "{": "}", "[": "]"}


def doubt_of(
    parameters: dict[str, Any], repairs: Iterable[Repair], names: Collection[str]
) -> str | None:
    """Returns why repaired arguments cannot be trusted, or None if they can.

    One kind of guess about the notation is accepted. Two kinds together, a key that is given twice,
    or a string that holds a seam are not.

    Args:
        parameters: The arguments as read.
        repairs: The repairs made while reading them.
        names: The keys that may stand beside the arguments: the tool's and the protocol's.
    """
    mended = [each for each in repairs if each.level == "syntax"]
    if mended and (key := next(filter(_IN_KEY.search, _keys(parameters)), None)) is not None:
        return f"{key!r} seems to be no key"
    guesses = {each.kind for each in mended if each.content}
    if not guesses:
        return None
    if "duplicate_key" in guesses:
        return "a key is given twice"
    if len(guesses) > 1:
        return "its quotes, commas and brackets can be read in several ways"
    keys = {*names, *_keys(parameters)}
    # Longest first: an alternation takes the first alternative that matches (`name`, `name_id`).
    alternatives = "|".join(sorted(map(re.escape, keys), key=len, reverse=True))
    seam = re.compile(
        rf"\"(?:{alternatives})\"*\s*+:|\b(?:{alternatives})\"+\s*+:" if alternatives else r"(?!)"
    )
    path = next(_swallowed(parameters, seam, ()), None)
    if path is None:
        return None
    return f"{'.'.join(map(str, path))} seems to hold a part of the JSON around it"


def _keys(value: Any) -> Iterator[str]:
    if is_object(value):
        yield from value
        for each in value.values():
            yield from _keys(each)
    elif is_array(value):
        for each in value:
            yield from _keys(each)


def _swallowed(value: Any, seam: re.Pattern[str], path: Path) -> Iterator[Path]:
    """Yields the paths of the strings that hold a seam."""
    if is_object(value):
        for key, each in value.items():
            yield from _swallowed(each, seam, (*path, key))
    elif is_array(value):
        for number, each in enumerate(value):
            # Only in lists: `", "` is ordinary in a member's text, but is also how two merged items
            # look.
            if isinstance(each, str) and _BETWEEN_ITEMS.search(each):
                yield (*path, number)
            yield from _swallowed(each, seam, (*path, number))
    elif isinstance(value, str) and (seam.search(value) or _has_loose_edge(value)):
        yield path


def _has_loose_edge(text: str) -> bool:
    """Returns whether a mark that belongs between two values stands at the edge of a string."""
    body = text.strip()
    if not body:
        return False
    if body[-1] in ",:" or body[0] in ",:":
        return True
    if '"' in (body[0], body[-1]) and body.count('"') % 2:
        return True
    return any(
        edge in _BRACKETS and body.count(edge) > body.count(_BRACKETS[edge])
        for edge in (body[0], body[-1])
    )

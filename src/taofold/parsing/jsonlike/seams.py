"""Says why arguments that were read with repairs are not to be believed, if so (`doubt_of`).

That is where a key is none or is given twice, where guesses of two kinds lean on each other, and
where a guess about the end of a string took a part of the JSON around it into the string. The marks
of JSON that stand at a seam between two values then stand inside one: a key of the same call with
its quote, a comma between two items, a lone bracket at an edge. Knows nothing about how they were
read, but the kinds of the repairs.
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
    """Why arguments that were read with `repairs` are not to be believed; `None` if they are.

    One guess about the notation may be right. Two kinds of them that lean on each other are not,
    nor is a key that was given twice, nor a string that holds a seam.

    Args:
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
    # The longest first: of `name` and `name_id` a pattern takes the first that fits.
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
    """The paths of the strings that hold a seam."""
    if is_object(value):
        for key, each in value.items():
            yield from _swallowed(each, seam, (*path, key))
    elif is_array(value):
        for number, each in enumerate(value):
            # Only in lists: `", "` in a member's text is ordinary, two items that became one
            # look like this.
            if isinstance(each, str) and _BETWEEN_ITEMS.search(each):
                yield (*path, number)
            yield from _swallowed(each, seam, (*path, number))
    elif isinstance(value, str) and (seam.search(value) or _has_loose_edge(value)):
        yield path


def _has_loose_edge(text: str) -> bool:
    """Whether a mark that belongs between two values stands at the edge of a string."""
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

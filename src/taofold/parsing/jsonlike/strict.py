"""Decodes JSON as the standard has it, and nothing that is merely close to it.

`NaN`, `Infinity`, numbers too large for a float and objects that say two things under one key are
refused here, for the tolerant reader to judge. Knows nothing about repairs.
"""

from __future__ import annotations

import json
import re
from functools import partial
from math import isfinite
from typing import Any

from taofold.core.json_values import is_array, is_object

_HALF = re.compile("[\ud800-\udfff]")


def _constant(name: str) -> Any:
    raise ValueError(name)


def _float(token: str) -> float:
    value = float(token)
    if not isfinite(value):
        raise ValueError(token)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    # A dict keeps the last one in silence.
    if len(out) != len(pairs):
        raise ValueError("a key occurs twice")
    return out


_decoder = partial(
    json.JSONDecoder, parse_constant=_constant, parse_float=_float, object_pairs_hook=_object
)
DECODER = _decoder()
"""Raises ValueError, or RecursionError for text that is nested too deep."""
ENCODED = _decoder(strict=False)
"""The same, with line breaks in strings, as JSON that is encoded in a string often has."""


def decoded(text: str) -> Any:
    """The one value that makes up `text`.

    Raises:
        ValueError: it is none, or more than one.
        RecursionError: it is nested too deep.
    """
    if text.startswith("{"):  # nothing to skip before it, and most often nothing after it
        value, end = DECODER.raw_decode(text)
        if end == len(text):
            return value
    return DECODER.decode(text)


def flaw_of(value: Any) -> str:
    """What a value holds that JSON has not, else empty; its depth is bounded by the reader's."""
    if isinstance(value, float):
        return "" if isfinite(value) else "a number that is not finite"
    if isinstance(value, str):
        is_torn = not value.isascii() and _HALF.search(value)
        return "half of a surrogate pair, which is no character" if is_torn else ""
    parts: list[Any] = [*value, *value.values()] if is_object(value) else []
    flaws = [flaw_of(each) for each in (value if is_array(value) else parts)]
    return next(filter(None, flaws), "")


def unescaped(text: str) -> str:
    """A JSON string that holds JSON, or one without its quotes, decoded; else empty."""
    body = text.strip()
    if len(body) > 4 and body[0] == '"' == body[-1] and body[1:].lstrip()[:1] in "{[":
        body = body[1:-1]
    elif not body.startswith(('{\\"', '[{\\"', "{\\n", '[\\"')):
        return ""
    try:
        value: Any = json.loads(f'"{body}"', strict=False)
    except ValueError:
        return ""
    return str(value)

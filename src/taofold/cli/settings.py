"""`--set KEY=VALUE`: what a run starts with. Knows nothing about what reads it."""

import json
import re
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from taofold.cli.outcome import fail

_NAME: Final = re.compile(r"[^\W\d][\w-]*")


def assigned(said: Sequence[str]) -> dict[str, Any]:
    """The values by key: JSON where a value can be read as such, else its text.

    Ends the program if one is not KEY=VALUE, or a key is given twice.
    """
    found: dict[str, Any] = {}
    for one in said:
        key, sign, text = one.partition("=")
        if not sign or not _NAME.fullmatch(key):
            fail(f"--set takes KEY=VALUE, KEY being a name, not {one!r}")
        if key in found:
            fail(f"--set gives {key!r} twice")
        found[key] = _value(text)
    return found


def _value(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return text


def _no_number(said: str) -> NoReturn:
    """`NaN` and `Infinity` are Python's, not JSON's."""
    raise ValueError(said)

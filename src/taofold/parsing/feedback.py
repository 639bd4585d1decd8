"""Words a refusal for the model: the failing paths, what was wanted, a bounded echo.

Knows nothing about how the faults were found.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from taofold.parsing.coercion import Fault
from taofold.parsing.outcome import RAW_LIMIT, Reason, Unparsed
from taofold.parsing.scalar import MISSING

_ECHO = 60
_FAULTS = 5
_WORDS: dict[Reason, str] = {
    "empty": "The reply is empty. Send the answer as one JSON value.",
    "incomplete": "The reply was cut off before it was complete. Send it again, shorter.",
    "ambiguous": "The reply holds several different answers. Send exactly one.",
    "no_candidate": "No answer was found. Send one JSON value and nothing else.",
    "too_large": "The reply is too large or too deeply nested. Send a smaller one.",
    "invalid": "The answer does not fit.",
}


def refusal(reason: Reason, text: str, faults: Sequence[Fault] = (), note: str = "") -> Unparsed:
    """Builds a refusal; `faults` name the failing paths, `note` replaces the standard words."""
    if faults:
        parts = [_sentence(fault) for fault in faults[:_FAULTS]]
        if len(faults) > _FAULTS:
            parts.append(f"and {len(faults) - _FAULTS} more")
        return Unparsed(reason, "Correct only this: " + "; ".join(parts), text[:RAW_LIMIT])
    return Unparsed(reason, note or _WORDS[reason], text[:RAW_LIMIT])


def _sentence(fault: Fault) -> str:
    path = ".".join(map(str, fault.path)) or "the value"
    if fault.got is MISSING:
        return f"{path} is missing ({fault.expected})"
    return f"{path}: expected {fault.expected}, got {echo(fault.got)}"


def echo(value: object) -> str:
    """A value as the model wrote it, at most 60 characters."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        value = value[: _ECHO + 1]
    try:
        shown = json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        shown = type(value).__name__
    return shown if len(shown) <= _ECHO else shown[:_ECHO] + "…"

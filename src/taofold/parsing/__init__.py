"""Reads structured values and decisions from any model's text, each with a receipt of repairs.

Pure functions of text: no I/O, no clock, no randomness. Knows nothing about models or tools. Names
are imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from taofold.parsing.outcome import Call, Level, Parsed, Prose, Remark, Repair, Turn, Unparsed
    from taofold.parsing.reply import has_marks, read_call, read_reply
    from taofold.parsing.schema.prompt import render_schema
    from taofold.parsing.stream import ReplyStream
    from taofold.parsing.typed import parse, parse_partial

_HOME = {
    "Call": "outcome",
    "Level": "outcome",
    "Parsed": "outcome",
    "Prose": "outcome",
    "Remark": "outcome",
    "Repair": "outcome",
    "ReplyStream": "stream",
    "Turn": "outcome",
    "Unparsed": "outcome",
    "has_marks": "reply",
    "parse": "typed",
    "parse_partial": "typed",
    "read_call": "reply",
    "read_reply": "reply",
    "render_schema": "schema.prompt",
}

__all__ = [
    "Call",
    "Level",
    "Parsed",
    "Prose",
    "Remark",
    "Repair",
    "ReplyStream",
    "Turn",
    "Unparsed",
    "has_marks",
    "parse",
    "parse_partial",
    "read_call",
    "read_reply",
    "render_schema",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'taofold.parsing' has no attribute {name!r}")
    return getattr(import_module(f"taofold.parsing.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)

"""Reads structured values and decisions from any model's text, each with a receipt of repairs.

Pure functions of text: no I/O, no clock, no randomness. Knows nothing about models or tools. Names
are imported on first use.
"""

from typing import TYPE_CHECKING

from taofold.lazy_names import lazy_names

if TYPE_CHECKING:
    from taofold.parsing.outcome import Call, Level, Parsed, Prose, Remark, Repair, Turn, Unparsed
    from taofold.parsing.reply import has_marks, read_call, read_reply
    from taofold.parsing.schema.prompt import render_schema
    from taofold.parsing.stream import ReplyStream
    from taofold.parsing.typed import parse, parse_partial


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

__getattr__ = lazy_names(
    __name__,
    {
        "parsing.outcome": "Call Level Parsed Prose Remark Repair Turn Unparsed",
        "parsing.reply": "has_marks read_call read_reply",
        "parsing.schema.prompt": "render_schema",
        "parsing.stream": "ReplyStream",
        "parsing.typed": "parse parse_partial",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)

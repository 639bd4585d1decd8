"""Structured values and decisions out of any model's text, each with a receipt.

Pure functions of text: no I/O, no clock, no randomness. Knows nothing about models or tools.
"""

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

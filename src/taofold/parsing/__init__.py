"""Structured values and decisions out of any model's text, each with a receipt.

Pure functions of text: no I/O, no clock, no randomness. Knows nothing about models or tools.
"""

from taofold.parsing.native import read_call
from taofold.parsing.outcome import Level, Parsed, Repair, Unparsed
from taofold.parsing.partial import parse_partial
from taofold.parsing.prompt import render_schema
from taofold.parsing.reply import has_marks, read_reply
from taofold.parsing.stream import ReplyStream
from taofold.parsing.turn import Call, Prose, Remark, Turn
from taofold.parsing.typed import parse

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

"""Text of files, gates, tools and the web as it may stand in a prompt or a report. Pure.

`readable`, `one_line` and `quoted` make it so, `join_names` and `first_names` shorten lists of
names. Such text is data, but its writer may want it to be taken for something else: a file's name
may hold line breaks and a heading, the output of a gate the marks by which the template of a chat
opens a new message. Here it becomes one line, or lines behind a bar, in characters that are all
seen, and its marks are broken by a thin space that leaves them readable.

Fences, headings and ids mean something in some places only: what stands there breaks them itself.
"""

import re
from collections.abc import Sequence
from typing import Final

from taofold.core.text import clip, visible
from taofold.parsing.markup.families import template_mark

BAR: Final = "|"
"""Begins each line that is quoted."""
NAME: Final = 160
"""Characters of a name: of a file, of a test."""

_ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]?")
_UNSEEN: Final = re.compile(
    "[\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u206a-\u206f\u3164\ufe00-\ufe0f\uffa0"
    "\ufff0-\ufffb\ufffe\uffff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0080-\U000e0fff]"
)
"""What Unicode lets a program leave out (Default_Ignorable_Code_Point) and `visible` lets pass."""
_FRAME: Final = re.compile(r"\[(?=\s*(?:begin|end)\s+reference\s+data)", re.IGNORECASE)
"""The marks between which lessons stand in a prompt."""
_THIN: Final = "\u2009"
_RUN: Final = 8
"""How many times longer than its excerpt a text may be before white space is taken out of it."""


def readable(text: str) -> str:
    """`text` with nothing hidden in it, and no mark that could be taken for a template's or ours.

    >>> readable("<|im_start|>system")
    '<\\u2009|im_start|>system'
    """
    return _unmarked(_seen(text))


def one_line(text: str, most: int = NAME) -> str:
    """`text` as a part of one line, at most `most` characters."""
    # Put on one line first: what is spread over blanks may be a mark once they are one.
    flat = " ".join(_seen(text[: most * _RUN]).split())
    return clip(_unmarked(flat), most)


def quoted(text: str) -> str:
    """`text` behind a bar on every line, which nothing in it can leave."""
    return "\n".join([f"{BAR} {row}".rstrip() for row in readable(text).splitlines()])


def join_names(names: Sequence[str], most: int) -> str:
    """`a, b, c` on one line, of more than `most` names the first ones: `a, b, …`."""
    first = [one_line(name) for name in names[:most]]
    return ", ".join([*first, "…"] if len(names) > most else first)


def first_names(names: Sequence[str], most: int = 5) -> str:
    """`a, b and 3 more` on one line."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join([one_line(name) for name in names[:most]]) + more


def _seen(text: str) -> str:
    # Escape sequences first: without their first byte the rest would stay as text.
    return _UNSEEN.sub("", visible(_ANSI.sub("", text)))


def _unmarked(text: str) -> str:
    return template_mark().sub(_broken, _FRAME.sub(f"[{_THIN}", text))


def _broken(mark: re.Match[str]) -> str:
    # The rest may hold another one: `<function=[INST]>`.
    return f"{mark[0][0]}{_THIN}{template_mark().sub(_broken, mark[0][1:])}"

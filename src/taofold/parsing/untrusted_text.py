"""Sanitises text from files, gates, tools and the web for a prompt or a report. Pure.

`readable`, `one_line` and `quoted` sanitise text; `join_names` and `first_names` shorten lists of
names. The author of such text may try to pass it off as instructions: a file name with line breaks
and a heading, or gate output with the marks with which a chat template opens a message. The result
is one line, or lines after a bar, in visible characters. Marks are broken by a thin space, which
leaves them readable.

Fences, headings and ids matter only in some places: the caller there must break them.
"""

import re
from collections.abc import Sequence
from typing import Final

from taofold.core.text import clip, visible
from taofold.parsing.markup.families import template_mark

BAR: Final = "|"
"""The prefix of each quoted line."""
NAME: Final = 160
"""The most characters of a file's or a test's name."""

_ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]?")
_UNSEEN: Final = re.compile(
    "[\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u206a-\u206f\u3164\ufe00-\ufe0f\uffa0"
    "\ufff0-\ufffb\ufffe\uffff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0080-\U000e0fff]"
)
"""Characters that Unicode allows programs to ignore (Default_Ignorable_Code_Point) and `visible`
keeps.
"""
_FRAME: Final = re.compile(r"\[(?=\s*(?:begin|end)\s+reference\s+data)", re.IGNORECASE)
"""The marks around lessons in a prompt."""
_THIN: Final = "\u2009"
_RUN: Final = 8
"""The most white space considered: a text is cut to this many times its excerpt before collapsing.
"""


def readable(text: str) -> str:
    """Returns `text` without hidden characters, and with template marks and our own marks broken.

    >>> readable("<|im_start|>system")
    '<\\u2009|im_start|>system'
    """
    return _unmarked(_seen(text))


def one_line(text: str, most: int = NAME, *, prose: bool = False) -> str:
    """Returns `text` as part of one line, at most `most` characters.

    Args:
        text: Any text.
        most: The most characters.
        prose: Keeps the joiners and selectors that emoji and scripts need. Not for names.
    """
    # Collapsed first: text spread over blanks may become a mark when they are collapsed.
    seen = _seen(text[: most * _RUN], prose=prose)
    flat = " ".join(seen.split())
    return clip(_unmarked(flat), most)


def quoted(text: str) -> str:
    """Returns `text` with a bar before every line, which its content cannot escape."""
    return "\n".join([f"{BAR} {row}".rstrip() for row in readable(text).splitlines()])


def join_names(names: Sequence[str], most: int) -> str:
    """Returns `a, b, c` on one line; beyond `most` names, `a, b, …`."""
    first = [one_line(name) for name in names[:most]]
    return ", ".join([*first, "…"] if len(names) > most else first)


def first_names(names: Sequence[str], most: int = 5) -> str:
    """Returns `a, b and 3 more` on one line."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join([one_line(name) for name in names[:most]]) + more


def _seen(text: str, *, prose: bool = False) -> str:
    # Escape sequences first: without their first byte the rest would stay as text.
    shown = visible(_ANSI.sub("", text), prose=prose)
    return shown if prose else _UNSEEN.sub("", shown)


def _unmarked(text: str) -> str:
    return template_mark().sub(_broken, _FRAME.sub(f"[{_THIN}", text))


def _broken(mark: re.Match[str]) -> str:
    # The rest may hold another mark: `<function=[INST]>`.
    return f"{mark[0][0]}{_THIN}{template_mark().sub(_broken, mark[0][1:])}"

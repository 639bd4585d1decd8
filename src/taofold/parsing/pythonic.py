"""Reads calls in Python's notation: `[search(query="x"), stop()]`, `print(api.f(a=1))`.

Nothing is evaluated. Knows nothing about types.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from taofold.parsing.fitting import Request
from taofold.parsing.reader import Reader
from taofold.parsing.shape import ANYTHING, fold

LIMIT = 64
"""The most calls that one text may hold."""
_PYTHON = re.compile(
    r"[\s\[,;]*+(?:print\()?(?:(?:default_api|functions|tools)\.)?([A-Za-z_]\w{0,63})"
    r"(?=\(\s*(?:[A-Za-z_]\w*\s*=(?!=)|\)))"
)
_CODE = re.compile(r"```(?:tool_code|tool_call|python|py)[ \t]*+\n|<\|tool_call_start\|>")
_AFTER = re.compile(r"[\s)\];.`]*+")
_EDGES = re.compile(r"\A(?:\s*+<\|\w+\|>)+|(?:<\|\w+\|>\s*+)+\Z")


def pythonic(text: str, names: Collection[str]) -> list[Request]:
    """Calls in Python's notation that make up a text or a code fence; empty for prose."""
    fence = _CODE.search(text)
    closer = "```" if fence and fence[0][0] == "`" else "<|tool_call_end|>"
    end = text.find(closer, fence.end()) if fence else -1
    body = (
        text[fence.end() : end].rstrip()
        if fence and end >= 0
        else _EDGES.sub("", text.strip()).strip("`")
    )
    offset = text.find(body) if body else 0
    allowed = {fold(each) for each in names}
    out: list[Request] = []
    reader = Reader(body, ANYTHING)
    position = 0
    while found := _PYTHON.match(body, position):
        if names and fold(found[1]) not in allowed:
            return []
        reading = reader.read(found.end())
        closed = not (reading.cut or reading.open or reading.failed)
        at = offset + found.start()
        notes = tuple(each for each in reading.repairs if each.content)
        out.append(Request(found[1], reading.value, None, at, notes, closed))
        after = _AFTER.match(body, reading.end)
        position = after.end() if after else reading.end
        if not closed or len(out) > LIMIT:
            break
    return out if position >= len(body) or any(not each.closed for each in out) else []

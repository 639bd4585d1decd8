"""Reads nested tags as a value: `<person><name>Ann</name></person>`.

Attributes and comments are ignored, every leaf is `Text`. Knows nothing about types or dialects.
"""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from taofold.parsing.conversion import Text
from taofold.parsing.kinds import is_list

_TAG = re.compile(r"<(/?)([A-Za-z_][\w.-]{0,63})(?:\s[^<>]{0,200})?>")
_ITEMS = frozenset({"item", "li", "entry", "element", "value"})
DEPTH = 40


def elements_in(text: str) -> Any:
    """The value of the outermost elements of a text: `{tag: value}`.

    Returns:
        `None` when there is no complete element, or when tags do not nest.
    """
    root: list[tuple[str, Any]] = []
    stack: list[tuple[str, list[tuple[str, Any]], int]] = []
    for found in _TAG.finditer(text):
        name = found[2]
        if not found[1]:
            if len(stack) >= DEPTH:
                return None
            stack.append((name, [], found.end()))
            continue
        if not stack or stack[-1][0] != name:
            return None
        _, children, begin = stack.pop()
        body = unescape(text[begin : found.start()])
        framed = body[:1] == "\n" == body[-1:]
        value: Any = Text(body[1:-1] if framed else body)
        if children:
            value = _value(name, children)
        (stack[-1][1] if stack else root).append((name, value))
    if stack or not root:
        return None
    return _value("", root)


def _value(parent: str, children: list[tuple[str, Any]]) -> Any:
    names = [name for name, _ in children]
    first = names[0]
    alike = all(name == first for name in names)
    if alike and (len(names) > 1 or first in _ITEMS or parent in (first + "s", first + "es")):
        return [value for _, value in children]
    out: dict[str, Any] = {}
    for name, value in children:
        if name in out:
            known = out[name]
            out[name] = [*known, value] if is_list(known) else [known, value]
        else:
            out[name] = value
    return out

"""Reads values laid out by indentation, in the subset of YAML that models write.

Also reads one-line values (`scalar`) and lines by their indentation. A text with any line that is
not understood is not an outline. Anchors, tags, multi-documents and folded scalars are not read.
Knows nothing about types.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from taofold.parsing.jsonlike.reader import JsonReader
from taofold.parsing.schema.reading_plan import ANYTHING
from taofold.parsing.schema.scalars import LooseText

_KEY = re.compile(r"([A-Za-z_][\w .-]{0,63}?)[ \t]*+[:：](?:[ \t]++(.*))?$")
_FENCED = re.compile(
    r"\A\s*+(`{3,}|~{3,})[ \t]*+(?:yaml|yml|text)?[ \t]*+\n(.*?)\n?[ \t]*\1\s*\Z", re.DOTALL
)
_INSIDE = re.compile(r"^(`{3,}|~{3,})[ \t]*+(?:yaml|yml)[ \t]*+\n", re.MULTILINE)
_BLOCK = re.compile(r"[|>][-+]?$")
DEPTH = 40
LINES = 50_000
"""The most lines of an outline that is read."""


@dataclass(slots=True)
class _Level:
    indent: int
    container: Any


def outline_in(text: str) -> tuple[Any, bool] | None:
    """Reads a text that is one outline.

    Returns:
        The value, its scalars as `LooseText`, and whether a fence marks its end; `None` if the text
        is not an outline.
    """
    fenced = _FENCED.match(text)
    body = fenced[2] if fenced else _block_in(text)
    is_closed = bool(body)
    body = body or text.strip("\r\n")
    if not any(mark in body for mark in (":", "：", "- ")):
        return None
    value = _read(body.splitlines())
    return None if value is None else (value, is_closed)


def _block_in(text: str) -> str:
    """Returns the only YAML block of a text, else ""."""
    opener = _INSIDE.search(text)
    end = text.find("\n" + opener[1], opener.end()) if opener else -1
    if opener is None or end < 0 or _INSIDE.search(text, end + 1):
        return ""
    return text[opener.end() : end]


def _read(lines: list[str]) -> Any:
    if len(lines) > LINES:
        return None
    layout = _Layout(lines)
    try:
        layout.read()
    except ValueError:
        return None
    return layout.root


class _Layout:
    """The containers open at a line. Raises `ValueError` if the lines are not an outline."""

    def __init__(self, lines: list[str]) -> None:
        self.root: Any = None
        self._lines = lines
        self._number = 0
        self._stack: list[_Level] = []
        self._waiting: tuple[dict[str, Any], str, int] | None = None

    def read(self) -> None:
        while self._number < len(self._lines):
            line = self._lines[self._number]
            self._number += 1
            body = line.strip()
            if body and not body.startswith("#") and body != "---":
                self._line(body, len(line) - len(line.lstrip(" \t")))

    def _line(self, body: str, indent: int) -> None:
        while body.startswith("- "):
            top = self._container(indent, is_item=True)
            rest = body[1:].lstrip()
            if not _KEY.match(rest) or rest[0] in "\"'[{":
                top.append(scalar(rest))
                return
            # The keys of an item align with its first key, not with its dash.
            indent += len(body) - len(rest)
            inner: dict[str, Any] = {}
            top.append(inner)
            self._stack.append(_Level(indent, inner))
            body = rest
        match = _KEY.match(body)
        if match is None:
            raise ValueError(body)
        self._member(self._container(indent, is_item=False), match[1], match[2] or "", indent)

    def _member(self, top: dict[str, Any], key: str, text: str, indent: int) -> None:
        text = text.strip()
        # A quote that does not close on its line: a form of YAML that is not read here.
        if key in top or (text[:1] in ("'", '"') and text[0] not in text[1:]):
            raise ValueError(key)
        if _BLOCK.match(text):
            block, self._number = indented(self._lines, self._number, indent)
            top[key] = dedent(block) + ("" if text.endswith("-") else "\n")
        elif text:
            top[key] = scalar(text)
        else:
            top[key] = None
            self._waiting = (top, key, indent)

    def _container(self, indent: int, *, is_item: bool) -> Any:
        """Returns the list or object to which a line of this indentation belongs."""
        stack, waiting = self._stack, self._waiting
        while stack and stack[-1].indent > indent:
            stack.pop()
        self._waiting = None
        kind: type[Any] = list if is_item else dict
        # YAML allows a list at the indentation of its key.
        if waiting and (indent > waiting[2] or (is_item and indent == waiting[2])):
            child: Any = kind()
            waiting[0][waiting[1]] = child
            stack.append(_Level(indent, child))
        elif self.root is None:
            self.root = kind()
            stack.append(_Level(indent, self.root))
        if stack and stack[-1].indent == indent and not isinstance(stack[-1].container, kind):
            if is_item:
                raise ValueError(indent)
            stack.pop()  # a list at the indentation of its key ends
        if not stack or stack[-1].indent != indent or len(stack) > DEPTH:
            raise ValueError(indent)
        if not isinstance(stack[-1].container, kind):
            raise ValueError(indent)
        return stack[-1].container


def indented(lines: list[str], number: int, indent: int) -> tuple[list[str], int]:
    """Returns the lines from `number` on that are deeper than `indent`, and the next number."""
    begin = number
    while number < len(lines):
        line = lines[number]
        if line.strip() and len(line) - len(line.lstrip(" \t")) <= indent:
            break
        number += 1
    return lines[begin:number], number


def dedent(lines: list[str]) -> str:
    """Joins lines without their common margin and without trailing blank lines."""
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    margins = [len(line) - len(line.lstrip(" \t")) for line in lines if line.strip()]
    margin = min(margins, default=0)
    return "\n".join(line[margin:] for line in lines)


def scalar(text: str) -> Any:
    """Reads one value on a line: quoted, in brackets, or bare text."""
    body = text.strip()
    if len(body) > 1 and body[0] in "\"'" and body[-1] == body[0]:
        inner = JsonReader(f"[{body}]", ANYTHING).read(0)
        is_joined = any(each.kind == "joined_strings" for each in inner.repairs)
        if not inner.failed and not inner.cut and len(inner.value) == 1 and not is_joined:
            return inner.value[0]
    if body[:1] in ("[", "{") and body[-1] in "]}":
        inner = JsonReader(body, ANYTHING).read(0)
        # A value that needed a guess stays text: the caller that types it marks the guess.
        is_guessed = any(each.content for each in inner.repairs)
        if inner.whole and inner.end == len(body) and not is_guessed:
            return inner.value
    comment = body.find(" #")
    return LooseText(body[:comment].rstrip() if comment > 0 else body)

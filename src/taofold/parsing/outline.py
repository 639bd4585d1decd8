"""Reads values that are laid out by indentation: the part of YAML that models write.

A text with one line that is not understood is no outline. Anchors, tags, multi-documents and
folded scalars are not read. Knows nothing about types.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from taofold.parsing.coercion import Text
from taofold.parsing.reader import Reader
from taofold.parsing.shape import ANYTHING

_KEY = re.compile(r"([A-Za-z_][\w .-]{0,63}?)[ \t]*+[:：](?:[ \t]++(.*))?$")
_FENCED = re.compile(r"\A\s*+(`{3,}|~{3,})[ \t]*+(?:yaml|yml|text)?[ \t]*+\n(.*?)\n?[ \t]*\1\s*\Z", re.DOTALL)
_INSIDE = re.compile(r"^(`{3,}|~{3,})[ \t]*+(?:yaml|yml)[ \t]*+\n(.*?)\n[ \t]*\1[ \t]*$", re.DOTALL | re.M)
_BLOCK = re.compile(r"[|>][-+]?$")
DEPTH = 40


@dataclass(slots=True)
class _Level:
    indent: int
    container: Any


def outline_in(text: str) -> tuple[Any, bool] | None:
    """Reads a text that is one outline.

    Returns:
        The value, its scalars as `Text`, and whether a fence marks its end; `None` otherwise.
    """
    fenced = _FENCED.match(text)
    if fenced is None:
        blocks = list(_INSIDE.finditer(text))
        fenced = blocks[0] if len(blocks) == 1 else None
    body = fenced[2] if fenced else text.strip("\r\n")
    if ":" not in body and "：" not in body:
        return None
    value = _read(body.splitlines())
    return None if value is None else (value, fenced is not None)


def _read(lines: list[str]) -> Any:
    stack: list[_Level] = []
    root: Any = None
    waiting: tuple[dict[str, Any], str, int] | None = None
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        body = line.strip()
        if not body or body.startswith("#") or body == "---":
            continue
        indent = len(line) - len(line.lstrip(" \t"))
        while True:
            is_item = body == "-" or body.startswith("- ")
            found = None if is_item else _KEY.match(body)
            if not is_item and found is None:
                return None
            kind = list if is_item else dict
            while stack and stack[-1].indent > indent:
                stack.pop()
            nested = waiting is not None and (
                indent > waiting[2] or (is_item and indent == waiting[2])
            )
            if nested and waiting is not None:
                child: Any = kind()
                waiting[0][waiting[1]] = child
                stack.append(_Level(indent, child))
            elif root is None:
                root = kind()
                stack.append(_Level(indent, root))
            waiting = None
            if not stack or stack[-1].indent != indent or len(stack) > DEPTH:
                return None
            top = stack[-1].container
            if not isinstance(top, kind):
                if not is_item and isinstance(top, list):
                    return None
                stack.pop()
                if not stack or stack[-1].indent != indent:
                    return None
                top = stack[-1].container
                if not isinstance(top, kind):
                    return None
            if found is not None:
                key = found[1]
                if key in top:
                    return None
                given = (found[2] or "").strip()
                if _BLOCK.match(given):
                    top[key], number = _block(lines, number, indent, given)
                elif given:
                    if given[0] in "\"'" and given[0] not in given[1:]:
                        return None
                    top[key] = scalar(given)
                else:
                    top[key] = None
                    waiting = (top, key, indent)
                break
            rest = body[1:].lstrip()
            if not rest:
                return None
            if _KEY.match(rest) and rest[0] not in "\"'[{":
                inner: dict[str, Any] = {}
                top.append(inner)
                indent += len(body) - len(rest)
                stack.append(_Level(indent, inner))
                body = rest
                continue
            top.append(scalar(rest))
            break
    return root


def _block(lines: list[str], number: int, indent: int, mark: str) -> tuple[str, int]:
    taken: list[str] = []
    while number < len(lines):
        line = lines[number]
        if line.strip() and len(line) - len(line.lstrip(" \t")) <= indent:
            break
        taken.append(line)
        number += 1
    return dedent(taken) + ("" if mark.endswith("-") else "\n"), number


def dedent(lines: list[str]) -> str:
    """Lines without their common margin and without blank lines at the end."""
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    margins = [len(line) - len(line.lstrip(" \t")) for line in lines if line.strip()]
    margin = min(margins, default=0)
    return "\n".join(line[margin:] for line in lines)


def scalar(text: str) -> Any:
    """One value as it stands on a line: quoted, in brackets, or bare text."""
    body = text.strip()
    if len(body) > 1 and body[0] in "\"'" and body[-1] == body[0]:
        inner = Reader(f"[{body}]", ANYTHING).read(0)
        if not inner.failed and not inner.cut and len(inner.value) == 1:
            return inner.value[0]
    if body[:1] in ("[", "{") and body[-1] in "]}":
        inner = Reader(body, ANYTHING).read(0)
        if not inner.failed and not inner.cut and not inner.open and inner.end == len(body):
            return inner.value
    comment = body.find(" #")
    return Text(body[:comment].rstrip() if comment > 0 else body)

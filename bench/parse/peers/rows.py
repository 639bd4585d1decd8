"""A row of a peer's suite: a reply, the tools on offer, what must come of it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Wanted:
    """One expected call of a row: exact `arguments`, or `entries` that they must hold."""

    name: str | None = None
    arguments: Any = None
    entries: list[tuple[tuple[str | int, ...], Any]] = field(default_factory=list)


@dataclass
class Row:
    suite: str
    id: str
    text: str
    tools: dict[str, dict[str, Any]]
    calls: list[Wanted]
    """The calls in order; empty when the reply holds none."""


@dataclass
class Reading:
    """A contestant's result of a reply."""

    calls: list[tuple[str, Any]]
    kind: str
    """`calls`, `prose` or `refused`."""
    marked: bool = False


def verdict(row: Row, reading: Reading) -> str:
    """`right`, `missed` (refused), `prose` (a call shown as an answer), `wrong` or `marked`."""
    if not row.calls:
        if reading.kind != "calls":
            return "right"
        return "marked" if reading.marked else "wrong"
    if reading.kind == "calls" and fits(row.calls, reading.calls):
        return "right"
    if reading.kind == "calls":
        return "marked" if reading.marked else "wrong"
    return "prose" if reading.kind == "prose" else "missed"


def fits(wanted: list[Wanted], calls: list[tuple[str, Any]]) -> bool:
    return len(wanted) == len(calls) and all(map(_fits, wanted, calls))


def _fits(wanted: Wanted, call: tuple[str, Any]) -> bool:
    name, arguments = call
    if wanted.name is not None and wanted.name != name:
        return False
    if wanted.arguments is not None and not equal(wanted.arguments, arguments):
        return False
    return all(_holds(arguments, path, value) for path, value in wanted.entries)


def _holds(value: Any, path: tuple[str | int, ...], wanted: Any) -> bool:
    for key in path:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            value = None
    return equal(wanted, value)


def equal(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(v, right[k]) for k, v in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, float) and isinstance(right, int | float):
        return abs(left - right) <= 1e-9 * abs(left)
    return (type(left) is type(right) and left == right) or (
        isinstance(left, int) and isinstance(right, float) and left == right
    )


_HEADS = re.compile(
    r'"(?:name|tool|tool_name|function|function_name|recipient_name)"\s*:\s*"([\w.-]+)"|\b([A-Za-z_][\w.]*)\('
    r'|(?:function|invoke|tool_call|tool)\S{0,2}(?:=|\s?name=)\s*"?([\w.-]+)"?\s*>|functions\.([\w-]+)'
    r"|(?:call)?:([A-Za-z_][\w.:-]*)\{|\[TOOL_CALLS\]\s*([\w.-]+)|<tool_calls?>\s*([\w.-]+)|｜>\s*([\w.-]+)"
    r"|to=(?:functions\.)?([\w.-]+)|\|>([\w.-]+)(?:<\|content|\s*\{)|tool_call>\s*([\w.-]+)"
    r'|tool="([\w.-]+)"'
)


def names_in(text: str) -> set[str]:
    """Names that stand where a call would have its own, for suites that declare no tools."""
    out = {next(g for g in found.groups() if g) for found in _HEADS.finditer(text)}
    out -= {"functions", "function", "print", "tool_calls", "name", "type", "call"}
    return {each for each in out if not each[0].isdigit()}


def schema(fields: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "object", "properties": fields or {}}


def loads(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None

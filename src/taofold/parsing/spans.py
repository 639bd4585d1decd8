"""Finds the JSON-like values that stand in a text, outside its reasoning.

One pass: a value that was read is stepped over, so what stands inside it, tags and braces in its
strings above all, is never taken for structure. Knows nothing about types.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, cast

from taofold.parsing.outcome import Repair
from taofold.parsing.reader import Reader, Reading
from taofold.parsing.shape import ANYTHING, Plan

_THINK = r"(?:think|thinking|reasoning|thought|reflection|scratchpad|analysis)"
_OPEN = re.compile(
    rf"<(?P<open>{_THINK})>|</(?P<close>{_THINK})>|(?P<channel><\|channel\|>analysis)"
    r"|(?P<stripped>assistantfinal)"
    r"""|\{(?=\s*+(?:["'“‘„`{}\\,/\#\x02\ufeff\u200b]|[\w$][\w$.-]{0,63}+\s*+[:：=]))"""
    r"""|\[(?=\s*+(?:["'“‘`\[{\]\d/\#-]|true|false|null|None|True|False))""",
    re.IGNORECASE,
)
_CHANNEL_END = re.compile(r"<\|(?:end|channel|start|call|return)\|>")


def _no_constant(name: str) -> Any:
    raise ValueError(name)


_DECODER = json.JSONDecoder(parse_constant=_no_constant)
_FAILURES = 8
_DISTINCT = 512


@dataclass(frozen=True, slots=True)
class Span:
    """One value in the text; `quoted` when it stands in a block quote."""

    start: int
    end: int
    reading: Reading
    quoted: bool = False


@dataclass(slots=True)
class Scan:
    """What a text holds.

    Attributes:
        spans: The complete values, outermost only, repetitions left out.
        cut: The value that the end of the text cut off, if any.
        visible: The text without its reasoning.
        unfinished: Whether the text ends inside its reasoning.
        exhausted: Whether nesting or the work budget ended the scan.
    """

    spans: list[Span] = field(default_factory=lambda: cast("list[Span]", []))
    cut: Span | None = None
    visible: str = ""
    unfinished: bool = False
    exhausted: bool = False


def scan(text: str, plan: Plan) -> Scan:
    """Scans a text; the work is linear in its length."""
    out = Scan()
    reader = Reader(text, plan)
    seen: set[str] = set()
    kept: list[str] = []
    shown = position = failures = 0
    waste = 4 * len(text) + 10_000
    last_close = max(text.rfind("</think"), text.rfind("</reasoning"))
    while True:
        found = _OPEN.search(text, position)
        if found is None:
            break
        start = found.start()
        name = found["open"]
        if name or found["channel"]:
            kept.append(text[shown:start])
            end = _end_of_thinking(text, found)
            if end < 0:
                out.unfinished = True
                out.visible = "".join(kept)
                return out
            position = shown = end
            continue
        if found["close"] or found["stripped"]:  # its opener was in the prompt
            out.spans.clear()
            seen.clear()
            kept.clear()
            out.cut = None
            position = shown = found.end()
            continue
        if failures < _FAILURES:
            try:
                value, position = _DECODER.raw_decode(text, start)
                reading = Reading(value, position)
            except (ValueError, RecursionError):
                failures += 1
                reading = reader.read(start)
        else:
            reading = reader.read(start)
        position = reading.end
        if reading.deep:
            out.exhausted = True
            break
        if reading.failed:
            waste -= max(reader.furthest, position) - start
            if waste < 0:
                out.exhausted = True
                break
            continue
        if reading.cut or reading.open:
            if last_close > start:  # a brace of the reasoning
                position = last_close
                continue
            out.cut = Span(start, len(text), reading, _is_quoted(text, start))
            break
        body = text[start:position]
        if body not in seen:
            seen.add(body)
            out.spans.append(Span(start, position, reading, _is_quoted(text, start)))
            if len(out.spans) > _DISTINCT:
                out.exhausted = True
                break
    kept.append(text[shown:])
    out.visible = "".join(kept)
    return out


def without_opener(text: str, plan: Plan) -> Span | None:
    """Reads an object whose opening brace was left to the prompt."""
    start = len(text) - len(text.lstrip())
    reading = Reader(text, plan).read(start, virtual=True)
    if reading.failed or reading.cut or reading.deep:
        return None
    reading.repairs.append(Repair("missing_opener", "syntax", content=True, at=start, cost=3))
    return Span(start, reading.end, reading)


def object_in(text: str) -> tuple[dict[str, Any], tuple[Repair, ...]] | None:
    """The one object that makes up a text, such as encoded arguments; `None` if it is cut."""
    note = Repair("string_encoded", "none")
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        start = len(text) - len(text.lstrip())
        if text[start : start + 1] != "{":
            return None
        reading = Reader(text, ANYTHING).read(start)
        bad = reading.failed or reading.cut or reading.open or text[reading.end :].strip()
        return None if bad else (reading.value, (note, *reading.repairs))
    return (cast("dict[str, Any]", value), (note,)) if isinstance(value, dict) else None


def unescaped(text: str) -> str:
    """A JSON string that holds JSON, or one without its quotes, decoded; else empty."""
    body = text.strip()
    if len(body) > 4 and body[0] == '"' == body[-1] and body[1:].lstrip()[:1] in "{[":
        body = body[1:-1]
    elif not body.startswith(('{\\"', '[{\\"', '{\\n', '[\\"')):
        return ""
    try:
        value: Any = json.loads(f'"{body}"', strict=False)
    except ValueError:
        return ""
    return cast("str", value)


def _end_of_thinking(text: str, found: re.Match[str]) -> int:
    if found["channel"]:
        end = _CHANNEL_END.search(text, found.end())
        return end.end() if end else len(text)
    closer = f"</{found['open']}>"
    at = text.find(closer, found.end())
    if at < 0:
        at = text.lower().find(closer.lower(), found.end()) if closer.lower() != closer else -1
    return at + len(closer) if at >= 0 else -1


def _is_quoted(text: str, start: int) -> bool:
    line = text.rfind("\n", max(0, start - 200), start) + 1
    return text[max(line, start - 200) : start].lstrip().startswith(">")

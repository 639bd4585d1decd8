"""Finds the JSON-like values that stand in a text, outside its reasoning.

One pass: a value that was read is stepped over, so what stands inside it, tags and braces in its
strings above all, is never taken for structure. Knows nothing about types.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from taofold.parsing.kinds import is_object
from taofold.parsing.outcome import Repair
from taofold.parsing.reader import Reader, Reading
from taofold.parsing.shape import ANYTHING, Plan
from taofold.parsing.strict import DECODER, decoded, is_finite

_THINK = r"(?:think|thinking|reasoning|thought|reflection|scratchpad|analysis)"
_OPEN = re.compile(
    rf"<(?P<open>{_THINK})>|</(?P<close>{_THINK})>|(?P<channel><\|channel\|>analysis)"
    r"|(?P<stripped>assistantfinal)"
    r"""|\{(?=\s*+(?:["'“‘„`{}\\,/\#\x02\ufeff\u200b]|[\w$][\w$.-]{0,63}+\s*+[:：=]))"""
    r"""|\[(?=\s*+(?:["'“‘`\[{\]\d/\#-]|true|false|null|None|True|False))""",
    re.IGNORECASE,
)
_CHANNEL_END = re.compile(r"<\|(?:end|channel|start|call|return)\|>")
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

    spans: list[Span] = field(default_factory=list[Span])
    cut: Span | None = None
    visible: str = ""
    unfinished: bool = False
    exhausted: bool = False


def scan(text: str, plan: Plan) -> Scan:
    """Scans a text; the work is linear in its length."""
    scanner = _Scanner(text, plan)
    scanner.run()
    return scanner.out


class _Scanner:
    def __init__(self, text: str, plan: Plan) -> None:
        self.out = Scan()
        self._text = text
        self._reader = Reader(text, plan)
        self._seen: set[str] = set()
        self._kept: list[str] = []
        self._shown = 0
        self._failures = 0
        self._waste = 4 * len(text) + 10_000
        self._last_close = max(text.rfind("</think"), text.rfind("</reasoning"))

    def run(self) -> None:
        position = 0
        while not (self.out.unfinished or self.out.exhausted or self.out.cut):
            found = _OPEN.search(self._text, position)
            if found is None:
                break
            if found[0] in ("{", "["):
                position = self._value(found.start())
            elif found["close"] or found["stripped"]:
                position = self._start_over(found.end())
            else:
                position = self._skip_thinking(found)
        self._kept.append(self._text[self._shown :])
        self.out.visible = "".join(self._kept)

    def _start_over(self, end: int) -> int:
        """Drops everything before a closing tag whose opener was in the prompt."""
        self.out.spans.clear()
        self._seen.clear()
        self._kept.clear()
        self._shown = end
        return end

    def _skip_thinking(self, found: re.Match[str]) -> int:
        self._kept.append(self._text[self._shown : found.start()])
        end = _end_of_thinking(self._text, found)
        self.out.unfinished = end < 0
        self._shown = len(self._text) if end < 0 else end
        return self._shown

    def _value(self, start: int) -> int:
        reading = self._read(start)
        if reading.failed:
            self._waste -= max(self._reader.furthest, reading.end) - start
            self.out.exhausted = reading.deep or self._waste < 0
            return reading.end
        span = Span(start, reading.end, reading, _is_quoted(self._text, start))
        if not reading.whole:
            if self._last_close > start:  # a brace of the reasoning
                return self._last_close
            self.out.cut = span
            return reading.end
        body = self._text[start : reading.end]
        if body not in self._seen:
            self._seen.add(body)
            self.out.spans.append(span)
            self.out.exhausted = len(self.out.spans) > _DISTINCT
        return reading.end

    def _read(self, start: int) -> Reading:
        if self._failures < _FAILURES:
            try:
                return Reading(*DECODER.raw_decode(self._text, start))
            except (ValueError, RecursionError):
                self._failures += 1
        return self._reader.read(start)


def without_opener(text: str, plan: Plan) -> Span | None:
    """Reads an object whose opening brace was left to the prompt."""
    start = len(text) - len(text.lstrip())
    if text[start : start + 1] != '"':
        return None
    reading = Reader(text, plan).read(start, headless=True)
    if reading.failed or reading.cut or reading.deep:
        return None
    reading.repairs.append(Repair("missing_opener", "syntax", content=True, at=start, cost=3))
    return Span(start, reading.end, reading)


_ENCODED = Repair("string_encoded", "none")


def object_in(text: str) -> tuple[dict[str, Any], tuple[Repair, ...]] | None:
    """The one object that makes up a text, such as encoded arguments; `None` if it is cut.

    `None` too if one of its numbers is none of JSON's.
    """
    note = _ENCODED
    try:
        value: Any = decoded(text)
    except (ValueError, RecursionError):
        start = len(text) - len(text.lstrip())
        if text[start : start + 1] != "{":
            return None
        reading = Reader(text, ANYTHING).read(start)
        bad = not reading.whole or text[reading.end :].strip() or not is_finite(reading.value)
        return None if bad else (reading.value, (note, *reading.repairs))
    return (value, (note,)) if is_object(value) else None


def unescaped(text: str) -> str:
    """A JSON string that holds JSON, or one without its quotes, decoded; else empty."""
    body = text.strip()
    if len(body) > 4 and body[0] == '"' == body[-1] and body[1:].lstrip()[:1] in "{[":
        body = body[1:-1]
    elif not body.startswith(('{\\"', '[{\\"', "{\\n", '[\\"')):
        return ""
    try:
        value: Any = json.loads(f'"{body}"', strict=False)
    except ValueError:
        return ""
    return str(value)


def _end_of_thinking(text: str, found: re.Match[str]) -> int:
    if found["channel"]:
        end = _CHANNEL_END.search(text, found.end())
        return end.end() if end else len(text)
    closer = re.compile(f"</{found['open']}>", re.IGNORECASE).search(text, found.end())
    return closer.end() if closer else -1


def _is_quoted(text: str, start: int) -> bool:
    line = text.rfind("\n", max(0, start - 200), start) + 1
    return text[max(line, start - 200) : start].lstrip().startswith(">")

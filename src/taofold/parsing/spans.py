"""Finds the JSON-like values that stand in a text, outside its reasoning.

One pass: a value that was read is stepped over, so what stands inside it, tags and braces in its
strings above all, is never taken for structure. Knows nothing about types.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from taofold.core.value import is_object
from taofold.parsing.jsonlike.reader import Reader, Reading
from taofold.parsing.jsonlike.strict import DECODER, decoded, is_finite
from taofold.parsing.markup.calls import Block, CallReader
from taofold.parsing.markup.families import (
    CALL_OPEN,
    HEADER,
    REASONING_CLOSE,
    REASONING_OPEN,
    closer_of,
)
from taofold.parsing.outcome import Repair
from taofold.parsing.schema.shape import ANYTHING, Plan

_VALUE = (
    r"""\{(?=\s*+(?:["'“‘„`{}\\,/\#\ufeff\u200b]|[\w$][\w$.-]{0,63}+\s*+[:：=]|<\|"\|>))"""
    r"""|\[(?=\s*+(?:["'“‘`\[{\]\d/\#-]|true|false|null|None|True|False))"""
)
_MARK = re.compile(
    rf"(?P<value>{_VALUE})|(?P<open>{REASONING_OPEN.pattern})|(?P<close>{REASONING_CLOSE.pattern})"
    rf"|(?P<header>{HEADER.pattern})|(?P<stripped>assistantfinal)",
    re.IGNORECASE | re.MULTILINE,
)
_MARK_OR_CALL = re.compile(
    rf"{_MARK.pattern}|(?P<call>{CALL_OPEN.pattern}|<(?=[A-Za-z_｜‖|])|\](?=<\]))",
    re.IGNORECASE | re.MULTILINE,
)
_MESSAGE_END = re.compile(r"<\|(?:end|channel|start|call|return|eom|eot)\|>")
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
        kept: The stretches of the text that are not reasoning, as offsets.
        blocks: The blocks of calls, if they were looked for.
        spans: The complete values, outermost only, repetitions left out.
        repeated: Where those repetitions stand, as offsets.
        cut: The value that the end of the text cut off, if any.
        visible: The text without its reasoning.
        unfinished: Whether the text ends inside its reasoning.
        exhausted: Whether nesting or the work budget ended the scan.
    """

    kept: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    blocks: list[Block] = field(default_factory=list[Block])
    spans: list[Span] = field(default_factory=list[Span])
    repeated: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    cut: Span | None = None
    visible: str = ""
    unfinished: bool = False
    exhausted: bool = False


def scan(text: str, plan: Plan, calls: CallReader | None = None) -> Scan:
    """Scans a text; the work is linear in its length.

    With a reader of `calls`, blocks of calls are stepped over as values are, and listed.
    """
    scanner = _Scanner(text, plan, calls)
    scanner.run()
    return scanner.out


class _Scanner:
    def __init__(self, text: str, plan: Plan, calls: CallReader | None) -> None:
        self.out = Scan()
        self._text = text
        self._reader = Reader(text, plan)
        self._calls = calls
        self._seen: set[str] = set()
        self._shown = 0
        self._failures = 0
        self._waste = 4 * len(text) + 10_000
        self._last_close = -1
        if "</" in text or "END_THINKING" in text or "[/" in text:
            for close in REASONING_CLOSE.finditer(text):
                self._last_close = close.start()

    def run(self) -> None:
        mark = _MARK if self._calls is None else _MARK_OR_CALL
        position = 0
        while not (self.out.unfinished or self.out.exhausted or self.out.cut):
            found = mark.search(self._text, position)
            if found is None:
                break
            kind = found.lastgroup
            at = found.start()
            if kind == "value":
                position = self._value(at)
            elif kind == "open":
                position = self._skip_reasoning(at, found.end(), closer_of(found[0]))
            elif kind == "header":
                position = self._message(found)
            elif kind == "call":
                position = self._block(found)
            else:
                position = self._start_over(found.end())
        if self._shown < len(self._text):
            self.out.kept.append((self._shown, len(self._text)))
        self.out.visible = "".join([self._text[begin:end] for begin, end in self.out.kept])

    def _start_over(self, end: int) -> int:
        """Drops everything before a closing mark whose opener was in the prompt."""
        self.out.spans.clear()
        self.out.blocks.clear()
        self.out.repeated.clear()
        self.out.kept.clear()
        self._seen.clear()
        self._shown = end
        return end

    def _skip_reasoning(self, at: int, begin: int, closer: re.Pattern[str] | None) -> int:
        if self._shown < at:
            self.out.kept.append((self._shown, at))
        end = closer.search(self._text, begin) if closer else None
        self.out.unfinished = end is None
        self._shown = len(self._text) if end is None else end.end()
        return self._shown

    def _message(self, found: re.Match[str]) -> int:
        """The head of a message of harmony: reasoning, a call, or nothing but an envelope."""
        block = self._calls.block_at(found.start()) if self._calls else None
        if block is not None:
            self.out.blocks.append(block)
            return max(block.end, found.end())
        if "to=" in found[0] and self._calls is None:
            return found.end()  # the call is read later
        if self._shown < found.start():
            self.out.kept.append((self._shown, found.start()))
        self._shown = found.end()
        if "analysis" not in found[0].lower() or "to=" in found[0]:
            return found.end()
        end = _MESSAGE_END.search(self._text, found.end())
        if end is None:
            self._shown = len(self._text)
            return self._shown
        self._shown = end.end() if end[0] in ("<|end|>", "<|eom|>") else end.start()
        return self._shown

    def _block(self, found: re.Match[str]) -> int:
        assert self._calls is not None
        block = self._calls.block_at(found.start())
        if block is None:
            return found.end()
        self.out.blocks.append(block)
        self.out.exhausted = len(self.out.blocks) > _DISTINCT
        return max(block.end, found.end())

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
        else:
            self.out.repeated.append((start, reading.end))
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


def _is_quoted(text: str, start: int) -> bool:
    line = text.rfind("\n", max(0, start - 200), start) + 1
    return text[max(line, start - 200) : start].lstrip().startswith(">")

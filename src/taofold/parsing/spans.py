"""Finds the JSON-like values and the blocks of calls outside a text's reasoning (`scan`).

`object_in` reads the one object that makes up a text. The scan is one pass that skips each value it
has read, so tags and braces inside its strings are never treated as structure. Knows nothing about
types.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from taofold.core.json_values import DECODER, decoded, flaw_of, is_object
from taofold.parsing.jsonlike.reader import JsonReader, JsonReading
from taofold.parsing.markup.calls import RECIPIENT, TO_NOBODY, Block, CallReader, MarkFinder
from taofold.parsing.markup.families import (
    MARKS,
    MARKS_AND_CALLS,
    REASONING_CLOSE,
    closer_of,
)
from taofold.parsing.outcome import Repair
from taofold.parsing.schema.reading_plan import ANYTHING, ReadingPlan

_OBJECT = re.compile(r"\s*\{")
MESSAGE_END = re.compile(r"<\|(?:end|eom)\|>|(?=<\|(?:channel|start|call|return|eot)\|>)")
"""The end of a harmony message; a head, or a mark that ends the reply, is not part of it."""
_FAILURES = 8
_DISTINCT = 512
MARKS_MOST = 10_000
"""The most marks of reasoning, messages and calls that are followed."""
_ATTEMPTS = 10_000
"""The most values that are not valid JSON, or turn out not to be values."""
ANGLES = 100_000
"""The most `<` in a text: several patterns look at each.

HTML has one in 15 characters, so 1 MB of it passes.
"""


@dataclass(frozen=True, slots=True)
class Span:
    """One value in the text; `quoted` if it stands in a block quote."""

    start: int
    end: int
    reading: JsonReading
    quoted: bool = False


@dataclass(slots=True)
class Scan:
    """The values and blocks of a text.

    Attributes:
        stretches: The stretches of the text that are not reasoning, as offsets.
        blocks: The blocks of calls, if they were searched.
        spans: The complete values, outermost only, without repetitions.
        repeated: The places of those repetitions, as offsets.
        cut: The value that the end of the text cut off, if any.
        visible: The text without its reasoning.
        unfinished: True if the text ends inside its reasoning.
        exhausted: True if nesting or the work budget ended the scan.
    """

    stretches: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    blocks: list[Block] = field(default_factory=list[Block])
    spans: list[Span] = field(default_factory=list[Span])
    repeated: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    cut: Span | None = None
    visible: str = ""
    unfinished: bool = False
    exhausted: bool = False


def scan(text: str, plan: ReadingPlan, calls: CallReader | None = None) -> Scan:
    """Scans a text in linear time.

    With `calls`, blocks of calls are skipped like values, and listed.
    """
    if text.count("<") > ANGLES:
        return Scan(stretches=[(0, len(text))], visible=text, exhausted=True)
    scanner = _Scanner(text, plan, calls)
    scanner.run()
    return scanner.out


class _Scanner:
    def __init__(self, text: str, plan: ReadingPlan, calls: CallReader | None) -> None:
        self.out = Scan()
        self._text = text
        self._reader = JsonReader(text, plan)
        self._calls = calls
        self._seen: set[str] = set()
        self._last = ""
        """The last value that was valid JSON.

        Models repeat themselves: text that begins with it at the start of a value is that value
        again.
        """
        self._shown = 0
        self._failures = self._attempts = 0
        # The total characters that failed readings may look at, which keeps the scan linear.
        self._waste = 4 * len(text) + 10_000
        self._last_close = -2
        """Offset of the last closing mark: -1 if there is none, -2 if not yet searched."""

    def run(self) -> None:
        table = MARKS if self._calls is None else MARKS_AND_CALLS
        patterns = (table.pattern, *([self._calls.tags] if self._calls else []))
        marks = MarkFinder(self._text, patterns)
        position = followed = 0
        while not (self.out.unfinished or self.out.exhausted or self.out.cut):
            match = marks.next(position)
            if match is None:
                break
            kind = table.role(match)
            at = match.start()
            if kind == "value":
                position = self._value(at)
                continue
            followed += 1
            self.out.exhausted = followed > MARKS_MOST
            if kind == "open":
                position = self._skip_reasoning(at, match.end(), closer_of(match[0]))
            elif kind == "header":
                position = self._message(match)
            elif kind == "call":
                position = self._block(match)
            else:
                position = self._start_over(match.end())
        if self._shown < len(self._text):
            self.out.stretches.append((self._shown, len(self._text)))
        self.out.visible = "".join([self._text[begin:end] for begin, end in self.out.stretches])

    def _start_over(self, end: int) -> int:
        """Drops everything before a closing mark whose opener was in the prompt."""
        self.out.spans.clear()
        self.out.blocks.clear()
        self.out.repeated.clear()
        self.out.stretches.clear()
        self._seen.clear()
        self._last = ""
        self._shown = end
        return end

    def _skip_reasoning(self, at: int, begin: int, closer: re.Pattern[str] | None) -> int:
        if self._shown < at:
            self.out.stretches.append((self._shown, at))
        end = closer.search(self._text, begin) if closer else None
        self.out.unfinished = end is None
        self._shown = len(self._text) if end is None else end.end()
        return self._shown

    def _message(self, match: re.Match[str]) -> int:
        """Reads the head of a message: reasoning, a call, text for the user, or an envelope."""
        recipient = RECIPIENT.search(match[0])
        if recipient is not None and recipient["name"] in TO_NOBODY:
            return self._addressed(match, recipient["name"])
        block = self._calls.block_at(match.start()) if self._calls else None
        if block is not None:
            self.out.blocks.append(block)
            return max(block.end, match.end())
        # `parse` reads such calls with `blocks_in`, after the values.
        if "to=" in match[0] and self._calls is None:
            return match.end()  # the call is read later
        if self._shown < match.start():
            self.out.stretches.append((self._shown, match.start()))
        self._shown = match.end()
        # Only the analysis channel is reasoning; the final channel and the commentary are shown.
        if "analysis" not in match[0].lower() or "to=" in match[0]:
            return match.end()
        end = MESSAGE_END.search(self._text, match.end())
        if end is None:
            self._shown = len(self._text)
            return self._shown
        self._shown = end.end()
        return self._shown

    def _addressed(self, head: re.Match[str], recipient: str) -> int:
        """A message to `self` is reasoning; a message to the user may show calls but makes none."""
        if self._shown < head.start():
            self.out.stretches.append((self._shown, head.start()))
        self._shown = head.end()
        # The whole message is one object: the JSON that the prompt requested, not a call in text.
        if recipient != "self" and _OBJECT.match(self._text, head.end()):
            return head.end()
        end = MESSAGE_END.search(self._text, head.end())
        position = len(self._text) if end is None else end.start()
        if recipient == "self":
            self._shown = position
            self.out.unfinished = end is None
        return position

    def _block(self, match: re.Match[str]) -> int:
        assert self._calls is not None
        block = self._calls.block_at(match.start())
        if block is None:
            return match.end()
        self.out.blocks.append(block)
        self.out.exhausted = self.out.exhausted or len(self.out.blocks) > _DISTINCT
        return max(block.end, match.end())

    def _value(self, start: int) -> int:
        if self._last and self._text.startswith(self._last, start):
            self.out.repeated.append((start, start + len(self._last)))
            return start + len(self._last)
        reading = self._read(start)
        if reading.failed:
            self._waste -= max(self._reader.furthest, reading.end) - start
            self.out.exhausted = self.out.exhausted or reading.deep or self._waste < 0
            return reading.end
        if not reading.whole:
            span = Span(start, reading.end, reading, _is_quoted(self._text, start))
            if self._closed_after() > start:  # a brace inside the reasoning
                return self._last_close
            self.out.cut = span
            return reading.end
        body = self._text[start : reading.end]
        self._last = "" if reading.repairs else body
        # The same value twice counts once and is not ambiguous.
        if body not in self._seen:
            self._seen.add(body)
            span = Span(start, reading.end, reading, _is_quoted(self._text, start))
            self.out.spans.append(span)
            self.out.exhausted = self.out.exhausted or len(self.out.spans) > _DISTINCT
        else:
            self.out.repeated.append((start, reading.end))
        return reading.end

    def _closed_after(self) -> int:
        """Returns the offset of reasoning's last closing mark: a brace before it never closes."""
        if self._last_close < -1:
            self._last_close = -1
            for close in REASONING_CLOSE.finditer(self._text):
                self._last_close = close.start()
        return self._last_close

    def _read(self, start: int) -> JsonReading:
        # The C decoder is ten times faster, but would read each of many broken values twice.
        if self._failures < _FAILURES:
            try:
                return JsonReading(*DECODER.raw_decode(self._text, start))
            except (ValueError, RecursionError):
                self._failures += 1
        self._attempts += 1
        self.out.exhausted = self._attempts > _ATTEMPTS
        return self._reader.read(start)


def without_opener(text: str, plan: ReadingPlan) -> Span | None:
    """Reads an object whose opening brace was in the prompt."""
    start = len(text) - len(text.lstrip())
    if text[start : start + 1] != '"':
        return None
    reading = JsonReader(text, plan).read(start, headless=True)
    if reading.failed or reading.cut or reading.deep:
        return None
    reading.repairs.append(Repair("missing_opener", "syntax", content=True, at=start, cost=3))
    return Span(start, reading.end, reading)


_ENCODED = Repair("string_encoded", "none")


def object_in(text: str) -> tuple[dict[str, Any], tuple[Repair, ...]] | None:
    """Returns the one object that makes up a text, such as encoded arguments.

    Returns `None` if the text is cut, or has a number that is not JSON.
    """
    note = _ENCODED
    try:
        value: Any = decoded(text)
    except (ValueError, RecursionError):
        start = len(text) - len(text.lstrip())
        if text[start : start + 1] != "{":
            return None
        reading = JsonReader(text, ANYTHING).read(start)
        bad = not reading.whole or text[reading.end :].strip() or flaw_of(reading.value) != ""
        return None if bad else (reading.value, (note, *reading.repairs))
    return (value, (note,)) if is_object(value) else None


def _is_quoted(text: str, start: int) -> bool:
    line = text.rfind("\n", max(0, start - 200), start) + 1
    return text[max(line, start - 200) : start].lstrip().startswith(">")

"""Reads one JSON-like value, however malformed, in one pass with an explicit stack.

Each departure from JSON is recorded as a repair. Containers closed only by the end of the text are
listed in `open`; a text that ends inside a token is `cut`. Knows nothing about types beyond the key
names of its reading plan.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from taofold.core.json_values import DECODER
from taofold.parsing.jsonlike.quoting import CLOSING, MARK
from taofold.parsing.jsonlike.tokens import MISSING, RAW_QUOTE, TextEnd, TokenReader
from taofold.parsing.outcome import Repair
from taofold.parsing.schema.reading_plan import ReadingPlan

DEPTH = 100
"""The deepest nesting that is read. Deeper text is refused as too large."""
_CLOSER = {"{": "}", "[": "]", "(": ")"}
_MARKED = frozenset("`~<[]")
"""The characters with which a mark may begin."""
_NEXT = re.compile(r"\s*+[,\]]")
_FAILURES = 8
"""The most list items that may fail in the fast decoder before it is no longer tried."""
_BARE_KEY = re.compile(r"[\w$][\w$.-]{0,63}+")


@dataclass(slots=True)
class JsonReading:
    """One value and how it was read.

    Attributes:
        value: The value; a container even if `cut`.
        end: Offset after the value; if `failed`, the offset at which reading stopped.
        repairs: The departures from JSON.
        open: The containers that only the end of the text closed, by identity.
        cut: True if the text ended inside a token, or where a value was due.
        deep: True if reading was given up because of deep nesting or too many quotes.
        failed: True if the text is not a value.
    """

    value: Any = None
    end: int = 0
    repairs: list[Repair] = field(default_factory=list[Repair])
    open: list[Any] = field(default_factory=list[Any])
    cut: bool = False
    deep: bool = False
    failed: bool = False

    @property
    def whole(self) -> bool:
        """True if the value was read to its own end."""
        return not (self.failed or self.cut or self.open)


@dataclass(slots=True)
class _Frame:
    container: Any
    closer: str
    key: str = ""
    filled: bool = False  # a value was read since the last comma
    due: bool = False  # a key was read and its value is due


class JsonReader:
    """Reads values from one text. Create one instance per text."""

    def __init__(self, text: str, plan: ReadingPlan) -> None:
        self._text = text
        self._tokens = TokenReader(text, plan)
        self._doubled = 0
        self._failures = 0
        self._ended = 0  # the end of the last value

    @property
    def furthest(self) -> int:
        """The furthest offset that a failed reading looked at."""
        return self._tokens.furthest

    def read(self, start: int, headless: bool = False) -> JsonReading:
        """Reads the container that opens at `start`; a `headless` object lacks its brace."""
        opener = "{" if headless else self._text[start]
        root = _Frame([] if opener == "[" else {}, _CLOSER[opener])
        tokens = self._tokens
        repairs = tokens.begin()
        tokens.quoting.calls = opener == "("
        out = JsonReading(root.container, repairs=repairs)
        self._doubled = 0
        stack = [root]
        at = start if headless else start + 1
        try:
            # An explicit stack: a text of brackets would exceed Python's recursion limit.
            while stack and len(stack) <= DEPTH:
                at = tokens.blank(at)
                if at >= len(self._text):
                    frame = stack[-1]
                    # A value was due after a comma. An empty container may be intended, unless it
                    # is the whole value.
                    out.cut = frame.due or not (frame.filled or not frame.container)
                    out.cut = out.cut or (not frame.filled and len(stack) == 1)
                    out.open = [each.container for each in stack]
                    break
                at = self._step(stack, at)
        except TextEnd:
            out.cut = True
            out.open = [each.container for each in stack]
            at = len(self._text)
        except ValueError:
            out.failed = True
        out.deep = max(len(stack), self._doubled) > DEPTH or tokens.is_spent
        out.failed = out.failed or out.deep
        # Never `start` itself, so that a caller that scans on from here advances.
        out.end = max(at, start + 1)
        return out

    def _step(self, stack: list[_Frame], at: int) -> int:
        frame = stack[-1]
        char = self._text[at]
        if char in "}])" and not frame.due:
            return self._close(stack, char, at)
        # The mark of a family, or a fence, is not part of any value: it ends all open containers.
        if char in _MARKED and frame.filled and MARK.match(self._text, at):
            self._tokens.note("missing_closer", at, content=True, cost=3)
            stack.clear()
            return at
        if char in ",，;":
            return self._comma(frame, char, at)
        if frame.closer == "]" or frame.due:
            return self._value(stack, at)
        return self._key(frame, at)

    def _comma(self, frame: _Frame, char: str, at: int) -> int:
        if frame.due:
            raise ValueError
        if not frame.filled:
            self._tokens.note("extra_comma", at)
        elif char != ",":
            self._tokens.note("foreign_comma", at)
        frame.filled = False
        return at + 1

    def _close(self, stack: list[_Frame], char: str, at: int) -> int:
        frame = stack[-1]
        if char != frame.closer:
            # A closer without an opener is dropped. The closer of an outer container ends the inner
            # ones.
            if not any(each.closer == char for each in stack):
                self._tokens.note("stray_closer", at, cost=2)
                return at + 1
            self._tokens.note("missing_closer", at, content=True, cost=3)
            stack.pop()
            return at
        if not frame.filled and frame.container:
            self._tokens.note("trailing_comma", at)
        stack.pop()
        self._ended = at + 1
        return at + 1

    def _key(self, frame: _Frame, at: int) -> int:
        tokens = self._tokens
        if frame.filled:
            self._missing_comma(at)
        char = self._text[at]
        # `{{"a": 1}}`, as in a template with doubled braces. The last closer is left after the
        # value.
        if char == "{" and not frame.container and not frame.filled:
            tokens.note("doubled_brace", at)
            self._doubled += 1
            if self._doubled > DEPTH:
                raise ValueError
            return at + 1
        raw = RAW_QUOTE.match(self._text, at) if char == "<" else None
        if raw is not None:
            key, at = tokens.raw(raw)
        elif char in CLOSING:
            tokens.quoting.python = tokens.quoting.python or char == "'"
            key, at = tokens.string(at, "key")
        else:
            key, at = self._bare_key(frame, at)
        at = tokens.blank(at)
        char = self._text[at : at + 1]
        if not char:
            raise TextEnd
        if char not in ":：=":
            raise ValueError
        if char != ":" and frame.closer == "}":
            tokens.note("foreign_colon", at)
        frame.key, frame.due = key, True
        return at + (2 if self._text.startswith("=>", at) else 1)

    def _missing_comma(self, at: int) -> None:
        """Notes a missing comma. If the comma is inside the string before, the content changed."""
        end = self._ended
        inside = self._text[max(0, end - 40) : end - 1].rstrip()
        slipped = self._text[end - 1] in "\"'" and inside[-1:] in (",", ":", ";")
        self._tokens.note("missing_comma", at, content=slipped, cost=3 if slipped else 1)

    def _bare_key(self, frame: _Frame, at: int) -> tuple[str, int]:
        bare = _BARE_KEY.match(self._text, at)
        if bare is None:
            raise ValueError
        self._tokens.quoting.bare_keys = True
        if frame.closer == "}":
            self._tokens.note("unquoted_key", at)
        return bare[0], bare.end()

    def _value(self, stack: list[_Frame], at: int) -> int:
        frame = stack[-1]
        is_item = frame.closer == "]"
        if is_item and frame.filled:
            self._missing_comma(at)
        char = self._text[at]
        if char == "{" and is_item:
            item, end = self._item(at)
            if end:
                self._put(frame, item, at)
                self._ended = end
                return end
        if char in "{[":
            child: Any = {} if char == "{" else []
            self._put(frame, child, at)
            stack.append(_Frame(child, _CLOSER[char]))
            return at + 1
        value, end = self._tokens.value(at, "item" if is_item else "member")
        self._put(frame, value, at)
        self._ended = end
        return end

    def _item(self, at: int) -> tuple[Any, int]:
        """Decodes an object of a list that is valid JSON; returns its end, or 0 if it is not.

        Most items of a long list are valid, and the decoder reads them ten times as fast.
        """
        if self._failures >= _FAILURES:
            return None, 0
        try:
            value, end = DECODER.raw_decode(self._text, at)
        except (ValueError, RecursionError):
            value, end = None, 0
        if not end or _NEXT.match(self._text, end) is None:
            self._failures += 1
            return None, 0
        return value, end

    def _put(self, frame: _Frame, value: Any, at: int) -> None:
        if frame.closer == "]":
            frame.container.append(value)
        else:
            previous = frame.container.get(frame.key, MISSING)
            # The last value wins, as in `json`; `doubt_of` then refuses a call.
            if previous is not MISSING and previous != value:
                self._tokens.note("duplicate_key", at, content=True, cost=5)
            frame.container[frame.key] = value
        frame.filled, frame.due = True, False

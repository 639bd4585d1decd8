"""Reads one JSON-like value, however badly written, in one pass with an explicit stack.

It invents nothing silently: each departure from JSON is a repair, containers that only the end
of the text closed are listed, and a text that ends inside a token is `cut`. Knows nothing about
types beyond the key names that steer it.
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
"""The deepest nesting that is read; deeper text is refused as too large."""
_CLOSER = {"{": "}", "[": "]", "(": ")"}
_MARKED = frozenset("`~<[]")
"""What a mark may begin with."""
_NEXT = re.compile(r"\s*+[,\]]")
_FAILURES = 8
"""The most items of lists that the decoder is asked for and cannot read."""
_BARE_KEY = re.compile(r"[\w$][\w$.-]{0,63}+")


@dataclass(slots=True)
class JsonReading:
    """One value with the way it was read.

    Attributes:
        value: The value; a container even when `cut`.
        end: Offset after the value; where reading stopped when `failed`.
        repairs: What was changed.
        open: The containers that the end of the text closed, by identity.
        cut: Whether the text ended inside a token, or where a value was due.
        deep: Whether it was given up because of its nesting, or its many quotes.
        failed: Whether this is no value at all.
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
        """Whether the value was read to its own end."""
        return not (self.failed or self.cut or self.open)


@dataclass(slots=True)
class _Frame:
    container: Any
    closer: str
    key: str = ""
    filled: bool = False  # a value stands since the last comma
    due: bool = False  # a key was read, its value is due


class JsonReader:
    """Reads values out of one text; make one for each text."""

    def __init__(self, text: str, plan: ReadingPlan) -> None:
        self._text = text
        self._tokens = TokenReader(text, plan)
        self._doubled = 0
        self._failures = 0
        self._ended = 0  # where the last value ended

    @property
    def furthest(self) -> int:
        """The furthest offset that a failed reading looked at."""
        return self._tokens.furthest

    def read(self, start: int, headless: bool = False) -> JsonReading:
        """Reads the container that opens at an offset; a `headless` object lacks its brace."""
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
            # A stack of our own: Python's would overflow on a text of brackets.
            while stack and len(stack) <= DEPTH:
                at = tokens.blank(at)
                if at >= len(self._text):
                    frame = stack[-1]
                    # After a comma something was to follow; an empty container may have been
                    # meant so, unless it is the whole value.
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
        # Never `start` itself: whoever scans on from here must advance.
        out.end = max(at, start + 1)
        return out

    def _step(self, stack: list[_Frame], at: int) -> int:
        frame = stack[-1]
        char = self._text[at]
        if char in "}])" and not frame.due:
            return self._close(stack, char, at)
        # The mark of a family, or a fence, ends whatever is open: it belongs to no value.
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
            # A closer that nothing opened is dropped; an outer frame's ends the inner ones too.
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
        # `{{"a": 1}}`, as a template with doubled braces has it; the last closer
        # is left behind the value.
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
        """Notes a missing comma; one that slipped into the string before it changed that."""
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
        """An object in a list that is JSON as it stands, and its end: 0 if it is not.

        Of a long list only few items are broken; the decoder reads the others ten times as fast.
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
            # The last one wins, as in `json`; `doubt_of` then refuses a call.
            if previous is not MISSING and previous != value:
                self._tokens.note("duplicate_key", at, content=True, cost=5)
            frame.container[frame.key] = value
        frame.filled, frame.due = True, False

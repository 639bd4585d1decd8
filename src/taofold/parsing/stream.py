"""Extracts a reply's answer while its text arrives, without its reasoning, envelope and calls.

The result depends on the text alone, never on its division into pieces. `ReplyStream` moves from
one sign to the next, using the marks of the reply reader. A sign is judged once it is complete, or
too long to be one. `Envelope` reads one JSON object as it arrives and decides if it is a decision
or data. For display only, never executed; `close` reads the whole reply and decides. Knows nothing
about receiving a stream.

    stream = ReplyStream(tools)
    for piece in pieces:
        show(stream.feed(piece))
    show(stream.close("stop"))
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final

from taofold.core.late_patterns import late
from taofold.parsing.decision import is_decision
from taofold.parsing.labels import DECIDING_LABELS, MARKED
from taofold.parsing.markup.calls import RECIPIENT, TO_NOBODY
from taofold.parsing.markup.families import (
    BARE_HEADS,
    CALL_CLOSE,
    CALL_OPEN,
    FOREIGN,
    FOREIGN_LABELS,
    FOREIGN_LINE,
    HEADER,
    NOISE,
    REASONING_CLOSE,
    REASONING_OPEN,
    UNKNOWN,
    closer_of,
)
from taofold.parsing.outcome import Parsed, Prose, Turn, Unparsed
from taofold.parsing.protocol_keys import (
    ANSWER_KEYS,
    CALL_KEYS,
    DECISIVE,
    ENVELOPE,
    FINISH,
    PARAMETER_KEYS,
    RESERVED,
    TOOL_KEYS,
    Tools,
)
from taofold.parsing.reply import read_reply
from taofold.parsing.spans import ANGLES, MARKS_MOST, MESSAGE_END
from taofold.parsing.typed import parse_partial

_LONGEST: Final = 128
"""The longest sign; a longer one is text."""
_HEADER_LONGEST: Final = 300
_DEPTH: Final = 100
_NAME_LONGEST: Final = 200
_PROTOCOL: Final = ENVELOPE.union(DECISIVE, CALL_KEYS, ("role", "content", "refusal"))
"""Keys of decisions, and of a whole chat message, which may hold calls."""
_BETWEEN: Final = r"[\s,:\-+.\w]"
_STRING: Final = r'(?:[^"\\]++|\\.)*+'
_FLAT: Final = rf'{_BETWEEN}++|"{_STRING}"'
_NESTED: Final = rf"{_FLAT}|[{{\[](?:{_FLAT})*+[}}\]]"
_TWICE_NESTED: Final = rf"{_FLAT}|[{{\[](?:{_NESTED})*+[}}\]]"
_DATA: Final = late(rf"(?:{_TWICE_NESTED})*+", re.DOTALL)
"""Data up to a bracket that does not close soon, or to the end of the text."""
_BEGUN_DATA: Final = late(lambda: rf"\{{{_DATA.pattern}", re.DOTALL)
_REST: Final = late(_STRING, re.DOTALL)
_KEY: Final = late(rf'"({_STRING})"', re.DOTALL)
_SEPARATOR: Final = late(r"[\s,:]++")
_LITERAL: Final = late(r"[-+.\w]++")
_LITERAL_LONGEST: Final = 400
_TEXT: Final = late(
    r'(?:[^"\\]++|\\(?:["\\/bfnrt]|u(?![dD][89abAB])[0-9a-fA-F]{4}'
    r"|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}))++"
)
"""The complete part of a string."""
_LONGEST_ESCAPE: Final = 12


@dataclass(slots=True)
class _Frame:
    """An open object or list: the current key, and the tool that it names."""

    opener: str
    key: str = ""
    tool: str | None = None
    wants_key: bool = True


class Envelope:
    """Reads one object: a decision, whose answer is shown, or data, which is itself the answer.

    Attributes:
        ended: True if the object ended, or the text after it was not JSON.
        is_plain: True if the object is data, not a decision.
    """

    def __init__(self, names: Collection[str] = (), *, is_plain: bool = False) -> None:
        self.ended = False
        self.is_plain = is_plain
        self._names = names
        self._is_decision = False
        self._has_key = False
        self._raw: list[str] = []
        """The text so far, which may be data."""
        self._frames: list[_Frame] = []
        self._depth = 0  # nesting of data
        self._fresh: list[str] = []
        self._waiting: list[str] = []  # an answer whose tool is not named yet
        self._answer: list[str] = []  # the JSON text of an answer that is not a string
        self._answer_depth = -1
        self._is_live = False  # True inside a string of the answer
        self._in_string = False
        self._name = ""  # of the tool, as far as it was read

    @property
    def structured(self) -> str:
        """The JSON text of a decision's answer so far, if it is not a string."""
        return "".join(self._answer)

    def take(self) -> str:
        """Returns the text to show since the last call."""
        fresh = "".join(self._fresh)
        self._fresh = []
        return fresh

    def feed(self, text: str, at: int) -> int:
        """Reads complete tokens from `at` on; returns the offset where they end."""
        begin = at
        while at < len(text) and not self.ended:
            in_answer = self._answer_depth >= 0
            if self.is_plain:
                end = self._data(text, at)
            elif self._in_string:
                end = self._string_part(text, at)
            else:
                end = self._token(text, at)
            if end == at:
                break
            if in_answer or self._answer_depth >= 0:
                self._answer.append(text[at:end])
            at = end
        if not self._is_decision:
            self._raw.append(text[begin:at])
            if self.ended and not self.is_plain:
                self._settle()
        if self.is_plain:
            self._fresh += self._raw
            self._raw = []
        return at

    def _data(self, text: str, at: int) -> int:
        """Reads data: skips its strings and counts its brackets."""
        while at < len(text):
            if self._in_string:
                rest = _REST.match(text, at)
                at = rest.end() if rest else at
                if text[at : at + 1] != '"':
                    return at
                self._in_string = False
                at += 1
            between = _DATA.match(text, at)
            at = between.end() if between else at
            char = text[at : at + 1]
            if char == '"':
                self._in_string = True
            elif char and char in "{[":
                self._depth += 1
            elif char and char in "}]":
                self._depth -= 1
            else:
                self.ended = bool(char)
                return at
            at += 1
            if not self._depth:
                self.ended = True
                return at
        return at

    def _token(self, text: str, at: int) -> int:
        frame = self._frames[-1] if self._frames else None
        separator = _SEPARATOR.match(text, at)
        if separator and frame:
            frame.wants_key = frame.wants_key or "," in separator[0]
            return separator.end()
        char = text[at]
        if frame and frame.opener == "{" and frame.wants_key and char not in "{[}]":
            return self._key(text, at, frame)
        if char == '"':
            self._in_string = True
            self._name = ""
            self._is_live = self._answer_depth < 0 and self._is_answer()
            return at + 1
        if char in "{[" and len(self._frames) < _DEPTH:
            if self._is_answer() and self._answer_depth < 0:
                self._answer_depth = len(self._frames)
            self._frames.append(_Frame(char))
            return at + 1
        if frame and char == {"{": "}", "[": "]"}[frame.opener]:
            self._frames.pop()
            if len(self._frames) <= self._answer_depth:
                self._answer_depth = -1
            self.ended = not self._frames
            return at + 1
        literal = _LITERAL.match(text, at)
        if literal is None or literal.end() - at >= _LITERAL_LONGEST:
            return self._fail(at)
        # The literal may continue in the next piece.
        if literal.end() == len(text):
            return at
        if self._answer_depth < 0 and self._is_answer():
            self._answer.append(literal[0])
        return literal.end()

    def _key(self, text: str, at: int, frame: _Frame) -> int:
        key = _KEY.match(text, at, at + _LONGEST)
        if key is None:
            is_open = text[at] == '"' and len(text) - at < _LONGEST
            return at if is_open else self._fail(at)
        frame.key, frame.wants_key = key[1], False
        self._has_key = True
        if len(self._frames) == 1:
            self._is_decision = self._is_decision or frame.key in DECISIVE
            is_open = frame.key in _PROTOCOL or frame.key in self._names
            if not self._is_decision and not is_open:
                self._become_plain()
        return key.end()

    def _become_plain(self) -> None:
        self.is_plain = True
        self._depth = len(self._frames)

    def _string_part(self, text: str, at: int) -> int:
        part = _TEXT.match(text, at)
        if part:
            self._say(part[0])
            return part.end()
        if text[at] == '"':
            self._end_string()
            return at + 1
        return self._fail(at) if len(text) - at >= _LONGEST_ESCAPE else at

    def _say(self, written: str) -> None:
        is_name = self._frames[-1].key in TOOL_KEYS
        if not is_name and not self._is_live:
            return
        text = json.loads(f'"{written}"', strict=False) if "\\" in written else written
        if is_name:
            self._name = (self._name + text)[:_NAME_LONGEST]
        if self._is_live and self._is_known():
            self._decide(text)
        elif self._is_live:
            self._waiting.append(text)

    def _end_string(self) -> None:
        self._in_string = self._is_live = False
        frame = self._frames[-1]
        if frame.opener != "{" or frame.key not in TOOL_KEYS:
            return
        frame.tool = self._name
        # The answer came before the name of its tool. For another tool it was a parameter: dropped.
        if self._waiting and frame.tool == FINISH:
            self._decide(*self._waiting)
        self._waiting = []

    def _decide(self, *answer: str) -> None:
        """Marks the object as a decision: an answer that was shown is never shown again as data."""
        self._is_decision = True
        self._fresh += answer

    def _is_answer(self) -> bool:
        """Returns whether the next value is the answer of a decision."""
        frame = self._frames[-1] if self._frames else None
        if frame is None or frame.opener != "{" or frame.key not in ANSWER_KEYS:
            return False
        if len(self._frames) == 1:
            return frame.tool in (None, FINISH)
        outer = self._frames[-2]
        inside = outer.key in PARAMETER_KEYS and outer.tool in (None, FINISH)
        return inside or frame.tool == FINISH

    def _is_known(self) -> bool:
        """Returns whether the tool of the current answer was named."""
        if len(self._frames) == 1:
            return self._frames[0].tool == FINISH or self._frames[0].key == "final_answer"
        return FINISH in (self._frames[-1].tool, self._frames[-2].tool)

    def _fail(self, at: int) -> int:
        self.ended = True
        return at

    def _settle(self) -> None:
        """Classifies, at its end, an object whose keys occur in both data and decisions."""
        try:
            value = json.loads("".join(self._raw), strict=False)
        except (ValueError, RecursionError):
            self._is_decision = self._has_key  # without a key it is a word in braces
        else:
            self._is_decision = is_decision(value, self._names)
        if not self._is_decision:
            self._become_plain()


def _begun(literal: str, rest: str = "") -> str:
    """Returns a pattern that also matches beginnings of `literal` and `rest` at the text's end."""
    pattern = rest
    for char in reversed(literal):
        pattern = rf"{re.escape(char)}(?:\Z{'|' if pattern else ''}{pattern})"
    return pattern


_FENCE = r"```\w*+[ \t]*+"
_WRAP: Final = late(rf"(?:\[\s*+|{_FENCE}\n\s*+){{1,4}}\Z")
"""Fences and lists that may surround a decision. They are shown only with the text after them."""
_WRAP_LONGEST: Final = 32
_OPEN = r"\{\s{0,32}+(?:\{\s{0,32}+)?+"
_OBJECT: Final = late(rf'{_OPEN}"(?P<key>(?:[^"\\]|\\.){{0,120}}+)"\s{{0,8}}+:', re.DOTALL)
"""An object up to its first key."""
_WORDS = "|".join(sorted(_PROTOCOL))
_LOOSE = rf"{_OPEN}(?:['“‘`]?+(?:{_WORDS})['”’`]?+\s{{0,8}}+[:：=]|/[/*]|\"(?:{_WORDS})\"(?!\s*+:))"
"""A decision in another notation."""
_RECIPIENT = r"[\w.-][^{}<\n]{0,80}+"
"""After `to=`: the recipient of a harmony message, up to the next mark."""
_LABEL_REST = r"(?:[ \t]\d{0,2})?[ \t]{0,3}(?:[\[(][^\])\n]{0,40}[\])]?)?[ \t*_]{0,4}\Z"


@cache
def _begun_line() -> re.Pattern[str]:
    """Returns the pattern of an unfinished last line that may have a label."""
    labels = (_begun(each, _LABEL_REST) for each in (*DECIDING_LABELS, *FOREIGN_LABELS))
    return re.compile(rf"[ \t#*_\d.)-]{{0,16}}+(?:\Z|(?i:{'|'.join(labels)}))")


@cache
def _begun_sign() -> re.Pattern[str]:
    """Returns the pattern of a sign at the end of the text whose kind depends on more text.

    Every prefix of a match must match too, so that text judged once is not judged again. Each
    choice begins with a literal.
    """
    mark = "|".join(
        [
            r"<(?:[^\s<>][^<>\n]*+(?:\n\s{0,8}+)?)?\Z",
            r"\[(?:[/|]?\w*+\|?|\s{0,8}+[\w.-]*+|Calling[ tol]*+|(?:BEGIN|END)[ A-Z]*+)\Z",
            r"◁/?\w*+\Z",
            r"\](?:<(?:\](?:\w{0,12}+(?:\[>?)?)?)?)?\Z",
            *(rf"{re.escape(bar)}D?S?M?L?\Z" for bar in "|｜‖"),
            r"\{\s*+(?:\{\s*+)?+(?:\"(?:[^\"\\]|\\.)*+(?:\\|\"\s*+)?"
            r"|['“‘`]?+[\w$-]*+['”’`]?+\s*+|/)?\Z",
            *(_begun(each, r"[\w.-]*+\s*+\Z") for each in BARE_HEADS),
            _begun("to=", rf"(?:{_RECIPIENT}(?:<(?:\|\w*+)?)?)?+\Z"),
            _begun("## Return of functions."),
            *(rf"{char}(?i:\Z|{_begun('ssistantfinal')})" for char in "aA"),
        ]
    )
    inside = rf"\s*+(?:\[\s*+|{_FENCE}\n\s*+){{0,3}}(?:\Z|{mark}|``?\Z|{_FENCE}\Z)"
    line = rf"\n{_begun_line().pattern}"
    fence = rf"`(?:`?\Z|``\w*+[ \t]*+(?:\Z|\n{inside}))"
    return re.compile(rf"{mark}|{line}|\[{inside}|{fence}", re.DOTALL)


_TAG: Final = late(r"<[^<>\n]*+(?:>|\n(?:\s{0,8}+>)?+)?+")
"""The part of a text that decides about a tag."""
_FINAL_LABEL = r"[ \t#*_]{0,8}+final[ _]answer[ \t*_]{0,4}+[:：]"
_FINAL: Final = late(_FINAL_LABEL, re.IGNORECASE)
_NEXT_FINAL: Final = late(rf"\n{_FINAL_LABEL}", re.IGNORECASE)
_MARGIN: Final = late(r"[ \t*_]{0,4}+")
_MARGIN_LONGEST: Final = 4
_BLANK: Final = late(r"\s++")
_OWN: Final = late(
    r"(?:\w{1,64}+ ?= ?(?![\s=]))?+(?:print\()?+(?:default_api\.|functions\.|tools\.)?"
    r"([\w.-]*+)\s*+[^\s=]"
)
"""The first word of an answer, which may name a tool, and the text after it."""


@lru_cache(maxsize=64)
def _signs_of(names: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Returns the patterns that find the next sign and that classify it by its group.

    A sign without a group belongs to a call, or to another role. Every choice in the first pattern
    begins with a literal, so that a search skips to the next of these in C.
    """
    words = filter(re.compile(r"[\w.-]{1,64}").fullmatch, names)
    own = "|".join(map(re.escape, words))
    kinds = {
        # It stands before the tags of some families: those tags are the marks.
        "separator": r"\]<\]\w{1,12}\[>\[",
        "open": REASONING_OPEN.pattern,
        "close": rf"{REASONING_CLOSE.pattern}|a(?i:ssistantfinal)|A(?i:ssistantfinal)",
        "message": rf"<\|(?:channel|start)\|>|to=(?<!\wto=){_RECIPIENT}<\|",
        "noise": NOISE.pattern,
        "label": rf"\n(?=(?im:{MARKED.pattern}|{FOREIGN_LINE.pattern}))",
        "object": _OBJECT.pattern,
        "call": "|".join(
            [
                *(each.pattern for each in (CALL_OPEN, CALL_CLOSE, FOREIGN, UNKNOWN)),
                _LOOSE,
                r"<(?:tool|call)(?:=|\s(?:name|tool)=)",
                rf"<(?:\w{{1,12}}[:|])?(?:{own})(?=[\s/>])",
                rf"\[\s{{0,8}}(?:{own})\(",
            ]
        ),
    }
    named = (f"(?P<{kind}>{pattern})" for kind, pattern in kinds.items())
    return re.compile("|".join(kinds.values()), re.DOTALL), re.compile("|".join(named), re.DOTALL)


class ReplyStream:
    """One reply that is still arriving.

    A state machine. Each state examines the undecided text and either waits or consumes part of it.
    A state must consume the same text, with the same result, for every possible continuation: then
    the division into pieces has no effect.

    Args:
        tools: The offered names, or their names with the JSON schemas of their parameters.

    Attributes:
        answer: The answer shown so far.
        diverged: True if more was shown than the answer: text before a call, or text that the end
            of the reply revealed as reasoning. Use the answer of the whole reply instead.

    Example:
        ```python
        from taofold.parsing import ReplyStream

        stream = ReplyStream()
        print(stream.feed("The answer "), stream.feed("is 42."), stream.close("stop"))
        ```
    """

    def __init__(self, tools: Tools = ()) -> None:
        self.diverged = False
        self._tools = tools
        self._names = tuple(dict.fromkeys((*tools, *RESERVED)))
        self._signs, self._kinds = _signs_of(self._names)
        self._pieces: list[str] = []
        self._shown: list[str] = []
        self._fresh: list[str] = []
        self._held: list[str] = []
        """Blanks, tags without content and text around objects, shown with the text after them."""
        self._text = ""
        """The text that arrived and is undecided from `_at` on."""
        self._at = 0
        self._begun = -1
        """Offset of an incomplete sign, if it was searched."""
        self._state: Callable[[], bool] = self._line
        self._angles = self._marks = 0
        self._depth = 0  # nesting of reasoning
        self._end, self._then = _NEXT_FINAL, self._line  # of the text that is skipped
        self._envelope = Envelope()

    @property
    def arrived(self) -> bool:
        """True if any text has arrived."""
        return bool(self._pieces)

    @property
    def answer(self) -> str:
        return "".join(self._shown)

    def feed(self, piece: str) -> str:
        """Takes the next piece; returns the text that it adds to the answer.

        Args:
            piece: The next piece of the reply.
        """
        self._pieces.append(piece)
        self._angles += piece.count("<")
        is_full = self._angles > ANGLES  # the whole reply will be refused as too large
        if is_full:
            piece = piece.rsplit("<", self._angles - ANGLES)[0]
        # Keeps one more character: some marks depend on the text before them.
        begin = max(0, self._at - 1)
        self._text = self._text[begin:] + piece
        self._at -= begin
        self._begun = -1
        while self._at < len(self._text) and self._state():
            pass
        if is_full:
            self._state = self._over
        fresh = "".join(self._fresh)
        self._shown += self._fresh
        self._fresh = []
        return fresh

    def close(self, finish_reason: str | None = None) -> str:
        """Ends the reply; returns the missing rest of its answer.

        Args:
            finish_reason: The provider's finish reason.
        """
        # The whole reply decides. `diverged` reports that the stream showed too much.
        reply = read_reply("".join(self._pieces), self._tools, finish_reason=finish_reason)
        final = _answer_of(reply)
        answer = self.answer
        if final is None:
            self.diverged = bool(answer)
            return ""
        if not final.startswith(answer):
            self.diverged = True
            return ""
        self._shown = [final]
        return final[len(answer) :]

    def partial(self, type_: Any) -> Parsed[Any] | Unparsed:
        """Returns the answer so far as a value, always marked `partial` and never to be executed.

        Reads the whole answer so far: call it only when drawing.

        Args:
            type_: The type of the answer.
        """
        return parse_partial(self._envelope.structured or self.answer, type_)

    @property
    def _is_begun(self) -> bool:
        """True if any of the answer was shown."""
        return bool(self._shown or self._fresh)

    def _show(self, text: str) -> None:
        """Shows text without the blanks at the edges of an answer."""
        trimmed = text.rstrip()
        if trimmed:
            body = "".join(self._held) + trimmed
            self._fresh.append(body if self._is_begun else body.lstrip())
            self._held = []
        if len(trimmed) < len(text) and (self._is_begun or self._held):
            self._held.append(text[len(trimmed) :])

    def _show_to(self, end: int) -> None:
        self._show(self._text[self._at : end])
        self._at = end

    def _limit(self, at: int) -> int:
        """Returns the offset of an incomplete sign, or the end of the text."""
        if self._begun < at:
            window = _LONGEST + _WRAP_LONGEST
            begun = _begun_sign().search(self._text, max(at, len(self._text) - window))
            self._begun = begun.start() if begun else len(self._text)
        return self._begun

    # ---- states: each returns whether the loop may continue

    def _over(self) -> bool:
        self._at = len(self._text)
        return False

    def _go_to(self, state: Callable[[], bool]) -> bool:
        self._state = state
        return True

    def _line(self) -> bool:
        """At the start of a line or of the answer: reads a label, or the name of a tool."""
        blank = _BLANK.match(self._text, self._at)
        if blank:
            self._show_to(blank.end())
            return True
        line = self._text[self._at : self._at + _LONGEST]
        is_whole = len(line) == _LONGEST
        if not is_whole and _begun_line().match(line):
            return False
        if not self._is_begun:
            # A whole reply in Python's notation, or a tool's name above its object, is a call.
            own = _OWN.match(line)
            if own is None and not is_whole:
                return False
            if own and own[1] in self._names and line[own.end() - 1] in "({":
                return self._go_to(self._over)
        if not MARKED.match(line) and not FOREIGN_LINE.match(line):
            return self._go_to(self._prose)
        final = _FINAL.match(line)
        if final is None:
            return self._skip_to(_NEXT_FINAL, self._margin)
        self._at += final.end()
        return self._go_to(self._margin)

    def _margin(self) -> bool:
        """Skips the marks of bold type after a label."""
        margin = _MARGIN.match(self._text, self._at)
        end = margin.end() if margin else self._at
        if end == len(self._text) and end - self._at < _MARGIN_LONGEST:
            return False
        self._at = end
        return self._go_to(self._prose)

    def _skip_to(self, end: re.Pattern[str], then: Callable[[], bool]) -> bool:
        self._end, self._then = end, then
        return self._go_to(self._skip)

    def _skip(self) -> bool:
        """Skips reasoning, or the lines of a thought."""
        limit = self._limit(self._at)
        end = self._end.search(self._text, self._at)
        if end is None or end.start() >= limit:
            self._at = limit
            return False
        self._at = end.end()
        self._marks += 1
        if self._marks > MARKS_MOST:
            return self._go_to(self._over)
        if end.lastindex:
            self._depth += 1  # text after the first of two closing marks may still be reasoning
        elif self._depth:
            self._depth -= 1
        else:
            self._state = self._then
        return True

    def _prose(self) -> bool:
        """Shows text up to the next sign."""
        text, at = self._text, self._at
        limit = self._limit(at)
        while (sign := self._signs.search(text, at)) and sign.start() < limit:
            at = sign.start()
            end = self._end_of_data(at)
            if end > at:
                at, limit = end, self._limit(end)
                continue
            tag = _TAG.match(text, at, at + _LONGEST)
            # The kind may depend only on the text that decides about it.
            mark = self._kinds.match(text, at, tag.end() if tag else at + _LONGEST)
            if mark is not None:
                wrap = _WRAP.search(text, max(self._at, at - _WRAP_LONGEST), at)
                if wrap and mark.lastgroup != "label":
                    self._show_to(wrap.start())
                    self._held.append(wrap[0])
                    self._at = at
                self._show_to(at)
                return self._mark(mark)
            at += 1
        self._show_to(limit)
        return False

    def _is_data(self, at: int) -> bool:
        """Returns whether an object stands at `at` that is data by its first key."""
        head = _OBJECT.match(self._text, at, at + _LONGEST)
        key = head["key"] if head else None
        return key is not None and key not in _PROTOCOL and key not in self._names

    def _end_of_data(self, at: int) -> int:
        """Returns the end of a flat data object at `at`, or `at` itself if there is none.

        An answer may be a long table: each row is read at once.
        """
        data = _BEGUN_DATA.match(self._text, at)
        if data is None or not self._is_data(at):
            return at
        char = self._text[data.end() : data.end() + 1]
        if not char or char in '"{[':
            return at
        return data.end() + (char in "}]")

    def _mark(self, mark: re.Match[str]) -> bool:
        token, end = mark[0], mark.end()
        self._marks += 1
        if self._marks > MARKS_MOST:
            return self._go_to(self._over)
        match mark.lastgroup:
            case "open":
                self._at = end
                return self._skip_to(_end_of_reasoning(closer_of(token)), self._line)
            case "close":
                # The opening mark was in the prompt: the text shown so far was reasoning.
                self.diverged = self._is_begun
                self._at = end
                return self._go_to(self._line)
            case "noise":
                self._at = end
                # A tag such as `</answer>` may belong to the answer, if more text follows it.
                is_text = not token.startswith(("<|", "<｜", "["))
                if is_text and (self._is_begun or self._held):
                    self._held.append(token)
                return self._go_to(self._prose if self._is_begun else self._line)
            case "separator":
                self._at = end
                return True
            case "label":
                self._show_to(end)
                return self._go_to(self._line)
            case "message":
                return self._go_to(self._header)
            case "object":
                self._envelope = Envelope(self._names, is_plain=self._is_data(mark.start()))
                return self._go_to(self._object)
            case _:
                return self._go_to(self._over)

    def _header(self) -> bool:
        """Reads the head of a harmony message: reasoning, the answer, or a call."""
        header = HEADER.match(self._text, self._at, self._at + _HEADER_LONGEST)
        if header is None:
            if len(self._text) - self._at < _HEADER_LONGEST:
                return False
            if self._text[self._at] == "<":
                return self._go_to(self._over)
            self._show_to(self._at + 1)
            return self._go_to(self._prose)
        recipient = RECIPIENT.search(header[0])
        name = recipient["name"] if recipient else ""
        if name and name not in TO_NOBODY:
            return self._go_to(self._over)
        self._at = header.end()
        if name == "self" or (not name and "analysis" in header[0].lower()):
            return self._skip_to(_end_of_reasoning(MESSAGE_END), self._line)
        return self._go_to(self._line)

    def _object(self) -> bool:
        """Reads an object: a decision, or data that is part of the answer."""
        self._at = self._envelope.feed(self._text, self._at)
        fresh = self._envelope.take()
        if fresh and self._envelope.is_plain:
            self._show(fresh)
        elif fresh:  # the blanks at the edges of a decision's answer belong to it
            self._fresh.append(fresh)
        if not self._envelope.ended:
            return False
        return self._go_to(self._prose if self._envelope.is_plain else self._over)


@lru_cache(maxsize=64)
def _end_of_reasoning(closer: re.Pattern[str] | None) -> re.Pattern[str]:
    """Returns a pattern for the end of reasoning, or, as a group, for reasoning nested in it."""
    end = closer.pattern if closer else "(?!)"
    return re.compile(f"({REASONING_OPEN.pattern})|{end}", re.IGNORECASE)


def _answer_of(reply: Turn | Prose | Unparsed) -> str | None:
    match reply:
        case Prose(text=text):
            return text
        case Turn(calls=(call,)) if call.tool == FINISH and not call.error:
            # Without the declared parameter, the parameters are the answer's own fields.
            value = call.parameters.get("answer", call.parameters)
            return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        case _:
            return None

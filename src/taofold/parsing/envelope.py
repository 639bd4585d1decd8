"""A JSON object that is still arriving: the answer inside a decision, or data that is the answer.

One pass, each character once; a token is looked at when it is complete. What is not JSON ends the
reading: the reader of whole replies knows more. Knows nothing about what stands around the object.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

from taofold.parsing.decision import is_decision
from taofold.parsing.keys import (
    ANSWER_KEYS,
    CALL_KEYS,
    ENVELOPE,
    FINISH,
    PARAMETER_KEYS,
    TOOL_KEYS,
)

_DECISIVE: Final = frozenset(
    {"action", "actions", "tool", "tool_calls", "thought", "tool_name", "tool_uses", "final_answer"}
)
"""Keys that no data has beside itself: the object is a decision."""
_MESSAGE: Final = frozenset({"role", "content", "refusal"})
"""Keys of a whole message of a chat, which may hold calls."""
_KEY: Final = re.compile(r'"((?:[^"\\]|\\.){0,400})"', re.DOTALL)
_BLANK: Final = re.compile(r"\s+")
_LITERAL: Final = re.compile(r"[-+.\w]{1,400}")
_BODY: Final = re.compile(r'[^"\\]+')
_ESCAPE: Final = re.compile(
    r'\\(?:["\\/bfnrt]|u(?![dD][89abAB])[0-9a-fA-F]{4}|u[dD][89abAB]..\\u[dD][c-fC-F]..)'
)
_LONGEST_ESCAPE: Final = 12
_DEPTH: Final = 100


@dataclass(slots=True)
class _Frame:
    """An open object or list: the key that is read, and the tool that it names."""

    opener: str
    key: str = ""
    tool: str | None = None
    wants_key: bool = True


class Envelope:
    """Reads one object; `lead` is what stood before it, shown with data that is the answer.

    Attributes:
        ended: Whether the object ended, or what followed was not JSON.
        is_plain: Whether the object is no decision, but data.
    """

    def __init__(self, lead: str = "") -> None:
        self.ended = False
        self.is_plain = False
        self._is_decision = False
        self._raw = [lead]
        self._frames: list[_Frame] = []
        self._fresh: list[str] = []
        self._waiting: list[str] = []  # an answer whose tool was not named yet
        self._data: list[str] = []
        self._data_depth = -1
        self._live = False  # whether the string that is read belongs to the answer
        self._in_string = False
        self._string: list[str] = []

    @property
    def structured(self) -> str:
        """The JSON text of the answer so far, if it is not a text."""
        return "".join(self._raw[1:] if self.is_plain else self._data)

    def take(self) -> str:
        """What is to be shown since the last call."""
        fresh = "".join(self._fresh)
        self._fresh = []
        return fresh

    def feed(self, text: str) -> int:
        """Reads as much of a text as is complete; returns how much that was."""
        at = 0
        while at < len(text) and not self.ended:
            used = self._string_part(text, at) if self._in_string else self._token(text, at)
            if used == 0:
                break
            self._keep(text[at : at + used])
            at += used
        if self.ended and not self._is_decision and not self.is_plain:
            self._settle()
        return at

    def _keep(self, text: str) -> None:
        if not self._is_decision or self.is_plain:
            self._raw.append(text)
        if self.is_plain:
            self._fresh.append(text)

    def _token(self, text: str, at: int) -> int:
        blank = _BLANK.match(text, at)
        if blank:
            return self._collected(blank[0])
        char = text[at]
        frame = self._frames[-1] if self._frames else None
        if char == '"' and frame and frame.opener == "{" and frame.wants_key:
            return self._key(text, at)
        if char == '"':
            return self._open_string()
        if char in "{[" and len(self._frames) < _DEPTH:
            if self._is_answer() and self._data_depth < 0:
                self._data_depth = len(self._frames)
            self._frames.append(_Frame(char))
            return self._collected(char)
        if char in "}]" and frame and frame.opener == {"}": "{", "]": "["}[char]:
            return self._close(char)
        if char == "," and frame:
            frame.wants_key = True
            return self._collected(char)
        if char == ":" and frame:
            return self._collected(char)
        literal = _LITERAL.match(text, at)
        if literal is None or literal.end() - at >= 400:
            return self._fail()
        if literal.end() == len(text):
            return 0
        if self._is_answer():
            self._data.append(literal[0])
        return len(literal[0]) if self._data_depth < 0 else self._collected(literal[0])

    def _collected(self, text: str) -> int:
        if self._data_depth >= 0:
            self._data.append(text)
        return len(text)

    def _close(self, char: str) -> int:
        self._frames.pop()
        self._collected(char)
        if len(self._frames) <= self._data_depth:
            self._data_depth = -1
        self.ended = not self._frames
        return 1

    def _key(self, text: str, at: int) -> int:
        found = _KEY.match(text, at)
        if found is None:
            return self._fail() if len(text) - at > 402 else 0
        frame = self._frames[-1]
        frame.key, frame.wants_key = found[1], False
        if len(self._frames) == 1 and not self.is_plain:
            self._is_decision = self._is_decision or frame.key in _DECISIVE
            undecided = frame.key in ENVELOPE or frame.key in CALL_KEYS or frame.key in _MESSAGE
            if not self._is_decision and not undecided:
                self._become_plain()
        return self._collected(found[0])

    def _become_plain(self) -> None:
        self.is_plain = True
        self._waiting = []
        self._fresh += self._raw

    def _open_string(self) -> int:
        self._in_string = True
        self._string = []
        self._live = self._data_depth < 0 and self._is_answer()
        return self._collected('"')

    def _string_part(self, text: str, at: int) -> int:
        body = _BODY.match(text, at)
        if body:
            self._say(body[0])
            return self._collected(body[0])
        if text[at] == '"':
            self._end_string()
            return self._collected('"')
        escape = _ESCAPE.match(text, at)
        if escape is None:
            return self._fail() if len(text) - at >= _LONGEST_ESCAPE else 0
        self._say(json.loads(f'"{escape[0]}"'))
        return self._collected(escape[0])

    def _say(self, text: str) -> None:
        frame = self._frames[-1] if self._frames else None
        if frame and frame.key in TOOL_KEYS and len(self._string) < 200:
            self._string.append(text)
        if not self._live or self.is_plain:
            return
        if self._is_known():
            self._fresh.append(text)
        else:
            self._waiting.append(text)

    def _end_string(self) -> None:
        self._in_string = self._live = False
        frame = self._frames[-1] if self._frames else None
        if frame is None or frame.opener != "{" or frame.key not in TOOL_KEYS:
            return
        frame.tool = "".join(self._string)
        if self._waiting and frame.tool == FINISH and not self.is_plain:
            self._fresh += self._waiting
        self._waiting = []

    def _is_answer(self) -> bool:
        """Whether the value that begins is the answer of a decision."""
        if self.is_plain or not self._frames or self._frames[-1].opener != "{":
            return False
        frame = self._frames[-1]
        if frame.key not in ANSWER_KEYS:
            return False
        if len(self._frames) == 1:
            return frame.tool in (None, FINISH)
        outer = self._frames[-2]
        inside = outer.key in PARAMETER_KEYS and outer.tool in (None, FINISH)
        return inside or frame.tool == FINISH

    def _is_known(self) -> bool:
        """Whether the tool of the answer that is read was named."""
        if len(self._frames) == 1:
            return self._frames[0].tool == FINISH or self._frames[0].key == "final_answer"
        return FINISH in (self._frames[-1].tool, self._frames[-2].tool)

    def _fail(self) -> int:
        self.ended = True
        return 0

    def _settle(self) -> None:
        """At its end, what an object is whose keys both data and decisions have."""
        try:
            value = json.loads("".join(self._raw[1:]), strict=False)
        except (ValueError, RecursionError):
            value = None
        self._is_decision = value is None or is_decision(value)
        if not self._is_decision:
            self._become_plain()

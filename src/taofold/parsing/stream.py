"""The answer of a reply as its text arrives: not its reasoning, its envelope or its calls.

What is shown depends on the text alone, never on how it was cut into pieces: nothing is decided
about a mark before it is complete, or too long to be one. `Envelope` reads one JSON object as it
arrives and finds out whether it is a decision or data; `ReplyStream` finds it. For display only,
never executed; `close` says what the whole reply says. Knows nothing of how a stream is received.

    stream = ReplyStream(tools)
    for piece in pieces:
        show(stream.feed(piece))
    show(stream.close("stop"))
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from taofold.parsing.decision import (
    ANSWER_KEYS,
    CALL_KEYS,
    DECISIVE,
    ENVELOPE,
    FINISH,
    PARAMETER_KEYS,
    TOOL_KEYS,
    Tools,
    is_decision,
)
from taofold.parsing.labels import DECIDING_LABELS, is_labelled
from taofold.parsing.markup.families import (
    BARE_HEADS,
    CALL_CLOSE,
    CALL_OPEN,
    FOREIGN_LABELS,
    FOREIGN_LINE,
    HEAD,
    HEADER,
    NOISE,
    REASONING_CLOSE,
    REASONING_OPEN,
    UNKNOWN,
    closer_of,
)
from taofold.parsing.outcome import Parsed, Prose, Turn, Unparsed
from taofold.parsing.reply import read_reply
from taofold.parsing.spans import ANGLES
from taofold.parsing.typed import parse_partial

_MESSAGE: Final = frozenset({"role", "content", "refusal"})
"""Keys of a whole message of a chat, which may hold calls."""
_KEY: Final = re.compile(r'"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_KEY_LONGEST: Final = 400
"""Characters of a key with its quotes: what is longer is none."""
_LOOSE_KEY: Final = re.compile(r"""['“‘`]?+([\w$-]{0,64}+)['”’`]?+\s{0,8}+(\S)""")
"""What stands where a key is due and is none of JSON's, and what follows it."""
_BLANK: Final = re.compile(r"\s+")
_LOOSE_LONGEST: Final = 80
_PROTOCOL: Final = ENVELOPE.union(DECISIVE, CALL_KEYS)
_LITERAL: Final = re.compile(r"[-+.\w]{1,400}")
_BODY: Final = re.compile(r'[^"\\]+')
_ESCAPE: Final = re.compile(
    r'\\(?:["\\/bfnrt]|u(?![dD][89abAB])[0-9a-fA-F]{4}'
    r"|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)
_LONGEST_ESCAPE: Final = 12
_NAME_LONGEST: Final = 200
_DEPTH: Final = 100


@dataclass(slots=True)
class _Frame:
    """An open object or list: the key that is read, and the tool that it names."""

    opener: str
    key: str = ""
    tool: str | None = None
    wants_key: bool = True


class Envelope:
    """Reads one object: a decision, whose answer is shown, or data, which is the answer.

    Attributes:
        ended: Whether the object ended, or what followed was not JSON.
        is_plain: Whether the object is no decision, but data.
    """

    def __init__(self) -> None:
        self.ended = False
        self.is_plain = False
        self._is_decision = False
        self._has_key = False
        self._raw: list[str] = []
        self._frames: list[_Frame] = []
        self._fresh: list[str] = []
        self._waiting: list[str] = []  # an answer whose tool was not named yet
        self._data: list[str] = []
        self._data_depth = -1
        self._live = False  # whether the string that is read belongs to the answer
        self._in_string = False
        self._name = ""  # of the tool, as far as it was read

    @property
    def structured(self) -> str:
        """The JSON text of a decision's answer so far, if it is not a text."""
        return "".join(self._data)

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
        if frame and frame.opener == "{" and frame.wants_key and char not in "{[}],":
            return self._loose_key(text, at)
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
        # It may go on in the next piece.
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
        key = _KEY.match(text, at, at + _KEY_LONGEST)
        if key is None:
            return self._fail() if len(text) - at >= _KEY_LONGEST else 0
        frame = self._frames[-1]
        frame.key, frame.wants_key = key[1], False
        self._has_key = True
        if len(self._frames) == 1 and not self.is_plain:
            self._is_decision = self._is_decision or frame.key in DECISIVE
            undecided = frame.key in ENVELOPE or frame.key in CALL_KEYS or frame.key in _MESSAGE
            if not self._is_decision and not undecided:
                self._become_plain()
        return self._collected(key[0])

    def _loose_key(self, text: str, at: int) -> int:
        """No key of JSON: prose in braces, or a decision in another notation: not shown."""
        key = _LOOSE_KEY.match(text, at)
        if key is None and len(text) - at < _LOOSE_LONGEST:
            return 0
        if key is not None and len(self._frames) == 1:
            is_comment = key[2] == "/"
            self._has_key = is_comment or (key[2] in ":：=" and key[1] in _PROTOCOL)
        return self._fail()

    def _become_plain(self) -> None:
        self.is_plain = True
        self._waiting = []
        self._fresh += self._raw

    def _open_string(self) -> int:
        self._in_string = True
        self._name = ""
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
        if frame and frame.key in TOOL_KEYS:
            self._name = (self._name + text)[:_NAME_LONGEST]
        if not self._live or self.is_plain:
            return
        if self._is_known():
            self._decide(text)
        else:
            self._waiting.append(text)

    def _end_string(self) -> None:
        self._in_string = self._live = False
        frame = self._frames[-1] if self._frames else None
        if frame is None or frame.opener != "{" or frame.key not in TOOL_KEYS:
            return
        frame.tool = self._name
        # The answer came before the name of its tool. Of another tool it was a parameter: dropped.
        if self._waiting and frame.tool == FINISH and not self.is_plain:
            self._decide(*self._waiting)
        self._waiting = []

    def _decide(self, *answer: str) -> None:
        """What was shown as the answer of a decision is never shown again as data."""
        self._is_decision = True
        self._fresh += answer

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
            value = json.loads("".join(self._raw), strict=False)
        except (ValueError, RecursionError):
            self._is_decision = self._has_key  # without one it is a word in braces
        else:
            self._is_decision = is_decision(value)
        if not self._is_decision:
            self._become_plain()


_LONGEST: Final = 128
"""No mark is longer; what is longer is text."""
_HEADER_LONGEST: Final = 300
_LINE_LONGEST: Final = 192
"""The most of a line that is looked at for its label."""
_STRETCH: Final = 1024
"""Characters of a piece that are looked at together."""
_SIGN: Final = re.compile(r"[<\[\]◁]|\n+|\{+")
"""What may begin a mark, and the ends of lines."""
_ROW: Final = re.compile(r"\[+(?=\[)|\]+(?=\])|◁+(?=◁)")
"""Signs before another one of their kind: these begin no mark."""
_ENDS: Final = {
    "<": re.compile(r"<(?:\s|[^>\n]*+[>\n])"),
    "[": re.compile(r"[^\]\n]*+[\]\n]"),
    "◁": re.compile(r"[^▷\n]*+[▷\n]"),
}
"""Where a mark ends, by its first character, or can be none."""
_LABELS: Final = (*DECIDING_LABELS, *FOREIGN_LABELS)
"""What the first word of a line may be, if the line is more than prose."""
_LABEL_END: Final = re.compile(
    r"[^:：\n\[(]*+(?:[:：\n]"
    r"|[\[(](?:[^\])\n]{0,40}+[\])][^:：\n]*+[:：\n]|[^\])\n]{41}|[^\])\n]{0,40}+\n))"
)
"""Where it is certain whether a line is labelled: not at a colon in the bracket of a label."""
_INDENT: Final = re.compile(r"[ \t]+")
_LEAD: Final = re.compile(r"[ \t#*_>\d.)-]{0,12}+")
"""What may stand before the label of a line; the longest is longer than a label may have."""
_WORD_LONGEST: Final = max(map(len, _LABELS))
_FINAL: Final = re.compile(r"[ \t#*_]{0,8}final[ _]answer[ \t*_]{0,4}[:：]", re.IGNORECASE)
_FINAL_LONGEST: Final = 32
_MARGIN: Final = re.compile(r"[ \t*_]{0,4}+")
_MARGIN_LONGEST: Final = 4
_HEAD: Final = f"(?:{'|'.join(map(re.escape, BARE_HEADS))})[\\w.-]*+"
_HEAD_RUN: Final = re.compile(rf"{_HEAD}\s*+")
"""The beginning of a call without a mark of its own at the start of a line."""
_LINE_END: Final = re.compile(r"[^\n]*+\n")
_LIST: Final = re.compile(r"\[\s{0,40}+")
_LIST_LONGEST: Final = 41
_HEADED: Final = re.compile(rf"{_HEAD}[ \t]*+\Z")
"""The same in the midst of a line, before its bracket."""
_OWN: Final = re.compile(
    r"(?:\w{1,64}+ ?= ?(?![\s=]))?+(?:print\()?+(?:default_api\.|functions\.|tools\.)?"
    r"([\w.-]*+)\s*+[^\s=]"
)
"""The first word of an answer, which may name a tool, and what follows it."""
_TAIL: Final = 160
_FENCE: Final = re.compile(r"```\w*[ \t]*\n")
_NAMED: Final = re.compile(r"<([\w.-]+)(?:\s[^<>\n]*+)?/?>|\[\s*([\w.]+)\(")
"""What opens a call only if it names a tool on offer."""
_SPACE: Final = re.compile(r"\](?:<(?:\](?:\w{1,12}(?:\[(?:>(\[)?)?)?)?)?)?")
"""A separator token as far as it has come; the group is there when it is whole."""
_HARMONY: Final = ("<|channel|>", "<|start|>")
_HARMONY_CLOSE: Final = re.compile(r"<\|(?:end|eom)\|>|(?=<\|(?:channel|start)\|>)")
"""A lookahead: the next head is read as one, not stepped over."""


@cache
def _mark_of_any_kind() -> re.Pattern[str]:
    """What may be more than a sign: most signs are none, and are passed over after one look."""
    kinds = (_NAMED, REASONING_OPEN, REASONING_CLOSE, NOISE, CALL_OPEN, CALL_CLOSE, HEAD, UNKNOWN)
    patterns = [*(each.pattern for each in kinds), *map(re.escape, _HARMONY)]
    return re.compile("|".join(patterns))


def _settled(text: str, end: re.Pattern[str], longest: int) -> str | None:
    """The beginning of a text that `end` matches, or the `longest`; `None` if either is to come.

    `end` must match the same in a text and in all that goes on like it: then so does this.
    """
    match = end.match(text, 0, longest)
    if match is not None:
        return text[: match.end()]
    return text[:longest] if len(text) >= longest else None


class ReplyStream:
    """One reply that is still arriving.

    A machine of states. Each looks at the beginning of what arrived and was not decided, and
    either waits or takes some of it away. What it takes away, and what it makes of it, must be
    the same for every text that goes on like this one: so it may look at a stretch that has
    settled (`_settled`), never at how far the text has come. Then the pieces make no difference.

    Attributes:
        answer: What was shown of the answer so far.
        diverged: Whether more was shown than the answer: the words before a call, or what only
            the end of the text made reasoning. Then take the answer of the whole reply instead.
    """

    def __init__(self, tools: Tools = ()) -> None:
        self.diverged = False
        self._tools = tools
        self._pieces: list[str] = []
        self._shown: list[str] = []
        self._fresh: list[str] = []
        self._held: list[str] = []
        """Blanks, tags that say nothing and the first lines of fences: shown with what follows."""
        self._rest: str = ""
        """What arrived and was not decided."""
        self._indent: str = ""
        self._tail: str = ""
        """The end of the text that stands before the next sign, on its line."""
        self._state: Callable[[], bool] = self._line
        self._angles = 0
        self._depth = 0  # of reasoning in reasoning
        self._closer: re.Pattern[str] | None = None
        self._envelope = Envelope()

    @property
    def arrived(self) -> bool:
        """Has any text come yet?"""
        return bool(self._pieces)

    @property
    def answer(self) -> str:
        return "".join(self._shown)

    def feed(self, piece: str) -> str:
        """Takes the next piece; returns what it adds to the answer."""
        self._pieces.append(piece)
        # A state cuts what it decided off the rest: of a whole reply that would be a copy a mark.
        for at in range(0, len(piece), _STRETCH):
            self._rest += piece[at : at + _STRETCH]
            while self._rest and self._state():
                pass
        return self._take()

    def close(self, finish_reason: str | None = None) -> str:
        """The end of the reply; returns what is missing of the answer that it gives."""
        # The whole reply decides. The stream only hurried ahead, and says so if it was wrong.
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
        """The value that the answer shows so far; always marked `partial`, never to be executed.

        Reads all that arrived of the answer: call it when something is to be drawn.
        """
        return parse_partial(self._envelope.structured or self.answer, type_)

    def _take(self) -> str:
        fresh = "".join(self._fresh)
        self._shown += self._fresh
        self._fresh = []
        return fresh

    @property
    def _is_begun(self) -> bool:
        """Whether any of the answer was shown."""
        return bool(self._shown or self._fresh)

    def _show(self, text: str) -> None:
        """Shows text; blanks at the edges of an answer are none of it."""
        trimmed = text.rstrip()
        if trimmed:
            body = "".join(self._held) + trimmed
            self._fresh.append(body if self._is_begun else body.lstrip())
            self._held = []
        if len(trimmed) < len(text) and (self._is_begun or self._held):
            self._held.append(text[len(trimmed) :])

    def _advance(self, count: int) -> None:
        self._show(self._rest[:count])
        self._rest = self._rest[count:]

    def _pass_on(self, count: int) -> None:
        """Shows text that holds no sign."""
        self._tail = (self._tail + self._rest[max(0, count - _TAIL) : count])[-_TAIL:]
        self._advance(count)

    # ---- states: each returns whether it took anything away

    def _over(self) -> bool:
        self._rest = ""
        return False

    def _stop(self) -> bool:
        self._state = self._over
        return True

    def _line(self) -> bool:
        """Looks for what stands at the start of a line: a label, an object or a fence around it."""
        indent = _INDENT.match(self._rest)
        if indent:
            self._indent = (self._indent + indent[0])[:_FINAL_LONGEST]
            self._advance(indent.end())
            return True
        char = self._rest[0]
        if char == "{":
            return self._begin_object()
        if char == "`":
            return self._fence()
        if char == "[":
            return self._list()
        if char == "]":
            return self._separator()
        if char in _ENDS:
            return self._mark(char)
        if not self._is_begun:
            # A whole reply in Python's notation, or a tool's name over its object, is a call.
            first = _settled(self._rest, _OWN, _LONGEST)
            if first is None:
                return False
            own = _OWN.match(first)
            if own and own[1] in self._tools and first[-1] in "({":
                return self._stop()
        is_head = self._is_head()
        if is_head is None:
            return False
        return self._stop() if is_head else self._label()

    def _fence(self) -> bool:
        """Holds the first line of a fence back: an object may follow, and be a decision."""
        begin = self._rest[:3]
        if "```".startswith(begin) and len(begin) < 3:
            return False
        line = _settled(self._rest, _LINE_END, _LONGEST) if begin == "```" else ""
        if line is None:
            return False
        if _FENCE.fullmatch(line) is None:
            return self._begin_prose()
        if CALL_OPEN.match(line):
            return self._stop()
        self._held.append(line)
        self._rest = self._rest[len(line) :]
        self._indent = ""
        return True

    def _list(self) -> bool:
        """Holds the bracket of a list back: its first object may be a decision."""
        bracket = _LIST.match(self._rest)
        end = bracket.end() if bracket else 0
        if end == len(self._rest) < _LIST_LONGEST:
            return False
        if self._rest[end : end + 1] != "{":
            return self._mark("[")
        self._held.append(self._rest[:end])
        self._rest = self._rest[end:]
        return True

    def _is_head(self) -> bool | None:
        """Whether a call begins here without a mark of its own; `None` if that is to come."""
        if not self._rest.startswith(BARE_HEADS):
            return None if any(head.startswith(self._rest) for head in BARE_HEADS) else False
        text = self._rest[:_LONGEST]
        run = _HEAD_RUN.match(text)
        end = run.end() if run else 0
        if end == len(text) < _LONGEST:
            return None
        return CALL_OPEN.match(text[: end + 1]) is not None

    def _label(self) -> bool:
        text = (self._indent + self._rest[:_LINE_LONGEST])[:_LINE_LONGEST]
        lead = _LEAD.match(text)
        word = text[lead.end() if lead else 0 :][:_WORD_LONGEST].lower()
        if not word.startswith(_LABELS):
            may_begin = any(label.startswith(word) for label in _LABELS)
            return not may_begin and self._begin_prose()
        line = _settled(text, _LABEL_END, _LINE_LONGEST)
        if line is None:
            return False
        if not is_labelled(line) and not FOREIGN_LINE.match(line):
            return self._begin_prose()
        final = _FINAL.match(line)
        if final is None:
            self._state = self._skipped_line
            return True
        return self._final(final.end() - len(self._indent))

    def _begin_object(self) -> bool:
        self._envelope = Envelope()
        self._state = self._object
        return True

    def _begin_prose(self) -> bool:
        self._state = self._prose
        return True

    def _labelled(self) -> bool:
        """Steps over the lines of a thought up to a final answer."""
        line = _settled(self._rest, _LINE_END, _FINAL_LONGEST)
        if line is None:
            return False
        final = _FINAL.match(line)
        if final is not None:
            return self._final(final.end())
        self._state = self._skipped_line
        return True

    def _skipped_line(self) -> bool:
        _, end, self._rest = self._rest.partition("\n")
        if end:
            self._state = self._labelled
        return bool(end)

    def _final(self, end: int) -> bool:
        """Steps over the label of a final answer."""
        self._rest = self._rest[end:]
        self._state = self._margin
        return True

    def _margin(self) -> bool:
        """Steps over the marks of bold type behind a label."""
        margin = _MARGIN.match(self._rest)
        end = margin.end() if margin else 0
        if end == len(self._rest) < _MARGIN_LONGEST:
            return False
        self._rest = self._rest[end:]
        return self._begin_prose()

    def _prose(self) -> bool:
        sign = _SIGN.search(self._rest)
        if sign is None:
            self._pass_on(len(self._rest))
            return False
        if sign.start():
            self._pass_on(sign.start())
            return True
        tail, self._tail = self._tail, ""
        char = sign[0][0]
        if tail and char in "[{" and _HEADED.search(tail):
            return self._stop()
        row = _ROW.match(self._rest)
        if row:
            self._advance(row.end())
            return True
        if char == "]":
            return self._separator()
        if char in _ENDS:
            return self._mark(char)
        if char == "{":
            return self._begin_object()
        self._advance(sign.end())
        self._indent = ""
        self._state = self._line
        return True

    def _mark(self, char: str) -> bool:
        """A mark, or a sign that only looks like the beginning of one."""
        text = self._rest
        token = _settled(text, _ENDS[char], _LONGEST)
        if token is None:
            return False
        token = token.removesuffix("\n")
        if _mark_of_any_kind().match(token) is None:
            return self._pass_over()
        if token.startswith(_HARMONY):
            return self._header()
        if REASONING_OPEN.fullmatch(token):
            self._rest = text[len(token) :]
            self._closer = closer_of(token)
            self._state = self._reasoning
        elif REASONING_CLOSE.fullmatch(token):
            # The opening mark was left to the prompt: what was shown so far was reasoning.
            self.diverged = self._is_begun
            self._rest = text[len(token) :]
            self._state = self._line
        elif NOISE.fullmatch(token):
            self._rest = text[len(token) :]
            # A tag such as `</answer>` may be the answer's own, if more text follows it.
            is_text = not token.startswith(("<|", "<｜", "["))
            if is_text and (self._is_begun or self._held):
                self._held.append(token)
        elif self._is_of_a_call(token):
            return self._stop()
        else:
            return self._pass_over()
        return True

    def _separator(self) -> bool:
        """Drops a token that stands before the tags of some families: they are the marks."""
        token = _SPACE.match(self._rest)
        if token is None:
            return self._pass_over()
        if token.end() == len(self._rest):
            return False
        if not token[1]:
            return self._pass_over()
        self._rest = self._rest[token.end() :]
        return True

    def _pass_over(self) -> bool:
        """Shows a sign that begins no mark, and what follows it up to the next one."""
        self._angles += self._rest[0] == "<"
        if self._angles > ANGLES:  # the whole reply will be refused as too large
            return self._stop()
        self._advance(1)
        sign = _SIGN.search(self._rest)
        self._pass_on(sign.start() if sign else len(self._rest))
        return self._begin_prose()

    def _is_of_a_call(self, token: str) -> bool:
        named = _NAMED.match(token)
        if named and (named[1] or named[2]) in self._tools:
            return True
        return any(each.match(token) for each in (CALL_OPEN, CALL_CLOSE, HEAD, UNKNOWN))

    def _header(self) -> bool:
        """The head of a message of harmony: reasoning, the answer, or a call."""
        header = HEADER.match(self._rest, 0, _HEADER_LONGEST)
        if header is None:
            return len(self._rest) >= _HEADER_LONGEST and self._stop()
        head = header[0].lower()
        if "to=" in head:
            return self._stop()
        self._rest = self._rest[header.end() :]
        if "analysis" in head:
            self._closer = _HARMONY_CLOSE
            self._state = self._reasoning
        return True

    def _reasoning(self) -> bool:
        closer = self._closer.search(self._rest) if self._closer else None
        opener = REASONING_OPEN.search(self._rest)
        if opener and (closer is None or opener.start() < closer.start()):
            self._depth += 1  # what follows the first of two closing marks may be thought as well
            self._rest = self._rest[opener.end() :]
            return True
        if closer is None:
            # As much as the closing mark may have begun with; reasoning may be long.
            self._rest = self._rest[-_LONGEST:]
            return False
        self._rest = self._rest[closer.end() :]
        if self._depth:
            self._depth -= 1
            return True
        self._indent = ""
        self._state = self._line
        return True

    def _object(self) -> bool:
        """An object: a decision, or data that is a part of the answer."""
        used = self._envelope.feed(self._rest)
        self._rest = self._rest[used:]
        fresh = self._envelope.take()
        if fresh and self._envelope.is_plain:
            self._show(fresh)
        elif fresh:  # the blanks at the edges of a decision's answer are its own
            self._fresh.append(fresh)
        if not self._envelope.ended:
            return False
        return self._begin_prose() if self._envelope.is_plain else self._stop()


def _answer_of(reply: Turn | Prose | Unparsed) -> str | None:
    match reply:
        case Prose(text=text):
            return text
        case Turn(calls=(call,)) if call.tool == FINISH and not call.error:
            value = call.parameters.get("answer")
            return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        case _:
            return None

"""Reads one JSON-like value, however badly written, in one pass with an explicit stack.

It invents nothing silently: each departure from JSON is a repair, containers that only the end
of the text closed are listed, and a text that ends inside a token is `cut`. Knows nothing about
types beyond the key names that steer it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, cast

from taofold.parsing.outcome import Level, Repair
from taofold.parsing.quoting import BLANK, CLOSING, MARK, TRIPLE, Quoting, Role
from taofold.parsing.scalar import LITERALS, MISSING, number_of, unescape
from taofold.parsing.shape import Plan

DEPTH = 100
"""The deepest nesting that is read; deeper text is refused as too large."""
_KEY_LENGTH = 200
_CLOSER = {"{": "}", "[": "]", "(": ")"}
_BARE_KEY = re.compile(r"[\w$][\w$.-]{0,63}+")
_STOP = re.compile(r"""[,，;}\])\n"]|\s(?://|\#)|/\*|</|<\||```""")
_TOKEN = re.compile(r"[-+.\w]++(?=\s*+[,}\])\n<`])")


@dataclass(slots=True)
class Reading:
    """One value with the way it was read.

    Attributes:
        end: Offset after the value; where reading stopped when `failed`.
        open: The containers that the end of the text closed, by identity.
        cut: Whether the text ended inside a token, or where a value was due.
        deep: Whether it was given up because of its nesting.
        failed: Whether this is no value at all.
    """

    value: Any = None
    end: int = 0
    repairs: list[Repair] = field(default_factory=lambda: cast("list[Repair]", []))
    open: list[Any] = field(default_factory=lambda: cast("list[Any]", []))
    cut: bool = False
    deep: bool = False
    failed: bool = False


@dataclass(slots=True)
class _Frame:
    container: Any
    closer: str
    key: str = ""
    filled: bool = False  # a value stands since the last comma
    due: bool = False  # a key was read, its value is due


class _End(Exception):
    """The text ended inside a token."""


class Reader:
    """Reads values out of one text; make one for each text."""

    def __init__(self, text: str, plan: Plan) -> None:
        self._text = text
        self._quoting = Quoting(text, plan.names, plan.open)
        self._out = Reading()
        self.furthest = 0

    def read(self, start: int, virtual: bool = False) -> Reading:
        """Reads the container whose opener stands at `start` (`virtual`: an object without one)."""
        out = self._out = Reading()
        text = self._text
        opener = "{" if virtual else text[start]
        self._quoting.calls = opener == "("
        root = _Frame([] if opener == "[" else {}, _CLOSER[opener])
        out.value = root.container
        stack = [root]
        at = start if virtual else start + 1
        try:
            while stack:
                frame = stack[-1]
                at = self._blank(at)
                if at >= len(text):
                    out.cut = frame.due or (not frame.filled and bool(frame.container or not virtual))
                    out.open = [each.container for each in stack]
                    break
                char = text[at]
                if char in "}])" and not frame.due:
                    at = self._close(stack, char, at)
                elif frame.filled and MARK.match(text, at):
                    self._note("missing_closer", at, content=True, cost=3)
                    break
                elif char in ",，;":
                    if frame.due:
                        raise ValueError
                    if not frame.filled:
                        self._note("extra_comma", at)
                    elif char != ",":
                        self._note("foreign_comma", at)
                    frame.filled = False
                    at += 1
                elif frame.closer == "]" or frame.due:
                    at = self._value(stack, at)
                else:
                    at = self._key(frame, at)
                if len(stack) > DEPTH:
                    out.deep = out.failed = True
                    break
        except _End:
            out.cut = True
            out.open = [each.container for each in stack]
            at = len(text)
        except ValueError:
            out.failed = True
        out.end = max(at, start + 1)
        return out

    def _note(
        self, kind: str, at: int, level: Level = "syntax", content: bool = False, cost: int = 1
    ) -> None:
        if len(self._out.repairs) < 100:
            self._out.repairs.append(Repair(kind, level, content, at, "", cost))

    def _blank(self, at: int) -> int:
        text = self._text
        while True:
            found = BLANK.match(text, at)
            at = found.end() if found else at
            char = text[at : at + 1]
            if char == "#" or (char == "/" and text.startswith("//", at)):
                end = text.find("\n", at)
                self._note("comment", at)
                at = len(text) if end < 0 else end
            elif char == "/" and text.startswith("/*", at):
                end = text.find("*/", at + 2)
                if end < 0:
                    raise _End
                self._note("comment", at)
                at = end + 2
            elif char == "…" or (char == "." and text.startswith("...", at)):
                self._note("ellipsis", at, content=True, cost=4)
                at += 1 if char == "…" else 3
            else:
                return at

    def _close(self, stack: list[_Frame], char: str, at: int) -> int:
        frame = stack[-1]
        if char != frame.closer:
            if not any(each.closer == char for each in stack):
                self._note("stray_closer", at, cost=2)
                return at + 1
            self._note("missing_closer", at, content=True, cost=3)
            stack.pop()
            return at
        if not frame.filled and frame.container:
            self._note("trailing_comma", at)
        stack.pop()
        return at + 1

    def _key(self, frame: _Frame, at: int) -> int:
        text = self._text
        if frame.filled:
            self._note("missing_comma", at)
        char = text[at]
        if char == "{" and not frame.container and not frame.filled:
            self._note("doubled_brace", at)
            return at + 1
        if char in CLOSING:
            self._quoting.python = self._quoting.python or char == "'"
            key, at = self._string(at, "key")
        else:
            bare = _BARE_KEY.match(text, at)
            if bare is None:
                raise ValueError
            key, at = bare[0], bare.end()
            self._quoting.bare_keys = True
            if frame.closer == "}":
                self._note("unquoted_key", bare.start())
        at = self._blank(at)
        char = text[at : at + 1]
        if not char:
            raise _End
        if char not in ":：=":
            raise ValueError
        if char != ":" and frame.closer == "}":
            self._note("foreign_colon", at)
        at += 2 if text.startswith("=>", at) else 1
        frame.key, frame.due = key, True
        return at

    def _value(self, stack: list[_Frame], at: int) -> int:
        text = self._text
        frame = stack[-1]
        if frame.closer == "]" and frame.filled:
            self._note("missing_comma", at)
        char = text[at]
        if char in "{[":
            child: Any = {} if char == "{" else []
            self._put(frame, child, at)
            stack.append(_Frame(child, _CLOSER[char]))
            return at + 1
        start = at
        value: Any
        if char in CLOSING:
            value, at = self._string(at, "item" if frame.closer == "]" else "member")
            at, value = self._joined(at, value, frame)
        elif char == "(":
            inner = self._blank(at + 1)
            if text[inner : inner + 1] not in ('"', "'"):
                raise ValueError
            self._quoting.calls = True
            value, at = self._string(inner, "item")
            at, value = self._joined(at, value, frame, adjacent=True)
            at = self._blank(at)
            if text[at : at + 1] != ")":
                raise ValueError
            at += 1
        else:
            value, at = self._bare(at, frame)
        self._put(frame, value, start)
        return at

    def _put(self, frame: _Frame, value: Any, at: int) -> None:
        if frame.closer == "]":
            frame.container.append(value)
        else:
            known = frame.container.get(frame.key, MISSING)
            if known is not MISSING and known != value:
                self._note("duplicate_key", at, content=True, cost=5)
            frame.container[frame.key] = value
        frame.filled, frame.due = True, False

    def _joined(self, at: int, value: str, frame: _Frame, adjacent: bool = False) -> tuple[int, str]:
        """Follows `"a" + "b"`, and inside parentheses `"a" "b"`."""
        text = self._text
        parts = [value]
        while True:
            ahead = self._blank(at)
            char = text[ahead : ahead + 1]
            joined = self._quoting.is_adjacent(at, ahead) and not self._quoting.is_key(ahead)
            if char == "+":
                ahead = self._blank(ahead + 1)
                char = text[ahead : ahead + 1]
            elif not adjacent and not (joined and frame.closer != "]"):
                break
            if char not in ('"', "'"):
                break
            self._note("joined_strings", ahead, content=True, cost=2)
            part, at = self._string(ahead, "item" if frame.closer == "]" or adjacent else "member")
            parts.append(part)
        return at, "".join(parts)

    def _string(self, at: int, role: Role) -> tuple[str, int]:
        text = self._text
        quote = text[at]
        triple = text[at : at + 3]
        if triple in TRIPLE and (role != "key") and text.find(triple, at + 3) >= 0:
            return self._triple(at, triple)
        if quote not in '"\x02':
            self._note("foreign_quotes", at)
        closing = CLOSING[quote]
        begin = position = at + 1
        stop = _STOPS[quote]
        dirty = False
        while True:
            found = stop.search(text, position)
            if found is None:
                return self._unclosed(begin, role)
            position = found.end()
            if role == "key" and position - begin > _KEY_LENGTH:
                self.furthest = max(self.furthest, position)
                raise ValueError
            if found[0][0] == "\\":
                continue
            if found[0] not in closing:
                continue
            if quote == "\x02" or self._quoting.closes(position, role, dirty, begin):
                return self._body(begin, position - 1, dirty), position
            if role == "member" and self._lost_quote(begin, position - 1):
                body = text[begin : position - 1].rstrip().removesuffix(",")
                self._note("missing_quote", position - 1, content=True, cost=3)
                return unescape(body)[0], begin + len(body)
            dirty = True

    def _lost_quote(self, begin: int, at: int) -> bool:
        """Whether the quote at an offset opens the next key, the string having lost its own."""
        before = self._text[max(begin, at - 80) : at].rstrip(" \t")
        return before[-1:] in (",", "\n") and self._quoting.is_known_key(at)

    def _body(self, begin: int, end: int, dirty: bool) -> str:
        body = self._text[begin:end]
        if dirty:
            self._note("unescaped_quotes", begin, content=True, cost=2)
        if "\n" in body:
            self._note("raw_newline", begin)
        value, clean = unescape(body)
        if not clean:
            self._note("escape", begin, content=True)
        return value

    def _triple(self, at: int, triple: str) -> tuple[str, int]:
        end = self._text.index(triple, at + 3)
        body = self._text[at + 3 : end]
        self._note("triple_quotes", at)
        if triple == "```":
            first, newline, rest = body.partition("\n")
            body = rest if newline and first.strip().isalnum() else body
            return body, end + 3
        return body, end + 3

    def _unclosed(self, begin: int, role: Role) -> tuple[str, int]:
        """A string without end: cut off, unless raw lines of closers alone follow its line."""
        text = self._text
        line = text.find("\n", begin)
        mark = MARK.search(text, max(line, begin)) if line >= 0 else None
        end = mark.start() if mark else len(text)
        if role != "key" and line >= 0 and end - line < 400:
            head = text[begin:line].rstrip()
            body = head.rstrip("}]").rstrip()
            if mark and text[end:].strip().strip("`~"):
                raise _End
            balanced = all(body.count(a) <= body.count(b) for a, b in ("{}", "[]"))
            tail = text[begin + len(body) : end]
            if balanced and body and "\n" in tail and tail.strip() and not tail.strip("}] \t\r\n"):
                self._note("missing_quote", begin + len(body), content=True, cost=3)
                return unescape(body)[0], begin + len(body)
        raise _End

    def _bare(self, at: int, frame: _Frame) -> tuple[Any, int]:
        text = self._text
        token = _TOKEN.match(text, at)
        if token is not None:
            value = self._literal(token[0], at)
            if value is not MISSING:
                return value, token.end()
        position = at
        while True:
            found = _STOP.search(text, position)
            if found is None:
                word = text[at:].strip()
                if word not in LITERALS:
                    raise _End
                return self._literal(word, at), len(text)
            position = found.end()
            char = found[0]
            if char == '"':
                role: Role = "item" if frame.closer == "]" else "member"
                if self._quoting.closes(position, role, True, at):
                    self._note("missing_quote", at, content=True, cost=3)
                    return text[at : position - 1].strip(), position
                continue
            if char in ",，;" and frame.closer != "]" and not self._ends_member(position):
                continue
            break
        end = found.start()
        word = text[at:end].strip()
        if not word:
            raise ValueError
        value = self._literal(word, at)
        if value is MISSING:
            value = word
            self._note("unquoted_text", at, cost=2)
        return value, end

    def _ends_member(self, at: int) -> bool:
        rest = self._text[at : at + 80].lstrip()
        return not rest or rest[0] in "}])" or self._quoting.is_key(at)

    def _literal(self, word: str, at: int) -> Any:
        value: Any
        if word in LITERALS:
            if word not in ("true", "false", "null"):
                self._note("foreign_literal", at)
            return LITERALS[word]
        value, plain = number_of(word)
        if value is not MISSING and not plain:
            self._note("number_format", at)
        return value


_STOPS = {
    quote: re.compile(rf"\\.|[{re.escape(closing)}]", re.DOTALL)
    for quote, closing in CLOSING.items()
}

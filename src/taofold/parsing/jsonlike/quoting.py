"""Decides where a quoted string ends if its inner quotes are not escaped.

The evidence is the text after a quote: a separator, a closer, or a key of the schema. Every
decision reads a bounded stretch of text. `unescaped` handles the opposite mistake, JSON that was
quoted twice. Knows nothing about values.
"""

from __future__ import annotations

import json
from collections.abc import Set
from typing import Any, Literal

from taofold.core.late_patterns import late
from taofold.parsing.schema.reading_plan import fold

Role = Literal["key", "member", "item"]

CLOSING = {
    '"': '"',
    "'": "'",
    "`": "`",
    "“": '”“"',
    "‘": "’‘'",
    "„": '”“"',
    "«": "»",
}
"""The characters that may close a string, by the quote that opened it."""
TRIPLE = ('"""', "'''", "```")
BLANK = late(r"[\s\ufeff\u200b\u2060]*+")
KEY = late(
    r"""[\s\ufeff\u200b]*+(?:"((?:[^"\\\n]|\\.){0,400}+)"|'((?:[^'\\\n]|\\.){0,400}+)'"""
    r"|[“‘`]([^“”‘’`\n]{0,400}+)[”’`]|([\w$][\w$.-]{0,63}+))"
    r"[\s\u200b]*+(?:[:：]|=>?(?!=))"
)
MARK = late(r"```|~~~|</|<\||<｜|\[/|<tool_call\|>|\]<\]|<end_of_turn>")
_CLOSERS = late(r"[\s}\])]*+")
_EVIDENCE = frozenset("\"'“}]),，;:：=+/#`~<[{")
"""Without a line break, a string has ended only if the next text begins with one of these."""
_COMMENT = late(r"//|/\*|#")
_ITEM = late(r"""\s*+(?:["'“‘`\[{\]\d,-]|true\b|false\b|null\b|None\b|True\b|False\b|$)""")


def after_blank(text: str, at: int) -> int:
    """Returns the offset after the blanks at `at`."""
    blank = BLANK.match(text, at)
    return blank.end() if blank else at


class Quoting:
    """The evidence about one text: the known keys, and whether keys are written without quotes."""

    def __init__(self, text: str, names: Set[str], free: bool) -> None:
        self._text = text
        self._names = names
        self._free = free
        self.bare_keys = False
        self.python = False
        self.calls = False
        self._last = -1

    def is_key(self, at: int, strict: bool = False) -> bool:
        """Returns whether a key with its colon stands at `at`; if `strict`, one that the schema
        declares.
        """
        key = KEY.match(self._text, at)
        if key is None:
            return False
        # A word and a colon are common in prose. They are a key only if other keys had no quotes,
        # or if the schema declares the word.
        if key[4] is not None:
            return self.bare_keys or fold(key[4]) in self._names
        if not strict or self._free:
            return True
        return fold(next(each for each in key.groups() if each is not None)) in self._names

    def is_known_key(self, at: int) -> bool:
        """Returns whether the quote at `at` opens a declared key; without a schema, any one-word
        key.
        """
        key = KEY.match(self._text, at)
        if key is None or key[4] is not None:
            return False
        name = next(each for each in key.groups() if each is not None)
        return fold(name) in self._names or (not self._names and name.isidentifier())

    def is_adjacent(self, after: int, at: int) -> bool:
        """Returns whether another string follows on a new line, which Python would join."""
        return (
            self.python and self._text[at : at + 1] in ('"', "'") and "\n" in self._text[after:at]
        )

    def closes(self, after: int, role: Role, dirty: bool, start: int) -> bool:
        """Returns whether the quote that ends before `after` closes the string begun at `start`."""
        text = self._text
        at = after + (text[after : after + 1] == " ")
        # This decides nearly every quote of a long text that is full of quotes.
        if text[at : at + 1].isalnum():
            return False
        at = after_blank(text, at)
        char = text[at : at + 1]
        if char and char not in _EVIDENCE and "\n" not in text[after:at]:
            return False
        if not char:  # an inner quote may be the last character before the text was cut
            return not dirty and not self.python and text[after - 2] not in " \t(=:[{\"'"
        if role == "key":
            return char in ":：="
        if char in "}])":
            if char == ")" and not self.calls:
                return False
            return not dirty or self._closers(at, start, after)
        if char in ",，;":
            return self._continues(at + 1, role, dirty)
        if char == "+":
            return text[at + 1 : at + 40].lstrip()[:1] in ('"', "'", "(")
        if _COMMENT.match(text, at) or MARK.match(text, at):
            return True
        if role == "member":
            # If the comma is missing, the next key must have a quote or stand on a new line.
            if char not in "\"'“" and "\n" not in text[after:at]:
                return False
            return self.is_key(at, dirty) or (not dirty and self.is_adjacent(after, at))
        return char in "\"'“{[" and at > after

    def _continues(self, at: int, role: Role, dirty: bool) -> bool:
        """Returns whether the next member or item follows a comma."""
        if role == "member":
            if self.is_key(at, dirty):
                return True
            at = after_blank(self._text, at)
            if _COMMENT.match(self._text, at) or self._text.startswith(("...", "…", ","), at):
                return True
            return self._text[at : at + 1] in ("", "}", "]")
        item = _ITEM.match(self._text, at)
        if item is None:
            return _COMMENT.match(self._text[at : at + 40].lstrip()) is not None and not dirty
        return True

    def _closers(self, at: int, start: int, after: int) -> bool:
        """Returns whether closers after an inner quote belong to the structure."""
        text = self._text
        # Bounded: otherwise a long string full of quotes would be copied once per quote.
        body = text[start:after] if after - start < 4000 else text[after - 4000 : after]
        opener = "{" if text[at] == "}" else "[" if text[at] == "]" else "("
        inner = [body.find(opener + each) for each in ('"', "'", ' "')]
        # `"say {"a": 1} now"`: the closer matches an object that opened inside the string.
        nested = body[min((each for each in inner if each >= 0), default=len(body)) :]
        if nested.count(opener) > nested.count(text[at]):
            return False
        run = _CLOSERS.match(text, at)
        end = run.end() if run else at
        following = text[end : end + 1]
        # The value is complete if the text ends, or a fence, a mark or a string follows the
        # closers.
        if not following or following in "`<~\"'“":
            return True
        if following in "{[" and "\n" in text[at:end]:
            return True
        if following in ",，":
            return self.is_key(end + 1) or text[end + 1 : end + 40].lstrip()[:1] in "{["
        # The last quote before a closer in the whole text. It is searched once, which keeps this
        # linear.
        if self._last < 0:
            self._last = max(text.rfind(quote + closer) for quote in "\"'" for closer in "}]")
        return self._last <= after


def unescaped(text: str) -> str:
    """Decodes a JSON string that holds JSON, with or without its outer quotes; else returns ""."""
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

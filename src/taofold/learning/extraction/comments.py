"""Removes comments, docstrings and long texts from code: prose in them could instruct a reader.

A lesson shows code of one project to the agent of another. Its comments are not part of a fix, and
their author may have written them for that agent. `without_comments` keeps the number of lines. A
comment that switches a check off keeps only its mark, because `silencing` searches for it. Names
and short texts stay unchanged. Knows nothing about differences or patterns.
"""

import re
from functools import lru_cache
from typing import Final

from taofold.parsing.silencers import PATTERN

_SLASHES: Final = re.compile(
    r"\.(?:c|cc|cpp|cs|css|dart|go|h|hpp|java|[cm]?js|jsx|jsonc|kt|less|m|php|proto|rs|scala|scss"
    r"|swift|[cm]?ts|tsx|vue|zig)$"
)
_DASHES: Final = re.compile(r"\.(?:sql|lua|hs|elm|adb)$")
_MARKUP: Final = re.compile(r"\.(?:html?|xml|svg|vue|md)$")
_PROSE: Final = re.compile(r"(?:[^\W\d_]{1,30}[,.:!?]?\s+){7}")
"""Eight consecutive words: a sentence, not a text that code compares."""
_OPENS: Final = re.compile(r"[rbfuRBFU]{0,2}(\"\"\"|''')")
_CUT: Final = "…"
_BEHIND_CODE: Final = ("#", "//", "--")
"""Marks that, in an unknown language, begin a comment after code too."""
_MARK: Final = re.compile(
    rf"(?:{PATTERN})(?:\[[\w, -]{{0,60}}\]|:[ ]?[A-Z]+\d+(?:,[ ]?[A-Z]+\d+)*)?"
)
_GONE: Final = "\0"
"""The placeholder of a removed comment; the blanks before it are removed as well."""
_PLAIN: Final = re.compile(r"[^\"'`/#<;%!({=rbfuRBFU\n-]+")


@lru_cache(maxsize=256)
def without_comments(text: str, path: str) -> str:
    """Returns `text`, code of the file `path`, without comments, docstrings and long texts.

    Quoted text with eight words in a row becomes `…`. In a file of an unknown language `#`, `//`
    and `--` begin a comment only after white space.
    """
    read = "".join(_Reader(text, path.lower()).parts())
    return re.sub(rf"[ \t]*{_GONE}", "", read)


class _Reader:
    def __init__(self, text: str, path: str) -> None:
        self._text, self._at = text, 0
        slashes, dashes = bool(_SLASHES.search(path)), bool(_DASHES.search(path))
        markup, python = bool(_MARKUP.search(path)), path.endswith((".py", ".pyi"))
        known = slashes or dashes or markup
        self._python = python
        self._loose = not known and not python
        self._line = [
            *(["//"] * (slashes or self._loose)),
            *(["#"] * (python or self._loose or path.endswith(".php"))),
            *(["--"] * (dashes or self._loose)),
            *([";", "%", "! ", "REM ", "rem ", "' "] * self._loose),
        ]
        self._block = [
            *([("/*", "*/")] * (slashes or self._loose)),
            *([("<!--", "-->")] * (markup or slashes or self._loose)),
            *([("{-", "-}")] * (dashes or self._loose)),
            *([("(* ", "*)"), ("=begin", "=end")] * self._loose),
        ]
        self._triple = python or self._loose
        self._quotes = "\"'`" if slashes or self._loose else "\"'"
        # A lifetime of Rust (`'a`) and a contraction in plain text open no string.
        self._single = not path.endswith(".rs")

    def parts(self) -> list[str]:
        """Returns the text in pieces, with the comments replaced."""
        parts: list[str] = []
        while self._at < len(self._text):
            parts.append(self._next())
        return parts

    def _next(self) -> str:
        text, at = self._text, self._at
        if plain := _PLAIN.match(text, at):
            self._at = plain.end()
            return plain[0]
        # The sign of a difference may stand before it.
        head = text[text.rfind("\n", 0, at) + 1 : at].strip(" \t+-") if at else ""
        blank = not head or text[at - 1].isspace()
        for opening, closing in self._block:
            if text.startswith(opening, at):
                return self._comment(self._end(closing, at + len(opening)), closing)
        for mark in self._line:
            # `#` in a colour, a private name of JavaScript or an address begins no comment.
            near = blank if mark in _BEHIND_CODE else not head
            if text.startswith(mark, at) and (near or not self._loose):
                end = text.find("\n", at)
                return self._comment(len(text) if end < 0 else end)
        if self._triple and (opened := _OPENS.match(text, at)):
            end = self._end(opened[1], opened.end())
            whole, self._at = text[at:end], end
            if not head:
                return _breaks(whole)
            return whole if "\n" not in whole and not _PROSE.search(whole) else _cut(whole)
        if self._python and not head and text[at] in "'\"":
            before = text[max(at - 400, 0) : at].rstrip(" \t\n+-")[-1:]
            said = self._string(text[at])
            ends = text[self._at : self._at + 1] in ("", "\n")
            # A string as a statement is only documentation.
            return _GONE if ends and before not in tuple("([{,=+\\\"'%|") else said
        if text[at] in self._quotes and (text[at] != "'" or self._single):
            return self._string(text[at])
        self._at += 1
        return text[at]

    def _end(self, closing: str, start: int) -> int:
        found = self._text.find(closing, start)
        return len(self._text) if found < 0 else found + len(closing)

    def _comment(self, end: int, closing: str = "") -> str:
        comment = self._text[self._at : end]
        self._at = end
        marks = [mark[0] for mark in _MARK.finditer(comment)]
        if marks:
            opening = "" if comment.startswith(marks[0]) else f"{comment[:2].strip()} "
            return f"{opening}{' '.join([*marks, closing]).strip()}{_breaks(comment)}"
        return _GONE + _breaks(comment)

    def _string(self, quote: str) -> str:
        start, at = self._at, self._at + 1
        while at < len(self._text) and self._text[at] != quote:
            if self._text[at] == "\n" and quote != "`":
                break  # a quote without a closing one
            at += 2 if self._text[at] == "\\" else 1
        closed = at < len(self._text) and self._text[at] == quote
        self._at = at + 1 if closed else start + 1
        text = self._text[start : self._at]
        return _cut(text) if closed and _PROSE.search(text[1:]) else text


def _breaks(text: str) -> str:
    return "\n" * text.count("\n")


def _cut(text: str) -> str:
    return f"{text[0]}{_CUT}{text[-1]}{_breaks(text)}"

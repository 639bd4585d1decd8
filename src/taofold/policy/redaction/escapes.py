"""Reverses the escapes, quotes and line breaks of printed text. Pure.

A text has *layers*: `decoded` reverses one of them (JSON in JSON has two). In each layer `folded`
removes the differences between two ways to quote or to lay out the same value. A known value is
folded like the searched text, so no list of its spellings is needed. Both keep the source position
of each character. Linear in the length of the text.
"""

import html
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import Final, NamedTuple

from taofold.core.late_patterns import late

_HEX: Final = "[0-9a-fA-F]"
_PAIR: Final = (f"[dD][89abAB]{_HEX}{{2}}", f"[dD][c-fC-F]{_HEX}{{2}}")
"""A character of UTF-16 that takes two escapes."""
ESCAPE: Final = late(
    # Each alternative begins with one sign, so the search is as fast as one for a word.
    rf"\\x{_HEX}{{2}}(?:\\x{_HEX}{{2}})*|\\[0-3][0-7]{{2}}(?:\\[0-3][0-7]{{2}})*"
    rf"|%{_HEX}{{2}}(?:%{_HEX}{{2}})*"
    rf"|\\u{_PAIR[0]}\\u{_PAIR[1]}|\\u{_HEX}{{4}}|%u{_PAIR[0]}%u{_PAIR[1]}|%u{_HEX}{{4}}"
    rf"|\\[ux]\{{{_HEX}{{1,6}}\}}|\\U00{_HEX}{{6}}|\\[\"\\/bfnrt]|\\[2-7]{_HEX}"
    rf"|&(?:\#[0-9]{{1,7}}|\#[xX]{_HEX}{{1,6}}|[A-Za-z][A-Za-z0-9]{{1,31}});"
)
"""Escapes of JSON, source code, git, LDAP; of addresses and forms; of HTML and XML."""
_MAILED: Final = "=(?:3D|20|0[9AD]|[89A-F][0-9A-F])"
_MAIL: Final = late(rf"{_MAILED}(?:{_MAILED})*|=\r?\n")
"""Quoted-printable (RFC 2045, 6.7). Not beside other escapes: `password=AB…` is none."""
_SIGNS: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_BLANK: Final = r" \t\r\n\f\v+"
_QUOTE: Final = r"\\'\"`^"
_DRAWN: Final = r">|│#*;\-/"
"""Prefixes of the lines of a quotation, a diff, a comment or a list."""
_NOISE: Final = late(
    rf"(?! [^{_BLANK}{_QUOTE}])"
    rf"(?:\n[ \t]*(?:[0-9]{{1,6}}[ \t]?[:|│)\t])?[ \t\r\f\v+{_QUOTE}{_DRAWN}]*"
    rf"|[{_BLANK}{_QUOTE}])+|%{{2,}}|\${{2,}}"
)
"""Quotes, line ends with the prefix of the next line, and doubled signs."""
_MAIL_NOISE: Final = late(lambda: f"{_MAIL.pattern}|{_NOISE.pattern}")


def _begun(sign: str) -> str:
    """Returns a pattern for the first bytes of a UTF-8 character, as hexadecimal escapes."""
    more = f"{sign}[89abAB]{_HEX}"
    return f"(?:{sign}[cCdD]{_HEX}|{sign}[eE]{_HEX}(?:{more})?|{sign}[fF][0-4](?:{more}){{0,2}})?"


_HALF: Final = late(
    lambda: (
        rf"{_begun(chr(92) * 2 + '+x')}(?:\\+(?:x{_HEX}?)?)?\Z"
        r"|(?:\\+3(?:[0-3][0-7]|[45][0-7](?:\\+2[0-7]{2})?|6[0-4](?:\\+2[0-7]{2}){0,2}))?"
        r"(?:\\+[0-7]{0,2})?\Z"
        rf"|%u(?:{_PAIR[0]}(?:%(?:u{_HEX}{{0,3}})?)?|{_HEX}{{0,3}})\Z"
        rf"|\\+(?:u(?:{_PAIR[0]}(?:\\+(?:u{_HEX}{{0,3}})?)?|{_HEX}{{0,3}})"
        rf"|[ux]\{{{_HEX}{{0,6}}|U{_HEX}{{0,7}})\Z"
        rf"|{_begun('%')}(?:%{_HEX}?)?\Z|{_begun('=')}(?:=(?:{_HEX}|\r)?)?\Z|&[\#0-9A-Za-z]{{0,32}}\Z"
    )
)
"""An escape, or a character of several, that has not arrived completely."""
_NUMBER: Final = late(rf"\n[{_BLANK}{_QUOTE}{_DRAWN}]*([0-9]{{1,6}}[ \t]?)\Z")
_WINDOW: Final = 160
"""Maximum length in characters of an incomplete escape."""


class Layer(NamedTuple):
    """A text derived from another one. `pieces` maps its changed spans to those of the other."""

    text: str
    pieces: list[tuple[int, int, int, int]]

    def start(self, place: int) -> int:
        """Returns the start in the other text of the character at `place`."""
        index = bisect_right(self.pieces, place, key=itemgetter(0)) - 1
        if index < 0:
            return place
        _, end, other_start, other_end = self.pieces[index]
        return other_start if place < end else other_end + place - end

    def end(self, place: int) -> int:
        """Returns the end in the other text of the character before `place`."""
        if not place:
            return 0
        index = bisect_right(self.pieces, place - 1, key=itemgetter(0)) - 1
        if index < 0:
            return place
        _, end, _, other_end = self.pieces[index]
        return other_end if place <= end else other_end + place - end


def decoded(text: str) -> Layer | None:
    """Returns `text` without one layer of escapes; None if it has none."""
    return _replaced(text, ESCAPE, _meaning) if any(map(text.__contains__, "\\%&")) else None


def folded(text: str) -> Layer:
    """Returns `text` without quotes, with one blank for each run of blanks and line ends."""
    return _replaced(text, _NOISE, _fold) or Layer(text, [])


def foldings(text: str) -> list[Layer]:
    """Returns `text` folded, and also decoded as quoted-printable if that is possible."""
    layer = folded(text)
    if "=" not in text or _MAIL.search(text) is None:
        return [layer]
    return [layer, _replaced(text, _MAIL_NOISE, _fold) or layer]


def whole_end(text: str, end: int | None = None) -> int:
    """Returns the start of the last escape of `text[:end]` if more text could change it."""
    end = len(text) if end is None else end
    window = max(0, end - _WINDOW)
    match = _HALF.search(text, window, end)
    # The pattern matches nothing at the end, too.
    start = end if match is None else match.start()
    return len(text[:start].rstrip("\\")) if text[start : start + 1] == "\\" else start


def numbered_end(text: str) -> int:
    """Returns the start of a number at the end of `text` that may be a line number."""
    window = max(0, len(text) - _WINDOW)
    match = _NUMBER.search(text, window)
    return len(text) if match is None else match.start(1)


Meaning = Callable[[re.Match[str]], Iterable[tuple[str, int]]]
"""The decoded parts of a match: each a text, and its length in the match."""


def _replaced(text: str, pattern: re.Pattern[str], meaning: Meaning) -> Layer | None:
    parts, pieces, at, length = list[str](), list[tuple[int, int, int, int]](), 0, 0
    for match in pattern.finditer(text):
        start = match.start()
        parts.append(text[at:start])
        length += start - at
        for part, size in meaning(match):
            parts.append(part)
            pieces.append((length, length + len(part), start, start + size))
            length, start = length + len(part), start + size
        at = start
    if not pieces:
        return None
    return Layer("".join([*parts, text[at:]]), pieces)


def _meaning(match: re.Match[str]) -> Iterable[tuple[str, int]]:
    escape = match.group()
    if escape[0] == "&":
        plain = html.unescape(escape)
    elif escape[1] in "uU" or escape[2:3] == "{":
        codes = [int(digits, 16) for digits in re.findall("[0-9a-fA-F]+", escape)]
        if len(codes) > 1:  # a pair of surrogates
            codes = [0x10000 + ((codes[0] - 0xD800) << 10) + codes[1] - 0xDC00]
        plain = chr(codes[0]) if codes[0] <= 0x10FFFF else escape
    elif escape[0] == "%" or len(escape) > 3:
        return _characters(escape, 3 if escape[0] == "%" else 4)
    else:
        plain = _SIGNS.get(escape[1:]) or (
            escape[1] if len(escape) == 2 else chr(int(escape[1:], 16))
        )
    return ((plain, len(escape)),) if plain != escape else ()


def _characters(escapes: str, width: int) -> Iterator[tuple[str, int]]:
    """Yields the UTF-8 characters; an invalid byte is read as Latin-1."""
    skipped, base = (1, 8) if escapes[1] in "0123" and width == 4 else (width - 2, 16)
    raw = bytes(
        [int(escapes[at + skipped : at + width], base) for at in range(0, len(escapes), width)]
    )
    at = 0
    while at < len(raw):
        lead = raw[at]
        size = 1 + (lead >= 0xC2) + (lead >= 0xE0) + (lead >= 0xF0)
        try:
            character = raw[at : at + size].decode()
        except UnicodeDecodeError:
            character, size = chr(lead), 1
        yield character, size * width
        at += size


def _fold(match: re.Match[str]) -> Iterable[tuple[str, int]]:
    noise = match.group()
    if noise[0] == "=":
        return _characters(noise, 3) if noise.strip() != "=" else (("", len(noise)),)
    blank = "" if _BLANKS.isdisjoint(noise) else " "
    return ((noise[0] if noise[0] in "%$" else blank, len(noise)),)


_BLANKS: Final = frozenset(" \t\r\n\f\v+")

"""Secrets that their names give away: `password=`, `"apiKey": "…"`, `--token …`.

Names and values are read as they stand in program texts, environment listings, JSON, YAML, XML,
headers, addresses and command lines. Pure, and linear in the length of the text.
"""

import re
from collections.abc import Iterator
from typing import Final

from taofold.policy.redaction.names import LONGEST, STEMS, Says, says
from taofold.policy.redaction.tokens import Span
from taofold.policy.redaction.values import Form, secret

FARTHEST: Final = 96
"""Characters between a name and its value, at most."""
_MOST: Final = 2048
"""Characters of a value, at most."""
_NESTED: Final = 8
"""Names inside one value whose values may be so long; those of more names are `_BRIEF`."""
_BRIEF: Final = 64
_RIGHT: Final = re.compile(r"[\w.\-]*")
_OPERATOR: Final = r"(?:=>|->|={1,3}|!={1,2}|:{1,3}=|[?|+.]{1,2}=|:(?!:))"
_SEPARATED: Final = re.compile(
    rf"""
    (?P<end>\\?["'`]?(?:[\])]|\[\d{{0,4}}\])?)
    (?: :\ ?[A-Za-z_][\w.:<>\[\]|?]{{0,31}}(?:\ \|\ \w{{1,24}}){{0,2}}\ =\s  # a type between
      | \s{{0,8}}{_OPERATOR}\s{{0,24}}
      | \ ?:?\ ?[A-Za-z_][\w.:<>\[\]|?]{{0,31}}\ ?:?=\s?
      | (?P<comma>\s{{0,4}},\s{{0,8}})(?=\\?["'`])
      | [ ]-[ ](?=["'])
      | >\s{{0,32}}(?P<element>)
      | (?P<space>[ \t]{{1,4}})(?:is[ \t])?
    )
    """,
    re.VERBOSE,
)
_PAIRED: Final = re.compile(
    r"""\\?["']?\s{0,8}[,;]?\s{0,24}(?:[#\w.:-]{0,16}\s)?\\?["']?(?i:[a-z_]{0,16}value|val|default|content)\\?["']?\s{0,4}(?::|=>?)\s{0,8}"""
)
"""From a name to its value where both stand as values: `"name": "TOKEN", "value": "…"`."""
_BARE: Final = re.compile(
    r"""(?:[^\s"'`;,&<>()\[\]{}\\|]|[;,&()\[\]{}|](?=[^\s"';,)\]}<])(?![\w.\-]{1,64}[=:]))+"""
)
_LISTED: Final = re.compile(r"""(?:[^\s"'`;,&<>\\]|[;,&<>](?![\w.\-]{1,64}=|\s|["']|\Z|/))+""")
_ELEMENT: Final = re.compile(r"[^<>\s][^<>]{0,2048}(?=</)")
_ODD: Final = re.compile(r"[^A-Za-z\s.,:;?_-]")
_BLOCK: Final = re.compile(r"[|>][+-]?[0-9]?[ \t]*\n[ \t]+(?=\S)")


def assigned(text: str, lower: str) -> Iterator[Span]:
    """Where the values lie, in no order; `lower` is `text` in lower case, letter by letter."""
    places: list[int] = []
    for stem in STEMS:
        at = lower.find(stem)
        while at >= 0:
            places.append(at)
            at = lower.find(stem, at + len(stem))
    end = reach = inside = 0
    for place in sorted(places):
        if place < end:
            continue
        start, least = place, max(end, place - LONGEST)
        while start > least and (text[start - 1] in "_-." or text[start - 1].isalnum()):
            start -= 1
        right = _RIGHT.match(text, place)
        end = right.end() if right else place + 1
        name = text[start:end].strip("-.")
        says_ = says(name)
        if says_ is Says.NOTHING:
            continue
        # A value may hold names with values of their own. Each character is read a bounded
        # number of times, whatever the text is.
        inside = inside + 1 if start < reach else 0
        most = _MOST if inside < _NESTED else _BRIEF
        span, read = _value(text, start, end, name, says_, most)
        reach = max(reach, read)
        if span is not None:
            yield span


def _value(
    text: str, start: int, end: int, name: str, says_: Says, most: int
) -> tuple[Span | None, int]:
    """The secret value of a name, if it has one, and how far was read."""
    read = end
    separated = _SEPARATED.match(text, end)
    if separated is not None:
        listed = _is_listed(text, start, separated, name)
        element = separated["element"] is not None
        span = _read(text, separated.end(), listed, most, element=element)
        read = span[1] if span is not None else read
        loose = separated["comma"] is not None or separated["space"] is not None
        if loose and span is not None and not _meant(text, start, separated, name, span):
            span = None
        if span is not None:
            quoted = span[0] > separated.end() and text[separated.end() : span[0]].rstrip()[
                -1:
            ] in ("'", '"', "`")
            form = Form.QUOTED if quoted else Form.LISTED if listed else Form.BARE
            if secret(text[slice(*span)], says_, form):
                return span, read
    paired = _PAIRED.match(text, end)
    if paired is not None:
        span = _read(text, paired.end(), True, most, element=False)
        if span is not None:
            read = max(read, span[1])
            if secret(text[slice(*span)], says_, Form.LISTED):
                return span, read
    return None, read


def _meant(text: str, start: int, separated: re.Match[str], name: str, span: Span) -> bool:
    """Is a value meant that only a comma or a space separates from its name?"""
    if separated["comma"] and not (separated["end"] and text[start - 1 : start] in "\"'"):
        return False
    if name.lower() == "pass" or text[span[0]] == "-":
        return False
    bare = text[span[0] - 1] not in "\"'`"
    return len(_ODD.findall(text[slice(*span)])) > int(bare)


def _is_listed(text: str, start: int, separated: re.Match[str], name: str) -> bool:
    """Is it an environment's listing, an address, a command line or an element?"""
    if separated["element"] is not None:
        return True
    between = separated.group()
    before = text[start - 1 : start]
    if (before and before in "?&") or text[start : start + 2] == "--":
        return True
    return name.isupper() and between in ("=", ": ", ":")


def _read(text: str, at: int, listed: bool, most: int, *, element: bool) -> Span | None:
    """Where the value lies that begins at `at`."""
    if element:
        match = _ELEMENT.match(text, at)
        return match.span() if match else None
    block = _BLOCK.match(text, at)
    if block is not None:
        at = block.end()
    while text[at : at + 1] and text[at] in "bruf@$" and text[at + 1 : at + 2] in ('"', "'"):
        at += 1
    if text[at : at + 1] == "\\" and text[at + 1 : at + 2] in ('"', "'"):
        quote, at = text[at : at + 2], at + 2
        stop = text.find(quote, at, at + most)
        return (at, stop) if stop > at else _unended(text, at, most)
    quote = text[at : at + 1]
    if quote and quote in "\"'`":
        return _quoted(text, at + 1, quote, most)
    match = (_LISTED if listed else _BARE).match(text, at, at + most)
    return match.span() if match else None


def _quoted(text: str, at: int, quote: str, most: int) -> Span | None:
    stop = at
    while True:
        stop = text.find(quote, stop, at + most)
        if stop < 0:
            return _unended(text, at, most)
        if text[stop - 1] != "\\" or stop == at:
            break
        stop += 1
    line = text.find("\n", at, stop)
    stop = stop if line < 0 else line
    while at < stop and text[at] == " ":
        at += 1
    while at < stop and text[stop - 1] == " ":
        stop -= 1
    return at, stop


def _unended(text: str, at: int, most: int) -> Span | None:
    """A quoted value without its end: to the end of the line, or of a text that was cut."""
    line = text.find("\n", at, at + most)
    if line >= 0:
        return at, line
    return (at, len(text)) if at < len(text) <= at + most else None

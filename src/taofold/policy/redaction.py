"""Redaction: secrets are taken out where text enters, before anything is written.

The model never sees them either, so it cannot repeat them. What counts as a secret:
known token shapes, the values that the caller names, and strings under names such as
`password`. JSON's escapes hide nothing. Pure.
"""

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

Span: TypeAlias = tuple[int, int]

MARK: Final = "[redacted]"
NUMBERS: Final = (int, float)
_SHAPES: Final = re.compile(
    r"""\b(?:sk|pk|rk)-[A-Za-z0-9_\-]{16,}
    | \bgh[pousr]_[A-Za-z0-9]{20,}
    | \bgithub_pat_[A-Za-z0-9_]{20,}
    | \bxox[abprs]-[A-Za-z0-9\-]{10,}
    | \bAKIA[0-9A-Z]{16}\b
    | \bAIza[0-9A-Za-z_\-]{35}
    | \beyJ[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-]{5,}
    | -----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----[\s\S]{0,8192}?-----END[ ][A-Z ]*PRIVATE[ ]KEY-----
    | (?i:\b(?:bearer|basic))\s+(?=[a-z_\-.]*[A-Z0-9+/=])[A-Za-z0-9+/_\-.=]{16,}
    | ://(?P<login>[^\s/:@]{1,64}:[^\s/@]{3,128})@
    | (?i:\b(?:password|passwd|secret|api[_-]?key|access[_-]?token|auth[_-]?token)
        ["']?\s*[:=]\s*["']?)(?P<value>[^\s"',;]{5,127}[^\s"',;\\])""",
    re.VERBOSE,
)
_OPENINGS: Final = (
    *("sk-", "pk-", "rk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "xox", "akia"),
    *("aiza", "eyj", "-----begin ", "bearer", "basic", "://", "passw", "secret"),
    *("api_key", "api-key", "apikey", "access_token", "access-token", "accesstoken"),
    *("auth_token", "auth-token", "authtoken"),
)
"""The slow expression above matches only where one of these stands, in whatever case."""
_HINTS: Final = (
    *("k-", "gh", "_pat_", "key", "token", "xox", "akia", "aiza", "eyj", "bearer", "basic"),
    *("://", "passw", "secret"),
)
"""Every secret of a known shape holds one of these, and most texts hold none."""
_ODD: Final = (*_HINTS, "passphrase", "credential", "authorization", MARK[1:-1], "\\")
"""Where none of these occurs there is no secret, no name that makes one, and none was taken out."""
_NAMES: Final = re.compile(r"(?i)(key|token|secret|passw|credential)")
_SAYING: Final = re.compile(
    r"(?i)(?:password|passwd|passphrase|secret|token|credentials?|authorization"
    r"|(?:api|access|private|secret|signing)[_-]?key)\Z"
)
_HARMLESS: Final = re.compile(r"(?i)(?:page|next|continu\w*|sync|stop|start|end|[be]os)[_-]?token")
_REFERENCE: Final = re.compile(r"\$\{\w+\}|env:\w+|\{\{[^{}]*\}\}")
_ESCAPE: Final = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[\"\\/bfnrt])"
)
_COMMON: Final = 200
_REMEMBERED: Final = 2_000
"""Short texts come again and again (names, ids, finish reasons): the harmless are remembered."""
_SHORTEST: Final = 8
_SHORTEST_NAMED: Final = 6
_LAYERS: Final = 3
"""JSON inside JSON inside JSON is looked into, no deeper."""


class Redactor:
    """Takes secrets out of text and JSON."""

    def __init__(self, secrets: Iterable[str] = (), *, shapes: bool = True) -> None:
        self.known = sorted({s for s in secrets if len(s) >= _SHORTEST}, key=len, reverse=True)
        """The values that must not be written, the longest first."""
        self._known = re.compile("|".join(map(re.escape, self.known))) if self.known else None
        self._shapes = shapes
        self.harmless: set[str] = set()
        """Short ASCII texts in which nothing was found: they need no second look."""

    @staticmethod
    def secrets_in(environment: Mapping[str, str]) -> tuple[str, ...]:
        """The values of variables whose name says that they are secret."""
        return tuple([v for name, v in environment.items() if _NAMES.search(name)])

    def text(self, text: str) -> str:
        """`text` with every secret replaced, also one that JSON's escapes hide."""
        if len(text) < _SHORTEST or text in self.harmless:  # no secret is so short
            return text
        spans = self.spans(text)
        if not spans:
            if len(text) <= _COMMON and text.isascii() and MARK not in text:
                if len(self.harmless) >= _REMEMBERED:
                    self.harmless.clear()
                self.harmless.add(text)
            return text
        parts, at = list[str](), 0
        for start, end in spans:
            parts += (text[at:start], MARK)
            at = end
        return "".join([*parts, text[at:]])

    def spotless(self, texts: Iterable[str]) -> bool:
        """Is there surely nothing in `texts`, names and values, that would be taken out?

        One look for all of them. False says nothing: then look at each.
        """
        text = "\x1f".join(texts)
        if not text.isascii() or (self._known is not None and self._known.search(text)):
            return False
        return not _holds(text.lower(), _ODD)

    def spans(self, text: str) -> list[Span]:
        """Where the secrets of `text` lie, in order, none touching another."""
        found = self._found(text, _LAYERS)
        if len(found) < 2:
            return found
        merged: list[Span] = []
        for start, end in sorted(found):
            if merged and start < merged[-1][1]:
                merged[-1] = merged[-1][0], max(end, merged[-1][1])
            else:
                merged.append((start, end))
        return merged

    def _found(self, text: str, layers: int) -> list[Span]:
        found: list[Span] = []
        if self._known is not None:
            found += [match.span() for match in self._known.finditer(text)]
        if self._shapes and len(text) > _SHORTEST:
            lower = text.lower()
            if _holds(lower, _HINTS) and _holds(lower, _OPENINGS):
                found += [match.span(match.lastgroup or 0) for match in _shaped(text, lower)]
        if layers and "\\" in text:
            plain, escapes = unescaped(text)
            if escapes:
                inner = self._found(plain, layers - 1)
                found += [(_raw(escapes, start), _raw(escapes, end)) for start, end in inner]
        return found

    def number(self, value: Any) -> Any:
        """`value`, a number or None, unless it is one of the known secrets."""
        if self._known is None:
            return value
        said = str(value)
        return MARK if len(said) >= _SHORTEST and self._known.fullmatch(said) else value

    def json(self, value: Any) -> Any:
        """`value` with every secret in its strings replaced. Copies only what changes."""
        if isinstance(value, str):
            return self.text(value)
        if value is None or isinstance(value, NUMBERS):
            return self.number(value)
        if isinstance(value, dict):
            known = cast("dict[str, Any]", value)
            items = {
                self.text(str(name)): MARK if named(name, said) else self.json(said)
                for name, said in known.items()
            }
            return known if items == known else items
        if isinstance(value, (list, tuple)):
            old = cast("Sequence[Any]", value)
            parts = [self.json(said) for said in old]
            return old if parts == list(old) else parts
        return value


def _shaped(text: str, lower: str) -> Iterator[re.Match[str]]:
    """The matches of `_SHAPES`. In ASCII they are looked for where they may begin: 20 times faster.

    Elsewhere a letter has more forms than its lower case ("\u017f" is an s), and places may shift.
    """
    if not text.isascii():
        yield from _SHAPES.finditer(text)
        return
    starts: list[int] = []
    for word in _OPENINGS:
        at = lower.find(word)
        while at >= 0:
            starts.append(at)
            at = lower.find(word, at + 1)
    end = 0
    for start in sorted(starts):
        match = _SHAPES.match(text, start) if start >= end else None
        if match is not None:
            end = match.end()
            yield match


def _holds(text: str, words: tuple[str, ...]) -> bool:
    # A plain loop: `any` of a generator takes three times as long, for every text there is.
    for word in words:  # noqa: SIM110
        if word in text:
            return True
    return False


def unescaped(text: str) -> tuple[str, list[tuple[int, int]]]:
    """`text` without JSON's escapes; and of each escape its place there and its end in `text`."""
    parts, escapes, at, length = list[str](), list[tuple[int, int]](), 0, 0
    for match in _ESCAPE.finditer(text):
        said: str = json.loads(f'"{match.group()}"')
        parts += (text[at : match.start()], said)
        length += match.start() - at
        at = match.end()
        escapes.append((length, at))
        length += 1
    return "".join([*parts, text[at:]]), escapes


def _raw(escapes: list[tuple[int, int]], place: int) -> int:
    """Where a place of the unescaped text lies in the original."""
    index = bisect_left(escapes, (place, 0)) - 1
    if index < 0:
        return place
    inner, end = escapes[index]
    return end + place - inner - 1


def named(name: Any, said: Any) -> bool:
    """Is `said` secret because its name says so?"""
    if not isinstance(said, str) or len(said) < _SHORTEST_NAMED or not isinstance(name, str):
        return False
    if _SAYING.search(name) is None or _HARMLESS.search(name) is not None:
        return False
    return _REFERENCE.fullmatch(said) is None

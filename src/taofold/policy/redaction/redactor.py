"""`Redactor` takes secrets out of text and JSON: known values, tokens, names, surroundings.

What the text around a secret gives away (keys in PEM, headers, addresses, command lines) is in the
table of this module; issuers' tokens and telling names are in its neighbours. In JSON a name may
stand in a key, beside the value in another object's field, or before it in a list of arguments;
escapes are undone, layer by layer, before anything is looked for. Of a known value parts are
hidden, too, where the text was cut; what looks like a secret and was found once is hidden wherever
the text has it again. Pure, and linear in the length of the text.
"""

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, Final, cast

from taofold.core.text import utf8
from taofold.policy.redaction.assignments import (
    SHORTEST,
    STEMS,
    Says,
    ValueForm,
    assigned_secrets,
    is_made_of_words,
    looks_random,
    random,
    referring,
    says,
    secret,
)
from taofold.policy.redaction.spellings import spellings
from taofold.policy.redaction.tokens import LONG_AHEAD, Span, solid, tokens

_HEADER: Final = r"[0-9A-Za-z+/_\-.=~|:]"
# A plain `find` of the hint comes first: expressions this broad would be slow on every text. Bounds
# like {0,16384} keep the search linear where an end is missing.
_CONTEXTS: Final = (
    # where to look, in lower case; what stands there, with the secret as its group; is it drawn?
    (
        "-----begin",
        r"-----BEGIN[ A-Z0-9]{0,40}PRIVATE[ ]KEY(?:[ ]BLOCK)?-----"
        r"(?:(?:[^()-]|-(?!----)){0,16384}-----END[ A-Z0-9]{0,40}PRIVATE[ ]KEY(?:[ ]BLOCK)?-----"
        r"|(?:\s|\\[rn])*[0-9A-Za-z+/=\s\\:,\-]{40,16384})",
        False,
    ),
    ("bearer", rf"(?i:bearer)[ \t]+(?P<s>{_HEADER}{{12,4096}})", True),
    ("basic", r"(?i:basic)[ \t]+(?P<s>[0-9A-Za-z+/_\-]{8,4096}={0,2})", True),
    (
        "authorization",
        r"(?i:authorization)\\?[\"']?\s{0,4}[:=,]\s{0,4}\\?[\"']?(?:[A-Za-z0-9\-]{2,24}[ \t]+)?"
        rf"(?P<s>{_HEADER}{{12,4096}})",
        True,
    ),
    (
        "://",
        r"://(?P<s>[^\s/:@\"'<>]{0,64}"
        r":(?!(?:[0-9]{1,5}|[Pp]ass(?:word|wd)?|pw|secret|token|REDACTED|x+|\*+|\.+)@)"
        r"[^\s/@\"'<>]{3,256})@",
        False,
    ),
    ("://", r"://(?P<s>[0-9A-Za-z_\-]{20,256})@", True),
    (
        "hooks.slack.com/",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<s>[0-9A-Za-z+/_\-]{20,400})",
        False,
    ),
    ("/api/webhooks/", r"/api/webhooks/(?P<s>[0-9]{15,22}/[0-9A-Za-z_\-]{30,100})", False),
    (
        "webhook.office.com/",
        r"webhook\.office\.com/(?P<s>webhookb2/[0-9A-Za-z@\-/]{30,400})",
        False,
    ),
    ("/signin/", r"/signin/(?P<s>[0-9A-Za-z_\-]{20,64})", True),
    (
        "curl ",
        r"(?i:curl) (?:(?!curl )[^\n]|\\\n){0,400}?(?:-u ?|--user[ =])[\"']?"
        r"(?P<s>[^\s:\"']{1,64}:[\"']?[^\s\"']{3,128})",
        False,
    ),
    ("login ", r"(?i:login) +\S{1,64}\s+(?i:password)\s+(?P<s>\S{3,128})", False),
    ("sig=", r"sig=(?P<s>[0-9A-Za-z%+/=]{20,100})", True),
)
CONTEXTS: Final = tuple(
    (hint, re.compile(shape), must_be_random) for hint, shape, must_be_random in _CONTEXTS
)

KEY_BLOCK: Final = re.compile(
    r"-----BEGIN[ A-Z0-9]{0,40}PRIVATE[ ]KEY(?:[ ]BLOCK)?-----"
    r"(?:[\s\"'+,;]|\\[rn]|[A-Z][A-Za-z\-]{2,20}:[ ][^\n\\]{0,100}){0,200}+"
    r"[0-9A-Za-z+/=]{40}[0-9A-Za-z+/=\s\\\"',;]{0,16384}+"
    r"(?:-----END[ A-Z0-9]{0,40}PRIVATE[ ]KEY(?:[ ]BLOCK)?-----)?"
)
"""A private key with its body. The header alone, or a template of one, is ordinary program text."""

MARK: Final = "[redacted]"
NUMBERS: Final = (int, float)
_HINTS: Final = tuple(dict.fromkeys([*STEMS, *(hint for hint, *_ in CONTEXTS)]))
"""In lower case: a text without any of these and without a long run of letters has no secret."""
_ESCAPE: Final = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[\"\\/bfnrt])"
)
_FOLDED: Final = {0x17F: "s", 0x131: "i", **{0xFF41 + n: chr(97 + n) for n in range(26)}}
"""Letters that some reader takes for others: a long s, an i without its dot, wide letters."""
_COMMON: Final = 200
_REMEMBERED: Final = 2_000
"""Short texts come again and again (names, ids, finish reasons): the harmless are remembered."""
_SHORTEST: Final = 8
"""Characters of a value that a caller knows, and of a text that is looked at."""
_AGAIN: Final = 64
"""Different secrets of one text that are looked for in the rest of it."""
LAYERS: Final = 4
"""How deep JSON inside JSON is looked into."""
_CUT: Final = re.compile(r"[\s\[]{0,3}…[\s\]]{0,3}")
"""Where a text was cut. What says how much is missing stands between two of these."""
_DIVIDED: Final = 256
"""Characters of an escaped value of which parts are looked for, too: each part costs memory."""
_PART: Final = 16
"""Characters of a known value that are hidden where a text was cut; of a short one, half."""
HALF_ESCAPE: Final = re.compile(
    r"\\+(?:u[0-9a-fA-F]{0,3}"
    r"|u[dD][89abAB][0-9a-fA-F]{2}(?:\\+(?:u[0-9a-fA-F]{0,3})?)?)?\Z"
)
"""An escape that has not arrived in full; its other half may follow a surrogate."""
_LONGEST_ESCAPE: Final = 64
_NAMES: Final = re.compile(r"(?i)(key|token|secret|passw|credential)")
_FOLDERS: Final = ("PWD", "OLDPWD")
"""Variables of every shell: the folders it is and was in, not a password."""
_HEADERS: Final = frozenset(("authorization", "proxy-authorization", "cookie", "set-cookie"))
"""Of HTTP: what stands there is secret, however short it is."""
_VALUE: Final = re.compile(r"(?i)[a-z_]*value|val|default|content")


class Redactor:
    """Replaces secrets in text and JSON by `MARK`.

    Args:
        secrets: Values that the caller knows, of at least 8 characters.
        shapes: Also look for tokens with an unmistakable beginning and for private keys.
        guesses: Also look for what names, surroundings and less certain shapes give away. A guess
            may be wrong: use it for what is shown only, never for what a model or a tool gets.

    Example:
        >>> Redactor().text('password: "hunter2hunter2"')
        'password: "hunter2hunter2"'
        >>> Redactor(guesses=True).text('password: "hunter2hunter2"')
        'password: "[redacted]"'
    """

    def __init__(
        self, secrets: Iterable[str] = (), *, shapes: bool = True, guesses: bool = False
    ) -> None:
        # The longest first: an alternation takes the first that matches, and one known value may
        # begin with another.
        self.known = sorted({s for s in secrets if len(s) >= _SHORTEST}, key=len, reverse=True)
        """The values that must not be written, the longest first."""
        written = {form for value in self.known for form in (value, *spellings(value))}
        self.written = sorted(written, key=len, reverse=True)
        """The same, and as programs escape them."""
        self._known = re.compile("|".join(map(re.escape, self.written))) if self.known else None
        # A place in the file system begins as others do: its beginning tells nothing.
        self._divisible = [
            secret
            for secret in self.written
            if secret[0] not in "/~" and (len(secret) <= _DIVIDED or secret in self.known)
        ]
        self._grams = frozenset(
            [
                secret[at : at + _SHORTEST]
                for secret in self._divisible
                for at in range(len(secret) - _SHORTEST + 1)
            ]
        )
        """What a part of a known value ends or begins with: a quick look."""
        self._shapes, self._guesses = shapes, guesses
        self.harmless: set[str] = set()
        """Short ASCII texts in which nothing was found: they need no second look."""

    @staticmethod
    def secrets_in(environment: Mapping[str, str]) -> tuple[str, ...]:
        """The values of variables whose name says that they are secret."""
        return tuple(
            [
                value
                for name, value in environment.items()
                if name not in _FOLDERS and (_NAMES.search(name) or says(name) >= Says.LIKELY)
            ]
        )

    def text(self, text: str) -> str:
        """`text` with every secret replaced, also one that JSON's escapes hide.

        Text that enters a run comes through here, so a lone surrogate, which no log and no
        provider can encode, is escaped here as well.
        """
        if not text.isascii():
            text = utf8(text)
        if len(text) < _SHORTEST or text in self.harmless:  # no secret is so short
            return text
        spans = self.spans(text)
        if not spans:
            if len(text) <= _COMMON and text.isascii():
                if len(self.harmless) >= _REMEMBERED:
                    # Cleared as a whole: a cache in order of use would cost more than it saves.
                    self.harmless.clear()
                self.harmless.add(text)
            return text
        return without(text, spans)

    def spotless(self, texts: Iterable[str]) -> bool:
        """Is there surely nothing in `texts`, names and values, that would be taken out?

        One look for all of them. False says nothing: then look at each.
        """
        # A control character in between: no token can be put together out of two texts.
        text = "\x1f".join(texts)
        if not text.isascii() or (self._known is not None and self._known.search(text)):
            return False
        if self._grams and any(
            [
                part[-_SHORTEST:] in self._grams or part[:_SHORTEST] in self._grams
                for part in text.split("\x1f")
            ]
        ):
            return False
        return "\\" not in text and self._plain(text)

    def viewing(self) -> "Redactor":
        """Returns a redactor for views: it knows the same values, and guesses."""
        return self if self._guesses else Redactor(self.known, guesses=True)

    def spans(self, text: str, *, begins: bool = True) -> list[Span]:
        """Where the secrets of `text` lie, in order, none touching another.

        `begins`: no other text stands in front of it.
        """
        spans = self._find(text, LAYERS, begins)
        if len(spans) < 2:
            return spans
        merged: list[Span] = []
        for start, end in sorted(spans):
            # Overlaps become one span; two that only touch stay two marks.
            if merged and start < merged[-1][1]:
                merged[-1] = merged[-1][0], max(end, merged[-1][1])
            else:
                merged.append((start, end))
        return merged

    def _plain(self, text: str) -> bool:
        """Is it sure that no shape of a secret is in `text`?"""
        if LONG_AHEAD.match(text) is not None:
            return False
        lower = text.lower()
        return "-----begin" not in lower and not (self._guesses and _holds(lower, _HINTS))

    def _find(self, text: str, layers: int, begins: bool = True) -> list[Span]:
        spans: list[Span] = []
        if self._known is not None:
            spans += [match.span() for match in self._known.finditer(text)]
            spans += self._parts(text, begins)
        if self._shapes and len(text) > _SHORTEST and not (text.isascii() and self._plain(text)):
            spans += tokens(text, certain=not self._guesses)
            if "-----BEGIN" in text:
                spans += [match.span() for match in KEY_BLOCK.finditer(text)]
            if self._guesses:
                # Lowered once for all that look for names in it, with the
                # length kept: spans are of `text`.
                lower = lowered(text)
                spans += [*in_context(text, lower), *assigned_secrets(text, lower)]
                spans += again(text, spans)
        if layers and "\\" in text:
            plain, escapes = unescaped(text)
            if escapes:
                # Redone on the unescaped text: `\u0070assword` is a name, and JSON may lie in JSON.
                inner = self._find(plain, layers - 1, begins)
                spans += [
                    (raw_place(escapes, start), raw_place(escapes, end)) for start, end in inner
                ]
        return spans

    def _parts(self, text: str, begins: bool) -> Iterator[Span]:
        """Parts of known values where a text was cut: at its ends, and beside an ellipsis.

        Whoever cut it, a tool, a program or this runtime, did not know the value.
        """
        ends, starts = [len(text)], [0] if begins else []
        if "\\" in text[-_LONGEST_ESCAPE:] and (half := HALF_ESCAPE.search(text)):
            ends.append(half.start())
        if "…" in text:
            for cut in _CUT.finditer(text):
                ends.append(cut.start())
                starts.append(cut.end())

        for end in ends:
            if text[max(0, end - _SHORTEST) : end] not in self._grams:
                continue
            for value in self._divisible:
                sizes = range(min(len(value) - 1, end), least_part(value) - 1, -1)
                size = next((n for n in sizes if text.startswith(value[:n], end - n)), 0)
                if size:
                    yield end - size, end

        for start in starts:
            if text[start : start + _SHORTEST] not in self._grams:
                continue
            for value in self._divisible:
                sizes = range(len(value) - 1, least_part(value) - 1, -1)
                size = next((n for n in sizes if text.startswith(value[-n:], start)), 0)
                if size:
                    yield start, start + size

    def number(self, value: Any) -> Any:
        """`value`, a number or None, unless it is one of the known secrets.

        What JSON has no number for (NaN, Infinity) is its name from here on, as in the results of
        tools: a log would keep null, and a replay would see another value than the run.
        """
        if isinstance(value, float) and not isfinite(value):
            value = repr(value)
        if self._known is None:
            return value
        digits = str(value)
        return MARK if len(digits) >= _SHORTEST and self._known.fullmatch(digits) else value

    def json(self, value: Any) -> Any:
        """`value` with every secret in its strings replaced. Copies only what changes."""
        if isinstance(value, str):
            return self.text(value)
        if value is None or isinstance(value, NUMBERS):
            return self.number(value)
        if isinstance(value, dict):
            mapping = cast("dict[str, Any]", value)
            hidden = _named_members(mapping) if self._guesses else ()
            items = {
                self.text(str(name)): MARK if name in hidden else self.json(member)
                for name, member in mapping.items()
            }
            return mapping if items == mapping else items
        if isinstance(value, (list, tuple)):
            old = cast("Sequence[Any]", value)
            parts = [
                MARK if self._guesses and follows(old, at) else self.json(member)
                for at, member in enumerate(old)
            ]
            return old if parts == list(old) else parts
        return value


def _named_members(mapping: Mapping[str, Any]) -> frozenset[str]:
    """Keys whose values are secret because of a name: their own, or one beside them."""
    named = [name for name, member in mapping.items() if is_named_secret(name, member)]
    return paired_secrets(mapping).union(named)


def is_named_secret(name: Any, value: Any) -> bool:
    """Is `value` secret because it stands under `name` in an object?"""
    if not isinstance(name, str):
        return False
    # A PIN or an account number: digits under a name that leaves no doubt.
    if isinstance(value, int) and not isinstance(value, bool):
        return says(name) is Says.SURELY and len(str(abs(value))) >= SHORTEST
    if not isinstance(value, str):
        return False
    if name.lower() in _HEADERS:
        return bool(value.strip()) and not referring(value)
    how = says(name)
    if how is Says.PERHAPS:  # a bare `key` or `id` names a thing more often than a secret
        return not name.isalpha() and secret(value, how, ValueForm.QUOTED)
    return how is not Says.NOTHING and secret(value, Says.SURELY, ValueForm.DATA)


def paired_secrets(pairs: Mapping[str, Any]) -> frozenset[str]:
    """Keys whose values are secret because another value names them: `{"name": …, "value": …}`."""
    names = [
        value
        for key, value in pairs.items()
        if isinstance(value, str) and str(key).lower() in _NAMING
    ]
    if not any(says(name) >= Says.LIKELY for name in names):
        return frozenset()
    return frozenset(
        [
            key
            for key, value in pairs.items()
            if isinstance(value, str)
            and _VALUE.fullmatch(str(key))
            and secret(value, Says.SURELY, ValueForm.DATA)
        ]
    )


_NAMING: Final = frozenset(
    ("name", "key", "variable", "var", "id", "field", "header", "param", "parameter")
)


def follows(values: Sequence[Any], at: int) -> bool:
    """Is the value at a place secret because the one before names it: `["--password", "…"]`?"""
    if not at or not isinstance(values[at], str) or not isinstance(values[at - 1], str):
        return False
    before = values[at - 1]
    if before.startswith("-"):
        return says(before.lstrip("-")) >= Says.LIKELY and secret(
            values[at], Says.SURELY, ValueForm.DATA
        )
    return (
        len(values) == 2
        and " " not in before
        and says(before) >= Says.LIKELY
        and secret(values[at], Says.LIKELY, ValueForm.DATA)
    )


def least_part(secret: str) -> int:
    """How long a part of `secret` is at least that is hidden where a text was cut."""
    return max(_SHORTEST, min(len(secret) // 2, _PART))


def without(text: str, spans: Iterable[Span]) -> str:
    """`text` with `MARK` in place of each span; they lie in order, none touching another."""
    parts, at = list[str](), 0
    for start, end in spans:
        parts += (text[at:start], MARK)
        at = end
    return "".join([*parts, text[at:]])


def again(text: str, found: Iterable[Span]) -> Iterator[Span]:
    """Where secrets that stand in `text` stand once more, behind their first place."""
    values: dict[str, int] = {}
    for start, end in sorted(found):
        value = text[start:end]
        if value not in values and telling(value):
            values[value] = end
    for value, at in list(values.items())[:_AGAIN]:
        at = text.find(value, at)
        while at >= 0:
            yield at, at + len(value)
            at = text.find(value, at + len(value))


def telling(value: str) -> bool:
    """Is it secret wherever it stands? A short or common word is not."""
    return len(value) >= 12 and (random(value) or looks_random(value))


def lowered(text: str) -> str:
    """`text` in lower case, letter by letter: places stay the same."""
    if text.isascii():
        return text.lower()
    # One capital has a lower case of two characters, the I with a dot: an i and a combining dot.
    return text.replace("\u0130", "I").lower().translate(_FOLDED)


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
        decoded: str = json.loads(f'"{match.group()}"')
        parts += (text[at : match.start()], decoded)
        length += match.start() - at
        at = match.end()
        escapes.append((length, at))
        length += 1
    return "".join([*parts, text[at:]]), escapes


def raw_place(escapes: list[tuple[int, int]], place: int) -> int:
    """Where a place of the unescaped text lies in the original."""
    # An escape is one character here and two to twelve there: the last one before the place tells
    # how far both have drifted apart.
    index = bisect_left(escapes, (place, 0)) - 1
    if index < 0:
        return place
    inner, end = escapes[index]
    return end + place - inner - 1


def in_context(text: str, lower: str) -> Iterator[Span]:
    """Spans of secrets that their surroundings give away, in no order; `lower`: `text` lowered."""
    for hint, shape, must_be_random in CONTEXTS:
        at = lower.find(hint)
        while at >= 0:
            match = shape.match(text, at)
            if match is not None:
                span = match.span("s" if shape.groupindex else 0)
                if not must_be_random or _is_random(text[slice(*span)]):
                    yield span
            at = lower.find(hint, match.end() if match else at + 1)


def _is_random(value: str) -> bool:
    """Is it no word, and no name in a program?"""
    return solid(value, 0, len(value)) and not is_made_of_words(value)

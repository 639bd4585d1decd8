"""`Redactor` removes secrets from text and JSON, by known value, token shape, name and context.

The table of contexts (keys in PEM, headers, addresses, command lines) is in this module; issuers'
tokens and rated names are in its neighbours. In JSON a name may be a key, a value in another field
of the object, or the previous element of a list of arguments. Escapes are decoded layer by layer
before the search. A known value is searched in the folded form of each layer. Parts of it are
hidden, too, where the text was cut. A distinctive secret that was found once is hidden in the rest
of the text. Pure, and linear in the length of the text.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, Final, cast
from unicodedata import normalize

from taofold.core.late_patterns import late
from taofold.core.option_values import checked_names
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
from taofold.policy.redaction.escapes import (
    ESCAPE,
    Layer,
    decoded,
    folded,
    foldings,
    whole_end,
)
from taofold.policy.redaction.tokens import LONG_AHEAD, Span, solid, tokens

_HEADER: Final = r"[0-9A-Za-z+/_\-.=~|:]"
# A plain `find` of the hint comes first: expressions this broad would be slow on every text. Bounds
# like {0,16384} keep the search linear where an end is missing.
_CONTEXTS: Final = (
    # hint in lower case; pattern, with the secret as its group; must the secret look random
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

KEY_BLOCK: Final = late(
    r"-----BEGIN[ A-Z0-9]{0,40}PRIVATE[ ]KEY(?:[ ]BLOCK)?-----"
    r"(?:[\s\"'+,;]|\\[rn]|[A-Z][A-Za-z\-]{2,20}:[ ][^\n\\]{0,100}){0,200}+"
    r"[0-9A-Za-z+/=]{40}[0-9A-Za-z+/=\s\\\"',;]{0,16384}+"
    r"(?:-----END[ A-Z0-9]{0,40}PRIVATE[ ]KEY(?:[ ]BLOCK)?-----)?"
)
"""A private key with its body. The header alone, or a template of one, is ordinary source code."""

MARK: Final = "[redacted]"
NUMBERS: Final = (int, float)
_HINTS: Final = tuple(dict.fromkeys([*STEMS, *(hint for hint, *_ in CONTEXTS)]))
"""In lower case: a text without any of these and without a long run of letters has no secret."""
_FOLDED: Final = {0x17F: "s", 0x131: "i", **{0xFF41 + n: chr(97 + n) for n in range(26)}}
"""Letters that some readers equate with others: a long s, an i without its dot, wide letters."""
_COMMON: Final = 200
_REMEMBERED: Final = 2_000
"""Cache of harmless short texts, which recur often (names, ids, finish reasons)."""
_SHORTEST: Final = 8
"""Minimum length in characters of a known value, and of a text that is searched."""
_AGAIN: Final = 64
"""Maximum number of secrets of one text that are searched in the rest of it."""
LAYERS: Final = 4
"""Maximum depth of JSON inside JSON."""
CUT: Final = late(r"[\s\[(<]{0,3}(?:…|[.*]{3,})[\s\])>]{0,3}| ?[\[(<]")
"""Marks of a cut. A note about the missing length is between two of these."""
_FOLDED_SHORTEST: Final = 6
"""Minimum length of a known value without its quotes. Shorter ones are ordinary text."""
_PART: Final = 16
"""Minimum length of a part of a known value that is hidden at a cut; of a short value, half."""
_NAMES: Final = late(
    r"(?i)key|token|secret|passw|credential"
    r"|(?:^|_)(?:psk|cookie|bearer|mnemonic|dsn|connection_?string|webhook(?:_?url)?)$"
    r"|(?:^|_|ssh|ldap|bind|root|master|db|user)(?:pass|pw)$"
)
_LOGIN: Final = late(r"[A-Za-z][A-Za-z0-9+.-]*://[^/\s:@]*:([^/\s@]+)@")
"""The password in an address."""
_FOLDERS: Final = ("PWD", "OLDPWD")
"""Variables of every shell: the current and previous folder, not a password."""
_HEADERS: Final = frozenset(("authorization", "proxy-authorization", "cookie", "set-cookie"))
"""HTTP headers whose values are secret at any length."""
_VALUE: Final = late(r"(?i)[a-z_]*value|val|default|content")


def _percent_decoded(text: str) -> str:
    raw = re.sub(rb"%([0-9A-Fa-f]{2})", lambda code: bytes([int(code[1], 16)]), utf8(text).encode())
    return raw.decode("utf-8", "replace")


class Redactor:
    """A filter that replaces secrets in text and JSON by `MARK`.

    Args:
        secrets: Known values, of at least 8 characters.
        shapes: Also find tokens with an unmistakable beginning, and private keys.
        guesses: Also find values by names, contexts and less certain shapes. A guess may be wrong:
            use it for displays only, never for input of a model or a tool.

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
        values = checked_names(secrets, "secrets", secret=True)
        self.known = sorted({s for s in values if len(s) >= _SHORTEST}, key=len, reverse=True)
        """The known values, the longest first."""
        forms = dict[str, str]()
        self._words = set[str]()
        """A text without any of these holds no known value, and no part of one."""
        for value in reversed(self.known):
            flat = re.sub(r"[\r\n]+", " ", value)
            for spelt in {value, flat, normalize("NFC", value), normalize("NFD", value)}:
                for form, words in _forms(spelt):
                    forms[form] = value
                    self._words.update(words)
        self.forms = sorted(forms, key=len, reverse=True)
        """The folded forms of the known values, the longest first."""
        self._known = re.compile("|".join(map(re.escape, self.forms))) if self.forms else None
        # Paths share their beginnings, so the beginning of a path is not secret.
        self._divisible = [form for form in self.forms if forms[form][0] not in "/~"]
        self._grams = frozenset(
            [
                secret[at : at + _SHORTEST]
                for secret in self._divisible
                for at in range(len(secret) - _SHORTEST + 1)
            ]
        )
        """Substrings of known values, for a quick check at the ends of a text."""
        self._shapes, self._guesses = shapes, guesses
        self.harmless: set[str] = set()
        """Short ASCII texts in which nothing was found: they are not searched again."""

    @staticmethod
    def secrets_in(environment: Mapping[str, str]) -> tuple[str, ...]:
        """Returns values of variables with secret names, and passwords in addresses."""
        named = [
            value
            for name, value in environment.items()
            if name not in _FOLDERS and (_NAMES.search(name) or says(name) >= Says.LIKELY)
        ]
        # `DATABASE_URL`, `HTTP_PROXY`: a program may print the password alone, encoded or decoded.
        written = [found[1] for value in environment.values() for found in _LOGIN.finditer(value)]
        return tuple(dict.fromkeys([*named, *written, *map(_percent_decoded, written)]))

    def text(self, text: str) -> str:
        """Returns `text` with every secret replaced, including escaped ones.

        Every text that enters a run passes through here, so a lone surrogate, which logs and
        providers cannot encode, is escaped as well.
        """
        if not text.isascii():
            text = utf8(text)
        if len(text) < _SHORTEST or text in self.harmless:  # no secret is this short
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
        """Returns whether `texts`, names and values, certainly hold no secret.

        One check covers all of them. False is inconclusive: check each text.
        """
        # A control character in between: no token can form across two texts.
        text = "\x1f".join(texts)
        if not text.isascii() or ESCAPE.search(text) is not None:
            return False
        if self._known is not None and _holds(text, self._words):
            for layer in foldings(text):
                parts = [part.strip() for part in layer.text.split("\x1f")]
                ends = [end for part in parts for end in (part[-_SHORTEST:], part[:_SHORTEST])]
                if self._known.search(layer.text) or not self._grams.isdisjoint(ends):
                    return False
        return self._plain(text)

    def viewing(self) -> "Redactor":
        """Returns a redactor for views: it has the same known values, and guesses."""
        return self if self._guesses else Redactor(self.known, guesses=True)

    def spans(self, text: str, *, begins: bool = True) -> list[Span]:
        """Returns the spans of the secrets in `text`, in order and not overlapping.

        `begins`: True if no other text precedes it.
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
        """Returns whether `text` certainly holds no shape of a secret."""
        if LONG_AHEAD.match(text) is not None:
            return False
        lower = text.lower()
        return "-----begin" not in lower and not (self._guesses and _holds(lower, _HINTS))

    def _find(self, text: str, layers: int, begins: bool = True) -> list[Span]:
        spans: list[Span] = []
        if self._known is not None and _holds(text, self._words):
            for layer in foldings(text):
                inner = [match.span() for match in self._known.finditer(layer.text)]
                inner += self._parts(layer.text, _arrived(text, layer), begins)
                spans += [(layer.start(start), layer.end(end)) for start, end in inner]
        if self._shapes and len(text) > _SHORTEST and not (text.isascii() and self._plain(text)):
            spans += tokens(text, certain=not self._guesses)
            if "-----BEGIN" in text:
                spans += [match.span() for match in KEY_BLOCK.finditer(text)]
            if self._guesses:
                # Lowered once for all searches by name, with the length kept: spans refer to
                # `text`.
                lower = lowered(text)
                spans += [*in_context(text, lower), *assigned_secrets(text, lower)]
                spans += again(text, spans)
        # Repeated on the decoded text: `\u0070assword` is a name, and JSON may be inside JSON.
        deeper = decoded(text) if layers else None
        if deeper is not None:
            inner = self._find(deeper.text, layers - 1, begins)
            spans += [(deeper.start(start), deeper.end(end)) for start, end in inner]
        return spans

    def _parts(self, text: str, arrived: int, begins: bool) -> Iterator[Span]:
        """Yields parts of known values where a folded text was cut: at its ends, and beside an
        ellipsis.

        The cut may come from a tool, a program or this runtime, which did not know the value.
        """
        ends = {len(text), len(text.rstrip()), arrived}
        starts = {0, len(text) - len(text.lstrip())} if begins else set[int]()
        for cut in CUT.finditer(text):
            ends.add(cut.start())
            starts.add(cut.end())

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
        """Returns `value`, a number or None, or the mask if it is a known secret.

        NaN and Infinity become their names, as in the results of tools: a log would keep null, and
        a replay would see another value than the run.
        """
        if isinstance(value, float) and not isfinite(value):
            value = repr(value)
        if self._known is None:
            return value
        return MARK if str(value) in self.known else value

    def json(self, value: Any) -> Any:
        """Returns `value` with every secret in its strings replaced. Copies only changed parts."""
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
    """Returns keys whose values are secret by their own name, or by a name beside them."""
    named = [name for name, member in mapping.items() if is_named_secret(name, member)]
    return paired_secrets(mapping).union(named)


def is_named_secret(name: Any, value: Any) -> bool:
    """Returns whether `value` is secret because it is the member `name` of an object."""
    if not isinstance(name, str):
        return False
    # A PIN or an account number: digits under an unambiguous name.
    if isinstance(value, int) and not isinstance(value, bool):
        return says(name) is Says.SURELY and len(str(abs(value))) >= SHORTEST
    if not isinstance(value, str):
        return False
    if name.lower() in _HEADERS:
        return bool(value.strip()) and not referring(value)
    how = says(name)
    if how is Says.PERHAPS:  # a bare `key` or `id` more often names a thing than a secret
        return not name.isalpha() and secret(value, how, ValueForm.QUOTED)
    return how is not Says.NOTHING and secret(value, Says.SURELY, ValueForm.DATA)


def paired_secrets(pairs: Mapping[str, Any]) -> frozenset[str]:
    """Returns keys whose values are secret by another member: `{"name": …, "value": …}`."""
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
    """Returns whether the element before `at` names it a secret: `["--password", "…"]`."""
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
    """Returns the minimum length of a part of `secret` that is hidden where a text was cut."""
    return max(_SHORTEST, min(len(secret) // 2, _PART))


def without(text: str, spans: Iterable[Span]) -> str:
    """Returns `text` with `MARK` in place of each span; spans are in order and do not overlap."""
    parts, at = list[str](), 0
    for start, end in spans:
        parts += (text[at:start], MARK)
        at = end
    return "".join([*parts, text[at:]])


def again(text: str, found: Iterable[Span]) -> Iterator[Span]:
    """Yields repetitions of secrets after their first place in `text`."""
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
    """Returns whether the value is secret in any place. A short or common word is not."""
    return len(value) >= 12 and (random(value) or looks_random(value))


def lowered(text: str) -> str:
    """Returns `text` in lower case with unchanged positions."""
    if text.isascii():
        return text.lower()
    # One capital has a lower case of two characters, the I with a dot: an i and a combining dot.
    return text.replace("\u0130", "I").lower().translate(_FOLDED)


def _holds(text: str, words: Iterable[str]) -> bool:
    # A plain loop: `any` of a generator takes three times as long, on every text.
    for word in words:  # noqa: SIM110
        if word in text:
            return True
    return False


def _forms(value: str) -> Iterator[tuple[str, list[str]]]:
    """Yields the folded forms of a known value, for each layer of escapes it may be in.

    Each comes with two words that programs do not split: one of its first and one of its last part.
    """
    layer: str | None = value
    for _ in range(LAYERS):
        if layer is None:
            return
        # As after a line end: line prefixes there are removed.
        outer = f"\n{layer}"
        inner = folded(outer)
        form = inner.text.strip(" ")
        if len(form) >= _FOLDED_SHORTEST:
            size, first = least_part(form), len(inner.text) - len(inner.text.lstrip(" "))
            parts = [first, first + len(form) - size]
            spans = [slice(inner.start(at), inner.end(at + size)) for at in parts]
            yield form, [_word(outer[span]) for span in spans]
        # A value that looks like an escape itself is decoded together with those around it.
        deeper = decoded(layer)
        layer = None if deeper is None else deeper.text


def _word(text: str) -> str:
    return max(re.findall("[A-Za-z0-9]+", text), key=len, default="")


def _arrived(text: str, layer: Layer) -> int:
    """Returns the end of the folded text without an incomplete escape."""
    end = whole_end(text)
    return len(layer.text) if end == len(text) else len(folded(text[:end]).text)


def in_context(text: str, lower: str) -> Iterator[Span]:
    """Yields spans of secrets found by context, unordered; `lower` is `text` in lower case."""
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
    """Returns whether `value` is neither a word nor an identifier."""
    return solid(value, 0, len(value)) and not is_made_of_words(value)

"""Reads the tokens of JSON-like text: escapes, numbers, literals, strings in any quotes.

Each departure from JSON is recorded as a `Repair`. The end of a string that lost its closing quote
is guessed. Knows nothing about containers or types: the caller passes only whether a key, a member
or an item is due.
"""

from __future__ import annotations

import re
from typing import Any

from taofold.core.late_patterns import late
from taofold.parsing.jsonlike.quoting import CLOSING, MARK, TRIPLE, Quoting, Role, after_blank
from taofold.parsing.outcome import Level, Repair
from taofold.parsing.schema.reading_plan import ReadingPlan

LITERALS: dict[str, Any] = {
    "true": True,
    "false": False,
    "null": None,
    "True": True,
    "False": False,
    "None": None,
    "undefined": None,
    "TRUE": True,
    "FALSE": False,
    "NULL": None,
    "NaN": float("nan"),
    "nan": float("nan"),
    "Infinity": float("inf"),
    "-Infinity": -float("inf"),
}
NUMBER = late(r"[-+]?(?:\d[\d_]*+(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?", re.ASCII)
_JSON_NUMBER = late(r"-?(?:0|[1-9]\d*+)(\.\d++)?([eE][-+]?\d++)?", re.ASCII)
_LEADING_ZERO = late(r"[-+]?0_*\d", re.ASCII)
_HEX = late(r"[-+]?0[xX][0-9a-fA-F]{1,32}")
_GROUPED = late(r"[-+]?\d{1,3}(?:,\d{3})++(?:\.\d++)?", re.ASCII)
_DIGITS = 400
_ESCAPE = late(
    r"\\(u[0-9a-fA-F]{4}|U00(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|\r\n|.)", re.DOTALL
)
_SIMPLE = {
    **{each: each for each in "\"'`/\\“”‘’"},
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "b": "\b",
    "f": "\f",
    "0": "\0",
}
_DRIVE = late(r"[A-Za-z]:\\(?!\\)")
_PAIR = late("[\ud800-\udbff][\udc00-\udfff]")
MISSING: Any = object()


def number_of(token: str) -> tuple[Any, bool]:
    """Reads a number token.

    Returns:
        The value, and whether the token is a JSON number as it stands. The value is `MISSING` if
        the token is not a number or is longer than 400 characters.
    """
    # `int` takes time quadratic in the number of digits.
    if len(token) > _DIGITS:
        return MISSING, False
    plain = _JSON_NUMBER.fullmatch(token)
    if plain:
        return (float(token) if plain[1] or plain[2] else int(token)), True
    if _HEX.fullmatch(token):
        return int(token, 16), False
    if NUMBER.fullmatch(token) and not token.endswith("_") and "__" not in token:
        bare = token.replace("_", "")
        return (int(bare) if bare.lstrip("+-").isdigit() else float(bare)), False
    return MISSING, False


def quantity_of(text: str) -> Any:
    """Returns the number that a text states, including thousands separators, or `MISSING`.

    `1,148.50` and `1,148,000` are read. `1,148` is not, because some locales write 1.148 so.
    """
    token = text.strip()
    if _GROUPED.fullmatch(token) and ("." in token or token.count(",") > 1):
        token = token.replace(",", "")
    value, _ = number_of(token)
    return value


def unescape(body: str, quote: str = '"') -> tuple[str, bool]:
    """Decodes the escapes of a string's body. An unknown escape keeps its backslash.

    An escaped `quote`, the quote around this string, counts as a JSON escape.

    Returns:
        The text, and whether every escape was a JSON escape.
    """
    if "\\" not in body:
        return body, True
    clean = True
    unsure = False

    def one(found: re.Match[str]) -> str:
        nonlocal clean, unsure
        code = found[1]
        if code in _SIMPLE:
            # JSON has none of these escapes, but their meaning is certain.
            if code in "'`0“”‘’" and code != quote:
                clean = False
            return _SIMPLE[code]
        if code[0] in "uxU" and len(code) > 1:
            clean = clean and code[0] == "u"
            return chr(int(code[1:], 16))
        clean = False
        unsure = True
        return "\n" if code in ("\n", "\r\n") else found[0]

    out = _ESCAPE.sub(one, body)
    if unsure and ("\\b" in body or "\\f" in body):  # LaTeX and paths, not control characters
        out = out.replace("\b", "\\b").replace("\f", "\\f")
    if _PAIR.search(out):
        # A surrogate pair, `\ud83d\ude00`, was decoded as two code units.
        out = _PAIR.sub(lambda m: m[0].encode("utf-16", "surrogatepass").decode("utf-16"), out)
    return out, clean


_KEY_LENGTH = 400
_NOTES = 100
_QUOTES = 100_000
"""The most quotes in one text that are examined and end no string."""
_SOLID = frozenset("\"'{}[]:,tfn0123456789-")
_PLAIN = {
    "item": re.compile(r'"([^"\\\n]*+)"(?=\s*+(?:\]|,\s*+["{\[\]\d-])|\s++")'),
    "member": re.compile(r'"([^"\\\n]*+)"(?=\s*+(?:\}|,\s*+"[^"\\\n]{0,80}+"\s*+:))'),
}
"""Fast path for well-formed strings, which most strings are."""
_PLAIN_KEY = late(r'"([^"\\\n]{0,400}+)"(?=\s*+:)')
_STOP = late(r"""[,，;}\])\n"]|\s(?://|\#)|/\*|</|<\||```""")
_TOKEN = late(r"[-+.\w]++(?=\s*+[,}\])\n<`])")
RAW_QUOTE = late(r'<\|"\|>|<escape>')
"""Gemma's quotes."""
_STOPS = {
    quote: re.compile(rf"\\.|[{re.escape(closing)}]", re.DOTALL)
    for quote, closing in CLOSING.items()
}
_LATER = {
    quote: re.compile(
        rf"\\.|[,\n][ \t]{{0,79}}+[{re.escape(closing)}]"
        rf"|[{re.escape(closing)}](?!\x20?(?:[^\W_]|[:：=]))",
        re.DOTALL,
    )
    for quote, closing in CLOSING.items()
}
"""The quotes that may end a string after an earlier quote did not.

A quote before a word cannot, and a long text may be full of those.
"""


class TextEnd(Exception):
    """The text ended inside a token."""


class TokenReader:
    """Reads the tokens of one text and collects the departures from JSON in `repairs`.

    Keeps at most 100 repairs, plus one of each kind that changed the content.
    """

    def __init__(self, text: str, plan: ReadingPlan) -> None:
        self.text = text
        self.quoting = Quoting(text, plan.names, plan.open)
        self.repairs: list[Repair] = []
        self._guesses: set[str] = set()
        self.furthest = 0
        self.is_spent = False
        self._quotes = 0

    def note(
        self, kind: str, at: int, level: Level = "syntax", content: bool = False, cost: int = 1
    ) -> None:
        """Records a repair."""
        # The cap keeps the receipt of a badly broken text small. A repair that changed the content
        # is always kept: without it the guess would be taken for the model's own text.
        if len(self.repairs) < _NOTES or (content and kind not in self._guesses):
            self.repairs.append(Repair(kind, level, content, at, "", cost))
            if content:
                self._guesses.add(kind)

    def begin(self) -> list[Repair]:
        """Starts the receipt of the next value."""
        self.repairs = []
        self._guesses.clear()
        return self.repairs

    def blank(self, at: int) -> int:
        """Returns the offset of the next token, after blanks, comments and ellipses."""
        text = self.text
        # Fast path: in most texts one blank and then a token follows.
        if text[at : at + 1] == " ":
            at += 1
        if text[at : at + 1] in _SOLID:
            return at
        while True:
            at = after_blank(text, at)
            char = text[at : at + 1]
            if char == "#" or (char == "/" and text.startswith("//", at)):
                end = text.find("\n", at)
                self.note("comment", at)
                at = len(text) if end < 0 else end
            elif char == "/" and text.startswith("/*", at):
                end = text.find("*/", at + 2)
                if end < 0:
                    raise TextEnd
                self.note("comment", at)
                at = end + 2
            elif char == "…" or (char == "." and text.startswith("...", at)):
                self.note("ellipsis", at, content=True, cost=4)
                at += 1 if char == "…" else 3
            else:
                return at

    def value(self, at: int, role: Role) -> tuple[Any, int]:
        """Reads a string, strings joined by `+` or parentheses, or a bare word."""
        char = self.text[at]
        if char == '"':
            plain = _PLAIN[role].match(self.text, at)
            if plain is not None:
                return plain[1], plain.end()
        if char in CLOSING:
            first, at = self.string(at, role)
            return self._joined(at, first, role)
        if char == "<":
            raw = RAW_QUOTE.match(self.text, at)
            if raw is not None:
                return self.raw(raw)
        if char != "(":
            return self._bare(at, role)
        at = self.blank(at + 1)
        if self.text[at : at + 1] not in ('"', "'"):
            raise ValueError
        # From here on a `)` may follow a string.
        self.quoting.calls = True
        first, at = self.string(at, "item")
        text, at = self._joined(at, first, role, adjacent=True)
        at = self.blank(at)
        if self.text[at : at + 1] != ")":
            raise ValueError
        return text, at + 1

    def raw(self, opener: re.Match[str]) -> tuple[str, int]:
        """Reads a string between two raw quotes, in which nothing is escaped."""
        end = self.text.find(opener[0], opener.end())
        if end < 0:
            raise TextEnd
        body = self.text[opener.end() : end]
        if '\\"' in body:  # raw quotes need no escapes, but the model may have escaped all the same
            self.note("escape", opener.end(), content=True)
        return body, end + len(opener[0])

    def _joined(self, at: int, value: str, role: Role, adjacent: bool = False) -> tuple[str, int]:
        """Joins `"a" + "b"`, and inside parentheses `"a" "b"`."""
        text = self.text
        parts = [value]
        while True:
            ahead = self.blank(at)
            char = text[ahead : ahead + 1]
            joined = self.quoting.is_adjacent(at, ahead) and not self.quoting.is_key(ahead)
            if char == "+":
                ahead = self.blank(ahead + 1)
                char = text[ahead : ahead + 1]
            elif not adjacent and not (joined and role != "item"):
                break
            if char not in ('"', "'"):
                break
            self.note("joined_strings", ahead, content=True, cost=2)
            part, at = self.string(ahead, "item" if role == "item" or adjacent else "member")
            parts.append(part)
        return "".join(parts), at

    def string(self, at: int, role: Role) -> tuple[str, int]:
        """Reads the string whose opening quote stands at `at`."""
        text = self.text
        quote = text[at]
        if role == "key" and quote == '"':
            match = _PLAIN_KEY.match(text, at)
            if match is not None:
                return match[1], match.end()
        triple = text[at : at + 3]
        # Without a closing triple quote, the first quote counts by itself.
        if triple in TRIPLE and role != "key" and text.find(triple, at + 3) >= 0:
            return self._triple(at, triple)
        if quote != '"':
            self.note("foreign_quotes", at)
        begin = position = at + 1
        dirty = False
        stops = _STOPS[quote]
        while (match := stops.search(text, position)) is not None:
            position = match.end()
            # A longer key is prose after a stray quote. Without the bound, each of many such quotes
            # would be followed to the end of the text.
            if role == "key" and position - begin > _KEY_LENGTH:
                self.furthest = max(self.furthest, position)
                raise ValueError
            if match[0][0] == "\\":
                continue
            if self.quoting.closes(position, role, dirty, begin):
                return self._body(begin, position - 1, dirty), position
            # Checked for every quote that does not close: the first one that opens a known key ends
            # the string.
            if role == "member" and self._lost_quote(begin, position - 1):
                return self._cut_short(begin, position - 1)
            dirty = True
            self._quotes += 1
            if self._quotes > _QUOTES:
                self.is_spent = True
                raise ValueError
            stops = stops if role == "key" else _LATER[quote]
        return self._unclosed(begin, role)

    def _cut_short(self, begin: int, at: int) -> tuple[str, int]:
        """Returns the string before the key whose quote stands at `at`."""
        body = self.text[begin:at].rstrip().removesuffix(",")
        self.note("missing_quote", at, content=True, cost=3)
        return unescape(body)[0], begin + len(body)

    def _lost_quote(self, begin: int, at: int) -> bool:
        """Returns whether the quote at `at` opens the next key because the string lost its own
        quote.
        """
        if self.text[at - 1] not in " \t,\n":
            return False
        before = self.text[max(begin, at - 80) : at].rstrip(" \t")
        return before[-1:] in (",", "\n") and self.quoting.is_known_key(at)

    def _body(self, begin: int, end: int, dirty: bool) -> str:
        body = self.text[begin:end]
        if dirty:
            self.note("unescaped_quotes", begin, content=True, cost=2)
        if "\n" in body:
            self.note("raw_newline", begin)
        quote = self.text[begin - 1]
        # A model that escaped neither quotes nor line breaks, nor the path of a drive, escaped
        # nothing.
        if dirty and "\n" in body and f"\\{quote}" not in body:
            return body
        is_path = _DRIVE.match(body) is not None
        value, clean = (body, False) if is_path else unescape(body, quote)
        if not clean:
            self.note("escape", begin, content=True)
        return value

    def _triple(self, at: int, triple: str) -> tuple[str, int]:
        end = self.text.index(triple, at + 3)
        body = self.text[at + 3 : end]
        self.note("triple_quotes", at)
        if triple == "```":
            first, newline, rest = body.partition("\n")
            # The first line of a fence names its language.
            body = rest if newline and first.strip().isalnum() else body
            return body, end + 3
        return body, end + 3

    def _unclosed(self, begin: int, role: Role) -> tuple[str, int]:
        """Reads a string without an end.

        It is cut off, unless only lines of closers follow its line.
        """
        text = self.text
        line = text.find("\n", begin)
        mark = MARK.search(text, max(line, begin)) if line >= 0 else None
        end = mark.start() if mark else len(text)
        # After a lost quote only the closers of the whole value may follow. A longer rest is text.
        if role != "key" and line >= 0 and end - line < 400:
            head = text[begin:line].rstrip()
            body = head.rstrip("}]").rstrip()
            if mark and text[end:].strip().strip("`~"):
                raise TextEnd
            # A closer whose opener is inside the text belongs to the text.
            balanced = all(body.count(a) <= body.count(b) for a, b in ("{}", "[]"))
            tail = text[begin + len(body) : end]
            if balanced and body and "\n" in tail and tail.strip() and not tail.strip("}] \t\r\n"):
                self.note("missing_quote", begin + len(body), content=True, cost=3)
                return unescape(body)[0], begin + len(body)
        raise TextEnd

    def _bare(self, at: int, role: Role) -> tuple[Any, int]:
        text = self.text
        token = _TOKEN.match(text, at)
        if token is not None:
            value = self._literal(token[0], at)
            if value is not MISSING:
                return value, token.end()
        position = at
        while True:
            match = _STOP.search(text, position)
            if match is None:
                word = text[at:].strip()
                # A number may be incomplete: `12` of `120` would be another value.
                if word not in LITERALS:
                    raise TextEnd
                return self._literal(word, at), len(text)
            position = match.end()
            if match[0] == '"':
                if self.quoting.closes(position, role, dirty=True, start=at):
                    self.note("missing_quote", at, content=True, cost=3)
                    return text[at : position - 1].strip(), position
            elif match[0] not in ",，;" or role == "item" or self._ends_member(position):
                return self._word(at, match.start())

    def _word(self, at: int, end: int) -> tuple[Any, int]:
        word = self.text[at:end].strip()
        if not word:
            raise ValueError
        value = self._literal(word, at)
        if value is MISSING:
            value = word
            self.note("unquoted_text", at, content=True, cost=2)
        return value, end

    def _ends_member(self, at: int) -> bool:
        rest = self.text[at : at + 80].lstrip()
        return not rest or rest[0] in "}])" or self.quoting.is_key(at)

    def _literal(self, word: str, at: int) -> Any:
        value: Any
        if word in LITERALS:
            if word not in ("true", "false", "null"):
                self.note("foreign_literal", at)
            return LITERALS[word]
        if _LEADING_ZERO.match(word):  # text such as `02134`, which is not a JSON number
            return MISSING
        value, plain = number_of(word)
        if value is not MISSING and not plain:
            self.note("number_format", at)
        return value

"""Decodes single tokens: escapes, numbers, the literals of JSON, Python and JavaScript.

Knows nothing about structure or types.
"""

from __future__ import annotations

import re
from typing import Any

LITERALS: dict[str, Any] = {
    "true": True, "false": False, "null": None,
    "True": True, "False": False, "None": None, "undefined": None,
    "TRUE": True, "FALSE": False, "NULL": None,
    "NaN": float("nan"), "nan": float("nan"), "Infinity": float("inf"), "-Infinity": -float("inf"),
}  # fmt: skip
NUMBER = re.compile(r"[-+]?(?:\d[\d_]*+(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?")
_PLAIN = re.compile(r"-?(?:0|[1-9]\d*+)(\.\d++)?([eE][-+]?\d++)?")
_HEX = re.compile(r"[-+]?0[xX][0-9a-fA-F]{1,32}")
_GROUPED = re.compile(r"[-+]?\d{1,3}(?:,\d{3})++(?:\.\d++)?")
_DIGITS = 400
_ESCAPE = re.compile(
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
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
MISSING: Any = object()


def number_of(token: str) -> tuple[Any, bool]:
    """Reads a number token.

    Returns:
        The value (`MISSING` when it is none, or is longer than 400 characters) and whether the
        token is a number of JSON as it stands.
    """
    if len(token) > _DIGITS:
        return MISSING, False
    plain = _PLAIN.fullmatch(token)
    if plain:
        return (float(token) if plain[1] or plain[2] else int(token)), True
    if _HEX.fullmatch(token):
        return int(token, 16), False
    if NUMBER.fullmatch(token) and not token.endswith("_") and "__" not in token:
        bare = token.replace("_", "")
        return (int(bare) if bare.lstrip("+-").isdigit() else float(bare)), False
    return MISSING, False


def quantity_of(text: str) -> Any:
    """The number that a text states, thousands separators included, or `MISSING`.

    `1,148.50` and `1,148,000` are read; `1,148` is not, because it is 1.148 elsewhere.
    """
    token = text.strip()
    if _GROUPED.fullmatch(token) and ("." in token or token.count(",") > 1):
        token = token.replace(",", "")
    value, _ = number_of(token)
    return value


def unescape(body: str, quote: str = '"') -> tuple[str, bool]:
    """Decodes the escapes of a string's body; an unknown escape keeps its backslash.

    An escaped `quote`, the sign that the string stands in, is as good as one of JSON's.

    Returns:
        The text and whether every escape was one of JSON's.
    """
    if "\\" not in body:
        return body, True
    clean = True
    unsure = False

    def one(found: re.Match[str]) -> str:
        nonlocal clean, unsure
        code = found[1]
        if code in _SIMPLE:
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
        out = _PAIR.sub(lambda m: m[0].encode("utf-16", "surrogatepass").decode("utf-16"), out)
    return out, clean

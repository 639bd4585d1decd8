"""A known value is found in every escaped form, as a whole and in pieces.

Mutants: one family of spellings is omitted; the stream waits for the value itself only.
"""

import html
import json
import quopri
import re
import shlex
import textwrap
from collections.abc import Callable
from unicodedata import normalize
from urllib.parse import quote, quote_plus, urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taofold.policy.redaction import MARK, Redactor
from tests.policy.test_pieces import AROUND, SIZES, check

VALUES = (
    "p&ss<w>o\"r'd $9/=%!",
    "https://u:s3cr+t~@host/?a=b#c",
    "it's `mine` \\o/ 100%",
    "Schlüssel-für-😀 9",
    "two lines: a&b\nand ;more",
)
Form = Callable[[str], str]
ESCAPED: dict[str, Form] = {
    "repr of bytes": lambda v: repr(v.encode()),
    "repr of bytes, Latin-1": lambda v: repr(v.encode("latin-1", "xmlcharrefreplace")),
    "an error's argument": lambda v: str(ValueError(v.encode())),
    "an error's text": lambda v: repr(ValueError(v)),
    "ascii": ascii,
    "ascii in json": lambda v: json.dumps({"error": ascii(v)}),
    "git": lambda v: '"' + "".join([
        f"\\{byte:03o}" if byte > 126 else chr(byte) for byte in v.encode()
    ]).replace('"', '\\"').replace("\n", "\\n") + '"',
    "percent, Latin-1": lambda v: quote(v, safe="", encoding="latin-1", errors="xmlcharrefreplace"),
    "percent of json": lambda v: quote(json.dumps({"k": v})),
    "form of json": lambda v: urlencode({"payload": json.dumps({"k": v})}),
    "json of a form": lambda v: json.dumps(urlencode({"k": v})),
    "html of json": lambda v: html.escape(json.dumps({"k": v})),
    "JavaScript": lambda v: "".join([
        c if c.isascii() and c.isalnum() else f"\\u{{{ord(c):x}}}" for c in v
    ]),
    "C#": lambda v: "".join([c if c.isascii() else f"\\U{ord(c):08x}" for c in v]),
    "Perl": lambda v: "".join([c if c.isascii() else f"\\x{{{ord(c):x}}}" for c in v]),
    "escape of JavaScript": lambda v: "".join([
        c if c.isascii() and c.isalnum()
        else f"%{ord(c):02X}" if ord(c) < 256
        else re.sub("(....)", r"%u\1", c.encode("utf-16-be").hex().upper())
        for c in v
    ]),
    "decomposed": lambda v: normalize("NFD", v),
    "each character": lambda v: "".join([f"\\x{byte:02x}" for byte in v.encode()]),
    "each character, percent": lambda v: "".join([f"%{byte:02X}" for byte in v.encode()]),
    "each character, html": lambda v: "".join([f"&#{ord(c)};" for c in v]),
    "percent": lambda v: quote(v, safe=""),
    "percent, paths": quote,
    "percent, lower": lambda v: "".join(
        part if n % 2 == 0 else part.lower()
        for n, part in enumerate(re.split("(%[0-9A-F]{2})", quote(v, safe="")))
    ),
    "form": quote_plus,
    "form body": lambda v: urlencode({"password": v, "x": "1"}),
    "encodeURIComponent": lambda v: quote(v, safe="-_.!~*'()"),
    "percent twice": lambda v: quote(quote(v, safe=""), safe=""),
    "percent thrice": lambda v: quote(quote(quote(v, safe=""), safe=""), safe=""),
    "e-mail": lambda v: quopri.encodestring(v.encode()).decode().replace("=\n", ""),
    "html": html.escape,
    "html text": lambda v: html.escape(v, quote=False),
    "html, numbers": lambda v: v.replace("&", "&#38;").replace("<", "&#60;").replace(">", "&#62;")
    .replace('"', "&#34;").replace("'", "&#39;"),
    "html ascii": lambda v: html.escape(v).encode("ascii", "xmlcharrefreplace").decode(),
    "xml": lambda v: v.replace("&", "&amp;").replace("<", "&lt;"),
    "shell": shlex.quote,
    "shell, double": lambda v: '"' + re.sub(r'([$`"\\])', r"\\\1", v) + '"',
    "shell, printf %q": lambda v: re.sub(r"([^A-Za-z0-9_@%+=:,./-])", r"\\\1", v),
    "json": json.dumps,
    "json in json": lambda v: json.dumps(json.dumps({"k": v})),
    "html in json": lambda v: json.dumps(html.escape(v)),
    "percent in json": lambda v: json.dumps({"url": f"https://a.example/?p={quote(v, safe='')}"}),
    "json, slashes": lambda v: json.dumps(v).replace("/", "\\/"),
    "python": repr,
    "sql": lambda v: "'" + v.replace("'", "''") + "'",
    "html twice": lambda v: html.escape(html.escape(v)),
    "hexadecimal": lambda v: "".join(
        c if c.isalnum() or ord(c) > 255 else f"\\x{ord(c):02x}" for c in v
    ),
    "octal": lambda v: "".join(
        c if c.isalnum() or ord(c) > 255 else f"\\{ord(c):03o}" for c in v
    ),
    "powershell": lambda v: re.sub(r"([$`\"])", r"`\1", v),
    "cmd": lambda v: re.sub(r"([&|<>^])", r"^\1", v),
    "latex": lambda v: re.sub(r"([&%$#_{}])", r"\\\1", v),
    "csv": lambda v: '"' + v.replace('"', '""') + '"',
}  # fmt: skip


@pytest.mark.parametrize("how", ESCAPED)
@pytest.mark.parametrize("value", VALUES)
def test_a_known_value_is_found_as_programs_escape_it(value: str, how: str) -> None:
    escaped = ESCAPED[how](value)
    shown = Redactor([value]).text(f"it is {escaped}, they say")
    assert MARK in shown
    for part in (escaped, value):
        rest = part.strip("'\"")
        assert rest[: len(rest) // 2] not in shown
    assert shown.startswith("it is ")
    assert shown.endswith(", they say")


@pytest.mark.parametrize("how", ESCAPED)
def test_an_escaped_value_in_pieces_is_what_the_whole_is(how: str) -> None:
    redactor = Redactor(VALUES)
    for turn, size in enumerate(SIZES):
        value, (before, after) = VALUES[turn % len(VALUES)], AROUND[turn % len(AROUND)]
        check(f"{before}{ESCAPED[how](value)}{after}", redactor, size)


@settings(deadline=None, max_examples=100)
@given(
    st.text("ab9-_/+=&<>\"'%$ \\é€", min_size=8, max_size=24),
    st.sampled_from(list(ESCAPED)),
    st.integers(0, 1000),
)
def test_any_escaped_value_in_pieces(value: str, how: str, seed: int) -> None:
    check(f"so: {ESCAPED[how](value)}; and on", Redactor([value]), 0, seed)


KEY_LINES = [f"MIIEvQIBADANBgkqhkiG9w{n:02}+/aBcDeFgHiJkLmNoPqRs" for n in range(4)]
KEY = "\n".join(["-----BEGIN X KEY-----", *KEY_LINES, "-----END X KEY-----", ""])
LAID_OUT: dict[str, Form] = {
    "as it is": lambda v: v,
    "CRLF": lambda v: v.replace("\n", "\r\n"),
    "indented": lambda v: textwrap.indent(v, "      "),
    "indented by tabs": lambda v: textwrap.indent(v, "\t\t"),
    "YAML": lambda v: f"key: |\n{textwrap.indent(v, '  ')}",
    "quoted in a mail": lambda v: textwrap.indent(v, "> "),
    "a difference": lambda v: textwrap.indent(v, "+"),
    "a difference, taken out": lambda v: textwrap.indent(v, "-"),
    "a comment": lambda v: textwrap.indent(v, "# "),
    "a comment in a block": lambda v: textwrap.indent(v, " * "),
    "a bar": lambda v: textwrap.indent(v, "│ "),
    "cat -n": lambda v: "".join([f"{n:6}\t{line}\n" for n, line in enumerate(v.splitlines(), 1)]),
    "grep -n": lambda v: "".join([f"{n}:{line}\n" for n, line in enumerate(v.splitlines(), 1)]),
    "a literal in lines": lambda v: " +\n    ".join([json.dumps(f"{x}\n") for x in v.splitlines()]),
    "strings side by side": lambda v: "\n  ".join([repr(f"{x}\n") for x in v.splitlines()]),
    "one line": lambda v: v.replace("\n", " "),
    "a repr of bytes": lambda v: repr(v.encode()),
    "a form": lambda v: quote_plus(v.replace("\n", "\r\n")),
}  # fmt: skip


@pytest.mark.parametrize("how", LAID_OUT)
def test_a_value_of_several_lines_is_found_however_it_is_laid_out(how: str) -> None:
    """Mutant: the blanks of a line end are compared as they are."""
    text = f"it is\n{LAID_OUT[how](KEY)}\n, they say"
    redactor = Redactor([KEY], shapes=False)
    shown = redactor.text(text)
    assert MARK in shown
    assert not [line for line in KEY_LINES if line in shown or quote_plus(line) in shown]
    assert shown.startswith("it is\n")
    assert shown.endswith(", they say")
    check(text, redactor, 0)


def test_a_value_that_looks_like_an_escape_is_found_beside_others() -> None:
    """Mutant: only the value itself is folded."""
    for value in ("a%20b<cd>ef", "x&lt;y'12345", r"C:\nab\x41b<c"):
        for form in (value, html.escape(value), json.dumps({"k": value})):
            assert MARK in Redactor([value]).text(form)


def test_words_apart_are_no_value() -> None:
    redactor = Redactor(["12345678", "correct-horse", "abcdefgh"])
    for text in ("1 2 3 4 5 6 7 8", "correct - horse", "12, 34, 56, 78", "1234\n5678", "abcd efgh"):
        assert redactor.text(text) == text


@pytest.mark.parametrize("value", VALUES)
def test_text_that_holds_no_value_stays(value: str) -> None:
    redactor = Redactor([value])
    for text in (
        "a &amp; b &lt;c&gt;",
        "%20%26",
        "'it'\\''s'",
        html.escape("<a href='x'>"),
        "100%%",
    ):
        assert redactor.text(text) == text

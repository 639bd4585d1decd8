"""A known value is found however a program escaped it, as a whole and in pieces.

Mutants it catches: one family of spellings is left out; the stream waits for the value itself only.
"""

import html
import json
import quopri
import re
import shlex
from urllib.parse import quote, quote_plus, urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taofold.policy.redaction import MARK, Redactor
from taofold.policy.redaction.spellings import spellings
from tests.policy.test_pieces import AROUND, SIZES, check

VALUES = (
    "p&ss<w>o\"r'd $9/=%!",
    "https://u:s3cr+t~@host/?a=b#c",
    "it's `mine` \\o/ 100%",
    "Schlüssel-für-😀 9",
    "two lines: a&b\nand ;more",
)
ESCAPED = {
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
    "hexadecimal": lambda v: "".join(c if c.isalnum() else f"\\x{ord(c):02x}" for c in v),
    "octal": lambda v: "".join(c if c.isalnum() else f"\\{ord(c):03o}" for c in v),
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


def test_a_value_without_signs_is_written_in_one_way() -> None:
    assert spellings("AKIA1234abcd-_.~") == frozenset()


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

"""How programs write a known value: escaped for addresses, forms, HTML, shells, JSON, SQL. Pure.

Each program escapes a value as a whole, by one rule, so the ways are few and can be listed: what is
listed is found by the same search as the value itself, in pieces, too. Encodings of every character
(base64, hexadecimal) are not among them.
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import product
from string import ascii_letters, digits
from typing import Final

_PLAIN: Final = re.compile(r"[A-Za-z0-9_.~-]+")
_LONGEST: Final = 4096
_UNRESERVED: Final = f"{ascii_letters}{digits}_.-~"
_SAFE: Final = ("", "/", "*-._", "-_.!~*'()", ";,/?:@&=+$-_.!~*'()#")
"""What stays as it is: nothing, Python's `quote`, forms, `encodeURIComponent`, `encodeURI`."""
_ENTITIES: Final = (
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"},
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&#34;", "'": "&#39;"},
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"},
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;"},
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#039;"},
    {"&": "&#38;", "<": "&#60;", ">": "&#62;", '"': "&#34;", "'": "&#39;"},
    {"&": "&#x26;", "<": "&#x3c;", ">": "&#x3e;", '"': "&#x22;", "'": "&#x27;"},
    {"&": "&#x26;", "<": "&#x3C;", ">": "&#x3E;", '"': "&#x22;", "'": "&#x27;"},
)
_MORE: Final[tuple[Mapping[str, str], ...]] = (
    {},
    {"`": "&#x60;", "=": "&#x3D;"},
    {"/": "&#x2F;"},
    {"/": "&#x2F;", "`": "&#x60;", "=": "&#x3D;"},
)
"""What some template languages escape besides."""
_LEFT: Final = ("", "'", "\"'", ">", ">'", ">\"'")
"""What some escape not: a text needs no quotes escaped, and XML no `>`."""


@lru_cache(maxsize=512)
def spellings(value: str) -> frozenset[str]:
    """Returns the ways in which programs write `value`, without `value` itself."""
    if len(value) > _LONGEST or _PLAIN.fullmatch(value):
        return frozenset()
    ways = [*_percent(value), *_html(value), *_quoted(value), *_numbered(value), *_mail(value)]
    return frozenset(ways) - {value}


def _percent(value: str) -> Iterator[str]:
    for safe in _SAFE:
        written = _quote(value, safe)
        twice = _quote(written, "")
        for one in (written, twice, _quote(twice, "")):
            for form in (one, one.replace("%20", "+")):
                yield form
                yield re.sub("%[0-9A-F]{2}", lambda escape: escape[0].lower(), form)


def _quote(value: str, safe: str) -> str:
    """Returns `value` percent-encoded; letters, digits, `_.-~` and `safe` stay (RFC 3986, 2.3)."""
    # Not urllib's: the policy imports nothing that can reach a network.
    kept = frozenset(f"{_UNRESERVED}{safe}".encode())
    raw = value.encode("utf-8", "replace")
    return "".join([chr(byte) if byte in kept else f"%{byte:02X}" for byte in raw])


def _html(value: str) -> Iterator[str]:
    ascii_only = value.encode("ascii", "xmlcharrefreplace").decode()
    for entities, more, left in product(_ENTITIES, _MORE, _LEFT):
        named = {**entities, **more}.items()
        table = {ord(sign): name for sign, name in named if sign not in left}
        escaped = value.translate(table)
        yield escaped
        if ascii_only != value:
            yield escaped.encode("ascii", "xmlcharrefreplace").decode()


def _quoted(value: str) -> Iterator[str]:
    yield value.replace("'", "'\\''")
    yield value.replace("'", "'\"'\"'")
    yield value.replace("'", "''")  # SQL, YAML
    yield value.replace('"', '""')  # CSV
    yield value.replace("%", "%%")
    yield re.sub(r"([^A-Za-z0-9_@%+=:,./-])", r"\\\1", value)
    yield re.sub(r"([^A-Za-z0-9_.-])", r"\\\1", value)
    yield re.sub(r"([^A-Za-z0-9_])", r"\\\1", value)
    yield re.sub(r"([$`\"\\])", r"\\\1", value)
    yield re.sub(r"([$`\"\\!])", r"\\\1", value)
    yield re.sub(r"(['\\])", r"\\\1", value)
    yield re.escape(value)
    yield value.replace("$", "$$")  # make, compose
    yield re.sub(r"([$`\"])", r"`\1", value)  # PowerShell
    yield re.sub(r"([&|<>^])", r"^\1", value)  # cmd
    yield re.sub(r"([&%$#_{}])", r"\\\1", value)  # LaTeX
    yield repr(value)[1:-1]
    yield repr(f"{value}'\"")[1:-4]
    for ascii_ in (True, False):
        written = json.dumps(value, ensure_ascii=ascii_)[1:-1]
        yield written
        yield written.replace("/", "\\/")


def _mail(value: str) -> Iterator[str]:
    """Quoted-printable (RFC 2045, 6.7), without its line breaks."""
    raw = value.encode("utf-8", "replace")
    for kept in (" \t\n", " \t", ""):
        plain = frozenset(range(33, 127)) - {ord("=")} | {*kept.encode()}
        yield "".join([chr(byte) if byte in plain else f"={byte:02X}" for byte in raw])


def _numbered(value: str) -> Iterator[str]:
    """Signs by their numbers: of programs, of LDAP and CSS; and what is escaped for HTML twice."""
    for form in (
        "\\x{:02x}",
        "\\x{:02X}",
        "\\{:03o}",
        "\\{:02x}",
        "\\{:02X}",
        "\\{:x} ",
        "\\u{{{:x}}}",
    ):
        yield "".join([c if c.isalnum() else form.format(ord(c)) for c in value])
    for entities, left in product((_ENTITIES[0], _ENTITIES[2]), _LEFT[:3]):
        table = {ord(sign): name for sign, name in entities.items() if sign not in left}
        yield value.translate(table).translate(table)

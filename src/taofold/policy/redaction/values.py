"""Does a value that stands under a telling name look like a secret? Pure."""

import re
from collections import Counter
from enum import Enum
from math import log2
from typing import Final

from taofold.policy.redaction.names import Says, says

SHORTEST: Final = 6
"""Characters of a secret that only its name gives away."""
_RANDOM: Final = 16
"""Characters of one that looks random, under a name that does not say much."""
_ENTROPY: Final = 2.8
"""Bits per character of what looks random; 32 random hexadecimal digits have 3.3 and more."""
_DISTINCT: Final = 3
"""Different characters; fewer are a placeholder."""
_CHANGES: Final = 3
"""How often letters and digits, or cases, change in what looks random."""


class Form(Enum):
    """How the value is written."""

    QUOTED = "quoted"
    BARE = "bare"
    """`name = value`, `name: value`, in whatever language."""
    LISTED = "listed"
    """`NAME=value`, `?name=value`, `<name>value</name>`: nobody writes a program so."""


_REFERENCE: Final = re.compile(
    r"""
      \$\{.* | \$\(.* | \$[A-Za-z_].* | %[A-Za-z_]+% | %[(<].* | %[sdrqv]    # of a shell, printf
    | .{0,8}\{\{\s*[\w.$@|()'"\s:-]+\}\}.* | \{[\w.!:\[\]]*\} | [\#@]\{.*     # of templates
    | [^{}]*\{[A-Za-z_][\w.()\[\]:!'"-]*\}.* | <[^<>]*>? | @\w+@ | __\w+__
    | env:\w+ | [!&](?=[A-Za-z_{(\[])[\w.(\[{].*                            # of YAML
    | \*.* | \.{3}.* | \w{0,8}\.{3} | \\[nrt].* | \[redacted.*
    | your[-_ ].* | (?i:my[-_ ]).{0,24}
    | (?i:change[-_]?me.{0,8} | replace[-_]?me | example | dummy | redacted | placeholder
        | required | optional | undefined | string | number | boolean | object | integer
        | nullable | unknown | missing | invalid | incorrect | hidden | prompt | default
        | disabled | enabled | expired)
    """,
    re.VERBOSE | re.DOTALL,
)
"""What only stands for a secret, or says that there is none."""
_CODE: Final = re.compile(
    r"""
      (?=[^\#^~]*[()\[\]{}])[^\#^~]*
    | [%?&*!][\w.(]+.*
    | [A-Za-z_$][\w$]*(?:(?:\.|::|->|\?\.)[A-Za-z_$][\w$]*)*(?:[(\[{<!].*)?
    | [(\[{&*+|].*
    | .*=>.*
    | \w+\(.*
    """,
    re.VERBOSE | re.DOTALL,
)
_CLOSING: Final = {")": "(", "]": "[", "}": "{"}
_DRAWN: Final = re.compile(
    r"(?=.*[A-Za-z])(?=.{0,11}[0-9].|.{12,}[0-9])[^\s]{8,}|(?=.*[a-z][A-Z].*[a-z][A-Z])[^\s]{12,}"
)
"""A digit, not as the last of few characters; or cases in turn."""
_PATH: Final = re.compile(
    r"(?:[.~]{0,2}/|[A-Za-z]:\\|https?://|file:)[^\s]*|[\w.\-]+/[\w.\-/]*\.\w{1,5}"
)
_CALL: Final = re.compile(r"[A-Za-z_][\w.:]*[(\[].*", re.DOTALL)
_VOWEL: Final = re.compile(r"[aeiouyAEIOUY]")
_PIECES: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z_\-.: ]*")
_NAMED: Final = re.compile(r"\w+(?:[\-_. :/]+\w+)+")
_SENTENCE: Final = re.compile(
    r"[A-Z][a-z]+(?:'[a-z]+)?[ ,.!?].*|.*[a-z][.!?:,]\s.*|.*[.!?:]", re.DOTALL
)


def secret(value: str, name: Says, form: Form) -> bool:
    """Is `value`, under a name that says so much, a secret?"""
    value = value.strip()
    if len(value) < SHORTEST:
        return False
    if name >= Says.LIKELY and _crossed(value):
        return True
    if _REFERENCE.fullmatch(value):
        return False
    if form is not Form.LISTED and len(set(value)) < _DISTINCT:
        return False
    if _PATH.fullmatch(value) or (form is not Form.QUOTED and _program(value, name, form)):
        return False
    if name is Says.PERHAPS:
        return random(value)
    if name is Says.LIKELY:
        return random(value) or drawn(value)
    return form is Form.LISTED or not _label(value)


def referring(value: str) -> bool:
    """Does it only stand for a secret, or say that there is none?"""
    return _REFERENCE.fullmatch(value.strip()) is not None


def _crossed(value: str) -> bool:
    """Do its brackets cross, as no program's and no template's do?"""
    opened: list[str] = []
    for character in value:
        if character in "([{":
            opened.append(character)
        elif character in _CLOSING and opened and opened.pop() != _CLOSING[character]:
            return True
    return False


def _program(value: str, name: Says, form: Form) -> bool:
    """Is it a piece of a program: a name, a call, a type?"""
    if form is Form.LISTED:
        return _CALL.fullmatch(value) is not None
    if value.isalnum() and not value.isalpha():
        return says(value) is not Says.NOTHING if name is Says.SURELY else worded(value)
    return _CODE.fullmatch(value) is not None and not any(mark in value for mark in "#^~")


def drawn(value: str) -> bool:
    """Does it have digits, or cases, where words have none?"""
    if _DRAWN.fullmatch(value) is None:
        return value.isdigit() and len(value) >= _RANDOM - 1
    return len(value) >= _RANDOM or not worded(value)


def random(value: str) -> bool:
    """Does it look as if a machine had drawn it?"""
    if len(value) < _RANDOM or any(character.isspace() for character in value):
        return False
    changes = sum(1 for _ in _CHANGE.finditer(value))
    return changes >= _CHANGES and _entropy(value) >= _ENTROPY and not worded(value)


_CHANGE: Final = re.compile(
    r"[A-Za-z](?=[0-9])|[0-9](?=[A-Za-z])|[a-z](?=[A-Z])|[A-Z](?=[A-Z][a-z])"
)


def worded(value: str) -> bool:
    """Is it made of words, as the names of a program are?"""
    pieces = _PIECES.findall(value)
    letters = [piece for piece in pieces if not piece.isdigit()]
    digits = len(pieces) - len(letters)
    long = sum(len(piece) for piece in letters if len(piece) >= 3 and _VOWEL.search(piece))
    return (
        bool(letters)
        and digits <= max(1, len(letters) // 3)
        and long >= 0.7 * sum(map(len, pieces))
    )


def _entropy(value: str) -> float:
    size = len(value)
    return -sum(n / size * log2(n / size) for n in Counter(value).values())


def _label(value: str) -> bool:
    """Is it what a form, a message or a program calls a secret?"""
    if " " in value and _SENTENCE.fullmatch(value):
        return True
    if _PLAIN.fullmatch(value) is None:
        return _NAMED.fullmatch(value) is not None and worded(value)
    if value.isalpha() and value.islower():
        return value in _EXACT
    if " " in value:
        return any(says(word) is not Says.NOTHING for word in value.split())
    return says(value) is not Says.NOTHING or worded(value)


_EXACT: Final = frozenset(
    (
        "password",
        "passwd",
        "passphrase",
        "secret",
        "secrets",
        "token",
        "apikey",
        "accesskey",
        "secretkey",
        "privatekey",
        "accesstoken",
        "credentials",
        "credential",
        "username",
        "header",
        "cookie",
        "bearer",
    )
)

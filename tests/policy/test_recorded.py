"""Recorded redactions per form and issuer.

`recorded/assignments.json` has a mark per name, form and value: `#` redacted, `.` unchanged, `~`
another part is redacted. `recorded/tokens.json` has the number of random characters after which a
token of an issuer is detected.
"""

import json
import os
import random
import string
from pathlib import Path
from typing import Any

import pytest

from taofold.policy.redaction import MARK, Redactor
from taofold.policy.redaction.redactor import follows, is_named_secret, paired_secrets
from taofold.policy.redaction.tokens import ISSUED

FOLDER = Path(__file__).parent / "recorded"
NAMES = (
    *("password", "passwd", "db_password_2", "API_KEY", "apiKey", "token", "access_token"),
    *("token_count", "key", "KEY", "pass", "auth", "secret", "client-secret", "public_key"),
    *("X-Api-Key", "author", "tokenize", "ｐassword", "ſecret", "2", "keyboard", "DATABASE_URL"),
)
FORMS = (
    *("N=V", "N: V", "N:V", '"N": "V"', "'N': 'V'", '\\"N\\": \\"V\\"', "N = V", "--N V", "--N=V"),
    *("?N=V&x=1", "&N=V", "-N V", "<N>V</N>", "N is V", "N, V", '"N", "V"', "'N', V", 'N - "V"'),
    *("N := V", "N->V", "N[0]=V", 'N: str = "V"', "export N=V", 'N="V', 'N=b"V"', "N=`V`"),
    *("(N V)", 'N="  V  "', 'N="V   "', 'N="a\\"V"', "N\n  V", "N == V", "N !== V", "N: |\n  V"),
    *('N=""', 'N="V\nmore"', "N | V", 'N => "V"', "N   V", '{"N":{"N":{"N":"V"}}}'),
)
VALUES = (
    *("x7QdR2mKp9LwZ4vTn8YbC3sHf6GjA1eU5oXi0qWr", "hunter2", "x7Q", "secret", "None", "true"),
    *("12345678", "123456789", "1234567", "123456", "${VAR}", 'os.environ["X"]', "get_token()"),
    *("correct-horse-battery", "my.module.name", "a b c", "-flag", "abcdefgh1", "Passw0rd!", "str"),
    *("<redacted>", "123456789012345", "f3a9c17be0d24586f3a9c17be0d24586", "ab12", "a(b)1", "x#y1"),
)


def mark(text: str, value: str) -> str:
    redacted = Redactor(guesses=True).text(text)
    if redacted == text:
        return "."
    return "#" if MARK in redacted and value not in redacted else "~"


def assignments(name: str) -> dict[str, str]:
    return {
        form: "".join([mark(form.replace("N", name).replace("V", v), v) for v in VALUES])
        for form in FORMS
    }


def shortest(opening: str, alphabet: str) -> int:
    """Returns the number of characters after the prefix that make a token; 0 if none do."""
    drawn = random.Random(opening).choices(alphabet, k=140)
    # A digit and both cases early, as a machine draws them.
    drawn[:3] = [next(c for c in alphabet if c in kind) for kind in _kinds(alphabet)]
    for length in range(1, 140):
        if MARK in Redactor(guesses=True).text("see " + opening + "".join(drawn[:length])):
            return length
    return 0


def _kinds(alphabet: str) -> list[str]:
    every = (string.digits, string.ascii_lowercase, string.ascii_uppercase)
    some = [kind for kind in every if set(kind) & set(alphabet)]
    return (some * 3)[:3]


ALPHABETS = (
    *("0123456789abcdef", string.digits + string.ascii_uppercase),
    string.ascii_letters + string.digits,
)


def tokens(openings: str) -> dict[str, list[int]]:
    return {
        opening: [shortest(opening, alphabet) for alphabet in ALPHABETS]
        for opening in openings.split()
    }


def structures() -> dict[str, Any]:
    """Secrets that JSON reveals by its keys, its pairs and its order."""
    value = VALUES[0]
    return {
        "named": {name: "".join(".#"[is_named_secret(name, v)] for v in VALUES) for name in NAMES},
        "paired": [
            sorted(paired_secrets({one: name, "value": value, "note": "text"}))
            for one in ("name", "key", "Variable", "label")
            for name in (*NAMES, "")
        ]
        + [
            sorted(paired_secrets({"name": 7, "value": value})),
            sorted(paired_secrets({"label": "password"})),
        ],
        "follows": [
            follows(pair, at)
            for name in NAMES
            for pair in ([f"--{name}", value], [name, value], [7, value], [f"--{name}", 7])
            for at in (0, 1)
        ],
    }  # fmt: skip


def same(table: str, key: str, now: Any) -> None:
    """Compare with the entry of a table, or write it."""
    path = FOLDER / f"{table}.json"
    if os.environ.get("TAOFOLD_RECORD"):
        path.parent.mkdir(exist_ok=True)
        entries = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        text = json.dumps(entries | {key: now}, indent=1, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")
    assert now == json.loads(path.read_text(encoding="utf-8"))[key]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_taken_out_behind_a_name_is_what_the_table_says(name: str) -> None:
    same("assignments", name, assignments(name))


@pytest.mark.parametrize("openings", [openings for openings, _, _ in ISSUED])
def test_how_long_the_token_of_an_issuer_is_at_least_is_what_the_table_says(openings: str) -> None:
    same("tokens", openings, tokens(openings))


def test_what_keys_pairs_and_order_give_away_is_what_the_table_says() -> None:
    same("structures", "all", structures())

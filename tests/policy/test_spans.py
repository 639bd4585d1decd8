"""Redacted part of each value in each context, as recorded tables.

`recorded/values.json` has a mark per value, name and frame: `#` redacted as a whole, `.` unchanged;
otherwise the resulting text. `recorded/contexts.json` has texts whose context reveals a secret,
from just too short on, and their results. A change of redaction appears as a diff.
"""

import json
import random
import string
from pathlib import Path
from typing import Any

import pytest

from taofold.policy.redaction import MARK, Redactor
from taofold.policy.redaction.assignments import Says, ValueForm, looks_random, secret
from taofold.policy.redaction.assignments import random as is_random

from .test_recorded import same

NAMES = ("password", "token", "sessionId", "API_KEY", "db.pass")
FRAMES = (
    *("N=V", 'N = "V"', '"N": "V"', "N: V", "N is V", "--N V", "<N>V</N>", 'f("N", "V")'),
    *("N V.", 'N: str = "V"', "?N=V&a=b", "if N == V: go", '\\"N\\": \\"V\\"'),
    *('N: |\n  V\nnext: "V"', 'name: "N", value: "V"'),
)
VALUES: dict[str, list[str]] = {
    title: lines.split("\n")
    for section in (Path(__file__).parent / "values.txt")
    .read_text(encoding="utf-8")
    .split("## ")[1:]
    for title, _, lines in [section.strip().partition("\n")]
}
"""By kind: one on each line of `values.txt`."""


def marked(name: str, frame: str, value: str) -> str:
    text = frame.replace("N", name).replace("V", value)
    redacted = Redactor(guesses=True).text(text)
    if redacted == text:
        return "."
    return "#" if redacted == text.replace(value, MARK) else redacted


def row(value: str) -> dict[str, Any]:
    marks: list[str] = []
    otherwise: dict[str, str] = {}
    for name in NAMES:
        for frame in FRAMES:
            outcome = marked(name, frame, value)
            marks.append(outcome if len(outcome) == 1 else "~")
            if len(outcome) > 1:
                otherwise[frame.replace("N", name)] = outcome
        data = {name: value, "note": "plain"}
        marks.append("#" if Redactor(guesses=True).json(data)[name] == MARK else ".")
        marks.append(" ")
    return {"marks": "".join(marks).strip(), **otherwise}


def test_what_of_a_value_is_taken_out_is_what_the_table_says() -> None:
    for kind, values in VALUES.items():
        same("values", kind, {value: row(value) for value in values})


def drawn(size: int, alphabet: str = string.ascii_letters + string.digits) -> str:
    dice = random.Random(f"{size} of {len(alphabet)}")
    return "".join([dice.choice(alphabet) for _ in range(size)])


def contexts() -> dict[str, list[str]]:
    """Texts by what gives their secret away: just too short, just long enough, and plain words."""
    words = "plain-words-and-nothing-else-at-all-here"
    around: dict[str, tuple[list[str], list[str]]] = {
        "bearer": (["Bearer S", "bearer\tS,", "x BEARER  S"], [drawn(11), drawn(12), words]),
        "basic": (["Basic S", "basic S="], [drawn(7), drawn(8), drawn(16) + "==", words[:20]]),
        "authorization": (
            [
                "Authorization: S",
                '"authorization": "Custom S"',
                "Authorization = S",
                "AUTHORIZATION,S",
            ],
            [drawn(11), drawn(12), drawn(13), words],
        ),
        "address with a password": (
            ["db://ann:S@h/x", "db://:S@h", "see https://S@h."],
            [
                "ab",
                "abc",
                "pass",
                "8080",
                "80808",
                "808080",
                "xxx",
                "***",
                drawn(19),
                drawn(20),
                words,
            ],
        ),
        "slack": (
            ["https://hooks.slack.com/services/S", "https://hooks.slack.com/other/S"],
            [drawn(19), drawn(20), f"{drawn(9)}/{drawn(11)}"],
        ),
        "discord": (
            ["https://d.com/api/webhooks/S"],
            [f"{'1' * 14}/{drawn(30)}", f"{'1' * 15}/{drawn(29)}", f"{'1' * 15}/{drawn(30)}"],
        ),
        "office": (["https://x.webhook.office.com/webhookb2/S"], [drawn(29), drawn(30)]),
        "sign-in": (
            ["https://a.b/signin/S", "https://a.b/signin/S/next"],
            [drawn(19), drawn(20), words, "aaaaaaaaaaaaaaaaaaaaaaaa"],
        ),
        "curl": (
            [
                "curl -u S https://a.b",
                "curl --user S x",
                "curl x -u'S'",
                'curl --user="S"',
                "curl\n-u S",
            ],
            ["ann:ab", "ann:abc", ":abc", "ann", "a b:cde", "ann:a'bcd"],
        ),
        "login": (
            ["login ann password S", "machine h login ann\n  password S\n"],
            ["ab", "abc", "a b"],
        ),
        "signature": (
            ["https://a.b/?sig=S&x=1"],
            [drawn(19), drawn(20), words.replace("-", ""), "a" * 24],
        ),
        "key block": (
            [
                "-----BEGIN PRIVATE KEY-----\nS\n-----END PRIVATE KEY-----\nafter",
                "-----BEGIN RSA PRIVATE KEY-----\\nS",
                "-----BEGIN PUBLIC KEY-----\nS\n-----END",
                "-----BEGIN PGP PRIVATE KEY BLOCK-----\nS",
            ],
            [drawn(36), drawn(40), drawn(300)],
        ),
    }
    return {
        context: [text.replace("S", value) for text in texts for value in values]
        for context, (texts, values) in around.items()
    }


@pytest.mark.parametrize("context", contexts())
def test_what_surroundings_give_away_is_what_the_table_says(context: str) -> None:
    same(
        "contexts",
        context,
        {text: Redactor(guesses=True).text(text) for text in contexts()[context]},
    )


def test_a_layer_of_json_hides_nothing() -> None:
    """The redacted part of a text is also redacted in JSON, and in JSON within JSON."""
    for context, texts in contexts().items():
        for text in texts:
            plain = Redactor(guesses=True).text(text)
            if plain.count(MARK) != 1 or context == "key block":
                continue
            hidden = text.removeprefix(plain.partition(MARK)[0])
            hidden = hidden.removesuffix(plain.partition(MARK)[2])
            for layers in (1, 2):
                packed: Any = text
                for _ in range(layers):
                    packed = json.dumps({"output": packed})
                assert hidden not in Redactor(guesses=True).text(packed), (context, text, layers)


def test_how_much_a_name_must_say_of_a_value() -> None:
    """A more specific name marks more values as secret, in every form."""
    every = [value for values in VALUES.values() for value in values]
    for value in every:
        for form in ValueForm:
            perhaps, likely, surely = [secret(value, says, form) for says in list(Says)[1:]]
            assert perhaps <= likely, (value, form)
            assert not likely or surely or looks_random(value) or is_random(value), (value, form)

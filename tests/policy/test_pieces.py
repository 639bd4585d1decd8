"""Redaction of a stream shows the same as redaction of the whole text, at every cut.

Mutants: the open end of a key block is narrower than its shape; half an escape counts as a
character; only one layer is decoded; a part of a known value is shown at a cut.
"""

import json
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taofold.policy.redaction import MARK, Redactor
from taofold.policy.redaction.stream import Trickle
from tests.policy.test_redaction import CERTAIN, NAMED, ORDINARY, drawn

SIZES = (*range(1, 12), 0)
"""Sizes of the pieces. 0 means a different size for each."""
FORMS = {**CERTAIN, "key, cut": f"-----BEGIN PRIVATE KEY-----\n{drawn(64)}\n"}
KNOWN = (
    *('k!9"Tz#7q$Lm-42', 'my dog "Rex" ate 7 pears', "-----line one: x!\nline two: y!\n"),
    *("pa\\ss\\w0rd-77XY", '{"type":"service","id":"9f8e7d6c"}', "Schlüssel-für-😀9"),
    "plain-88-zz-11",
)
AROUND = (
    ("", ""),
    ("It is this, so they say: ", ". And then more words come here, many of them."),
    ('{"thought":"x","action":{"tool":"finish","parameters":{"answer":"', '"}}}'),
    ("cut: ", "\n… 12 characters left out …\nand on"),
)


def pieces(text: str, size: int, seed: int = 0) -> list[str]:
    source, parts = Random(seed), list[str]()
    while text:
        length = size or source.choice((1, 1, 2, 3, 5, 8, 40))
        parts.append(text[:length])
        text = text[length:]
    return parts


def check(text: str, redactor: Redactor, size: int, seed: int = 0) -> None:
    whole, shown = redactor.text(text), ""
    trickle = Trickle(redactor)
    for piece in pieces(text, size, seed):
        shown += trickle.feed(piece)
        assert whole.startswith(shown)
    assert shown + trickle.end() == whole


def layered(text: str, layers: int, ascii_: bool) -> str:
    for _ in range(layers):
        text = json.dumps(text, ensure_ascii=ascii_)[1:-1]
    return text


@pytest.mark.parametrize("layers", range(4))
@pytest.mark.parametrize("form", FORMS)
def test_a_form_in_pieces_is_what_the_whole_is(form: str, layers: int) -> None:
    for turn, size in enumerate(SIZES):
        before, after = AROUND[(turn + layers) % len(AROUND)]
        check(before + layered(FORMS[form], layers, True) + after, Redactor(), size)


@pytest.mark.parametrize("layers", range(4))
@pytest.mark.parametrize("known", KNOWN)
def test_a_known_value_in_pieces_is_what_the_whole_is(known: str, layers: int) -> None:
    redactor = Redactor(KNOWN)
    for turn, size in enumerate(SIZES):
        before, after = AROUND[(turn + layers) % len(AROUND)]
        text = before + layered(known, layers, turn % 2 == 0) + after
        check(text, redactor, size)
        check(text[: len(text) - len(after) - 1], redactor, size)
        check(text[len(before) + 1 :], redactor, size)


@settings(deadline=None, max_examples=150)
@given(
    st.text("abXZ019-_/+=\"\\\n\té€😀 '", min_size=8, max_size=30),
    st.integers(0, 3),
    st.booleans(),
    st.sampled_from(["", "hello ", '{"a": "', "x=", "said: \\", "…"]),
    st.sampled_from(["", " bye", '"}', "\n", "\\", " [… cut]"]),
    st.integers(0, 1000),
)
def test_any_known_value_in_pieces(
    known: str, layers: int, ascii_: bool, before: str, after: str, seed: int
) -> None:
    check(before + layered(known, layers, ascii_) + after, Redactor([known]), 0, seed)


TOKENS = st.sampled_from(
    [
        *FORMS.values(), *ORDINARY, *NAMED.values(), " ", "\n", '"', "\\", "password", "token is",
        ": ", "bearer ", "curl ", "login ", "://", "a:b@", "key", "Basic ", "more words", "…", "}",
    ]
)  # fmt: skip


@settings(deadline=None, max_examples=150)
@given(st.lists(TOKENS, max_size=6).map(" ".join), st.integers(0, 2), st.integers(0, 1000))
def test_any_text_in_pieces(text: str, layers: int, seed: int) -> None:
    check(layered(text, layers, True), Redactor(), 0, seed)


KEY = "zq-internal-9f8e7d6c5b4a39281706f5e4d3c2b1a0"


@pytest.mark.parametrize("size", [16, 24, len(KEY) - 1])
@pytest.mark.parametrize(
    "form",
    [
        *("x {}", "x {}…", "x {}\n… 5 left out …\ny", "x {} [… cut]", '"{}\\'),
        *("x {}...", "x {} ... y", "x {} [...] y", "x {}... (5 more)", "x '{}'...y", "x {}<...>"),
        *("x {} [truncated] y", "x {}<snip>", "x {} (8 more characters)", "x {}***"),
    ],
)
def test_a_part_of_a_known_value_is_hidden_where_a_text_was_cut(form: str, size: int) -> None:
    redactor = Redactor([KEY])
    assert KEY[:size] not in redactor.text(form.format(KEY[:size]))
    assert not redactor.spotless(["fine", f"it is {KEY[:size]}"])
    for behind in (KEY[-size:], f"x …\n{KEY[-size:]} y", f"x ...{KEY[-size:]} y"):
        assert KEY[-size:] not in redactor.text(behind)
    plain = f"see {KEY[:size]} and on"  # a text that was not cut
    assert redactor.text(plain) == plain
    folder = "/home/somebody/project/key.json"
    assert Redactor([folder]).text(folder[:22]) == folder[:22]


def test_of_prose_little_is_held_back() -> None:
    """No secret in it: what waits is the last word."""
    prose = " ".join(line.replace("\n", " ") for line in (__doc__ or "").split("\n")) * 20
    trickle, held = Trickle(Redactor()), list[int]()
    shown = 0
    for at in range(0, len(prose), 4):
        shown += len(trickle.feed(prose[at : at + 4]))
        held.append(min(at + 4, len(prose)) - shown)
    assert sum(held) / len(held) < 20
    assert MARK not in prose

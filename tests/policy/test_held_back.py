"""Amount and duration of text held back from a stream.

Too little shows half of a secret. Too much delays the output. Each boundary is tested from both
sides.
"""

import pytest

from taofold.policy.redaction import MARK, Redactor
from taofold.policy.redaction.assignments import STEMS
from taofold.policy.redaction.stream import MOST, Trickle

KEY = "x7QdR2mKp9LwZ4vTn8YbC3sHf6GjA1eU5oXi0qWr"


def held(text: str) -> str:
    """Returns the held-back part of a text that arrived at once."""
    trickle = Trickle(Redactor())
    shown = trickle.feed(text)
    rest = trickle.end()
    assert shown + rest == text
    return rest


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        # a name, a scheme or an address is no secret by itself: nothing behind it is waited for
        ("my password", "password"),
        ("my password ", ""),
        ("my (password: str | None = ", ""),
        ("as Bearer ", ""),
        ("see (postgres://a!b:c#d$e", "d$e"),
        ("now curl -s x ", ""),
        # a key for its end
        ("a -----BEGIN RSA PRIVATE KEY-----\nab c ", "-----BEGIN RSA PRIVATE KEY-----\nab c "),
        ("a -----BEGIN PRIVATE KEY BLOCK-----\n", "-----BEGIN PRIVATE KEY BLOCK-----\n"),
        ("a -----BEGIN PUBLIC KEY-----\n1 2 3 4 5 6 7 ", ""),
        # half an escape waits for its other half, in every layer
        ("(a)\\", "\\"),
        ("(a)\\u00e", "\\u00e"),
        ("(a)\\ud83d", "\\ud83d"),
        ("(a\\ud83d\\ude00)", ""),
        ("(a)\\\\\\", "\\\\\\"),
        ("a -----BEG", "-----BEG"),
        # a word waits for its end
        ("one two", "two"),
        ("one two ", ""),
        ("one two.", "two."),
        ("one (two)", ""),
    ],
)  # fmt: skip
def test_what_is_held_back_at_the_end_of_a_text(text: str, rest: str) -> None:
    assert held(text) == rest


@pytest.mark.parametrize(("size", "rest"), [(MOST, MOST), (MOST + 1, MOST // 2), (9, 9)])
def test_of_a_word_without_an_end_half_of_the_most_is_let_go(size: int, rest: int) -> None:
    assert len(held("x" * size)) == rest


@pytest.mark.parametrize(("size", "more"), [(512, 1), (513, 64), (520, 65), (1000, 125)])
def test_a_long_word_is_looked_at_again_after_an_eighth_of_its_length(size: int, more: int) -> None:
    """All scans together cost no more than a few times the text's length."""
    trickle = Trickle(Redactor())
    assert not trickle.feed("x" * size)
    pieces = 1
    while not trickle.feed(")"):
        pieces += 1
    assert pieces == more


def test_a_long_word_that_was_let_go_delays_nothing_behind_it() -> None:
    trickle = Trickle(Redactor())
    assert not trickle.feed("x" * 600)
    assert trickle.feed(")" * 75)
    assert trickle.feed("one two") == "one "


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 400])
@pytest.mark.parametrize(
    "text",
    [
        f"a ghp_{KEY} b",
        f"a sk-ant-{KEY} b",
        f"a 'AKIA{KEY[:16].upper()}' b",
        f"a -----BEGIN PRIVATE KEY-----\n{KEY}\n{KEY}\n-----END PRIVATE KEY----- b",
    ],
)
def test_a_secret_in_pieces_is_taken_out_as_in_one(text: str, size: int) -> None:
    trickle = Trickle(Redactor())
    pieces = [trickle.feed(text[at : at + size]) for at in range(0, len(text), size)]
    shown = "".join([*pieces, trickle.end()])
    assert KEY not in shown
    assert shown == Redactor().text(text)
    assert shown.startswith("a ")
    assert shown.endswith(" b")


@pytest.mark.parametrize("known", ["hunter2-and-more", 'q"uote\\d-and-more'])
@pytest.mark.parametrize("size", range(1, 12))
def test_the_beginning_of_a_known_value_is_held_back(known: str, size: int) -> None:
    """However it is written, and nothing in front of it."""
    for begun in (known[:size], "".join([f"\\u{ord(c):04x}" for c in known[:size]])):
        trickle = Trickle(Redactor([known], shapes=False))
        text = f"no, see ({begun}"
        rest = text[len(trickle.feed(text)) :]
        assert begun in rest
        assert trickle.feed("!") + trickle.end() == rest + "!"


def wide(text: str) -> str:
    return "".join([chr(ord(c) - 0x20 + 0xFF00) if c.isalnum() else c for c in text])


@pytest.mark.parametrize("stem", STEMS)
def test_letters_that_a_reader_takes_for_others_hide_no_name(stem: str) -> None:
    name = {"pass": "password", "cred": "credential", "pw": "db_pw"}.get(stem, f"api_{stem}")
    spelled = {wide(name), wide(name.upper()), name.replace("s", "\u017f"),
               name.replace("i", "\u0131"), name.upper().replace("I", "\u0130")}  # fmt: skip
    form = '"{}": "{}"'
    if form.format(name, MARK) != Redactor(guesses=True).text(form.format(name, KEY)):
        pytest.skip("no name of a secret, however it is spelled")
    for each in sorted(spelled):
        text = "\u0130 é " + form.format(each, KEY) + " and \u0130 more"
        assert Redactor(guesses=True).text(text) == text.replace(KEY, MARK), each

"""Boundaries of secret detection: lengths, counts and depths, just below and at them.

One more character must not let a secret through. One character fewer must not hide ordinary text.
"""

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from taofold.policy.redaction import (
    MARK,
    Redactor,
    assignments,
    follows,
    is_named_secret,
    paired_secrets,
    telling,
)
from taofold.policy.redaction.assignments import (
    Says,
    ValueForm,
    is_made_of_words,
    looks_random,
    random,
    says,
)
from taofold.policy.redaction.escapes import decoded
from taofold.policy.redaction.redactor import again
from taofold.policy.redaction.stream import MOST, Trickle

KEY = "x7QdR2mKp9LwZ4vTn8YbC3sHf6GjA1eU5oXi0qWr"
HARMLESS = "nothing but words"


def secret(value: str, name: Says, form: ValueForm = ValueForm.BARE) -> bool:
    return assignments.secret(value, name, form)


@pytest.mark.parametrize(
    ("value", "name", "form", "is_secret"),
    [
        # six characters under a name that leaves no doubt
        ("x7Q#2", Says.SURELY, ValueForm.LISTED, False),
        ("x7Q#2d", Says.SURELY, ValueForm.LISTED, True),
        ("  x7Q#2  ", Says.SURELY, ValueForm.LISTED, False),
        # three different characters, except in a listing
        ("12121212", Says.SURELY, ValueForm.QUOTED, False),
        ("1212ab12", Says.SURELY, ValueForm.QUOTED, True),
        ("11111122", Says.SURELY, ValueForm.QUOTED, False),
        ("11111122", Says.SURELY, ValueForm.LISTED, True),
        # sixteen characters that change, under a weak name
        (KEY[:15], Says.PERHAPS, ValueForm.QUOTED, False),
        (KEY[:16], Says.PERHAPS, ValueForm.QUOTED, True),
        # crossed brackets are no program; closed ones are
        ("p(a]ss", Says.LIKELY, ValueForm.BARE, True),
        ("p(a)ss", Says.LIKELY, ValueForm.BARE, False),
        ("p(a]ss", Says.PERHAPS, ValueForm.BARE, False),
    ],
)
def test_what_counts_as_secret_under_a_name(
    value: str, name: Says, form: ValueForm, is_secret: bool
) -> None:
    assert secret(value, name, form) == is_secret


@pytest.mark.parametrize(
    ("value", "is_random", "is_drawn"),
    [
        ("a1b2c3d4e5f6a1b2", True, True),
        ("a1b2c3d4e5f6a1b", False, True),
        ("a1b2c3d4 5f6a1b2c", False, False),
        ("aaaaaaaaaaaaaaa1b2c", False, True),  # changes often enough, but is one letter
        ("qwrtzpsdfghjklxc12", False, True),  # changes once
        ("12345678901234", False, False),
        ("123456789012345", False, True),
        ("abcdefg1", False, False),
        ("x1y2z3w", False, False),
        ("x1y2z3w4", False, True),
    ],
)
def test_what_looks_drawn_by_a_machine(value: str, is_random: bool, is_drawn: bool) -> None:
    assert (random(value), looks_random(value)) == (is_random, is_drawn)


@pytest.mark.parametrize(
    ("value", "is_worded"),
    [
        ("userNameField", True),
        ("user_name_2", True),
        ("user_1_name_2", False),
        ("one2three4five6seven8nine", False),
        ("first1second2third", False),
        ("alpha1beta", True),
        ("12345", False),
        ("", False),
        ("xkcdqwrt", False),
        ("abcx", True),
        ("verylongwordqq", True),
        ("word-qqqq", False),
        ("goToMyIdInIt", False),  # words of two letters prove nothing
        ("theIdOfMyCar", False),
        ("theCarRedId", True),
    ],
)
def test_what_is_made_of_words(value: str, is_worded: bool) -> None:
    assert is_made_of_words(value) == is_worded


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("password", Says.SURELY),
        ("password_2_prod", Says.SURELY),
        ("prod", Says.NOTHING),
        ("pw", Says.NOTHING),
        ("db_pw", Says.SURELY),
        ("pass", Says.SURELY),
        ("by_pass", Says.NOTHING),
        ("first_pass", Says.NOTHING),
        ("db_pass", Says.SURELY),
        ("api_key", Says.SURELY),
        ("api_keys", Says.PERHAPS),
        ("primary_key", Says.NOTHING),
        ("row_keys", Says.NOTHING),
        ("their_key", Says.PERHAPS),
        ("key", Says.PERHAPS),
        ("token", Says.LIKELY),
        ("tokens", Says.NOTHING),
        ("access_token", Says.SURELY),
        ("accesstoken", Says.SURELY),
        ("page_token", Says.NOTHING),
        ("my_token", Says.LIKELY),
        ("apptoken", Says.LIKELY),
        ("public_key", Says.NOTHING),
        ("public_token", Says.NOTHING),
        ("monkey", Says.NOTHING),
        ("turnkey", Says.PERHAPS),
        ("connection_string", Says.PERHAPS),
        ("connection", Says.NOTHING),
        ("password_string", Says.SURELY),
        ("secret_id", Says.NOTHING),
        ("token_count", Says.NOTHING),
        ("token_holder", Says.PERHAPS),
        ("api_key_holder", Says.PERHAPS),
        ("key_holder", Says.NOTHING),
        ("session", Says.PERHAPS),
        ("auth", Says.PERHAPS),
        ("storagekey", Says.SURELY),
        ("a" * 120 + "password", Says.SURELY),
        ("a" * 121 + "password", Says.NOTHING),
        ("\uff50assword", Says.SURELY),
    ],
)
def test_what_a_name_says(name: str, how: Says) -> None:
    assert says(name) is how


@pytest.mark.parametrize("known", ["passing1", "passing1 through"])
def test_a_known_value_counts_from_eight_characters_on(known: str) -> None:
    assert Redactor([known]).text(f"it was {known}.") == f"it was {MARK}."
    assert Redactor([known[:7]]).text(f"it was {known}.") == f"it was {known}."


def test_of_two_known_values_the_longer_goes_whole() -> None:
    redactor = Redactor(["passing1", "passing1 through"])
    assert redactor.text("passing1 through passing1") == f"{MARK} {MARK}"
    assert redactor.known == ["passing1 through", "passing1"]


def test_a_known_number_is_no_part_of_a_longer_one() -> None:
    redactor = Redactor(["12345678", "1234567"])
    assert redactor.number(12345678) == MARK
    assert redactor.number(123456789) == 123456789
    assert redactor.number(1234567) == 1234567
    assert Redactor(guesses=True).number(12345678) == 12345678
    assert Redactor(guesses=True).number(float("nan")) == "nan"


def test_texts_that_touch_are_two_and_texts_that_overlap_are_one() -> None:
    redactor = Redactor(["abcdefgh", "ijklmnop"])
    assert redactor.text("abcdefghijklmnop") == MARK + MARK
    assert Redactor([KEY[:20]], guesses=True).text(f"token={KEY}") == f"token={MARK}"


def test_what_was_harmless_is_remembered_and_what_was_not_is_not() -> None:
    redactor = Redactor(guesses=True)
    for text in ("short", HARMLESS, "a b " * 50, "a b " * 51, "wörter und mehr", f"token={KEY}"):
        redactor.text(text)
    assert redactor.harmless == {HARMLESS, "a b " * 50}
    assert redactor.text(f"token={KEY}") == f"token={MARK}"


def test_the_memory_of_harmless_texts_does_not_grow_without_end() -> None:
    redactor = Redactor(guesses=True)
    for number in range(6_000):
        redactor.text(f"row number {number}")
    assert len(redactor.harmless) <= 2_000


@pytest.mark.parametrize("layers", range(1, 5))
def test_json_in_json_is_looked_into(layers: int) -> None:
    text = json.dumps({"pä": "tok\u0435n", "password": "hunter2x"})
    for _ in range(layers):
        text = json.dumps({"body": text})
    assert "hunter2x" not in Redactor(guesses=True).text(text)


def test_a_name_that_escapes_hide_is_read() -> None:
    assert Redactor(guesses=True).text('{"\\u0070assword": "hunter2x"} and on') == (
        f'{{"\\u0070assword": "{MARK}"}} and on'
    )
    assert Redactor(["hunter2hunter2"]).text(r"see hunter2\u0068unter2 now") == f"see {MARK} now"


@pytest.mark.parametrize(
    ("text", "plain", "pieces"),
    [
        (r"\n", "\n", [(0, 1, 0, 2)]),
        (r"a\u0062c\td", "abc\td", [(1, 2, 1, 7), (3, 4, 8, 10)]),
        (r"\ud83d\ude00!", "\U0001f600!", [(0, 1, 0, 12)]),
        (r"x\303\251\xfc", "xéü", [(1, 2, 1, 9), (2, 3, 9, 13)]),
        ("%C3%A9%E9&lt;&no;", "éé<&no;", [(0, 1, 0, 6), (1, 2, 6, 9), (2, 3, 9, 13)]),
        (r"\U0001f600\u{e9}\2a", "\U0001f600é*", [(0, 1, 0, 10), (1, 2, 10, 16), (2, 3, 16, 19)]),
    ],
)
def test_escapes_are_undone_and_their_places_kept(text: str, plain: str, pieces: Any) -> None:
    layer = decoded(text)
    assert layer is not None
    assert (layer.text, layer.pieces) == (plain, pieces)
    for start, end, outer, outer_end in pieces:
        assert (layer.start(start), layer.end(end)) == (outer, outer_end)


@pytest.mark.parametrize("text", ["none", r"\q", "100%", "a & b;", r"\UFFFFFFFF"])
def test_what_is_no_escape_stays(text: str) -> None:
    assert decoded(text) is None


def test_a_secret_stands_in_the_rest_of_the_text_too() -> None:
    text = f"{KEY} a {KEY} b {KEY}"
    assert [text[slice(*span)] for span in again(text, [(0, len(KEY))])] == [KEY, KEY]
    assert list(again("hunter2x hunter2x", [(0, 8)])) == [], "too short to be told again"


@pytest.mark.parametrize("size", [11, 12])
def test_a_secret_is_told_by_itself_from_twelve_characters_on(size: int) -> None:
    assert telling(KEY[:size]) == (size >= 12)
    assert not telling("correcthorse")


@pytest.mark.parametrize(
    ("name", "value", "is_secret"),
    [
        ("pin_secret", 123456, True),
        ("pin_secret", 12345, False),
        ("pin_secret", -123456, True),
        ("pin_secret", True, False),
        ("token", 123456789, False),
        ("session_count", KEY, False),
        ("sid_", KEY, True),
        ("sid", KEY, False),
        ("cookie", " ", False),
        ("cookie", "a", True),
        (7, KEY, False),
        ("token", 1.5, False),
    ],
)
def test_what_stands_under_a_name_in_an_object(name: Any, value: Any, is_secret: bool) -> None:
    assert is_named_secret(name, value) == is_secret


@pytest.mark.parametrize(
    ("values", "at", "is_secret"),
    [
        (["--token", KEY, "x"], 1, True),
        (["--token", KEY, "x"], 2, False),
        (["--token", KEY, "x"], 0, False),
        (["-n", KEY], 1, False),
        (["token", KEY], 1, True),
        (["token", KEY, "x"], 1, False),
        (["the token", KEY], 1, False),
        (["token", "word"], 1, False),
        (["key", KEY], 1, False),
    ],
)
def test_what_follows_its_name_in_a_list(values: list[str], at: int, is_secret: bool) -> None:
    assert follows(values, at) == is_secret


def test_what_a_pair_names_is_its_value_only() -> None:
    pair = {"name": "API_TOKEN", "value": KEY, "default": "none", "note": KEY, "size": 3}
    assert paired_secrets(pair) == {"value"}
    assert paired_secrets({"name": "PORT", "value": KEY}) == frozenset()
    assert paired_secrets({"Key": "password", "val": "hunter2x", "content": "${X}"}) == {"val"}


SECRET = 'pä"ss\\word-123'
PLAIN = "hunter2hunter2"
PIECES = st.sampled_from(
    [
        PLAIN,
        PLAIN[:7],
        "h",
        json.dumps(SECRET)[1:-1],
        SECRET,
        SECRET[:5],
        "\\u0068",
        "\\",
        '"',
        " ",
        "=",
        "password",
        "token: ",
        f"token={KEY} ",
        KEY,
        "sk-",
        "\n",
        "word ",
        "é",
        "Bearer ",
    ]
)


@settings(deadline=None, max_examples=300)
@example(f"see {PLAIN}", 1)
@example(f"h{PLAIN} h", 3)
@given(st.lists(PIECES, max_size=8).map("".join), st.integers(1, 9))
def test_known_values_are_not_shown_in_pieces(text: str, size: int) -> None:
    redactor = Redactor([PLAIN, SECRET])
    trickle = Trickle(redactor)
    shown = "".join([trickle.feed(text[at : at + size]) for at in range(0, len(text), size)])
    shown += trickle.end()
    for value in (PLAIN, SECRET, json.dumps(SECRET)[1:-1]):
        assert value not in shown
    assert not trickle.end()


def test_plain_words_come_out_as_they_come_in() -> None:
    trickle = Trickle(Redactor([PLAIN]))
    parts = [trickle.feed(part) for part in ("one two three ", "four ", "five, h", "ow ", "so ")]
    assert parts == ["one two three ", "four ", "five, ", "how ", "so "]
    assert trickle.end() == ""


def test_a_text_without_an_end_is_not_held_back_without_end() -> None:
    trickle, shown, fed = Trickle(Redactor()), 0, 0
    for _ in range(4 * MOST // 64):
        shown += len(trickle.feed("x" * 64))
        fed += 64
        assert fed - shown <= MOST + MOST // 8 + 64
    assert shown + len(trickle.end()) == fed


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_a_trickle_says_what_the_whole_text_says_without_secrets(size: int) -> None:
    redactor = Redactor([PLAIN, SECRET])
    whole = (
        f"a b {PLAIN} c sk-abcdefghijklmnopqrst, password = hunter22, d {json.dumps(SECRET)} e "
        f"-----BEGIN RSA PRIVATE KEY-----\n{KEY}\nabc def\n-----END RSA PRIVATE KEY----- "
        "the end of hunter2"
    )
    trickle = Trickle(redactor)
    parts = [trickle.feed(whole[at : at + size]) for at in range(0, len(whole), size)]
    shown = "".join([*parts, trickle.end()])
    assert shown == redactor.text(whole)
    assert "abc def" not in shown
    assert "password = hunter22" in shown


def test_a_trickle_does_not_hold_back_plain_words() -> None:
    assert Trickle(Redactor([PLAIN])).feed("one two three") == "one two "


def test_names_that_say_secret_hide_their_values() -> None:
    given = {"password": "q1w2e3", "n": {"api_key": "zzzzzz"}, "next_page_token": "abcdefgh"}
    assert Redactor(guesses=True).json(given) == {
        "password": MARK,
        "n": {"api_key": MARK},
        "next_page_token": "abcdefgh",
    }
    words = "basic information-about-everything"
    assert Redactor(guesses=True).text(words) == words


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Make the failing tests pass: 'python -m pytest -q'", True),
        ("until all checks pass: `make test`", True),
        ("my pass: 'hunter2 x9'", False),
        ("the user's pass: hunter2x9", False),
        ("tests\npass: hunter2x9", False),
    ],
)
def test_a_pass_that_is_a_verb_names_no_secret(text: str, shown: bool) -> None:
    assert (Redactor(guesses=True).text(text) == text) is shown

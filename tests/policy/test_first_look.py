"""A text is scanned once for possible starts of secrets, and in detail only at these."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taofold.policy.redaction import MARK, Redactor
from taofold.policy.redaction.tokens import LONG, LONG_AHEAD

KNOWN = "correct horse"
NUMBER = "9876501234"
REDACTOR = Redactor([KNOWN, NUMBER], guesses=True)
SHAPES = (
    "sk-a1b2c3d4e5f6a1b2c3",
    "pk-a1b2c3d4e5f6a1b2c3",
    "rk-a1b2c3d4e5f6a1b2c3",
    *(f"gh{kind}_a1b2c3d4e5f6a1b2c3d4" for kind in "pousr"),
    "github_pat_a1b2c3d4e5f6a1b2c3d4",
    "xoxb-0123456789",
    "AKIAA1B2C3D4E5F6A1B2",
    "AIza" + "x" * 35,
    "eyJa1b2c3d4e5f6.a1b2c3d4e5f6.a1b2c3",
    "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
    "BEARER a1b2c3d4e5f6a1b2",
    "basic YWxhZGRpbjpvcGVuc2VzYW1l",
    "https://me:hunter22@example.org",
    *(f"{name}: hunter22" for name in ("Password", "passwd", "SECRET", "api_key", "api-key")),
    *(f"{name}=hunter22" for name in ("apikey", "access_token", "access-token", "accesstoken")),
    *(f"{name}=hunter22" for name in ("auth_token", "auth-token", "AuthToken")),
    KNOWN,
    NUMBER,
    r"s\u006b-a1b2c3d4e5f6a1b2c3",
)
NAMES = (
    *("password", "passwd", "Passphrase", "secret", "token", "credential", "credentials"),
    *("authorization", "key_of_none", "api_key", "accesskey", "private-key", "SigningKey"),
)


@pytest.mark.parametrize("secret", SHAPES)
def test_no_secret_passes_the_first_look(secret: str) -> None:
    assert MARK in REDACTOR.text(secret)
    assert not REDACTOR.spotless(["fine", f"it is {secret} here"])


WORDS = st.sampled_from([*SHAPES, *NAMES, " ", "=", ": ", "x", "sk", "-", "://", "\n", "a1b2c3d4"])


@settings(deadline=None)
@given(st.lists(WORDS, max_size=12).map("".join))
def test_looking_only_where_a_secret_may_begin_finds_all_of_them(text: str) -> None:
    everywhere = REDACTOR.text(f"{text} \N{SNOWMAN}")  # no ASCII, so every place is looked at
    assert REDACTOR.text(text) + " \N{SNOWMAN}" == everywhere


@settings(deadline=None)
@given(st.lists(st.sampled_from(["a", "Z9", "_-", "x" * 13, " ", "\n", ".", "é"])).map("".join))
def test_a_long_run_is_seen_wherever_it_stands(text: str) -> None:
    assert (LONG_AHEAD.match(text) is None) == (LONG.search(text) is None)


@pytest.mark.parametrize("name", NAMES)
def test_no_name_that_makes_a_secret_passes_the_first_look(name: str) -> None:
    assert not REDACTOR.spotless([name, "hunter22"])


def test_plain_words_pass_the_first_look() -> None:
    assert REDACTOR.spotless(["add", '{"a": 1, "b": 2}', "call_12", "", "stop", "what is 2 + 2?"])

"""What a model said is looked at once for everything, and closely where that look is not enough."""

from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from taofold.core.content import MediaPart
from taofold.core.effects import Act
from taofold.core.errors import ModelError
from taofold.core.values import Action, Reply, Thought, ToolCall, Usage
from taofold.policy.redaction import MARK, Redactor
from taofold.runtime.redaction import DEEPEST, MOST, RedactionPass, checked, clean, cleaned

KNOWN = "correct horse"
NUMBER = "1234567890"
REDACTOR = Redactor([KNOWN, NUMBER])
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


@pytest.mark.parametrize("name", NAMES)
def test_no_name_that_makes_a_secret_passes_the_first_look(name: str) -> None:
    assert not REDACTOR.spotless([name, "hunter22"])


def test_plain_words_pass_the_first_look() -> None:
    assert REDACTOR.spotless(["add", '{"a": 1, "b": 2}', "call_12", "", "stop", "what is 2 + 2?"])


PIECES = st.sampled_from(
    [*SHAPES, *NAMES, MARK, "add", "a", " ", "=", ":", "\\", '"', "é", "K", "ſ", "\ud800", "12"]
)
TEXTS = st.one_of(st.lists(PIECES, max_size=3).map("".join), st.text(max_size=12))
SCALARS = st.one_of(TEXTS, st.none(), st.booleans(), st.floats(), st.integers())
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=2), max_leaves=3)


@example("", {"a": MARK})
@example("", {"a": 1234567890})
@example("", {"a": [KNOWN]})
@example("", {"\ud800": 1})
@example("", {"a": "\ud800"})
@example("", {"pass\u017fword": "hunter22", "token": "hunter22"})
@given(TEXTS, st.dictionaries(TEXTS, st.one_of(VALUES, st.just(1234567890)), max_size=3))
def test_the_first_look_lets_nothing_through_that_the_closer_look_takes_out(
    said: str, parameters: dict[str, Any]
) -> None:
    action = Action(said, parameters, said, said, (said,), error=said)
    (kept,) = cleaned(REDACTOR, Act(Thought("t"), (action,))).actions
    walk, text = RedactionPass(REDACTOR), RedactionPass(REDACTOR).text(said)
    assert (kept.tool, kept.rationale, kept.id, kept.error) == (text,) * 4
    assert repr(kept.parameters) == repr(walk.value(parameters))
    assert kept.guessed == walk.lost


@pytest.mark.parametrize("field", ["text", "model", "finish", "reasoning"])
def test_a_secret_in_any_part_of_a_reply_is_taken_out(field: str) -> None:
    reply = Reply(**{"text": "hello", field: f"it is {KNOWN}"})
    kept = clean(REDACTOR, reply, Usage(), "m")
    assert getattr(kept, field) == f"it is {MARK}"


@pytest.mark.parametrize("field", ["name", "arguments", "id"])
def test_a_secret_in_any_part_of_a_call_is_taken_out(field: str) -> None:
    call = msgspec.structs.replace(ToolCall("add", "{}"), **{field: f"it is {KNOWN}"})
    kept = clean(REDACTOR, Reply("hello", (ToolCall("fine", "{}"), call)), Usage(), "m")
    assert getattr(kept.calls[1], field) == f"it is {MARK}"
    assert kept.calls[0] == ToolCall("fine", "{}")


def test_a_secret_in_the_model_s_own_name_is_taken_out() -> None:
    assert clean(REDACTOR, Reply("hello"), Usage(), KNOWN).model == MARK


def test_parameters_that_are_nested_too_deep_are_not_let_through() -> None:
    deep: Any = "x"
    for _ in range(DEEPEST + 1):
        deep = [deep]
    (kept,) = cleaned(REDACTOR, Act(Thought("t"), (Action("add", {"a": deep}),))).actions
    assert "nested deeper" in kept.error


WRONG: list[Any] = [
    *[Reply(**{name: 5}) for name in ("text", "model", "finish")],
    *[Reply("x", reasoning=b"x"), Reply("x", issuer="me"), Reply("x", notes=[1])],  # type: ignore[arg-type]
    *[Reply(parts=("x",)), Reply(parts=(MediaPart("image", "image/png"),))],  # type: ignore[arg-type]
    *[Reply("x", calls=(call,)) for call in ({"name": "add"}, ToolCall("add", "{}", None))],  # type: ignore[arg-type]
    *[Reply("x", calls=(ToolCall(None, "{}"),)), Reply("x", calls=(ToolCall("add", {}),))],  # type: ignore[arg-type]
    Reply("x", usage=None),  # type: ignore[arg-type]
    *[
        Reply("x", usage=msgspec.structs.replace(Usage(), **{name: value}))
        for name in Usage.__struct_fields__
        for value in (-1, MOST, True, "5", None, float("nan"), float("inf"))
    ],
    "text",
    None,
]


@pytest.mark.parametrize("reply", WRONG, ids=repr)
def test_a_reply_of_odd_parts_is_refused(reply: Any) -> None:
    with pytest.raises(ModelError, match=r"the reply|the model gave"):
        checked(reply)


class Name(str):
    """A text with ideas of its own."""

    __slots__ = ()


def test_what_is_as_good_as_the_usual_types_is_taken() -> None:
    for reply in (Reply(Name("x")), Reply("x", usage=Usage(usd=1)), Reply("x", usage=Usage(1.5))):  # type: ignore[arg-type]
        assert checked(reply) is reply

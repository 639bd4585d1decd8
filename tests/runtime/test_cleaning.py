"""What a model said is looked at once for everything, and closely where that look is not enough."""

from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.policy.test_first_look import KNOWN, NAMES, REDACTOR, SHAPES

from taofold.core.content import MediaPart
from taofold.core.effects import Act
from taofold.core.errors import ModelError
from taofold.core.values import Action, Reply, Thought, ToolCall, Usage
from taofold.policy.redaction import MARK
from taofold.runtime.redaction import (
    DEEPEST,
    MOST,
    RedactionPass,
    check_reply,
    redact_reply,
    redact_step,
)

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
    (kept,) = redact_step(REDACTOR, Act(Thought("t"), (action,))).actions
    walk, text = RedactionPass(REDACTOR), RedactionPass(REDACTOR).text(said)
    assert (kept.tool, kept.rationale, kept.id, kept.error) == (text,) * 4
    assert repr(kept.parameters) == repr(walk.value(parameters))
    assert kept.guessed == walk.lost


@pytest.mark.parametrize("field", ["text", "model", "finish", "reasoning"])
def test_a_secret_in_any_part_of_a_reply_is_taken_out(field: str) -> None:
    reply = Reply(**{"text": "hello", field: f"it is {KNOWN}"})
    kept = redact_reply(REDACTOR, reply, Usage(), "m")
    assert getattr(kept, field) == f"it is {MARK}"


@pytest.mark.parametrize("field", ["name", "arguments", "id"])
def test_a_secret_in_any_part_of_a_call_is_taken_out(field: str) -> None:
    call = msgspec.structs.replace(ToolCall("add", "{}"), **{field: f"it is {KNOWN}"})
    kept = redact_reply(REDACTOR, Reply("hello", (ToolCall("fine", "{}"), call)), Usage(), "m")
    assert getattr(kept.calls[1], field) == f"it is {MARK}"
    assert kept.calls[0] == ToolCall("fine", "{}")


def test_a_secret_in_the_model_s_own_name_is_taken_out() -> None:
    assert redact_reply(REDACTOR, Reply("hello"), Usage(), KNOWN).model == MARK


def test_parameters_that_are_nested_too_deep_are_not_let_through() -> None:
    deep: Any = "x"
    for _ in range(DEEPEST + 1):
        deep = [deep]
    (kept,) = redact_step(REDACTOR, Act(Thought("t"), (Action("add", {"a": deep}),))).actions
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
        check_reply(reply)


class Name(str):
    """A text with ideas of its own."""

    __slots__ = ()


def test_what_is_as_good_as_the_usual_types_is_taken() -> None:
    for reply in (Reply(Name("x")), Reply("x", usage=Usage(usd=1)), Reply("x", usage=Usage(1.5))):  # type: ignore[arg-type]
        assert check_reply(reply) is reply

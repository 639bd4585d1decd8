"""Redaction scans a model's text once for all rules, and in detail only after a match."""

from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from taofold.core.content import (
    Issuer,
    MediaPart,
    OpaquePart,
    TextPart,
    ThinkingPart,
    ToolResult,
)
from taofold.core.effects import Act
from taofold.core.errors import ModelError
from taofold.core.values import Action, Message, Observation, Reply, Thought, ToolCall, Usage
from taofold.policy.redaction import MARK, Redactor
from taofold.runtime.redaction import (
    ALTERED,
    DEEPEST,
    MOST,
    OPAQUE_DROPPED,
    RedactionPass,
    check_reply,
    mask_places,
    redact_json,
    redact_reply,
    redact_step,
    redact_visible,
    unsaid,
)
from tests.policy.test_first_look import KNOWN, NAMES, NUMBER, SHAPES

REDACTOR = Redactor([KNOWN, NUMBER])
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
        if (name, value) != ("usd", None)  # the price is unknown
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


ISSUER = Issuer("acme", "messages", "http://acme")
SEALED = (OpaquePart("sealed", "reasoning"), ThinkingPart("hm", "echo"), TextPart("t", opaque="o"))


def test_what_an_adapter_leaves_out_is_no_fault_of_the_reply() -> None:
    silent: Any = Reply("hello", model=None, finish=None)  # type: ignore[arg-type]
    checked = check_reply(silent)
    assert (checked.model, checked.finish, checked.text) == ("", "", "hello")


@pytest.mark.parametrize(
    ("word", "finish"),
    [("STOP", "stop"), ("safety", "content_filter"), ("abort", "error"), ("odd", "odd"), ("", "")],
)
def test_a_providers_own_word_for_an_end_means_what_ours_does(word: str, finish: str) -> None:
    assert check_reply(Reply("hello", finish=word)).finish == finish


@pytest.mark.parametrize(
    "part",
    [
        TextPart("t", opaque=7),  # type: ignore[arg-type]
        ThinkingPart(7),  # type: ignore[arg-type]
        ThinkingPart("t", 7),  # type: ignore[arg-type]
        OpaquePart(7, "k"),  # type: ignore[arg-type]
        OpaquePart("d", 7),  # type: ignore[arg-type]
        OpaquePart("d", "k", 7),  # type: ignore[arg-type]
        ToolCall("n", 7),  # type: ignore[arg-type]
        ToolCall("n", "{}", 7),  # type: ignore[arg-type]
        ToolCall("n", "{}", "1", 7),  # type: ignore[arg-type]
    ],
)
def test_a_part_with_something_else_for_a_text_is_refused(part: Any) -> None:
    with pytest.raises(ModelError, match="has a int for a text") as caught:
        check_reply(Reply(parts=(TextPart("fine"), part)))
    assert caught.value.kind == "reply"


@pytest.mark.parametrize("part", [ToolResult("1", "x"), MediaPart("image", "image/png"), "text"])
def test_a_part_that_no_model_makes_is_refused(part: Any) -> None:
    with pytest.raises(ModelError, match="for a part"):
        check_reply(Reply(parts=(part, TextPart("t"))))


def test_a_secret_beside_what_is_sealed_drops_it_and_says_so() -> None:
    fine = Reply(parts=SEALED, issuer=ISSUER, model="m")
    assert redact_reply(REDACTOR, fine, fine.usage, "m") is fine
    named = redact_reply(REDACTOR, fine, Usage(1, 1), "m")
    assert (named.parts, named.issuer, named.usage) == (SEALED, ISSUER, Usage(1, 1))
    parts = (*SEALED, TextPart(f"it is {KNOWN}"))
    kept = redact_reply(REDACTOR, Reply(parts=parts, issuer=ISSUER), Usage(), "m")
    assert kept.parts == (TextPart("t"), TextPart(f"it is {MARK}"))
    assert kept.notes == (OPAQUE_DROPPED,)
    # Without sealed parts, nothing is dropped and no note is added.
    kept = redact_reply(REDACTOR, Reply(f"it is {KNOWN}"), Usage(), "m")
    assert (kept.text, kept.notes) == (f"it is {MARK}", ())


def test_a_message_of_an_earlier_conversation_keeps_what_everybody_understands() -> None:
    picture = MediaPart("image", "image/png", "d", 1, f"{KNOWN}.png")
    result = ToolResult("1", (TextPart(f"saw {KNOWN}"), picture), error=True)
    link = MediaPart("image", "image/png", url=f"http://x/{KNOWN}")
    call = ToolCall("f", "{}", "1", "sealed")
    message = Message("user", (*SEALED, call, result, link), ISSUER)
    kept = unsaid(RedactionPass(REDACTOR), message)
    clean = msgspec.structs.replace(picture, name=f"{MARK}.png")
    assert kept.issuer is None
    assert kept.parts == (
        TextPart("t"),
        ToolCall("f", "{}", "1"),
        ToolResult("1", (TextPart(f"saw {MARK}"), clean), error=True),
        msgspec.structs.replace(link, url=f"http://x/{MARK}"),
    )
    assert unsaid(RedactionPass(REDACTOR), Message("user", f"a {KNOWN}")) == Message(
        "user", f"a {MARK}"
    )


def nested(depth: int, inner: Any) -> Any:
    for level in range(depth):
        inner = [inner] if level % 2 else {"a": inner}
    return inner


def test_what_is_nested_too_deep_is_said_to_be() -> None:
    fine = nested(DEEPEST, "x")
    assert redact_json(REDACTOR, fine) is fine
    assert redact_json(REDACTOR, nested(DEEPEST, [])) == nested(DEEPEST, [])
    assert redact_json(REDACTOR, nested(DEEPEST, ["x"])) == f"(nested deeper than {DEEPEST})"
    assert redact_json(REDACTOR, nested(DEEPEST, {"x": 1})) == f"(nested deeper than {DEEPEST})"


def test_what_does_not_change_is_not_copied_and_what_is_no_json_is_left() -> None:
    for value in ([1, True, None], (1, [2]), {"a": [1.5]}, b"bytes", {1, 2}):
        assert redact_json(REDACTOR, value) is value
    changed = redact_json(REDACTOR, (True, 1, KNOWN))
    assert changed == [True, 1, MARK]
    assert changed[0] is True
    assert redact_json(REDACTOR, {1: "a"}) == {"1": "a"}
    assert redact_json(REDACTOR, float("nan")) == "nan"


def test_a_name_changes_nothing_and_a_known_value_marks_the_step_as_altered() -> None:
    walk = RedactionPass(REDACTOR)
    named = {"argv": ["--token", "q1w2e3r4"], "password": "q1w2e3r4", "said": MARK}
    assert walk.value(named) is named
    assert not walk.lost
    assert walk.value(["-v", KNOWN]) == ["-v", MARK]
    assert walk.lost


def test_a_mask_in_a_parameter_counts_where_the_run_has_masked_a_secret() -> None:
    effect = Act(Thought("t"), (Action("add", {"a": {"b": [f"x\n{MARK}"]}}),))
    (kept,) = redact_step(REDACTOR, effect).actions
    assert not kept.guessed
    (kept,) = redact_step(REDACTOR, effect, masked=True).actions
    assert kept.repairs == (ALTERED,)
    assert list(mask_places(kept.parameters)) == ["a.b[0], line 2"]
    assert list(mask_places({MARK: 1})) == ["a name in the parameters"]


@pytest.mark.parametrize("field", ["result", "extraction"])
def test_what_a_strategy_says_that_it_saw_is_clean_and_what_it_did_not_say_stays_unsaid(
    field: str,
) -> None:
    fine = Observation("fine", extraction="fine")
    seen = msgspec.structs.replace(fine, **{field: f"it is {KNOWN}"})
    actions = (Action("a"), Action("b"), Action("c"))
    step = redact_step(REDACTOR, Act(Thought(f"I think {KNOWN}"), actions, (None, seen, fine)))
    assert step.thought.content == f"I think {MARK}"
    cleaned = msgspec.structs.replace(fine, **{field: f"it is {MARK}"})
    assert step.local == (None, cleaned, fine)
    assert step.local[2] is fine
    assert not step.planned
    assert redact_step(REDACTOR, Act(Thought("t"), actions, planned=True)).planned


@pytest.mark.parametrize("tool", ["add", "finish", "ask_user"])
def test_an_answer_may_lose_a_secret_and_any_other_action_is_guessed(tool: str) -> None:
    effect = Act(Thought("t"), (Action(tool, {"a": f"it is {KNOWN}"}),))
    (action,) = redact_step(REDACTOR, effect).actions
    assert action.parameters == {"a": f"it is {MARK}"}
    assert action.guessed == (tool == "add")
    again = redact_step(REDACTOR, Act(Thought("t"), (action,))).actions[0]
    assert again == action


def test_content_in_parts_is_cleaned_part_by_part() -> None:
    walk = RedactionPass(REDACTOR)
    picture = MediaPart("image", "image/png", "d", 1, "x")
    assert redact_visible(walk, f"a {KNOWN}") == f"a {MARK}"
    parts = (TextPart(KNOWN), picture, OpaquePart("sealed", "k"))
    assert redact_visible(walk, parts) == (TextPart(MARK), picture)

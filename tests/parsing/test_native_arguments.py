"""Native arguments as servers wrap them: they are read as text replies are, with receipts."""

import json

import pytest

from taofold.parsing import read_call

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
PLAIN = '{"a": 1, "b": 2}'


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(PLAIN),
        json.dumps(json.dumps(PLAIN)),
        f"```json\n{PLAIN}\n```",
        f"```\n{PLAIN}```",
        json.dumps(f"```json\n{PLAIN}\n```"),
        f"{PLAIN}\n</tool_call>",
        f"{PLAIN}</function></tool_call>",
        f"{PLAIN}<|im_end|>",
        "{'a': 1, 'b': 2}",
        '{"a": 1, "b": 2,}',
    ],
    ids=repr,
)
def test_what_is_wrapped_around_arguments_is_taken_off(text: str) -> None:
    call = read_call("add", text, schema=SCHEMA, finish_reason="tool_calls")
    assert (call.parameters, call.error) == ({"a": 1, "b": 2}, "")
    assert call.repairs
    assert not any(repair.content for repair in call.repairs)


@pytest.mark.parametrize(
    "text", ["{}" + PLAIN, PLAIN + "{}", PLAIN + " " + PLAIN, "{} {}\n" + PLAIN]
)
def test_of_objects_in_a_row_the_one_that_is_not_empty_is_a_guess(text: str) -> None:
    call = read_call("add", text, schema=SCHEMA, finish_reason="tool_calls")
    assert (call.parameters, call.error) == ({"a": 1, "b": 2}, "")
    assert any(repair.content for repair in call.repairs)


@pytest.mark.parametrize(
    "text", [PLAIN + '{"a": 9}', PLAIN + " and more", json.dumps("no object"), "{}{", PLAIN + "[1]"]
)
def test_what_could_be_two_things_is_none(text: str) -> None:
    call = read_call("add", text, schema=SCHEMA, finish_reason="tool_calls")
    assert call.error
    assert not call.parameters


def test_null_is_no_arguments_and_lost_ones_are_not_guessed() -> None:
    assert read_call("now", "null", schema={"type": "object"}).parameters == {}
    assert not read_call("now", "null", schema={"type": "object"}).error
    assert read_call("add", "null", schema=SCHEMA, finish_reason="stop").error


@pytest.mark.parametrize("text", [PLAIN, '{"a":1,"b":2}', "{}"])
def test_a_plain_call_has_no_receipt_because_its_arguments_are_always_encoded(text: str) -> None:
    assert read_call("add", text, schema=SCHEMA, finish_reason="tool_calls").repairs == ()
    assert read_call("finish", '{"answer": "x"}').repairs == ()


@pytest.mark.parametrize(
    "text", [json.dumps({"arguments": {"a": 1, "b": 2}}), json.dumps({"parameters": PLAIN})]
)
def test_an_object_around_the_arguments_is_taken_off(text: str) -> None:
    call = read_call("add", text, schema=SCHEMA, finish_reason="tool_calls")
    assert (call.parameters, call.error) == ({"a": 1, "b": 2}, "")
    assert call.repairs
    assert not any(repair.content for repair in call.repairs)


def test_an_object_that_the_tool_itself_declares_is_no_wrapper() -> None:
    own = {"type": "object", "properties": {"arguments": {"type": "object"}}}
    text = json.dumps({"arguments": {"a": 1}})
    assert read_call("run", text, schema=own).parameters == {"arguments": {"a": 1}}
    other = read_call("add", json.dumps({"arguments": {"c": 1}}), schema=SCHEMA)
    assert other.parameters == {"arguments": {"c": 1}}

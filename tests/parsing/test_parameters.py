"""Parameters of a call, and values that are not numbers."""

from math import inf, isfinite
from typing import Any

import pytest

from taofold.parsing import Parsed, Turn, Unparsed, parse, read_call, read_reply
from taofold.parsing.arguments import typed_arguments


def call(text: str):
    turn = read_reply(text, ["send"], finish_reason="stop")
    assert isinstance(turn, Turn), turn
    return turn.calls[0]


def doubted(text: str) -> bool:
    return any(each.content for each in call(text).repairs)


@pytest.mark.parametrize(
    ("entries", "parameters", "doubt"),
    [
        ('"to":"x"', {"to": "x"}, False),
        ('"name":"Bob","type":"urgent"', {"name": "Bob", "type": "urgent"}, True),
        ('"to":"x","name":"send","type":"function"', {"to": "x"}, False),
        ('"to":"x","id":"call_7"', {"to": "x"}, False),
        ('"id":"42"', {"id": "42"}, True),
        ('"answer":"42"', {"answer": "42"}, True),
        ('"id":"42","parameters":{"to":"x"}', {"to": "x"}, False),
        ('"parameters":{"to":"x"},"amount":5', {"to": "x"}, True),
        ('"parameters":{"to":"x"},"observation":null', {"to": "x"}, False),
        ('"parameters":{},"amount":5', {"amount": 5}, True),
        ('"parameters":{},"arguments":{"to":"x"}', {"to": "x"}, False),
        ('"parameters":{"to":"x"},"arguments":{"to":"x"}', {"to": "x"}, False),
        ('"parameters":{"to":"x"},"arguments":{"to":"y"}', {"to": "x"}, True),
        ('"rationale":"r","confidence":0.5', {}, False),
    ],
)  # fmt: skip
def test_an_entry_beside_the_tool_is_taken_or_the_call_is_in_doubt(entries, parameters, doubt):
    text = '{"thought":"t","tool":"send",' + entries + "}"
    assert call(text).parameters == parameters
    assert doubted(text) is doubt


@pytest.mark.parametrize(
    ("beside", "parameters"), [('"parameters":{"to":"x"}', {"to": "x"}), ('"to":"x"', {})]
)
def test_what_stands_beside_an_action_without_parameters_is_in_doubt(beside, parameters):
    text = '{"thought":"t","action":{"tool":"send"},' + beside + "}"
    assert call(text).parameters == parameters
    assert doubted(text)


def test_an_answer_beside_finish_is_the_answer():
    for key in ("answer", "final_answer"):
        assert call('{"thought":"t","tool":"finish","' + key + '":"42"}').parameters == {
            "answer": "42"
        }


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
@pytest.mark.parametrize("form", ['{"a":%s}', '{"a":[{"b":%s}]}', "{'a':%s,}"])
def test_a_number_that_is_not_finite_is_an_error_of_the_call(number, form):
    arguments = form % number
    assert read_call("send", arguments).error
    for text in (
        '{"thought":"t","tool":"send","parameters":' + arguments + "}",
        'Here: {"thought":"t","tool":"send","parameters":' + arguments + "}",
        f"Thought: t\nAction: send\nAction Input: {arguments}",
    ):
        read = read_reply(text, ["send"], finish_reason="stop")
        assert not isinstance(read, Turn) or (read.calls[0].error and not read.calls[0].parameters)


@pytest.mark.parametrize("claimed", ["NaN", "Infinity", "1e999", "9" * 400, '"high"', "true"])
def test_a_confidence_that_is_no_finite_number_is_none(claimed):
    text = '{"thought":"t","confidence":' + claimed + ',"tool":"send","parameters":{}}'
    turn = read_reply(text, ["send"])
    assert isinstance(turn, Turn)
    assert turn.remark is not None
    assert turn.remark.confidence is None


@pytest.mark.parametrize("type_", [dict[str, Any], dict[str, float], Any])
@pytest.mark.parametrize("number", ["NaN", "1e999", "1E+400", "9" * 320 + ".0"])
def test_no_typed_value_holds_a_number_that_is_not_finite(type_, number):
    read = parse('{"a": ' + number + "}", type_)
    assert not isinstance(read, Parsed) or not any(
        isinstance(each, float) and not isfinite(each) for each in read.value.values()
    )


def test_large_numbers_that_are_finite_are_read():
    assert parse('{"a": 1e300, "b": 1.7E+308}', dict[str, float]) == Parsed(
        {"a": 1e300, "b": 1.7e308}
    )
    assert inf not in parse('{"a": 1e300}', dict[str, float]).value.values()


def test_native_arguments_that_were_cut_to_nothing_are_an_error():
    assert read_call("send", "", finish_reason="length").error
    assert read_call("send", "").parameters == {}
    assert not read_call("send", "", finish_reason="stop").error


@pytest.mark.parametrize("reason", ["stop", "", None, "content_filter"])
@pytest.mark.parametrize("nothing", ["", "  \n"])
def test_native_arguments_that_did_not_arrive_are_no_wish_for_the_defaults(reason, nothing):
    """Mutant: no text always stands for no arguments."""
    takes = {"type": "object", "properties": {"to": {"type": "string", "default": "all"}}}
    none = {"type": "object", "properties": {}}
    lost = read_call("send", nothing, "c1", finish_reason=reason, schema=takes)
    assert (lost.tool, lost.id, lost.parameters) == ("send", "c1", {})
    assert "no arguments of 'send' arrived" in lost.error
    assert not read_call("send", nothing, finish_reason="tool_calls", schema=takes).error
    assert not read_call("send", nothing, finish_reason=reason, schema=none).error
    assert not read_call("send", "{}", finish_reason=reason, schema=takes).error


@pytest.mark.parametrize("name", ["", " "])
def test_a_native_call_without_a_name_is_an_error(name):
    assert "names no tool" in read_call(name, '{"a": 1}', "c1", finish_reason="tool_calls").error


BESIDE = '{"tool": "send", "parameters": {"to": "x"}, %s}'


@pytest.mark.parametrize("beside", ['"amount": 5', '"message": "hi"', '"title": "t", "code": 1'])
@pytest.mark.parametrize("form", ["%s", "```json\n%s\n```", '{"action": %s}', "[%s]"])
def test_what_stands_beside_the_parameters_of_an_action_is_never_dropped_in_silence(beside, form):
    """Applies to an action alone and under a label. Mutant: `labelled` reads it."""
    said = form % (BESIDE % beside)
    turn = read_reply(f"Thought: t\nAction: {said}\n", ["send"])
    assert isinstance(turn, Turn)
    (found,) = turn.calls
    assert found.parameters == {"to": "x"}
    assert any(repair.content for repair in found.repairs)


def test_an_action_under_a_label_may_be_an_object_with_its_reason_or_a_list_of_them():
    reason = BESIDE % '"rationale": "because"'
    turn = read_reply(f"Thought: t\nAction: {reason}\nObservation: sent", ["send"])
    assert isinstance(turn, Turn)
    assert turn.remark is not None
    assert (turn.calls[0].rationale, turn.calls[0].repairs) == ("because", ())
    assert turn.role_violation
    two = read_reply(f"Thought: t\nAction: [{reason}, {reason}]", ["send"])
    assert isinstance(two, Turn)
    assert [one.parameters for one in two.calls] == [{"to": "x"}] * 2
    plain = read_reply('Thought: t\nAction: [send]\nAction Input: {"to": "y"}', ["send"])
    assert isinstance(plain, Turn)
    assert (plain.calls[0].tool, plain.calls[0].parameters) == ("send", {"to": "y"})
    cut = read_reply('Thought: t\nAction: {"tool": "send", "parameters": {"to": "x"', ["send"])
    assert isinstance(cut, Unparsed)
    assert cut.reason == "incomplete"
    nameless = read_reply('Thought: t\nAction: {"parameters": {"to": "x"}}', ["send"])
    assert isinstance(nameless, Unparsed) or nameless.calls[0].error


@pytest.mark.parametrize(
    "text",
    [
        "<function=send><parameter=a>1<parameter=b>2</parameter></function>",
        "<function=send><parameter=a>1</function>",
    ],
)
def test_a_tag_that_lost_its_end_puts_the_call_in_doubt(text):
    assert doubted(text)
    assert not doubted("<function=send><parameter=a>1</parameter></function>")


@pytest.mark.parametrize(
    ("guess", "kind"), [("'it's here'", "unescaped_quotes"), ("rm -rf slash", "unquoted_text")]
)
@pytest.mark.parametrize("before", [3, 60, 5_000])
def test_a_guess_is_marked_however_much_was_repaired_before_it(guess, kind, before):
    """Mutant: the receipt ends at its hundredth entry."""
    pairs = "".join(f"'k{number}': 'v', " for number in range(before))
    text = "{'tool': 'send', 'parameters': {" + pairs + f"'to': {guess}" + "}}"
    assert kind in kinds(text)
    turn = read_reply(text, ["send"], finish_reason="stop")
    assert isinstance(turn, Turn)
    assert len(turn.repairs) < 120


SCHEMA = {"properties": {"text": {"type": "string"}, "count": {"type": "integer"}}}


def kinds(text: str) -> list[str]:
    turn = read_reply(text, {"send": SCHEMA}, finish_reason="stop")
    assert isinstance(turn, Turn), turn
    repairs = (*turn.repairs, *(each for call in turn.calls for each in call.repairs))
    return [each.kind for each in repairs if each.content]


def tagged(written: str, key: str = "text") -> str:
    return (
        f"<tool_call><function=send><parameter={key}>{written}</parameter></function></tool_call>"
    )


@pytest.mark.parametrize(
    ("written", "doubt"),
    [
        (" /tmp/a ", ["padding"]),
        ("   ", ["padding"]),
        ("\n        x = 1\n    ", ["padding"]),
        ("\n    x = 1\n", []),
        ("    x = 1", []),
        ("a line\n", []),
        ("&lt;b&gt; &amp; co", ["entities"]),
        ("a && b &amp; c", ["entities"]),
        ("<b>&amp;</b>", []),
        ('"a"', ["quotes"]),
        ('"a" or "b"', []),
        ("<![CDATA[ a ]]>", []),
    ],
)
def test_layout_and_escapes_that_may_be_the_texts_own_put_it_in_doubt(written, doubt):
    """Mutant: `_doubt_of` gives nothing."""
    assert kinds(tagged(written)) == doubt


def test_layout_around_what_is_no_text_is_none_of_it():
    assert kinds(tagged(" 5 ", "count")) == []


@pytest.mark.parametrize(
    ("written", "doubt"),
    [("[1, 2]", True), ("5", True), ('{"a": 1}', True), ("<a>1</a>", True), ("plain", False)],
)
def test_the_type_of_a_parameter_that_the_schema_does_not_know_is_a_guess(written, doubt):
    """Mutants: an undeclared parameter is typed without a mark; elements pass for text."""
    assert (kinds(tagged(written, "other")) == ["guessed_type"]) is doubt


def test_calls_that_their_family_always_lists_are_in_doubt_without_their_brackets():
    """Mutant: no row of the table requires the list."""
    assert kinds('<|tool_call_start|>[send(text="a")]<|tool_call_end|>') == []
    assert kinds('<|tool_call_start|>send(text="a")<|tool_call_end|>') == ["missing_brackets"]
    assert kinds('```tool_code\nsend(text="a")\n```') == []


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call><function =send><parameter =text>a</parameter></function></tool_call>",
        '<|tool_call>call:mail.box:send{text:<|"|>a<|"|>}<tool_call|>',
    ],
)
def test_a_blank_before_the_sign_and_a_space_of_names_are_read(text):
    tools = {"send": SCHEMA, "mail.box:send": SCHEMA}
    turn = read_reply(text, tools, finish_reason="stop")
    assert isinstance(turn, Turn)
    assert [(each.tool.rpartition(":")[2], each.parameters) for each in turn.calls] == [
        ("send", {"text": "a"})
    ]


def test_a_call_that_only_repeats_the_one_before_is_in_doubt():
    """Mutant: equal calls are not compared."""
    call_ = tagged("a")
    assert kinds(call_ + call_) == ["repeated_call"]
    assert kinds(call_ + tagged("b")) == []


def test_a_separator_that_the_family_always_writes_is_missed():
    """Mutant: no row of the table requires the separator."""
    whole = '<｜tool▁call▁begin｜>send<｜tool▁sep｜>{"text": "a"}<｜tool▁call▁end｜>'
    assert kinds(f"<｜tool▁calls▁begin｜>{whole}<｜tool▁calls▁end｜>") == []
    assert kinds(whole.replace("<｜tool▁sep｜>", "")) == ["missing_separator"]
    assert kinds('[TOOL_CALLS]send{"text": "a"}') == []


@pytest.mark.parametrize("word", ["anyOf", "oneOf"])
@pytest.mark.parametrize("inner", ["reference", "list"])
def test_unions_within_each_other_are_looked_at_once_each(word: str, inner: str) -> None:
    """Without a cache for each union, these need 3**40 checks of one value."""
    levels: dict[str, Any] = {"a40": {"type": "integer"}}
    for level in range(40):
        deeper = {"$ref": f"#/$defs/a{level + 1}"}
        option = deeper if inner == "reference" else {"type": "array", "items": deeper}
        levels[f"a{level}"] = {word: [option] * 3}
    schema = {"properties": {"x": {"$ref": "#/$defs/a0"}}, "$defs": levels}
    for value in ("1", "one", {"a": 1}, [["1"]]):
        arguments, _, fault = typed_arguments({"x": value}, schema, ())
        assert fault or arguments

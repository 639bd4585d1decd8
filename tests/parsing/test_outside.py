"""Spellings that servers meet in the field, each in words of our own."""

import json
from typing import Any

import pytest

from taofold.parsing import Parsed, Prose, Turn, Unparsed, parse, read_reply

TOOLS = {
    "search": {
        "type": "object",
        "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
    }
}


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        ('<|tool_call>:search{query:<|"|>cats<|"|>}<tool_call|>', {"query": "cats"}),
        ('<functionname="search"><paramname="query">cats</param></function>', {"query": "cats"}),
        ('<functionĠname="search"><param name="query">7</param></function>', {"query": "7"}),
        (
            "to=search.search<|message|><ns:function_calls>"
            '<ns:invoke name="search.search"><ns:parameter name="query">25</ns:parameter>'
            '<ns:parameter name="limit"> 25 </ns:parameter></ns:invoke></ns:function_calls><|eot|>',
            {"query": "25", "limit": 25},
        ),
        (
            '<function name="search"><param name="arguments">{"query": "cats"}</param></function>',
            {"query": "cats"},
        ),
        (
            '<invoke name="search"><parameter name="limit" string="true">7</parameter></invoke>',
            {"limit": 7},
        ),
        ("[search(query='Martha\\'s')]", {"query": "Martha's"}),
        ('search\n{"query": "cats"}', {"query": "cats"}),
        ('ACTION: search\nPARAMETERS: {"query": "cats"}\nOBSERVATION', {"query": "cats"}),
        (
            'Action: search\nParameters:\n```json\n{"query": "cats"}\n```\nObservation:',
            {"query": "cats"},
        ),
        (
            '<|from|>assistant\n<|recipient|>search\n<|content|>{"query": "cats"}<|stop|>',
            {"query": "cats"},
        ),
        ('[Calling tool: search({"query": "cats"})]', {"query": "cats"}),
        ('[search({"query": "cats"})]', {"query": "cats"}),
        ('search({"query": "f(x)"})', {"query": "f(x)"}),
        ('tool_code = search(query="cats")\nprint(tool_code)', {"query": "cats"}),
        ("ACTION: search\n  query: '''a\n  b'''\nOBSERVATION", {"query": "a\n  b"}),
    ],
)
def test_it_is_read_as_meant_and_nothing_is_marked(text, parameters):
    turn = read_reply(text, TOOLS, finish_reason="stop")
    assert isinstance(turn, Turn)
    assert [(call.tool, call.parameters, call.error) for call in turn.calls] == [
        ("search", parameters, "")
    ]
    assert not any(repair.content for each in (turn, *turn.calls) for repair in each.repairs)


def test_nested_tags_of_a_tool_without_a_schema_are_its_structure():
    mark = "]<]minimax[>["
    text = (
        f'{mark}<tool_call>{mark}<invoke name="order">{mark}<to>{mark}<city>Rome{mark}</city>'
        f"{mark}</to>{mark}</invoke>{mark}</tool_call>"
    )
    turn = read_reply(text, ["order"], finish_reason="stop")
    assert isinstance(turn, Turn)
    assert turn.calls[0].parameters == {"to": {"city": "Rome"}}


def test_an_object_of_equal_tags_keeps_their_name_and_an_undeclared_key_stays():
    """Mutants: equal tags are always a list; an undeclared key is dropped."""
    properties = {
        "labels": {"type": "object"},
        "to": {"type": "object", "properties": {"zip": {"type": "string"}}},
    }
    text = (
        "<function=order><parameter=labels><tag>a</tag><tag>b</tag></parameter>"
        "<parameter=to><zip>01234</zip><note>n</note></parameter></function>"
    )
    turn = read_reply(text, {"order": {"properties": properties}}, finish_reason="stop")
    assert isinstance(turn, Turn)
    assert turn.calls[0].parameters == {
        "labels": {"tag": ["a", "b"]},
        "to": {"zip": "01234", "note": "n"},
    }


@pytest.mark.parametrize(
    "text",
    [
        "<|channel|>commentary to=functions.search<|message|>" * 2000,
        "x = " + "\n" * 5000 + "print(y)",
        "<tool_call>" * 2000 + "[Calling tool: search(" * 500,
        "<|recipient|>search\n<|content|>{" * 500,
        '{"name": "search", "arguments": {"query": "a" "b": ' * 300,
    ],
)
def test_no_row_of_marks_is_too_deep_to_be_read(text):
    """Mutant: the head of a message reads the head behind it by itself."""
    assert isinstance(read_reply(text, TOOLS, finish_reason="stop"), Unparsed | Prose | Turn)


@pytest.mark.parametrize(
    "text",
    [
        'Sure.\n\n[search(query="a"),\n search(query="b")]\n\nThat tells us.',
        'I shall look. [search(query="a")]',
        'I shall look. [search(query="a")] Then I know. [search(query="b")]',
    ],
)
def test_a_list_of_calls_in_the_midst_of_prose_is_a_question_never_an_answer(text):
    """Mutant: only the start of a line is looked at."""
    reply = read_reply(text, TOOLS, finish_reason="stop")
    assert isinstance(reply, Unparsed)
    assert reply.reason == "ambiguous"


def test_a_list_that_names_a_tool_and_another_word_is_calls():
    """Mutant: one unknown name makes an answer of the list."""
    turn = read_reply('[search(query="a"), unknown(query="b")]', TOOLS)
    assert isinstance(turn, Turn)
    assert [call.tool for call in turn.calls] == ["search", "unknown"]


def test_a_list_that_names_no_tool_is_an_answer():
    assert isinstance(read_reply("x = [f(1), g(x=2)]", TOOLS), Prose)


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "search", "arguments": {"limit": "7"}}</tool_call>',
        '<tool_call>search\n{"limit": "7"}</tool_call>',
        '<|tool_call>call:search{limit:<|"|>7<|"|>}<tool_call|>',
        '[search(limit="7")]',
    ],
)
def test_what_a_model_quoted_stays_a_text_for_the_tools_own_validator(text):
    """Mutant: a quoted text is typed by the schema, without a mark."""
    turn = read_reply(text, TOOLS, finish_reason="stop")
    assert isinstance(turn, Turn)
    assert turn.calls[0].parameters == {"limit": "7"}


@pytest.mark.parametrize("form", ["{}", "[{}]"])
def test_arguments_without_a_name_are_no_call(form):
    """Mutant: `arguments` is taken for the name of a tool."""
    text = form.replace("{}", '{"arguments": {"query": "a"}}')
    turn = read_reply(f"<tool_call>{text}</tool_call>", TOOLS, finish_reason="stop")
    assert isinstance(turn, Turn)
    assert turn.calls[0].error.startswith("the action names no tool")


@pytest.mark.parametrize(
    ("text", "is_lost"),
    [
        ('<tool_call>{"name": "search"}</tool_call>', True),
        (
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>search<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
            True,
        ),
        ('<tool_call>{"name": "search", "arguments": {}}</tool_call>', False),
        ('<tool_call>{"function": {"name": "search", "arguments": {}}}</tool_call>', False),
        ('<tool_call>{"name": "search", "arguments": null}</tool_call>', True),
        ('<tool_call>{"name": "now"}</tool_call>', True),
        ("<|tool_call>call:now<tool_call|>", True),
        ("<|tool_call>call:now{}<tool_call|>", False),
        ('<invoke name="now"></invoke>', False),
        ("<tool_call>search</tool_call>", False),
    ],
)
def test_a_call_whose_arguments_were_not_written_is_an_error(text, is_lost):
    """Mutant: nothing is as good as `{}`."""
    turn = read_reply(text, {**TOOLS, "now": {"properties": {}}}, finish_reason="stop")
    assert isinstance(turn, Turn)
    assert turn.calls[0].parameters == {}
    assert turn.calls[0].error.startswith("no arguments of") is is_lost


def test_of_a_long_list_the_items_that_are_json_are_read_as_json():
    """Mutants: every item is read by the tolerant reader; the decoder is called for each of many
    broken ones.
    """
    good = '{"id": 1, "x": "a", "y": {"z": []}}'
    broken = "{'id': 2, x: \"b\",}"
    text = "[" + ", ".join([good, broken] * 20 + [good]) + ",]"
    value = parse(text, list[dict[str, Any]])
    assert isinstance(value, Parsed)
    first, second = {"id": 1, "x": "a", "y": {"z": []}}, {"id": 2, "x": "b"}
    assert value.value == [first, second] * 20 + [first]


TEXT = {"properties": {"text": {"type": "string"}}}


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("\nline\n", "line"),
        ("line\n\n", "line\n"),  # the template's break is the last one, even if the first is lost
        ("\n  line\n\n", "  line\n"),
        ("line", "line"),
    ],
)
def test_the_breaks_that_a_template_puts_around_a_value_are_none_of_it(
    value: str, content: str
) -> None:
    text = f"<tool_call><function=write><parameter=text>{value}</parameter></function></tool_call>"
    turn = read_reply(text, {"write": TEXT}, finish_reason="stop")
    assert isinstance(turn, Turn)
    assert turn.calls[0].parameters == {"text": content}


def test_a_break_at_the_end_is_the_values_own_where_no_template_puts_one() -> None:
    """Mutant: a break at the end is always cut."""
    text = '<invoke name="write"><parameter name="text">line\n</parameter></invoke>'
    turn = read_reply(text, {"write": TEXT}, finish_reason="stop")
    assert isinstance(turn, Turn)
    assert turn.calls[0].parameters == {"text": "line\n"}


def test_null_is_the_word_where_a_text_is_due() -> None:
    text = '<｜DSML｜invoke name="write"><｜DSML｜parameter name="text" string="false">null'
    text += "</｜DSML｜parameter></｜DSML｜invoke>"
    turn = read_reply(text, {"write": TEXT}, finish_reason="stop")
    assert isinstance(turn, Turn)
    assert turn.calls[0].parameters == {"text": "null"}
    nullable = {"properties": {"text": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}}
    turn = read_reply(text, {"write": nullable}, finish_reason="stop")
    assert isinstance(turn, Turn)
    assert turn.calls[0].parameters == {"text": None}


CALL = '<tool_call>{"name": "write", "arguments": {"text": "a"}}'


def test_prose_on_a_new_line_behind_a_block_without_its_end_is_beside_the_call() -> None:
    """Mutant: an unclosed block takes in the prose behind it."""
    turn = read_reply(CALL + "\nI shall tell you.", {"write": TEXT}, finish_reason="stop")
    assert isinstance(turn, Turn)
    assert turn.calls[0].parameters == {"text": "a"}
    assert any(each.content for each in turn.repairs)


@pytest.mark.parametrize("rest", [" and more", "\nI shall tell you.</tool_call>", "\n</function"])
def test_text_inside_a_block_is_an_error_and_never_beside_it(rest: str) -> None:
    """Mutant: an unclosed block ends in the midst of its line."""
    assert isinstance(read_reply(CALL + rest, {"write": TEXT}, finish_reason="stop"), Unparsed)


@pytest.mark.parametrize(
    ("text", "is_marked"),
    [
        ('<tool_call>{"name": "search", "arguments": {"query": "a"}}', True),
        ('<|channel|>commentary to=functions.search<|message|>{"query": "a"}', True),
        ('<tool_call>{"name": "search", "arguments": {"query": "a"}}</tool_call>', False),
        ('[TOOL_CALLS]search[ARGS]{"query": "a"}', False),
    ],
)
def test_a_block_that_nothing_ends_is_marked_unless_the_model_said_that_it_was_done(
    text, is_marked
):
    """Mutant: the end of the text is as good as a closing mark."""
    for finish_reason in (None, "stop"):
        turn = read_reply(text, TOOLS, finish_reason=finish_reason)
        assert isinstance(turn, Turn)
        kinds = [repair.kind for repair in turn.repairs if repair.content]
        assert kinds == (["open_end"] if is_marked and finish_reason is None else [])


def test_a_text_that_may_be_of_another_type_is_marked():
    """Mutant: one of two allowed types is chosen without a mark."""
    schema = {"properties": {"id": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}}
    text = '<invoke name="get"><parameter name="id">7</parameter></invoke>'
    turn = read_reply(text, {"get": schema}, finish_reason="stop")
    assert isinstance(turn, Turn)
    assert turn.calls[0].parameters == {"id": 7}
    assert [each.kind for each in turn.calls[0].repairs if each.content] == ["guessed_type"]


@pytest.mark.parametrize(
    "text",
    [
        'search\n{"q": "a"}>>>search\n{"q": "b"}<|eot_id|>',
        '>>>search\n{"q": "a"}>>>search\n{"q": "b"}',
    ],
)
def test_a_first_call_whose_mark_the_prompt_holds_is_one_of_the_batch(text):
    """Mutants: the first call is a remark before the second; both are an answer."""
    turn = read_reply(text, {"search": {}}, finish_reason="stop")
    assert isinstance(turn, Turn)
    assert [each.parameters for each in turn.calls] == [{"q": "a"}, {"q": "b"}]


def test_an_object_below_the_name_of_a_tool_is_its_arguments_whatever_its_keys():
    """Mutant: the name is a remark, and the object a decision of its own."""
    turn = read_reply('search\n{"answer": "a"}', {"search": {}}, finish_reason="stop")
    assert isinstance(turn, Turn)
    assert [(each.tool, each.parameters) for each in turn.calls] == [("search", {"answer": "a"})]


def test_the_provider_s_number_of_a_call_is_no_parameter():
    call = {"tool_call_id": "0", "tool_name": "now", "parameters": {}}
    text = f"<|START_ACTION|>{json.dumps([call])}<|END_ACTION|>"
    turn = read_reply(text, {"now": {}}, finish_reason="stop")
    assert isinstance(turn, Turn)
    assert (turn.calls[0].parameters, turn.calls[0].repairs) == ({}, ())


def test_what_does_not_fit_its_schema_reaches_the_validator_as_it_was_written():
    """Mutant: the value becomes a text, and the model gets "expected an object"."""
    area = {"type": "object", "properties": {"width": {"type": "integer"}}}
    text = (
        '<function=search><parameter=area>{"width": [20]}</parameter>'
        "<parameter=n>soon</parameter></function>"
    )
    tools = {"search": {"properties": {"area": area, "n": {"type": "integer"}}}}
    turn = read_reply(text, tools, finish_reason="stop")
    assert isinstance(turn, Turn)
    assert turn.calls[0].parameters == {"area": {"width": [20]}, "n": "soon"}


@pytest.mark.parametrize("end", ["<|end|>", "<|end_message|>"])
def test_what_ends_any_message_closes_no_thought_by_itself(end):
    """Mutant: what stands before it is taken for a thought whose mark the prompt held."""
    assert read_reply(f"It is so.{end}", TOOLS, finish_reason="stop") == Prose("It is so.")


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ('Thought: t\nAction: search\nAction Input: "cats"', "cats"),
        ('Thought: t\nAction: search\nAction Input: "a\\nb"', "a\nb"),
        ('Thought: t\nAction: search\nAction Input: "cats" or "dogs"', '"cats" or "dogs"'),
        ("Thought 1: t\nAction 1: search[cats and dogs]", "cats and dogs"),
        ('Action: search["cats"]', "cats"),
    ],
)
def test_a_bare_argument_of_a_react_text_is_the_only_parameter(text: str, query: str) -> None:
    """Mutants: the quotes of a JSON string stay in the value; any outer quotes are removed."""
    schema = {"type": "object", "properties": {"query": {"type": "string"}}}
    turn = read_reply(text, {"search": schema}, finish_reason="stop")
    assert isinstance(turn, Turn)
    assert [(call.tool, call.parameters, call.error) for call in turn.calls] == [
        ("search", {"query": query}, "")
    ]
    assert any(repair.content for repair in turn.calls[0].repairs)


@pytest.mark.parametrize("rest", ["[a] or [b]", "[a], then more", "[a"])
def test_what_is_more_than_one_argument_in_brackets_is_a_question(rest: str) -> None:
    schema = {"type": "object", "properties": {"query": {"type": "string"}}}
    assert isinstance(read_reply(f"Action: search{rest}", {"search": schema}), Unparsed)


@pytest.mark.parametrize(
    "text",
    [
        '{"action": "Final Answer", "action_input": "42"}',
        'Thought: t\nAction:\n```json\n{"action": "Final Answer", "action_input": "42"}\n```',
        "Thought: t\nAction: Final Answer\nAction Input: 42",
        "Thought: t\nAction: finish[42]",
    ],
)
def test_the_final_answer_of_react_prompts_ends_the_run(text: str) -> None:
    turn = read_reply(text, TOOLS, finish_reason="stop")
    assert isinstance(turn, Turn)
    assert [(call.tool, call.parameters) for call in turn.calls] == [("finish", {"answer": "42"})]
    tools = {"Final Answer": {}, **TOOLS}
    turn = read_reply('{"action": "Final Answer", "action_input": {}}', tools)
    assert isinstance(turn, Turn)
    assert turn.calls[0].tool == "Final Answer", "a tool of that name is the tool"


SEARCH = '{"tool": "search", "parameters": {"query": "cats"}}'


@pytest.mark.parametrize("call", [SEARCH, f"```json\n{SEARCH}\n```"])
def test_a_call_alone_behind_a_labelled_thought_is_made_and_marked(call: str) -> None:
    turn = read_reply(f"Thought: I look it up.\n{call}", TOOLS, finish_reason="stop")
    assert isinstance(turn, Turn)
    assert turn.remark is not None
    assert turn.remark.content == "I look it up."
    assert [each.parameters for each in turn.calls] == [{"query": "cats"}]
    assert any(repair.kind == "beside_prose" and repair.content for repair in turn.repairs)


@pytest.mark.parametrize(
    "text",
    [
        f"Thought: I could write {SEARCH}",
        f"Thought: like this:\n{SEARCH}\nbut I shall not.",
        f"Thought: t\n{SEARCH}\nThought: no, better not.",
    ],
)
def test_a_call_in_the_midst_of_a_labelled_thought_is_a_question(text: str) -> None:
    reply = read_reply(text, TOOLS, finish_reason="stop")
    assert isinstance(reply, Unparsed) or (isinstance(reply, Turn) and not reply.calls)

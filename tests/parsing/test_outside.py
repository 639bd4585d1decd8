"""Spellings that servers meet in the field, each in words of our own."""

import pytest

from taofold.parsing import Prose, Turn, Unparsed, read_reply

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
    """Mutants: equal tags are a list whatever is due; a key beside the declared ones is dropped."""
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


def test_a_list_of_calls_in_the_midst_of_prose_is_a_question_never_an_answer():
    text = 'Sure.\n\n[search(query="a"),\n search(query="b")]\n\nThat tells us.'
    reply = read_reply(text, TOOLS, finish_reason="stop")
    assert isinstance(reply, Unparsed)
    assert reply.reason == "ambiguous"


TEXT = {"properties": {"text": {"type": "string"}}}


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("\nline\n", "line"),
        ("line\n\n", "line\n"),  # the template's break is the last one, whoever lost the first
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

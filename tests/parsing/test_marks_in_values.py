"""Marks of a call that stand in the value of a parameter: the call is marked, or is an error."""

import pytest

from taofold.parsing import Parsed, Turn, parse, read_reply
from tests.parsing.corruptions import Person

TOOLS = {
    "put": {
        "type": "object",
        "properties": {"path": {"type": "string"}, "lines": {"type": "array"}},
        "required": ["path"],
    }
}


def read(text):
    """Returns the parameters of the one call and its repair mark; None if no call runs."""
    turn = read_reply(text, TOOLS, finish_reason="stop")
    if not isinstance(turn, Turn) or any(call.error for call in turn.calls):
        return None
    (call,) = turn.calls
    return call.parameters, any(repair.content for repair in (*turn.repairs, *call.repairs))


GLM = "<tool_call>put\n<arg_key>path</arg_key>%s<arg_value>a.txt</arg_value>\n</tool_call>"
QWEN = "<tool_call>\n<function=put>\n<parameter=path>\n%s\n</parameter>\n</function>\n</tool_call>"
INVOKE = '<invoke name="put">\n<parameter name="path">%s</parameter>\n</invoke>'
CLINE = "Now.\n<put>\n<path>%s</path>\n</put>"


@pytest.mark.parametrize(
    "text",
    [
        GLM % "</arg_key>\n",
        GLM % "\n<arg_value>",
        GLM.replace("<arg_value>", "<arg_value") % "\n",
        QWEN % "a.txt\n<tool_call>",
        QWEN % "a.txt</param",
        INVOKE % "a.txt</parameter",
        INVOKE % "<parameter>a.txt",
        INVOKE % "a.txt</function_calls>",
        CLINE % "<path>a.txt",
        CLINE % "a.txt</path>",
    ],
)
def test_a_lone_mark_of_the_call_in_a_value_marks_the_value(text):
    """Mutant: `_is_balanced` returns True."""
    result = read(text)
    assert result is None or result[1], result


@pytest.mark.parametrize(
    ("form", "value"),
    [
        (QWEN, "write <parameter>1</parameter> and <tool_call>x</tool_call>"),
        (INVOKE, "say <parameter>x</parameter>, a < b and <br>"),
        (CLINE, "the <path>x</path> of <paths>"),
        (GLM.replace("a.txt", "%s") % ("\n", "%s"), "an <arg_value>x</arg_value>"),
    ],
)
def test_text_about_tags_has_both_of_them_and_is_no_guess(form, value):
    assert read(form % value) == ({"path": value}, False)


@pytest.mark.parametrize(
    "text",
    [
        "<function=put>\n<parameter=path\na.txt -> b.txt\n</parameter>\n</function>",
        '<invoke name="put">\n<parameter name="path" string="true"a -> b</parameter>\n</invoke>',
        "<put>\n<path a -> b</path>\n</put>",
        '<invoke name="put">\n<parameter name="path" of my file>a</parameter>\n</invoke>',
    ],
)
def test_the_tag_of_a_parameter_holds_attributes_only(text):
    """Its value would begin behind the first `>` of the value. Mutant: any rest is taken."""
    assert read(text) is None


@pytest.mark.parametrize(
    "attributes", ["", ' string="true"', " type='string' id=p1", " string", ' data-x="a b"']
)  # fmt: skip
def test_the_attributes_that_families_write_are_read(attributes):
    text = f'<invoke name="put">\n<parameter name="path"{attributes}>a.txt</parameter>\n</invoke>'
    assert read(text) == ({"path": "a.txt"}, False)


def test_a_key_that_occurs_twice_in_a_tagged_object_is_not_dropped():
    """Mutant: a decoder that keeps the last one."""
    twice = '[{"at": 1, "text": "a", "at": 2, "text": "b"}]'
    text = (
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="put">\n'
        '<｜DSML｜parameter name="path" string="true">a</｜DSML｜parameter>\n'
        f'<｜DSML｜parameter name="lines" string="false">{twice}</｜DSML｜parameter>\n'
        "</｜DSML｜invoke>\n</｜DSML｜function_calls>"
    )
    turn = read_reply(text, TOOLS, finish_reason="stop")
    assert not isinstance(turn, Turn) or turn.calls[0].parameters.get("lines") != [
        {"at": 2, "text": "b"}
    ]


@pytest.mark.parametrize(("line", "value"), [("path:: a.txt", ": a.txt"), ("path: := b", ":= b")])
def test_a_second_colon_behind_a_parameters_name_marks_its_value(line, value):
    assert read(f"THOUGHT [Reasoning]: t\nACTION: put\n {line}\nOBSERVATION") == (
        {"path": value},
        True,
    )
    plain = "THOUGHT [Reasoning]: t\nACTION: put\n path: a::b\nOBSERVATION"
    assert read(plain) == ({"path": "a::b"}, False)


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "Ann", "age": 41}, "email": "a@b.c"}',
        '{"name": "Ann", "age": 41, }"email": "a@b.c"}',
        "{'name': 'Ann', 'age': 41}\n 'email': 'a@b.c'}",
        "{“name”: “Ann”, “age”: 41} email”: “a@b.c”}",
    ],
)
def test_an_object_that_ends_before_its_last_member_is_a_marked_guess(text):
    """The optional member is lost. Mutant: `_MEMBER` matches nothing."""
    result = parse(text, Person)
    assert not isinstance(result, Parsed) or [r.kind for r in result.repairs if r.content]


@pytest.mark.parametrize("behind", ["", "\n\nNote: she is 41.", " as you wanted", "\n```\nDone"])
def test_words_behind_an_object_are_no_member(behind):
    result = parse('{"name": "Ann", "age": 41}' + behind, Person)
    assert isinstance(result, Parsed)
    assert not any(repair.content for repair in result.repairs)

"""Properties over generated types, values and texts."""

import json
import re
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, create_model

from taofold.parsing import (
    Parsed,
    Prose,
    Turn,
    Unparsed,
    parse,
    parse_partial,
    read_call,
    read_reply,
    render_schema,
)

LEAVES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (int, st.integers(-(10**20), 10**20)),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (bool, st.booleans()),
    (str, st.text()),
    (Literal["low", "Low risk", "a.b"], st.sampled_from(["low", "Low risk", "a.b"])),
    (str | None, st.none() | st.text()),
    (int | None, st.none() | st.integers(-9, 9)),
]
NAMES = ["name", "birth_year", "isAdmin", "x", "items_", "Note"]


def model_of(fields: list[tuple[str, Any]]) -> type[BaseModel]:
    members: dict[str, Any] = {name: (kind, ...) for name, kind in fields}
    return create_model("Generated", **members)


def extended(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def lists(pair: Any) -> Any:
        return (list[pair[0]], st.lists(pair[1], max_size=3))

    def maps(pair: Any) -> Any:
        return (
            dict[str, pair[0]],
            st.dictionaries(st.text(min_size=1, max_size=30), pair[1], max_size=3),
        )

    def models(pairs: list[Any]) -> Any:
        named = list(zip(NAMES, pairs, strict=False))
        model = model_of([(name, pair[0]) for name, pair in named])
        return (model, st.fixed_dictionaries({name: pair[1] for name, pair in named}))

    return inner.map(lists) | inner.map(maps) | st.lists(inner, min_size=1, max_size=5).map(models)


PAIRS = st.recursive(st.sampled_from(LEAVES), extended, max_leaves=6)


@st.composite
def typed_values(draw: st.DrawFn) -> tuple[Any, Any]:
    type_, values = draw(
        PAIRS.filter(lambda pair: isinstance(pair[0], type) and pair[0] not in LEAF)
    )
    return type_, draw(values)


LEAF = (int, float, bool, str)
RENDERINGS = {
    "json": json.dumps,
    "unicode": lambda v: json.dumps(v, ensure_ascii=False),
    "lines": lambda v: json.dumps(v, indent=2),
    "fence": lambda v: f"Here:\n```json\n{json.dumps(v, indent=1)}\n```\nDone.",
    "python": repr,
    "trailing comma": lambda v: re.sub(r"(?<=[^\[{,\s])([\]}])\Z", r",\1", json.dumps(v)),
    "comment": lambda v: json.dumps(v, indent=2).replace("\n", "  // it's {so\n", 1),
    "end token": lambda v: json.dumps(v) + "<|im_end|>",
}
few = settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


@few
@given(typed_values(), st.sampled_from(sorted(RENDERINGS)))
def test_what_was_rendered_is_read_back(pair, rendering):
    type_, value = pair
    text = RENDERINGS[rendering](value)
    assume(value or rendering in ("json", "unicode", "lines"))
    wanted = TypeAdapter(type_).validate_python(value)
    result = parse(text, type_)
    assert isinstance(result, Parsed), (text, result)
    assert result.value == wanted, text


@few
@given(
    typed_values(), st.sampled_from(["json", "unicode", "lines", "fence", "end token"]), st.data()
)
def test_a_prefix_is_refused_or_gives_the_whole_value(pair, rendering, data):
    type_, value = pair
    text = RENDERINGS[rendering](value)
    wanted = TypeAdapter(type_).validate_python(value)
    for end in data.draw(st.sets(st.integers(1, len(text)), max_size=20)):
        result = parse(text[:end], type_)
        assert isinstance(result, Unparsed) or result.value == wanted, text[:end]


@few
@given(st.dictionaries(st.text(min_size=1), st.text() | st.integers() | st.booleans(), max_size=4))
def test_arguments_survive_every_way_of_carrying_them(arguments):
    assume("" not in arguments)
    call = {"tool": "f", "parameters": arguments}
    for text in (
        json.dumps({"thought": "t", "action": call}),
        f"Well.\n```json\n{json.dumps({'thought': 't', 'action': call}, indent=1)}\n```",
        f"<tool_call>{json.dumps({'name': 'f', 'arguments': json.dumps(arguments)})}</tool_call>",
    ):
        turn = read_reply(text, ["f"])
        assert isinstance(turn, Turn), (text, turn)
        assert turn.calls[0].parameters == arguments
    assert read_call("f", json.dumps(arguments)).parameters == arguments


class Sample(BaseModel):
    name: str
    tags: list[str]
    size: float | None = None
    inner: dict[str, Any] = {}


class SampleCall(BaseModel):
    thought: str | None = None
    tool: Literal["f", "g"]
    args: Sample


TYPES: list[Any] = [Sample, SampleCall, list[Sample], dict[str, int], Any, Sample | int, bool, str]
PIECES = [
    "{", "}", "[", "]", "(", ")", '"', "'", "`", "“", "”", ":", "：", ",", "，", "\\", "\n", " ", "#",  # noqa: E501
    "//", "/*", "*/", "...", "```", "```json\n", "~~~", "<think>", "</think>", "<tool_call>",
    "</tool_call>", "<f>", "</f>", "<arg_key>", "</arg_key>", "<arg_value>", "<function=f>",
    "<parameter=name>", "</parameter>", "</function>", '<invoke name="f">', "</invoke>", "DSML",
    "[TOOL_CALLS]", "f[ARGS]", "<|python_tag|>", "<|channel|>analysis<|message|>", "<|end|>",
    " to=functions.f <|message|>", "<｜tool▁call▁begin｜>f<｜tool▁sep｜>", "call:f{", '<|"|>', "f(", "name=",  # noqa: E501
    "THOUGHT [Goal]: ", "ACTION: f", "OBSERVATION: ", "Action Input: ", "Final Answer: ", "|", "- ",
    "name", '"name"', "tags", '"tool"', '"args"', "thought", "null", "true", "None", "NaN", "1", "-0",  # noqa: E501
    "1e9", "0x1F", "\x00", "\ufeff", "\u200b", "\ud83d", "é", "😀", '"""', "'''", "=>", "=", ";", "&quot;",  # noqa: E501
]  # fmt: skip
TEXTS = st.text(max_size=60) | st.lists(st.sampled_from(PIECES), max_size=40).map("".join)


@settings(max_examples=600, deadline=None, derandomize=True)
@given(TEXTS, st.sampled_from(range(len(TYPES))), st.sampled_from([None, "stop", "length"]))
@example('{"name": "\ud83d"}', 0, None)
@example('{"name": ' + "1" * 5000 + "}", 3, None)
def test_no_text_raises(text, index, reason):
    result = parse(text, TYPES[index], finish_reason=reason)
    assert isinstance(result, Parsed | Unparsed)
    assert isinstance(parse_partial(text, TYPES[index]), Parsed | Unparsed)
    reply = read_reply(
        text, {"f": {}, "g": {"properties": {"x": {"type": "integer"}}}}, finish_reason=reason
    )
    assert isinstance(reply, Turn | Prose | Unparsed)
    if isinstance(reply, Turn):
        assert all(not call.parameters for call in reply.calls if call.error)
    assert read_call("f", text).tool == "f"


BARE = [
    "Thought", "ACTION", "final answer", "final_answer", "observation", "tool results", "f", "finish",  # noqa: E501
    "analysis", "DSML", "minimax", "invoke", "call", " to=f", "```json", "```", "~~~", "x = 3", "}",
    "]", ")", ">", ",", '"', "'", "\x02", "\ufeff", "\u200b", "#", "- ", "1. ", "**", "_", "42",
    "…", "/think", "assistant", "final", "\n", " ", "\t", "\u2028", "ſ", "é", "null", "“", "”", ";",
    "`",
]  # fmt: skip


@settings(max_examples=600, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(BARE), min_size=1, max_size=12).map("".join))
@example("Thought\nAction\nf\nFinal answer\n42")
def test_without_a_sign_of_any_form_a_text_is_prose_and_was_no_form_before(text):
    assume(text.strip() and "assistantfinal" not in text)
    assert read_reply(text, ["f"]) == Prose(text.strip())
    signed = f"{text}\n<"  # a sign: now every form is looked for
    assert read_reply(signed, ["f"]) == Prose(signed.strip())
    assert isinstance(read_reply(text, ["f"], finish_reason="length"), Unparsed)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("so it is assistantfinal 42", Prose("42")),
        ("so it is AssistantFinal 42", Prose("42")),
    ],
)
def test_one_sign_is_enough_to_be_looked_at(text, said):
    assert read_reply(text, ["f"]) == said


@pytest.mark.parametrize("text", ["｜DSML｜42", "|DSML|42", "‖DSML‖42"])
def test_a_mark_without_a_call_is_told_to_the_model(text):
    reply = read_reply(text, ["f"])
    assert isinstance(reply, Unparsed)
    assert reply.reason == "invalid"


@pytest.mark.parametrize("text", ["f()", "f(x=1)", "Final Answer: 42", "Final Answer： 42"])
def test_one_sign_is_enough_to_be_a_turn(text):
    assert isinstance(read_reply(text, ["f"]), Turn)


@pytest.mark.parametrize(
    "unit", ["`", "~", "``` ", " ", "<a>", "[x]", "} ", "\\", "- ", "ACTION: "]
)
def test_runs_of_one_mark_around_a_value_are_read_in_linear_time(unit):
    """Found by fuzzing: backticks before a value once took a minute to look through."""
    import time

    text = unit * 400 + '{"thought": "t", "tool": "f", "args": {}}' + unit * 400
    start = time.process_time()
    read_reply(text, ["f"])
    parse(text, SampleCall)
    assert time.process_time() - start < 1


REPEATED = {
    "yaml fences": "```yaml\n", "code": "```tool_code\nf(name=1)\n```\n", "lfm": "<|tool_call_start|>",  # noqa: E501
    "parameters": "<function=f><parameter=name>", "glm": "<tool_call>f<arg_key>x</arg_key>",
    "keys": "k</arg_key>v</arg_value>", "children": '<invoke name="f"><a>', "cline": "<f>\n<name>x",
    "thinking": "<Think>x</think>", "labels": "Thought: x\n", "actions": "ACTION: f\n x: |\n  y\n",
    "observations": "Observation: x\n", "heads": "call:f{", "pythonic": "f(name='x'), ",
    "decisions": '{"thought": "x"} ', "colons": "a: ", "items": "- a: b\n", "indents": "a:\n ",
    "lost quotes": '{"name": "x,\n', "escapes": "\\\\\"", "harmony": " to=f <|message|>{",
    "elements": "<a><b></b>", "key prefix": '{"a", ', "triple": '{"a": """', "entities": "&quot;{",
}  # fmt: skip


@pytest.mark.parametrize("name", REPEATED)
def test_repeated_marks_of_every_form_are_read_in_linear_time(name):
    import time

    text = REPEATED[name] * (200_000 // len(REPEATED[name]))
    for whole in (text, "ACTION: f\n" + text, '{"tool": "f", "args": {"name": "' + text):
        start = time.process_time()
        parse(whole, SampleCall)
        parse(whole, Sample)
        read_reply(whole, ["f", "g"])
        assert time.process_time() - start < 5


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.binary(max_size=80))
def test_no_bytes_raise(data):
    for text in (data.decode("latin-1"), data.decode("utf-8", "surrogateescape")):
        parse(text, Sample)
        read_reply(text, ["f"])


@few
@given(typed_values())
def test_every_generated_type_can_be_shown_in_a_prompt(pair):
    assert render_schema(pair[0])


@pytest.mark.fuzz
@settings(max_examples=20_000, deadline=None)
@given(TEXTS, st.sampled_from(range(len(TYPES))))
def test_no_text_raises_in_a_long_run(text, index):
    parse(text, TYPES[index])
    read_reply(text, ["f", "g"])

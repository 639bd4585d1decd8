"""Every dialect of every model family, for a typed call and for an agent's reply."""

from typing import Any, Literal

import pytest
from pydantic import BaseModel, TypeAdapter

from taofold.parsing import Parsed, Prose, Turn, Unparsed, parse, read_reply
from tests.parsing.calls import DIALECTS, OPEN_ENDED

ARGUMENTS: dict[str, dict[str, Any]] = {
    "get_weather": {"city": "São Paulo", "days": 2},
    "delete_path": {"path": "/home/user/project", "recursive": True},
    "write_file": {"path": "a.py", "content": 'd = {"a": [1]}  # {no json}\nreturn d["a"]\n'},
    "bash": {"command": "grep -rn \"x: {y}\" . | awk '{print $1}' > o < i", "timeout": 30},
    "edit": {"path": "a.py", "edits": [{"old": 'x = "1"', "new": "x = 2\n"}]},
}
SCHEMAS: dict[str, dict[str, Any]] = {
    "get_weather": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "delete_path": {"path": {"type": "string"}, "recursive": {"type": "boolean"}},
    "write_file": {"path": {"type": "string"}, "content": {"type": "string"}},
    "bash": {"command": {"type": "string"}, "timeout": {"type": "integer"}},
    "edit": {"path": {"type": "string"}, "edits": {"type": "array", "items": {"type": "object"}}},
}
TOOLS = {
    name: {"type": "object", "properties": fields, "required": list(fields)}
    for name, fields in SCHEMAS.items()
}


class Weather(BaseModel):
    city: str
    days: int = 1


class Delete(BaseModel):
    path: str
    recursive: bool


class WriteFile(BaseModel):
    path: str
    content: str


class Bash(BaseModel):
    command: str
    timeout: int | None = None


class Edit(BaseModel):
    path: str
    edits: list[dict[str, str]]


class WeatherCall(BaseModel):
    name: Literal["get_weather"]
    arguments: Weather


class DeleteCall(BaseModel):
    name: Literal["delete_path"]
    arguments: Delete


class WriteCall(BaseModel):
    name: Literal["write_file"]
    arguments: WriteFile


class BashCall(BaseModel):
    name: Literal["bash"]
    arguments: Bash


class EditCall(BaseModel):
    name: Literal["edit"]
    arguments: Edit


CALLS = [WeatherCall, DeleteCall, WriteCall, BashCall, EditCall]
ANY_CALL = TypeAdapter(WeatherCall | DeleteCall | WriteCall | BashCall | EditCall)


def each_call(dialect):
    for (name, arguments), type_ in zip(ARGUMENTS.items(), CALLS, strict=True):
        yield name, arguments, type_, DIALECTS[dialect](name, arguments)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_call_is_read_into_its_type(dialect):
    for name, arguments, type_, text in each_call(dialect):
        result = parse(text, type_)
        assert isinstance(result, Parsed), (text, result)
        assert result.value.model_dump() == {"name": name, "arguments": arguments}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_call_is_read_out_of_a_reply(dialect):
    for name, arguments, _, text in each_call(dialect):
        turn = read_reply(text, TOOLS)
        assert isinstance(turn, Turn), (text, turn)
        (call,) = turn.calls
        assert (call.tool, call.parameters, call.error) == (name, arguments, "")


@pytest.mark.scenario("TEA-16", "PEER-10", "RCT-24")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_call_that_was_cut_off_is_never_run_with_half_its_arguments(dialect):
    for _, arguments, type_, text in each_call(dialect):
        for end in range(1, len(text), 2):
            typed = parse(text[:end], type_)
            if isinstance(typed, Parsed):
                whole = typed.value.model_dump()["arguments"] == arguments
                marked = any(repair.content for repair in typed.repairs)
                assert whole or (marked and dialect in OPEN_ENDED), text[:end]
            reply = read_reply(text[:end], TOOLS)
            for call in reply.calls if isinstance(reply, Turn) else ():
                marked = any(repair.content for repair in call.repairs)
                assert call.error or call.parameters == arguments or marked, text[:end]


@pytest.mark.parametrize("dialect", OPEN_ENDED)
def test_without_its_end_line_a_cut_text_is_refused_when_the_provider_says_so(dialect):
    for _, _, type_, text in each_call(dialect):
        cut = text[: text.index("OBSERVATION")].rstrip("* \n")
        assert isinstance(read_reply(cut, TOOLS, finish_reason="length"), Unparsed)
        finished = read_reply(cut, TOOLS, finish_reason="stop")
        assert isinstance(finished, Turn)
        assert not any(repair.content for repair in finished.calls[0].repairs)
        assert isinstance(parse(cut, type_), Parsed)


@pytest.mark.scenario("PEER-11")
@pytest.mark.parametrize(
    "dialect", [each for each in DIALECTS if each not in ("cline", "tool code")]
)
def test_a_call_that_is_only_described_is_no_call(dialect):
    text = DIALECTS[dialect]("delete_path", ARGUMENTS["delete_path"])
    quoted = f"A call would look like this:\n\n{text}\n\nShall I run it?"
    assert not isinstance(parse(quoted, DeleteCall), Parsed)
    reply = read_reply(quoted, TOOLS)
    assert not isinstance(reply, Turn) or any(repair.content for repair in reply.repairs)


TAGGED = ("hermes", "qwen coder", "glm", "anthropic", "mistral args", "kimi", "cline", "tool code")


@pytest.mark.parametrize("dialect", TAGGED)
def test_a_call_of_what_is_not_offered_is_told_to_the_model_never_an_answer(dialect):
    text = "Hm. " + DIALECTS[dialect]("format_disk", {"path": "/"})
    reply = read_reply(text, TOOLS)
    if isinstance(reply, Turn):
        assert [call.tool for call in reply.calls] == ["format_disk"]
    elif dialect != "cline":  # a tag like any other
        assert isinstance(reply, Unparsed)


def test_several_dialect_calls_are_one_batch():
    text = "".join(
        DIALECTS["hermes"]("get_weather", {"city": c, "days": 1}) for c in ("Rome", "Bonn")
    )
    turn = read_reply("I look it up.\n" + text, TOOLS)
    assert isinstance(turn, Turn)
    assert [call.parameters["city"] for call in turn.calls] == ["Rome", "Bonn"]
    assert turn.remark is not None
    assert turn.remark.content == "I look it up."


def test_a_union_of_calls_takes_the_one_that_was_named():
    text = DIALECTS["glm"]("bash", {"command": "ls"})
    result = parse(text, WeatherCall | DeleteCall | WriteCall | BashCall | EditCall)
    assert isinstance(result, Parsed)
    assert isinstance(result.value, BashCall)


THOUGHT = (
    ("<think>", "</think>"), ("<reasoning>", "</reasoning>"), ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"), ("◁think▷", "◁/think▷"), ("<|channel>thought\n", "<channel|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"), ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("<|content_thinking|>", "<|end_message|>"), ("", "</think>"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
)  # fmt: skip


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("opener", "closer"), THOUGHT)
def test_a_call_that_was_only_thought_is_none_in_any_dialect(opener, closer, dialect):
    """Mutant: a row of the table without its marks of reasoning."""
    if "analysis" in opener and dialect.startswith("harmony"):
        pytest.skip("the head of another message ends a thought of harmony")
    thought = DIALECTS[dialect]("bash", ARGUMENTS["bash"])
    text = f"{opener}I could {thought} but no.{closer}It is done."
    reply = read_reply(text, TOOLS, finish_reason="stop")
    if isinstance(reply, Unparsed):  # a block without an end mark may reach past a lone closer
        assert opener == "" or "analysis" in opener
    else:
        assert reply == Prose("It is done.")


@pytest.mark.parametrize("suffix", ["opensource", "a+b(c", "6124c78e", "x.y-z"])
def test_the_suffix_of_a_familys_tags_is_any_text_without_blanks(suffix):
    tags = ("tool_calls", "tool_call", "arg_key", "arg_value")
    text = (
        "<tool_calls><tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value>"
        "</tool_call></tool_calls>"
    )
    for tag in tags:
        text = text.replace(f"{tag}>", f"{tag}:{suffix}>")
    turn = read_reply(text, {"get_weather": {"properties": {"city": {"type": "string"}}}})
    assert [(call.tool, call.parameters) for call in turn.calls] == [
        ("get_weather", {"city": "Paris"})
    ]

"""The Ollama adapter, against answers written from the documented format."""

import json
from typing import Any, Literal

import msgspec
import pytest
from pydantic import BaseModel

from taofold.core.content import Conversation
from taofold.core.errors import ModelError
from taofold.core.values import ModelSettings, ToolCall, Usage
from taofold.runtime.model import Request, ToolSpec
from taofold.runtime.providers import resolve
from tests.models.conftest import Connect
from tests.models.providers.ollama import property_checked

pytestmark = pytest.mark.anyio

LAST = {"done": True, "done_reason": "stop", "prompt_eval_count": 26, "eval_count": 9}


def said(**message: Any) -> dict[str, Any]:
    return {"json": {"model": "m", "message": {"role": "assistant", **message}, **LAST}}


def lines(*messages: dict[str, Any]) -> str:
    entries = [{"message": message, "done": False} for message in messages]
    return "\n".join(msgspec.json.encode(entry).decode() for entry in entries) + "\n"


async def test_a_reply_sets_the_window_and_costs_nothing(connect: Connect, hello: Request) -> None:
    model, cassette = connect("ollama:llama3.1:8b", said(content="Hi"), api_key=None)
    request = msgspec.structs.replace(
        hello,
        settings=ModelSettings(max_tokens=5, temperature=0.0),
        stop=("END",),
        schema={"type": "object"},
    )
    reply = await model.complete(request)
    assert (reply.text, reply.usage, reply.finish) == ("Hi", Usage(26, 9), "stop")
    assert reply.model == "ollama:llama3.1:8b"
    sent = cassette.requests[0]
    assert sent["model"] == "llama3.1:8b"
    assert sent["stream"] is False
    assert sent["format"] == {"type": "object"}
    assert sent["options"] == {
        "num_ctx": 100_000, "num_predict": 5, "temperature": 0.0, "stop": ["END"],
    }  # fmt: skip
    assert model.price(1000, 1000) == 0.0


async def test_a_stream_of_lines_with_thinking_and_a_call(
    connect: Connect, hello: Request, add: ToolSpec
) -> None:
    call = {"function": {"name": "add", "arguments": {"a": 1, "b": 2}}}
    body = lines({"thinking": "Hm"}, {"content": "I "}, {"content": "add", "tool_calls": [call]})
    body += msgspec.json.encode({"message": {"content": ""}, **LAST}).decode()
    model, _ = connect("ollama:m", {"body": body})
    heard: list[str] = []
    reply = await model.complete(msgspec.structs.replace(hello, tools=(add,)), heard.append)
    assert heard == ["I ", "add"]
    assert (reply.text, reply.reasoning, reply.finish) == ("I add", "Hm", "tool_calls")
    assert reply.calls == (ToolCall("add", '{"a":1,"b":2}', "call_2_0"),)


async def test_results_name_their_tool(connect: Connect, after_tools: Conversation) -> None:
    model, cassette = connect("ollama:m", said(content="ok"))
    await model.complete(Request(after_tools))
    assistant, first, second = cassette.requests[0]["messages"][2:]
    assert assistant["tool_calls"][0]["function"]["arguments"] == {"a": 1, "b": 2}
    assert [first["tool_name"], second["tool_name"]] == ["add", "fs__read"]
    ids = [call["id"] for call in assistant["tool_calls"]]
    assert [first["tool_call_id"], second["tool_call_id"]] == ids == ["c1", "c2"]


async def test_a_model_that_is_not_pulled_is_a_clear_error(
    connect: Connect, hello: Request
) -> None:
    no = {"status": 404, "json": {"error": "model 'm' not found, try pulling it first"}}
    model, _ = connect("ollama:m", no)
    with pytest.raises(ModelError, match="try pulling it") as caught:
        await model.complete(hello)
    assert caught.value.kind == "request"


async def test_a_stream_without_its_last_line_is_asked_again(
    connect: Connect, hello: Request
) -> None:
    body = lines({"content": "half"})
    whole = body + msgspec.json.encode({"message": {"content": ""}, **LAST}).decode()
    model, _ = connect("ollama:m", {"body": body}, {"body": whole})
    assert (await model.complete(hello, lambda text: None)).text == "half"


def test_an_unknown_model_gets_a_window_that_is_really_set() -> None:
    profile = resolve("ollama:mystery").profile
    assert (profile.window, profile.window_known, profile.native_tools) == (8192, True, False)


def test_the_host_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "10.0.0.5:11434")
    assert "http://10.0.0.5:11434/api/chat" in repr(vars(resolve("ollama:m")))


async def test_what_does_not_fit_is_an_error_and_not_forgotten(
    connect: Connect, hello: Request
) -> None:
    no = {"status": 400, "json": {"error": "the prompt is longer than the context length"}}
    model, cassette = connect("ollama:m", no)
    with pytest.raises(ModelError) as caught:
        await model.complete(hello)
    assert caught.value.kind == "overflow"
    assert [cassette.requests[0][name] for name in ("truncate", "shift")] == [False, False]


async def test_a_model_that_cannot_think_is_asked_without_and_that_is_said_once(
    connect: Connect, hello: Request
) -> None:
    no = {"status": 400, "json": {"error": '"m" does not support thinking'}}
    model, cassette = connect("ollama:m", no, said(content="a"), said(content="b"), effort="high")
    replies = [await model.complete(hello), await model.complete(hello)]
    assert [one.get("think") for one in cassette.requests] == [True, None, None]
    assert ["effort 'high'" in " ".join(reply.notes) for reply in replies] == [True, False]


class Point(BaseModel):
    x: int
    up: "Point | None" = None


class Drawing(BaseModel):
    start: Point
    kind: Literal["line"]
    rest: list[Point]


async def test_the_shapes_of_nested_parameters_reach_the_model(
    connect: Connect, hello: Request
) -> None:
    """The server keeps no references: a model would see an object without a property."""
    spec = ToolSpec("draw", "Draw.", {**Drawing.model_json_schema(), "required": ["start"]})
    anything = ToolSpec("any", "", {"type": "object", "properties": {"x": True}})
    model, cassette = connect("ollama:m", said(content="ok"))
    await model.complete(msgspec.structs.replace(hello, tools=(spec, anything)))
    sent, other = [tool["function"]["parameters"] for tool in cassette.requests[0]["tools"]]
    properties = sent["properties"]
    assert properties["start"]["properties"]["x"] == {"title": "X", "type": "integer"}
    assert properties["rest"]["items"]["properties"]["x"]["type"] == "integer"
    assert properties["kind"]["enum"] == ["line"]
    assert "$ref" not in json.dumps(sent)
    assert other["properties"] == {"x": {}}
    property_checked("start", properties["start"])

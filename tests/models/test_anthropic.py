"""The Messages adapter, against answers written from the documented format."""

from typing import Any

import msgspec
import pytest

from taofold.core.content import Conversation, result_message
from taofold.core.errors import ModelError
from taofold.core.values import Message, Profile, ToolCall, Usage
from taofold.runtime.model import Request, ToolSpec
from tests.models.conftest import Connect

pytestmark = pytest.mark.anyio


def said(*blocks: dict[str, Any], stop: str = "end_turn", **usage: int) -> dict[str, Any]:
    counts = usage or {"input_tokens": 1, "output_tokens": 1}
    return {"json": {"type": "message", "content": blocks, "stop_reason": stop, "usage": counts}}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def refused(status: int, kind: str, message: str) -> dict[str, Any]:
    error = {"type": "error", "error": {"type": kind, "message": message}}
    return {"status": status, "json": error}


def event(kind: str, **fields: Any) -> str:
    data = msgspec.json.encode({"type": kind, **fields}).decode()
    return f"event: {kind}\ndata: {data}"


def stream(*deltas: tuple[int, dict[str, Any], list[dict[str, Any]]]) -> list[str]:
    start = {"content": [], "usage": {"input_tokens": 10, "cache_read_input_tokens": 30}}
    events = [event("message_start", message=start), event("ping")]
    for index, block, parts in deltas:
        events.append(event("content_block_start", index=index, content_block=block))
        events += [event("content_block_delta", index=index, delta=part) for part in parts]
        events.append(event("content_block_stop", index=index))
    return events


END = [
    event("message_delta", delta={"stop_reason": "tool_use"}, usage={"output_tokens": 7}),
    event("message_stop"),
]


async def test_a_reply_counts_cached_input_and_its_cost(connect: Connect, hello: Request) -> None:
    usage = {
        "input_tokens": 100, "output_tokens": 10,
        "cache_read_input_tokens": 1000, "cache_creation_input_tokens": 200,
    }  # fmt: skip
    model, cassette = connect("anthropic:claude-sonnet-4-5", said(text("Hi"), **usage))
    reply = await model.complete(hello)
    usd = (300 * 3 + 1000 * 0.3 + 10 * 15 + 200 * 3 * 0.25) / 1e6
    assert reply.usage == Usage(1300, 10, 1000, pytest.approx(usd), 200)
    assert (reply.text, reply.finish) == ("Hi", "stop")
    sent, headers = cassette.requests[0], cassette.headers[0]
    assert sent["system"][0]["text"] == "Be brief."
    assert [entry["role"] for entry in sent["messages"]] == ["user"]
    assert sent["max_tokens"] > 0
    assert headers["x-api-key"] == "sk-secret-key"
    assert headers["anthropic-version"] == "2023-06-01"


async def test_the_system_and_the_whole_are_marked_for_the_cache(
    connect: Connect, after_tools: Conversation
) -> None:
    model, cassette = connect("anthropic:claude-x", said(text("ok")))
    await model.complete(Request(after_tools))
    sent = cassette.requests[0]
    mark = {"type": "ephemeral"}
    assert sent["system"][-1]["cache_control"] == mark
    assert sent["cache_control"] == mark
    assert str(sent).count("cache_control") == 2


async def test_elsewhere_the_last_block_is_marked_for_the_cache(
    connect: Connect, after_tools: Conversation
) -> None:
    model, cassette = connect("anthropic:kimi-k3", said(text("ok")), prompt_cache="1h")
    await model.complete(Request(after_tools))
    sent = cassette.requests[0]
    mark = {"type": "ephemeral", "ttl": "1h"}
    assert sent["system"][-1]["cache_control"] == mark
    assert sent["messages"][-1]["content"][-1]["cache_control"] == mark
    assert str(sent).count("cache_control") == 2


async def test_nothing_is_marked_where_nothing_shall_be_cached(
    connect: Connect, after_tools: Conversation
) -> None:
    model, cassette = connect("anthropic:claude-x", said(text("ok")), prompt_cache="off")
    await model.complete(Request(after_tools))
    assert "cache_control" not in str(cassette.requests[0])


async def test_results_of_a_batch_become_one_message(
    connect: Connect, after_tools: Conversation, add: ToolSpec
) -> None:
    model, cassette = connect("anthropic:claude-x", said(text("ok")))
    await model.complete(Request(after_tools, tools=(add,)))
    user, assistant, results = cassette.requests[0]["messages"]
    assert user["content"] == [text("Go")]
    assert [block["name"] for block in assistant["content"]] == ["add", "fs__read"]
    assert assistant["content"][0]["input"] == {"a": 1, "b": 2}
    assert [block["tool_use_id"] for block in results["content"]] == ["c1", "c2"]


async def test_roles_alternate_whatever_the_history(connect: Connect) -> None:
    conversation = Conversation(
        [
            Message("assistant", "I begin"),
            Message("assistant", (ToolCall("add", "{}", "c1"), ToolCall("add", "{", "c2"))),
            result_message("c2", ""),
            Message("user", "stop"),
            Message("system", "late advice"),
            result_message("c9", "orphan"),
            Message("assistant", " "),
            Message("assistant", (ToolCall("add", "{}", "c3"),)),
            Message("assistant", "and"),
        ]
    )
    model, cassette = connect("anthropic:claude-x", said(text("ok")))
    await model.complete(Request(conversation))
    sent = cassette.requests[0]["messages"]
    roles = [entry["role"] for entry in sent]
    assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
    kinds = [[block.get("tool_use_id", block["type"]) for block in e["content"]] for e in sent]
    assert kinds == [
        ["text"], ["text", "tool_use", "tool_use"], ["c2", "c1", "text", "text", "text"],
        ["text", "tool_use"], ["c3"], ["text"], ["text"],
    ]  # fmt: skip
    assert all(block.get("text", "x").strip() for entry in sent for block in entry["content"])


async def test_a_prefix_keeps_its_bytes_as_the_conversation_grows(connect: Connect) -> None:
    """Every history is a prefix of the next request's."""
    conversation = Conversation([Message("system", "s"), Message("user", "a")])
    model, cassette = connect("anthropic:claude-x", *[said(text("ok"))] * 3)
    for _ in range(3):
        await model.complete(Request(conversation))
        conversation.append(Message("assistant", "b"))
        conversation.append(Message("user", "c"))
    for mine, next_ in zip(cassette.requests, cassette.requests[1:], strict=False):
        assert next_["messages"][: len(mine["messages"])] == mine["messages"]
        assert {**next_, "messages": []} == {**mine, "messages": []}


async def test_a_turn_without_tools_still_declares_those_in_the_history(
    connect: Connect, after_tools: Conversation
) -> None:
    model, cassette = connect("anthropic:claude-x", said(text("ok")))
    await model.complete(Request(after_tools))
    sent = cassette.requests[0]
    assert [tool["name"] for tool in sent["tools"]] == ["add", "fs__read"]
    assert sent["tool_choice"] == {"type": "none"}


async def test_a_text_model_gets_text_only(connect: Connect, after_tools: Conversation) -> None:
    model, cassette = connect("anthropic:claude-x", said(text("ok")), profile=Profile())
    await model.complete(Request(after_tools))
    sent = cassette.requests[0]
    assert "tools" not in sent
    kinds = {block["type"] for entry in sent["messages"] for block in entry["content"]}
    assert kinds == {"text"}


async def test_a_stream_of_thinking_text_and_a_call(
    connect: Connect, hello: Request, add: ToolSpec
) -> None:
    events = stream(
        (0, {"type": "thinking", "thinking": ""}, [{"type": "thinking_delta", "thinking": "Hm"},
                                                   {"type": "signature_delta", "signature": "x"}]),
        (1, text(""), [{"type": "text_delta", "text": "I "},
                       {"type": "text_delta", "text": "add"}]),
        (2, {"type": "tool_use", "id": "t1", "name": "add", "input": {}},
         [{"type": "input_json_delta", "partial_json": '{"a":'},
          {"type": "input_json_delta", "partial_json": " 1}"}]),
    )  # fmt: skip
    model, _ = connect("anthropic:claude-x", {"sse": events + END})
    heard: list[str] = []
    reply = await model.complete(msgspec.structs.replace(hello, tools=(add,)), heard.append)
    assert heard == ["I ", "add"]
    assert (reply.text, reply.reasoning, reply.finish) == ("I add", "Hm", "tool_calls")
    assert reply.calls == (ToolCall("add", '{"a": 1}', "t1"),)
    assert reply.usage == Usage(40, 7, 30, None)


async def test_a_call_without_arguments_has_an_empty_object(
    connect: Connect, hello: Request
) -> None:
    block = {"type": "tool_use", "id": "t1", "name": "now", "input": {}}
    model, _ = connect("anthropic:claude-x", said(block, stop="tool_use"))
    assert (await model.complete(hello)).calls == (ToolCall("now", "{}", "t1"),)


async def test_a_broken_stream_is_asked_again(connect: Connect, hello: Request) -> None:
    events = stream((0, text(""), [{"type": "text_delta", "text": "half"}]))
    model, _ = connect("anthropic:claude-x", {"sse": events}, {"sse": events + END})
    assert (await model.complete(hello, lambda delta: None)).text == "half"


async def test_an_overloaded_stream_is_asked_again(connect: Connect, hello: Request) -> None:
    busy = event("error", error={"type": "overloaded_error", "message": "Overloaded"})
    model, _ = connect("anthropic:claude-x", {"sse": [busy]}, said(text("ok")))
    assert (await model.complete(hello, lambda delta: None)).text == "ok"


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        (refused(401, "authentication_error", "invalid x-api-key"), "auth"),
        (refused(400, "invalid_request_error", "prompt is too long: 210000 tokens"), "overflow"),
        (refused(400, "invalid_request_error", "messages: wrong"), "request"),
        (refused(400, "invalid_request_error", "Your credit balance is too low"), "auth"),
        (refused(413, "request_too_large", "too large"), "overflow"),
    ],
)
async def test_refusals_are_sorted(
    connect: Connect, hello: Request, response: dict[str, Any], kind: str
) -> None:
    model, _ = connect("anthropic:claude-x", response)
    with pytest.raises(ModelError) as caught:
        await model.complete(hello)
    assert caught.value.kind == kind


async def test_a_schema_that_is_refused_is_not_sent_again(connect: Connect, hello: Request) -> None:
    no = refused(400, "invalid_request_error", "output_config: not supported")
    model, cassette = connect("anthropic:claude-x", no, said(text("{}")), said(text("{}")))
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "additionalProperties": False,
    }
    request = msgspec.structs.replace(hello, schema=schema)
    await model.complete(request)
    await model.complete(request)
    assert ["output_config" in sent for sent in cassette.requests] == [True, False, False]


@pytest.mark.parametrize(
    "response", [{"body": "nonsense"}, {"body": ""}, {"json": {"type": "message"}}]
)
async def test_garbage_is_a_reply_error(
    connect: Connect, hello: Request, response: dict[str, Any]
) -> None:
    model, _ = connect("anthropic:claude-x", response, response, response)
    with pytest.raises(ModelError) as caught:
        await model.complete(hello)
    assert caught.value.kind == "reply"


async def test_a_conversation_of_system_messages_only_is_refused(connect: Connect) -> None:
    model, _ = connect("anthropic:claude-x")
    with pytest.raises(ModelError, match="needs a message"):
        await model.complete(Request(Conversation([Message("system", "s")])))

"""The chat-completions adapter, against answers written from the documented format."""

import json
from typing import Any

import msgspec
import pytest

from taofold.core.content import Conversation, result_message
from taofold.core.errors import ModelError
from taofold.core.values import Message, ModelSettings, Profile, ToolCall, Usage
from taofold.models.chat_completions import is_strict
from taofold.runtime.model import Request, ToolSpec
from taofold.testing import Cassette
from tests.models.conftest import FULL, Connect

pytestmark = pytest.mark.anyio


def said(text: str, **more: Any) -> dict[str, Any]:
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "finish_reason": "stop",
    }
    return {"json": {"id": "1", "object": "chat.completion", "choices": [choice], **more}}


def refused(status: int, message: str, **more: Any) -> dict[str, Any]:
    headers = more.pop("headers", {})
    return {"status": status, "headers": headers, "json": {"error": {"message": message, **more}}}


def delta(content: str | None = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "choices": [{"index": 0, "delta": {"content": content, **more}, "finish_reason": finish}]
    }


async def test_a_reply_with_usage_and_cost(connect: Connect, hello: Request) -> None:
    usage = {
        "prompt_tokens": 1000, "completion_tokens": 100,
        "prompt_tokens_details": {"cached_tokens": 400},
    }  # fmt: skip
    model, cassette = connect("openai-chat:gpt-4o", said("Hi", usage=usage))
    reply = await model.complete(hello)
    usd = (600 * 2.5 + 400 * 1.25 + 100 * 10) / 1e6
    assert reply.usage == Usage(1000, 100, 400, pytest.approx(usd))
    assert (reply.text, reply.finish, reply.model) == ("Hi", "stop", "openai-chat:gpt-4o")
    assert cassette.requests[0] == {
        "model": "gpt-4o",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hello"},
        ],
    }
    assert cassette.headers[0]["Authorization"] == "Bearer sk-secret-key"


async def test_a_router_says_what_was_written_to_the_cache_and_what_it_charges(
    connect: Connect, hello: Request
) -> None:
    usage = {
        "prompt_tokens": 1000, "completion_tokens": 100, "cost": 0.5,
        "prompt_tokens_details": {"cached_tokens": 400, "cache_write_tokens": 300},
    }  # fmt: skip
    model, cassette = connect("openrouter:anthropic/claude-opus-5.5", said("Hi", usage=usage))
    reply = await model.complete(hello)
    assert reply.usage == Usage(1000, 100, 400, 0.5, 300)
    assert cassette.requests[0]["cache_control"] == {"type": "ephemeral"}


@pytest.mark.cassette("openai_stream.json")
async def test_a_stream_is_heard_as_it_comes_and_equals_the_reply(
    cassette: Cassette, hello: Request
) -> None:
    from taofold.runtime.providers import resolve

    heard: list[str] = []
    reply = await resolve("openai-chat:gpt-4o").complete(hello, heard.append)
    assert heard == ["Grüß", " dich", " 🙂"]
    assert reply.text == "Grüß dich 🙂"
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (12, 3)
    assert reply.reasoning == "They greet."


@pytest.mark.cassette("openai_tools_stream.json")
async def test_tool_call_deltas_are_assembled(
    cassette: Cassette, hello: Request, add: ToolSpec
) -> None:
    from taofold.runtime.providers import resolve

    model = resolve("openai-chat:gpt-4o")
    reply = await model.complete(msgspec.structs.replace(hello, tools=(add,)), lambda text: None)
    assert reply.calls == (
        ToolCall("add", '{"a": 2, "b": 3}', "call_a"),
        ToolCall("add", '{"a": 4, "b": 5}', "call_b"),
    )
    assert reply.finish == "tool_calls"


@pytest.mark.parametrize(
    ("reason", "arguments", "finish"),
    [
        ("tool_calls", "{}", "tool_calls"),
        ("stop", "", "stop"),
        ("length", "", "length"),
        (None, "", ""),
    ],
)
async def test_no_arguments_are_an_empty_object_only_where_the_calls_are_whole(
    connect: Connect, hello: Request, reason: str | None, arguments: str, finish: str
) -> None:
    """Truncated or lost arguments must not look like a call without arguments."""
    call = {"id": "c1", "type": "function", "function": {"name": "now", "arguments": ""}}
    answer = said("", usage=None)
    answer["json"]["choices"][0] = {
        "index": 0, "finish_reason": reason, "message": {"content": None, "tool_calls": [call]},
    }  # fmt: skip
    model, _ = connect("openai-chat:gpt-4o", answer)
    reply = await model.complete(hello)
    assert (reply.calls, reply.finish) == ((ToolCall("now", arguments, "c1"),), finish)


async def test_tools_are_offered_and_calls_come_back_under_their_own_names(
    connect: Connect, hello: Request
) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "fs__read", "arguments": "{}"}}
    answer = said("", usage=None)
    answer["json"]["choices"][0]["message"] = {"content": None, "tool_calls": [call]}
    model, cassette = connect("openai-chat:gpt-4o", answer)
    tool = ToolSpec("fs.read", "Read.", {"type": "object", "properties": {}})
    reply = await model.complete(msgspec.structs.replace(hello, tools=(tool,)))
    assert reply.calls == (ToolCall("fs.read", "{}", "c1"),)
    assert cassette.requests[0]["tools"][0]["function"]["name"] == "fs__read"


async def test_calls_without_ids_or_with_object_arguments_are_read(
    connect: Connect, hello: Request
) -> None:
    answer = said("")
    function = {"name": "add", "arguments": {"a": 1}}
    answer["json"]["choices"][0]["message"] = {"tool_calls": [{"function": function}] * 2}
    model, _ = connect("openai-chat:gpt-4o", answer)
    first, second = (await model.complete(hello)).calls
    assert first.arguments == '{"a":1}'
    assert first.id
    assert second.id not in ("", first.id)


async def test_a_batch_and_its_results_are_sent_back(
    connect: Connect, after_tools: Conversation
) -> None:
    model, cassette = connect("openai-chat:gpt-4o", said("done"))
    await model.complete(Request(after_tools))
    assistant, first, second = cassette.requests[0]["messages"][2:]
    assert [call["function"]["name"] for call in assistant["tool_calls"]] == ["add", "fs__read"]
    assert assistant["content"] is None
    assert first == {"role": "tool", "tool_call_id": "c1", "content": "3"}
    assert second["tool_call_id"] == "c2"


async def test_an_invalid_history_is_made_valid(connect: Connect) -> None:
    """Results that are missing are filled in, results without a call become the user's words."""
    conversation = Conversation(
        [
            result_message("gone", "orphan"),
            Message("assistant", (ToolCall("add", "{broken", "c1"), ToolCall("add", "{}", "c2"))),
            result_message("c2", "3"),
            Message("user", "and?"),
            Message("assistant", (ToolCall("add", "{}", "c3"),)),
        ]
    )
    model, cassette = connect("openai-chat:gpt-4o", said("ok"))
    await model.complete(Request(conversation))
    sent = cassette.requests[0]["messages"]
    assert [(entry["role"], entry.get("tool_call_id")) for entry in sent] == [
        ("user", None), ("assistant", None), ("tool", "c2"), ("tool", "c1"), ("user", None),
        ("assistant", None), ("tool", "c3"),
    ]  # fmt: skip
    assert (
        "{broken"
        in msgspec.json.decode(sent[1]["tool_calls"][0]["function"]["arguments"])["unreadable"]
    )


async def test_a_text_model_never_sees_tool_roles(
    connect: Connect, after_tools: Conversation, add: ToolSpec
) -> None:
    model, cassette = connect("openai-chat:x", said("ok"), profile=Profile())
    await model.complete(Request(after_tools, tools=(add,), schema={"type": "object"}))
    sent = cassette.requests[0]
    assert {entry["role"] for entry in sent["messages"]} <= {"system", "user", "assistant"}
    assert "tools" not in sent
    assert "response_format" not in sent
    assert '"tool":"add"' in sent["messages"][2]["content"]


async def test_a_prefix_keeps_its_bytes_and_is_encoded_once(
    connect: Connect, hello: Request
) -> None:
    model, cassette = connect("openai-chat:gpt-4o", said("a"), said("b"))
    await model.complete(hello)
    hello.conversation.append(Message("assistant", "a"))
    hello.conversation.append(Message("user", "more"))
    await model.complete(hello)
    first, second = (request["messages"] for request in cassette.requests)
    assert second[: len(first)] == first
    assert len(hello.conversation.fragments(model._form, lambda *_: b"never")) == 7  # type: ignore[attr-defined]


async def test_lone_surrogates_do_not_break_a_request(connect: Connect) -> None:
    model, cassette = connect("openai-chat:gpt-4o", said("ok"))
    await model.complete(Request(Conversation([Message("user", "bad \ud800 text")])))
    assert cassette.requests[0]["messages"][0]["content"] == "bad ? text"


@pytest.mark.scenario("RCT-22")
@pytest.mark.parametrize(
    ("response", "kind", "text"),
    [
        (refused(401, "Incorrect API key provided: sk-secret-key"), "auth", "check the key"),
        (refused(403, "no access"), "auth", "403"),
        (refused(404, "model not found"), "request", "check the model's name"),
        (refused(400, "bad field"), "request", "bad field"),
        (refused(302, "elsewhere"), "request", "redirects"),
        (
            refused(400, "maximum context length is 8192", code="context_length_exceeded"),
            "overflow",
            "longer than the model's context window",
        ),
        (refused(429, "You exceeded your quota", code="insufficient_quota"), "auth", "no credit"),
    ],
)
async def test_refusals_are_sorted_by_who_can_act_and_never_repeated(
    connect: Connect, hello: Request, response: dict[str, Any], kind: str, text: str
) -> None:
    model, cassette = connect("openai-chat:gpt-4o", response)
    with pytest.raises(ModelError, match=text) as caught:
        await model.complete(hello)
    assert caught.value.kind == kind
    assert caught.value.status == response["status"]
    assert "sk-secret-key" not in str(caught.value)
    assert len(cassette.requests) == 1


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        (refused(500, "oops"), "server"),
        (refused(503, ""), "server"),
        ({"status": 502, "body": "<html>Bad Gateway</html>"}, "server"),
        ({"body": "<html>not json</html>"}, "reply"),
        ({"body": ""}, "reply"),
        ({"json": {"choices": []}}, "reply"),
        ({"json": {"error": {"message": "upstream died", "code": 502}}}, "server"),
        ({"json": {"choices": [{"message": 5}]}}, "reply"),
    ],
)
async def test_what_may_pass_is_tried_three_times(
    connect: Connect, hello: Request, response: dict[str, Any], kind: str
) -> None:
    model, cassette = connect("openai-chat:gpt-4o", response, response, said("at last"))
    assert (await model.complete(hello)).text == "at last"
    model, cassette = connect("openai-chat:gpt-4o", response, response, response)
    with pytest.raises(ModelError) as caught:
        await model.complete(hello)
    assert caught.value.kind == kind
    assert len(cassette.requests) == 3


async def test_a_stream_that_breaks_off_is_asked_again_and_nothing_is_said_twice(
    connect: Connect, hello: Request
) -> None:
    whole = [delta("one "), delta("two "), delta("three"), delta(finish="stop"), "[DONE]"]
    model, _ = connect("openai-chat:gpt-4o", {"sse": whole[:2]}, {"sse": whole})
    heard: list[str] = []
    reply = await model.complete(hello, heard.append)
    assert "".join(heard) == reply.text == "one two three"


async def test_a_listener_hears_nothing_more_once_a_new_attempt_differs(
    connect: Connect, hello: Request
) -> None:
    other = [delta("uno "), delta("dos"), delta(finish="stop"), "[DONE]"]
    model, _ = connect("openai-chat:gpt-4o", {"sse": [delta("one ")]}, {"sse": other})
    heard: list[str] = []
    assert (await model.complete(hello, heard.append)).text == "uno dos"
    assert heard == ["one "]


async def test_a_stream_always_cut_short_is_a_network_error(
    connect: Connect, hello: Request
) -> None:
    cut = {"sse": [delta("half"), delta(finish="stop"), "[DONE]"], "cut": 90}
    model, _ = connect("openai-chat:gpt-4o", cut, cut, cut)
    with pytest.raises(ModelError) as caught:
        await model.complete(hello, lambda text: None)
    assert caught.value.kind in ("network", "reply")


async def test_an_error_inside_a_stream_is_reported(connect: Connect, hello: Request) -> None:
    error = {"error": {"message": "context length exceeded", "type": "invalid_request_error"}}
    model, _ = connect("openai-chat:gpt-4o", {"sse": [delta("ha"), error]})
    with pytest.raises(ModelError, match="context length") as caught:
        await model.complete(hello, lambda text: None)
    assert caught.value.kind == "overflow"


async def test_a_server_that_does_not_stream_is_still_heard(
    connect: Connect, hello: Request
) -> None:
    model, _ = connect("openai-chat:gpt-4o", said("all at once"))
    heard: list[str] = []
    await model.complete(hello, heard.append)
    assert heard == ["all at once"]


SCHEMA = {
    "type": "object", "properties": {"x": {"type": "integer"}},
    "required": ["x"], "additionalProperties": False,
}  # fmt: skip


async def test_a_schema_is_asked_for_strictly_where_it_allows_that(
    connect: Connect, hello: Request
) -> None:
    model, cassette = connect("openai-chat:gpt-4o", said("{}"), said("{}"))
    await model.complete(msgspec.structs.replace(hello, schema=SCHEMA))
    await model.complete(msgspec.structs.replace(hello, schema={"type": "object"}))
    strict, loose = (request["response_format"] for request in cassette.requests)
    assert strict["json_schema"] == {"name": "output", "strict": True, "schema": SCHEMA}
    assert loose["json_schema"]["strict"] is False


@pytest.mark.parametrize(
    ("spec", "bounded"), [("vllm:qwen3", True), ("vllm:gpt-oss-20b", False), ("groq:x", False)]
)
async def test_only_a_server_with_its_own_grammar_is_sent_each_bound(
    connect: Connect, hello: Request, spec: str, bounded: bool
) -> None:
    schema = {**SCHEMA, "properties": {"x": {"type": "string", "maxLength": 8}}}
    model, cassette = connect(spec, said("{}"))
    await model.complete(msgspec.structs.replace(hello, schema=schema))
    sent = cassette.requests[0]["response_format"]["json_schema"]
    assert sent["strict"]
    assert ("maxLength" in sent["schema"]["properties"]["x"]) is bounded


def test_strictness_is_checked_at_every_depth() -> None:
    assert is_strict({"type": "array", "items": SCHEMA})
    assert not is_strict({"anyOf": [SCHEMA, {"type": "object", "properties": {}}]})
    assert not is_strict({**SCHEMA, "required": []})


async def test_a_refused_format_is_given_up_step_by_step_and_remembered(
    connect: Connect, hello: Request
) -> None:
    no = refused(400, "response_format is not supported")
    model, cassette = connect("openai-chat:x", no, no, said("{}"), said("{}"))
    request = msgspec.structs.replace(hello, schema=SCHEMA)
    await model.complete(request)
    await model.complete(request)
    kinds = [sent.get("response_format", {}).get("type") for sent in cassette.requests]
    assert kinds == ["json_schema", "json_object", None, None]
    assert cassette.requests[1]["response_format"]["schema"] == SCHEMA


async def test_a_refusal_with_another_cause_is_not_remembered(
    connect: Connect, hello: Request
) -> None:
    no = refused(400, "your messages are wrong")
    model, cassette = connect("openai-chat:x", no, no, no, said("{}"))
    request = msgspec.structs.replace(hello, schema=SCHEMA)
    with pytest.raises(ModelError, match="messages are wrong"):
        await model.complete(request)
    await model.complete(request)
    assert cassette.requests[3]["response_format"]["type"] == "json_schema"


async def test_an_overflow_is_not_mistaken_for_a_refused_format(
    connect: Connect, hello: Request
) -> None:
    model, _ = connect("openai-chat:x", refused(400, "prompt is too long"))
    with pytest.raises(ModelError) as caught:
        await model.complete(msgspec.structs.replace(hello, schema=SCHEMA))
    assert caught.value.kind == "overflow"


async def test_a_refused_parameter_is_left_out_from_then_on(
    connect: Connect, hello: Request
) -> None:
    heat = refused(
        400, "Unsupported value: 'temperature' does not support 0.2", param="temperature"
    )
    limit = refused(400, "Use 'max_tokens' instead of 'max_completion_tokens'")
    model, cassette = connect("openai-chat:o3", heat, limit, said("ok"), said("ok"))
    request = msgspec.structs.replace(hello, settings=ModelSettings(temperature=0.2, max_tokens=10))
    await model.complete(request)
    await model.complete(request)
    last = cassette.requests[-1]
    assert "temperature" not in last
    assert last["max_tokens"] == 10
    assert cassette.requests[0]["max_completion_tokens"] == 10


@pytest.mark.parametrize(
    ("reason", "finish"),
    [("stop", "stop"), ("length", "length"), ("content_filter", "content_filter"),
     ("function_call", "tool_calls"), ("eos", "stop"), (None, ""), ("odd", "")],
)  # fmt: skip
async def test_finish_reasons_are_normalised(
    connect: Connect, hello: Request, reason: str | None, finish: str
) -> None:
    answer = said("x")
    answer["json"]["choices"][0]["finish_reason"] = reason
    model, _ = connect("openai-chat:gpt-4o", answer)
    assert (await model.complete(hello)).finish == finish


async def test_reasoning_and_refusals_are_kept_apart(connect: Connect, hello: Request) -> None:
    thought, declined = said("answer"), said("")
    thought["json"]["choices"][0]["message"]["reasoning_content"] = "hidden"
    declined["json"]["choices"][0]["message"] = {"content": None, "refusal": "I cannot."}
    model, _ = connect("openai-chat:gpt-4o", thought, declined)
    first, second = await model.complete(hello), await model.complete(hello)
    assert (first.text, first.reasoning) == ("answer", "hidden")
    assert (second.text, second.finish) == ("I cannot.", "refusal")


async def test_two_tools_that_would_share_a_name_get_two_names(
    connect: Connect, hello: Request
) -> None:
    call = {"name": "a__b", "arguments": "{}"}
    message = {"tool_calls": [{"id": "c1", "function": call}]}
    answer = {"choices": [{"message": message, "finish_reason": "tool_calls"}]}
    model, cassette = connect("openai-chat:gpt-4o", {"json": answer})
    tools = (ToolSpec("a.b", "", {}), ToolSpec("a__b", "", {}))
    reply = await model.complete(msgspec.structs.replace(hello, tools=tools))
    first, second = [tool["function"]["name"] for tool in cassette.requests[0]["tools"]]
    assert first != second == "a__b"
    assert reply.calls[0].name == "a__b"


async def test_its_repr_shows_no_key(connect: Connect) -> None:
    model, _ = connect("openai-chat:gpt-4o")
    assert repr(model) == "ChatModel('openai-chat:gpt-4o')"
    assert model.profile == FULL


async def test_a_model_without_reasoning_is_asked_for_none_after_it_said_so(
    connect: Connect, hello: Request
) -> None:
    """An unknown model is treated as the newest one until its server refuses a setting."""
    refusals = [
        "Unsupported parameter: 'reasoning.summary' is not supported with this model.",
        "Encrypted content is not supported with this model.",
        "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
    ]
    answer = {
        "status": "completed",
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "hi"}]}],
    }
    answers = [refused(400, words) for words in refusals]
    model, cassette = connect("openai:next", *answers, {"json": answer}, effort="low")
    reply = await model.complete(hello)
    assert reply.text == "hi"
    assert "reasoning" not in cassette.requests[-1]
    assert "include" not in cassette.requests[-1]
    assert any("effort 'low' is not sent" in note for note in reply.notes)


async def test_a_stream_of_a_wrapped_answer_is_heard_without_its_wrapper(
    connect: Connect, hello: Request
) -> None:
    schema = {"type": "array", "items": {"type": "integer"}}
    pieces = ['{"ans', 'wer": [1', ", 2]", "}"]
    events = [
        {"choices": [{"delta": {"content": piece}, "finish_reason": None}]} for piece in pieces
    ]
    events.append({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    lines = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
    stream = {"body": lines, "headers": {"Content-Type": "text/event-stream"}}
    model, _ = connect("openai-chat:gpt-4o", stream)
    heard: list[str] = []
    reply = await model.complete(msgspec.structs.replace(hello, schema=schema), heard.append)
    assert ("".join(heard), reply.text) == ("[1, 2]", "[1,2]")

"""Answers with fields that the formats do not have: the answer is read, errors are quoted."""

import json
from typing import Any

import pytest

from taofold.core.content import Issuer
from taofold.core.errors import ModelError
from taofold.core.values import Reply
from taofold.models.anthropic import MessagesReader
from taofold.models.chat_completions import ChatReader
from taofold.models.endpoint import _read  # pyright: ignore[reportPrivateUsage]
from taofold.models.gemini import GeminiReader
from taofold.models.ollama import OllamaReader
from taofold.models.openai_responses import ResponsesReader
from taofold.models.prices import Price, TokenRates
from taofold.models.replies import ReplyContext

PRICE = Price(TokenRates(1.0, 0.5, 2.0, 1.0))
ODD: list[Any] = [6, 6.5, "x", True, [], [1], {}, {"a": 1}, None, [None], "-1", "1e3"]


ITEM = {"type": "message", "content": [{"type": "output_text", "text": "fine"}]}


def frame(names: dict[str, str] | None = None, **more: Any) -> ReplyContext:
    issuer = Issuer("chat", "host", "model")
    return ReplyContext("a:model", issuer, "http://provider", "", PRICE, names or {}, 0, **more)


def chat(delta: Any, finish: Any = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"delta": delta, "finish_reason": finish}], **more}


def streamed(make: Any, *events: Any, **more: Any) -> Reply:
    reader = make(frame(**more))
    for event in events:
        data = event if isinstance(event, bytes) else b"data: " + json.dumps(event).encode()
        reader.feed(data + b"\n\n")
    reply: Reply = reader.close()
    return reply


def whole(make: Any, answer: Any, **more: Any) -> Reply:
    reply: Reply = make(frame(**more)).whole(json.dumps(answer).encode())
    return reply


def answers(odd: Any) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Returns for each format an answer with the text "fine" and `odd` in optional fields."""
    return {
        "chat": (
            ChatReader,
            {
                "id": odd, "created": odd, "system_fingerprint": odd, "service_tier": odd,
                "choices": [{
                    "index": odd, "logprobs": odd, "finish_reason": "stop",
                    "message": {
                        "role": odd, "content": "fine", "tool_calls": None,
                        "reasoning_details": odd, "annotations": odd, "audio": odd,
                        "refusal": None,
                    },
                }],
                "usage": {
                    "prompt_tokens": odd, "completion_tokens": odd, "cost": odd,
                    "prompt_tokens_details": odd, "completion_tokens_details": odd,
                    "prompt_cache_hit_tokens": odd, "cost_details": odd,
                },
            },
        ),
        "messages": (
            MessagesReader,
            {
                "type": "message", "id": odd, "stop_reason": "end_turn", "stop_details": odd,
                "input_transformations": odd, "container": odd,
                "content": [{"type": "text", "text": "fine", "citations": odd}],
                "usage": {
                    "input_tokens": odd, "output_tokens": odd, "service_tier": odd,
                    "output_tokens_details": odd, "cache_creation": odd,
                },
            },
        ),
        "gemini": (
            GeminiReader,
            {
                "candidates": [{
                    "content": {"parts": [{"text": "fine"}], "role": odd},
                    "finishReason": "STOP", "finishMessage": None, "safetyRatings": odd,
                }],
                "promptFeedback": odd, "modelVersion": odd,
                "usageMetadata": {"promptTokenCount": odd, "thoughtsTokenCount": odd},
            },
        ),
        "responses": (
            ResponsesReader,
            {
                "status": "completed", "service_tier": odd, "incomplete_details": odd,
                "input_transformations": odd, "metadata": odd,
                "output": [ITEM],
                "usage": {"input_tokens": odd, "output_tokens_details": odd},
            },
        ),
        "ollama": (
            OllamaReader,
            {
                "message": {"content": "fine", "images": odd, "thinking": None},
                "done": True, "done_reason": "stop", "eval_count": odd, "total_duration": odd,
                "prompt_eval_count": odd,
            },
        ),
    }  # fmt: skip


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize("form", ["chat", "messages", "gemini", "responses", "ollama"])
def test_odd_fields_that_nobody_needs_cost_no_answer(form: str, odd: Any) -> None:
    make, answer = answers(odd)[form]
    assert whole(make, answer).text == "fine"


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_odd_fields_of_a_stream_cost_no_answer(odd: Any) -> None:
    usage = {"prompt_tokens": odd, "completion_tokens": odd, "cost": odd}
    reply = streamed(
        ChatReader,
        chat({"content": "fi", "role": odd}, service_tier=odd, usage=odd),
        chat({"content": "ne"}, "stop"),
        {"choices": [], "usage": usage},
        b"data: [DONE]",
    )
    assert reply.text == "fine"
    reply = streamed(
        MessagesReader,
        {"type": "message_start", "message": {"id": odd, "usage": {"input_tokens": odd}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": "fine"},
        },
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": odd},
    )
    assert reply.text == "fine"
    reply = streamed(
        GeminiReader,
        {"candidates": [{"content": {"parts": [{"text": "fine"}]}}], "usageMetadata": odd},
        {"candidates": [{"finishReason": "STOP", "index": odd}]},
    )
    assert reply.text == "fine"
    reply = streamed(
        ResponsesReader,
        {"type": "response.output_item.done", "output_index": 0, "item": ITEM, "code": odd},
        {"type": "response.completed", "response": {"status": "completed", "usage": odd}},
    )
    assert reply.text == "fine"


@pytest.mark.parametrize(
    ("pieces", "text"),
    [([6], "6"), (["a", 0, "b"], "a0b"), ([1.5, True], "1.5true"), ([{"text": "x"}, ["y"]], "xy")],
    ids=repr,
)
def test_pieces_of_a_text_that_the_server_parsed_are_spelt(pieces: list[Any], text: str) -> None:
    events = [chat({"content": piece}) for piece in pieces]
    assert streamed(ChatReader, *events, chat({}, "stop"), b"data: [DONE]").text == text
    blocks = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
        for piece in ("a", 0, 6)
    ]
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    assert streamed(MessagesReader, *blocks, end).text == "a06"


def test_counts_may_be_floats_or_texts() -> None:
    usage = {"prompt_tokens": 12.0, "completion_tokens": "3", "cost": "0.25"}
    message = {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}], "usage": usage}
    counted = whole(ChatReader, message).usage
    assert (counted.input_tokens, counted.output_tokens, counted.usd) == (12, 3, 0.25)


def test_json_that_python_writes_is_read() -> None:
    body = b'{"choices":[{"message":{"content":"fi\nne"},"logprobs":NaN,"finish_reason":"stop"}]}'
    assert ChatReader(frame()).whole(body).text == "fi\nne"


def test_a_call_beside_an_odd_entry_is_kept() -> None:
    call = {"id": 7, "index": "0", "function": {"name": "add", "arguments": {"a": 1}}}
    message = {"content": None, "tool_calls": [call, None], "refusal": False}
    answer = {"choices": [{"message": message, "finish_reason": "tool_calls"}]}
    (made,) = whole(ChatReader, answer).calls
    assert (made.name, made.id, json.loads(made.arguments)) == ("add", "7", {"a": 1})


@pytest.mark.parametrize(
    ("lines", "words", "kind"),
    [
        (
            b'data: {"object":"error","message":"CUDA out of memory","code":500}',
            "CUDA out",
            "server",
        ),
        (b'event: error\ndata: {"code":400,"details":"no such template"}', "no such", "request"),
        (b'event: error\ndata: {"details":[{"reason":"quota of tokens"}]}', "quota of", "server"),
        (b"event: error\ndata: upstream went away", "upstream went away", "server"),
        (b'error: {"code":503,"message":"loading model"}', "loading model", "server"),
        (b'data: {"error":"boom"}', "boom", "server"),
        (b'data: {"error":true,"message":"boom"}', "boom", "server"),
        (
            b'data: {"type":"error","error":{"type":"rate_limit_error","message":"slow"}}',
            "slow",
            "rate",
        ),
        (b'data: {"status":"error","msg":"boom"}', "boom", "server"),
        (b'data: {"success":false,"errors":[{"code":7009,"message":"boom"}]}', "boom", "server"),
        (b'data: {"statusCode":429,"message":"too many"}', "too many", "rate"),
        (b'data: {"detail":"wrong key","code":"401"}', "wrong key", "auth"),
        (b'data: {"error":{"code":"invalid_api_key","message":"no"}}', "no", "auth"),
        (b'data: {"detail":"the worker died"}', "the worker died", "server"),
        (b'data: {"detail":[{"loc":["body"],"msg":"bad field"}]}', "bad field", "server"),
        (b'data: {"message":"Rate limit reached"}', "Rate limit", "rate"),
        (b'data: {"success":false,"msg":"token limit exceeded"}', "token limit", "overflow"),
        (b'data: {"choices":[],"message":"no worker"}', "no worker", "server"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("make", [ChatReader, MessagesReader, GeminiReader, ResponsesReader])
def test_an_error_in_whatever_frame_is_quoted(
    make: Any, lines: bytes, words: str, kind: str
) -> None:
    with pytest.raises(ModelError, match=words) as caught:
        streamed(make, lines, b"data: [DONE]")
    assert caught.value.kind == kind
    mark, _, data = lines.rpartition(b": {")
    if mark == b"data":
        with pytest.raises(ModelError, match=words) as caught:
            make(frame()).whole(b"{" + data)
        assert caught.value.kind == kind


@pytest.mark.parametrize("words", [b'{"message":"loading"}', b'{"detail":"in the queue"}'])
def test_words_before_a_reply_are_no_error(words: bytes) -> None:
    assert streamed(ChatReader, b"data: " + words, STREAM).text == "fine"


@pytest.mark.parametrize("first", [0, 1, None])
def test_of_several_answers_in_a_stream_one_is_read(first: int | None) -> None:
    """Mutant: the first answer in an event is read."""
    pieces = [(first, "fi"), (2, "no"), (first, "ne"), (2, "ne")]
    events = [{"choices": [{"index": at, "delta": {"content": text}}]} for at, text in pieces]
    ends = [{"choices": [{"index": at, "delta": {}, "finish_reason": "stop"}]} for at in (2, first)]
    assert streamed(ChatReader, *events, *ends).text == "fine"


def test_a_number_of_very_many_digits_costs_no_answer() -> None:
    message = b'{"message":{"content":"fine"},"finish_reason":"stop"}'
    body = b'{"choices":[' + message + b'],"usage":{"prompt_tokens":1' + b"0" * 100_000 + b"}}"
    assert ChatReader(frame()).whole(body).text == "fine"


def test_a_gateway_may_end_a_stream_of_any_format_as_chat_completions_do() -> None:
    part = {"content": {"parts": [{"text": "fine"}]}, "finishReason": "STOP"}
    assert streamed(GeminiReader, {"candidates": [part]}, b"data: [DONE]").text == "fine"


def test_a_call_of_no_tool_beside_a_text_is_left_out() -> None:
    message = {"content": "done", "tool_calls": [{}, {"function": {"arguments": "{}"}}]}
    reply = whole(ChatReader, {"choices": [{"message": message, "finish_reason": "stop"}]})
    assert (reply.text, reply.calls) == ("done", ())


def test_a_call_of_no_tool_alone_is_kept_for_the_model_to_hear_of() -> None:
    message = {"tool_calls": [{"id": "1", "function": {"name": "", "arguments": "{}"}}]}
    reply = whole(ChatReader, {"choices": [{"message": message, "finish_reason": "tool_calls"}]})
    assert len(reply.calls) == 1


def test_an_answer_that_speaks_of_errors_is_no_error() -> None:
    text = '{"object":"error","message":"x"}'
    answer = {
        "choices": [{"message": {"content": text}, "finish_reason": "stop"}],
        "error": None, "errors": [], "code": 0,
    }  # fmt: skip
    assert whole(ChatReader, answer).text == text


STREAM = (
    b'data: {"choices":[{"delta":{"content":"fine"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"], ids=repr)
def test_lines_end_with_any_of_the_three_ends(end: bytes, size: int) -> None:
    body = b"\xef\xbb\xbf: hello\n\ndata:\n\ndata\n\n" + STREAM + b": keep-alive\n\n"
    body = body.replace(b"\n", end)
    reader = ChatReader(frame())
    for at in range(0, len(body), size):
        reader.feed(body[at : at + size])
    assert reader.close().text == "fine"


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"], ids=repr)
def test_lines_of_json_end_with_any_of_the_three_ends(end: bytes) -> None:
    first, last = b'{"message":{"content":"fi"}}', b'{"message":{"content":"ne"},"done":true}'
    reader = OllamaReader(frame())
    for byte in end.join([first, last, b""]):
        reader.feed(bytes([byte]))
    assert reader.close().text == "fine"


@pytest.mark.parametrize("body", [b'{"choices":[{"message":{"content":"fine"}}]}', STREAM])
def test_a_byte_order_mark_before_a_whole_answer_is_skipped(body: bytes) -> None:
    assert _read(ChatReader(frame()), b"\xef\xbb\xbf" + body, streaming=True).text == "fine"


def test_a_stream_may_say_message_where_others_say_delta() -> None:
    pieces = [{"choices": [{"message": {"content": text}}]} for text in ("fi", "ne")]
    end = {"choices": [{"message": None, "finish_reason": "stop"}]}
    assert streamed(ChatReader, *pieces, end, b"data: [DONE]").text == "fine"
    repeated = {"choices": [{"message": {"content": "fine"}, "finish_reason": "stop"}]}
    assert streamed(ChatReader, chat({"content": "fine"}), repeated).text == "fine"


@pytest.mark.parametrize("cut", range(1, len(STREAM) - 16, 9))
def test_a_stream_that_is_cut_is_no_reply(cut: int) -> None:
    with pytest.raises(ModelError):
        streamed(ChatReader, STREAM[: min(cut, STREAM.index(b"stop"))])


@pytest.mark.parametrize("count", [None, 0, -5, -(1 << 70), "n/a", {}])
@pytest.mark.parametrize("form", ["chat", "messages", "gemini", "responses", "ollama"])
def test_what_is_not_counted_is_estimated(form: str, count: Any) -> None:
    make, answer = answers(count)[form]
    usage = whole(make, answer, sent=1_000).usage
    assert usage.input_tokens == 1_000
    assert usage.output_tokens == 1
    assert usage.usd == pytest.approx(1_002 / 1e6)


def charged(*, bills: bool = False, has_own_price: bool = False, **usage: Any) -> float | None:
    """The cost of an answer whose tokens cost 1.000002 dollars by the table."""
    usage = {"prompt_tokens": 1_000_000, "completion_tokens": 1, **usage}
    answer = {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}], "usage": usage}
    reader = ChatReader(frame(has_own_price=has_own_price), bills=bills)
    return reader.whole(json.dumps(answer).encode()).usage.usd


def test_a_configured_price_wins_over_what_the_endpoint_charges() -> None:
    assert charged(cost=1e-12, has_own_price=True) == pytest.approx(1.000002)
    assert charged(cost=5.0, has_own_price=True, bills=True) == pytest.approx(1.000002)


def test_an_endpoint_cannot_make_a_call_cheaper_than_the_table() -> None:
    """Elsewhere than at OpenRouter the field's unit is not documented: credits, cents, a fee."""
    assert charged(cost=1e-12) == pytest.approx(1.000002)
    assert charged(cost=5.0) == 5.0
    assert charged(cost=0.5, bills=True) == 0.5


def test_with_a_key_of_ones_own_openrouters_cost_is_only_its_fee() -> None:
    """`cost_details.upstream_inference_cost` is what the vendor charges to that key."""
    paid = {"upstream_inference_cost": 2.0}
    assert charged(cost=0.1, cost_details=paid, is_byok=True, bills=True) == pytest.approx(2.1)
    assert charged(cost=0.0, cost_details=paid, is_byok=True, bills=True) == 2.0
    assert charged(cost=0.5, cost_details=paid, is_byok=False, bills=True) == 0.5
    assert charged(cost=0.1, is_byok=True, bills=True) == pytest.approx(1.000002)


def test_an_estimate_of_the_tokens_is_paid_for() -> None:
    """A server that counts the completion only leaves its small price behind."""
    answer = {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}],
              "usage": {"completion_tokens": 10}}  # fmt: skip
    usage = whole(ChatReader, answer, sent=1_000_000).usage
    assert usage.input_tokens == 1_000_000
    assert usage.usd == pytest.approx(1.00002)


def counted(make: Any, answer: Any) -> tuple[int, int, int, int]:
    usage = whole(make, answer).usage
    return usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.reasoning_tokens


def test_reasoning_that_the_output_leaves_out_is_in_the_total() -> None:
    """xAI: "reasoning token consumption will be counted separately from completion_tokens, but
    will be counted in the total_tokens" (consumption and rate limits). Gemini's compatible endpoint
    counts thoughts in the total only.
    """
    choices = [{"message": {"content": "x"}, "finish_reason": "stop"}]
    details = {"completion_tokens_details": {"reasoning_tokens": 317}}
    usage = {"prompt_tokens": 12, "completion_tokens": 2, "total_tokens": 331, **details}
    assert counted(ChatReader, {"choices": choices, "usage": usage}) == (12, 319, 0, 317)
    usage = {"prompt_tokens": 12, "completion_tokens": 2, "total_tokens": 14}
    assert counted(ChatReader, {"choices": choices, "usage": usage}) == (12, 2, 0, 0)
    usage = {"input_tokens": 12, "output_tokens": 2, "total_tokens": 331}
    answer = {"status": "completed", "output": [ITEM], "usage": usage}
    assert counted(ResponsesReader, answer)[:2] == (12, 319)
    usage = {"promptTokenCount": 12, "candidatesTokenCount": 2, "totalTokenCount": 331}
    answer = {"candidates": [{"content": {"parts": [{"text": "x"}]}, "finishReason": "STOP"}]}
    assert counted(GeminiReader, {**answer, "usageMetadata": usage})[:2] == (12, 319)


def test_input_that_leaves_out_what_was_cached_counts_with_it() -> None:
    """Proxies to Anthropic keep its `input_tokens`, which are without what came from the cache."""
    choices = [{"message": {"content": "x"}, "finish_reason": "stop"}]
    cached = {"prompt_tokens_details": {"cached_tokens": 100_000}}
    for total in (102, 100_102):
        usage = {"prompt_tokens": 100, "completion_tokens": 2, "total_tokens": total, **cached}
        assert counted(ChatReader, {"choices": choices, "usage": usage}) == (100_100, 2, 100_000, 0)


@pytest.mark.parametrize("form", ["chat", "messages", "gemini", "responses", "ollama"])
def test_a_count_that_no_text_can_have_is_estimated(form: str) -> None:
    make, answer = answers(1)[form]
    usage = whole(make, answer, sent=1_000, least=250).usage
    assert usage.input_tokens == 1_000
    make, answer = answers(250)[form]
    assert whole(make, answer, sent=1_000, least=250).usage.input_tokens == 250
    assert whole(make, answers(250)[form][1], sent=1_000).usage.output_tokens >= 1


def test_a_stream_whose_chunks_end_for_no_reason_is_read_to_its_last() -> None:
    """SGLang and Ollama send `finish_reason` "" until the end, and `tool_calls` null."""
    pieces = [chat({"content": each, "role": None, "tool_calls": None}, "") for each in "fine"]
    reply = streamed(ChatReader, *pieces, chat({}, "stop"), b"data: [DONE]")
    assert (reply.text, reply.finish) == ("fine", "stop")


def test_native_arguments_may_be_an_object() -> None:
    function = {"name": "add", "arguments": {"a": 1}}
    message = {"content": None, "tool_calls": [{"id": "c", "function": function}]}
    reply = whole(ChatReader, {"choices": [{"message": message, "finish_reason": "tool_calls"}]})
    assert [(call.name, json.loads(call.arguments)) for call in reply.calls] == [("add", {"a": 1})]


@pytest.mark.parametrize(
    "name",
    ["functions.add", "default_api.add", "tools.add", " add ", "functions.add:0",
     "add<|channel|>commentary", "functions.add<|constrain|>json"],
)  # fmt: skip
def test_what_a_servers_template_puts_around_a_name_is_left_out(name: str) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": "{}"}}
    answer = {"choices": [{"message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}
    names = {"add": "add", "files_read": "files.read"}
    assert whole(ChatReader, answer, names=names).calls[0].name == "add"
    # A tool of that very name wins, and one that is not on offer keeps the name as it came.
    assert whole(ChatReader, answer, names={name: "x", **names}).calls[0].name == "x"
    assert whole(ChatReader, answer, names={"sub": "sub"}).calls[0].name == name


@pytest.mark.parametrize(
    "message",
    [
        {"tool_calls": [{"id": "c1", "type": "function", "name": "add", "arguments": "{}"}]},
        {"function_call": {"name": "add", "arguments": "{}"}},
        {"function_call": {"name": "add", "arguments": {}}, "tool_calls": None},
    ],
)
def test_a_call_of_an_older_or_flatter_shape_is_read(message: dict[str, Any]) -> None:
    answer = {"choices": [{"message": message, "finish_reason": "function_call"}]}
    reply = whole(ChatReader, answer)
    assert [(call.name, call.arguments) for call in reply.calls] == [("add", "{}")]
    assert reply.finish == "tool_calls"


def test_a_streamed_call_of_the_older_shape_is_put_together() -> None:
    pieces = [{"name": "add", "arguments": ""}, {"arguments": '{"a":'}, {"arguments": " 1}"}]
    events = [chat({"function_call": each}) for each in pieces]
    reply = streamed(ChatReader, *events, chat({}, "function_call"), b"data: [DONE]")
    assert [(call.name, call.arguments) for call in reply.calls] == [("add", '{"a": 1}')]


def test_what_follows_the_end_of_a_stream_does_not_depend_on_how_it_is_cut() -> None:
    whole_stream = b"".join(
        [
            b"data: " + json.dumps(each).encode() + b"\n\n"
            for each in (chat({"content": "fine"}), chat({}, "stop"))
        ]
    )
    more = b"data: " + json.dumps(chat({"content": " and more"})).encode() + b"\n\n"
    reader = ChatReader(frame())
    assert reader.feed(whole_stream + b"data: [DONE]\n\n" + more) is True
    assert reader.close().text == "fine"

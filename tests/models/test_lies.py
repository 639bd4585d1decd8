"""Servers that lie, over real sockets: an agent gets its answer, or a clear error and a log."""

import asyncio
import gzip
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from taofold import Agent, Limits
from taofold.core import events as e
from taofold.core.content import Conversation, Message
from taofold.core.errors import ModelError
from taofold.models.endpoint import RetryPolicy
from taofold.models.limiter import Limiter
from taofold.models.replies import join_surrogates
from taofold.models.transport import aclose_all
from taofold.network import retry_after
from taofold.runtime.model import Request
from taofold.runtime.providers import resolve
from tests.deadlines import LoopClock
from tests.models.forms import add
from tests.ports import PATIENCE

pytestmark = [pytest.mark.anyio, pytest.mark.allow_model_requests]

KEY = "sk-of-a-server-that-lies"
Write = Callable[[asyncio.StreamWriter], Awaitable[None]]


def event(value: Any) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def item(text: str) -> bytes:
    """A finished item of a Responses stream, without its number."""
    content = [{"type": "output_text", "text": text}]
    return event(
        {"type": "response.output_item.done", "item": {"type": "message", "content": content}}
    )


def chat(delta: dict[str, Any], finish: str | None = None) -> bytes:
    return event({"choices": [{"delta": delta, "finish_reason": finish}]})


def block(index: int, text: str) -> bytes:
    """A content block of a Messages stream."""
    begun = {"type": "text", "text": text}
    return event({"type": "content_block_start", "index": index, "content_block": begun})


DONE = b"data: [DONE]\n\n"
COMPLETED = event({"type": "response.completed", "response": {"status": "completed"}})
STOPPED = event({"type": "message_delta", "delta": {"stop_reason": "end_turn"}})
MODELS = {
    "responses": ("openai:gpt-6.1-sol", item("fine") + COMPLETED),
    "messages": (
        "anthropic:claude-opus-5-5",
        block(0, "fine") + STOPPED + event({"type": "message_stop"}),
    ),
    "gemini": (
        "gemini:gemini-3.7-flash",
        event({"candidates": [{"content": {"parts": [{"text": "fine"}]}, "finishReason": "STOP"}]}),
    ),
    "chat": ("vllm:qwen3-32b", chat({"content": "fine"}) + chat({}, "stop") + DONE),
}
each = pytest.mark.parametrize("name", MODELS)


def head(media_type: str = "text/event-stream", status: str = "200 OK", **more: str) -> bytes:
    fields = {"Content-Type": media_type, "Connection": "close", **more}
    lines = [f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items()]
    return f"HTTP/1.1 {status}\r\n{''.join(lines)}\r\n".encode()


class Liar:
    """A server that reads a request and then sends scripted bytes."""

    def __init__(self) -> None:
        self.says: Write | bytes = b""
        self.requests = 0
        self.url = ""

    async def start(self) -> asyncio.Server:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return server

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            asked = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = asked.partition(b"content-length:")[2].split(b"\r\n")[0]
            await reader.readexactly(int(length or 0))
            self.requests += 1
            if isinstance(self.says, bytes):
                writer.write(self.says)
                await writer.drain()
            else:
                await self.says(writer)
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client had enough
        finally:
            writer.close()


@pytest.fixture
async def liar(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Liar]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    liar = Liar()
    server = await liar.start()
    yield liar
    await aclose_all()
    server.close()


async def run(liar: Liar, name: str, *, streamed: bool = True, **more: Any) -> Any:
    """Runs an agent against the server. Checks that its log is readable and free of the key."""
    model = MODELS[name][0]
    options = {
        "api_key": KEY,
        "timeout": PATIENCE,
        "retry": RetryPolicy(attempts=2, rate_attempts=2, first=0.01, longest=0.02),
        "limiter": Limiter(),
        **more,
    }
    base = liar.url + ("/v1" if name in ("responses", "chat") else "")
    agent = Agent(resolve(model, base_url=base, **options), tools=[add], limits=Limits(steps=3))
    hear = (lambda happening: None) if streamed else None
    result = await agent.run("Go.", listener=hear)
    assert [e.decode(e.encode(one.event)) for one in result.records] == [
        one.event for one in result.records
    ]
    assert KEY not in repr(result.records)
    return result


@each
@pytest.mark.parametrize("media_type", ["application/json", "text/plain", "text/html"])
async def test_a_stream_by_another_name_is_read(name: str, media_type: str, liar: Liar) -> None:
    liar.says = head(media_type) + MODELS[name][1]
    assert (await run(liar, name)).output == "fine"


@each
async def test_a_stream_that_was_not_asked_for_is_read(name: str, liar: Liar) -> None:
    liar.says = head() + MODELS[name][1]
    assert (await run(liar, name, streamed=False)).output == "fine"


@each
async def test_a_mark_of_the_byte_order_costs_no_event(name: str, liar: Liar) -> None:
    liar.says = head() + b"\xef\xbb\xbf" + MODELS[name][1]
    assert (await run(liar, name)).output == "fine"


@each
async def test_a_page_instead_of_a_stream_is_quoted(name: str, liar: Liar) -> None:
    liar.says = head("text/html") + b"<html>Please log in</html>"
    result = await run(liar, name)
    assert "unreadable answer" in result.error
    assert "<html>Please log in</html>" in result.error


@each
async def test_a_whole_reply_needs_no_end_of_its_stream(name: str, liar: Liar) -> None:
    """Providers mark the end of a reply.

    If a proxy then keeps the connection open, it costs one second; the full timeout applies only to
    formats without an end mark.
    """

    clock = LoopClock()

    async def says(writer: asyncio.StreamWriter) -> None:
        writer.write(head() + MODELS[name][1])
        await writer.drain()
        if name == "gemini":  # its format has no end mark
            await asyncio.sleep(0.5)
            for _ in range(100):  # the client reads first
                await asyncio.sleep(0)
            clock.jump(2 * PATIENCE)
        await asyncio.Event().wait()

    liar.says = says
    # A reader that waits for more than the reply waits until the test is stopped.
    result = await run(liar, name, timeout=PATIENCE if name == "gemini" else 3600.0)
    assert result.output == "fine", result.error
    assert liar.requests == 1


@each
async def test_a_stream_that_breaks_off_behind_its_reply(name: str, liar: Liar) -> None:
    announced = head(Content_Length=str(len(MODELS[name][1]) + 9_000))
    liar.says = announced + MODELS[name][1]
    assert (await run(liar, name)).output == "fine"
    assert liar.requests == 1


@each
async def test_a_character_cut_in_two_is_put_together(name: str, liar: Liar) -> None:
    """Servers that count in UTF-16 send the halves of an emoji in two events."""
    halves = {
        "responses": item("f\ud83d") + item("\ude00") + COMPLETED,
        "messages": block(0, "f\ud83d") + block(1, "\ude00") + STOPPED,
        "gemini": b"".join(
            event({"candidates": [{"content": {"parts": [{"text": t}]}}]})
            for t in ("f\ud83d", "\ude00")
        ) + event({"candidates": [{"finishReason": "STOP"}]}),
        "chat": chat({"content": "f\ud83d"}) + chat({"content": "\ude00"}, "stop") + DONE,
    }  # fmt: skip
    liar.says = head() + halves[name]
    result = await run(liar, name)
    assert result.output == ("f\ufffd\ufffd" if name in ("responses", "messages") else "f😀")
    assert liar.requests == 1


def test_halves_without_the_other_are_marked() -> None:
    assert join_surrogates("a\ud83d\ude00b\ud83dc") == "a😀b\ufffdc"


async def test_items_without_numbers_are_all_kept(liar: Liar) -> None:
    liar.says = head() + item("one ") + item("two") + COMPLETED
    assert (await run(liar, "responses")).output == "one two"


async def test_a_block_that_begins_twice_is_no_reply(liar: Liar) -> None:
    liar.says = head() + block(0, "one") + block(0, "two") + STOPPED
    assert "block 0 begins twice" in (await run(liar, "messages")).error


def call(index: int | None, call_id: str, arguments: str) -> dict[str, Any]:
    function = {"name": "add", "arguments": arguments}
    return {"tool_calls": [{"index": index, "id": call_id, "function": function}]}


async def test_calls_with_one_id_are_told_apart(liar: Liar) -> None:
    """Their results would be one's, and providers refuse the history."""
    first, second = call(0, "c", '{"a": 1, "b": 2}'), call(1, "c", '{"a": 3, "b": 4}')
    liar.says = head() + chat(first) + chat(second) + chat({}, "tool_calls") + DONE
    result = await run(liar, "chat")
    (replied, *_) = [one.event for one in result.records if isinstance(one.event, e.Replied)]
    assert [part.id for part in replied.content] == ["c", "c_2"]
    assert [o.result for o in result.steps[0].observations] == [3, 7]


async def test_a_call_that_is_sent_twice_is_one(liar: Liar) -> None:
    first, again = call(0, "c", '{"a": 1, "b": 2}'), call(1, "c", '{"b": 2, "a": 1}')
    other = call(2, "d", '{"a": 1, "b": 2}')
    liar.says = head() + chat(first) + chat(again) + chat(other) + chat({}, "tool_calls") + DONE
    result = await run(liar, "chat")
    (replied, *_) = [one.event for one in result.records if isinstance(one.event, e.Replied)]
    assert [part.id for part in replied.content] == ["c", "d"]
    assert [o.result for o in result.steps[0].observations] == [3, 3]


@pytest.mark.parametrize("reason", ["SAFETY", "PROHIBITED_CONTENT", "OTHER", "MALFORMED_RESPONSE"])
async def test_nothing_of_what_gemini_stopped_is_run(reason: str, liar: Liar) -> None:
    parts = [{"functionCall": {"name": "add", "args": {"a": 1, "b": 2}}}]
    liar.says = head() + event(
        {"candidates": [{"content": {"parts": parts}, "finishReason": reason}]}
    )
    result = await run(liar, "gemini")
    assert not result.success
    assert not [one for one in result.records if isinstance(one.event, e.Started)]


@pytest.mark.parametrize("reason", ["content_filter", "error", "abort"])
async def test_nothing_of_what_a_chat_server_stopped_is_run(reason: str, liar: Liar) -> None:
    liar.says = head() + chat(call(0, "c", '{"a": 1, "b": 2}')) + chat({}, reason) + DONE
    result = await run(liar, "chat")
    assert not result.success
    assert not [one for one in result.records if isinstance(one.event, e.Started)]


@pytest.mark.parametrize("index", [0, None], ids=["all the first", "without a number"])
async def test_more_calls_than_anybody_means_are_no_reply(index: int | None, liar: Liar) -> None:
    calls = b"".join([chat(call(index, f"c{n}", "{}")) for n in range(20_000)])
    liar.says = head() + calls + chat({}, "tool_calls") + DONE
    began = time.process_time()
    result = await run(liar, "chat")
    assert "more than 256 tool calls" in result.error
    assert time.process_time() - began < 5


@pytest.mark.parametrize("name", ["gemini", "details"])
async def test_very_many_pieces_cost_their_number(name: str, liar: Liar) -> None:
    """Joined piece by piece, these would be copied for minutes."""
    piece = "x" * 80
    if name == "gemini":
        more = event({"candidates": [{"content": {"parts": [{"text": piece}]}}]}) * 30_000
        end = event({"candidates": [{"finishReason": "STOP"}]})
    else:
        detail = {"type": "reasoning.text", "index": 0, "text": piece}
        more = chat({"reasoning_details": [detail]}) * 60_000
        end = chat({"content": "fine"}, "stop") + DONE
    liar.says = head() + more + end
    began = time.process_time()
    result = await run(liar, "gemini" if name == "gemini" else "chat")
    assert result.success
    assert time.process_time() - began < 20


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_what_unpacks_to_a_gigabyte_is_not_unpacked(streamed: bool, liar: Liar) -> None:
    packed = gzip.compress(b"data: " + b"a" * (1 << 28), 6)
    media_type = "text/event-stream" if streamed else "application/json"
    liar.says = head(media_type, Content_Encoding="gzip") + packed
    assert "is larger than 16777216 bytes" in (await run(liar, "chat", streamed=streamed)).error


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (head(Content_Encoding="gzip") + b"\x1f\x8b\x08 no gzip", "not encoded as it says"),
        (b"SSH-2.0-OpenSSH\r\n", "not HTTP that can be read"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 99_999 + b"\r\n\r\n", "not HTTP that can be read"),
        (head(status="307 Go", Location="http://127.0.0.2:9/"), "redirects elsewhere"),
        (head() + b'data: {"choices": [], "usage": {"prompt_tokens": NaN}}\n\n', "broke off"),
    ],
    ids=["gzip", "another protocol", "header", "redirect", "NaN"],
)
async def test_what_is_no_answer_is_told_in_words(answer: bytes, words: str, liar: Liar) -> None:
    liar.says = answer
    assert words in (await run(liar, "chat")).error


async def test_an_error_cannot_command_the_terminal(liar: Liar) -> None:
    body = json.dumps({"error": {"message": "\x1b]0;mine\x07 \x1b[2J no", "code": "a\x1bb"}})
    liar.says = head("application/json", status="400 No") + body.encode()
    error = (await run(liar, "chat")).error
    assert "no" in error
    assert "\x1b" not in error
    assert "\x07" not in error


@pytest.mark.parametrize("value", ["inf", "1e400", "99999999999", "nan", "-3", "1.2.3", "²"])
@pytest.mark.parametrize("field", ["Retry-After", "Retry-After-Ms", "retryDelay"])
async def test_a_wait_that_nobody_can_mean_shuts_no_account(
    value: str, field: str, liar: Liar
) -> None:
    body = {"error": {"message": "slow", "details": [{"retryDelay": f"{value}s"}]}}
    headers = {} if field == "retryDelay" else {field: value}
    if field == "retryDelay" or value.isascii():
        answer = head("application/json", status="429 Slow", **headers)
        liar.says = answer + json.dumps(body, ensure_ascii=False).encode()
        limiter = Limiter()
        assert "rate limit" in (await run(liar, "chat", limiter=limiter)).error
        assert limiter.shut <= 86_400
    wait = retry_after({field: value})
    assert wait is None or 0 <= wait <= 86_400


async def test_a_run_beside_one_that_was_sent_away_does_not_wait_in_silence(liar: Liar) -> None:
    limiter = Limiter()
    liar.says = head("application/json", status="429 Slow", Retry_After="3600") + b"{}"
    await run(liar, "chat", limiter=limiter)
    liar.says = head() + MODELS["chat"][1]
    result = await asyncio.wait_for(run(liar, "chat", limiter=limiter), PATIENCE)
    assert "asked to be left alone for 3" in result.error
    assert liar.requests == 1, "it was asked although it had said when"


async def test_the_error_of_a_shut_account_is_that_of_a_rate_limit() -> None:
    """The error type lets the next model of a list take over."""
    limiter = Limiter()
    limiter.reject(limiter.ticket, 3_600)
    model = resolve("vllm:m", base_url="http://127.0.0.1:9/v1", limiter=limiter)
    with pytest.raises(ModelError, match="left alone") as caught:
        await model.complete(Request(Conversation([Message("user", "Hello")])))
    assert caught.value.kind == "rate"
    assert caught.value.retry_after is not None

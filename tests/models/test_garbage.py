"""Whatever a provider sends: a reply or a `ModelError`, never anything else."""

import copy
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taofold.core.content import Issuer
from taofold.core.errors import ModelError
from taofold.core.values import Reply
from taofold.models.anthropic import MessagesReader
from taofold.models.chat_completions import ChatReader
from taofold.models.encoding import encode
from taofold.models.endpoint import ReplyReader
from taofold.models.gemini import GeminiReader
from taofold.models.ollama import OllamaReader
from taofold.models.openai_responses import ResponsesReader
from taofold.models.prices import Price, TokenRates
from taofold.models.replies import LineDecoder, ReplyContext
from tests.models.forms import FORMS, Form

READERS: dict[str, Any] = {
    "responses": ResponsesReader,
    "messages": MessagesReader,
    "gemini": GeminiReader,
    "deepseek": ChatReader,
    "openrouter": ChatReader,
    "vllm": ChatReader,
}
FRAME = ReplyContext(
    "a:model",
    Issuer("chat", "host", "model"),
    "http://provider",
    "",
    Price(TokenRates(1.0, 0.5, 2.0, 1.0)),
    {},
    0,
)
each = pytest.mark.parametrize("form", FORMS, ids=str)
often = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


def read(reader: ReplyReader, chunks: list[bytes]) -> Reply | None:
    """Returns the reply, or None if it is refused. Its usage must be serializable."""
    try:
        for chunk in chunks:
            reader.feed(chunk)
        return checked(reader.close())
    except ModelError:
        return None


def checked(reply: Reply) -> Reply:
    usage = reply.usage
    for name in ("input_tokens", "output_tokens", "cached_tokens", "written_tokens"):
        assert 0 <= getattr(usage, name) < 1 << 63
    assert 0.0 <= usage.usd < 1e18
    encode((reply.content, usage, reply.finish, reply.notes))
    return reply


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of everything in a JSON value."""
    found = [path] if path else []
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, one in inner:
        found += places(one, (*path, key))
    return found


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    value = copy.deepcopy(value)
    inner = value
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = new
    return value


def events(form: Form) -> list[tuple[str, Any]]:
    """The events of the recorded streams: what precedes the data, and the data."""
    found: list[tuple[str, Any]] = []
    for exchange in form.recorded(streamed=True):
        for event in exchange["response"]["sse"]:
            name, mark, data = event.rpartition("data: ")
            if mark or not event.startswith(":"):
                told = data if data == "[DONE]" else json.loads(data)
                found.append((name + mark or "data: ", told))
    return found


@each
@often
@given(data=st.data())
def test_a_stream_with_one_thing_changed(form: Form, data: st.DataObject) -> None:
    told = events(form)
    at = data.draw(st.integers(0, len(told) - 1))
    name, event = told[at]
    paths = places(event)
    if not paths or event == "[DONE]":
        return
    new = changed(event, data.draw(st.sampled_from(paths)), data.draw(anything))
    lines = [*told[:at], (name, new), *told[at + 1 :]]
    reader = READERS[form.name](FRAME)
    read(reader, [f"{n}{json.dumps(e) if e != '[DONE]' else e}\n\n".encode() for n, e in lines])


@each
@often
@given(data=st.data())
def test_an_answer_with_one_thing_changed(form: Form, data: st.DataObject) -> None:
    answer = data.draw(st.sampled_from(form.recorded(streamed=False)))["response"]["json"]
    new = changed(answer, data.draw(st.sampled_from(places(answer))), data.draw(anything))
    with suppress(ModelError):
        checked(READERS[form.name](FRAME).whole(json.dumps(new).encode()))


@pytest.mark.parametrize("make", [*dict.fromkeys(READERS.values()), OllamaReader])
@often
@given(chunks=st.lists(st.binary() | anything.map(lambda a: json.dumps(a).encode() + b"\n\n")))
def test_bytes_that_mean_nothing(make: Any, chunks: list[bytes]) -> None:
    assert read(make(FRAME), [b"data: " + chunk for chunk in chunks]) is None
    assert read(make(FRAME), chunks) is None


@pytest.mark.parametrize("make", [*dict.fromkeys(READERS.values()), OllamaReader])
def test_json_nested_without_end(make: Any) -> None:
    nested = b"[" * 200_000
    for body in (nested, b'{"error":' + nested, b'{"type":"error","error":' + nested):
        with pytest.raises(ModelError):
            make(FRAME).whole(body)


@pytest.mark.parametrize(
    ("make", "body"),
    [
        (ChatReader, {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}],
                      "usage": {"prompt_tokens": -5, "completion_tokens": 1 << 70, "cost": -9}}),
        (ChatReader, {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}],
                      "usage": {"prompt_tokens": 1, "completion_tokens": 1, "cost": 1e300}}),
        (MessagesReader, {"content": [], "stop_reason": "end_turn",
                          "usage": {"input_tokens": -7, "cache_read_input_tokens": -9}}),
        (GeminiReader, {"candidates": [{"finishReason": "STOP"}],
                        "usageMetadata": {"promptTokenCount": -1, "thoughtsTokenCount": 1 << 80}}),
        (ResponsesReader, {"status": "completed", "output": [],
                           "usage": {"input_tokens": -1, "output_tokens": -1}}),
    ],
)  # fmt: skip
def test_nobody_gets_money_back_by_counting_below_zero(make: Any, body: Any) -> None:
    checked(make(FRAME).whole(json.dumps(body).encode()))


def test_a_line_in_very_many_pieces_is_joined_once() -> None:
    """Joined at every piece, 40 MB would be copied 40,000 times."""
    heard: list[bytes] = []
    lines = LineDecoder(heard.append)
    piece = b"x" * 1_000
    for _ in range(40_000):
        lines.feed(piece)
    lines.feed(b"\n")
    lines.close()
    assert [len(line) for line in heard] == [40_000_000]

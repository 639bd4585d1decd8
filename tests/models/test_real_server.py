"""The adapters against a genuine llama.cpp server with tiny models, where there is one."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
import pytest

from taofold.core.content import Conversation, result_message
from taofold.core.errors import ModelError
from taofold.core.values import Message, ModelSettings, Profile
from taofold.models.endpoint import RetryPolicy
from taofold.models.limiter import Limiter
from taofold.models.transport import aclose_all
from taofold.runtime.model import Model, Request, ToolSpec
from taofold.runtime.providers import resolve
from tests.llama import KEY, serving
from tests.prerequisites import LLAMA

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.real_server,
    pytest.mark.allow_model_requests,
    LLAMA.mark,
]
FULL = Profile(window=4096, window_known=True, native_tools=True, json_schema=True)


@pytest.fixture(scope="module")
def tools() -> Iterator[str]:
    with serving("tools") as url:
        yield url


@pytest.fixture(scope="module")
def react() -> Iterator[str]:
    with serving("react") as url:
        yield url


@pytest.fixture(scope="module")
def random() -> Iterator[str]:
    with serving("random") as url:
        yield url


@pytest.fixture(autouse=True)
async def closed() -> AsyncIterator[None]:
    yield
    await aclose_all()


def connect(url: str, provider: str = "openai-compatible", **options: Any) -> Model:
    chosen = {
        "api_key": KEY,
        "profile": FULL,
        "limiter": Limiter(),
        "retry": RetryPolicy(attempts=1),
    }
    return resolve(f"{provider}:m", base_url=url, **{**chosen, **options})


@pytest.mark.parametrize("provider", ["openai-compatible", "llamacpp", "anthropic"])
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_tool_is_called_and_its_result_answered(
    tools: str, add: ToolSpec, provider: str, streamed: bool
) -> None:
    model = connect(tools, provider)
    heard: list[str] = []
    listen = heard.append if streamed else None
    conversation = Conversation([Message("user", "What is 2 + 3?")])
    request = Request(conversation, tools=(add,), settings=ModelSettings(max_tokens=60))
    reply = await model.complete(request, listen)
    assert reply.calls[0].name == "add"
    assert reply.calls[0].id
    assert reply.usage.input_tokens > 0
    conversation.append(Message("assistant", reply.content))
    for call in reply.calls:
        conversation.append(result_message(call.id, "5"))
    final = await model.complete(request, listen)
    assert final.text == "The sum is 5."
    assert final.finish == "stop"
    assert not streamed or "".join(heard).endswith("The sum is 5.")


async def test_a_model_without_tools_answers_in_text(react: str) -> None:
    model = connect(react, profile=Profile())
    conversation = Conversation([Message("user", "What is 2 + 3?")])
    first = await model.complete(Request(conversation, settings=ModelSettings(max_tokens=60)))
    assert "Action: add" in first.text
    conversation.append(Message("assistant", first.text))
    conversation.append(Message("user", "Observation: 5"))
    heard: list[str] = []
    second = await model.complete(
        Request(conversation, settings=ModelSettings(max_tokens=60)), heard.append
    )
    assert "Final Answer: 5" in second.text
    assert "".join(heard) == second.text


SCHEMA = {
    "type": "object",
    "properties": {
        "n": {"type": "integer", "minimum": 1, "maximum": 9},
        "mood": {"enum": ["calm", "wild"]},
        "note": {"type": "string", "maxLength": 8},
    },
    "required": ["n", "mood", "note"],
    "additionalProperties": False,
}


class Shape(msgspec.Struct, forbid_unknown_fields=True):
    n: int
    mood: str
    note: str


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_random_model_is_held_to_a_strict_schema(random: str, streamed: bool) -> None:
    model = connect(random, "llamacpp")
    for word in ("one", "two", "three"):
        conversation = Conversation([Message("user", word)])
        request = Request(conversation, schema=SCHEMA, settings=ModelSettings(max_tokens=200))
        reply = await model.complete(request, (lambda text: None) if streamed else None)
        shape = msgspec.json.decode(reply.text, type=Shape)
        assert 1 <= shape.n <= 9
        assert shape.mood in ("calm", "wild")
        assert len(shape.note) <= 8


async def test_a_reply_that_is_cut_says_so(random: str) -> None:
    request = Request(Conversation([Message("user", "talk")]), settings=ModelSettings(max_tokens=3))
    assert (await connect(random).complete(request)).finish == "length"


@pytest.mark.parametrize("provider", ["openai-compatible", "anthropic"])
@pytest.mark.parametrize("streamed", [False, True])
async def test_errors_are_clear_about_who_can_act(
    tools: str, provider: str, streamed: bool, hello: Request
) -> None:
    listen = (lambda text: None) if streamed else None
    with pytest.raises(ModelError, match=r"401.*check the key") as wrong_key:
        await connect(tools, provider, api_key="sk-wrong").complete(hello, listen)
    assert wrong_key.value.kind == "auth"
    assert "sk-wrong" not in str(wrong_key.value)
    long = Request(
        Conversation([Message("user", "word " * 20_000)]), settings=ModelSettings(max_tokens=5)
    )
    with pytest.raises(ModelError, match="context window") as overflow:
        await connect(tools, provider).complete(long, listen)
    assert overflow.value.kind == "overflow"


async def test_a_schema_that_the_server_cannot_compile_is_given_up(tools: str) -> None:
    """The server answers 400.

    The next request has no schema, and the parser validates the reply.
    """
    bad = {"type": "object", "properties": {"x": {"type": "no-such-type"}}}
    request = Request(
        Conversation([Message("user", "hi")]), schema=bad, settings=ModelSettings(max_tokens=20)
    )
    assert (await connect(tools).complete(request)).text


async def test_a_bad_request_is_reported_in_the_servers_words(tools: str) -> None:
    settings = ModelSettings(extra={"grammar": "root ::= ("})
    request = Request(Conversation([Message("user", "hi")]), settings=settings)
    with pytest.raises(ModelError) as caught:
        await connect(tools).complete(request)
    assert caught.value.kind in ("request", "server")
    assert caught.value.status in (400, 500)


ODD: dict[str, Any] = {
    "bounds that are none": {"a": {"type": "string", "minLength": -1, "maxLength": "7"}},
    "a bound that is a fraction": {"a": {"type": "array", "items": {}, "minItems": 1.5}},
    "a minimum that is a text": {"a": {"type": "integer", "minimum": "0"}},
    "items true": {"a": {"type": "array", "items": True}},
    "items false": {"a": {"type": "array", "items": False}},
    "a reference to the root": {"a": {"type": "array", "items": {"$ref": "#"}}},
    "a reference with an escape": {"a/b": {"type": "string"}, "c": {"$ref": "#/properties/a~1b"}},
}


@pytest.mark.parametrize("what", ODD)
async def test_a_strangers_tool_costs_no_request(what: str, tools: str) -> None:
    """llama.cpp turns the schemas of all tools into one grammar: one that it cannot read costs
    every request.
    """
    odd = ToolSpec("odd", "", {"type": "object", "properties": ODD[what]})
    request = Request(
        Conversation([Message("user", "hi")]), tools=(odd,), settings=ModelSettings(max_tokens=4)
    )
    assert (await connect(tools, "llamacpp").complete(request)).finish

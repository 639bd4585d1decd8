"""Built-in providers by name: whose key goes where, and in which way a server is asked."""

from typing import Any

import msgspec
import pytest

from taofold.core.errors import ConfigError, ModelError
from taofold.core.values import ModelSettings
from taofold.runtime import providers as registry
from taofold.runtime.model import Request
from taofold.runtime.providers import resolve
from taofold.testing import Cassette

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("clean_environment")]


def test_every_built_in_provider_can_be_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in registry.BUILT_IN.keys() - {"offline", "test"}:
        named = "claude-x" if name == "bedrock" else "m"
        model = resolve(f"{name}:{named}", api_key="k", base_url="http://127.0.0.1:9/v1")
        assert model.name == f"{name}:{named}"


@pytest.mark.parametrize(
    ("name", "variable", "url"),
    [
        ("openai:gpt-4o", "OPENAI_API_KEY", "api.openai.com/v1"),
        ("anthropic:claude-x", "ANTHROPIC_API_KEY", "api.anthropic.com"),
        ("gemini:gemini-x", "GEMINI_API_KEY", "generativelanguage.googleapis.com"),
    ],
)
def test_the_environments_key_goes_nowhere_else_and_never_in_clear(
    name: str, variable: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "sk-of-the-environment")
    sent = [
        any(
            "sk-of-the-environment" in value
            for value in resolve(name, **options).connection.endpoint._headers.values()
        )
        for options in (
            {},
            {"base_url": f"https://{url}"},
            {"base_url": f"http://{url}"},
            {"base_url": "https://example.org/v1"},
        )
    ]
    assert sent == [True, True, False, False]


@pytest.mark.parametrize("name", ["anthropic/claude-x", "openai:anthropic/claude-x"])
def test_a_name_in_the_form_of_litellm_is_refused_at_openai_itself(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutant: the name is sent to OpenAI, which answers with an error at the first call."""
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with pytest.raises(ConfigError, match=r"OpenAI has no model .*'anthropic:claude-x'") as raised:
        resolve(name)
    assert "openai:anthropic" not in str(raised.value)
    gateway = resolve(name, base_url="https://gateway.example/v1")
    assert gateway.name == "openai:anthropic/claude-x"
    assert resolve("openrouter:anthropic/claude-x", api_key="k").name.endswith("claude-x")


@pytest.mark.scenario("PEER-31")
def test_the_environments_key_goes_nowhere_an_argument_points(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-env")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-env")
    for provider in ("openai", "anthropic"):
        stolen = resolve(f"{provider}:m", base_url="https://evil.example/v1")
        assert "sk-env" not in str(vars(stolen.connection.endpoint))  # type: ignore[attr-defined]
        kept = resolve(f"{provider}:m")
        assert "sk-env" in str(vars(kept.connection.endpoint))  # type: ignore[attr-defined]


def test_a_server_that_the_environment_names_may_want_no_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        resolve("openai:m")
    monkeypatch.setenv("OPENAI_BASE_URL", "https://api.openai.com/v1")
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        resolve("openai:m")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    assert "Authorization" not in str(vars(resolve("openai:m").connection.endpoint))  # type: ignore[attr-defined]
    monkeypatch.setenv("OPENAI_API_KEY", "sk-env")
    assert "sk-env" in str(vars(resolve("openai:m").connection.endpoint))  # type: ignore[attr-defined]


async def test_only_openai_itself_is_told_the_new_name_of_the_limit(
    hello: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {"json": {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}}
    asked = msgspec.structs.replace(hello, settings=ModelSettings(max_tokens=7))
    for url, name in (("", "max_completion_tokens"), ("http://127.0.0.1:9/v1", "max_tokens")):
        monkeypatch.setenv("OPENAI_CHAT_BASE_URL", url)
        cassette = Cassette([{"response": said}])
        await resolve("openai-chat:m", api_key="k", transport=cassette).complete(asked)
        assert cassette.requests[0][name] == 7


CHAT: dict[str, Any] = {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}


RESPONSE: dict[str, Any] = {
    "status": "completed",
    "output": [{"type": "message", "content": [{"type": "output_text", "text": "x"}]}],
}


def answers(*exchanges: tuple[str, int, dict[str, Any]]) -> Cassette:
    return Cassette(
        [
            {"request": {"path": path}, "response": {"status": status, "json": body}}
            for path, status, body in exchanges
        ]
    )


@pytest.mark.parametrize("status", [404, 405])
async def test_a_server_in_openais_place_is_asked_in_the_way_it_knows(
    hello: Request, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """The server is probed once for the Responses API, not before every call."""
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    chat = ("/v1/chat/completions", 200, CHAT)
    cassette = answers(("/v1/responses", status, {}), chat, chat)
    model = resolve("openai:gpt-4", api_key="k", transport=cassette)
    for _ in range(2):
        reply = await model.complete(hello)
        assert (reply.text, reply.model) == ("x", "openai:gpt-4")
        assert reply.issuer == model.issuer  # type: ignore[attr-defined]
    cassette.assert_complete()


async def test_a_gateway_to_openai_is_asked_as_openai_is(hello: Request) -> None:
    good = ("/v1/responses", 200, RESPONSE)
    cassette = answers(good, ("/v1/responses", 400, {"error": {"message": "no"}}), good)
    url = "https://gateway.example/v1"
    model = resolve("openai:gpt-4", base_url=url, api_key="k", transport=cassette)
    assert (await model.complete(hello)).text == "x"
    with pytest.raises(ModelError, match="responses answered 400"):
        await model.complete(hello)
    assert (await model.complete(hello)).text == "x"
    cassette.assert_complete()


async def test_an_unknown_model_is_no_unknown_path(hello: Request) -> None:
    missing = {"error": {"message": "no model named m", "code": "model_not_found"}}
    refused = (("/v1/responses", 404, missing), ("/v1/chat/completions", 404, missing))
    cassette = answers(*refused, ("/v1/responses", 200, RESPONSE))
    url = "https://gateway.example/v1"
    model = resolve("openai:m", base_url=url, api_key="k", transport=cassette)
    with pytest.raises(ModelError, match="no model named m"):
        await model.complete(hello)
    assert (await model.complete(hello)).text == "x"


async def test_openai_itself_is_asked_nothing_else(hello: Request) -> None:
    cassette = answers(("/v1/responses", 404, {"error": {"message": "no such model"}}))
    model = resolve("openai:gpt-4", api_key="k", transport=cassette)
    with pytest.raises(ModelError, match="no such model"):
        await model.complete(hello)
    cassette.assert_complete()

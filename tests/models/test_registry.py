"""Finding models by name, and falling back."""

from typing import Any

import msgspec
import pytest

from taofold.core.errors import ConfigError, ModelError, RunError
from taofold.core.values import ModelSettings, Profile, Reply
from taofold.runtime import model as registry
from taofold.runtime.model import (
    FallbackModel,
    Model,
    OnText,
    ReplayModel,
    Request,
    Speaker,
    providers,
    register_provider,
    resolve,
)
from taofold.testing import Cassette, ScriptedModel

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("clean_environment")]


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})


@pytest.mark.scenario("TAG-25")
async def test_a_registered_provider_is_used_for_all_calls_by_its_name(hello: Request) -> None:
    made: list[tuple[str, dict[str, Any]]] = []

    def factory(model: str, **options: Any) -> Model:
        made.append((model, options))
        return ScriptedModel(["mine", "mine again"], name=f"acme:{model}")

    register_provider("acme", factory)
    model = resolve("acme:large:v2", timeout=5)
    assert made == [("large:v2", {"timeout": 5})]
    assert (await model.complete(hello)).text == "mine"
    assert (await model.complete(hello)).model == "acme:large:v2"
    assert "acme" in providers()


@pytest.mark.scenario("TAG-25")
def test_a_registered_provider_comes_before_a_built_in_one_of_its_name() -> None:
    mine = ScriptedModel([])
    register_provider("openai", lambda model, **options: mine)
    assert resolve("openai:gpt-5") is mine


def test_every_built_in_provider_can_be_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in registry.BUILT_IN.keys() - {"offline"}:
        named = "claude-x" if name == "bedrock" else "m"
        model = resolve(f"{name}:{named}", api_key="k", base_url="http://127.0.0.1:9/v1")
        assert model.name == f"{name}:{named}"


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("opnai:gpt-4o", r"did you mean 'openai'"),
        ("zzz:x", r"unknown provider 'zzz'.*known are .*anthropic"),
        ("openai:", "no model is named"),
        ("openai:gpt-4o", "environment variable OPENAI_API_KEY"),
        ("anthropic:claude", "environment variable ANTHROPIC_API_KEY"),
        ("groq:llama", "environment variable GROQ_API_KEY"),
        ("openai-compatible:m", "needs an address"),
    ],
)
def test_a_name_that_cannot_be_resolved_says_what_to_do(
    spec: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    with pytest.raises(ConfigError, match=text):
        resolve(spec)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"temprature": 1}, r"unknown model options \['temprature'\]"),
        ({"base_url": "localhost:80"}, "must start with http"),
        ({"timeout": 0}, "positive seconds"),
        ({"api_key": "sk-\n\u200bx"}, "copy it again"),
        ({"prices": {"gpt-4o": (1.0, -2.0)}}, "dollars per million"),
    ],
)
def test_a_bad_option_is_a_programmers_error(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        resolve("openai:gpt-4o", **{"api_key": "k", **options})


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


def test_a_bare_name_belongs_to_the_default_provider() -> None:
    assert resolve("gpt-4o", api_key="k").name == "openai:gpt-4o"
    assert resolve("llama3", provider="ollama").name == "ollama:llama3"


def test_a_model_is_itself_and_anything_else_is_not() -> None:
    model = ScriptedModel([])
    assert resolve(model) is model
    with pytest.raises(ConfigError, match="is not a model"):
        resolve(5)  # type: ignore[arg-type]


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
    """It is asked once whether it has the Responses API, not before every call."""
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


def test_providers_of_other_packages_come_by_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    class Entry:
        name, value = "foreign", "taofold.testing:ScriptedModel"

    monkeypatch.setattr(
        registry, "installed", lambda group: [Entry] if group == registry.GROUP else []
    )
    assert isinstance(resolve("foreign:x"), ScriptedModel)
    Entry.value = "no.such.module:thing"
    with pytest.raises(ConfigError, match="cannot be loaded"):
        resolve("foreign:x")


@pytest.mark.parametrize("name", ["", "a:b", " a"])
def test_a_providers_name_must_be_usable(name: str) -> None:
    with pytest.raises(ConfigError):
        register_provider(name, ScriptedModel)


async def test_a_replay_never_asks_a_model(hello: Request) -> None:
    with pytest.raises(RunError, match="replayed"):
        await ReplayModel().complete(hello)


def down(kind: str = "server") -> ModelError:
    return ModelError(f"{kind} trouble", kind=kind)


@pytest.mark.parametrize("kind", ["auth", "server", "network", "rate", "timeout"])
async def test_the_next_model_answers_and_the_reply_says_which(hello: Request, kind: str) -> None:
    model = resolve([ScriptedModel([down(kind)], name="a:1"), ScriptedModel(["hi"], name="b:2")])
    reply = await model.complete(hello)
    assert (reply.text, reply.model) == ("hi", "b:2")


@pytest.mark.parametrize("kind", ["request", "overflow", "reply"])
async def test_errors_that_another_model_would_share_end_it(hello: Request, kind: str) -> None:
    second = ScriptedModel(["hi"])
    with pytest.raises(ModelError, match=kind):
        await FallbackModel([ScriptedModel([down(kind)]), second]).complete(hello)
    assert not second.requests


async def test_a_model_that_failed_rests_for_a_while(hello: Request) -> None:
    now = [0.0]
    first, second = ScriptedModel([down(), "back"]), ScriptedModel(["b", "b"])
    model = FallbackModel([first, second], clock=lambda: now[0])
    texts = [(await model.complete(hello)).text for _ in range(2)]
    now[0] = 61.0
    texts.append((await model.complete(hello)).text)
    assert texts == ["b", "b", "back"]


async def test_when_none_works_every_reason_is_told(hello: Request) -> None:
    model = FallbackModel(
        [ScriptedModel([down("auth")], name="a:1"), ScriptedModel([down("network")], name="b:2")]
    )
    with pytest.raises(ModelError, match=r"a:1: auth trouble; b:2: network trouble") as caught:
        await model.complete(hello)
    assert caught.value.kind == "network"


async def test_the_listener_of_a_fallback_hears_nothing_twice(hello: Request) -> None:
    class Halfway(ScriptedModel):
        async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
            assert on_text
            on_text("one ")
            raise down()

    heard: list[str] = []
    model = FallbackModel([Halfway([]), ScriptedModel(["one two"])])
    await model.complete(hello, heard.append)
    assert "".join(heard) == "one two"


def test_a_fallback_claims_only_what_all_can_do() -> None:
    able = Profile(window=100, window_known=True, native_tools=True, json_schema=True)
    model = FallbackModel(
        [ScriptedModel([], able, usd=(1, 1)), ScriptedModel([], Profile(window=50), usd=(2, 2))]
    )
    assert model.profile == Profile(window=50)
    assert model.price(500_000, 500_000) == 2.0
    assert FallbackModel([ScriptedModel([], usd=None)]).price(1, 1) is None
    with pytest.raises(ConfigError):
        resolve([])


def test_a_speaker_says_each_piece_once() -> None:
    heard: list[str] = []
    speaker = Speaker(heard.append)
    for attempt in (["ab", "c"], ["a", "bcd"], ["abcde"], ["x"], ["abcdef"]):
        speaker.rewind()
        for delta in attempt:
            speaker(delta)
    assert heard == ["ab", "c", "d", "e"]


class _Half:
    async def complete(self, request: Any, on_text: Any = None) -> str:
        return "x"


def test_what_is_nearly_a_model_says_what_is_missing() -> None:
    with pytest.raises(ConfigError, match="_Half is no whole model: it lacks name and profile"):
        resolve(_Half())  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"taofold\.testing\.FunctionModel makes one"):
        resolve(lambda request: "x")  # type: ignore[arg-type]

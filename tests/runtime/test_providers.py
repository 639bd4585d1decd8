"""Finding models by name, and falling back."""

from typing import Any

import pytest

from taofold.core.content import Conversation, Message
from taofold.core.errors import ConfigError, ModelError, RunError
from taofold.core.values import Profile, Reply
from taofold.runtime import providers as registry
from taofold.runtime.model import FallbackModel, Model, OnText, ReplayModel, Request, Speaker
from taofold.runtime.providers import providers, register_provider, resolve
from taofold.testing import ScriptedModel

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("clean_environment")]


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "OLLAMA_HOST"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def hello() -> Request:
    return Request(Conversation([Message("system", "Be brief."), Message("user", "Hello")]))


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


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("opnai:gpt-4o", r"did you mean 'openai'"),
        ("", r"no model is named.*TAOFOLD_MODEL"),
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


def test_a_bare_name_belongs_to_the_default_provider() -> None:
    assert resolve("gpt-4o", api_key="k").name == "openai:gpt-4o"
    assert resolve("llama3", provider="ollama").name == "ollama:llama3"


def test_a_model_is_itself_and_anything_else_is_not() -> None:
    model = ScriptedModel([])
    assert resolve(model) is model
    with pytest.raises(ConfigError, match="is not a model"):
        resolve(5)  # type: ignore[arg-type]


def foreign_model(model: str) -> ScriptedModel:
    """Makes a model, as the factory of another package does."""
    return ScriptedModel([], name=f"foreign:{model}")


def test_providers_of_other_packages_come_by_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    class Entry:
        name, value = "foreign", f"{__name__}:foreign_model"

    monkeypatch.setattr(
        registry, "installed", lambda group: [Entry] if group == registry.GROUP else []
    )
    assert resolve("foreign:x").name == "foreign:x"
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
    with pytest.raises(
        ConfigError, match="_Half is not a complete model: it lacks name and profile"
    ):
        resolve(_Half())  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"taofold\.testing\.FunctionModel makes one"):
        resolve(lambda request: "x")  # type: ignore[arg-type]

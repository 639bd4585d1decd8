"""Models: lookup by name, fallback order and streaming."""

from typing import Any

import pytest

from taofold import Agent
from taofold.agent import Delta
from taofold.core.content import Conversation, Issuer, Message
from taofold.core.errors import ConfigError, ModelError
from taofold.core.values import ModelSettings, Profile, Reply
from taofold.runtime.model import FallbackModel, OnText, Request, Speaker, ToolSpec, quote
from taofold.runtime.providers import forget_provider, register_provider, resolve
from taofold.testing import ScriptedModel

pytestmark = pytest.mark.anyio

REQUEST = Request(Conversation([Message("user", "go")]))


class Named:
    """A model that answers with its name, or fails."""

    def __init__(
        self, name: str, error: str = "", usd: float | None = 1.0, profile: Profile = Profile()
    ) -> None:
        self.name, self.error, self.usd, self.profile = name, error, usd, profile
        self.asked = 0
        self.issuer: Issuer | None = Issuer("x", "y", name)
        self.retry_after: float | None = None

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        self.asked += 1
        if on_text:
            on_text(self.name)
        if self.error:
            raise ModelError(self.error, kind=self.error, retry_after=self.retry_after)  # type: ignore[arg-type]
        return Reply(self.name, model=self.name)

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        return None if self.usd is None else self.usd * (input_tokens + output_tokens)

    def price_at(self, input_tokens: int, output_tokens: int, tier: str) -> float | None:
        usd = self.price(input_tokens, output_tokens)
        return usd if usd is None or tier != "flex" else usd / 2


@pytest.mark.parametrize(
    ("attempts", "heard"),
    [
        ((["ab", "c"],), "abc"),
        ((["ab"], ["ab", "c"]), "abc"),
        ((["ab"], ["a", "bc", "d"]), "abcd"),
        ((["ab"], ["a", "x", "c"]), "ab"),
        ((["ab"], ["", "abc"]), "abc"),
        ((["ab"], ["x"], ["abc"]), "ab"),
        ((["ab"], [], ["abc"]), "abc"),
    ],
)
def test_what_was_heard_of_a_failed_attempt_is_not_heard_twice(
    attempts: tuple[list[str], ...], heard: str
) -> None:
    pieces: list[str] = []
    speaker = Speaker(pieces.append)
    for attempt in attempts:
        speaker.rewind()
        for delta in attempt:
            speaker(delta)
    assert "".join(pieces) == heard
    assert "" not in pieces


async def test_the_next_model_is_asked_when_one_fails_and_rests() -> None:
    now = [0.0]
    first, second = Named("a", "server"), Named("b")
    model = FallbackModel([first, second], rest=10, clock=lambda: now[0])
    assert model.name == "a | b"
    assert (await model.complete(REQUEST)).text == "b"
    assert (await model.complete(REQUEST)).text == "b"
    assert first.asked == 1, "it rests"
    now[0], first.error = 10.0, ""
    assert (await model.complete(REQUEST)).text == "a"
    first.error, first.retry_after = "rate", 60.0
    await model.complete(REQUEST)
    now[0] = 69.0
    assert (await model.complete(REQUEST)).text == "b", "as long as it asks to be left alone"
    second.error = "server"
    with pytest.raises(ModelError, match=r"b: server; a: rate") as raised:
        await model.complete(REQUEST)
    assert (raised.value.kind, raised.value.retry_after) == ("rate", 60.0)


async def test_an_overflow_is_no_reason_to_ask_another_model() -> None:
    first, second = Named("a", "overflow"), Named("b")
    with pytest.raises(ModelError, match="overflow"):
        await FallbackModel([first, second]).complete(REQUEST)
    assert second.asked == 0


async def test_whoever_answered_last_in_a_conversation_is_asked_first() -> None:
    first, second = Named("a"), Named("b")
    talk = Conversation([Message("user", "x"), Message("assistant", "y", None)])
    model = FallbackModel([first, second])
    assert (await model.complete(Request(talk))).text == "a"
    talk.issuer = second.issuer
    assert (await model.complete(Request(talk))).text == "b"
    first.issuer = None
    talk.issuer = None
    assert (await model.complete(Request(talk))).text == "a"


def test_the_price_of_a_list_is_its_dearest_and_unknown_if_one_is() -> None:
    model = FallbackModel([Named("a", usd=1.0), Named("b", usd=3.0), Named("c", usd=2.0)])
    assert model.price(1, 1) == quote(model, 1, 1) == quote(model, 1, 1, "flex") == 6.0
    some = FallbackModel([Named("a"), Named("b", usd=None)])
    assert some.price(1, 1) is None
    assert quote(ScriptedModel([]), 1, 1, "flex") == ScriptedModel([]).price(1, 1)


def test_a_list_can_do_what_each_of_it_can() -> None:
    able = Profile(native_tools=True, json_schema=True, streaming=True, window=10)
    strict = Profile(native_tools=False, json_schema=True, streaming=False, window=5)
    profile = FallbackModel([Named("a", profile=able), Named("b", profile=strict)]).profile
    assert (profile.native_tools, profile.json_schema, profile.streaming) == (False, True, False)
    assert profile.window == 5
    with pytest.raises(ConfigError, match="at least one"):
        FallbackModel([])


@pytest.mark.parametrize("name", ["", "a:b", " a", "a "])
def test_a_name_that_cannot_stand_before_a_colon_is_no_providers(name: str) -> None:
    with pytest.raises(ConfigError, match="provider's name"):
        register_provider(name, Named)


def test_a_registered_provider_makes_what_is_named_and_goes_when_it_is_forgotten() -> None:
    made: list[Any] = []

    def factory(model: str, **options: Any) -> Named:
        made.append((model, options))
        return Named(model)

    with pytest.raises(ConfigError, match="must be callable"):
        register_provider("ours", "no function")  # type: ignore[arg-type]
    register_provider("ours", factory)
    try:
        assert resolve("ours:llama3:8b").name == "llama3:8b"
        assert resolve(" ours : m ").name == "m"
        assert resolve("m", provider="ours", timeout=3).name == "m"
        assert resolve({"model": "ours:m", "timeout": 5}, timeout=3, base_url="x").name == "m"
        assert resolve(["ours:m"]).name == "m"
        assert resolve(["ours:m", "ours:n"]).name == "m | n"
    finally:
        forget_provider("ours")
    assert made[:4] == [
        *(("llama3:8b", {}), ("m", {}), ("m", {"timeout": 3})),
        ("m", {"timeout": 5, "base_url": "x"}),
    ]
    forget_provider("ours")
    with pytest.raises(ConfigError, match="unknown provider 'ours'"):
        resolve("ours:m")


@pytest.mark.parametrize("spec", ["", "openai:", " : ", {}, {"timeout": 3}, 7, None])
def test_what_names_no_model_is_refused(spec: Any) -> None:
    with pytest.raises(ConfigError):
        resolve(spec)


class Plain(Named):
    """Its author forgot `async`."""

    def complete(self, request: Request, on_text: OnText | None = None) -> Any:  # type: ignore[override]
        return Reply("hello")


@pytest.mark.parametrize("in_list", [False, True])
async def test_a_model_whose_complete_is_a_plain_function_is_named(in_list: bool) -> None:
    model: Any = [Plain("a"), Named("b")] if in_list else Plain("a")
    with pytest.raises(ConfigError, match=r"Plain.complete is not an async function: write `async"):
        await Agent(model, strategy="direct").run("go")


class Returning(Named):
    """A plain function that returns something to await is as good."""

    def complete(self, request: Request, on_text: OnText | None = None) -> Any:  # type: ignore[override]
        return super().complete(request, on_text)


class Raising(Named):
    """A model whose code has a fault."""

    def __init__(self, fault: BaseException) -> None:
        super().__init__("raising")
        self.fault = fault

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        raise self.fault


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (KeyError("reply"), "raised KeyError: 'reply' (test_model.py:"),
        (TimeoutError(), "raised TimeoutError"),
        (SystemExit(3), "raised SystemExit: 3"),
    ],
)
async def test_what_a_model_s_own_code_raises_fails_the_run(
    fault: BaseException, said: str
) -> None:
    result = await Agent(Raising(fault)).run("go")
    assert (result.status, result.success) == ("failed", False)
    assert said in result.error


async def test_after_a_fault_of_a_model_s_own_code_the_next_model_is_asked() -> None:
    model = FallbackModel([Raising(OSError("gone")), Named("second")])
    assert (await model.complete(REQUEST)).text == "second"


async def test_a_test_s_own_assertion_within_a_model_is_raised() -> None:
    with pytest.raises(AssertionError, match="not that"):
        await Agent(Raising(AssertionError("not that"))).run("go")


async def test_what_a_listener_of_a_stream_raises_is_not_the_model_s() -> None:
    def listen(item: object) -> None:
        if isinstance(item, Delta):
            raise ZeroDivisionError("clumsy")

    with pytest.raises(ZeroDivisionError, match="clumsy"):
        await Agent(Named("streams")).run("go", listener=listen)


async def test_a_plain_function_that_returns_a_coroutine_is_a_model() -> None:
    assert (await Agent(Returning("a"), strategy="direct").run("go")).output == "a"


SPEC = ToolSpec("look", "Look.", {"type": "object"})


def test_the_size_of_a_request_is_of_all_that_is_sent() -> None:
    talk = REQUEST.conversation
    alone = Request(talk).size
    assert alone == talk.size
    with_tools = Request(talk, (SPEC,)).size
    with_schema = Request(talk, schema={"type": "object"}).size
    with_both = Request(talk, (SPEC,), {"type": "object"}).size
    assert Request(talk, schema={}).size > alone
    assert alone < with_schema < with_tools < with_both
    longer = Request(talk, (ToolSpec("look", "Look." + "x" * 100, {"type": "object"}),)).size
    assert longer == with_tools + 100
    wide = Request(talk, (ToolSpec("look", "Look." + "é" * 100, {"type": "object"}),)).size
    assert wide == with_tools + 200


def test_what_a_call_asks_for_goes_before_what_its_model_has_and_that_before_the_runs() -> None:
    run = ModelSettings(temperature=0.1, top_p=0.1, max_tokens=1, extra={"a": 1, "b": 1, "c": 1})
    own = ModelSettings(temperature=0.2, top_p=0.2, extra={"a": 2, "b": 2})
    call = ModelSettings(temperature=0.3, extra={"a": 3})
    request = Request(REQUEST.conversation, settings=run, overrides=call)
    assert request.asked(own) == ModelSettings(
        temperature=0.3, top_p=0.2, max_tokens=1, extra={"a": 3, "b": 2, "c": 1}
    )
    assert request.asked() == ModelSettings(
        temperature=0.3, top_p=0.1, max_tokens=1, extra={"a": 3, "b": 1, "c": 1}
    )

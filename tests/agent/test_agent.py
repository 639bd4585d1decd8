"""The front door: describing an agent, its result, its stream, TAgent's names."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import BaseModel

from taofold import (
    Agent,
    Hook,
    Limits,
    MemoryLog,
    Outcome,
    Principal,
    RunContext,
    Tier,
    register_custom_action,
    tool,
)
from taofold.core import events as e
from taofold.core.errors import ConfigError, RunFailed
from taofold.core.values import Message, Profile, Reply, Usage
from taofold.runtime import providers as registry
from taofold.runtime.providers import register_provider
from taofold.runtime.trace_context import TRACEPARENT
from taofold.testing import FunctionModel, ScriptedModel
from taofold.tools.discovery import DiscoveryWarning
from taofold.tools.toolset import forget_action
from tests.runtime.kit import Memo, act, events, finish

pytestmark = pytest.mark.anyio


class Found(BaseModel):
    name: str
    count: int


def hello(state: dict[str, Any], args: dict[str, Any]) -> tuple[str, str] | None:
    """Say hello."""
    return "greeting", f"hello {args['name']}"


@pytest.mark.scenario("TAG-05", "TAG-08", "TEA-31")
async def test_a_state_tool_gets_a_mapping_and_its_pair_enters_the_state() -> None:
    seen: list[Any] = []

    def spy(state: dict[str, Any], args: dict[str, Any]) -> None:
        """Spy."""
        seen.append((state, args))
        state["stolen"] = True

    script = [act("hello", name="Ann"), act("spy", x=1), finish()]
    result = await Agent(
        Memo(script), tools=[tool(effect="read")(hello), tool(effect="read")(spy)]
    ).run("g", data={"k": 1})
    assert result.state.data == {"k": 1, "greeting": "hello Ann"}
    state, args = seen[0]
    assert args == {"x": 1}
    assert state == {
        "goal": "g",
        "results": ["hello Ann"],
        "used_tools": ["hello", "spy"],
        "achieved": False,
        "k": 1,
        "greeting": "hello Ann",
        "stolen": True,
    }
    assert "unchanged" in result.steps[1].observations[0].extraction


@pytest.mark.scenario("TAG-18", "PEER-09")
async def test_the_output_is_of_its_type_or_the_run_says_why_not() -> None:
    result = await Agent(Memo([finish({"name": "a", "count": "3"})]), output=Found).run("g")
    assert result.output == Found(name="a", count=3)
    bad = await Agent(Memo([finish({"name": "a"})] * 3), output=Found).run("g")
    assert bad.status == "failed"
    assert bad.output_or_none is None
    assert "count" in bad.error
    assert '"name": "a"' in events(bad, e.Replied)[-1].text


@pytest.mark.scenario("TAG-30")
async def test_tokens_and_cost_are_summed_by_model() -> None:
    model = Memo([act("look"), finish()], usd=(1000.0, 1000.0))

    @tool(effect="read")
    def look() -> str:
        """Look."""
        return "x"

    result = await Agent(model, tools=[look]).run("g")
    assert result.usage.tokens == 220
    assert result.usage.usd == pytest.approx(0.22)
    assert result.usage_by_model["memo:model"].tokens == 220


def _asking(inner: Agent[Any, str], **options: Any) -> Agent[Any, str]:
    """An agent that asks `inner` once and answers."""
    asking = Reply(act("inner", goal="x"), usage=Usage(5000, 0))
    model = Memo([asking, finish()], name="memo:outer")
    return Agent(model, name="outer", tools=[inner], **options)


async def test_tokens_of_agents_that_were_asked_are_summed_by_model_too() -> None:
    inner = Agent(Memo([finish()], name="memo:inner"), name="inner")
    result = await _asking(inner, log="memory").run("g")
    by_model = {name: usage.tokens for name, usage in result.usage_by_model.items()}
    assert by_model == {"memo:outer": 5110, "memo:inner": 110}
    assert sum(by_model.values()) == result.usage.tokens


@pytest.mark.parametrize(
    ("own", "caller", "whose"),
    [
        (Limits(tokens=1), Limits(), "raise limits.tokens of agent 'inner'"),
        (Limits(), Limits(tokens=5100), "of the agent that called 'inner' (it had no more left)"),
    ],
)
async def test_a_limit_of_an_agent_that_was_asked_says_whose_it_is(
    own: Limits, caller: Limits, whose: str
) -> None:
    inner = Agent(Memo([finish()], name="memo:inner"), name="inner", limits=own)
    result = await _asking(inner, limits=caller).run("g")
    text = result.steps[0].observations[0].result
    assert text.startswith("agent 'inner': ")
    assert whose in text


@pytest.mark.scenario("TAG-25")
async def test_a_provider_registered_by_name_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})  # other tests list the providers
    register_provider("acme", lambda model, **options: ScriptedModel([finish(model)]))
    assert (await Agent("acme:large").run("g")).output == "large"


@pytest.mark.scenario("TAG-24")
async def test_a_custom_action_runs_and_an_unregistered_name_is_an_observation() -> None:
    @tool(effect="read")
    def ring() -> str:
        """Ring."""
        return "dring"

    register_custom_action("bell", ring)
    try:
        result = await Agent(Memo([act("bell"), act("gong"), finish()])).run("g")
    finally:
        forget_action("bell")
    assert result.steps[0].observations[0].result == "dring"
    assert "gong" in str(result.steps[1].observations[0].result)


@pytest.mark.scenario("TAG-01", "TAG-02")
async def test_an_agent_discovers_tools_and_says_what_it_cannot_use(tmp_path: Path) -> None:
    code = "def hi(state, args):\n    'Hi.'\n    return 'hi', 1\ndef bad(query):\n    'No.'\n"
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "tagent.tools.py").write_text(code, encoding="utf-8")
    agent = Agent(Memo([act("hi"), finish()]), discover=tmp_path)
    with pytest.warns(DiscoveryWarning, match="bad"):
        result = await agent.run("g")
    assert result.status == "waiting"  # nothing found this way runs unasked
    assert agent.toolset["hi"].tier == Tier.CARD
    assert Agent("m:m").toolset.names == ()


@pytest.mark.scenario("PEER-32")
async def test_run_sync_works_inside_a_running_loop() -> None:
    agent = Agent(ScriptedModel([finish("one"), finish("two")]))
    assert agent.run_sync("g").output == "one"
    assert (await asyncio.to_thread(agent.run_sync, "g")).output == "two"


async def test_run_sync_inside_a_loop_has_the_callers_context() -> None:
    token = TRACEPARENT.set("00-" + "a" * 32 + "-" + "b" * 16 + "-01")
    try:
        result = Agent(ScriptedModel([finish("one")])).run_sync("g")
    finally:
        TRACEPARENT.reset(token)
    assert "a" * 32 in str(result.records[0].event)


def test_run_sync_works_without_a_loop_and_raises_what_happened() -> None:
    assert Agent(ScriptedModel([finish("one")])).run_sync("g").output == "one"
    with pytest.raises(ConfigError):
        Agent("nobody:knows").run_sync("g")


@pytest.mark.parametrize(
    ("options", "cure"),
    [
        ({"limits": {"steps": 3}}, "write limits=Limits"),
        ({"tools": len}, r"write tools=\[add\]"),
        ({"tools": "files"}, r"write tools=\[add\]"),
        ({"hooks": Hook()}, r"write hooks=\[Guard\(\)\]"),
        ({"secrets": "hunter2"}, r"write secrets=\[token\]"),
        ({"secrets": None}, r"write secrets=\[token\]"),
        ({"policy": None}, r"policy: write policy=Policy\(…\) or leave it out"),
        ({"policy": {"autonomy": "balanced"}}, "policy: write policy=Policy"),
        (
            {"instructions": None},
            "function of the run's context, not None",
        ),
        ({"instructions": str}, "instructions: is a text, or a function"),
        ({"name": None}, "name: is a text"),
        ({"models": None}, "models: is a mapping"),
        ({"extra": None}, "extra: is a mapping"),
        ({"strategy": None}, "strategy: is a name or a function"),
        ({"base_url": 3}, "base_url: is a text, not 3"),
        ({"discover": 3}, "discover: is a folder or a list of folders, not 3"),
        ({"discover": ["tools", 3]}, "discover: is a folder or a list of folders"),
        ({"log": 3}, "log: is a log, a path or 'memory', not 3"),
        ({"approve": 3}, "approve: is a callback, 'terminal' or 'all', not 3"),
        ({"approve": "nobody"}, "approve: is a callback"),
        ({"output": 3}, "output: is a type, not 3"),
        ({"output": [int]}, "output: is a type"),
        ({"ask_user": 3}, "ask_user: is True or False, not 3"),
        ({"ask_user": "false"}, "ask_user: is True or False"),
        ({"research": "no"}, "research: is True or False"),
        ({"cache": 1}, "cache: is True or False"),
        ({"raise_on_limit": "no"}, "raise_on_limit: is True or False"),
        ({"strict": "no"}, "strict: is True or False"),
        ({"tools": {"add": len}}, r"write tools=\[add\]"),
    ],
)
def test_what_is_easily_mistaken_is_said_where_it_is_written(options: Any, cure: str) -> None:
    with pytest.raises(ConfigError, match=cure):
        Agent("ollama:x", **options)


@pytest.mark.parametrize(
    ("principal", "cure"),
    [
        ("ada", r"^principal: is a Principal, such as Principal\('ada'\), not 'ada'"),
        (Principal("ada", cast("Any", "USER")), r"^principal: .*write roles=\('USER',\)"),
    ],
)
def test_a_mistaken_principal_is_refused_before_the_run(principal: Any, cure: str) -> None:
    log = MemoryLog()
    with pytest.raises(ConfigError, match=cure):
        Agent(ScriptedModel([]), log=log).run_sync("g", principal=principal)
    assert not asyncio.run(log.rows())


def test_a_secret_of_the_wrong_kind_is_not_said() -> None:
    with pytest.raises(ConfigError, match="secrets") as caught:
        Agent("ollama:x", secrets=["hunter2", 3])  # type: ignore[list-item]
    assert "hunter2" not in str(caught.value)


def test_tools_of_a_generator_are_not_used_up_by_a_look() -> None:
    @tool(effect="read")
    def who() -> str:
        """Who."""
        return "me"

    assert Agent("ollama:x", tools=(t for t in [who])).toolset.names == ("who",)  # type: ignore[arg-type]


def test_another_model_is_looked_for_at_the_same_address_if_it_is_named() -> None:
    agent = Agent("vllm:a", base_url="http://127.0.0.1:9/v1")
    assert agent.replace(model="vllm:b").base_url == agent.base_url
    assert agent.replace(model=ScriptedModel(["x"])).run_sync("hello").output == "x"


async def test_every_fault_is_found_before_the_first_call() -> None:
    def no_doc(*args: Any) -> None: ...

    model = Memo([finish()])
    with pytest.raises(ExceptionGroup) as caught:
        await Agent(model, tools=[3, int, no_doc]).run("g")
    assert len(caught.value.exceptions) == 3
    assert model.asked == []
    with pytest.raises(ConfigError, match="strategy"):
        await Agent(model, strategy="magic").run("g")
    with pytest.raises(ConfigError, match="approve"):
        await Agent(model, approve="nobody").run("g")


async def test_dependencies_reach_the_tool() -> None:
    @tool(effect="read")
    def who(ctx: RunContext[str]) -> str:
        """Who."""
        return f"{ctx.deps} {ctx.step} {ctx.principal.id}"

    result = await Agent[str, str](Memo([act("who"), finish()]), tools=[who]).run("g", deps="dep")
    assert result.steps[0].observations[0].result == "dep 1 local"


@pytest.mark.scenario("RCT-21")
async def test_ui_context_stands_before_the_message_and_is_bounded() -> None:
    model = Memo([finish(), finish()])
    agent = Agent(model)
    await agent.run("hello", ui_context="page 3 " + "x" * 5000)
    said = model.asked[0][-1].content
    assert said.startswith("[UI Context: page 3 ")
    assert said.endswith("]\nhello")
    assert len(said) < 2100
    await agent.run("hello")
    assert model.asked[1][-1].content == "hello"


async def test_history_stands_before_the_goal() -> None:
    model = Memo([finish()])
    await Agent(model).run("now", history=[Message("user", "before"), Message("assistant", "yes")])
    assert [m.content for m in model.asked[0][1:]] == ["before", "yes", "now"]


@pytest.mark.scenario("PEER-31", "RCT-19")
async def test_secrets_are_gone_before_anything_is_written() -> None:
    secret = "hunter2-hunter2"
    key = "sk-" + "a" * 40
    log = MemoryLog()

    @tool(effect="read")
    def leak(text: str) -> Outcome:
        """Leak."""
        return Outcome({"text": text, "key": key}, update=("kept", secret))

    model = Memo([act("leak", f"the word is {secret}", text=secret), finish(f"{secret} {key}")])
    agent = Agent(model, tools=[leak], secrets=[secret], log=log)
    stream = agent.stream(f"use {secret}", data={"s": secret})
    seen = [h async for h in stream if isinstance(h, e.Record)]
    records = await log.read(stream.result.run_id)
    for text in (repr(records), repr(seen), repr(stream.result)):
        assert secret not in text
        assert key not in text
    assert "[redacted]" in str(stream.result.output)


async def test_the_cache_is_off_by_default() -> None:
    calls: list[int] = []

    def reply(request: Any) -> Reply:
        calls.append(1)
        return Reply(finish("x"), usage=Usage(10, 1))

    plain = Agent(FunctionModel(reply))
    await plain.run("g")
    await plain.run("g")
    assert len(calls) == 2
    cached = Agent(FunctionModel(reply), cache=True)
    first, second = await cached.run("g"), await cached.run("g")
    assert len(calls) == 3
    assert second.output == first.output
    assert second.usage.tokens == 0
    assert second.state.model_calls == 0
    assert events(second, e.Replied)[0].cached


async def test_a_cached_reply_is_for_the_same_tools() -> None:
    calls: list[int] = []

    def reply(request: Any) -> Reply:
        calls.append(1)
        return Reply(finish("x"), usage=Usage(10, 1))

    def made(kind: Any) -> Any:
        def look(at: kind) -> str:
            """Look."""
            return "x"

        return look

    model = FunctionModel(reply, profile=Profile(native_tools=True, window=9000, window_known=True))
    one = Agent(model, cache=True, tools=[made(int)])
    other = Agent(model, cache=True, tools=[made(str)])
    other.__dict__["replies"] = one.replies
    await one.run("g")
    await other.run("g")
    assert len(calls) == 2


@pytest.mark.scenario("TAG-26")
async def test_models_by_role_are_resolved() -> None:
    agent = Agent(Memo([finish()]), models={"critic": Memo([], usd=None, name="dear:one")})
    with pytest.raises(ConfigError, match="dear:one"):
        await agent.replace(limits=Limits(usd=1)).run("g")


async def test_leaving_a_stream_early_cancels_the_run() -> None:
    log = MemoryLog()
    agent = Agent(Memo([act("nope"), finish()]), log=log)
    stream = agent.stream("g", run_id="r")
    happenings = aiter(stream)
    await anext(happenings)
    await happenings.aclose()  # type: ignore[attr-defined]
    assert (await log.row("r")).status in ("cancelled", "limited", "finished")
    with pytest.raises(RuntimeError, match="not ended"):
        _ = stream.result


async def test_the_output_of_a_run_that_has_none_is_an_error_that_says_why() -> None:
    """Mutants: it is None; the message omits how the run ended."""
    failed = await Agent(ScriptedModel(["?", "?", "?", "?"]), output=int).run("g")
    assert failed.output_or_none is None
    with pytest.raises(RunFailed, match=rf"{failed.run_id} has no output: failed") as caught:
        failed.output  # noqa: B018 - asked for
    assert caught.value.result is failed

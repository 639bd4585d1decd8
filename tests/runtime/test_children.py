"""Agents as tools of agents: own logs, one budget, one policy, one principal (D15)."""

import asyncio
from typing import Any

import pytest

from taofold import (
    Agent,
    Decision,
    Limits,
    MemoryLog,
    Policy,
    Principal,
    RunContext,
    Tier,
    Toolset,
    tool,
)
from taofold.core import events as e
from taofold.core.errors import ConfigError
from taofold.core.state import fold
from taofold.core.values import Reply, Usage
from taofold.runtime.control import decide, pending
from taofold.testing.replay import assert_replays

from .kit import Memo, act, batch, events, finish, planted

pytestmark = pytest.mark.anyio
DONE: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    DONE.clear()


@tool(effect="read")
def look(ctx: RunContext, what: str = "x") -> str:
    """Look."""
    DONE.append((what, ctx.principal.id, ctx.run_id))
    return f"{what} {len(DONE)}"


@tool(tier=3)
def pay(amount: int) -> str:
    """Pay."""
    DONE.append(amount)
    return "paid"


def child(*script: Any, **options: Any) -> Agent[Any, Any]:
    options.setdefault("tools", [look, pay])
    options.setdefault("name", "helper")
    return Agent(Memo(script), **options)


def parent(*script: Any, **options: Any) -> Agent[Any, Any]:
    options.setdefault("log", MemoryLog())
    return Agent(Memo(script), **options)


@pytest.mark.scenario("PEER-08")
async def test_a_childs_usage_and_calls_are_summed_in_the_parent() -> None:
    agent = parent(
        act("helper", goal="help"),
        finish(),
        tools=[child(act("look"), finish("found"), tools=[look])],
    )
    result = await agent.run("goal", principal=Principal("alice"))
    assert result.steps[0].observations[0].result == "found"
    assert result.usage.tokens == 4 * 110
    assert (result.state.child_model_calls, result.state.child_tool_calls) == (2, 1)
    assert DONE[0][1] == "alice"
    assert DONE[0][2] != result.run_id
    rows = await result.log.rows(parent=result.run_id)
    assert len(rows) == 1
    assert rows[0].status == "finished"
    await assert_replays(agent, result)


@pytest.mark.scenario("PEER-07")
@pytest.mark.parametrize("depth", [1, 2])
async def test_a_childs_approval_surfaces_on_the_parent_and_resuming_continues_it(
    depth: int,
) -> None:
    inner = paying = child(act("look"), act("pay", amount=5), finish("paid by child"))
    for _ in range(depth - 1):
        inner = child(act("helper", goal="x"), finish("passed on"), tools=[inner])
    agent = parent(act("helper", goal="pay"), finish(), tools=[inner])
    result = await agent.run("goal")
    assert (result.status, result.stop_reason) == ("waiting", "awaiting_approval")
    # The request shows the child's own call. It is visible in the parent's result and among the
    # waiting items of the parent's run.
    (asked,) = result.pending
    assert (asked.action.tool, asked.action.parameters) == ("pay", {"amount": 5})
    assert asked.run != result.run_id
    assert await pending(result.log, result.run_id) == [asked]
    assert len(DONE) == 1, "only what it looked at"
    asked_so_far = len(paying.model.asked)  # type: ignore[union-attr]
    await decide(result.log, asked.id, Decision("approve"))
    done = await agent.resume(result)
    assert (done.run_id, done.success) == (result.run_id, True)
    assert DONE[1:] == [5], "the earlier call is not made again"
    assert len(paying.model.asked) == asked_so_far + 1, "nor its model asked again"  # type: ignore[union-attr]
    assert done.steps[0].observations[0].result == ("paid by child" if depth == 1 else "passed on")
    assert await pending(result.log, result.run_id) == []
    await assert_replays(agent, done)


@pytest.mark.scenario("PEER-07")
async def test_a_childs_call_that_is_denied_on_the_parent_continues_the_child_too() -> None:
    agent = parent(
        act("helper", goal="pay"),
        finish(),
        tools=[child(act("pay", amount=5), finish("I was not allowed to"))],
    )
    result = await agent.run("goal")
    await decide(result.log, result.pending[0].id, Decision("deny", reason="too much"))
    done = await agent.resume(result)
    assert (done.success, DONE) == (True, [])
    assert done.steps[0].observations[0].result == "I was not allowed to"


async def test_the_parents_callback_serves_the_child() -> None:
    asked: list[str] = []

    def approve(request: Any) -> bool:
        asked.append(request.action.tool)
        return True

    helper = child(act("pay", amount=5), finish())
    result = await parent(act("helper", goal="pay"), finish(), tools=[helper], approve=approve).run(
        "goal"
    )
    assert result.success
    assert DONE == [5]
    assert "pay" in asked


async def test_a_childs_call_is_asked_about_once() -> None:
    """The parent's call of the child needs no second approval."""
    helper = child(act("pay", amount=5), finish("paid"))
    agent = parent(act("helper", goal="pay"), finish(), tools=[helper])
    result = await agent.run("goal")
    assert [one.action.tool for one in result.pending] == ["pay"]
    await decide(result.log, result.pending[0].id, Decision("approve"))
    done = await agent.resume(result)
    assert (done.success, DONE) == (True, [5])
    await assert_replays(agent, done)


def raised(helper: Agent[Any, Any]) -> dict[str, Any]:
    return {"tools": [Toolset.of(helper.as_tool()).with_tier(3, "helper")]}


def named(helper: Agent[Any, Any]) -> dict[str, Any]:
    return {"tools": [helper], "policy": Policy(tiers={"helper": Tier.CONFIRM})}


def in_production(helper: Agent[Any, Any]) -> dict[str, Any]:
    tiers = {"helper": Tier.CONFIRM}
    return {"tools": [helper], "policy": Policy(production=True, production_tiers=tiers)}


@pytest.mark.parametrize("means", [raised, named, in_production])
async def test_a_tier_that_somebody_gave_to_an_agent_asks_about_its_call(means: Any) -> None:
    helper = child(act("pay", amount=5), finish("paid"))
    result = await parent(act("helper", goal="pay"), finish(), **means(helper)).run("goal")
    assert [one.action.tool for one in result.pending] == ["helper"]


async def test_a_child_that_approves_for_itself_is_asked_about_as_a_whole() -> None:
    helper = child(act("pay", amount=5), finish("paid"), approve="all")
    result = await parent(act("helper", goal="pay"), finish(), tools=[helper]).run("goal")
    assert [one.action.tool for one in result.pending] == ["helper"]
    assert DONE == []


async def test_a_conservative_callers_child_asks_about_each_write_itself() -> None:
    @tool(effect="idempotent", tier=1, reversible=True)
    def label(name: str) -> str:
        """Label."""
        DONE.append(name)
        return "labelled"

    helper = child(act("label", name="x"), finish(), tools=[label])
    policy = Policy(autonomy="conservative")
    agent = parent(act("helper", goal="x"), finish(), tools=[helper], policy=policy)
    result = await agent.run("goal")
    assert [one.action.tool for one in result.pending] == ["label"]
    assert DONE == []


async def test_the_tier_of_an_agent_tool_is_the_highest_of_its_tools() -> None:
    assert child().as_tool().tier == 3
    assert child(tools=[look]).as_tool().tier == 1


@pytest.mark.scenario("PEER-08")
async def test_a_childs_limits_are_the_parents_remainder() -> None:
    eager = child(*[act("look", what=str(n)) for n in range(9)], finish(), tools=[look])
    agent = parent(
        act("helper", goal="x"), finish("w"), tools=[eager], limits=Limits(tool_calls=4, steps=5)
    )
    result = await agent.run("goal")
    assert len(DONE) == 3
    assert result.state.tool_calls + result.state.child_tool_calls == 4


@pytest.mark.parametrize("siblings", [2, 3])
async def test_parallel_children_cannot_overspend(siblings: int) -> None:
    def spender(name: str) -> Agent[Any, Any]:
        return child(
            *[Reply(act("look", what=f"{name}{n}"), usage=Usage(1000, 0)) for n in range(30)],
            tools=[look],
            name=name,
            limits=Limits(steps=40, tool_calls=40),
        )

    names = [f"c{n}" for n in range(siblings)]
    agent = parent(
        Reply(batch(*[(name, {"goal": "spend"}) for name in names]), usage=Usage(1000, 0)),
        finish(),
        tools=[spender(name) for name in names],
        limits=Limits(steps=50, tokens=20_000, tool_calls=12, model_calls=14),
    )
    result = await agent.run("goal")
    state = result.state
    assert state.tool_calls + state.child_tool_calls <= 12
    assert state.model_calls + state.child_model_calls <= 14
    assert result.usage.tokens <= 20_000 + 110
    assert state.child_tool_calls >= 6, "the reservation starves the children"


async def test_parallel_children_cannot_overspend_dollars() -> None:
    def spender(name: str) -> Agent[Any, Any]:
        replies = [act("look", what=f"{name}{n}") for n in range(60)]
        agent = child(*replies, tools=[look], name=name, limits=Limits(steps=70), max_tokens=10)
        agent.model.usd = (100.0, 100.0)
        return agent

    first = batch(("c0", {"goal": "x"}), ("c1", {"goal": "y"}))
    agent = parent(
        first,
        finish(),
        tools=[spender("c0"), spender("c1")],
        limits=Limits(usd=0.5, steps=9),
        max_tokens=10,
    )
    result = await agent.run("goal")
    assert 0.2 < result.usage.usd <= 0.5


async def test_a_parent_reads_why_its_child_ended_where_it_stands_and_what_it_saw() -> None:
    eager = child(
        *[act("look", what=f"n{n}") for n in range(9)], tools=[look], limits=Limits(steps=3)
    )
    agent = parent(act("helper", goal="x"), finish("w"), tools=[eager])
    result = await agent.run("g")
    read = result.steps[0].observations[0]
    assert agent.log is not None
    assert not isinstance(agent.log, str)
    (row,) = await agent.log.rows(parent=result.run_id)
    assert read.status == "failure"
    assert f"The run {row.run} of agent 'helper' ended as max_steps." in read.result
    assert "all 3 steps were used: raise limits.steps" in read.result
    assert "- look [success] n0" in read.result
    assert "- look [success] n1" in read.result


async def test_an_agent_among_its_own_tools_is_a_fault_of_the_configuration() -> None:
    tools: list[Any] = []
    agent = Agent(Memo([]), tools=tools)
    tools.append(Agent(Memo([]), name="between", tools=[agent]))
    with pytest.raises(ConfigError, match="'agent' is among its own tools"):
        await agent.run("g")
    with pytest.raises(ConfigError, match="among its own tools"):
        agent.as_tool()


async def test_the_childs_policy_is_the_tighter_of_both() -> None:
    for policies in (
        (Policy(deny=frozenset({"look"})), Policy()),
        (Policy(), Policy(deny=frozenset({"look"}))),
    ):
        helper = child(act("look"), finish("no"), tools=[look], policy=policies[1])
        await parent(act("helper", goal="x"), finish(), tools=[helper], policy=policies[0]).run(
            "goal"
        )
        assert DONE == []


@pytest.mark.parametrize("depth", [0, 1, 3])
async def test_agents_call_agents_only_so_deep(depth: int) -> None:
    agent = child(act("look"), finish("bottom"), tools=[look])
    for _ in range(4):
        agent = child(act("helper", goal="down"), finish("up"), tools=[agent])
    agent = agent.replace(log=MemoryLog(), limits=Limits(depth=depth))
    result = await agent.run("goal")
    assert result.status == "finished"
    assert DONE == []
    runs = await result.log.rows(limit=0)
    assert len(runs) == depth + 1


async def test_a_child_that_fails_is_a_failed_observation() -> None:
    helper = child('{"action": {"tool": ', '{"action": {"tool": ', '{"action": {"tool": ')
    result = await parent(
        act("helper", goal="x"),
        act("finish", "it failed", "exception", answer="no"),
        tools=[helper],
        approve="all",
    ).run("goal")
    assert result.steps[0].observations[0].status == "failure"
    assert result.success


async def test_a_childs_records_are_interleaved_in_the_parents_stream() -> None:
    helper = child(act("look"), finish(), tools=[look])
    agent = parent(act("helper", goal="x"), finish(), tools=[helper])
    seen = [h async for h in agent.stream("goal") if isinstance(h, e.Record)]
    assert len({record.run for record in seen}) == 2
    for run in {record.run for record in seen}:
        assert [r.seq for r in seen if r.run == run] == list(range(sum(r.run == run for r in seen)))


async def test_a_cancelled_parent_keeps_its_childs_state_and_can_go_on() -> None:
    entered, release = asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def wait() -> str:
        """Wait."""
        entered.set()
        await release.wait()
        return "waited"

    helper = child(act("wait"), finish("c"), tools=[wait])
    agent = parent(act("helper", goal="x"), finish(), tools=[helper])
    task = asyncio.create_task(agent.run("goal", run_id="r"))
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    rows = await agent.log.rows(limit=0)
    assert {row.status for row in rows} == {"cancelled"}
    release.set()
    result = await agent.resume("r")
    assert result.success
    assert fold(await agent.log.read("r")).status == "finished"
    assert events(result, e.Observed)[0].observation.result == "c"


@pytest.mark.scenario("PEER-18")
async def test_a_fork_repeats_no_finished_child_and_starts_new_ones_of_its_own() -> None:
    helper = child(act("look"), finish("one"), act("look"), finish("two"), tools=[look])
    script = (act("helper", goal="x"), act("helper", "again", goal="y"), finish())
    agent = parent(*script, tools=[helper])
    whole = await agent.run("goal", run_id="r")
    at = next(r.seq for r in whole.records if isinstance(r.event, e.Observed))
    before = await agent.log.read((await agent.log.rows(parent="r"))[-1].run)
    helper.model.known.clear()
    helper.model.script = iter([act("look"), finish("three")])
    agent.model.script = iter([finish()])
    forked = await agent.fork(whole, at=at, run_id="f")
    assert [s.observations[0].result for s in forked.steps][:2] == ["one", "three"]
    assert len(await agent.log.rows(parent="f")) == 1
    assert await agent.log.read((await agent.log.rows(parent="r"))[-1].run) == before


async def test_a_child_that_ends_while_its_parent_is_resumed_has_its_result() -> None:
    """Another process drove it, and ended it between our look and our resume."""
    inner = Agent(Memo([finish("seven")]), name="inner")
    log = MemoryLog()
    first = await outer_of(inner, log).run("goal", run_id="r")
    (child,) = [row.run for row in await log.rows(parent="r")]
    ended = await log.read(child)
    open_call = next(r.seq for r in first.records if isinstance(r.event, e.Started)) + 1

    class Late(MemoryLog):
        """Shows the child as it was a moment ago, once."""

        looked = False

        async def read(self, run: str, *args: Any, **options: Any) -> Any:
            records = await super().read(run, *args, **options)
            if run == child and not self.looked:
                self.looked = True
                return records[:-1]
            return records

    late = Late()
    await planted([*ended, *first.records[:open_call]], late)
    result = await outer_of(inner, late).resume("r", takeover=True)
    assert late.looked
    assert (result.status, result.steps[0].observations[0].result) == ("finished", "seven")


def outer_of(inner: Agent[Any, Any], log: MemoryLog) -> Agent[Any, Any]:
    return Agent(Memo([act("inner", goal="x"), finish()]), tools=[inner], log=log)

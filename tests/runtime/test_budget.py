"""Budgets that hold: what a call may cost at most, children's calls, what is spent for good."""

import asyncio
from typing import Any

import pytest

from taofold import Agent, Limits, MemoryLog, tool
from taofold.core.effects import Answer, Strategy, fork
from taofold.core.effects import act as do
from taofold.core.errors import ModelError
from taofold.core.events import LimitHit
from taofold.core.state import fold
from taofold.core.values import Action, Profile, Reply, Thought, Usage
from taofold.reasoning import Task
from taofold.runtime import run as runs
from taofold.runtime.model import Request
from taofold.testing import FunctionModel, ScriptedModel
from taofold.tools import InputRequired

from .kit import act, batch, finish

pytestmark = pytest.mark.anyio


async def test_the_dollar_bound_counts_bytes_and_bounds_the_reply() -> None:
    asked: list[Request] = []

    def reply(request: Request) -> Reply:
        asked.append(request)
        return Reply(text=finish())

    model = FunctionModel(reply, usd=(10.0, 10.0))
    agent = Agent(model, limits=Limits(usd=0.12))
    assert (await agent.run("目标" * 5000)).stop_reason == "max_usd"
    assert not asked
    assert (await agent.run("goal")).success
    assert asked[0].asked().max_tokens == 4096


async def test_children_share_the_bound_of_a_tool() -> None:
    ran: list[str] = []

    @tool(effect="read")
    def look(what: str = "it") -> str:
        """Look."""
        ran.append(what)
        return f"seen {len(ran)}"

    kid = Agent(
        FunctionModel(lambda rq: act("look", what="x") if len(rq.conversation) < 4 else finish()),
        tools=[look],
        name="kid",
    )
    script = [act("kid", goal="a"), act("kid", goal="b"), act("look", what="c"), finish()]
    agent = Agent(ScriptedModel(script), tools=[kid, look], limits=Limits(per_tool={"look": 1}))
    result = await agent.run("goal")
    assert len(ran) == 1
    assert result.state.per_tool["look"] == 1


@pytest.mark.parametrize("siblings", [2, 3])
@pytest.mark.parametrize("bound", range(6))
@pytest.mark.parametrize("how", ["batch", "fork"])
async def test_children_at_once_share_the_bound_of_a_tool_to_the_last_call(
    how: str, bound: int, siblings: int
) -> None:
    """Mutants: shares rounded down; unclaimed shares; replayed branches that count again."""
    ran: list[str] = []

    @tool(effect="read")
    async def look(what: str) -> str:
        """Look."""
        ran.append(what)
        await asyncio.sleep(0)
        return f"seen {what}"

    def eager(request: Request) -> str:
        turn = len(request.conversation)
        return act("look", what=f"thing {turn}") if turn < 16 else finish()

    def together(task: Task) -> Strategy[Answer]:
        def branch(number: int) -> Strategy[None]:
            yield from do(Thought("I ask", "progress"), Action("kid", {"goal": str(number)}))

        yield from fork([branch(number) for number in range(siblings)])
        return Answer("done")

    kid = Agent(FunctionModel(eager), tools=[look], name="kid", limits=Limits(steps=9))
    script = [batch(*[("kid", {"goal": str(n)}) for n in range(siblings)]), finish()]
    agent = Agent(
        ScriptedModel(script),
        tools=[kid, look],
        limits=Limits(per_tool={"look": bound}),
        strategy=together if how == "fork" else "react",
    )
    result = await agent.run("goal")
    assert len(ran) == bound
    assert result.state.per_tool.get("look", 0) == bound


async def test_a_share_is_not_kept_for_a_branch_that_asks_nobody() -> None:
    """Mutant: shares rounded down."""
    ran: list[str] = []

    @tool(effect="read")
    def look(what: str = "it") -> str:
        """Look."""
        ran.append(what)
        return "seen"

    def together(task: Task) -> Strategy[Answer]:
        def one() -> Strategy[None]:
            yield from do(Thought("I ask", "progress"), Action("kid", {"goal": "x"}))

        def two() -> Strategy[None]:
            yield from do(Thought("I look", "progress"), Action("nothing", {}))
            return None

        yield from fork([one(), two()])
        return Answer("done")

    kid = Agent(ScriptedModel([act("look"), finish()]), tools=[look], name="kid")
    agent = Agent(
        ScriptedModel([]), tools=[kid], limits=Limits(per_tool={"look": 1}), strategy=together
    )
    await agent.run("goal")
    assert ran == ["it"]


def pausing(log: MemoryLog) -> Any:
    """Returns a tool that waits until a child of run `r` waits and its parent has noticed."""

    @tool(effect="read")
    async def pause() -> str:
        """Pause."""
        while [row.status for row in await log.rows(parent="r")] != ["waiting"]:  # noqa: ASYNC110
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        return "it waits"

    return pause


async def test_the_share_of_a_child_that_waits_is_kept_for_it() -> None:
    """Mutant: what a waiting child holds is given to others."""
    ran: list[str] = []
    log = MemoryLog()

    @tool(effect="read")
    def look(what: str) -> str:
        """Look."""
        ran.append(what)
        return f"seen {what}"

    @tool(effect="read")
    def wonder() -> str:
        """Wonder."""
        raise InputRequired("Why?")

    def waits(request: Request) -> str:
        return [act("look", what="a"), act("wonder"), finish()][len(request.conversation) // 2 - 1]

    def together(task: Task) -> Strategy[Answer]:
        def one() -> Strategy[None]:
            yield from do(Thought("I ask", "progress"), Action("patient", {"goal": "x"}))

        def two() -> Strategy[None]:
            for name, said in (("pause", {}), ("kid", {"goal": "x"}), ("kid", {"goal": "y"})):
                yield from do(Thought("I ask", "progress"), Action(name, said))

        yield from fork([one(), two()])
        return Answer("done")

    patient = Agent(FunctionModel(waits), tools=[look, wonder], name="patient")
    kid = Agent(
        FunctionModel(lambda rq: act("look", what="b") if len(rq.conversation) < 4 else finish()),
        tools=[look],
        name="kid",
    )
    agent = Agent(
        ScriptedModel([]),
        tools=[patient, kid, pausing(log)],
        limits=Limits(per_tool={"look": 2}),
        strategy=together,
        log=log,
    )
    result = await agent.run("goal", run_id="r")
    assert result.status == "waiting"
    assert sorted(ran) == ["a", "b"]


async def test_what_a_rewound_child_spent_stays_spent() -> None:
    log = MemoryLog()
    kid = Agent(
        FunctionModel(lambda rq: Reply(text=finish(), usage=Usage(100, 100, 0, 0.4))), name="kid"
    )
    agent = Agent(ScriptedModel([act("kid", goal="x"), finish()]), tools=[kid], log=log)
    before = await agent.run("goal", run_id="r")
    await runs.rewind(log, "r", to=1, now=0)
    state = fold(await log.read("r"))
    assert state.usage.usd == pytest.approx(before.usage.usd)
    assert state.child_model_calls == 1


async def test_the_last_failure_at_a_place_is_the_one_that_counts() -> None:
    @tool(effect="read")
    def look(what: str = "") -> str:
        """Look."""
        return "z" * 3000 + what

    failures: list[Any] = [
        ModelError("down", kind="timeout"),
        ModelError("too long", kind="overflow"),
    ]
    script = [*[act("look", what=str(n)) for n in range(4)], *failures, *[finish()] * 3]
    profile = Profile(window=100_000, window_known=True)
    agent = Agent(ScriptedModel(script, profile=profile), tools=[look], log=MemoryLog())
    assert (await agent.run("goal", run_id="r")).status == "failed"
    assert (await agent.resume("r")).success
    assert (await agent.replay("r")).success


def told(size: int = 4) -> FunctionModel:
    """Returns a priced model that answers at once and reports its usage."""
    return FunctionModel(lambda _: Reply(finish(), usage=Usage(size, 1)), usd=(10.0, 20.0))


async def test_a_call_is_made_if_all_that_it_may_cost_is_left_and_not_with_a_cent_less() -> None:
    refused = await Agent(told(), limits=Limits(usd=1e-6)).run("goal")
    (hit,) = [r.event for r in refused.records if isinstance(r.event, LimitHit)]
    assert (hit.limit, hit.value, hit.allowed) == ("usd", 1, 1e-6)
    # As in docs/limits.md: three bytes per token, and a reply of 4,096 tokens.
    assert 4096 * 20e-6 < hit.needed < 4096 * 20e-6 + 2000 * 10e-6
    assert (await Agent(told(), limits=Limits(usd=hit.needed)).run("goal")).success
    less = await Agent(told(), limits=Limits(usd=hit.needed - 1e-9)).run("goal")
    assert (less.stop_reason, less.usage.tokens) == ("max_usd", 0)


async def test_a_prompt_is_sent_if_its_tokens_are_left_and_not_with_one_less() -> None:
    asked: list[Request] = []

    def reply(request: Request) -> Reply:
        asked.append(request)
        return Reply(finish(), usage=Usage(1, 1))

    assert (await Agent(FunctionModel(reply)).run("goal")).success
    tokens = -(-asked.pop().size // 4)  # four bytes a token, as docs/limits.md has it
    refused = await Agent(FunctionModel(reply), limits=Limits(tokens=tokens - 1)).run("goal")
    assert (refused.stop_reason, asked) == ("max_tokens", [])
    (hit,) = [r.event for r in refused.records if isinstance(r.event, LimitHit)]
    assert (hit.limit, hit.allowed) == ("tokens", tokens - 1)
    assert abs(hit.needed - tokens) <= 1
    assert (await Agent(FunctionModel(reply), limits=Limits(tokens=tokens)).run("goal")).success


async def test_a_callers_setting_named_limits_is_no_childs_share_when_the_run_goes_on() -> None:
    @tool(effect="read")
    def look() -> str:
        """Look."""
        return "seen"

    script = [ModelError("gone", kind="auth"), act("look"), finish()]
    agent = Agent(ScriptedModel(script), tools=[look], log=MemoryLog())
    failed = await agent.run("goal", settings={"limits": {"tool_calls": 0, "mine": "too"}})
    assert failed.state.status == "failed"
    result = await agent.resume(failed.run_id)
    assert (result.success, result.state.tool_calls) == (True, 1)

"""Budgets that hold: what a call may cost at most, children's calls, what is spent for good."""

from typing import Any

import pytest

from taofold import Agent, Limits, MemoryLog, tool
from taofold.core.errors import ModelError
from taofold.core.state import fold
from taofold.core.values import Profile, Reply, Usage
from taofold.runtime import run as runs
from taofold.runtime.model import Request
from taofold.testing import FunctionModel, ScriptedModel

from .kit import act, finish

pytestmark = pytest.mark.anyio


async def test_the_dollar_bound_counts_bytes_and_bounds_the_reply() -> None:
    asked: list[Request] = []

    def reply(request: Request) -> Reply:
        asked.append(request)
        return Reply(text=finish())

    model = FunctionModel(reply, usd=(10.0, 10.0))
    agent = Agent(model, limits=Limits(usd=0.12))
    assert (await agent.run("目标" * 5000)).stop_reason == "budget"
    assert not asked
    assert (await agent.run("goal")).success
    assert asked[0].max_tokens == 4096


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

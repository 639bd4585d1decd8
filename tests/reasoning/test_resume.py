"""Every technique over the real runtime: cut at every event, resumed, replayed."""

import re
from typing import Any

import pytest

from taofold import Agent, Limits, MemoryLog, RunResult, tool
from taofold.core import events as e
from taofold.core.checklist import check
from taofold.core.state import ENDED, fold
from taofold.reasoning import Decompose, Plan, react
from taofold.runtime.control import steer
from taofold.testing.replay import assert_replays
from tests.runtime.kit import Memo, assert_alike, neutral, planted, settled

from .stories import STORIES, J, Story

pytestmark = pytest.mark.anyio


def names(result: RunResult[Any]) -> list[str]:
    return [action.tool for step in result.steps for action in step.actions]


def comparable(state: Any) -> dict[str, Any]:
    """Returns the state without order of concurrent branches' steps."""
    plain = neutral(state)
    plain["steps"] = sorted([repr((s.thought, s.actions, s.observations)) for s in plain["steps"]])
    return plain


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
async def test_a_technique_runs_ends_well_and_replays_identically(story: Story) -> None:
    agent = story.agent(log=MemoryLog())
    result = await agent.run("the goal", run_id="r")
    assert result.success, result.error
    assert result.output == story.output
    if story.steps:
        assert names(result) == story.steps
    await assert_replays(agent, "r")
    points = {item.name: item.passed for item in check(result.records)}
    assert points["complete_triplets"]
    assert points["typed_thoughts"]
    assert points["error_protocol_followed"]


@pytest.mark.scenario("TAO-15", "PEER-05")
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
async def test_a_technique_cut_at_every_event_and_resumed_ends_in_the_same_state(
    story: Story,
) -> None:
    whole = story.agent(log=MemoryLog())
    result = await whole.run("the goal", run_id="r")
    wanted = comparable(result.state)
    for upto in range(1, len(result.records)):
        part = list(result.records[:upto])
        log = await planted(part, MemoryLog())
        agent = story.agent(dict(whole.model.known), log=log)  # type: ignore[union-attr]
        state = fold(part)
        if state.status in ENDED:
            continue
        resumed = await agent.resume("r")
        where = f"cut at {upto}: {part[-1].event}"
        assert_alike(comparable(resumed.state), wanted, resumed.records, where=where)
        assert not [r for r in resumed.records if isinstance(r.event, e.PromptChanged)], where
        await assert_replays(agent, "r")


LIMITED = [
    Story("self_correct", STORIES[1].strategy, STORIES[1].choose, [], "", Limits(steps=4)),
    Story("decompose", STORIES[3].strategy, STORIES[3].choose, [], "", Limits(steps=6)),
    Story("decompose_calls", STORIES[3].strategy, STORIES[3].choose, [], "", Limits(model_calls=5)),
    Story("plan", STORIES[6].strategy, STORIES[6].choose, [], "", Limits(steps=4)),
]


@pytest.mark.parametrize("story", LIMITED, ids=lambda story: story.name)
async def test_a_limited_technique_replays_and_resumes_from_every_cut_to_a_limited_end(
    story: Story,
) -> None:
    whole = story.agent(log=MemoryLog())
    result = await whole.run("the goal", run_id="r")
    assert result.status == "limited"
    await assert_replays(whole, "r")
    for upto in range(1, len(result.records)):
        part = list(result.records[:upto])
        agent = story.agent(log=await planted(part, MemoryLog()))
        resumed = await agent.resume("r")
        assert resumed.status == "limited", f"cut at {upto}: {part[-1].event}"
        await assert_replays(agent, "r")


def paying(request: Any) -> str:
    shown = request.conversation[1].content
    about = re.findall(r"Solve only this part:\ndo (\w+)", shown)
    if request.role == "planner" and "plan how to reach" in request.conversation[0].content:
        return J({"thought": "pay", "tasks": [{"id": "t1", "tool": "pay", "args": {"who": "ann"}}]})
    if request.role == "planner":
        parts = [{"id": i, "description": f"do {i}", "complex": False} for i in ("a", "b")]
        return J({"sub_problems": parts})
    if request.role == "evaluator":
        return J({"achieved": "paid ann" in shown})
    if request.role == "finalizer":
        return J({"thinking": "t", "answer": "all paid"})
    if any("paid" in message.content for message in request.conversation):
        action: dict[str, Any] = {"tool": "finish", "parameters": {"answer": "paid"}}
    else:
        action = {"tool": "pay", "parameters": {"who": about[0]}, "rationale": "due"}
    return J({"thought": "pay", "thought_type": "goal", "action": action})


@pytest.mark.parametrize("strategy", [Decompose(inner=react), Plan()], ids=["decompose", "plan"])
async def test_actions_inside_a_technique_wait_for_a_person_and_go_on(strategy: Any) -> None:
    paid: list[str] = []

    @tool(tier=2, effect="once")
    def pay(who: str) -> str:
        """Pay somebody."""
        paid.append(who)
        return f"paid {who}"

    limits = Limits(steps=30)
    agent = Agent(
        Memo(choose=paying),
        strategy=strategy,
        tools=[pay],
        log=MemoryLog(),
        limits=limits,
    )
    result = await agent.run("pay them", run_id="r")
    assert (result.status, result.stop_reason) == ("waiting", "awaiting_approval")
    assert paid == []
    result = await settled(agent, result)
    assert result.success, result.error
    assert sorted(paid) == (["ann"] if isinstance(strategy, Plan) else ["a", "b"])
    await assert_replays(agent, "r")


async def test_a_person_who_steers_is_heard_by_what_comes_after() -> None:
    log = MemoryLog()
    story = STORIES[1]
    part = (await story.agent(log=MemoryLog()).run("the goal", run_id="r")).records[:3]
    await planted(part, log)
    await steer(log, "r", "write in French")
    agent = story.agent(log=log)
    result = await agent.resume("r")
    assert result.success
    asked = agent.model.asked  # type: ignore[union-attr]
    assert asked
    assert all("write in French" in str(messages) for messages in asked)
    await assert_replays(agent, "r")

"""Every technique over the real runtime: cut at every event, resumed, replayed."""

from typing import Any

import pytest

from runtime.kit import neutral, planted
from taofold import Limits, MemoryLog, RunResult
from taofold.core import events as e
from taofold.core.checklist import check
from taofold.core.state import ENDED, fold
from taofold.testing.replay import assert_replays

from .stories import STORIES, Story

pytestmark = pytest.mark.anyio


def names(result: RunResult[Any]) -> list[str]:
    return [action.tool for step in result.steps for action in step.actions]


def comparable(state: Any) -> dict[str, Any]:
    """The state; steps of branches that ran at once may close in any order."""
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
        assert comparable(resumed.state) == wanted, where
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

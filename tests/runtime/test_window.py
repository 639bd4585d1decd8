"""The model's window: older observations fold into a recorded event (D12); odd replies."""

import json
from typing import Any

import pytest

from taofold import Agent, Limits, MemoryLog, tool
from taofold.core import events as e
from taofold.core.errors import ModelError
from taofold.core.grounding import ground_turns
from taofold.core.trace import turns
from taofold.core.values import Profile
from taofold.testing.replay import assert_replays

from .kit import Memo, act, events, finish

pytestmark = pytest.mark.anyio


@tool(effect="read")
def look(what: str) -> str:
    """Look."""
    return f"{what} has serial_{len(what)}7 " + "and more " * 60


SMALL = Profile(window=1800, window_known=True)


@pytest.mark.scenario("PEER-27", "TAO-12")
@pytest.mark.document_item("002.performance.memory")
async def test_a_history_that_outgrows_the_window_is_folded_and_the_run_goes_on() -> None:
    script = [act("look", f"look {n}", what="x" * (n + 1)) for n in range(12)]
    script.append(act("look", "serial_17 was the first", what="again"))
    model = Memo([*script, finish()], profile=SMALL)
    agent = Agent(model, tools=[look], limits=Limits(steps=20), log=MemoryLog())
    result = await agent.run("goal")
    folds = events(result, e.Compacted)
    assert result.success
    assert folds
    assert all(fold.chars_after < fold.chars_before for fold in folds)
    last = " ".join(message.content for message in model.asked[-1])
    assert len(last) < 1800 * 4
    assert "earlier steps, shortened" in last
    told = ground_turns(turns(result.records), list(result.records))
    assert told[12].grounded, "grounding must see the observation that was folded away"
    await assert_replays(agent, result)


async def test_an_overflow_compacts_and_asks_once_more() -> None:
    script: list[Any] = [act("look", f"look {n}", what="x" * n + "y") for n in range(5)]
    model = Memo([*script, ModelError("too long", kind="overflow"), finish()])
    agent = Agent(model, tools=[look], log=MemoryLog())
    result = await agent.run("goal")
    assert result.success
    assert len(events(result, e.Compacted)) == 1
    assert [f.kind for f in events(result, e.AskFailed)] == ["overflow"]
    await assert_replays(agent, result)


async def test_an_overflow_with_nothing_to_fold_is_a_typed_error() -> None:
    result = await Agent(Memo([ModelError("too long", kind="overflow")])).run("x" * 100)
    assert result.status == "failed"
    assert "window" in result.error


@pytest.mark.scenario("TAG-11")
@pytest.mark.parametrize(
    ("reply", "ran"),
    [
        ("```json\n%s\n```", 1),
        ("Sure, here it is:\n%s", 1),
        ("%s\n%s", 1),
        ("<think>the user wants it</think>%s", 1),
    ],
)
async def test_a_fenced_a_prefixed_and_a_doubled_object_are_read(reply: str, ran: int) -> None:
    one = act("look", what="a")
    model = Memo([reply.replace("%s", one), finish()])
    result = await Agent(model, tools=[look]).run("goal")
    assert result.success
    assert result.state.tool_calls == ran


@pytest.mark.scenario("TAG-11")
async def test_two_different_valid_objects_are_refused_as_ambiguous() -> None:
    two = f"{act('look', what='a')}\n{act('look', what='b')}"
    result = await Agent(Memo([two, finish()]), tools=[look]).run("goal")
    assert result.state.tool_calls == 0
    assert events(result, e.Violated)


async def test_an_unknown_type_of_fact_in_the_data_survives() -> None:
    data = {"nested": [{"a": 1.5, "b": None}], "text": "ä"}
    result = await Agent(Memo([finish()])).run("goal", data=data)
    assert json.loads(json.dumps(result.state.data)) == data

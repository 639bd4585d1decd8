"""A model that never comes to an end: bounded model calls, the stop reason and the answer."""

import json
from collections.abc import Callable
from typing import Any

import pytest

import taofold
from taofold import Agent, Limits, run_agent, tool
from taofold.core import events as e
from taofold.testing import FunctionModel
from tests.runtime.kit import act, finish

pytestmark = pytest.mark.anyio


@tool(effect="read")
def look(at: str) -> str:
    """Look somewhere."""
    return f"nothing at {at}"


class Stubborn:
    """A model that replies in its own way and counts how often it is asked."""

    def __init__(self, reply: Callable[[int, str], str]) -> None:
        self.asked = 0
        self._reply = reply
        self.model = FunctionModel(self._answer)

    def _answer(self, request: Any) -> str:
        self.asked += 1
        return self._reply(self.asked, request.conversation[-1].text)


def forever(number: int, _: str) -> str:
    return act("look", f"look number {number}", at=f"place {number}")


def garbage(number: int, _: str) -> str:
    return f"no number {'?' * number}"


def unknown(number: int, _: str) -> str:
    return act("nothing", at=f"place {number}")


def silent(_: int, __: str) -> str:
    return ""


def thought_only(number: int, _: str) -> str:
    return json.dumps({"thought": f"hm {number}", "thought_type": "reasoning"})


def now_and_then(number: int, asked: str) -> str:
    return forever(number, asked) if number % 3 == 0 else garbage(number, asked)


def wraps_up(number: int, asked: str) -> str:
    return finish("as far as I got") if "last turn" in asked else forever(number, asked)


KINDS = [forever, garbage, unknown, silent, thought_only]


@pytest.mark.scenario("TEA-06", "TAG-12")
@pytest.mark.parametrize("steps", [0, 1, 2, 3, 5, 9])
@pytest.mark.parametrize("reply", KINDS)
async def test_no_model_is_asked_more_often_than_steps_and_once_to_wrap_up(
    reply: Callable[[int, str], str], steps: int
) -> None:
    stubborn = Stubborn(reply)
    result = await Agent(stubborn.model, tools=[look], output=int, limits=Limits(steps=steps)).run(
        "g"
    )
    assert stubborn.asked <= (steps + 1 if steps else 0)
    assert not result.success
    assert result.output_or_none is None
    if steps <= 1 or reply is forever:
        assert result.stop_reason == "max_steps"


@pytest.mark.scenario("TEA-06", "TAG-12")
@pytest.mark.parametrize("steps", [1, 3, 8])
async def test_one_that_wraps_up_is_asked_exactly_so_often_and_its_answer_is_the_output(
    steps: int,
) -> None:
    stubborn = Stubborn(wraps_up)
    result = await Agent(stubborn.model, tools=[look], limits=Limits(steps=steps)).run("g")
    assert stubborn.asked == steps
    assert (result.output, result.success) == ("as far as I got", True)
    assert result.stop_reason == "final_answer"
    told = [r.event for r in result.records if isinstance(r.event, e.LimitHit)]
    assert [one.limit for one in told] == ["steps"]


@pytest.mark.parametrize("steps", [1, 3, 9])
async def test_replies_that_cannot_be_read_cost_at_most_three_calls_more(steps: int) -> None:
    stubborn = Stubborn(now_and_then)
    agent = Agent(stubborn.model, tools=[look], output=int, limits=Limits(steps=steps))
    result = await agent.run("g")
    assert stubborn.asked <= steps + 3
    assert not result.success


@pytest.mark.scenario("TEA-06")
@pytest.mark.parametrize("steps", [1, 3])
async def test_the_primitive_keeps_the_same_bound(steps: int) -> None:
    stubborn = Stubborn(forever)
    done = await taofold.reason.react(
        "g", model=stubborn.model, tools=[look], limits=Limits(steps=steps)
    )
    assert stubborn.asked == steps + 1
    assert (done.success, done.stop_reason) == (False, "max_steps")


@pytest.mark.scenario("TAG-12")
@pytest.mark.parametrize("iterations", [1, 4, 20])
@pytest.mark.parametrize("reply", [forever, garbage, unknown, silent])
def test_run_agent_keeps_the_same_bound(reply: Callable[[int, str], str], iterations: int) -> None:
    stubborn = Stubborn(reply)
    result = run_agent("g", stubborn.model, [look], iterations, int)
    assert stubborn.asked <= iterations + 2
    if reply is forever:
        assert stubborn.asked == iterations + 1
        assert result.stop_reason == "max_steps"
    assert not result.success


@pytest.mark.scenario("RCT-01")
async def test_the_chat_preset_ends_at_its_tool_calls_after_eight_calls() -> None:
    stubborn = Stubborn(forever)
    result = await Agent(stubborn.model, tools=[look], limits=Limits.chat()).run("g")
    assert stubborn.asked == 8
    assert result.stop_reason == "max_tool_calls"
    assert result.state.tool_calls == 5

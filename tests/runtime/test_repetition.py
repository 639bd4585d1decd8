"""The repetition guard in a run (D11): loops end with an answer, polling does not."""

from typing import Any

import pytest

from taofold import Agent, Limits, MemoryLog, tool
from taofold.agent.activation import Activation
from taofold.core import events as e
from taofold.core.rules import detect_action_loop, detect_alternation
from taofold.testing import FunctionModel
from taofold.testing.replay import assert_replays

from .kit import Memo, act, batch, events, finish

pytestmark = pytest.mark.anyio


def stubborn(*replies: str, count: list[str]) -> Any:
    """Says the replies over and over until its tools are withdrawn."""
    turns = iter(range(1000))

    def reply(request: Any) -> str:
        if "last turn" in request.conversation[-1].content:
            return finish("best guess")
        return replies[next(turns) % len(replies)]

    return FunctionModel(reply)


def world(results: Any) -> tuple[list[Any], list[str]]:
    ran: list[str] = []

    @tool(effect="read")
    def look(what: str) -> str:
        """Look."""
        ran.append(what)
        return str(results(len(ran)))

    return [look], ran


async def patient(agent: Agent[Any, Any], goal: str = "goal") -> tuple[Any, list[float]]:
    """Run without really sleeping between polls."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    activation = Activation(agent, None, None, None)
    activation.setup.sleep = sleep
    return await activation.run(goal), slept


@pytest.mark.scenario("PEER-01", "TAG-15", "TEA-11")
async def test_one_call_with_one_observation_runs_three_times_and_ends_with_an_answer() -> None:
    tools, ran = world(lambda n: "the same")
    agent = Agent(stubborn(act("look", what="x"), count=ran), tools=tools, limits=Limits(steps=30))
    result = await agent.run("goal")
    assert len(ran) <= 3
    assert result.stop_reason == "loop_detected"
    assert result.output == "best guess"
    assert not result.success
    assert result.metrics.model_calls <= 8


async def test_the_model_is_nudged_before_it_is_blocked() -> None:
    tools, _ = world(lambda n: "the same")
    model = Memo([act("look", what="x"), act("look", what="x"), finish()])
    await Agent(model, tools=tools).run("goal")
    assert "the same as before" in model.asked[2][-1].content


@pytest.mark.scenario("PEER-02")
async def test_a_poll_whose_observation_changes_may_be_repeated_twenty_times() -> None:
    tools, ran = world(lambda n: f"progress {n} of 20")
    script = [act("look", what="x") for _ in range(20)]
    agent = Agent(Memo([*script, finish()]), tools=tools, limits=Limits(steps=30))
    result, slept = await patient(agent)
    assert len(ran) == 20
    assert result.success
    assert slept == sorted(slept)
    assert max(slept) == 1.0
    assert slept[0] == 0.05
    waits = [n for n in events(result, e.Noted) if n.kind == "backoff"]
    assert [n.data["ms"] / 1000 for n in waits] == slept
    await assert_replays(agent, result)


@pytest.mark.scenario("TAG-16")
async def test_back_and_forth_between_two_calls_is_a_loop() -> None:
    tools, ran = world(lambda n: "nothing new")
    model = stubborn(act("look", what="a"), act("look", what="b"), count=ran)
    result = await Agent(model, tools=tools, limits=Limits(steps=30)).run("goal")
    assert len(ran) <= 6
    assert result.stop_reason == "loop_detected"


@pytest.mark.scenario("TAG-17")
async def test_the_hint_names_tools_that_were_not_used_and_the_next_loop_stops() -> None:
    @tool(effect="read")
    def ask_the_map() -> str:
        """Ask the map."""
        return "north"

    tools, ran = world(lambda n: "the same")
    heard: list[str] = []

    def reply(request: Any) -> str:
        heard.append(request.conversation[-1].text)
        return finish("a guess") if "last turn" in heard[-1] else act("look", what="x")

    agent = Agent(FunctionModel(reply), tools=[*tools, ask_the_map], limits=Limits(steps=30))
    result = await agent.run("goal")
    hints = [text for text in heard if "same as before" in text]
    assert "Tools not used yet: ask_the_map." in hints[0]
    assert len(ran) == 3
    assert result.stop_reason == "loop_detected"


@pytest.mark.scenario("TAG-15")
async def test_other_arguments_are_another_call() -> None:
    tools, ran = world(lambda n: "nothing")
    script = [act("look", what=f"x{n}") for n in range(8)]
    result = await Agent(Memo([*script, finish()]), tools=tools).run("goal")
    assert len(ran) == 8
    assert result.success


async def test_durations_and_times_do_not_count_as_change() -> None:
    tools, ran = world(lambda n: f"ok in {n * 13} ms at 2026-01-02T03:04:{n:02}Z, pid 0xdead{n:04}")
    agent = Agent(stubborn(act("look", what="x"), count=ran), tools=tools, limits=Limits(steps=30))
    result = await agent.run("goal")
    assert len(ran) == 3
    assert result.stop_reason == "loop_detected"


async def test_other_numbers_count_as_change() -> None:
    tools, ran = world(lambda n: f"{n} tests failed")
    script = [act("look", what="x") for _ in range(6)]
    agent = Agent(Memo([*script, finish()]), tools=tools, limits=Limits(steps=30))
    result, _ = await patient(agent)
    assert len(ran) == 6
    assert result.success


async def test_a_tool_may_say_what_a_repetition_is() -> None:
    ran: list[str] = []

    @tool(effect="read", loop_key=lambda parameters: "page")
    def page(number: int) -> str:
        """Page."""
        ran.append("x")
        return "no more"

    script = iter(range(100))

    def reply(request: Any) -> str:
        if "last turn" in request.conversation[-1].content:
            return finish("none")
        return act("page", number=next(script))

    agent = Agent(FunctionModel(reply), tools=[page], limits=Limits(steps=30))
    result = await agent.run("goal")
    assert len(ran) == 3
    assert result.stop_reason == "loop_detected"


async def test_the_same_call_in_one_batch_counts_each_time() -> None:
    tools, ran = world(lambda n: "same")
    many = batch(*[("look", {"what": "x"})] * 6)
    result = await Agent(Memo([many, finish()]), tools=tools, limits=Limits(steps=9)).run("goal")
    assert len(ran) == 3
    assert [o.refused for o in result.steps[0].observations] == [""] * 3 + ["blocked"] * 3


async def test_invalid_tools_count_too() -> None:
    agent = Agent(stubborn(act("nope"), count=[]), tools=[], log=MemoryLog())
    result = await agent.run("goal")
    assert result.stop_reason == "loop_detected"
    assert result.output == "best guess"
    await assert_replays(agent, result)


async def test_a_change_in_the_world_forgives() -> None:
    tests: list[int] = []

    @tool(effect="read")
    def test() -> str:
        """Run the tests."""
        tests.append(1)
        return "1 failed"

    @tool(tier=1, effect="idempotent", reversible=True)
    def edit(text: str) -> str:
        """Edit."""
        return "edited"

    script: list[str] = []
    for n in range(5):
        script += [act("edit", text=f"try {n}"), act("test")]
    result = await Agent(
        Memo([*script, finish()]), tools=[test, edit], limits=Limits(steps=20)
    ).run("goal")
    assert len(tests) == 5
    assert result.success


def test_the_seeds_function_stays() -> None:
    assert detect_action_loop(["a", "a"])
    assert not detect_action_loop(["a", "b"])
    assert not detect_action_loop(["a"])
    assert detect_alternation(["a", "b", "a", "b"])

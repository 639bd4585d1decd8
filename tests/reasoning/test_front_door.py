"""`taofold.reason` and `Agent(strategy=…)`: names, options, models by role, time."""

import asyncio
import json
from functools import partial
from typing import Any

import pytest

import taofold
from taofold import Agent, Limits, tool
from taofold.agent.strategies import STRATEGIES, find_strategy
from taofold.core import events as e
from taofold.core.errors import ConfigError
from taofold.reason import Example, Reasoned
from taofold.reasoning import Cot, Decompose, SelfCorrect, react
from taofold.runtime.model import Request
from taofold.testing.models import FunctionModel, ScriptedModel

pytestmark = pytest.mark.anyio
J = json.dumps


def finish(answer: Any) -> str:
    action = {"tool": "finish", "parameters": {"answer": answer}}
    return J({"thought": "done", "thought_type": "synthesis", "action": action})


async def test_chain_of_thought_is_one_call() -> None:
    model = ScriptedModel([J({"thinking": "0.15 × 80", "answer": 12})])
    done = await taofold.reason.cot(
        "15% of 80?",
        model=model,
        output=int,
        format="first_principles",
        examples=[Example(problem="1+1", thinking="add", answer=2)],
        instructions="Be exact.",
    )
    assert isinstance(done, Reasoned)
    assert (done.answer, done.thinking, done.success) == (12, "0.15 × 80", True)
    assert (done.stop_reason, done.error) == ("final_answer", "")
    assert [entry["type"] for entry in done.trace] == ["run", "model", "step", "tool"]
    assert "Be exact." in model.requests[0].text
    assert "1+1" in model.requests[0].text


@pytest.mark.scenario("TEA-04")
async def test_garbage_is_no_success_and_the_error_has_a_bounded_echo() -> None:
    done = await taofold.reason.cot("g", model=ScriptedModel(["x" * 9999] * 3), output=int)
    assert (done.answer, done.success, done.stop_reason) == (None, False, "error")
    assert "no usable reply in 3 attempts" in done.error
    assert len(done.error) < 600


async def test_an_unknown_format_is_found_before_any_call() -> None:
    model = ScriptedModel([])
    with pytest.raises(ConfigError, match="step_by_step, pros_cons, tree, first_principles"):
        await taofold.reason.cot("p", model=model, format="zigzag")
    assert model.requests == []


async def test_react_runs_with_tools() -> None:
    @tool(tier=1, effect="read")
    def look(what: str) -> str:
        """Look."""
        return f"a {what}"

    act = {"tool": "look", "parameters": {"what": "cat"}, "rationale": "r"}
    said = J({"thought": "t", "thought_type": "goal", "action": act})
    done = await taofold.reason.react("g", model=ScriptedModel([said, finish("cat")]), tools=[look])
    assert done.answer == "cat"
    assert done.variables["react_steps"][0]["observation"] == "a cat"


@pytest.mark.scenario("TEA-19")
async def test_the_critic_may_be_another_model() -> None:
    writer = ScriptedModel(["v0", "v1"], name="test:writer")
    verdicts = [J({"score": 0.2, "issues": ["x"]}), J({"score": 0.9})]
    critic = ScriptedModel(verdicts, name="test:critic")
    done = await taofold.reason.self_correct("t", model=writer, critic_model=critic, rounds=1)
    assert done.answer == "v1"
    assert {model: usage is not None for model, usage in done.run.usage_by_model.items()} == {
        "test:writer": True,
        "test:critic": True,
    }
    replies = [r.event for r in done.run.records if isinstance(r.event, e.Replied)]
    assert [(r.role, r.model) for r in replies] == [
        ("executor", "test:writer"),
        ("critic", "test:critic"),
        ("executor", "test:writer"),
        ("critic", "test:critic"),
    ]
    acting = ScriptedModel([finish("v")])
    inner = await taofold.reason.self_correct("t", model=acting, inner=react, rounds=0)
    assert inner.answer == "v"


@pytest.mark.scenario("TAG-26")
async def test_planner_executor_evaluator_and_finalizer_are_models_of_their_own() -> None:
    @tool(tier=1, effect="read")
    def look(what: str) -> str:
        """Look."""
        if what == "bad":
            raise ValueError("cannot see it")
        return what

    def name(role: str, reply: Any) -> ScriptedModel:
        return ScriptedModel([reply if isinstance(reply, str) else J(reply)], name=f"test:{role}")

    task = {"id": "t", "tool": "look", "args": {"what": "bad"}}
    models = {
        "planner": name("planner", {"tasks": [task]}),
        "evaluator": name("evaluator", {"achieved": True}),
        "finalizer": name("finalizer", "7"),
    }
    executor = name("executor", {"thought": "other", "tool": "look", "args": {"what": "good"}})
    done = await taofold.reason.plan("g", model=executor, models=models, tools=[look], output=int)
    assert (done.answer, done.stop_reason) == (7, "criteria_met")
    replies = [r.event for r in done.run.records if isinstance(r.event, e.Replied)]
    assert [r.model.removeprefix("test:") for r in replies] == [r.role for r in replies]
    assert [r.role for r in replies] == ["planner", "executor", "evaluator", "finalizer"]


@pytest.mark.scenario("TAG-14")
async def test_not_achieved_is_never_a_success() -> None:
    def model(request: Request) -> str:
        if request.role == "evaluator":
            return J({"achieved": False, "feedback": "no"})
        return J({"tasks": []})

    done = await taofold.reason.plan("g", model=FunctionModel(model), rejections=2)
    assert (done.answer, done.success, done.run.status) == (None, False, "finished")
    assert done.error == "not achieved after 2 rejections: no"


THREE = {"sub_problems": [{"id": i, "description": f"do {i}", "complex": False} for i in "cab"]}


@pytest.mark.scenario("TEA-24")
async def test_three_independent_parts_take_as_long_as_one_and_come_back_in_order() -> None:
    """Each is answered once all three have been asked: one after the other would never end."""
    asked: list[str] = []
    all_asked = asyncio.Event()

    async def model(request: Request) -> str:
        if request.role == "planner":
            return J(THREE)
        if request.role == "executor":
            asked.append(request.conversation[1].content[-1])
            if len(asked) == 3:
                all_asked.set()
            async with asyncio.timeout(60):
                await all_asked.wait()
            if asked.index(request.conversation[1].content[-1]) == 0:  # the first ends last
                for _ in range(100):
                    await asyncio.sleep(0)
        return J({"thinking": "t", "answer": "a"})

    done = await taofold.reason.decompose("p", model=FunctionModel(model))
    assert sorted(asked) == ["a", "b", "c"]
    assert [one["id"] for one in done.variables["sub_answers"]] == ["c", "a", "b"]
    assert done.success


@pytest.mark.scenario("TEA-22")
async def test_decompose_takes_its_depth_prompt_and_inner_strategy() -> None:
    def model(request: Request) -> str:
        if request.role == "planner":
            return J(THREE)
        return "plain" if "JSON" not in request.conversation[0].content else J({"answer": "all"})

    done = await taofold.reason.decompose(
        "p",
        model=FunctionModel(model),
        max_depth=1,
        inner=find_strategy("direct")[1],
        parallel=False,
        synthesis_prompt=lambda answers: f"{len(answers)} answers",
    )
    assert done.answer == "all"
    assert done.variables["depth_used"] == 1


async def test_every_technique_has_a_name_and_is_found_by_it() -> None:
    assert {"react", "cot", "self_correct", "decompose", "plan", "direct"} <= STRATEGIES.keys()
    for name in STRATEGIES:
        assert find_strategy(find_strategy(name)[1])[0] == name
    assert find_strategy(partial(react))[0] == "react"
    assert find_strategy(SelfCorrect(inner=Cot(format="tree")))[0] == "self_correct"
    with pytest.raises(ConfigError, match="unknown strategy 'nope'"):
        find_strategy("nope")


async def test_a_name_that_is_no_text_is_custom() -> None:
    class Odd:
        name = 3

        def __call__(self, task: Any) -> Any:
            raise NotImplementedError

    assert find_strategy(Odd())[0] == "custom"


async def test_options_are_values() -> None:
    assert Decompose(inner=Cot(format="tree")) == Decompose(inner=Cot(format="tree"))
    assert Cot(examples=[{"problem": "p", "thinking": "t", "answer": 1}]).examples == (
        Example(problem="p", thinking="t", answer=1),
    )


async def test_an_agent_takes_a_technique_by_name_or_by_value() -> None:
    said = J({"thinking": "t", "answer": "a"})
    for strategy in ("cot", Cot(format="pros_cons")):
        result = await Agent(ScriptedModel([said]), strategy=strategy).run("g")
        assert result.output == "a"
        assert result.records[0].event.strategy == "cot"  # type: ignore[union-attr]


async def test_limits_hold_for_nested_strategies_and_leave_what_is_known() -> None:
    endless = FunctionModel(
        lambda request: (
            J({"score": 0.1, "issues": ["x"]})
            if request.role == "critic"
            else f"v{len(request.conversation[-1].content)}"
        )
    )
    agent = Agent(endless, strategy=SelfCorrect(rounds=50), limits=Limits(steps=6))
    result = await agent.run("g")
    assert (result.status, result.stop_reason, result.success) == ("limited", "max_steps", False)
    assert result.output == "v1"
    assert len(result.steps) == 6 + 1, "the step that closes the run is no turn"

"""The state variables and the trace: a projection of the log, on success and on failure."""

import json
from typing import Any

import pytest

from taofold import Agent, Limits, MemoryLog
from taofold.reasoning import Cot, Decompose, Plan, SelfCorrect
from taofold.reasoning.variables import trace_ndjson, variables
from taofold.testing.models import FunctionModel, ScriptedModel

from .replies import CASES
from .stories import STORIES, look, splitting

pytestmark = pytest.mark.anyio
STORY = {story.name: story for story in STORIES}
ALWAYS = {
    "reasoning_trace", "reasoning_thinking", "reasoning_answer", "reasoning_success",
    "reasoning_error",
}  # fmt: skip
OWN = {
    "cot": set[str](),
    "react": {"react_steps"},
    "self_correct": {"improvement_history", "rounds_completed"},
    "decompose": {"sub_problems", "sub_answers", "depth_used"},
    "plan": {"plans", "task_results", "evaluations"},
}


async def told(name: str) -> dict[str, Any]:
    result = await STORY[name].agent().run("the goal")
    return variables(result.records)


@pytest.mark.scenario("TEA-26")
@pytest.mark.parametrize("name", OWN)
async def test_a_run_that_fails_at_once_has_all_variables_too(name: str) -> None:
    result = await Agent(ScriptedModel(["?"] * 9), strategy=name, output=int).run("g")
    found = variables(result.records)
    assert not result.success
    assert found.keys() == ALWAYS | OWN[name]
    assert found["reasoning_answer"] is None
    assert found["reasoning_success"] is False
    assert found["reasoning_error"]
    assert found["reasoning_trace"]
    json.dumps(found)


@pytest.mark.scenario("TEA-26")
async def test_every_prefix_of_a_log_has_its_variables() -> None:
    for story in STORIES:
        records = (await story.agent().run("the goal")).records
        for upto in range(len(records) + 1):
            json.dumps(variables(records[:upto]))


@pytest.mark.scenario("TEA-26")
async def test_chain_of_thought_leaves_thinking_and_answer() -> None:
    found = await told("cot")
    assert found["reasoning_thinking"] == "think"
    assert found["reasoning_answer"] == "answer whole"
    assert found["reasoning_success"] is True


@pytest.mark.scenario("TEA-26", "TEA-17", "TEA-18")
async def test_self_correction_leaves_its_history_with_scores() -> None:
    found = await told("self_correct")
    history = found["improvement_history"]
    assert [one["output"] for one in history] == ["version 0", "version 1", "version 2"]
    assert [one["improvement_score"] for one in history] == [0.3, 0.8, 0.6]
    assert [one["issues_found"] for one in history] == [["flaw 0"], ["flaw 1"], ["flaw 2"]]
    assert (found["rounds_completed"], found["best_version"]) == (2, 1)
    assert found["stopped"] == "2 rounds were allowed"


@pytest.mark.scenario("TEA-17")
@pytest.mark.parametrize("rounds", [0, 1, 3])
async def test_n_rounds_leave_a_history_of_n_revisions_and_the_draft(rounds: int) -> None:
    versions = (f"version {n}" for n in range(9))
    scores = (n / 10 for n in range(9))

    def reply(request: Any) -> str:
        verdict = {"reasoning": "r", "issues": ["flaw"], "suggestions": []}
        judged = request.role == "critic"
        return json.dumps({**verdict, "score": next(scores)}) if judged else next(versions)

    result = await Agent(FunctionModel(reply), strategy=SelfCorrect(rounds=rounds)).run("g")
    found = variables(result.records)
    assert len(found["improvement_history"]) == rounds + 1
    assert found["rounds_completed"] == rounds
    assert found["reasoning_answer"] == f"version {rounds}"


@pytest.mark.scenario("TEA-17")
async def test_a_failed_critic_is_in_the_history_and_not_in_the_count() -> None:
    model = FunctionModel(lambda request: "?" if request.role == "critic" else "v0")
    result = await Agent(model, strategy=SelfCorrect(rounds=2)).run("g")
    found = variables(result.records)
    history = found["improvement_history"]
    assert [one["step"] for one in history] == ["draft", "critique", "critique"]
    assert [one["round"] for one in history] == [0, 1, 2]
    assert "in round 2 the critic gave no usable verdict: no_candidate" in found["stopped"]
    assert "no usable reply" in history[1]["error"]
    assert found["rounds_completed"] == 0
    assert found["reasoning_answer"] == "v0"


@pytest.mark.scenario("TEA-26", "TEA-22", "TEA-25")
async def test_decomposition_leaves_parts_answers_and_depth() -> None:
    found = await told("decompose")
    assert [one["id"] for one in found["sub_problems"]] == ["c", "a", "b"]
    assert [one["answer"] for one in found["sub_answers"]] == ["answer c", "answer a", "answer b"]
    assert found["depth_used"] == 2
    assert found["reasoning_thinking"] == "think"
    failed = await told("decompose_failing")
    assert failed["depth_used"] == 1
    assert [("error" in one) for one in failed["sub_answers"]] == [False, False, True]
    one_level = await Agent(FunctionModel(splitting), strategy=Decompose(max_depth=0)).run("g")
    assert variables(one_level.records)["depth_used"] == 0


@pytest.mark.scenario("TEA-26")
async def test_a_plan_leaves_plans_results_and_evaluations() -> None:
    found = await told("plan")
    assert [len(one) for one in found["plans"]] == [2, 1]
    assert found["task_results"]["t2"]["output"] == {"seen": "a a one"}
    assert [one["achieved"] for one in found["evaluations"]] == [False, True]
    assert [one["action"] for one in found["react_steps"]] == ["look", "look", "look"]


@pytest.mark.scenario("TEA-26", "TEA-05")
async def test_react_leaves_its_steps_in_the_form_of_the_seed() -> None:
    found = await told("self_correct_react")
    assert found["react_steps"][0] == {
        "step": 1,
        "thought": "find the item",
        "action": "look",
        "action_input": {"what": "it"},
        "observation": {"seen": "a it"},
    }


@pytest.mark.scenario("TEA-27")
async def test_the_trace_is_ndjson_with_what_a_span_needs() -> None:
    result = await STORY["decompose"].agent().run("the goal")
    entries = [json.loads(line) for line in trace_ndjson(result.records).splitlines()]
    assert entries == variables(result.records)["reasoning_trace"]
    ids = {entry["id"] for entry in entries}
    assert len(ids) == len(entries)
    for entry in entries:
        wanted = {"version", "id", "parent", "step", "timestamp", "name", "type", "input", "output"}
        assert wanted | {"usage", "start", "end"} <= entry.keys()
        assert entry["parent"] in ids or entry["type"] == "run"
    usage = [entry["usage"] for entry in entries if entry["type"] == "model"]
    assert usage
    assert all(one["input_tokens"] == 100 for one in usage)


@pytest.mark.scenario("TEA-32")
async def test_parallel_branches_do_not_interleave_in_the_trace() -> None:
    import asyncio

    async def slowly(request: Any) -> str:
        await asyncio.sleep(0)
        if "do b" in request.conversation[1].content:
            for _ in range(20):
                await asyncio.sleep(0)
        return splitting(request)

    agent = Agent(FunctionModel(slowly), strategy=Decompose(), limits=Limits(steps=40))
    result = await agent.run("the goal")
    branches = [
        ".".join(entry["key"].split(".")[:2])
        for entry in variables(result.records)["reasoning_trace"]
        if "." in entry["key"]
    ]
    blocks = [one for n, one in enumerate(branches) if n == 0 or branches[n - 1] != one]
    assert len(blocks) == len(set(blocks)) >= 3


async def test_variables_do_not_depend_on_who_asks_or_when() -> None:
    log = MemoryLog()
    agent = STORY["self_correct"].agent(log=log)
    result = await agent.run("the goal", run_id="r")
    assert variables(await log.read("r")) == variables(result.records)


@pytest.mark.parametrize("strategy", [Cot(), SelfCorrect(), Decompose(), Plan()])
async def test_without_any_step_allowed_no_model_is_called(strategy: Any) -> None:
    model = ScriptedModel([])
    result = await Agent(model, strategy=strategy, tools=[look], limits=Limits(steps=0)).run("g")
    assert (result.status, result.stop_reason, model.requests) == ("limited", "max_steps", [])
    assert variables(result.records)["reasoning_answer"] is None


async def test_the_plan_that_a_model_wrote_down_itself_is_among_the_plans() -> None:
    """TAgent's `plan` is a list of steps, or a failure if the text is unreadable."""
    for name, plans in {
        "own actions given and beside": [["one", "two"]],
        "own actions": [["look"]],
        "own actions unreadable": [],
    }.items():
        result = await CASES[name].agent().run("the goal")
        assert variables(result.records)["plans"] == plans, name

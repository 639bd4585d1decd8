"""A model may judge, after the answer, whether the thoughts of a run rest on observations."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from taofold import Agent, Limits, MemoryLog, tool
from taofold.core import events as e
from taofold.core.checklist import check
from taofold.core.errors import ModelError
from taofold.files.export import dump
from taofold.testing import ScriptedModel

from .kit import act, events, finish

pytestmark = pytest.mark.anyio


@tool(effect="read")
def look(what: str = "it") -> str:
    """Look."""
    return f"{what} has item_42"


def verdicts(*grounded: bool) -> str:
    steps = [
        {"step": number, "grounded": each, "reason": "as shown"}
        for number, each in enumerate(grounded, 2)
    ]
    return json.dumps({"verdicts": steps})


def worker() -> ScriptedModel:
    return ScriptedModel([act("look"), finish("done")], name="worker")


def agent_with(judge: Any, **options: Any) -> Agent[Any, Any]:
    return Agent(worker(), tools=[look], grounding_judge=judge, log=MemoryLog(), **options)


async def test_the_models_verdict_decides_and_the_metrics_name_the_model() -> None:
    judge = ScriptedModel([verdicts(True)], name="judge-1")
    agent = agent_with(judge)
    result = await agent.run("Look.")
    assert result.output == "done"
    assert result.metrics.grounding_judge == "judge-1"
    assert (result.metrics.grounded, result.metrics.grounding_eligible) == (1, 1)
    assert result.metrics.model_calls == 3


async def test_without_a_judge_the_rules_decide() -> None:
    result = await Agent(worker(), tools=[look]).run("Look.")
    assert result.metrics.grounding_judge == "rules"
    assert result.metrics.model_calls == 2


async def test_the_checklist_names_the_judge_and_its_reason() -> None:
    agent = agent_with(ScriptedModel([verdicts(False)], name="judge-1"))
    result = await agent.run("Look.")
    points = check(result.records)
    assert any(["judge-1" in str(point) and "as shown" in str(point) for point in points])


async def test_a_replay_asks_no_judge() -> None:
    judge = ScriptedModel([verdicts(True)], name="judge-1")
    agent = agent_with(judge)
    result = await agent.run("Look.")
    again = await agent.replay(result.run_id)
    assert again.metrics.grounding_judge == "judge-1"
    assert len(judge.requests) == 1


@pytest.mark.parametrize(
    "reply", ["no json", '{"verdicts": []}', '{"verdicts": [{"step": 9, "grounded": true}]}']
)
async def test_an_unusable_verdict_leaves_it_to_the_rules_with_a_note(reply: str) -> None:
    agent = agent_with(ScriptedModel([reply], name="judge-1"))
    result = await agent.run("Look.")
    assert result.success
    assert result.metrics.grounding_judge == "rules"
    assert events(result, e.Noted)[-1].data["error"]


async def test_a_failing_judge_leaves_it_to_the_rules_with_a_note() -> None:
    judge = ScriptedModel([ModelError("down", kind="auth")], name="judge-1")
    agent = agent_with(judge)
    result = await agent.run("Look.")
    assert result.success
    assert result.metrics.grounding_judge == "rules"
    notes = events(result, e.Noted)
    assert notes[-1].data["judge"] == "rules"
    assert "down" in notes[-1].data["error"]


async def test_a_limit_forbids_the_judge_and_keeps_the_answer() -> None:
    judge = ScriptedModel([verdicts(True)], name="judge-1")
    agent = agent_with(judge, limits=Limits(model_calls=2))
    result = await agent.run("Look.")
    assert result.output == "done"
    assert result.metrics.grounding_judge == "rules"
    assert not judge.requests


async def test_texts_of_the_run_are_data_in_the_judges_prompt() -> None:
    judge = ScriptedModel([verdicts(True)], name="judge-1")
    agent = agent_with(judge)
    await agent.run("Look.")
    (request,) = judge.requests
    system, user = request.messages
    assert "item_42" not in system.text
    assert json.loads(user.text)["steps"][0]["observations"] == ["it has item_42"]


async def test_the_judges_reply_is_not_streamed_as_an_answer() -> None:
    agent = agent_with(ScriptedModel(["my verdicts in prose"], name="judge-1"))
    pieces = [piece async for piece in agent.stream("Look.").text()]
    assert "verdicts" not in "".join(pieces)


async def test_an_answer_in_prose_is_judged_too() -> None:
    model = ScriptedModel([act("look"), "It has item_42."], name="worker")
    judge = ScriptedModel([verdicts(True)], name="judge-1")
    agent = Agent(model, tools=[look], grounding_judge=judge, log=MemoryLog())
    result = await agent.run("Look.")
    assert (result.stop_reason, result.metrics.grounding_judge) == ("no_tool_call", "judge-1")


async def judged_run(judge: ScriptedModel) -> tuple[Any, MemoryLog]:
    log = MemoryLog()
    agent = Agent(worker(), tools=[look], grounding_judge=judge, log=log)
    return await agent.run("Look."), log


def place(result: Any, wanted: type[e.Event]) -> int:
    """Returns the index of the last event of a kind."""
    return max([at for at, r in enumerate(result.records) if isinstance(r.event, wanted)])


async def cut(result: Any, log: MemoryLog, at: int) -> MemoryLog:
    """Returns a log as a process leaves it that was killed after `at` records."""
    killed = MemoryLog()
    await killed.create(
        replace(await log.row(result.run_id), status="running"), records=result.records[:at]
    )
    return killed


async def test_a_kill_between_the_answer_and_the_judge_asks_each_model_once() -> None:
    result, log = await judged_run(ScriptedModel([verdicts(True)], name="judge-1"))
    killed = await cut(result, log, place(result, e.Replied))
    answering, judge = worker(), ScriptedModel([verdicts(True)], name="judge-1")
    agent = Agent(answering, tools=[look], grounding_judge=judge, log=killed)
    resumed = await agent.resume(result.run_id)
    assert (len(answering.requests), len(judge.requests)) == (0, 1)
    assert resumed.metrics.model_calls == 3
    assert resumed.metrics.grounding_judge == "judge-1"


async def test_a_kill_after_the_judges_reply_asks_no_model() -> None:
    result, log = await judged_run(ScriptedModel([verdicts(True)], name="judge-1"))
    killed = await cut(result, log, place(result, e.Noted))
    answering, judge = worker(), ScriptedModel([verdicts(False)], name="judge-1")
    agent = Agent(answering, tools=[look], grounding_judge=judge, log=killed)
    resumed = await agent.resume(result.run_id)
    assert (len(answering.requests), len(judge.requests)) == (0, 0)
    assert (resumed.metrics.model_calls, resumed.metrics.grounded) == (3, 1)


async def test_a_replay_needs_no_judge_and_a_resume_has_no_other_model_judge() -> None:
    result, log = await judged_run(ScriptedModel([verdicts(True)], name="judge-1"))
    answering = worker()
    bare = Agent(answering, tools=[look], log=log)
    assert (await bare.replay(result.run_id)).metrics.grounding_judge == "judge-1"
    killed = await cut(result, log, place(result, e.Replied))
    resumed = await Agent(answering, tools=[look], log=killed).resume(result.run_id)
    assert (resumed.output, resumed.metrics.grounding_judge) == ("done", "rules")
    assert not answering.requests


async def test_a_fork_is_judged_by_its_own_steps() -> None:
    judge = ScriptedModel([verdicts(True), verdicts(False)], name="judge-1")
    result, log = await judged_run(judge)
    first = place(result, e.Observed) - 3
    agent = Agent(worker(), tools=[look], grounding_judge=judge, log=log)
    forked = await agent.fork(result.run_id, at=first)
    assert forked.run_id != result.run_id
    assert (result.metrics.grounded, forked.metrics.grounded) == (1, 0)
    assert forked.metrics.grounding_judge == "judge-1"


async def test_a_run_without_an_answer_asks_no_judge() -> None:
    judge = ScriptedModel([verdicts(True)], name="judge-1")
    model = ScriptedModel([act("look"), ModelError("down", kind="auth")], name="worker")
    agent = Agent(model, tools=[look], grounding_judge=judge, log=MemoryLog())
    result = await agent.run("Look.")
    assert (result.success, judge.requests) == (False, [])


async def test_an_agent_file_names_the_judge(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text("model: test:worker\ngrounding_judge: test:other\n", encoding="utf-8")
    agent = Agent.from_file(path)
    assert agent.grounding_judge == ["test:other"]
    assert "grounding_judge: test:other" in dump(agent)
    path.write_text("model: test:worker\ngrounding_judge: 7\n", encoding="utf-8")
    with pytest.raises(ExceptionGroup) as refused:
        Agent.from_file(path)
    assert "agent.yaml:2: grounding_judge:" in str(refused.value.exceptions[0])

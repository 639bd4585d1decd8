"""Actions that ask a model: their values, their models, their failures."""

import json
from pathlib import Path
from typing import Any

import pytest

from taofold.core.errors import ModelError
from taofold.runtime.model import Request
from taofold.testing.models import FunctionModel, ScriptedModel
from tests.files.flow.kit import flow, made, reasoned, with_model


def act(tool: str, kind: str = "reasoning", **parameters: Any) -> str:
    action = {"tool": tool, "parameters": parameters, "rationale": "r"}
    return json.dumps({"thought": "t", "thought_type": kind, "action": action})


def run(text: str, folder: Path, model: Any, **data: Any) -> Any:
    return with_model(made(text, folder), model).run_sync("x", data=data)


def test_a_model_with_tools_gives_what_it_called(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    text = "nodes: [{name: a, uses: llm.tools, with: {prompt: p, tools: [tool.list_files]}}]"
    model = ScriptedModel([act("list_files"), act("finish", answer="a.txt it is")])
    result = run(text, tmp_path, model)
    assert result.success, result.error
    assert result.output["content"] == "a.txt it is"
    assert result.output["tool_calls"] == [{"name": "list_files", "arguments": {}}]
    assert "a.txt" in str(result.output["tool_results"][0])
    assert result.output["rounds"] == 1


def test_an_answer_that_does_not_fit_is_corrected(tmp_path: Path) -> None:
    text = "nodes: [{name: a, uses: llm.call, with: {prompt: p, output_format: {n: int}}}]"
    model = ScriptedModel(['{"n": "many"}', '{"n": 3}'])
    assert run(text, tmp_path, model).output == {"n": 3}
    assert "n" in model.requests[1].last


def test_an_answer_that_never_fits_fails_the_node_and_sets_the_variables(tmp_path: Path) -> None:
    text = "nodes: [{name: a, uses: reason.cot, with: {problem: p, output_format: {n: int}}}]"
    result = run(text, tmp_path, FunctionModel(lambda _: "{]"))
    assert not result.success
    assert "no usable reply" in result.error
    assert result.state.data["reasoning_answer"] is None
    assert result.state.data["reasoning_trace"][0]["status"] == "failure"


@pytest.mark.scenario("TEA-26")
@pytest.mark.parametrize(
    ("action", "goal", "own"),
    [
        ("cot", "problem", "reasoning_thinking"),
        ("react", "goal", "react_steps"),
        ("self_correct", "task", "improvement_history"),
        ("decompose", "problem", "reasoning_trace"),
    ],
)
def test_an_action_that_fails_sets_its_variables_and_the_flow_goes_on(
    action: str, goal: str, own: str, tmp_path: Path
) -> None:
    text = (
        f"nodes: [{{name: a, uses: reason.{action}, on_error: {{then: continue}}, "
        f"with: {{{goal}: p, output_format: {{n: int}}}}}}]"
    )
    result = run(text, tmp_path, FunctionModel(lambda _: "{]"))
    data = result.state.data
    assert data["reasoning_answer"] is None
    assert data["reasoning_trace"][-1]["status"] == "failure"
    assert own in data


def test_an_output_format_with_step_keys_types_the_final_answer(tmp_path: Path) -> None:
    text = """
nodes:
  - name: a
    uses: reason.react
    with: {goal: g, tools: [list_files], output_format: {thought: str, final_answer: int}}
"""
    model = ScriptedModel([act("list_files"), act("finish", answer="x"), act("finish", answer=7)])
    result = run(text, tmp_path, model)
    assert result.output["final_answer"] == 7
    assert result.output["total_steps"] == 1


def test_a_type_that_is_none_is_told_when_a_template_gives_it(tmp_path: Path) -> None:
    text = "nodes: [{name: a, uses: llm.call, with: {prompt: p, output_format: '{{ state.t }}'}}]"
    result = run(text, tmp_path, ScriptedModel([]), t={"n": "intt"})
    assert "output_format at n: unknown type 'intt'" in result.error
    wrong = (
        "nodes: [{name: a, uses: reason.cot, with: {problem: p, thinking_format: '{{ goal }}'}}]"
    )
    assert "thinking_format" in run(wrong, tmp_path, ScriptedModel([])).error


@pytest.mark.scenario("TEA-21")
def test_an_object_is_corrected_as_text_is(tmp_path: Path) -> None:
    text = """
nodes:
  - name: a
    uses: reason.self_correct
    with: {task: t, output_format: {n: int}, critic_prompt: "Is {{ output.n }} right, {{ goal }}?"}
"""
    worse = {"reasoning": "r", "score": 0.4, "issues": ["i"], "suggestions": []}
    fine = {"reasoning": "r", "score": 0.9, "issues": ["i"], "suggestions": []}
    model = ScriptedModel(
        ['{"n": 1}', json.dumps(fine), '{"n": 2}', json.dumps(worse), '{"n": 3}', json.dumps(worse)]
    )
    result = run(text, tmp_path, model)
    assert result.output["output"] == {"n": 1}  # the best, not the last
    assert result.output["rounds_completed"] == 2
    history = result.state.data["improvement_history"]
    assert [one["improvement_score"] for one in history] == [0.9, 0.4, 0.4]
    assert "Is 1 right, x?" in model.requests[1].last


@pytest.mark.scenario("TEA-17")
@pytest.mark.parametrize("score", ['{"score": 7, "issues": ["i"]}', "I like it."])
def test_a_round_whose_critic_gives_no_score_is_in_the_history_with_its_reason(
    tmp_path: Path, score: str
) -> None:
    text = "nodes: [{name: a, uses: reason.self_correct, with: {task: t, improvement_rounds: 1}}]"
    result = run(text, tmp_path, ScriptedModel(["v0", score, score, score]))
    draft, failed = result.state.data["improvement_history"]
    assert (draft["output"], draft["round"]) == ("v0", 0)
    assert (failed["round"], failed["step"]) == (1, "critique")
    assert "no usable reply in 3 attempts" in failed["error"]
    assert result.output["rounds_completed"] == 0


@pytest.mark.parametrize(
    "node",
    [
        'uses: reason.self_correct, with: {task: t, critic_prompt: "{{ output }} {{ state.no }}"}',
        "uses: reason.decompose, "
        'with: {problem: t, synthesis_prompt: "{{ sub_answers }} {{ state.no }}"}',
    ],
)
def test_an_unknown_variable_of_a_prompt_inside_an_action_fails_its_node_in_one_line(
    tmp_path: Path, node: str
) -> None:
    split = {"reasoning": "r", "sub_problems": [{"id": "a", "description": "d", "complex": False}]}
    replies = [json.dumps(split), json.dumps({"thinking": "t", "answer": "1"})]
    result = run(f"nodes: [{{name: a, {node}}}]", tmp_path, ScriptedModel(replies))
    assert not result.success
    assert "no" in result.error
    assert "\n" not in result.error
    assert "Traceback" not in result.error


def test_a_draft_may_use_tools(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    text = """
nodes:
  - name: a
    uses: reason.self_correct
    with: {task: t, inner: react, tools: [read_file], improvement_rounds: 0}
"""
    model = ScriptedModel([act("read_file", path="a.txt"), act("finish", answer="hello")])
    result = run(text, tmp_path, model)
    assert result.output["output"] == "hello"
    assert result.output["rounds_completed"] == 0


def test_a_critic_that_cannot_be_asked_leaves_the_draft(tmp_path: Path) -> None:
    text = "nodes: [{name: a, uses: reason.self_correct, with: {task: t}}]"
    result = run(text, tmp_path, ScriptedModel(["draft", ModelError("down")]))
    assert "down" in result.error
    assert result.state.data["reasoning_answer"] == "draft"


@pytest.mark.scenario("TEA-25")
def test_a_part_that_fails_is_marked(tmp_path: Path) -> None:
    split = {
        "reasoning": "two",
        "sub_problems": [
            {"id": "a", "description": "first", "dependencies": [], "complex": False},
            {"id": "b", "description": "second", "dependencies": [], "complex": False},
        ],
    }

    def say(request: Request) -> str:
        first, last = request.conversation[0].content, request.conversation[-1].content
        if "sub_problems" in first:
            return json.dumps(split)
        if "Solve only this part:\nfirst" in last:
            return reasoned("one")
        if "Solve only this part" in str([m.content for m in request.conversation]):
            return "{]"
        return reasoned("together")

    text = "nodes: [{name: a, uses: reason.decompose, with: {problem: p}}]"
    result = flow(text, tmp_path, say).run_sync("x")
    assert result.success, result.error
    answers = {one["id"]: one for one in result.output["sub_answers"]}
    assert answers["a"]["answer"] == "one"
    assert "error" in answers["b"]


def test_a_plan_is_carried_out(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    text = "nodes: [{name: a, uses: reason.plan, with: {goal: g, tools: [read_file]}}]"
    asked: list[str] = []

    def say(request: Request) -> str:
        asked.append(request.role)
        if request.role == "planner":
            task = {
                "id": "t1",
                "description": "read",
                "tool": "read_file",
                "args": {"path": "a.txt"},
            }
            return json.dumps({"thought": "read it", "tasks": [task]})
        if request.role == "evaluator":
            verdict = {"reasoning": "r", "achieved": True, "answer": "hello", "feedback": ""}
            return json.dumps(verdict)
        return reasoned("hello")

    result = flow(text, tmp_path, say).run_sync("x")
    assert "planner" in asked
    assert "evaluator" in asked
    assert any(step["action"] == "read_file" for step in result.state.data["react_steps"])


def test_a_tool_that_hangs_is_stopped_after_the_nodes_seconds(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text(
        "import asyncio\nfrom taofold import tool\n\n@tool(effect='read')\n"
        "async def hang() -> str:\n    '''Hang.'''\n    await asyncio.Event().wait()\n"
        "    return 'never'\n"
    )
    text = 'tools: ["t.py:hang"]\nnodes: [{name: a, uses: tool.hang, timeout: 0.02}]'
    result = run(text, tmp_path, ScriptedModel([]))
    assert result.steps[0].observations[0].status == "timeout"
    assert result.error.startswith("node 'a'")


def test_a_question_to_the_person_waits_for_the_answer(tmp_path: Path) -> None:
    from taofold import Decision

    text = "nodes: [{name: a, uses: person.ask, with: {question: 'Which, {{ goal }}?'}}]"
    agent = with_model(made(text, tmp_path), ScriptedModel([]))
    waiting = agent.run_sync("x")
    assert waiting.status == "waiting"
    assert waiting.pending[0].question == "Which, x?"
    answered = agent.replace(approve=lambda _: Decision("answer", answer="blue")).run_sync("x")
    assert answered.output == "blue"

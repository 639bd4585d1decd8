"""Actions that ask a model: their values, their models, their failures."""

import json
from pathlib import Path
from typing import Any

import pytest

from taofold import Agent
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


@pytest.mark.parametrize(
    ("action", "key", "own", "other"),
    [
        ("self_correct, with: {task: t", "critic_prompt", "output", "sub_answers"),
        ("decompose, with: {problem: t", "synthesis_prompt", "sub_answers", "output"),
    ],
)
def test_an_unknown_name_in_a_prompt_inside_an_action_is_a_fault_of_the_file(
    tmp_path: Path, action: str, key: str, own: str, other: str
) -> None:
    def read(prompt: str) -> None:
        text = f'nodes: [{{name: a, uses: reason.{action}, {key}: "{prompt}"}}}}]'
        (tmp_path / "flow.yaml").write_text(text)
        Agent.from_file(tmp_path / "flow.yaml", root=tmp_path)

    for name in ("note", other):
        with pytest.raises(ExceptionGroup) as faults:
            read(f"{{{{ {own} }}}} {{{{ {name} }}}}")
        (fault,) = faults.value.exceptions
        assert f"{key}: unknown name '{name}'; write state.{name}?" in str(fault)
    read(f"{{% for one in {own} %}}{{{{ one }}}}{{% endfor %}} {{{{ goal }}}} {{{{ state.x }}}}")


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


def critique(score: float, *issues: str) -> str:
    return json.dumps({"reasoning": "r", "score": score, "issues": issues, "suggestions": []})


@pytest.mark.parametrize("steps", [1, 3])
def test_an_answer_in_the_last_permitted_step_is_a_success(steps: int, tmp_path: Path) -> None:
    text = (
        "nodes: [{name: a, uses: reason.react, "
        f"with: {{goal: g, tools: [list_files], max_steps: {steps}}}}}]"
    )
    calls = [act("list_files", glob=f"*.{number}") for number in range(steps - 1)]
    model = ScriptedModel([*calls, act("finish", answer="here")])
    result = run(text, tmp_path, model)
    assert result.success, result.error
    assert result.output["final_answer"] == "here"
    assert result.output["total_steps"] == steps - 1


@pytest.mark.parametrize(
    "reply", ["Sure: {}", "Here it is:\n```json\n{}\n```\nDone.", "{} is my answer."]
)
def test_an_answer_inside_of_prose_is_read(reply: str, tmp_path: Path) -> None:
    text = "nodes: [{name: a, uses: reason.react, with: {goal: g, tools: [list_files]}}]"
    model = ScriptedModel([reply.replace("{}", act("finish", answer="here"))])
    assert run(text, tmp_path, model).output["final_answer"] == "here"


@pytest.mark.parametrize("name", ["pros-cons", "pros_cons", "step-by-step", "first-principles"])
def test_a_thinking_format_may_be_written_with_hyphens(name: str, tmp_path: Path) -> None:
    text = "nodes: [{name: a, uses: reason.cot, with: {problem: p, thinking_format: X}}]"
    for written in (name, '"{{ state.form }}"'):
        model = ScriptedModel([reasoned("x")])
        result = run(text.replace("X", written), tmp_path, model, form=name)
        assert result.output["thinking_format"] == name.replace("-", "_")


def test_an_unknown_thinking_format_of_the_state_fails_the_node(tmp_path: Path) -> None:
    text = (
        "nodes: [{name: a, uses: reason.cot, "
        'with: {problem: p, thinking_format: "{{ state.form }}"}}]'
    )
    result = run(text, tmp_path, ScriptedModel([]), form="haiku")
    assert "thinking_format" in result.error
    assert "\n" not in result.error


def test_a_critic_sees_the_version_also_if_its_prompt_does_not_read_it(tmp_path: Path) -> None:
    text = (
        "nodes: [{name: a, uses: reason.self_correct, "
        'with: {task: t, critic_prompt: "Check the {{ state.what }}."}}]'
    )
    model = ScriptedModel(["the draft", critique(1)])
    assert run(text, tmp_path, model, what="rhyme").success
    assert "Check the rhyme." in model.requests[1].last
    assert model.requests[1].last.endswith("The version to judge:\nthe draft")


def test_a_critic_prompt_that_reads_the_version_has_it_once(tmp_path: Path) -> None:
    text = (
        "nodes: [{name: a, uses: reason.self_correct, "
        'with: {task: t, critic_prompt: "Judge: {{ output }}"}}]'
    )
    model = ScriptedModel(["the draft", critique(1)])
    assert run(text, tmp_path, model).success
    assert model.requests[1].last.count("the draft") == 1


def test_parts_are_shown_also_if_the_synthesis_prompt_does_not_read_them(tmp_path: Path) -> None:
    text = """
nodes:
  - name: a
    uses: reason.decompose
    with: {problem: p, max_depth: 1, synthesis_prompt: "Combine {{ state.how }}."}
"""
    parts = [{"id": name, "description": f"part {name}", "complex": False} for name in "ab"]
    model = ScriptedModel(
        [json.dumps({"reasoning": "r", "sub_problems": parts})]
        + [reasoned(f"answer of {name}") for name in "ab"]
        + [reasoned("both")]
    )
    result = run(text, tmp_path, model, how="briefly")
    assert result.output["final_answer"] == "both"
    assert "Combine briefly." in model.requests[-1].last
    assert "answer of a" in model.requests[-1].last


@pytest.mark.parametrize("form", ["{{ state.note }}", "{{ output }} {{ state.note }}"])
def test_an_undefined_variable_of_a_prompt_is_one_line(form: str, tmp_path: Path) -> None:
    for action, keys, key in (
        ("self_correct", "task: t", "critic_prompt"),
        ("decompose", "problem: t, max_depth: 1", "synthesis_prompt"),
    ):
        prompt = form.replace("output", "sub_answers") if action == "decompose" else form
        text = f"nodes: [{{name: a, uses: reason.{action}, with: {{{keys}, {key}: '{prompt}'}}}}]"
        parts = [{"id": name, "description": name, "complex": False} for name in "ab"]
        split = json.dumps({"reasoning": "r", "sub_problems": parts})
        replies = [split if action == "decompose" else "v1", reasoned("a"), reasoned("b")]
        result = run(text, tmp_path, ScriptedModel(replies))
        assert not result.success
        assert f"{key}: " in result.error
        assert "there is no 'note'" in result.error
        assert "\n" not in result.error


@pytest.mark.parametrize(
    "reply", ["7", "A fine text.", '{"score": 7, "issues": ["a"]}', '{"issues": ["a"]}']
)
def test_a_critic_without_a_usable_critique_is_a_failed_round(reply: str, tmp_path: Path) -> None:
    text = "nodes: [{name: a, uses: reason.self_correct, with: {task: t, improvement_rounds: 1}}]"
    result = run(text, tmp_path, ScriptedModel(["v1", *[reply] * 3]))
    assert result.output["output"] == "v1"
    assert result.output["rounds_completed"] == 0
    [draft, failed] = result.output["improvement_history"]
    assert "improvement_score" not in draft
    assert (failed["round"], failed["step"]) == (1, "critique")
    assert "no usable reply in 3 attempts" in failed["error"]

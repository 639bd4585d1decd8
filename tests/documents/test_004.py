"""Reasoning techniques, from YAML files as the story's readers write them."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from taofold.actions import build_actions_registry
from taofold.actions import reasoning_actions as actions
from taofold.log.formats.export import export
from taofold.reason import self_correct
from taofold.reasoning.variables import variables
from taofold.runtime.model import Request
from taofold.testing import FunctionModel, ScriptedModel
from tests.files.flow.kit import faults, made, with_model

SPLIT = {
    "reasoning": "two parts",
    "sub_problems": [
        {"id": "a", "description": "count apples", "dependencies": [], "complex": False},
        {"id": "b", "description": "count pears", "dependencies": ["a"], "complex": False},
    ],
}


def thought(answer: Any, thinking: str = "I add the numbers") -> str:
    return json.dumps({"thinking": thinking, "answer": answer})


def act(name: str, text: str = "I look for it", **parameters: Any) -> str:
    action = {"tool": name, "parameters": parameters, "rationale": "it is needed"}
    return json.dumps({"thought": text, "thought_type": "reasoning", "action": action})


def verdict(score: float, *issues: str) -> str:
    return json.dumps({"reasoning": "r", "score": score, "issues": issues, "suggestions": []})


def node(action: str, **settings: Any) -> str:
    return json.dumps({"nodes": [{"name": "a", "action": action, "with": settings}]})


def run(folder: Path, text: str, *replies: str, **data: Any) -> tuple[Any, ScriptedModel]:
    model = ScriptedModel(replies)
    return with_model(made(text, folder), model).run_sync("go", data=data), model


@pytest.mark.document_item(
    "004.cot.prompt",
    "004.cot.output",
    "004.scenario.parsing",
    "004.yaml.action",
    "004.yaml.state",
    "004.yaml.cot.problem",
    "004.output.structured",
    "004.state.thinking",
    "004.state.answer",
    "004.state.trace",
    "004.output.trace",
)
def test_cot_asks_for_thinking_and_answer_and_sets_the_state(tmp_path: Path) -> None:
    text = node("reason.cot", problem="{{ state.question }}")
    result, model = run(tmp_path, text, thought("42"), question="What is 40 + 2?")
    assert result.success, result.error
    assert result.output["thinking"] == "I add the numbers"
    assert result.output["answer"] == "42"
    asked = model.requests[0].text
    assert "What is 40 + 2?" in asked
    assert "step by step" in asked.lower()
    data = result.state.data
    assert (data["reasoning_thinking"], data["reasoning_answer"]) == ("I add the numbers", "42")
    assert data["reasoning_trace"]
    assert all(isinstance(entry, dict) for entry in data["reasoning_trace"])


@pytest.mark.document_item("004.cot.any")
@pytest.mark.parametrize(
    ("format", "answer"), [("int", 42), ("list[int]", [1, 2]), ({"n": "int"}, {"n": 3})]
)
def test_an_answer_may_have_any_type(tmp_path: Path, format: Any, answer: Any) -> None:
    text = node("reason.cot", problem="p", output_format=format)
    result, _ = run(tmp_path, text, thought(answer))
    assert result.state.data["reasoning_answer"] == answer


@pytest.mark.parametrize(
    ("format", "words"),
    [
        pytest.param(
            "step_by_step", "step by step", marks=pytest.mark.document_item("004.cot.step_by_step")
        ),
        pytest.param("pros_cons", "against", marks=pytest.mark.document_item("004.cot.pros_cons")),
        pytest.param("tree", "branch", marks=pytest.mark.document_item("004.cot.tree")),
    ],
)
def test_each_format_has_its_instruction(tmp_path: Path, format: str, words: str) -> None:
    text = node("reason.cot", problem="p", thinking_format=format)
    result, model = run(tmp_path, text, thought("x"))
    assert result.output["thinking_format"] == format
    assert words in model.requests[0].text.lower()
    other = "tree" if format != "tree" else "pros_cons"
    _, unlike = run(tmp_path, text.replace(f'"{format}"', f'"{other}"'), thought("x"))
    assert unlike.requests[0].text != model.requests[0].text


@pytest.mark.document_item("004.cot.spelling")
@pytest.mark.parametrize("spelling", ["pros-cons", "step-by-step"])
def test_a_format_may_be_written_with_hyphens(tmp_path: Path, spelling: str) -> None:
    text = node("reason.cot", problem="p", thinking_format=spelling)
    result, model = run(tmp_path, text, thought("x"))
    assert result.output["thinking_format"] == spelling.replace("-", "_")
    _, same = run(tmp_path, text.replace("-", "_"), thought("x"))
    assert same.requests[0].text == model.requests[0].text


@pytest.mark.document_item("004.yaml.cot.format")
def test_an_unknown_format_is_found_by_the_check() -> None:
    (fault,) = faults(node("reason.cot", problem="p", thinking_format="sideways"))
    assert "thinking_format" in str(fault)
    assert "pros_cons" in str(fault)


@pytest.mark.document_item("004.cot.examples", "004.yaml.cot.examples")
def test_examples_are_in_the_prompt_with_their_parts(tmp_path: Path) -> None:
    example = {"problem": "What is 15% of 80?", "thinking": "Step 1: 0.15 * 80", "answer": "12"}
    text = node("reason.cot", problem="p", few_shot_examples=[example])
    _, model = run(tmp_path, text, thought("x"))
    asked = model.requests[0].text
    places = [asked.index(part) for part in example.values()]
    assert places == sorted(places)


@pytest.mark.document_item(
    "004.react.loop",
    "004.react.tools",
    "004.react.trace",
    "004.react.early",
    "004.tools.llm",
    "004.yaml.react.goal",
    "004.scenario.arguments",
    "004.scenario.early",
    "004.state.steps",
    "004.trace.steps",
    "004.trace.thought",
    "004.trace.action",
    "004.trace.input",
    "004.trace.observation",
    "004.trace.answer",
)
def test_react_runs_its_tools_and_gives_the_documents_trace(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("otters hold hands")
    text = node("reason.react", goal="{{ state.question }}", tools=["read_file"], max_steps=10)
    script = [act("read_file", path="notes.txt"), act("finish", "I know it", answer="hands")]
    result, model = run(tmp_path, text, *script, question="What do otters hold?")
    assert result.success, result.error
    assert result.output["final_answer"] == "hands"
    (step,) = result.state.data["react_steps"]
    assert (step["step"], step["thought"], step["action"]) == (1, "I look for it", "read_file")
    assert step["action_input"] == {"path": "notes.txt"}
    assert "otters hold hands" in str(step["observation"])
    assert "What do otters hold?" in model.requests[0].text
    assert "otters hold hands" in model.requests[1].text
    assert len(model.requests) == 2
    trace = json.loads(export(result.records, "react-json"))
    assert set(trace["steps"][0]) >= {"step", "thought", "action", "action_input", "observation"}
    assert trace["final_answer"] == "hands"


@pytest.mark.document_item("004.yaml.react.tools")
def test_react_is_offered_only_the_tools_that_it_names(tmp_path: Path) -> None:
    text = node("reason.react", goal="g", tools=["read_file"])
    script = [act("list_files"), act("finish", "It failed", answer="x")]
    result, model = run(tmp_path, text, *script)
    assert "list_files" not in model.requests[0].text
    assert "read_file" in model.requests[0].text
    assert "unknown tool" in str(result.state.data["react_steps"][0]["observation"])


@pytest.mark.document_item("004.react.last")
def test_an_answer_in_the_last_permitted_step_is_a_success(tmp_path: Path) -> None:
    text = node("reason.react", goal="g", tools=["list_files"], max_steps=1)
    result, model = run(tmp_path, text, act("finish", answer="at once"))
    assert (result.success, result.output["final_answer"]) == (True, "at once")
    assert len(model.requests) == 1


@pytest.mark.document_item(
    "004.react.max_steps",
    "004.scenario.max_steps",
    "004.risk.loop",
    "004.yaml.react.steps",
)
@pytest.mark.parametrize(("settings", "steps"), [({"max_steps": 3}, 3), ({}, 10)])
def test_react_ends_after_its_steps(tmp_path: Path, settings: Any, steps: int) -> None:
    asked: list[int] = []

    def more(request: Request) -> str:
        asked.append(1)
        return act("list_files", f"I look again {len(asked)}", path=f"d{len(asked)}")

    for number in range(20):
        (tmp_path / f"d{number}").mkdir()
    text = node("reason.react", goal="g", tools=["list_files"], **settings)
    result = with_model(made(text, tmp_path), FunctionModel(more)).run_sync("go")
    assert not result.success
    assert steps <= len(asked) <= steps + 1
    assert len(result.state.data["react_steps"]) <= steps


@pytest.mark.document_item("004.yaml.react.format")
def test_the_keys_of_a_step_type_the_final_answer(tmp_path: Path) -> None:
    keys = {"thought": "str", "action": "str", "action_input": "any", "observation": "str"}
    text = node("reason.react", goal="g", output_format={**keys, "final_answer": "int"})
    result, _ = run(tmp_path, text, act("finish", answer="x"), act("finish", answer=7))
    assert result.output["final_answer"] == 7


@pytest.mark.document_item(
    "004.correct.cycle",
    "004.correct.trace",
    "004.yaml.correct.task",
    "004.yaml.correct.rounds",
    "004.scenario.improvement",
    "004.state.history",
)
def test_self_correct_drafts_judges_and_improves_twice_by_default(tmp_path: Path) -> None:
    text = node("reason.self_correct", task="{{ state.task }}")
    script = ["one", verdict(0.2, "short"), "one two", verdict(0.5, "short")]
    script += ["one two three", verdict(0.9, "fine")]
    result, model = run(tmp_path, text, *script, task="count")
    assert result.output["output"] == "one two three"
    assert result.output["rounds_completed"] == 2
    history = result.state.data["improvement_history"]
    assert [entry["improvement_score"] for entry in history] == [0.2, 0.5, 0.9]
    assert [entry["output"] for entry in history] == ["one", "one two", "one two three"]
    assert "count" in model.requests[0].text
    assert "short" in model.requests[2].text


@pytest.mark.document_item("004.correct.rounds")
@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_the_number_of_rounds_is_configurable(tmp_path: Path, rounds: int) -> None:
    text = node("reason.self_correct", task="t", improvement_rounds=rounds)
    script = ["v0", verdict(0.1, "bad")]
    for number in range(1, rounds + 1):
        script += [f"v{number}", verdict(0.1 + number / 10, "bad")]
    result, _ = run(tmp_path, text, *script)
    assert result.output["rounds_completed"] == rounds
    assert result.output["output"] == f"v{rounds}"


@pytest.mark.document_item("004.correct.output")
def test_the_best_version_is_the_output_though_a_later_one_is_worse(tmp_path: Path) -> None:
    text = node("reason.self_correct", task="t", improvement_rounds=1)
    result, _ = run(tmp_path, text, "good", verdict(0.9, "a detail"), "bad", verdict(0.4, "worse"))
    assert result.output["output"] == "good"


@pytest.mark.document_item("004.correct.models", "004.yaml.correct.models")
def test_generator_and_critic_are_two_models(tmp_path: Path) -> None:
    text = node(
        "reason.self_correct", task="t", generator_model="test:one", critic_model="test:two"
    )
    agent = made(text, tmp_path)
    writer, critic = (
        ScriptedModel(["draft", "better"]),
        ScriptedModel([verdict(0.5, "x"), verdict(1)]),
    )
    models = {name: critic if name.endswith("two") else writer for name in agent.models}
    assert sorted(agent.models) == ["test:one", "test:two"]
    result = agent.replace(model=writer, models=models).run_sync("go")
    assert result.output["output"] == "better"
    assert (len(writer.requests), len(critic.requests)) == (2, 2)


@pytest.mark.document_item("004.yaml.correct.prompt")
def test_the_critics_prompt_is_rendered_with_the_output(tmp_path: Path) -> None:
    text = node("reason.self_correct", task="t", critic_prompt="Review it. Code: {{ output }}")
    _, model = run(tmp_path, text, "def f(): pass", verdict(1))
    assert "Review it. Code: def f(): pass" in model.requests[1].last


@pytest.mark.document_item("004.yaml.correct.undefined")
def test_an_undefined_variable_of_the_critics_prompt_is_one_line(tmp_path: Path) -> None:
    text = node("reason.self_correct", task="t", critic_prompt="{{ output }} {{ state.note }}")
    result, _ = run(tmp_path, text, "draft", verdict(1))
    assert not result.success
    assert "note" in result.error
    assert "\n" not in result.error


@pytest.mark.document_item("004.correct.failed")
def test_a_round_without_a_usable_critique_is_in_the_history_with_its_reason(
    tmp_path: Path,
) -> None:
    text = node("reason.self_correct", task="t", improvement_rounds=1)
    result, _ = run(tmp_path, text, "v0", *['{"score": 7, "issues": ["i"]}'] * 3)
    assert result.output["rounds_completed"] == 0
    assert "no usable reply" in result.state.data["improvement_history"][-1]["error"]


@pytest.mark.document_item("004.state.history.keys")
def test_the_history_has_the_same_keys_in_python_and_in_yaml(tmp_path: Path) -> None:
    script = ["v0", verdict(0.5, "i"), "v1", verdict(1)]
    result, _ = run(tmp_path, node("reason.self_correct", task="t"), *script)
    direct = asyncio.run(self_correct("t", model=ScriptedModel(script)))
    ours = direct.variables["improvement_history"]
    assert [set(entry) for entry in ours] == [
        set(entry) for entry in result.state.data["improvement_history"]
    ]


@pytest.mark.document_item(
    "004.decompose.parts",
    "004.decompose.solve",
    "004.decompose.synthesis",
    "004.scenario.synthesis",
    "004.yaml.decompose.prompt",
)
def test_decompose_solves_the_parts_in_order_and_combines_them(tmp_path: Path) -> None:
    prompt = "Combine these sub-answers: {{ sub_answers | tojson }}"
    text = node("reason.decompose", problem="Count fruit", synthesis_prompt=prompt)
    script = [json.dumps(SPLIT), thought("three"), thought("four"), thought("seven")]
    result, model = run(tmp_path, text, *script)
    assert result.output["final_answer"] == "seven"
    assert [part["answer"] for part in result.output["sub_answers"]] == ["three", "four"]
    assert "count apples" in model.requests[1].text
    assert "count pears" in model.requests[2].text
    assert "three" in model.requests[2].text
    assert "Combine these sub-answers: [" in model.requests[3].last
    assert '"answer":"four"' in model.requests[3].last


@pytest.mark.document_item(
    "004.decompose.recursive", "004.risk.recursion", "004.yaml.decompose.depth"
)
@pytest.mark.parametrize(("settings", "depth"), [({"max_depth": 1}, 1), ({}, 2)])
def test_decompose_recurses_to_its_depth_and_no_further(
    tmp_path: Path, settings: Any, depth: int
) -> None:
    part = {"id": "a", "description": "a part", "dependencies": [], "complex": True}
    other = {**part, "id": "b", "description": "another part"}
    split = json.dumps({"reasoning": "r", "sub_problems": [part, other], "thinking": "t"})

    def say(request: Request) -> str:
        wants = request.text
        return split if "sub_problems" in wants else thought("x")

    text = node("reason.decompose", problem="all of it", **settings)
    result = with_model(made(text, tmp_path), FunctionModel(say)).run_sync("go")
    assert result.success, result.error
    assert result.output["depth_used"] == depth


@pytest.mark.document_item("004.output.log", "004.later.version")
def test_the_trace_is_json_with_a_version(tmp_path: Path) -> None:
    result, _ = run(tmp_path, node("reason.cot", problem="p"), thought("x"))
    trace = json.loads(json.dumps(variables(result.records)["reasoning_trace"]))
    assert trace
    assert all(entry["version"] == trace[0]["version"] for entry in trace)
    assert trace[0]["version"]


@pytest.mark.document_item("004.python.module", "004.python.registry")
def test_the_module_and_the_registry_have_the_actions() -> None:
    registry = build_actions_registry()
    for name in ("cot", "react", "self_correct", "decompose"):
        assert registry[f"reason.{name}"] is registry[f"actions.reason_{name}"]
    assert set(actions.build_actions_registry()) <= set(registry)


@pytest.mark.document_item("004.risk.tool")
def test_a_tool_that_fails_is_an_observation(tmp_path: Path) -> None:
    text = node("reason.react", goal="g", tools=["read_file"])
    script = [act("read_file", path="missing.txt"), act("finish", "It is not there", answer="none")]
    result, _ = run(tmp_path, text, *script)
    assert result.success
    assert "missing.txt" in str(result.state.data["react_steps"][0]["observation"])


@pytest.mark.document_item("004.risk.malformed")
@pytest.mark.parametrize("broken", ["{]", '{"thinking": "t"', "[1, 2"])
def test_a_malformed_reply_is_corrected_or_ends_in_an_error(tmp_path: Path, broken: str) -> None:
    text = node("reason.cot", problem="p", output_format={"n": "int"})
    result, model = run(tmp_path, text, broken, thought({"n": 3}))
    assert result.state.data["reasoning_answer"] == {"n": 3}
    assert len(model.requests) == 2
    failed, _ = run(tmp_path, text, *[broken] * 9)
    assert not failed.success
    assert failed.state.data["reasoning_answer"] is None


@pytest.mark.document_item("004.security.code")
def test_text_of_a_model_and_a_user_is_never_rendered(tmp_path: Path) -> None:
    text = node("reason.self_correct", task="{{ state.task }}", critic_prompt="C: {{ output }}")
    result, model = run(tmp_path, text, "{{ 7 * 7 }}", verdict(1), task="{{ 6 * 6 }}")
    assert "{{ 6 * 6 }}" in model.requests[0].text
    assert "C: {{ 7 * 7 }}" in model.requests[1].last
    assert result.output["output"] == "{{ 7 * 7 }}"


@pytest.mark.document_item("004.react.prose")
def test_cot_reads_json_inside_prose(tmp_path: Path) -> None:
    result, model = run(tmp_path, node("reason.cot", problem="p"), f"Sure: {thought('x')} Done.")
    assert result.output["answer"] == "x"
    assert len(model.requests) == 1


@pytest.mark.document_item("004.react.prose")
@pytest.mark.parametrize(
    "around", ["Sure: %s", "%s\nThat is all.", "Here:\n```json\n%s\n```\nDone."]
)
def test_react_reads_a_reading_call_and_an_answer_inside_prose(tmp_path: Path, around: str) -> None:
    text = node("reason.react", goal="g", tools=["list_files"])
    calls = act("list_files"), act("finish", answer="42")
    result, model = run(tmp_path, text, *[around % call for call in calls])
    assert result.output["final_answer"] == "42"
    assert len(model.requests) == 2


@pytest.mark.document_item("004.react.prose.effect")
def test_a_call_that_writes_is_not_taken_from_prose(tmp_path: Path) -> None:
    text = node("reason.react", goal="g", tools=["write_file"])
    write = act("write_file", path="a.txt", content="x")
    result, model = run(tmp_path, text, f"I could do {write} later.", act("finish", answer="42"))
    assert not (tmp_path / "a.txt").exists()
    assert "talks about a call" in model.requests[1].last
    assert result.output["final_answer"] == "42"

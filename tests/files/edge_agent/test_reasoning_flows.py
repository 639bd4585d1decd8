"""Flows of The Edge Agent with reasoning actions, run to their end against scripted replies.

The files of this test have the constructs of its examples: messages, response formats, templated
settings, Python between the nodes, DSPy's actions, and routes by a condition.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from taofold.runtime.model import Request
from taofold.testing.models import FunctionModel
from tests.files.flow.kit import made, with_model
from tests.prerequisites import TEA_FILES


def scripted(request: Request) -> str:
    """Replies in the form that the last instructions ask for."""
    text = "\n".join([message.text for message in request.conversation])
    system = request.conversation[0].text
    if "You are a critic" in system:
        return json.dumps({"reasoning": "r", "score": 0.9, "issues": [], "suggestions": []})
    if '"sub_problems"' in system or "sub_problems" in text[:2000]:
        parts = [{"id": name, "description": name, "complex": False} for name in ("a", "b")]
        return json.dumps({"reasoning": "r", "sub_problems": parts})
    if '"thought_type"' in system:
        parameters = {"answer": "found"}
        return json.dumps({"thought": "t", "action": {"tool": "finish", "parameters": parameters}})
    if "You are given:" in system:  # a program of DSPy
        return json.dumps({"reasoning": "r", "thinking": "counted", "answer": "20"})
    if '"thinking"' in system:
        return json.dumps({"thinking": "because", "answer": "12"})
    return json.dumps(
        {
            "type": "math",
            "format": "pros-cons",
            "valid": True,
            "key_concepts": ["tea"],
            "edge_cases": ["none"],
            "test_scenarios": ["one"],
        }
    )


def state(text: str, folder: Path, **data: Any) -> dict[str, Any]:
    """Runs a file and returns its last state."""
    agent = with_model(made(text, folder), FunctionModel(scripted))
    result = agent.run_sync("go", data=data)
    assert result.success, result.error
    return dict(result.state.data)


SOLVE = """
name: solve
state_schema: {task: str, shape: str}
variables: {smart: gpt-4}
nodes:
  - name: sort
    uses: llm.call
    with:
      model: "{{ variables.smart }}"
      messages:
        - {role: system, content: "Name the kind of task as JSON."}
        - {role: user, content: "{{ state.task }}"}
      response_format: {type: json_object}
    output: kind
  - name: solve
    uses: reason.cot
    with:
      problem: "{{ state.task }}"
      model: "{{ variables.smart }}"
      thinking_format: "{{ state.kind.format | default('tree') }}"
      few_shot_examples:
        - {problem: "1 + 1", thinking: "one and one", answer: "2"}
    output: solved
  - name: shape
    run: |
      kind = json.loads(state["kind"]["content"])
      return {
          "shape": state.get("solved", {}).get("thinking_format", "none"),
          "answer": state["solved"]["answer"],
          "tokens": state["kind"]["usage"]["total_tokens"],
          "kind_name": kind["type"],
      }
config: {raise_exceptions: true}
"""


def test_a_chain_of_thought_between_calls_and_code(tmp_path: Path) -> None:
    last = state(SOLVE, tmp_path, task="What is 3 * 4?")
    assert last["shape"] == "pros_cons"
    assert last["answer"] == "12"
    assert last["kind_name"] == "math"
    assert isinstance(last["tokens"], int)


ROUTES = """
name: routes
nodes:
  - name: router
    run: |
      return {"_next": state.get("mode", "cot")}
    next:
      - {condition: "{{ state._next == 'react' }}", to: act}
      - {condition: "{{ state._next == 'correct' }}", to: correct}
      - {condition: "{{ state._next == 'split' }}", to: split}
      - {to: think}
  - name: think
    uses: reason.cot
    with: {problem: "{{ state.task }}", model: "{{ env.LLM_MODEL | default('gpt-4') }}"}
    output: result
    next: show
  - name: act
    uses: reason.react
    with: {goal: "{{ state.task }}", tools: [memory.store, memory.retrieve], max_steps: 1}
    output: result
    next: show
  - name: correct
    uses: reason.self_correct
    with: {task: "{{ state.task }}", improvement_rounds: 2, critic_prompt: "Check the style."}
    output: result
    next: show
  - name: split
    uses: reason.decompose
    with: {problem: "{{ state.task }}", max_depth: 1, synthesis_prompt: "Combine them."}
    output: result
    next: show
  - name: show
    run: |
      result = state.get("result", {})
      shown = {"success": True}
      if "thinking" in result:
          shown["answer"] = result["answer"]
      elif "sub_problems" in result:
          shown["parts"] = len(result["sub_problems"])
      elif "improvement_history" in result:
          shown["output"] = result["output"]
          shown["rounds"] = len(result["improvement_history"])
      elif "steps" in result:
          shown["answer"] = result["final_answer"]
      return {"result": shown}
    next: __end__
edges:
  - {from: __start__, to: router}
"""


@pytest.mark.parametrize(
    ("mode", "shown"),
    [
        ("cot", {"answer": "12"}),
        ("react", {"answer": "found"}),
        ("correct", {"rounds": 1}),
        ("split", {"parts": 2}),
    ],
)
def test_each_reasoning_action_is_reached_by_its_route(
    mode: str, shown: dict[str, Any], tmp_path: Path
) -> None:
    result = state(ROUTES, tmp_path, mode=mode, task="t")["result"]
    assert result["success"] is True
    assert {name: result[name] for name in shown} == shown


COMPILES = """
name: compiles
version: "1.0"
settings: {dspy: {enabled: false, model: gpt-4, temperature: 0.3}}
nodes:
  - name: prepare
    run: |
      return {"cases": [{"question": "1 + 1", "answer": "2"}]}
  - name: learn
    action: reason.dspy.compile
    with:
      module_type: cot
      signature: "question -> answer"
      trainset: "{{ state.cases }}"
      teleprompter_config: {max_labeled_demos: 1}
  - name: check
    condition: |
      return "good" if state.get("compiled", False) else "bad"
    paths: {good: ask, bad: fallback}
  - name: ask
    action: reason.dspy.cot
    with: {problem: q, compiled_key: "{{ state.module_key }}"}
  - name: fallback
    action: reason.dspy.cot
    with:
      question: "What is 25% of 80?"
      signature: "question -> thinking, answer"
      few_shot_examples: [{question: "1 + 1", thinking: "counted", answer: "2"}]
  - name: show
    run: |
      return {"shown": f"{state.get('dspy_module')}: {state.get('thinking')} {state['answer']}"}
edges:
  - {from: __start__, to: prepare}
  - {from: prepare, to: learn}
  - {from: learn, to: check}
  - {from: ask, to: show}
  - {from: fallback, to: show}
  - {from: show, to: __end__}
"""


def test_a_failed_compilation_leads_to_its_route(tmp_path: Path) -> None:
    last = state(COMPILES, tmp_path)
    assert last["compiled"] is False
    assert "needs DSPy" in last["error"]
    assert last["shown"] == "native_fallback: counted 20"


DEMO = "reasoning/reasoning-patterns-demo"
FILES: list[tuple[str, dict[str, Any]]] = [
    ("reasoning/dspy-optimization-demo", {"phase": "inference", "question": "q"}),
    ("reasoning/dspy-optimization-demo", {"phase": "compile", "training_data": []}),
    (DEMO, {"mode": "cot", "problem": "p"}),
    (DEMO, {"mode": "react", "goal": "g"}),
    (DEMO, {"mode": "self_correct", "task": "t"}),
    (DEMO, {"mode": "decompose", "problem": "p"}),
    ("yaml/cot-problem-solving", {"problem": "p"}),
    ("yaml/react-research-agent", {"research_question": "q"}),
    ("yaml/self-correcting-code-gen", {"coding_task": "t", "language": "python"}),
    ("dspy/dspy-compile-optimize", {}),
    ("dspy/dspy-cot-reasoning", {"problem": "p"}),
    ("dspy/dspy-react-research", {"goal": "g"}),
]


@TEA_FILES.mark
@pytest.mark.parametrize(("name", "data"), FILES)
def test_its_own_reasoning_examples_run_to_their_end(
    name: str, data: dict[str, Any], tmp_path: Path
) -> None:
    path = Path(os.environ["TAOFOLD_TEA_FILES"]) / f"{name}.yaml"
    state(path.read_text(encoding="utf-8"), tmp_path, **data)

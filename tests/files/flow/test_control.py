"""Control flow of a flow file: start, initial state, conditions of nodes, merged values."""

from pathlib import Path
from typing import Any

import pytest

from taofold.files.checked_yaml import parse
from taofold.files.flow.file import read_flow
from taofold.files.flow.paths import unset_reads

from .kit import faults, flow, reasoned


def answer(text: str, folder: Path, goal: str = "g", **changes: Any) -> Any:
    """Runs a flow without limits and returns its result."""
    return flow(text, folder, **changes).run_sync(goal)


def test_a_flow_starts_with_values_that_a_run_can_replace(tmp_path: Path) -> None:
    text = """
initial_state: {count: 2, names: [a]}
nodes: [{name: a, set: {count: "{{ state.count + 1 }}"}}]
result: "{{ [state.count, state.names] }}"
"""
    assert answer(text, tmp_path).output == [3, ["a"]]
    started = flow(text, tmp_path).run_sync("g", data={"count": 7})
    assert started.output == [8, ["a"]]


START = """
input: n
start:
  - {if: "state.n == 'b'", to: b}
  - {if: "state.n == 'stop'", to: end}
  - {if: "state.n == 'a'", to: a}
  - {to: __fail__}
nodes:
  - {name: a, set: {x: A}, goto: end}
  - {name: b, set: {x: B}}
result: "{{ state.x | default('none') }}"
"""


@pytest.mark.parametrize(("goal", "output"), [("a", "A"), ("b", "B"), ("stop", "none")])
def test_a_flow_starts_at_the_node_whose_condition_holds(
    tmp_path: Path, goal: str, output: str
) -> None:
    assert answer(START, tmp_path, goal).output == output


def test_a_flow_fails_if_no_condition_of_its_start_holds(tmp_path: Path) -> None:
    run = answer(START, tmp_path, "c")
    assert not run.success
    assert "start: none of its conditions holds" in run.error


def test_a_run_fails_if_no_condition_of_a_goto_holds(tmp_path: Path) -> None:
    text = """
input: n
nodes:
  - {name: a, set: {}, goto: [{if: "state.n == 'x'", to: b}, {to: __fail__}]}
  - {name: b, set: {done: true}}
result: "{{ state.done }}"
"""
    assert answer(text, tmp_path, "x").output is True
    run = answer(text, tmp_path, "y")
    assert not run.success
    assert "node 'a': none of the conditions of its goto holds" in run.error


def test_a_node_runs_only_if_its_condition_holds(tmp_path: Path) -> None:
    text = """
input: n
initial_state: {x: 0}
nodes:
  - {name: a, if: "state.n == 'yes'", set: {x: 1}, goto: c}
  - {name: b, set: {x: 2}}
  - {name: c, set: {y: "{{ state.x }}"}}
result: "{{ state.y }}"
"""
    assert answer(text, tmp_path, "yes").output == 1
    assert answer(text, tmp_path, "no").output == 0
    run = answer(text.replace("state.n == 'yes'", "state.n > 3"), tmp_path, "no")
    assert "node 'a': if:" in run.error


MERGED = """
nodes:
  - {name: a, uses: llm.call, merge: true, with: {prompt: p, output_format: %s}}
result: "{{ state }}"
"""


def test_a_merged_value_sets_a_variable_for_each_of_its_keys(tmp_path: Path) -> None:
    text = MERGED % "{x: int, y: str}"
    state = answer(text, tmp_path, say=lambda request: '{"x": 3, "y": "z"}').output
    assert (state["x"], state["y"]) == (3, "z")
    assert "a" not in state


def test_a_merged_value_without_keys_is_the_variable_result(tmp_path: Path) -> None:
    state = answer(MERGED % "str", tmp_path, say=lambda request: "hello").output
    assert state["result"] == "hello"


def test_a_model_cannot_name_a_slot_of_a_tool_by_a_merged_value(tmp_path: Path) -> None:
    run = answer(MERGED % "dict", tmp_path, say=lambda request: '{"memory.k": "planted"}')
    assert not run.success
    assert "merge: the key 'memory.k' of the value cannot name a variable" in run.error


def test_an_output_is_a_template_of_the_result(tmp_path: Path) -> None:
    text = """
nodes:
  - name: a
    uses: reason.cot
    with: {problem: p}
    output: {loud: "{{ result.answer | upper }}", plain: answer}
    goto: [{if: "result.answer == 'yes'", to: end}, {to: b}]
  - {name: b, set: {plain: other}}
result: "{{ [state.loud, state.plain] }}"
"""
    reply = reasoned("yes")
    assert answer(text, tmp_path, say=lambda request: reply).output == ["YES", "yes"]
    reply = reasoned("no")
    assert answer(text, tmp_path, say=lambda request: reply).output == ["NO", "other"]


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        ("start: c\nnodes: [{name: a, set: {}}]", "start", "no node 'c'"),
        ("nodes: [{name: a, if: 'stat.x', set: {}}]", "nodes[0].if", "unknown name 'stat'"),
        ("nodes: [{name: a, merge: true, set: {x: 1}}]", "nodes[0].merge", "nodes with a value"),
        (
            "nodes: [{name: a, uses: memory.recall, with: {key: k}, merge: true, output: x}]",
            "nodes[0].merge",
            "does not go with 'output'",
        ),
        (
            "nodes: [{name: a, uses: memory.recall, with: {key: k}, output: {x: '{{ rsult }}'}}]",
            "nodes[0].output.x",
            "did you mean 'result'",
        ),
    ],
)
def test_a_fault_of_the_control_flow_has_its_place(text: str, path: str, message: str) -> None:
    found = faults(text)
    assert any(f.path == path and message in f.text for f in found), [str(f) for f in found]


def test_the_state_after_a_node_that_may_be_skipped_may_be_unset() -> None:
    text = """
nodes:
  - {name: a, if: "goal == 'x'", set: {x: 1}}
  - {name: b, set: {y: "{{ state.x }}"}}
"""
    document, _ = parse(text, "flow.yaml")
    assert document is not None
    file, found = read_flow(document, root=Path())
    assert file is not None, found
    assert [read.name for read in unset_reads(file.flow)] == ["x"]


SETTING = """
variables: {fast: "ollama:small"}
settings: {model: "%s"}
nodes: [{name: a, uses: llm.call, with: {prompt: p}}]
"""


def read(setting: str, environment: dict[str, str]) -> tuple[str, str]:
    """Returns the model of a flow, and the fault of its setting."""
    document, _ = parse(SETTING % setting, "flow.yaml")
    assert document is not None
    file, found = read_flow(document, root=Path(), environment=environment)
    return ("" if file is None else file.flow.keys.settings.model), "\n".join(map(str, found))


@pytest.mark.parametrize(
    ("setting", "environment", "model"),
    [
        ("{{ variables.fast }}", {}, "ollama:small"),
        ("{{ env.LLM_MODEL | default('openai:o') }}", {}, "openai:o"),
        ("{{ env.LLM_MODEL | default('openai:o') }}", {"LLM_MODEL": "openai:e"}, "openai:e"),
        ("openai:{{ env.AZURE_OPENAI_DEPLOYMENT }}", {"AZURE_OPENAI_DEPLOYMENT": "d"}, "openai:d"),
    ],
)
def test_a_setting_is_a_template_of_constants_and_of_the_environment(
    setting: str, environment: dict[str, str], model: str
) -> None:
    assert read(setting, environment) == (model, "")


@pytest.mark.parametrize(
    ("setting", "environment"),
    [
        ("{{ env.OPENAI_API_KEY }}", {"OPENAI_API_KEY": "x"}),
        ("{{ env['HOME'] }}", {"HOME": "/root"}),
        ("{{ env.get('DB_PASSWORD') ~ '' }}", {"DB_PASSWORD": "x"}),
        ("{{ env | tojson }}:{{ env.SECRET }}", {"SECRET": "x", "MY_TOKEN": "y"}),
        ("{{ env.EVIL_MODEL }}", {"EVIL_MODEL": "sk-proj-" + "Ab1" * 16}),
        ("{{ state.model }}", {}),
        ("{{ goal }}", {}),
    ],
)
def test_a_setting_cannot_read_secrets_or_the_state(
    setting: str, environment: dict[str, str]
) -> None:
    model, found = read(setting, environment)
    assert "flow.yaml:3: settings" in found or model in ("", "null")
    assert not any(value in model + found for value in environment.values() if len(value) > 1)
    assert "x" not in model


def test_the_model_of_a_node_is_a_template_of_constants(tmp_path: Path) -> None:
    text = """
variables: {fast: "test:answer"}
nodes: [{name: a, uses: llm.call, with: {prompt: p, model: "{{ variables.fast }}"}}]
"""
    document, _ = parse(text, "flow.yaml")
    assert document is not None
    file, found = read_flow(document, root=tmp_path)
    assert file is not None, found
    assert file.flow.nodes[0].models == {"model": "test:answer"}

"""Flows from the command line: drawn, checked, run, approved and resumed."""

from pathlib import Path

import pytest

from taofold.cli.app import main
from taofold.runtime.providers import register_provider
from taofold.testing.models import ScriptedModel

FLOW = """
name: tiny
input: q
nodes:
  - {name: a, set: {x: "{{ state.q | upper }}"}}
  - {name: ok, uses: memory.store, approve: "go?", with: {key: k, value: "{{ state.x }}"}}
result: "{{ state.x }}"
"""

RESULT = "result: '{{ state.letter }}'\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TAOFOLD_HOME", str(tmp_path / "home"))
    (tmp_path / "flow.yaml").write_text(FLOW)
    (tmp_path / "agent.yaml").write_text("model: offline:repair\n")
    return tmp_path


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


def test_a_flow_is_drawn_and_checked(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("graph", "flow.yaml") == 0
    assert capsys.readouterr().out.startswith("flowchart TD\n")
    assert run("check", "flow.yaml") == 0
    assert run("graph", "agent.yaml") == 2
    (project / "bad.yaml").write_text(FLOW.replace("upper", "uper"))
    capsys.readouterr()
    assert run("check", "bad.yaml") == 2
    assert "did you mean 'upper'" in capsys.readouterr().out
    assert run("graph", "bad.yaml") == 2


def test_a_flow_runs_and_waits_for_a_person(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("run", "flow.yaml", "hello", "--model", "offline:repair") == 3
    capsys.readouterr()
    arguments = ("run", "flow.yaml", "hello", "--model", "offline:repair", "--approve", "all")
    assert run(*arguments, "--quiet") == 0
    assert capsys.readouterr().out.strip() == "HELLO"


def test_the_model_of_the_command_line_reaches_the_agents_of_a_flow(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    register_provider("said", lambda _name, **_: ScriptedModel(["the inner answer"]))
    (project / "inner.yaml").write_text("model: openai:gpt-5\nname: inner\n")
    (project / "outer.yaml").write_text(
        "model: openai:gpt-5\nagents: {inner: inner.yaml}\nnodes:\n"
        "  - {name: a, uses: tool.inner, with: {goal: g}}\n"
    )
    assert run("run", "outer.yaml", "go", "--model", "said:x", "--approve", "all", "--quiet") == 0
    assert capsys.readouterr().out.strip() == "the inner answer"


@pytest.mark.parametrize(
    "types", ["{query: str, id: str}", "{type: object, properties: {id: {type: string}}}"]
)
def test_a_flow_without_input_needs_no_goal_beside_its_state(
    types: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "find.yaml").write_text(
        f"state_schema: {types}\n"
        'nodes: [{name: a, set: {out: "{{ state.query }} {{ state.id }}"}}]\n'
        'result: "{{ state.out }}"\n'
    )
    assert run("run", "find.yaml", "--set", "query=tea", "--set", "id=0123") == 0
    assert capsys.readouterr().out.strip() == "tea 0123"
    assert run("run", "find.yaml") == 2
    shown = capsys.readouterr().err
    assert "GOAL is missing" in shown
    assert "--set query=…" in shown
    # The goal of this flow is a variable.
    assert run("run", "flow.yaml", "--set", "q=tea") == 2


def test_code_that_lacks_a_variable_names_the_option_that_sets_it(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pydantic_monty")
    (project / "find.yaml").write_text(
        "nodes:\n  - name: a\n    uses: python.run\n    merge: true\n"
        "    with: {code: \"return {'out': state['query']}\"}\n"
    )
    assert run("run", "find.yaml", "go") == 1
    assert "set it at the start: --set query=" in capsys.readouterr().err


def test_a_flow_without_input_whose_state_is_complete_needs_no_goal(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "initial_state: {x: tea}\nnodes: [{name: a, set: {out: '{{ state.x }}'}}]\n"
    (project / "whole.yaml").write_text(text + "result: '{{ state.out }}'\n")
    assert run("run", "whole.yaml") == 0
    assert capsys.readouterr().out.strip() == "tea"
    (project / "reads.yaml").write_text(text + "result: '{{ goal }}'\n")
    assert run("run", "reads.yaml") == 2
    assert "GOAL is missing" in capsys.readouterr().err


def test_the_faults_of_a_file_come_before_a_missing_goal(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "bad.yaml").write_text(FLOW.replace("upper", "uper"))
    assert run("run", "bad.yaml") == 2
    shown = capsys.readouterr().err
    assert "did you mean 'upper'" in shown
    assert "GOAL" not in shown


def test_a_misspelled_variable_of_set_is_named(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "count.yaml").write_text(
        "initial_state: {lines: 1}\nnodes: [{name: a, set: {out: '{{ state.lines }}'}}]\n"
        "result: '{{ state.out }}'\n"
    )
    assert run("run", "count.yaml", "--set", "lnies=3") == 2
    assert "no variable 'lnies'; did you mean 'lines'?" in capsys.readouterr().err
    # A tool may read another variable.
    assert run("run", "count.yaml", "--set", "user=3") == 0
    shown = capsys.readouterr()
    assert "names no variable 'user'" in shown.err
    assert shown.out.strip() == "1"
    assert run("run", "count.yaml", "--set", "lines=3") == 0
    assert "names no variable" not in capsys.readouterr().err


def test_a_variable_that_is_missing_at_the_start_is_named_with_its_option(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = "nodes: [{name: a, set: {out: '{{ state.letter }}'}}]\n"
    (project / "read.yaml").write_text(nodes)
    assert run("run", "read.yaml", "go") == 1
    assert "there is no 'letter'; set at the start: --set letter=…" in capsys.readouterr().err
    (project / "result.yaml").write_text(nodes.replace("letter", "x | default(1)") + RESULT)
    assert run("run", "result.yaml", "go") == 1
    assert "; set at the start: --set letter=…" in capsys.readouterr().err
    (project / "typed.yaml").write_text("state_schema: {letter: str, n: int}\n" + nodes)
    assert run("run", "typed.yaml", "go") == 1
    assert "; set at the start: --set letter=… --set n=…" in capsys.readouterr().err

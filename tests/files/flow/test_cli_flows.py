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

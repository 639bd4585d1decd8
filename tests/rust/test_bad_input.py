"""Invalid logs and files: both runtimes reject them and name the fault."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.prerequisites import TAOFOLD_RS
from tests.rust.kit import ANSWER, Program, Script

pytestmark = [pytest.mark.rust, TAOFOLD_RS.mark]

LOGS = {
    "an unknown kind of event": (
        'update events set body = replace(body, \'"e":"proposed"\', \'"e":"pondered"\')',
        "pondered",
    ),
    "a kind with a field missing": (
        "update events set body = replace(body, '\"actions\":', '\"acts\":')",
        "actions",
    ),
    "half a record": ("update events set body = substr(body, 1, length(body) / 2)", ""),
    "a record that is missing": (
        "delete from events where json_extract(body, '$.e') = 'proposed'",
        "",
    ),
    "a newer layout": ("pragma user_version = 9999", "9999"),
}


@pytest.mark.parametrize("wrong", LOGS)
def test_a_damaged_log_is_refused_by_both_and_left_as_it_is(
    wrong: str, python: Program, rust: Program, script: Script, project: Path
) -> None:
    """Mutant: an unknown kind of event that is skipped."""
    script([ANSWER])
    run = rust("run", "agent.yaml", "count", "--json").json["id"]
    statement, named = LOGS[wrong]
    path = project / ".taofold" / "runs.db"
    with closing(sqlite3.connect(path)) as log:
        log.execute(statement)
        log.commit()
        before = list(log.execute("select * from events"))
    for program in (python, rust):
        refused = program("runs", "show", run)
        assert refused.code in (1, 2), (wrong, refused)
        assert named in refused.err + refused.out, (wrong, refused)
        assert "Traceback" not in refused.err
        assert "panicked" not in refused.err
    with closing(sqlite3.connect(path)) as log:
        assert list(log.execute("select * from events")) == before


FILES = {
    "a key that is unknown": ("name: a\ntoolz: []\n", "toolz"),
    "a key that stands twice": ("name: a\nname: b\n", "name"),
    "a value of another type": ("name: a\nlimits: {steps: many}\n", "limits"),
    "no mapping": ("- name\n", ""),
    "no YAML": ("name: [a\n", ""),
    "an unknown strategy": ("strategy: guess\n", "guess"),
    "a strategy of a flow": ("strategy: cot\nnodes: [{name: a, set: {x: 1}}]\n", "strategy"),
    "an unknown action": ("nodes: [{name: a, uses: reason.guess}]\n", "reason.guess"),
    "an unknown key of an action": (
        "nodes: [{name: a, uses: reason.cot, with: {problem: x, depth: 1}}]\n",
        "depth",
    ),
    "a target that is missing": ("nodes: [{name: a, set: {x: 1}, goto: b}]\n", "b"),
    "half a template": ("nodes: [{name: a, uses: llm.call, with: {prompt: '{{ x'}}]\n", "prompt"),
}


@pytest.mark.parametrize("wrong", FILES)
def test_a_file_with_a_fault_is_refused_by_both_before_anything_runs(
    wrong: str, python: Program, rust: Program, project: Path
) -> None:
    text, named = FILES[wrong]
    (project / "agent.yaml").write_text(text)
    codes: list[int] = []
    for program in (python, rust):
        refused = program("check", "agent.yaml")
        assert named in refused.err + refused.out, (wrong, refused)
        assert "Traceback" not in refused.err
        codes.append(refused.code)
    assert codes[0] == codes[1] != 0, (wrong, codes)


AGENTS = {
    "a file that is missing": ("a: gone.yaml", 'there is no agent file "gone.yaml"'),
    "a file outside": ("a: ../outside.yaml", "leads out of the project"),
    "itself": ("a: agent.yaml", "asks itself"),
    "Python": ("a: module:agent", "runs no Python code"),
    "a file with a fault": ("a: faulty.yaml", "did you mean"),
}


@pytest.mark.parametrize("wrong", AGENTS)
def test_rust_refuses_an_agent_that_cannot_be_asked_before_anything_runs(
    wrong: str, rust: Program, project: Path
) -> None:
    agent, named = AGENTS[wrong]
    nodes = "nodes: [{name: x, uses: agent.a, with: {goal: g}}]\n"
    (project / "agent.yaml").write_text(f'agents: {{"a": "{agent.removeprefix("a: ")}"}}\n{nodes}')
    (project / "faulty.yaml").write_text("tool: [files]\n")
    (project.parent / "outside.yaml").write_text("name: outside\n")
    for arguments in (["check", "agent.yaml"], ["run", "agent.yaml", "go"]):
        refused = rust(*arguments)
        assert refused.code == 2
        assert named in refused.err
    assert not (project / ".taofold" / "runs.db").exists()


ASKED = {
    "a file that is missing": ("gone.yaml", "there is no agent file"),
    "a file outside": ("../outside.yaml", "leads out of the project"),
    "itself": ("agent.yaml", "asks itself"),
    "a file that asks for it": ("circle.yaml", "asks itself"),
    "a file with a fault": ("faulty.yaml", "faulty.yaml"),
}


@pytest.mark.parametrize("wrong", ASKED)
def test_both_name_the_line_of_an_agent_that_cannot_be_asked(
    wrong: str, python: Program, rust: Program, project: Path
) -> None:
    """Mutants: an agent file that is not read; a line that is not looked for."""
    asked, named = ASKED[wrong]
    text = "agents:\n  a: %s\nnodes: [{name: x, uses: agent.a, with: {goal: g}}]\n"
    (project / "agent.yaml").write_text(text % asked)
    (project / "circle.yaml").write_text(text % "agent.yaml")
    (project / "faulty.yaml").write_text("tool: [files]\n")
    (project.parent / "outside.yaml").write_text("name: outside\n")
    for program in (python, rust):
        refused = program("check", "agent.yaml")
        assert refused.code == 2
        assert "agent.yaml:2: agents.a: " in refused.err + refused.out
        assert named in refused.err + refused.out
        fault, *_ = program("check", "--json", "agent.yaml").json
        assert (fault["file"], fault["line"], fault["path"]) == ("agent.yaml", 2, "agents.a")

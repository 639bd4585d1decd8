"""`taofold check` notes tools that the policy of an agent file names and the agent lacks."""

from pathlib import Path

import pytest

from taofold.files.agent import AgentFile
from taofold.files.flow.file import read_agent
from taofold.files.unknown_names import listed_names, policy_notes
from taofold.policy import Policy


def read(folder: Path, text: str, operator: Policy | None = None) -> AgentFile:
    path = folder / "agent.yaml"
    path.write_text(f"model: test:tools\n{text}")
    file, faults = read_agent(path, operator, root=folder)
    assert faults == []
    assert file is not None
    return file


def notes(folder: Path, text: str, operator: Policy | None = None) -> list[str]:
    file = read(folder, text, operator)
    known = listed_names(file)
    assert known is not None
    return [f"{note.line} {note.path}: {note.message}" for note in policy_notes(file, known)]


def test_each_unknown_name_is_noted_at_its_line(tmp_path: Path) -> None:
    """Mutant: `policy_notes` returns likely names only."""
    text = "tools: [files]\npolicy:\n  deny: [raed_file, read_file]\n  tiers: {xx: 3}\n"
    assert notes(tmp_path, text) == [
        "5 policy.tiers.xx: no tool of this agent is named 'xx'",
        "4 policy.deny.raed_file: no tool of this agent is named 'raed_file'; "
        "did you mean 'read_file'?",
    ]


def test_a_policy_in_its_own_file_is_noted_there(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("deny: [run_comand]\n")
    (note,) = notes(tmp_path, "tools: [command]\npolicy: policy.yaml\n")
    assert note.startswith("1 deny.run_comand: ")


def test_the_operators_policy_is_not_noted(tmp_path: Path) -> None:
    """Mutant: the combined policy of the file is judged."""
    operator = Policy(deny=frozenset({"deploy"}))
    assert notes(tmp_path, "tools: [files]\npolicy: {autonomy: conservative}\n", operator) == []


def test_notebooks_and_agents_of_the_team_are_known(tmp_path: Path) -> None:
    (tmp_path / "desk.yaml").write_text("name: desk\nmodel: test:tools\ntools: [command]\n")
    text = (
        "tools: [files]\nmemory: true\nhandoffs: [desk.yaml]\n"
        "policy: {deny: [remember, run_command, transfer_to_desk]}\n"
    )
    assert notes(tmp_path, text) == []


@pytest.mark.parametrize(
    "text",
    [
        "tools: [files, 'mine.py:send']",
        "discover: tools",
        "skills: skills",
        "mcp: {notes: {command: server}}",
    ],
)
def test_tools_that_only_code_or_servers_know_make_no_notes(tmp_path: Path, text: str) -> None:
    """Mutant: `listed_names` skips such entries."""
    for folder in ("tools", "skills"):
        (tmp_path / folder).mkdir()
    (tmp_path / "mine.py").write_text("def send(): ...\n", encoding="utf-8")
    assert listed_names(read(tmp_path, f"{text}\npolicy: {{deny: [sendd]}}\n")) is None

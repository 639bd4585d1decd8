"""Tools that are defined in an agent file behave as registered ones."""

import json
from pathlib import Path
from typing import Any

import pytest

from taofold.files import Config, build
from taofold.files.agent import read_document
from taofold.files.checked_yaml import parse
from taofold.testing.models import ScriptedModel

AGENT = """
model: offline:repair
tools:
  - name: word.count
    description: Count the words of a file.
    parameters: {path: str, note?: str}
    command: [wc, -w, "{{ path }}"]
"""


def read(text: str) -> tuple[Any, list[str]]:
    document, _ = parse(text, "a.yaml")
    assert document is not None
    file, faults = read_document(document)
    return file, [str(one) for one in faults]


def act(kind: str = "reasoning", tool: str = "word.count", **parameters: Any) -> str:
    action = {"tool": tool, "parameters": parameters, "rationale": "r"}
    return json.dumps({"thought": "t", "thought_type": kind, "action": action})


@pytest.mark.scenario("TEA-14")
@pytest.mark.document_item("004.tools.inline")
def test_an_inline_tool_is_called_checked_and_approved(tmp_path: Path) -> None:
    (tmp_path / "n.txt").write_text("one two three\n")
    file, faults = read(AGENT)
    assert file is not None, faults
    agent = build(file, Config(), tmp_path)
    tool = agent.toolset["word.count"]
    assert tool.tier >= 2
    assert tool.schema["required"] == ["path"]
    previews: list[str] = []

    def approver(approval: Any) -> bool:
        previews.append(approval.preview)
        return True

    model = ScriptedModel(
        [
            act(path="n.txt"),
            act(path=3),
            act("exception", path="--help"),
            act("exception", "finish", answer="3"),
        ]
    )
    result = agent.replace(model=model, approve=approver).run_sync("count")
    assert "['wc', '-w', 'n.txt']" in previews[0]
    seen = [step.observations[0] for step in result.steps]
    assert "3 n.txt" in seen[0].result
    assert seen[1].refused == "invalid"
    assert (seen[2].status, "would be an option" in seen[2].result) == ("failure", True)


@pytest.mark.scenario("TEA-14")
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("word.count", "../count", "is no tool name"),
        ("word.count", "a/b", "is no tool name"),
        ("word.count", "finish", "reserved"),
        ("path: str", "path: strr", "unknown type"),
        ("{{ path }}", "{{ pth }}", "'pth' is not among the parameters"),
        ("{{ path }}", "{{ path", "cannot be read"),
        ("[wc,", "['{{ path }}',", "must stand there as it is"),
        ("description: Count the words of a file.", "descripton: x", "did you mean 'description'"),
        ("command: [wc,", "tier: 1\n    command: [wc,", "greater than or equal to 2"),
    ],
)
def test_an_unsafe_inline_tool_is_refused(old: str, new: str, said: str) -> None:
    file, faults = read(AGENT.replace(old, new))
    assert file is None
    assert any(said in one for one in faults), faults

"""The four unchanged snippets of the reasoning story, in both runtimes."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.prerequisites import TAOFOLD_RS
from tests.rust.kit import Program, Script, action, identical

pytestmark = [pytest.mark.rust, TAOFOLD_RS.mark]

EXAMPLES = Path(__file__).parents[2] / "examples"
STORE = action("memory.store", key="topic", value={"otters": 3600})
REPLIES: dict[str, tuple[str, list[Any]]] = {
    "seed-cot.yaml": ("math_problem", [{"thinking": "0.15 times 80", "answer": "12"}]),
    "seed-react.yaml": (
        "research_question",
        [
            action("web.search", query="otters"),
            action("web.scrape", url="folder:notes.md"),
            STORE,
            action("finish", answer="3600"),
        ],
    ),
    "seed-self-correct.yaml": (
        "coding_task",
        [
            "def f(): ...",
            {"score": 0.5, "issues": ["no body"], "suggestions": []},
            "def f(): return 1",
            {"score": 0.9, "issues": [], "suggestions": []},
        ],
    ),
    "seed-decompose.yaml": (
        "complex_problem",
        [
            {"sub_problems": [{"id": "a", "description": "first", "complex": False}]},
            {"thinking": "it is one", "answer": "1"},
            {"thinking": "all is one", "answer": "one"},
        ],
    ),
}


def replies(name: str) -> list[str]:
    return [each if isinstance(each, str) else json.dumps(each) for each in REPLIES[name][1]]


def agreed(value: Any) -> Any:
    """Returns an output without the runtime-specific text of failed steps."""
    if isinstance(value, list):
        return [agreed(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    own = {"observation"} if value.get("status") == "failure" else set()
    return {name: agreed(member) for name, member in value.items() if name not in own}


@pytest.mark.parametrize("name", REPLIES)
@pytest.mark.document_item("004.rust.module", "004.risk.parity", "004.later.rust-llm")
def test_a_snippet_as_it_stands_comes_to_the_same_in_both(
    name: str, python: Program, rust: Program, script: Script
) -> None:
    variable, _ = REPLIES[name]
    found: list[Any] = []
    for program in (python, rust):
        script(replies(name))
        options = ("--set", f"{variable}=what is it?", "--model", "openai-compatible:gpt-4")
        done = program("run", str(EXAMPLES / name), "go", *options, "--json")
        assert done.code == 0, done
        identical(done.json["id"], python, rust)
        found.append((agreed(done.json["output"]), done.json["status"]))
    assert found[0] == found[1]


def test_memory_and_the_search_backend_of_a_flow_are_the_same_in_both(
    python: Program, rust: Program, script: Script, project: Path
) -> None:
    """Mutant: a search that ranks by the number of hits alone."""
    (project / "wiki").mkdir()
    (project / "wiki" / "notes.md").write_text("# Otters\nThe count of sea otters is 3600.\n")
    (project / "wiki" / "more.txt").write_text("otters otters otters\n")
    (project / "wiki" / ".hidden.md").write_text("otters\n")
    (project / "secret.md").write_text("otters\n")
    text = (EXAMPLES / "seed-react.yaml").read_text()
    (project / "react.yaml").write_text(f"settings: {{search: 'folder:wiki'}}\n{text}")
    calls = [
        action("web.search", query="count of otters", limit=2),
        action("web.search", query="walrus"),
        action("web.scrape", url="folder:notes.md"),
        action("web.scrape", url="folder:../secret.md"),
        STORE,
        action("memory.store", key="topic"),
        action("finish", answer="3600"),
    ]
    steps: list[Any] = []
    for program in (python, rust):
        script(calls)
        options = ("--set", "research_question=x", "--model", "openai-compatible:gpt-4")
        done = program("run", "react.yaml", "go", *options, "--json")
        assert done.code == 0, done
        run = done.json["id"]
        identical(run, python, rust)
        exported = rust("runs", "export", run).out.splitlines()[1:]
        observed = [json.loads(line)["event"] for line in exported]
        observations = [it["observation"] for it in observed if it["e"] == "observed"]
        words = [it for it in observations if it.get("status", "success") == "success"]
        steps.append([(it["result"], it.get("extraction")) for it in words[:-2]])
    assert steps[0] == steps[1]
    [[hits, line], *_] = steps[0]
    assert [hit["url"] for hit in hits] == ["folder:notes.md", "folder:more.txt"], line

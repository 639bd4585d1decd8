"""The key `memory` of agent files and flows."""

from pathlib import Path
from typing import Any

import pytest

from taofold import Agent, Memory
from taofold.files.export import agent_keys
from taofold.log.memory import MemoryLog
from taofold.testing import ScriptedModel
from tests.memory.conftest import act
from tests.memory.test_runs import ADA, entries, results


def agent_of(folder: Path, text: str) -> Agent[Any, Any]:
    path = folder / "agent.yaml"
    path.write_text(text)
    return Agent.from_file(path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("memory: true", True),
        ("memory: false", False),
        ("memory: {entries: 5}", Memory(entries=5)),
        ("memory: {}", Memory()),
    ],
)
def test_the_key_is_the_argument_and_is_written_back(tmp_path: Path, key: str, value: Any) -> None:
    agent = agent_of(tmp_path, f"model: openai:gpt-5\nname: desk\n{key}")
    assert agent.memory == value
    keys = agent_keys(agent)
    assert keys.get("memory", False) in (value, {"entries": 5, "chars": 500, "digest": 2000}) or (
        key == "memory: {}" and keys["memory"]["entries"] == 200
    )


@pytest.mark.parametrize(
    "key", ["memory: yes please", "memory: {entries: 0}", "memory: {store: x}", "memory: {size: 1}"]
)
def test_a_wrong_value_is_a_fault_of_the_file(tmp_path: Path, key: str) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        agent_of(tmp_path, f"model: openai:gpt-5\n{key}")
    assert "memory" in str(caught.value.exceptions)


def test_a_flow_has_a_notebook_and_its_nodes_can_use_it(tmp_path: Path) -> None:
    flow = """
name: desk
model: openai:gpt-5
memory: true
nodes:
  - name: keep
    uses: tool.remember
    with: {text: "Herons are grey."}
  - name: ask
    uses: llm.tools
    with: {prompt: "Colour of herons?", tools: [recall]}
"""
    log = MemoryLog()
    agent = agent_of(tmp_path, flow)
    model = ScriptedModel([act("recall", query="herons"), act("finish", answer="Grey.")])
    run = agent.replace(model=model, log=log).run_sync("Go.", principal=ADA)
    assert run.output["content"] == "Grey."
    assert [entry.text for entry in entries(log)] == ["Herons are grey."]
    assert "Herons are grey." in str(results(run)[1])


def test_notes_of_a_run_and_values_of_a_flow_are_apart(tmp_path: Path) -> None:
    flow = """
name: desk
model: openai:gpt-5
memory: true
nodes:
  - {name: a, uses: memory.store, with: {key: x, value: "A value of this run."}}
  - {name: b, uses: memory.recall, with: {key: x}}
"""
    log = MemoryLog()
    agent = agent_of(tmp_path, flow).replace(log=log, model=ScriptedModel([]))
    assert agent.run_sync("Go.", principal=ADA).output == "A value of this run."
    assert entries(log) == ()

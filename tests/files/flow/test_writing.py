# ruff: noqa: E501 - YAML in lines
"""Agents back to files, the published schema, and the picture."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from taofold import Agent, Limits, Policy, tool
from taofold.core.errors import ConfigError
from taofold.files import Config, FlowFile, build, read_agent
from taofold.files.actions import alias
from taofold.files.export import HINT, agent_keys, dump, json_schema, mermaid
from taofold.testing.models import ScriptedModel
from tests.files.flow.test_faults import WRONG

EXAMPLES = Path(__file__).parents[3] / "examples"


@tool(effect="read")
def shout(text: str) -> str:
    """Shout."""
    return text.upper()


def again(text: str, folder: Path) -> Any:
    path = folder / "again.yaml"
    path.write_text(text)
    file, faults = read_agent(path, root=folder)
    assert file is not None, [str(one) for one in faults]
    return file


@pytest.mark.scenario("PEER-25")
@pytest.mark.parametrize("name", [path.name for path in sorted(EXAMPLES.glob("*.yaml"))])
def test_a_file_read_and_written_back_is_the_same_agent(name: str) -> None:
    file, faults = read_agent(EXAMPLES / name, root=EXAMPLES)
    assert file is not None, faults
    text = dump(file)
    assert text.startswith(HINT)
    path = EXAMPLES / name
    from taofold.files.checked_yaml import parse
    from taofold.files.flow.file import read_document, read_flow

    document, _ = parse(text, name, path.parent)
    assert document is not None
    read = (
        read_flow(document, root=EXAMPLES)
        if isinstance(file, FlowFile)
        else read_document(document)
    )
    assert read[0] is not None, read[1]
    assert read[0].keys == file.keys
    assert read[0].document.value == file.document.value
    assert dump(read[0]) == text
    if isinstance(file, FlowFile):
        assert isinstance(read[0], FlowFile)
        assert mermaid(read[0].flow) == mermaid(file.flow)


@pytest.mark.scenario("PEER-25")
def test_an_agent_of_python_written_and_read_is_the_same_agent(tmp_path: Path) -> None:
    agent = Agent[Any, Any](
        ["openai:a", "ollama:b"],
        name="shouter",
        instructions="Shout.\nLoud.",
        tools=[shout],
        output=int,
        limits=Limits(steps=4, usd=0.5, per_tool={"shout": 2}),
        models={"critic": "openai:c"},
        temperature=0.5,
        strict=True,
        ask_user=True,
    )
    read = build(again(dump(agent), tmp_path), Config(), tmp_path)
    for name in [
        "model",
        "name",
        "instructions",
        "output",
        "limits",
        "strict",
        "ask_user",
        "temperature",
    ]:
        assert getattr(read, name) == getattr(agent, name), name
    assert read.toolset.names == agent.toolset.names
    assert agent_keys(read) == agent_keys(agent)


def test_a_built_flow_is_written_as_its_file(tmp_path: Path) -> None:
    file, _ = read_agent(EXAMPLES / "fan-out.yaml", root=EXAMPLES)
    assert file is not None
    assert agent_keys(build(file, Config(), tmp_path)) == file.document.value


@pytest.mark.parametrize(
    "changes",
    [
        {"model": ScriptedModel([])},
        {"strategy": lambda task: None},
        {"tools": [lambda: 1]},
        {"policy": Policy(autonomy="conservative")},
        {"secrets": ["x"]},
    ],
)
def test_what_a_file_cannot_say_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        dump(Agent[Any, Any]("openai:x").replace(**changes))


def test_the_schema_knows_every_action_and_key() -> None:
    from taofold.files.actions import build_actions_registry

    schema = json_schema()
    text = json.dumps(schema)
    for name, kind in build_actions_registry().items():
        assert f'"{name}"' in text
        assert f'"{alias(name)}"' in text
        for key in kind.keys.model_fields:
            assert f'"{key}"' in text
    assert schema["additionalProperties"] is False


@pytest.mark.skipif(importlib.util.find_spec("jsonschema") is None, reason="needs jsonschema")
def test_the_schema_takes_the_examples_and_refuses_what_is_wrong() -> None:
    from jsonschema import Draft202012Validator

    from taofold.log.formats import yaml_document as yaml

    validator = Draft202012Validator(json_schema())
    for path in EXAMPLES.glob("*.yaml"):
        found = [one.message for one in validator.iter_errors(yaml.load(path.read_text(), "x")[0])]
        assert not found, (path.name, found)
    assert len(list(validator.iter_errors(yaml.load(WRONG, "x")[0]))) >= 4


def test_a_flow_is_drawn(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(
        """
name: "a \\"b\\" <c>"
nodes:
  - {name: a, uses: llm.call, approve: true, with: {prompt: p}, goto: [{if: "state.a == '<x>'", to: end}], on_error: {fallback: c}}
  - name: b
    parallel: {branches: {x: [{name: x1, set: {}}, {name: x2, set: {}}], y: {set: {}}}}
  - name: c
    while: {condition: "true", max_iterations: 3}
    steps: [{name: d, set: {}, goto: end}]
"""
    )
    file, faults = read_agent(path, root=tmp_path)
    assert isinstance(file, FlowFile), faults
    drawn = mermaid(file.flow)
    assert drawn.startswith("flowchart TD\n")
    for line in [
        'start_(["a &quot;b&quot; &lt;c&gt;"])',
        'n_a["a<br/>llm.call<br/>asks first"]',
        "n_a -->|\"state.a == '&lt;x&gt;'\"| end_",
        "n_a -->|else| n_b",
        "n_a -.->|on error| n_c",
        "n_x1 --> n_x2",
        'subgraph n_c["c<br/>while true (at most 3)"]',
        "n_c --> end_",
    ]:
        assert line in drawn, drawn

"""Model selection for an agent on the command line, and the settings of its run."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from taofold.files.checked_yaml import load
from taofold.runtime import providers as registry
from taofold.testing.models import ScriptedModel
from tests.terminal import Taofold

EXAMPLES = Path(__file__).parents[2] / "examples"
CRITIC = json.dumps({"reasoning": "good", "score": 1, "issues": [], "suggestions": []})
SPLIT = {
    "reasoning": "two",
    "sub_problems": [
        {"id": "a", "description": "six", "dependencies": [], "complex": False},
        {"id": "b", "description": "seven", "dependencies": ["a"], "complex": False},
    ],
}


def finish(answer: str) -> str:
    action = {"tool": "finish", "parameters": {"answer": answer}, "rationale": "done"}
    return json.dumps({"thought": "I know", "thought_type": "synthesis", "action": action})


def reasoned(answer: str) -> str:
    return json.dumps({"thinking": "because", "answer": answer})


def script(monkeypatch: pytest.MonkeyPatch, replies: Sequence[str]) -> list[ScriptedModel]:
    """Maps `scripted:NAME` to the replies. Returns the created models."""
    made: list[ScriptedModel] = []

    def connect(model: str, **_: object) -> ScriptedModel:
        made.append(ScriptedModel(replies, name=f"scripted:{model}"))
        return made[-1]

    monkeypatch.setitem(registry._registered, "scripted", connect)
    return made


@pytest.mark.scenario("TEA-33", "TEA-35")
@pytest.mark.parametrize(
    ("name", "variable", "replies", "answer"),
    [
        ("cot", "math_problem", [reasoned("27")], ("answer", "27")),
        ("react", "research_question", [finish("otters")], ("final_answer", "otters")),
        ("self-correct", "coding_task", ["a draft", CRITIC], ("output", "a draft")),
        (
            "decompose",
            "complex_problem",
            [json.dumps(SPLIT), *map(reasoned, ("6", "7", "42"))],
            ("final_answer", "42"),
        ),
    ],
)
def test_a_model_of_the_command_line_takes_every_place_of_the_seeds_flows(
    taofold: Taofold,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    variable: str,
    replies: list[str],
    answer: tuple[str, str],
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    made = script(monkeypatch, replies)
    path = str(EXAMPLES / f"seed-{name}.yaml")
    done = taofold(
        "run", path, "go", "--model", "scripted:x", "--set", f"{variable}=What is it?", "--json"
    )
    assert done.code == 0, done.err
    assert json.loads(done.out)["output"][answer[0]] == answer[1]
    assert len(made) == 1
    assert "What is it?" in made[0].requests[0].text


def test_without_it_the_models_that_nodes_name_are_used(
    taofold: Taofold, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = script(monkeypatch, [reasoned("27")])
    text = (EXAMPLES / "seed-cot.yaml").read_text()
    (project / "flow.yaml").write_text(
        text.replace("gpt-4", "scripted:named") + "model: scripted:default\n"
    )
    done = taofold("run", "flow.yaml", "go", "--set", "math_problem=1")
    assert done.code == 0, done.err
    assert {one.name: len(one.requests) for one in made} == {
        "scripted:named": 1,
        "scripted:default": 0,
    }


def test_a_flow_that_asks_no_model_needs_none(taofold: Taofold, project: Path) -> None:
    (project / "flow.yaml").write_text(
        'nodes: [{name: loud, set: {x: "{{ goal | upper }}"}}]\nresult: "{{ state.x }}"\n'
    )
    done = taofold("run", "flow.yaml", "hello")
    assert (done.code, done.out) == (0, "HELLO\n"), done.err
    assert taofold("runs", "replay", "last").out.startswith("identical")


def test_a_flow_that_asks_one_somewhere_does(taofold: Taofold, project: Path) -> None:
    (project / "flow.yaml").write_text(
        "imports: [{path: inner.yaml, namespace: inner}]\nnodes: [{name: a, uses: flow.inner}]\n"
    )
    (project / "inner.yaml").write_text(
        "nodes: [{name: a, uses: llm.call, with: {prompt: hello}}]\n"
    )
    done = taofold("run", "flow.yaml", "hello")
    assert done.code == 2
    assert "no model: pass --model" in done.err
    assert "there are no runs yet" in taofold("runs", "list").err


def test_set_gives_json_where_it_can_be_read_and_else_text(taofold: Taofold, project: Path) -> None:
    (project / "flow.yaml").write_text('nodes: [{name: a, set: {x: 1}}]\nresult: "{{ state }}"\n')
    said = {
        "n": ("3", 3),
        "list": ('["a", 1]', ["a", 1]),
        "text": ("a=b {{ 7*7 }}", "a=b {{ 7*7 }}"),
        "quoted": ('"3"', "3"),
        "none": ("null", None),
        "nan": ("NaN", "NaN"),
        "empty": ("", ""),
    }
    flags = [part for key, (text, _) in said.items() for part in ("--set", f"{key}={text}")]
    done = taofold("run", "flow.yaml", "go", *flags)
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert {key: found[key] for key in said} == {key: value for key, (_, value) in said.items()}


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--set", "lonely"], "KEY=VALUE"),
        (["--set", "=3"], "KEY=VALUE"),
        (["--set", "a.b=3"], "KEY=VALUE"),
        (["--set", "a=1", "--set", "a=2"], "gives 'a' twice"),
    ],
)
def test_a_wrong_set_is_a_usage_error(taofold: Taofold, flags: list[str], said: str) -> None:
    done = taofold("run", "agents.py:adder", "add", *flags)
    assert done.code == 2
    assert said in done.err


def test_the_schema_is_of_agents_and_flows_and_init_writes_the_same(
    taofold: Taofold, project: Path
) -> None:
    done = taofold("check", "--schema")
    schema = json.loads(done.out)
    assert {"tools", "nodes"} <= set(schema["properties"])
    assert done.code == 0
    taofold("init")
    assert json.loads((project / ".taofold" / "agent.schema.json").read_text()) == schema
    validator = Draft202012Validator(schema)
    for path in [*EXAMPLES.glob("*.yaml"), project / "agent.yaml"]:
        document, _ = load(path)
        assert document is not None
        assert list(validator.iter_errors(document.value)) == [], path
    assert taofold("check", "--schema", "agent.yaml").code == 2
    assert taofold("check").code == 2

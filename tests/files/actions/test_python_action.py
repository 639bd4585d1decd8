"""The action `python.run`: where the code runs, what it reads, and what a replay does."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from taofold import Agent
from taofold.cli.app import main
from taofold.core.errors import ConfigError
from taofold.files.actions.python import needs_process
from taofold.policy import Policy
from taofold.testing.models import FunctionModel
from taofold.tools.python_code import PROCESS, RUN
from tests.files.flow.kit import echo, faults, made, with_model
from tests.prerequisites import CONTAINMENT

FREE = Policy(autonomy="autonomous")
FLOW = """
nodes:
  - name: double
    uses: python.run
    with:
      code: |
        x = {"a": {"b": 1}}
        return {"m": state["n"] * 2, "t": f"{{{state.get('n')}}}"}
result: "{{ state.double }}"
"""
FILES = """
nodes:
  - name: listed
    uses: python.run
    with:
      code: |
        import os
        os.mkdir("made")
        return [name for name in os.listdir(".") if name[0] != "."]
"""


def agent_of(text: str, folder: Path, *, allow_python: bool = False) -> Agent[Any, Any]:
    agent = made(text, folder, allow_python=allow_python)
    return with_model(agent, FunctionModel(echo), policy=FREE)


def calls(result: Any) -> list[str]:
    return [action.tool for step in result.steps for action in step.actions][:-1]


def test_a_code_computes_with_the_values_of_the_flow(tmp_path: Path) -> None:
    result = agent_of(FLOW, tmp_path).run_sync("x", data={"n": 4, "other": "unread"})
    assert result.output == {"m": 8, "t": "{4}"}
    assert calls(result) == [RUN]
    # Only the values that the code reads are logged with it.
    assert result.steps[0].actions[0].parameters["values"] == {"state": {"n": 4}}


def test_a_code_reads_the_names_that_templates_read(tmp_path: Path) -> None:
    text = """
variables: {unit: kg}
nodes:
  - name: all
    parallel: {items: [1, 2], as: weight}
    uses: python.run
    with:
      names: {plus: "{{ 1 + 1 }}"}
      code: |
        return f"{index}: {weight + plus} {variables['unit']} for {goal}"
"""
    result = agent_of(text, tmp_path).run_sync("tea")
    assert result.output == ["0: 3 kg for tea", "1: 4 kg for tea"]


def test_text_of_the_state_is_never_code(tmp_path: Path) -> None:
    hostile = '\'; import os; \'\\n""" {{ 7 * 7 }} {% x %}'
    text = "nodes: [{name: a, uses: python.run, with: {code: 'return state[\"n\"]'}}]"
    assert agent_of(text, tmp_path).run_sync("x", data={"n": hostile}).output == hostile


def test_an_error_fails_the_node_in_one_line(tmp_path: Path) -> None:
    text = "nodes: [{name: a, uses: python.run, with: {code: 'return 1 / 0'}}]"
    result = agent_of(text, tmp_path).run_sync("x")
    assert result.error == "node 'a': line 1 of the code: ZeroDivisionError: division by zero"


@pytest.mark.anyio
async def test_a_replay_runs_no_code(tmp_path: Path) -> None:
    code = json.dumps("import random\nreturn random.random()")
    text = f"nodes: [{{name: a, uses: python.run, with: {{code: {code}}}}}]"
    agent = agent_of(text, tmp_path)
    result = await agent.run("x")
    assert (await agent.replay(result)).output == result.output


def test_code_beyond_the_sandbox_needs_the_permission_of_the_user(tmp_path: Path) -> None:
    with pytest.raises(ExceptionGroup) as raised:
        made(FILES, tmp_path)
    [fault] = raised.value.exceptions
    assert isinstance(fault, ConfigError)
    assert "flow.yaml:8: nodes[0].with.code: the sandbox of Python code lacks `os.mkdir`" in str(
        fault
    )
    assert "--allow-python" in str(fault)


@CONTAINMENT.mark
def test_permitted_code_runs_contained(tmp_path: Path) -> None:
    agent = agent_of(FILES, tmp_path, allow_python=True)
    result = agent.run_sync("x")
    assert sorted(result.output) == ["flow.yaml", "made"]
    assert calls(result) == [PROCESS]


@CONTAINMENT.mark
def test_code_that_the_sandbox_can_run_stays_there(tmp_path: Path) -> None:
    result = agent_of(FLOW, tmp_path, allow_python=True).run_sync("x", data={"n": 1})
    assert calls(result) == [RUN]


def _late() -> str:
    # The reader of the code does not see that this name is `OrderedDict` of the host.
    return """
nodes:
  - name: a
    uses: python.run
    with: {code: "from collections import ChainMap\\nreturn dict(ChainMap({'a': 1}))"}
"""


def test_a_lack_that_only_the_run_shows_names_the_permission(tmp_path: Path) -> None:
    result = agent_of(_late(), tmp_path).run_sync("x")
    assert "line 1 of the code: ImportError" in result.error
    assert "--allow-python" in result.error


@CONTAINMENT.mark
def test_a_lack_that_only_the_run_shows_leads_to_the_process(tmp_path: Path) -> None:
    agent = agent_of(_late(), tmp_path, allow_python=True)
    result = agent.run_sync("x")
    assert result.output == {"a": 1}
    assert calls(result) == [RUN, PROCESS]


@CONTAINMENT.mark
def test_a_policy_forbids_contained_code(tmp_path: Path) -> None:
    policy = Policy(autonomy="autonomous", tiers={PROCESS: 4})
    result = agent_of(FILES, tmp_path, allow_python=True).replace(policy=policy).run_sync("x")
    assert not result.success
    assert not (tmp_path / "made").exists()


def test_a_model_is_not_offered_the_interpreter(tmp_path: Path) -> None:
    text = """
nodes:
  - {name: a, uses: python.run, with: {code: "return 1"}}
  - {name: b, uses: file.list}
  - {name: c, uses: reason.react, with: {goal: g}}
"""
    seen: list[str] = []

    def reply(request: Any) -> str:
        seen.append("\n".join([message.text for message in request.conversation]))
        return '{"thought": "t", "action": {"tool": "finish", "parameters": {"answer": "x"}}}'

    with_model(made(text, tmp_path), FunctionModel(reply)).run_sync("x")
    assert "list_files" in seen[0]
    assert RUN not in seen[0]


@pytest.mark.parametrize(
    ("code", "line", "message"),
    [
        ("|\n        x = 1\n        return {", 6, "is no Python"),
        ("'return ('", 5, "is no Python"),
        ("|\n        x = 1\n        break", 6, "'break' outside loop"),
        ("return actions['a']()", 5, "code cannot call actions"),
    ],
)
def test_the_check_finds_faults_of_the_code_at_their_lines(
    code: str, line: int, message: str
) -> None:
    text = f"nodes:\n  - name: a\n    uses: python.run\n    with:\n      code: {code}\n"
    [fault] = faults(text)
    assert fault.line == (line if "|" not in code else 7)
    assert message in str(fault)


def test_braces_in_a_code_are_no_template() -> None:
    text = "nodes: [{name: a, uses: python.run, with: {code: 'return {{1}}'}}]"
    assert faults(text) == []


def check(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["check", *arguments])
    return int(ended.value.code or 0)


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TAOFOLD_HOME", str(tmp_path / "home"))

    def write(text: str) -> str:
        (tmp_path / "f.yaml").write_text(text)
        return "f.yaml"

    return write


def test_the_check_says_where_the_code_can_run(
    written: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(written(FLOW)) == 0
    assert "the sandbox suffices for 1 node with Python" in capsys.readouterr().err
    assert check(written(FILES)) == 0
    assert "f.yaml:8: nodes[0].with.code: the sandbox of Python code lacks" in (
        capsys.readouterr().err
    )


def test_a_run_without_the_flag_executes_nothing(
    written: Callable[[str], str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    written(
        FILES.replace(
            'return [name for name in os.listdir(".") if name[0] != "."]', 'os.mkdir("made")'
        )
    )
    with pytest.raises(SystemExit) as ended:
        main(["run", "f.yaml", "go", "--autonomy", "autonomous", "--approve", "yes"])
    assert ended.value.code == 2
    assert "--allow-python" in capsys.readouterr().err
    assert not (tmp_path / "made").exists()


@CONTAINMENT.mark
def test_code_that_does_not_end_is_killed_at_the_timeout_of_its_node(tmp_path: Path) -> None:
    text = """
nodes:
  - name: a
    uses: python.run
    timeout: 1
    with: {code: "import glob\\nwhile True:\\n    pass"}
"""
    result = agent_of(text, tmp_path, allow_python=True).run_sync("x")
    assert not result.success
    assert result.steps[0].observations[0].status == "timeout"


def test_everything_that_the_sandbox_lacks_is_named_once() -> None:
    code = "import subprocess\nwith open('x') as f:\n    pass\nimport subprocess\n"
    assert needs_process(code, sandbox=True) == (
        "the sandbox of Python code lacks `import subprocess`, `open()` (line 2 of the code)",
        1,
    )
    names = "\n".join([f"import lib{number}" for number in range(30)])
    assert needs_process(names, sandbox=True)[0].endswith("and 9 more constructs")

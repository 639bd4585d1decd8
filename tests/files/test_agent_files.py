"""Agent files: the keys are Agent's arguments, and nothing leads out of the work root."""

from dataclasses import fields
from pathlib import Path

import pytest

from taofold import Hook
from taofold.agent import Agent
from taofold.core.errors import ConfigError
from taofold.files import Config, build, read_agent
from taofold.files.agent import NOT_IN_FILES, TRANSLATED, AgentKeys, inside
from taofold.files.config import LimitKeys
from taofold.files.export import dump
from taofold.files.python_references import is_name, load
from taofold.policy import Limits


def made(folder: Path, text: str) -> Agent[object, object]:
    path = folder / "agent.yaml"
    path.write_text(text)
    file, faults = read_agent(path)
    assert file is not None, faults
    return build(file, Config(model="offline:repair"), folder)


def test_the_keys_are_the_arguments_of_agent() -> None:
    known = {one.name for one in fields(Agent)} - {"_"}
    keys = set(AgentKeys.model_fields) - {"mcp"}  # servers become tools
    assert keys | set(NOT_IN_FILES) == known
    assert not set(AgentKeys.model_fields) & set(NOT_IN_FILES)
    assert set(AgentKeys.model_fields) >= TRANSLATED


def test_the_limits_are_those_of_limits() -> None:
    assert set(LimitKeys.model_fields) == {one.name for one in fields(Limits)}


def test_a_file_makes_the_agent_it_describes(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from taofold import tool\nfrom pydantic import BaseModel\n"
        "class Answer(BaseModel):\n    x: int\n"
        "@tool(effect='read')\ndef peek(x: int) -> int:\n    '''Look.'''\n    return x\n"
    )
    agent = made(
        tmp_path,
        "model: [offline:repair, ollama:x]\nname: n\ninstructions: i\n"
        "tools: [files, command, 'mine.py:peek']\noutput: mine.py:Answer\n"
        "limits: {steps: 3, per_tool: {peek: 2}}\nask_user: true\nstrict: false\n",
    )
    assert agent.model == ["offline:repair", "ollama:x"]
    assert agent.toolset.names[-2:] == ("run_command", "peek")
    assert agent.output.__name__ == "Answer"
    assert agent.limits == Limits(steps=3, per_tool={"peek": 2})
    assert (agent.ask_user, agent.strict) == (True, False)


@pytest.mark.parametrize(
    "written",
    ["int | str", "Optional[int]", "list[int]", "Literal['a', 'b']", "NewType('Id', int)",
     "Annotated[int, 'metres']", "TypeAliasType('Ids', list[int])"],
)  # fmt: skip
def test_an_output_may_be_any_type_that_typing_knows(tmp_path: Path, written: str) -> None:
    (tmp_path / "kinds.py").write_text(
        "from typing import Annotated, Literal, NewType, Optional\n"
        f"from typing_extensions import TypeAliasType\nAnswer = {written}\nseven = 7\n"
    )
    assert made(tmp_path, "output: kinds.py:Answer\n").answer.schema
    with pytest.raises(ExceptionGroup) as refused:
        made(tmp_path, "output: kinds.py:seven\n")
    assert "is 7, not a type" in str(refused.value.exceptions[0])


def test_an_agent_file_is_lenient_unless_it_says_otherwise(tmp_path: Path) -> None:
    assert made(tmp_path, "tools: []\n").strict is False
    assert made(tmp_path, "tools: []\nstrict: true\n").strict is True


def test_the_configuration_fills_in_what_a_file_leaves_out(tmp_path: Path) -> None:
    assert made(tmp_path, "tools: []\n").model == "offline:repair"


@pytest.mark.parametrize("root", ["..", "/", "a/../..", "link"])
def test_a_tools_root_may_not_leave_the_work_root(tmp_path: Path, root: str) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "link").symlink_to(tmp_path)
    with pytest.raises(ConfigError, match="leads out"):
        inside(tmp_path / "work", root)


def test_every_fault_of_building_comes_at_once(tmp_path: Path) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        made(tmp_path, "tools:\n  - gone:x\n  - files: {root: ..}\noutput: gone:Y\n")
    said = [str(one) for one in caught.value.exceptions]
    assert [one.partition(": ")[0].rpartition(":")[2] for one in said] == ["2", "3", "4"]


def test_an_unknown_tool_in_the_limits_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        made(tmp_path, "tools: [files]\nlimits: {per_tool: {red_file: 3}}\n")
    assert "there is no tool 'red_file'" in str(caught.value.exceptions[0])


@pytest.mark.parametrize(
    ("text", "good"),
    [("a:b", True), ("a.b:c.d", True), ("x/y.py:z", True), ("files", False), ("a b:c", False),
     ("make it:", False), ("note: do it", False)],
)  # fmt: skip
def test_what_is_a_name(text: str, good: bool) -> None:
    assert is_name(text) is good


def test_what_a_module_prints_does_not_reach_standard_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "loud.py").write_text("print('hello')\nx = 3\n")
    assert load("loud.py:x", tmp_path) == 3
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "hello\n")


@pytest.mark.parametrize("body", ["raise SystemExit(3)", "1 / 0", "import nowhere_at_all"])
def test_a_module_that_cannot_be_imported_is_a_configuration_error(
    tmp_path: Path, body: str
) -> None:
    (tmp_path / "bad.py").write_text(body)
    with pytest.raises(ConfigError, match="importing"):
        load("bad.py:x", tmp_path)


def test_an_agent_with_hooks_cannot_be_written_to_a_file() -> None:
    with pytest.raises(ConfigError, match="code of the program"):
        dump(Agent("openai:gpt-5", hooks=[Hook()]))

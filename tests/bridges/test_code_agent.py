"""The example: `react` whose actions are Python, on real files and a contained shell."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from taofold import Agent
from taofold.core import events as e
from tests.prerequisites import CONTAINMENT
from tests.runtime.kit import Memo, act, events, finish, settled

pytestmark = pytest.mark.anyio

PATH = Path(__file__).parents[2] / "examples" / "code_agent" / "agent.py"
CODE = """
best, month = 0, ""
for name in ("jan.csv", "feb.csv"):
    text = read_file(name)
    total = sum([int(line.rpartition(",")[2]) for line in text.splitlines() if "," in line])
    if total > best:
        best, month = total, name
print(month, best)
write_file("best.txt", month)
month
"""


def code_agent(root: Path, *script: Any, **options: Any) -> Agent[Any, Any]:
    spec = importlib.util.spec_from_file_location("code_agent_example", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: Agent[Any, Any] = module.code_agent(root, model=Memo(script), **options)
    return made


@pytest.fixture
def sales(tmp_path: Path) -> Path:
    (tmp_path / "jan.csv").write_text("a,3\nb,4\n")
    (tmp_path / "feb.csv").write_text("a,10\nb,1\n")
    return tmp_path


async def test_it_computes_over_files_and_waits_before_it_writes(sales):
    agent = code_agent(sales, act("python", code=CODE), finish("feb.csv"))
    waiting = await agent.run("Which month sold most?")
    assert waiting.status == "waiting"
    [asked] = waiting.pending
    assert asked.action.tool == "write_file"
    assert "feb.csv" in json.dumps(asked.action.parameters)
    assert not (sales / "best.txt").exists()
    ended = await settled(agent, waiting)
    assert ended.output == "feb.csv"
    assert (sales / "best.txt").read_text() == "feb.csv"
    seen = events(ended, e.Observed)[0].observation
    assert seen.result == {"printed": "feb.csv 11\n", "value": "feb.csv"}


async def test_its_shell_is_contained(sales):
    CONTAINMENT.need()
    code = "said = run_command('cat jan.csv; cat /etc/shadow; echo end')\nprint(said)"
    agent = code_agent(sales, act("python", code=code), finish(), approve="all")
    seen = events(await agent.run("look"), e.Observed)[0].observation
    assert "a,3" in json.dumps(seen.result)
    assert "root:" not in json.dumps(seen.result)
    assert "contained, no network" in json.dumps(seen.result)


async def test_a_model_that_calls_a_tool_beside_python_is_told_that_there_is_none(sales):
    agent = code_agent(sales, act("read_file", path="jan.csv"), finish())
    assert events(await agent.run("look"), e.Observed)[0].observation.refused == "unknown"

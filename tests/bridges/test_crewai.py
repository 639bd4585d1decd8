"""CrewAI tools, in CrewAI's own environment: it pins packages that cannot live beside ours."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests import environments

pytestmark = [pytest.mark.crewai, pytest.mark.scenario("TEA-15")]

ROOT = Path(__file__).resolve().parents[2]
QUIET = {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_DISABLE_TRACKING": "true",
    "OTEL_SDK_DISABLED": "true",
}
REAL = """
import asyncio, json, threading
from crewai.tools import BaseTool, tool
from pydantic import BaseModel, Field
from taofold import Agent
from taofold.bridges.crewai import tool_of
from taofold.testing import ScriptedModel

class Arguments(BaseModel):
    a: int = Field(ge=0)
    b: int = 1

class Add(BaseTool):
    name: str = "Add numbers"
    description: str = "Adds two numbers."
    args_schema: type[BaseModel] = Arguments
    max_usage_count: int | None = 2
    def _run(self, a, b):
        assert threading.current_thread() is not threading.main_thread()
        return a + b

class AsyncRun(BaseTool):
    name: str = "async_run"
    description: str = "Its _run is a coroutine."
    max_usage_count: int | None = 1
    async def _run(self, x: int) -> int:
        await asyncio.sleep(0)
        return x + 10

class OwnArun(BaseTool):
    name: str = "own_arun"
    description: str = "It has both."
    def _run(self, x: int) -> int:
        return 0
    async def _arun(self, x: int) -> int:
        return x + 100

@tool("Shout it!")
def shout(text: str) -> str:
    "Shouts."
    return text.upper()

@tool
async def whisper(text: str) -> str:
    "Whispers."
    return text.lower()

@tool
def broken() -> str:
    "Breaks."
    raise RuntimeError("it broke")

def act(tool, **parameters):
    return json.dumps({"thought": "next", "action": {"tool": tool, "parameters": parameters}})

calls = [
    ("Add_numbers", {"a": 2, "b": 3}), ("Add_numbers", {"a": -1}), ("Add_numbers", {"a": "x"}),
    ("Add_numbers", {"a": 4}), ("Add_numbers", {"a": 5}), ("async_run", {"x": 1}),
    ("async_run", {"x": 2}), ("own_arun", {"x": 1}), ("Shout_it", {"text": "hey"}),
    ("whisper", {"text": "HEY"}), ("broken", {}), ("own_arun", {}),
]
script = [*[act(name, **given) for name, given in calls], act("finish", answer="done")]
agent = Agent(
    ScriptedModel(script), tools=[Add(), AsyncRun(), OwnArun(), shout, whisper, broken],
    approve="all",
)
from taofold import Limits
result = agent.replace(limits=Limits(steps=20, tool_calls=20)).run_sync("work")
seen = [[o.status, o.refused, o.result] for step in result.steps for o in step.observations]
schema = tool_of(Add()).schema
print(json.dumps({
    "success": result.success, "names": agent.toolset.names, "seen": seen, "schema": schema,
    "description": tool_of(Add()).description, "stop": result.stop_reason,
    "tiers": [int(one.tier) for one in agent.toolset.values()],
}))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    environment = environments.needs("crewai")
    folder = tmp_path_factory.mktemp("crewai")
    script = folder / "real.py"
    script.write_text(REAL)
    env = {"PYTHONPATH": str(ROOT / "src"), "HOME": str(folder), **QUIET}
    done = environment.run(script, env=env, cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.document_item("004.tools.crewai")
def test_its_tools_are_called_by_react_with_their_schemas(told):
    assert told["success"], told
    assert told["schema"]["properties"]["a"] == {"minimum": 0, "type": "integer"}
    assert told["schema"]["required"] == ["a"]
    assert told["description"] == "Adds two numbers."
    assert told["seen"][0] == ["success", "", 5]


def test_names_are_made_safe_and_everything_asks_first(told):
    names = ["Add_numbers", "async_run", "own_arun", "Shout_it", "whisper", "broken"]
    assert told["names"] == names
    assert set(told["tiers"]) == {2}


def test_wrong_arguments_are_refused_before_it_runs(told):
    negative, text, missing = told["seen"][1], told["seen"][2], told["seen"][11]
    assert [negative[1], text[1], missing[1]] == ["invalid"] * 3
    assert "-1 is less than the minimum of 0" in negative[2]
    assert "'x'" in missing[2]


def test_a_spent_usage_limit_is_a_failure_that_the_model_reads(told):
    second, third = told["seen"][3], told["seen"][4]
    assert second == ["success", "", 5]
    assert third[0] == "failure"
    assert "usage limit of 2" in third[2]
    assert told["seen"][6][0] == "failure"
    assert "usage limit of 1" in told["seen"][6][2]


def test_coroutines_are_awaited_and_functions_run_in_threads(told):
    assert [one[2] for one in told["seen"][5:10:1] if one[0] == "success"] == [
        11, 101, "HEY", "hey",
    ]  # fmt: skip


def test_what_a_tool_raises_is_an_observation(told):
    status, refused, said = told["seen"][10]
    assert (status, refused) == ("failure", "")
    assert "it broke" in said

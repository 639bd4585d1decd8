"""The program in this process, on a small broken project of its own."""

from pathlib import Path

import pytest

from tests.terminal import enter, started, taofold

__all__ = ["started", "taofold"]

AGENTS = '''
"""Agents with scripted models, for the tests of loops."""
import asyncio, json, pathlib
from taofold import Agent, Policy, tool
from taofold.testing import FunctionModel
from taofold.tools.files import file_tools

def act(thought, tool, kind="reasoning", **parameters):
    return json.dumps({"thought": thought, "thought_type": kind,
                       "action": {"tool": tool, "parameters": parameters, "rationale": "needed"}})

def script(*iterations):
    """One list of replies for each iteration; the last one is repeated."""
    def say(request):
        goal = next(m.content for m in request.conversation if m.role == "user")
        number = int(goal.partition("## Iteration ")[2].split()[0])
        turn = len([m for m in request.conversation if m.role == "assistant"])
        return iterations[min(number, len(iterations)) - 1][turn]
    return FunctionModel(say, name="scripted:model")

def write(path, content):
    return act("I write " + path, "write_file", "goal", path=path, content=content)

done = act("nothing is left", "finish", "synthesis", answer="SUCCESS: everything passes")
RIGHT = "def double(n):\\n    return 2 * n\\n"
WRONG = "def double(n):\\n    return n\\n"
here = pathlib.Path(__file__).parent

FREE = Policy(autonomy="autonomous")

def worker(*iterations):
    return Agent(script(*iterations), tools=[file_tools(here)], policy=FREE)

fixer = worker([write("calc.py", RIGHT), done])
slow_fixer = worker([write("calc.py", "x = 1\\n"), done], [write("calc.py", RIGHT), done])
liar = worker([done])
cheat = worker([write("test_calc.py", "def test_double():\\n    pass\\n"), done])

corrected = worker([write("test_calc.py", "def test_double():\\n    pass\\n"), done],
                   [write("calc.py", RIGHT), done])

planter = worker([write("conftest.py", "def pytest_runtest_makereport(item, call):\\n    pass\\n"),
                  done])

@tool(effect="once")
def deploy(place: str) -> str:
    """Deploy it."""
    return "deployed to " + place

asker = Agent(script([act("deploy first", "deploy", "goal", place="prod"),
                      write("calc.py", RIGHT), done]), tools=[file_tools(here), deploy])

@tool(tier=1, effect="read")
async def wait() -> str:
    """Wait until a file named go appears."""
    (here / ".taofold" / "waiting").touch()
    while not (here / ".taofold" / "go").exists():
        await asyncio.sleep(0.01)
    return "gone"

waiter = Agent(script([act("I wait", "wait", "goal"), write("calc.py", RIGHT), done]),
               tools=[file_tools(here), wait], policy=FREE)

@tool(effect="once")
async def slow_deploy() -> str:
    """Deploy it, which takes its time."""
    return await wait.function()

deployer = Agent(script([act("I deploy", "slow_deploy", "goal"), write("calc.py", RIGHT), done]),
                 tools=[file_tools(here), slow_deploy], policy=FREE)
trusted = Agent(script([write("calc.py", RIGHT), done]), tools=[file_tools(here)], approve="all")
idler = Agent(script([act("I wait", "wait", "goal"), done]), tools=[wait], policy=FREE)
'''
TEST = """from calc import double


def test_double():
    assert double(3) == 6


def test_zero():
    assert double(0) == 0
"""
GATE = "python -m pytest -q"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns a broken project. The data of loops is stored beside it."""
    folder = enter(tmp_path / "project", monkeypatch)
    (folder / "calc.py").write_text("def double(n):\n    return n\n")
    (folder / "test_calc.py").write_text(TEST)
    (folder / "agents.py").write_text(AGENTS)
    (folder / ".taofold").mkdir(mode=0o700)
    (folder / ".taofold" / ".gitignore").write_text("*\n")
    return folder

"""The program in this process, on a small broken project of its own."""

import os
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest

from taofold.cli.app import main

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
'''
TEST = """from calc import double


def test_double():
    assert double(3) == 6


def test_zero():
    assert double(0) == 0
"""
GATE = "python -m pytest -q"


class Result(NamedTuple):
    """What the program gave back."""

    code: int
    out: str
    err: str


Taofold = Callable[..., Result]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A broken project; what loops keep lies beside it."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "calc.py").write_text("def double(n):\n    return n\n")
    (folder / "test_calc.py").write_text(TEST)
    (folder / "agents.py").write_text(AGENTS)
    (folder / ".taofold").mkdir(mode=0o700)
    (folder / ".taofold" / ".gitignore").write_text("*\n")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in list(os.environ):
        if name.startswith("TAOFOLD_"):
            monkeypatch.delenv(name)
    return folder


@pytest.fixture
def taofold(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Taofold:
    """Runs the program in this process."""

    def run(*arguments: str) -> Result:
        capsys.readouterr()
        monkeypatch.setattr(sys, "stdin", StringIO(""))
        for name in ("agents", "calc"):
            sys.modules.pop(name, None)
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        out, err = capsys.readouterr()
        code = ended.value.code
        return Result(code if isinstance(code, int) else 0, out, err)

    return run


@pytest.fixture
def started(project: Path) -> Callable[..., subprocess.Popen[str]]:
    """Starts the program as a process of its own."""

    def start(*arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "taofold.cli", *arguments],
            cwd=project, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    return start

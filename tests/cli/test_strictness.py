"""One agent behaves the same from every entry point, lenient and strict."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from taofold.bridges.mcp import McpServer
from taofold.core.events import Violated
from taofold.core.state import fold
from taofold.log.sqlite.log import SqliteLog
from taofold.server.auth import LocalToken
from taofold.tools.context import RunContext
from tests.terminal import PATIENCE, Taofold, enter, taofold

__all__ = ["taofold"]
pytestmark = pytest.mark.anyio

AGENT: Final = """
import json
from pathlib import Path

from taofold import Agent, tool
from taofold.testing import FunctionModel


@tool(effect="read")
def count(path: str = "notes.txt") -> int:
    "Count words."
    Path("counted").touch()
    return 42


def reply(request):
    # A model that writes no type, no rationale and no reason, as the README's does.
    if any("[success] count" in message.text for message in request.conversation):
        action = {"tool": "finish", "parameters": {"answer": "there are 42"}}
        return json.dumps({"thought": "It has 42.", "action": action})
    return json.dumps({"action": {"tool": "count", "parameters": {}}})


def agent_of(strict):
    return Agent(FunctionModel(reply), name="agent", tools=[count], strict=strict)


agent, demanding = agent_of(False), agent_of(True)
"""
PYTHON: Final = """
import sys
from agents import agent
agent.replace(log=".taofold/runs.db", strict="--strict" in sys.argv).run_sync("count")
"""
CASES: Final = "cases:\n  - goal: count\n    expect: there are 42\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = enter(tmp_path / "project", monkeypatch)
    (folder / "agents.py").write_text(AGENT)
    (folder / "python.py").write_text(PYTHON)
    (folder / "cases.yaml").write_text(CASES)
    (folder / ".taofold").mkdir(mode=0o700)
    return folder


async def by_python(folder: Path, *flags: str) -> None:
    await program(folder, "python.py", *flags)


async def by_run(folder: Path, *flags: str) -> None:
    await program(folder, *CLI, "run", "agents.py:agent", "count", "-q", *flags)


async def by_eval(folder: Path, *flags: str) -> None:
    words = ("eval", "cases.yaml", "--agent", "agents.py:agent", "-q")
    await program(folder, *CLI, *words, *flags)


async def by_loop(folder: Path, *flags: str) -> None:
    gate = ("--completion", "test -f counted")
    words = ("loop", "count", "--agent", "agents.py:agent", "--in-place", *gate, "-q")
    await program(folder, *CLI, *words, *flags)


async def by_mcp(folder: Path, *flags: str) -> None:
    words = [sys.executable, *CLI, "serve", "agents.py:agent", "--mcp", *flags]
    home = {"TAOFOLD_HOME": str(folder / ".taofold")}
    server = McpServer.stdio(
        *words, env=home, cwd=folder, name="t", pins=False, trust=True, connect_timeout=PATIENCE
    )
    async with server:
        await server["t_agent"].bind({"goal": "count"}).run(RunContext(None))


async def by_server(folder: Path, *flags: str) -> None:
    said = folder / "stderr.txt"
    words = [sys.executable, *CLI, "serve", "agents.py:agent", "--port", "0", *flags]
    with said.open("w") as errors:
        started = subprocess.Popen(words, cwd=folder, stderr=errors)  # noqa: ASYNC220
    try:
        async with asyncio.timeout(PATIENCE):
            while not (
                url := re.findall(r"^serving \S+ at (\S+)$", said.read_text(), re.MULTILINE)
            ):
                assert started.poll() is None, said.read_text()
                await asyncio.sleep(0.05)
            headers = {"Authorization": f"Bearer {LocalToken.of_user().value()}"}
            async with httpx2.AsyncClient(
                base_url=url[0], headers=headers, timeout=PATIENCE
            ) as client:
                run = (await client.post("/runs", json={"goal": "count"})).json()["id"]
                while (await client.get(f"/runs/{run}")).json()["status"] in ("new", "running"):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
    finally:
        started.terminate()
        started.wait(PATIENCE)


SERVING: Final = re.compile(r"^serving \S+ at (\S+)$", re.MULTILINE)
CLI: Final = ("-m", "taofold.cli")
WAYS: Final = (by_python, by_run, by_eval, by_loop, by_server, by_mcp)


async def program(folder: Path, *words: str) -> None:
    started = await asyncio.create_subprocess_exec(
        sys.executable, *words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    _, errors = await asyncio.wait_for(started.communicate(), PATIENCE)
    assert started.returncode == 0, errors.decode()


async def done(folder: Path) -> dict[str, Any]:
    """Returns the outcome of the one run in the project's log."""
    log = SqliteLog(folder / ".taofold" / "runs.db")
    (row,) = await log.rows()
    records = await log.read(row.run)
    await log.close()
    state = fold(records)
    broken = [r.event for r in records if isinstance(r.event, Violated)]
    return {
        "model calls": state.model_calls,
        "tool calls": state.tool_calls,
        "status": state.status,
        "output": state.output,
        "broken": [(event.rule, event.refused) for event in broken],
    }


LENIENT: Final = {
    "model calls": 2,
    "tool calls": 1,
    "status": "finished",
    "output": "there are 42",
    "broken": [
        *[("R1", False), ("missing_rationale", False)],
        *[("thought_type", False)],
    ],
}
FIRST: Final = ("R1", "missing_rationale")
LAST: Final = ("thought_type", "missing_extraction")
STRICT: Final = LENIENT | {
    "model calls": 4,
    "broken": [
        *[(rule, refused) for refused in (True, False) for rule in FIRST],
        *[(rule, refused) for refused in (True, False) for rule in LAST],
    ],
}


@pytest.mark.parametrize("way", WAYS)
async def test_an_agent_is_lenient_from_wherever_it_is_started(way: Any, project: Path) -> None:
    await way(project)
    assert await done(project) == LENIENT


@pytest.mark.parametrize("way", WAYS)
async def test_an_agent_is_strict_where_that_is_said(way: Any, project: Path) -> None:
    await way(project, "--strict")
    assert await done(project) == STRICT


async def test_an_agent_that_is_strict_itself_is_so_without_a_flag(project: Path) -> None:
    await program(project, *CLI, "run", "agents.py:demanding", "count", "-q")
    assert await done(project) == STRICT


def test_a_lenient_run_is_shown_without_rules_and_checked_with_notes(
    project: Path, taofold: Taofold
) -> None:
    done = taofold("run", "agents.py:agent", "count")
    assert "rule" not in done.err
    assert "refused" not in done.err
    assert "rule" not in taofold("runs", "show", "last").out
    checked = taofold("runs", "check", "last")
    assert checked.code == 0
    assert "FAIL" not in checked.out
    assert "note  complete triplets: step 1" in checked.out
    strict = taofold("runs", "check", "last", "--strict")
    assert strict.code == 1
    assert "FAIL  complete triplets: step 1" in strict.out


def test_a_strict_run_shows_what_it_refused_and_fails_its_check(
    project: Path, taofold: Taofold
) -> None:
    done = taofold("run", "agents.py:agent", "count", "--strict")
    assert done.err.count("reply refused (strict, R1): asked again") == 1
    shown = taofold("runs", "show", "last").out
    assert shown.count("reply refused (strict, R1): asked again") == 1
    assert taofold("runs", "check", "last").code == 1

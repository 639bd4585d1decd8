"""`taofold serve --mcp`, met by our own bridge as its client."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from taofold import RunContext
from taofold.bridges.mcp import McpServer
from taofold.cli.serve.mcp import serve_mcp
from taofold.core.errors import ConfigError
from taofold.log.sqlite.log import SqliteLog

from .kit import SCRIPTS

pytestmark = pytest.mark.anyio
TOOLS = '''
from taofold import tool
@tool(effect="read")
def double(n: int) -> int:
    """Double it."""
    print("noise on standard output")
    return 2 * n
@tool(tier=3)
def pay(n: int) -> int:
    """Pay."""
    return n
'''


def command(*more: str) -> list[str]:
    return [sys.executable, "-m", "taofold.cli", "serve", "--mcp", *more]


async def value(server: McpServer, name: str, **parameters: Any) -> Any:
    return (await server[name].bind(parameters).run(RunContext(None))).value


async def test_agents_and_tools_are_served_on_standard_input_and_output(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(TOOLS)
    (tmp_path / "fixer.yaml").write_text("model: offline:repair\ndescription: Repairs.\n")
    words = command("fixer.yaml", "--mcp-tool", "mine.py:double", "--mcp-tool", "mine.py:pay")
    home = {"TAOFOLD_HOME": str(tmp_path / "home")}
    server = McpServer.stdio(*words, env=home, cwd=tmp_path, name="t", pins=False, trust=True)
    async with server:
        assert set(server) == {"t_fixer", "t_double", "t_pay", "t_resume_run"}
        assert server["t_fixer"].description == "Repairs."
        assert await value(server, "t_double", n=21) == "42"
        assert server["t_pay"].tier == 3
        assert "search policy" in str(await value(server, "t_fixer", goal="write a poem"))
    log = SqliteLog(tmp_path / "home" / "runs.db")
    rows = await log.rows()
    await log.close()
    assert sorted(row.agent for row in rows) == ["fixer", "mcp:double"]


def test_what_cannot_be_offered_is_said_before_serving(tmp_path: Path) -> None:
    done = subprocess.run(
        command("missing.yaml"), cwd=tmp_path, capture_output=True, text=True, timeout=180,
        check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "there is no agent file 'missing.yaml'" in done.stderr
    assert done.stdout == ""


def test_http_is_for_this_machine_only() -> None:
    with pytest.raises(ConfigError, match="on this machine only"):
        serve_mcp(["x.yaml"], http=True, host="0.0.0.0")


MODULE = """
import json, sys
from taofold import Agent
from taofold.bridges.mcp import McpServer
from taofold.testing import FunctionModel

def model(request):
    said = "\\n".join(one.content for one in request.conversation)
    act = {"tool": "s_wipe", "parameters": {"path": "/x"}, "rationale": "asked for"}
    if "wiped /x" in said:
        act = {"tool": "finish", "parameters": {"answer": "it is gone"}, "rationale": "done"}
    return json.dumps({"thought": "I act", "thought_type": "reasoning", "action": act})

server = McpServer.stdio(sys.executable, SCRIPT, name="s", pins=False)
agent = Agent(FunctionModel(model), tools=[server])
"""


def test_a_person_answers_a_servers_question_at_the_command_line(tmp_path: Path) -> None:
    script = MODULE.replace("SCRIPT", repr(str(SCRIPTS / "asker.py")))
    (tmp_path / "mod.py").write_text(script)

    # The variables of the suite itself would be warned of as unknown.
    untouched = {name: v for name, v in os.environ.items() if not name.startswith("TAOFOLD_")}

    def said(*words: str, code: int) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "taofold.cli", *words], cwd=tmp_path, timeout=180, text=True,
            capture_output=True, stdin=subprocess.DEVNULL, check=False,
            env=untouched | {"TAOFOLD_HOME": str(tmp_path / "home")},
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    run = said("run", "mod:agent", "wipe /x", code=3).split()[1].strip(":")
    said("approvals", "approve", run, code=0)
    waits = said("runs", "resume", run, code=3)
    assert "asks during its call: the server 's' asks: │ really wipe /x?" in waits
    assert "│ the server 's' asks:\n  │ │ really wipe /x?" in waits
    assert "it wants: ok" in waits
    assert "--answer" in waits
    assert "answer with --answer TEXT" in said("approvals", "approve", run, code=2)
    said("approvals", "approve", run, "--answer", "yes", code=0)
    ended = said("runs", "resume", run, code=0)
    assert "wiped /x: True" in ended
    assert "it is gone" in ended


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/mcp", ["npx", "server"], None])
def test_an_address_alone_is_answered_with_what_to_write(address: Any) -> None:
    with pytest.raises(ConfigError, match=r"write McpServer\.http\(url\), McpServer\.stdio"):
        McpServer(address)

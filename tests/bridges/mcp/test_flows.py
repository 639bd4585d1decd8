"""A flow whose nodes call tools of MCP servers: its own, and those of a flow that it imports."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from taofold import Agent, Decision, decide
from taofold.bridges.mcp.client import connection as mcp_connection
from taofold.core.errors import ConfigError
from taofold.files import Config, build, read_agent
from taofold.log.sqlite.log import SqliteLog
from tests.runtime.kit import Memo

from .kit import SCRIPTS

pytestmark = pytest.mark.anyio

SERVERS = """
mcp:
  asker:
    command: {python}
    args: ["{script}"]
"""
NODES = """
nodes:
  - name: sweep
    uses: tool.asker_wipe
    with: {path: /old}
    output: swept
  - name: close
    uses: tool.asker_wipe
    with: {path: "{{ state.swept }}"}
"""
MAIN = """
imports:
  - {path: inner.yaml, namespace: inner}
nodes:
  - name: all
    uses: flow.inner
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    path = tmp_path / "server.py"
    path.write_text((SCRIPTS / "asker.py").read_text())
    return path


def servers(script: Path) -> str:
    return SERVERS.format(python=sys.executable, script=script)


def made(path: Path, text: str) -> Agent[Any, Any]:
    path.write_text(text)
    file, faults = read_agent(path)
    assert file is not None, faults
    return build(file, Config(), path.parent).replace(model=Memo([]))


async def test_a_node_waits_for_approval_and_answer_and_replays_without_the_server(
    script: Path, tmp_path: Path
) -> None:
    """The inner flow's server, asked by the outer flow: tiers, questions and pins are the same."""
    (tmp_path / "inner.yaml").write_text(servers(script) + NODES)
    path, log = tmp_path / "main.yaml", SqliteLog(tmp_path / "runs.db")
    agent = await asyncio.to_thread(made, path, MAIN)
    result = await agent.replace(log=log).run("go")
    questions = list[str]()
    while result.status == "waiting":
        [asked] = result.pending
        questions.append(asked.question)
        answer = Decision("answer", answer="yes") if asked.question else Decision("approve")
        await decide(log, asked.id, answer)
        result = await agent.replace(log=log).resume(result)
    assert result.output == "wiped wiped /old: True: True"
    assert [bool(one) for one in questions] == [False, True, False, True]
    await mcp_connection.on_loop(mcp_connection.close_all())
    script.unlink()
    again = await asyncio.to_thread(made, path, MAIN)
    replayed = await again.replace(log=log).replay(result.run_id)
    assert replayed.output == result.output
    await log.close()


def test_a_wrong_name_or_key_in_a_node_is_a_fault_before_anything_runs(
    script: Path, tmp_path: Path
) -> None:
    nodes = NODES.replace("tool.asker_wipe", "tool.asker_wine", 1).replace('path: "', 'way: "')
    with pytest.raises(ExceptionGroup) as caught:
        made(tmp_path / "flow.yaml", servers(script) + nodes)
    said = " ".join(str(one) for one in caught.value.exceptions)
    assert "there is no tool 'asker_wine'; did you mean 'asker_wipe'" in said
    assert "the tool asker_wipe needs the key 'path'" in said


def test_a_server_that_cannot_be_started_is_a_fault_at_its_own_line(
    script: Path, tmp_path: Path
) -> None:
    script.unlink()
    for text in (servers(script) + NODES, "instructions: x\n" + servers(script)):
        with pytest.raises((ExceptionGroup, ConfigError)) as caught:
            made(tmp_path / "flow.yaml", text)
        error = caught.value
        faults = error.exceptions if isinstance(error, ExceptionGroup) else [error]
        [first] = [one for one in faults if "no tool" not in str(one)]
        assert "mcp.asker: mcp server 'asker'" in str(first)


def test_two_tools_of_one_name_in_two_flows_are_refused(tmp_path: Path) -> None:
    """Otherwise a flow would call what another one means."""
    for name in ("one", "two"):
        source = 'from taofold import tool\n@tool\ndef go() -> str:\n    "Go."\n    return "{}"\n'
        (tmp_path / f"{name}.py").write_text(source.format(name))
    inner = 'tools: ["two:go"]\nnodes:\n  - {name: x, uses: tool.go, with: {}}\n'
    (tmp_path / "inner.yaml").write_text(inner)
    with pytest.raises(ExceptionGroup, match="cannot be used") as caught:
        made(tmp_path / "main.yaml", 'tools: ["one:go"]\n' + MAIN)
    assert "another tool is named 'go'" in str(caught.value.exceptions)
    assert made(tmp_path / "main.yaml", 'tools: ["two:go"]\n' + MAIN)

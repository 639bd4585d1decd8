"""Servers made with FastMCP 3 and 4 that end, restart, send large results and rotate tokens."""

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from taofold import Agent, Decision, MemoryLog, Principal, RunContext
from taofold.bridges.mcp import McpServer
from taofold.bridges.mcp.client import remote_server
from taofold.core.errors import ConfigError
from taofold.runtime.control import decide
from taofold.tools import Outcome
from tests import environments
from tests.ports import free_port, wait_for
from tests.runtime.kit import Memo, act, finish

from .kit import SCRIPTS

pytestmark = [pytest.mark.anyio, pytest.mark.mcp_real]
FIVE_MB = 5_000_000
PEERS = [("fastmcp3", "auto"), ("phoenix", "auto"), ("phoenix", "legacy")]
"""Environments (Phoenix brings FastMCP 4) and modes. FastMCP 3 speaks the older era only."""


@dataclass
class Peer:
    """A FastMCP server in a process of its own, which can be restarted at the same address."""

    environment: environments.Environment
    folder: Path
    more: int = 0
    port: int = field(default_factory=free_port)
    process: Any = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def command(self, port: int) -> list[str]:
        script = str(SCRIPTS / "fastmcp_server.py")
        return [str(self.environment.python), script, str(port), str(self.folder), str(self.more)]

    def start(self) -> None:
        self.process = subprocess.Popen(
            self.command(self.port), env=environments.scrubbed(),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        wait_for(self.port, self.process)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    @property
    def calls(self) -> list[str]:
        """Returns the arguments of the calls of `note`."""
        file = self.folder / "calls"
        return file.read_text().splitlines() if file.exists() else []


@contextmanager
def peer(name: str, folder: Path, more: int = 0, token: str = "") -> Iterator[Peer]:
    found = Peer(environments.needs(name), folder, more)
    if token:
        (folder / "token").write_text(token)
    found.start()
    try:
        yield found
    finally:
        found.stop()


async def call(server: McpServer, name: str, **parameters: Any) -> Outcome:
    return await server[f"s_{name}"].bind(parameters).run(RunContext(None))


@pytest.mark.parametrize(("name", "mode"), PEERS)
async def test_each_principal_calls_with_credentials_of_its_own(
    name: str, mode: str, tmp_path: Path
) -> None:
    asked: list[str] = []

    def headers(principal: Principal | None) -> dict[str, str]:
        asked.append("" if principal is None else principal.id)
        return {"Authorization": f"Bearer {'' if principal is None else principal.id}-token"}

    with peer(name, tmp_path, token="*") as there:
        async with bridge(there, mode=mode, headers=headers) as server:

            async def who(name: str) -> Any:
                context = RunContext(None, principal=Principal(name))
                return (await server["s_who"].bind({}).run(context)).value

            said = await asyncio.gather(*[who(name) for name in ("ann", "bob", "ann", "bob")])
            assert said == ["ann-token", "bob-token", "ann-token", "bob-token"]
            assert sorted(asked) == ["", "ann", "bob"], "each once, and once for the list"


def bridge(there: Peer, **options: Any) -> McpServer:
    return McpServer.http(there.url, **{"name": "s", "pins": False, "trust": True} | options)


@pytest.mark.parametrize(("name", "mode"), PEERS)
async def test_a_restarted_server_is_greeted_anew_and_each_call_is_made_once(
    name: str, mode: str, tmp_path: Path
) -> None:
    with peer(name, tmp_path) as there:
        async with bridge(there, mode=mode) as server:
            assert (await call(server, "note", text="before")).value == "noted"
            there.stop()
            down = await call(server, "note", text="lost")
            assert down.status == "failure"
            assert "nobody answers there" in str(down.value)
            assert "may have happened" not in str(down.value), "nothing was sent"
            there.start()
            texts = [f"after {n}" for n in range(8)]
            again = await asyncio.gather(*[call(server, "note", text=text) for text in texts])
            assert [one.value for one in again] == ["noted"] * 8
            assert sorted(there.calls) == sorted(["before", *texts])


@pytest.mark.parametrize(("name", "mode"), PEERS)
async def test_a_server_that_ends_in_the_middle_of_a_call_leaves_that_call_in_doubt(
    name: str, mode: str, tmp_path: Path
) -> None:
    with peer(name, tmp_path) as there:
        async with bridge(there, mode=mode) as server:
            await call(server, "echo", text="hi")
            slow = asyncio.create_task(call(server, "slow", seconds=600))
            assert (await call(server, "note", text="under way")).value == "noted"
            there.stop()
            broken = await slow
            assert broken.status == "failure"
            assert "it may have happened" in str(broken.value)
            there.start()
            assert (await call(server, "echo", text="alive")).value == "alive"


@pytest.mark.parametrize(("name", "mode"), PEERS)
async def test_a_result_of_5_mb_arrives_and_the_calls_beside_it_go_on(
    name: str, mode: str, tmp_path: Path
) -> None:
    with peer(name, tmp_path) as there:
        async with bridge(there, mode=mode) as server:
            slow = asyncio.create_task(call(server, "slow", seconds=1))
            large = await call(server, "large", size=FIVE_MB)
            assert large.status == "success"
            assert "characters left out" in str(large.value)
            beyond = await call(server, "large", size=7 * FIVE_MB)
            if beyond.status == "failure":  # the bound, of an event or of a document
                told = str(beyond.value)
                assert "SSE" in told or "larger than" in told, "the cause is told"
            assert (await slow).value == "slept"
            assert (await call(server, "echo", text="alive")).value == "alive"


@pytest.mark.parametrize("name", ["fastmcp3", "phoenix"])
async def test_600_tools_are_listed_and_those_that_are_wanted_are_not_cut_off(
    name: str, tmp_path: Path
) -> None:
    with peer(name, tmp_path, more=600) as there:
        async with bridge(there) as every:
            assert len(every) == remote_server.MOST_TOOLS
            assert len(every.skipped) == 606 - remote_server.MOST_TOOLS
            assert "tools=" in every.skipped[0]
        async with bridge(there, tools=["t599", "echo"]) as few:
            assert sorted(few) == ["s_echo", "s_t599"]
            assert few.skipped == ()
            assert (await call(few, "t599", text="the last")).value == "the last"
        with pytest.raises(ConfigError, match=r"no tools \['t600'\]; it has echo, note"):
            await bridge(there, tools=["t600"]).open()


@pytest.mark.parametrize("name", ["fastmcp3", "phoenix"])
async def test_300_tools_are_all_offered(name: str, tmp_path: Path) -> None:
    with peer(name, tmp_path, more=300) as there:
        async with bridge(there) as server:
            assert len(server) == 306
            assert (await call(server, "t299", text="the last")).value == "the last"


@pytest.mark.parametrize(("name", "mode"), PEERS)
async def test_a_rotated_token_reaches_the_server_and_each_call_is_made_once(
    name: str, mode: str, tmp_path: Path
) -> None:
    asked: list[str] = []

    async def headers() -> dict[str, str]:
        asked.append((tmp_path / "token").read_text())
        return {"Authorization": f"Bearer {asked[-1]}"}

    with peer(name, tmp_path, token="first-token") as there:
        async with bridge(there, mode=mode, headers=headers) as server:
            assert (await call(server, "note", text="1")).value == "noted"
            assert asked == ["first-token"], "asked once for many requests"
            (tmp_path / "token").write_text("second-token")
            again = await asyncio.gather(*[call(server, "note", text=str(n)) for n in (2, 3, 4)])
            assert [one.value for one in again] == ["noted"] * 3
            assert asked == ["first-token", "second-token"]
            assert sorted(there.calls) == ["1", "2", "3", "4"]


@pytest.mark.parametrize(("name", "mode"), PEERS)
async def test_a_server_that_refuses_the_token_says_so(
    name: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEER_TOKEN", "right-token")
    header = {"Authorization": "Bearer ${PEER_TOKEN}"}
    with peer(name, tmp_path, token="right-token") as there:
        async with bridge(there, mode=mode, headers=header) as server:
            assert (await call(server, "echo", text="hi")).value == "hi"
            (tmp_path / "token").write_text("other-token")
            refused = await call(server, "note", text="no")
            assert refused.status == "failure"
            assert "does not accept the credentials (401)" in str(refused.value)
            assert "may have happened" not in str(refused.value)
            assert "right-token" not in str(refused.value)
            monkeypatch.setenv("PEER_TOKEN", "other-token")
            assert (await call(server, "note", text="yes")).value == "noted"
            assert there.calls == ["yes"]
        with pytest.raises(ConfigError, match="does not accept the credentials"):
            await bridge(there, mode=mode, headers={"Authorization": "Bearer wrong"}).open()


@pytest.mark.parametrize("name", ["fastmcp3", "phoenix"])
async def test_over_stdio_it_is_started_again_and_says_as_much(name: str, tmp_path: Path) -> None:
    there = Peer(environments.needs(name), tmp_path, 300)
    server = McpServer.stdio(*there.command(0), name="s", pins=False, trust=True)
    async with server:
        assert len(server) == 306
        large = await call(server, "large", size=FIVE_MB)
        assert "characters left out" in str(large.value)
        await server.close()
        assert (await call(server, "echo", text="alive")).value == "alive"


@pytest.mark.parametrize(("name", "mode"), PEERS)
async def test_a_question_while_nobody_is_there_says_what_answering_does(
    name: str, mode: str, tmp_path: Path
) -> None:
    """A write that asks in the older way starts again with the answer, never without approval."""
    log = MemoryLog()
    with peer(name, tmp_path) as there:
        async with bridge(there, mode=mode, trust=False) as server:

            async def decided(result: Any, decision: Decision) -> Any:
                await decide(log, result.pending[0].id, decision)
                return await Agent(Memo([finish()]), tools=[server], log=log).resume("r")

            asking = Agent(Memo([act("s_ask")]), tools=[server], log=log)
            result = await decided(await asking.run("x", run_id="r"), Decision("approve"))
            if (name, mode) == ("phoenix", "auto"):  # FastMCP 4 asks so in the older era only
                assert 'mode="legacy"' in str(result.steps[0].observations[0].result)
                return
            assert there.calls == ["asking"]
            assert "answering calls the tool again" in result.pending[0].question
            ended = await decided(result, Decision("answer", answer="Ada"))
            assert ended.steps[0].observations[0].result == "accept: Ada"
            assert there.calls == ["asking", "asking"], "as the question said"

"""Calls that become tasks: of a FastMCP server with its tasks extension, and runs of ours."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from taofold import Agent, Decision, MemoryLog, tool
from taofold.bridges.mcp import McpServer
from taofold.bridges.mcp.server.offers import Offers
from taofold.bridges.mcp.server.tasks import RunTasks
from taofold.core import events as e
from taofold.log.log import Log
from taofold.log.sqlite.log import SqliteLog
from taofold.runtime.control import decide
from tests import environments
from tests.ports import free_port, wait_for
from tests.runtime.kit import Memo, act, finish

from .kit import SCRIPTS
from .test_http import Served, serving
from .test_peers import Peer

pytestmark = [pytest.mark.anyio, pytest.mark.mcp_real]


@dataclass
class Worker:
    """A server whose tools are tasks, and what it has done."""

    url: str
    folder: Path

    def lines(self, name: str) -> list[str]:
        file = self.folder / name
        return file.read_text().splitlines() if file.exists() else []

    def free(self) -> None:
        """Ends the calls of `hold`."""
        (self.folder / "free").touch()

    async def until(self, name: str) -> None:
        async with asyncio.timeout(180):
            while not self.lines(name):  # noqa: ASYNC110 - another process writes it
                await asyncio.sleep(0.05)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    environment, port = environments.needs("fastmcp-tasks"), free_port()
    folder = tmp_path_factory.mktemp("tasks")
    script = SCRIPTS / "fastmcp_tasks_server.py"
    process = subprocess.Popen(
        [environment.python, script, str(port), str(folder)], env=environments.scrubbed(),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_for(port, process)
        yield f"http://127.0.0.1:{port}/mcp", folder
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def worker(address: tuple[str, Path]) -> Worker:
    for file in address[1].iterdir():
        file.unlink()
    return Worker(*address)


def caller(worker: Worker, log: Log, *script: str, **options: Any) -> Agent[Any, Any]:
    server = McpServer.http(worker.url, name="s", pins=False, **options)
    return Agent(Memo(script), tools=[server], log=log, approve="all")


async def is_kept(log: Log) -> bool:
    """Returns whether a task's id is on record."""
    events = [record.event for record in await log.read("r")]
    return any(isinstance(event, e.Started) and event.kept for event in events)


async def until_kept(log: Log) -> None:
    """Wait until a task's id is on record."""
    async with asyncio.timeout(180):
        while not await is_kept(log):  # noqa: ASYNC110 - a log does not notify
            await asyncio.sleep(0.02)


async def test_a_tool_that_answers_with_a_task_is_followed_to_its_result(worker: Worker) -> None:
    script = [act("s_work", seconds=0.3, text="x"), act("s_fail", text="y"), finish()]
    result = await caller(worker, MemoryLog(), *script).run("work")
    worked, failed = (step.observations[0] for step in result.steps[:2])
    assert worked.result == {"done": "x"}
    assert failed.status == "failure"
    assert "no luck with y" in str(failed.result)
    assert worker.lines("calls") == ["x"]


async def test_after_a_crash_the_task_is_asked_for_and_the_call_is_not_made_again(
    worker: Worker, tmp_path: Path
) -> None:
    file = tmp_path / "log.db"
    module = "tests.bridges.mcp.scripts.task_worker"
    life = subprocess.Popen(  # noqa: ASYNC220 - it only starts
        [sys.executable, "-m", module, worker.url, str(file)]
    )
    await worker.until("calls")
    log = SqliteLog(file)
    async with asyncio.timeout(180):
        await until_kept(log)
        life.kill()
        life.wait()
        assert worker.lines("ended") == []
        worker.free()
        agent = caller(worker, log, finish()).replace(approve=None)
        result = await agent.resume("r")
        assert result.success, "nobody had to be asked"
        assert result.steps[0].observations[0].result == {"done": "once"}
        assert worker.lines("calls") == ["once"]
    await log.close()


async def test_a_run_that_is_interrupted_leaves_the_task_at_work(worker: Worker) -> None:
    log = MemoryLog()
    agent = caller(worker, log, act("s_hold", text="z"), finish())
    running = asyncio.create_task(agent.run("work", run_id="r"))
    await worker.until("calls")
    await until_kept(log)
    running.cancel()
    await asyncio.wait([running])
    worker.free()
    result = await caller(worker, log, finish()).resume("r")
    assert result.steps[0].observations[0].result == {"done": "z"}
    assert worker.lines("calls") == ["z"]
    assert worker.lines("cancelled") == []


async def test_a_task_that_is_late_is_cancelled_at_its_server(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taofold.bridges.mcp.client.tasks._LEAVE_S", 180.0)
    script = [act("s_hold", text="late"), finish()]
    for seconds in (3.0, 15.0, 75.0):  # a busy server may begin a task after the deadline
        log = MemoryLog()
        result = await caller(worker, log, *script, timeout=seconds).run("work", run_id="r")
        assert result.steps[0].observations[0].status == "timeout"
        if await is_kept(log):
            break
    await worker.until("cancelled")


@pytest.mark.parametrize("present", [True, False], ids=["present", "absent"])
async def test_a_task_asks_a_person_in_the_middle(worker: Worker, present: bool) -> None:
    log = MemoryLog()

    async def person(approval: Any) -> Decision:
        if approval.question:
            return Decision("answer", answer="Ada")
        return Decision("approve")

    agent = caller(worker, log, act("s_greet"), finish())
    if present:
        result = await agent.replace(approve=person).run("greet", run_id="r")
    else:
        result = await agent.replace(approve=None).run("greet", run_id="r")
        await decide(log, result.pending[0].id, Decision("approve"))
        result = await caller(worker, log, finish()).replace(approve=None).resume("r")
        assert result.pending, [step.observations for step in result.steps]
        assert "who are you?" in result.pending[0].question
        await decide(log, result.pending[0].id, Decision("answer", answer="Ada"))
        result = await caller(worker, log, finish()).replace(approve=None).resume("r")
    assert result.steps[0].observations[0].result == "hello Ada"
    assert worker.lines("calls") == ["greeted"], "asked and answered once"


@tool(effect="read")
async def ponder(seconds: float) -> str:
    """Think for a while."""
    await asyncio.sleep(seconds)
    return "thought"


@tool(tier=2, effect="once")
async def pay(amount: int) -> str:
    """Pay, after a while."""
    await asyncio.sleep(1.5)
    PAID.append(amount)
    return f"paid {amount}"


PAID: list[int] = []


@asynccontextmanager
async def fastmcp_client(there: Served, token: str) -> AsyncIterator[Peer]:
    environment = environments.needs("fastmcp-tasks")
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *[environment.python, SCRIPTS / "fastmcp_tasks_client.py", there.url, token],
        stdin=pipe, stdout=pipe, stderr=pipe, env=environments.scrubbed(),
    )  # fmt: skip
    peer = Peer(process)
    try:
        yield peer
    finally:
        await peer.kill()


async def test_a_client_that_leaves_gets_its_run_back_and_another_principal_does_not(
    tmp_path: Path,
) -> None:
    free = asyncio.Event()

    @tool(effect="read", timeout=600)
    async def wait() -> str:
        """Wait for the test."""
        await free.wait()
        return "waited"

    script = [act("wait"), act("finish", answer={"n": 7})]
    worker = Agent(Memo(script), name="worker", tools=[wait], output=dict[str, int])
    async with serving(tmp_path, [worker], [ponder]) as there:
        token = there.token("ann", "EDITOR")
        async with fastmcp_client(there, token) as peer:
            quick = await peer.call("call", "ponder", {"seconds": 0.01})
            assert quick == {"error": False, "text": "thought", "structured": None}
            task = await peer.call("start", "worker", {"goal": "think"})
            assert (await peer.call("seen", task, {}))["status"] == "working"
        # The first client is dead. Another client of the same principal finds the run by its id.
        async with fastmcp_client(there, token) as peer:
            free.set()
            settled = await peer.call("settle", task, {})
            assert settled["structured"] == {"n": 7}
            assert (await peer.call("seen", task, {}))["status"] == "completed"
        [row] = [row for row in await there.log.rows() if row.run == task]
        assert row.status == "finished", "the same run, by the same name"
        async with fastmcp_client(there, there.token("eve", "EDITOR")) as peer:
            with pytest.raises(AssertionError, match="was not started here"):
                await peer.call("seen", task, {})


async def test_a_task_of_ours_asks_the_person_at_the_client_and_pays_once(tmp_path: Path) -> None:
    PAID.clear()
    async with serving(tmp_path, [], [pay, ponder]) as there:
        async with fastmcp_client(there, there.token("ann", "EDITOR")) as peer:
            paid = await peer.call("call", "pay", {"amount": 5})
            assert paid["text"] == "paid 5"
            task = await peer.call("start", "ponder", {"seconds": 60})
            await peer.call("cancel", task, {})
        assert PAID == [5]


async def test_a_run_that_was_cut_off_with_its_server_goes_on_when_its_task_is_asked_for(
    tmp_path: Path,
) -> None:
    log, script = MemoryLog(), [act("ponder", seconds=1.2), act("finish", answer="so")]
    worker = Agent(Memo(script), name="worker", tools=[ponder])
    offers = Offers.of([worker], log=log)
    first, run = RunTasks(), await offers.begin("worker", {"goal": "think"})
    driving = first.drive(offers, run, offers.by_name["worker"].agent)
    await asyncio.sleep(0.3)
    driving.cancel()  # as when the process of the server ends
    await asyncio.wait([driving])
    second, seen = RunTasks(), dict[str, Any]()
    async with asyncio.timeout(180):
        while seen.get("status") != "completed":
            seen = await second.seen(offers, run, asks=False)
            await asyncio.sleep(0.05)
    assert seen["result"]["content"][0]["text"] == "so"

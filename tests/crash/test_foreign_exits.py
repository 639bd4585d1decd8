"""Real servers and workers whose runs call code that ends processes: the queue continues.

A raised exception is an observation. A killed process is restarted by a supervisor, here by the
test, at most three times; then an approver decides. Mutants: the guard is `except Exception`;
starts are not counted.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taofold import Agent, Decision
from taofold.clocks import clock
from taofold.core.state import ENDED, RunState, fold
from taofold.engine import RemoteEngine
from taofold.log.log import RunRow
from taofold.log.sqlite.log import SqliteLog
from taofold.runtime.control import decide, pending

pytestmark = pytest.mark.crash

PATIENCE = 240.0
AGENTS = '''
import argparse, asyncio, os, pathlib, signal
from taofold import Agent, Limits, tool
from taofold.testing.models import FunctionModel
from tests.server.agents import act

class PanicException(BaseException):
    pass

def begun(name):
    with open(f"{name}.txt", "a") as file:
        file.write("begun\\n")

@tool(effect="read")
async def parses(args: str) -> str:
    """Parses arguments."""
    begun("parses")
    parser = argparse.ArgumentParser()
    parser.add_argument("--n", type=int)
    return str(parser.parse_args(args.split()))

@tool(effect="read")
async def panics(args: str) -> str:
    """Panics."""
    begun("panics")
    raise PanicException("unwrap on None")

@tool(effect="read")
async def cancelled(args: str) -> str:
    """Awaits what was cancelled."""
    begun("cancelled")
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    return await future

@tool(effect="idempotent", tier=1, reversible=True)
def exits(args: str) -> str:
    """Ends the process."""
    begun("exits")
    os._exit(1)

@tool(effect="read")
async def killed(args: str) -> str:
    """Is killed, as by the kernel when memory is short."""
    begun("killed")
    os.kill(os.getpid(), signal.SIGKILL)

def answer(request):
    turn = sum(m.role == "assistant" for m in request.conversation)
    goal = str(request.conversation[1].content).split()[-1].strip(".")
    if goal == "model":
        begun("model")
        os._exit(1)
    if turn or goal == "good":
        return act("that is it", "finish", answer="done")
    return act("on", goal, args="--m 3")

tools = [parses, panics, cancelled, exits, killed]
agent = Agent(FunctionModel(answer), tools=tools, limits=Limits(steps=20))
'''


class Site:
    """A folder with an agent and a SQLite log, and the one process that works on it."""

    def __init__(self, folder: Path, command: str) -> None:
        self.folder, self.command, self.starts = folder, command, 0
        (folder / "agents.py").write_text(AGENTS)
        self.process: subprocess.Popen[bytes] | None = None
        self.output = folder / "said.txt"

    def supervise(self) -> None:
        """Start the process if none runs."""
        if self.process is not None and self.process.poll() is None:
            return
        self.starts += 1
        assert self.starts < 8, self.output.read_text()
        options = ["--port", "0"] if self.command == "serve" else []
        environment = {
            **os.environ,
            "TAOFOLD_LOG": str(self.folder / "log.db"),
            "TAOFOLD_HOME": str(self.folder / "home"),
            "PYTHONPATH": f"{Path(__file__).parents[2]}:{self.folder}",
        }
        with self.output.open("ab") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "taofold.cli", self.command, "agents:agent", *options],
                cwd=self.folder, env=environment, stdout=file, stderr=file,
            )  # fmt: skip

    def begun(self, name: str) -> int:
        """Counts the starts of the call."""
        file = self.folder / f"{name}.txt"
        return len(file.read_text().splitlines()) if file.exists() else 0

    async def begin(self, log: SqliteLog, run: str) -> None:
        agent: Agent[Any, Any] = Agent("offline:repair", log=log, name="agent")
        await agent.begin(run, run_id=run, settings={"server": {"agent": "agent"}})
        await RemoteEngine(log).wake(run)

    async def settled(self, log: SqliteLog, run: str) -> RunState:
        """Returns the run's state once it has ended or waits for an approval, with a supervisor."""
        end = time.monotonic() + PATIENCE
        # An unread answer makes a waiting run due.
        while not is_settled(row := await log.row(run)) or 0 < row.wake_at <= clock():
            self.supervise()
            assert time.monotonic() < end, self.output.read_text()
            await asyncio.sleep(0.05)
        return fold(await log.read(run))


def is_settled(row: RunRow) -> bool:
    return row.status in ENDED or row.waiting_for.startswith("awaiting")


@pytest.fixture(params=["work", "serve"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path, request.param)
    yield made
    if made.process is not None:
        made.process.kill()
        made.process.wait()


def test_what_a_tool_raises_ends_no_server_and_no_worker(site: Site) -> None:
    async def main() -> None:
        log = SqliteLog(site.folder / "log.db")
        for run in ("parses", "panics", "cancelled", "good"):
            await site.begin(log, run)
        for run in ("parses", "panics", "cancelled"):
            state = await site.settled(log, run)
            assert state.status == "finished", state.error
            assert state.steps[0].observations[0].status == "failure"
            assert site.begun(run) == 1
        assert (await site.settled(log, "good")).status == "finished"
        assert site.starts == 1, "no process ended"
        await log.close()

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["exits", "killed"])
def test_a_call_that_ends_its_process_three_times_waits_for_a_person(site: Site, kind: str) -> None:
    async def main() -> None:
        log = SqliteLog(site.folder / "log.db")
        await site.begin(log, kind)
        await site.begin(log, "good")
        state = await site.settled(log, kind)
        assert (state.status, state.waiting_for) == ("waiting", "awaiting_approval")
        assert site.begun(kind) == 3
        assert state.tool_calls == 3, "each start counts"
        assert (await site.settled(log, "good")).status == "finished"
        (question,) = await pending(log, kind)
        assert "3 times" in question.question
        await decide(log, question.id, Decision("deny"))
        assert (await site.settled(log, kind)).status == "finished"
        assert site.begun(kind) == 3
        await log.close()

    asyncio.run(main())


def test_a_model_that_ends_its_process_three_times_fails_its_run(site: Site) -> None:
    async def main() -> None:
        log = SqliteLog(site.folder / "log.db")
        await site.begin(log, "model")
        await site.begin(log, "good")
        state = await site.settled(log, "model")
        assert state.status == "failed"
        assert "ended 3 times at the same place" in state.error
        assert site.begun("model") == 3
        assert (await site.settled(log, "good")).status == "finished"
        await log.close()

    asyncio.run(main())

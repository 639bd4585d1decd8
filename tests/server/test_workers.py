"""`taofold work` under each engine: a stopped worker releases its runs, and another continues."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from taofold import Agent
from taofold.engine import RemoteEngine
from taofold.log.log import Log, RunRow
from tests import postgres
from tests.engine import restate

pytest.importorskip("psycopg", reason="psycopg is not installed (pip install 'taofold[postgres]')")

from taofold.log.postgres import PostgresLog

PATIENCE = 180.0
AGENTS = '''
import asyncio, pathlib
from taofold import Agent, Limits, tool
from taofold.testing.models import FunctionModel
from tests.server.agents import act

@tool(effect="read")
async def look(at: int) -> str:
    """Look, until somebody says go."""
    pathlib.Path("inside").touch()
    while not pathlib.Path("go").exists():
        await asyncio.sleep(0.01)
    return "seen"

@tool(effect="once", tier=1, reversible=True)
def publish(text: str) -> str:
    """Publish."""
    with open("published.txt", "a") as file:
        file.write(text + "\\n")
    return "published"

def answer(request):
    turn = sum(m.role == "assistant" for m in request.conversation)
    turns = [act("write", "publish", text="one"), act("look", "look", at=1),
             act("write", "publish", text="two"), act("that is it", "finish", answer="done")]
    return turns[turn]

agent = Agent(FunctionModel(answer), tools=[look, publish], limits=Limits(steps=20))
'''


class Site:
    """A folder with an agent, a database, and workers."""

    def __init__(self, folder: Path, engine: str) -> None:
        self.folder, self.engine, self.url = folder, engine, postgres.server().url()
        (folder / "agents.py").write_text(AGENTS)
        self.workers: list[subprocess.Popen[bytes]] = []

    def work(self, *options: str) -> "subprocess.Popen[bytes]":
        environment = {
            **os.environ,
            "TAOFOLD_LOG": self.url,
            "TAOFOLD_ENGINE": self.engine,
            "TAOFOLD_HOME": str(self.folder / "home"),
            "PYTHONPATH": f"{Path(__file__).parents[2]}:{self.folder}",
        }
        with self.output.open("ab") as file:
            worker = subprocess.Popen(
                [sys.executable, "-m", "taofold.cli", "work", "agents:agent", *options],
                cwd=self.folder, env=environment, stdout=file, stderr=file,
            )  # fmt: skip
        self.workers.append(worker)
        return worker

    @property
    def output(self) -> Path:
        return self.folder / "said.txt"

    def said(self) -> str:
        return self.output.read_text()

    async def begin(self, log: Log, run: str) -> None:
        """Begins a run as a server that leaves its runs to workers."""
        agent: Agent[Any, Any] = Agent("offline:repair", log=log, name="agent")
        await agent.begin("go", run_id=run, settings={"server": {"agent": "agent"}})
        await RemoteEngine(log).wake(run)

    async def until(self, holds: Callable[[], Any]) -> None:
        end = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < end, self.said()
            await asyncio.sleep(0.02)

    async def row(self, log: Log, run: str, status: str) -> RunRow:
        end = time.monotonic() + PATIENCE
        while (row := await log.row(run)).status != status:
            assert time.monotonic() < end, f"{row} {self.said()}"
            await asyncio.sleep(0.02)
        return row


@contextmanager
def site(folder: Path, engine: str) -> Iterator[Site]:
    made = Site(folder, engine)
    try:
        yield made
    finally:
        for worker in made.workers:
            worker.kill()
            worker.wait()


def engine_name(kind: str) -> str:
    if kind == "dbos":
        pytest.importorskip("dbos", reason="dbos is not installed (pip install 'taofold[dbos]')")
    if kind == "restate":
        pytest.importorskip("restate", reason="restate-sdk is not installed")
        return restate.server().engine(restate.ports(1)[0])
    return kind


def test_a_worker_that_starts_before_its_database_waits_for_it(tmp_path: Path) -> None:
    with site(tmp_path, "local") as here:
        socket = tmp_path / "socket"
        server = postgres.server()
        real, early = quote(str(server.root), safe=""), quote(str(socket), safe="")
        assert real in here.url
        here.url = here.url.replace(real, early)
        worker = here.work()
        asyncio.run(here.until(lambda: "waiting for it" in here.said()))
        assert worker.poll() is None
        socket.symlink_to(server.root)
        asyncio.run(here.until(lambda: "working for agent" in here.said()))
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE) == 0
        assert here.said().count("waiting for it") == 1


@pytest.mark.parametrize("kind", ["local", "dbos", "restate"])
def test_a_worker_that_is_told_to_stop_lets_its_run_go_and_another_goes_on(
    kind: str, tmp_path: Path
) -> None:
    async def main(here: Site) -> None:
        log = PostgresLog(here.url)
        first = here.work()
        await here.begin(log, "r")
        await here.until((tmp_path / "inside").exists)
        first.send_signal(signal.SIGTERM)
        await here.until(lambda: "stopping" in here.said())
        (tmp_path / "go").touch()
        assert await asyncio.to_thread(first.wait, PATIENCE) == 0
        row = await log.row("r")
        assert (row.status, row.waiting_for) == ("waiting", "server_stopped")
        here.work()
        await here.row(log, "r", "finished")
        await log.close()

    with site(tmp_path, engine_name(kind)) as here:
        asyncio.run(main(here))
        assert (tmp_path / "published.txt").read_text() == "one\ntwo\n"
        assert "Traceback" not in here.said(), here.said()
        assert "means nothing" not in here.said()


@pytest.mark.parametrize("kind", ["local", "dbos", "restate"])
def test_what_a_killed_worker_drove_another_one_finishes(kind: str, tmp_path: Path) -> None:
    async def main(here: Site) -> None:
        log = PostgresLog(here.url)
        first = here.work()
        await here.begin(log, "r")
        await here.until((tmp_path / "inside").exists)
        here.work()
        await here.until(lambda: here.said().count("working for") == 2)
        first.kill()
        killed = time.monotonic()
        (tmp_path / "go").touch()
        await here.row(log, "r", "finished")
        print(f"{kind}: finished {time.monotonic() - killed:.1f} s after the kill")
        await log.close()

    with site(tmp_path, engine_name(kind)) as here:
        asyncio.run(main(here))
        assert (tmp_path / "published.txt").read_text() == "one\ntwo\n"
        assert "Traceback" not in here.said(), here.said()
        assert "means nothing" not in here.said()


@pytest.mark.parametrize(
    ("engine", "text"),
    [
        ("nonsense", "there is no engine"),
        ("dbos:mysql://x", "keeps its queue in PostgreSQL"),
        ("restate:ftp://x", "the address of Restate"),
        ("restate:http://127.0.0.1:1?port=0", "port must be"),
        ("restate:http://127.0.0.1:1?admin=http://127.0.0.1:1&port=PORT", "cannot be reached"),
    ],
)
def test_an_engine_that_cannot_be_used_is_said_at_once(
    engine: str, text: str, tmp_path: Path
) -> None:
    with site(tmp_path, engine.replace("PORT", str(restate.ports(1)[0]))) as here:
        worker = here.work()
        assert worker.wait(PATIENCE) == 2
        assert text in " ".join(here.said().split())
        assert "Traceback" not in here.said()

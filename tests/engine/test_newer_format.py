"""Records of a newer release: an older worker leaves their run, a newer one drives it.

Mutants: a log that ignores the version of a record; a search for due runs that ends at the first
unreadable one.
"""

import asyncio
import logging
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from taofold import Agent, Decision, tool
from taofold.core.events import SCHEMA_VERSION
from taofold.log.sqlite.log import SqliteLog
from taofold.runtime.control import decide, pending
from taofold.server import Server
from tests.server.agents import act, finish, scripted
from tests.server.live import PATIENCE, QUICK

pytestmark = pytest.mark.anyio


@tool(effect="once", tier=3)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def records(path: Path, *, newer: bool) -> None:
    """Has a newer release write the last record of the first run, or this one."""
    with closing(sqlite3.connect(path)) as db:
        version = SCHEMA_VERSION + newer
        last = "(select max(id) from events where id < 2 << 32)"  # of the first run
        db.execute(f"update events set version = {version} where id = {last}")
        db.commit()


async def begun(server: Server, run: str) -> None:
    ours = {"server": {"agent": "agent"}}
    await server.worker.begin(server.engine, server.catalog["agent"], run, "pay", settings=ours)


async def reached(log: SqliteLog, status: str, run: str = "r") -> None:
    async with asyncio.timeout(PATIENCE):
        while (await log.row(run)).status != status:  # noqa: ASYNC110 - a log says nothing itself
            await asyncio.sleep(0.01)


@asynccontextmanager
async def worker(log: SqliteLog) -> AsyncGenerator[Server]:
    agent: Agent[None, str] = Agent(
        scripted(act("he is owed it", "pay", amount=3), finish("done")), tools=[pay], log=log
    )
    made = Server(log, {"agent": agent}, settings=QUICK)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


async def test_an_older_worker_leaves_a_run_of_a_newer_release_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "runs.db"
    log = SqliteLog(path)
    async with worker(log) as first:
        await begun(first, "r")
        await reached(log, "waiting")
    [asked] = await pending(log, "r")
    await decide(log, asked.id, Decision("approve"))
    records(path, newer=True)
    async with worker(log) as older:
        with caplog.at_level(logging.WARNING, "taofold"):
            await begun(older, "other")
            await reached(log, "waiting", "other")  # it comes behind, and does not wait for "r"
            [also] = await pending(log, "other")
            await decide(log, also.id, Decision("approve"))
            await reached(log, "finished", "other")
        [said] = [record.getMessage() for record in caplog.records]
        assert said.startswith("run r: the log cannot be used: record 4 of run 'r' has schema 3")
    assert (await log.row("r")).events == 5
    records(path, newer=False)
    async with worker(log):
        await reached(log, "finished")
    await log.close()

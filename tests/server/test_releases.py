"""Two releases of agents on one database: runs go on, or wait for who has their agent."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from taofold import Agent, Decision, tool
from taofold.core.events import PromptChanged
from taofold.log.log import Log
from taofold.runtime.control import decide, pending
from taofold.server import Server
from tests import postgres
from tests.server.agents import act, finish, scripted
from tests.server.live import PATIENCE, QUICK

pytest.importorskip("psycopg", reason="psycopg is not installed (pip install 'taofold[postgres]')")

from taofold.log.postgres import PostgresLog

PAID: list[str] = []


@tool(effect="once", tier=3)
def pay(amount: int) -> str:
    """Pay."""
    PAID.append(str(amount))
    return "paid"


@tool(effect="once", tier=3)
def transfer(amount: int, currency: str = "EUR") -> str:
    """Transfer."""
    raise AssertionError("it was not called for")


def release(*tools: Any, instructions: str) -> Agent[Any, Any]:
    model = scripted(act("pay it", "pay", amount=5), finish("done"))
    return Agent(model, tools=tools, instructions=instructions)


@asynccontextmanager
async def worker(log: Log, agents: dict[str, Agent[Any, Any]]) -> AsyncIterator[Server]:
    made = Server(log, agents, settings=QUICK)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


async def until(log: Log, run: str, status: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while (await log.row(run)).status != status:  # noqa: ASYNC110 - a log says nothing itself
            await asyncio.sleep(0.01)


async def approved(log: Log, run: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while not (asked := await pending(log, run)):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
    await decide(log, asked[0].id, Decision("approve"))


def test_a_newer_agent_goes_on_with_what_an_older_one_began_and_the_log_says_so() -> None:
    async def main() -> None:
        PAID.clear()
        url = postgres.server().url()
        old, new = PostgresLog(url), PostgresLog(url)
        before, after = release(pay, instructions="Be quick."), release(
            pay, transfer, instructions="Be thorough."
        )  # fmt: skip
        async with worker(old, {"agent": before}) as first:
            ours = {"server": {"agent": "agent"}}
            await first.worker.begin(
                first.engine, first.catalog["agent"], "r", "pay 5", settings=ours
            )
            await until(old, "r", "waiting")
        async with worker(new, {"agent": after}):
            await approved(new, "r")
            await until(new, "r", "finished")
        events = [record.event for record in await new.read("r")]
        assert PAID == ["5"]
        assert any(isinstance(event, PromptChanged) for event in events)
        await old.close()
        await new.close()

    asyncio.run(main())


def test_a_release_without_the_agent_leaves_its_runs_to_those_that_have_it() -> None:
    async def main() -> None:
        PAID.clear()
        url = postgres.server().url()
        old, new = PostgresLog(url), PostgresLog(url)
        front = Server(
            old, {"agent": release(pay, instructions="x")}, settings=replace(QUICK, most_runs=0)
        )
        await front.start()
        ours = {"server": {"agent": "agent"}}
        await front.worker.begin(front.engine, front.catalog["agent"], "r", "pay 5", settings=ours)
        async with worker(new, {"another": release(pay, instructions="x")}) as other:
            for _ in range(5):
                await other.engine.reconcile()  # type: ignore[attr-defined]
            assert other.engine.stuck == {}
            row = await new.row("r")
            assert (row.status, row.waiting_for, row.events) == ("waiting", "queued", 1)
        async with worker(old, {"agent": release(pay, instructions="x")}):
            await approved(old, "r")
            await until(old, "r", "finished")
        assert PAID == ["5"]
        await front.stop()
        await old.close()
        await new.close()

    asyncio.run(main())

"""Faults of queues: timeouts, lost tickets, lost workflows, unavailability."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from taofold import Agent, MemoryLog
from taofold.clocks import clock
from taofold.core.errors import Refused
from taofold.engine import DispatchEngine, Engine, open_engine
from taofold.engine.dispatch import Drive
from taofold.log.log import Log
from taofold.testing import ScriptedModel
from taofold.testing.engine_conformance import EngineContract, contracts
from tests import postgres
from tests.engine import restate

pytest.importorskip("psycopg", reason="psycopg is not installed (pip install 'taofold[postgres]')")

from taofold.log.postgres import PostgresLog

pytestmark = pytest.mark.anyio
PATIENCE = 180.0


@asynccontextmanager
async def engine(name: str, log: Log, agent: Agent[Any, Any]) -> AsyncIterator[Engine]:
    async def advance(run: str, pause: Any) -> Any:
        return await agent.advance(run, pause=pause)

    async def ours(run: str) -> bool:
        return True

    made = open_engine(name, log, advance, now=clock, ours=ours, agents=["a"], look_s=0.1)
    await made.start()
    try:
        yield made
    finally:
        await made.stop(5)


class Impatient:
    """A queue in memory, shared by all engines of a test, that cancels slow activations.

    A ticket counts once, until some time after its activation. The patience grows slowly, because
    a busy machine does nothing in 20 ms.
    """

    def __init__(self) -> None:
        self.drives: list[Drive] = []
        self.tickets: set[str] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.turn = 0

    async def start(self, drive: Drive, *, group: str, most: int) -> None:
        self.drives.append(drive)

    async def enqueue(self, run: str, ticket: str) -> None:
        if ticket in self.tickets:
            return
        self.tickets.add(ticket)
        task = asyncio.create_task(self._activation(run, ticket))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _activation(self, run: str, ticket: str) -> None:
        self.turn += 1
        drive = self.drives[self.turn % len(self.drives)]
        with suppress(TimeoutError, Refused):
            await asyncio.wait_for(drive(run), 0.02 * (1 + self.turn // 20))
        # A run that is still due is submitted with the same ticket, after the queue forgot it.
        asyncio.get_running_loop().call_later(0.3, self.tickets.discard, ticket)

    async def pause(self) -> None: ...

    async def close(self) -> None: ...


@pytest.mark.parametrize("contract", contracts(), ids=lambda contract: contract.__name__)
async def test_a_queue_that_loses_patience_ends_no_run(contract: EngineContract) -> None:
    queue = Impatient()

    def make(log: Log, advance: Any, **options: Any) -> Engine:
        return DispatchEngine(log, advance, queue, group="g", look_s=0.05, **options)

    await contract(make, MemoryLog())


async def finished(log: Log, run: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while (await log.row(run)).status != "finished":  # noqa: ASYNC110 - polled
            await asyncio.sleep(0.02)


async def ended(thread: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while thread in [each.name for each in threading.enumerate()]:  # noqa: ASYNC110 - polled
            await asyncio.sleep(0.02)


async def test_a_workflow_that_a_dead_process_took_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A worker took it from the queue and never claimed its run.

    DBOS itself would wait for ever.
    """
    adapter = pytest.importorskip("taofold.engine.dbos", reason="dbos is not installed")
    monkeypatch.setattr(adapter, "LOST_MS", 500)
    server = postgres.server()
    log = PostgresLog(server.url())
    agent: Agent[Any, Any] = Agent(ScriptedModel(["Oslo."]), log=log)
    async with engine("dbos", log, agent) as made:
        dispatcher: Any = made._dispatcher  # type: ignore[attr-defined]
        queue = dispatcher._queue
        await dispatcher.pause()
        await ended(f"queue-worker-{queue}")  # no worker takes a ticket submitted now
        await agent.begin("The capital of Norway?", run_id="r")
        await made.wake("r")
    taken = server.execute(
        "update taofold_dbos.workflow_status set status = 'PENDING', executor_id = 'dead', "
        "started_at_epoch_ms = (extract(epoch from now()) * 1000)::bigint "
        f"where queue_name = '{queue}' and status = 'ENQUEUED' returning 1"
    )
    assert taken == "1"
    async with engine("dbos", log, agent):
        await finished(log, "r")
        monkeypatch.setattr(adapter, "KEEP", adapter.timedelta())
        client = await asyncio.to_thread(adapter.DBOSClient, **_options(server))
        async with asyncio.timeout(PATIENCE):
            # DBOS notes the end of a workflow after its run has ended.
            while not await asyncio.to_thread(  # noqa: ASYNC110 - polled
                adapter._delete_ended, client, queue
            ):
                await asyncio.sleep(0.05)
        assert await asyncio.to_thread(adapter._delete_ended, client, queue) == 0
        await asyncio.to_thread(client.destroy)
    await log.close()


def _options(server: postgres.Server) -> dict[str, Any]:
    url = postgres.address("postgres", server.root, "public")
    return {"system_database_url": url, "dbos_system_schema": "taofold_dbos"}


async def test_a_restate_server_that_is_away_costs_time_and_no_run() -> None:
    pytest.importorskip("restate", reason="restate-sdk is not installed")
    restate.server()  # or the test is skipped
    program = restate.binary()
    assert program is not None
    server = restate.RestateServer(program)
    log = PostgresLog(postgres.server().url())
    agent: Agent[Any, Any] = Agent(ScriptedModel(["Oslo.", "Oslo."]), log=log)
    try:
        async with engine(server.engine(), log, agent) as made:
            await agent.begin("The capital of Norway?", run_id="before")
            await made.wake("before")
            await finished(log, "before")
            server.stop()
            await agent.begin("The capital of Norway?", run_id="r")
            await made.wake("r")
            assert (await log.row("r")).status == "waiting"
            await asyncio.to_thread(server.start)
            await finished(log, "r")
            assert made.stuck == {}
    finally:
        server.remove()
        await log.close()

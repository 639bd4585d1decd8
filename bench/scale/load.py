"""Capacity of one database: events of many agents, waiting runs, and the cost of a step.

    python bench/scale/load.py [--agents 200] [--waiting 100000]

PostgreSQL with fsync on, beside SQLite in the same invocation. Prints JSON: `events_per_s` of
`--agents` runs in one process, CPU and bytes of a step; what the log alone takes from as many
writers (`appends`, two records of 500 characters each) beside bare INSERTs of the same rows in
transactions as large (`inserts`); and with `--waiting` runs in the log the CPU that an engine needs
while nothing happens and how long a message takes to be acted on.
"""

import argparse
import asyncio
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
from tests import postgres  # noqa: E402

from taofold import Agent, Limits, tool  # noqa: E402
from taofold.clocks import clock  # noqa: E402
from taofold.core.events import Record, RunStarted  # noqa: E402
from taofold.engine import LocalEngine  # noqa: E402
from taofold.log.log import RunRow, Signal  # noqa: E402
from taofold.log.postgres import PostgresLog  # noqa: E402
from taofold.log.sqlite.log import SqliteLog  # noqa: E402
from taofold.testing.models import FunctionModel  # noqa: E402

STEPS = 20
ROUNDS = 30
TEXT = "x" * 1000


@tool(effect="read", thread=False)
async def look(at: int) -> str:
    """Look."""
    return TEXT + str(at)


def answer(request: Any) -> str:
    turn = sum(message.role == "assistant" for message in request.conversation)
    name, given = ("look", {"at": turn}) if turn < STEPS else ("finish", {"answer": "done"})
    action = {"tool": name, "parameters": given, "rationale": "needed"}
    return json.dumps({"thought": "on", "thought_type": "progress", "action": action})


def agent(log: Any) -> Agent[Any, Any]:
    return Agent(
        FunctionModel(answer),
        tools=[look],
        log=log,
        limits=Limits(steps=STEPS + 5, model_calls=1000, tool_calls=1000),
    )


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def of_server(server: postgres.Server) -> float:
    """CPU seconds of PostgreSQL's processes."""
    root = server._process.pid
    total = 0.0
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == root or int(status.parent.name) == root:
            # For the first process this includes its ended children.
            last = 15 if int(status.parent.name) == root else 13
            total += sum(map(int, fields[11:last])) / os.sysconf("SC_CLK_TCK")
    return total


async def many(log: Any, agents: int) -> dict[str, Any]:
    mine = agent(log)
    began, used = time.monotonic(), cpu()
    results = await asyncio.gather(*[mine.run("go", run_id=f"r{n}") for n in range(agents)])
    seconds, used = time.monotonic() - began, cpu() - used
    events = sum(len(result.records) for result in results)
    assert all(result.status == "finished" for result in results)
    steps = agents * (STEPS + 1)
    return {
        "events": events,
        "events_per_s": round(events / seconds),
        "cpu_ms_per_step": round(used / steps * 1000, 2),
        "steps": steps,
    }


async def appends(log: PostgresLog, writers: int) -> dict[str, Any]:
    """Measures only the log: `writers` runs append two records each, thirty times."""
    runs = [f"a{number}" for number in range(writers)]
    for run in runs:
        await log.create(RunRow(run, "running"), owner="bench", lease_ms=10_000)
    event = RunStarted(goal=TEXT[:500])

    async def write(run: str) -> None:
        for at in range(0, 2 * ROUNDS, 2):
            await log.append(run, 1, [Record(run, at, 1, event), Record(run, at + 1, 1, event)])

    began, used = time.monotonic(), cpu()
    await asyncio.gather(*map(write, runs))
    seconds, used = time.monotonic() - began, cpu() - used
    return {
        "events_per_s": round(2 * ROUNDS * writers / seconds),
        "cpu_us_per_append": round(1e6 * used / ROUNDS / writers),
    }


async def inserts(log: PostgresLog, writers: int) -> int:
    """Rows a second that one connection inserts, two for each writer in a transaction."""
    statement = (
        "insert into taofold_events select -1, %s + n, 1, 1, convert_to(%s, 'UTF8'), '' "
        "from generate_series(1, %s) n"
    )
    began = time.monotonic()
    for number in range(ROUNDS):
        await log.database.fetch(
            f"with done as ({statement} returning 1) select count(*) from done",
            (number * 2 * writers, TEXT[:500], 2 * writers),
        )
    return round(2 * ROUNDS * writers / (time.monotonic() - began))


async def waiting(log: Any, count: int) -> dict[str, Any]:
    """Measures a log in which `count` runs wait for an approval and none is due."""
    await agent(log).begin("go", run_id="first")
    await log.database.fetch(
        "with runs as (insert into taofold_runs(run, status, goal, agent, session, parent, "
        "principal, created_at, updated_at, epoch, owner, waiting_for, wake_at) "
        "select convert_to('w' || n, 'UTF8'), 'waiting', 'go', 'agent', '', '', 'ann', 1, 1, 1, "
        "'', 'queued', 0 from generate_series(1, %s) n returning number), "
        "events as (insert into taofold_events select r.number, 0, e.at, e.version, e.body, e.link "
        "from runs r, taofold_events e where e.seq = 0 returning 1) select count(*) from events",
        (count,),
    )
    seen: dict[str, float] = {}

    async def advance(run: str, pause: Any) -> Any:
        seen.setdefault(run, time.monotonic())
        claim = await log.claim(run, "bench", force=True)
        await log.append(run, claim.epoch, [], status="waiting", waiting_for="approval", wake_at=0)

    async def ours(run: str) -> bool:
        return True

    engine = LocalEngine(log, advance, now=clock, ours=ours)
    await engine.start()
    stop = log.on_change(
        lambda run, loop=asyncio.get_running_loop(): loop.call_soon_threadsafe(engine.nudge)
    )
    await asyncio.sleep(2)
    used, began = cpu(), time.monotonic()
    await asyncio.sleep(10)
    idle = (cpu() - used) / (time.monotonic() - began)
    waits: list[float] = []
    other = PostgresLog(log.database.dsn)
    for number in range(100):
        run = f"w{number * (count // 100) + 1}"
        posted = time.monotonic()
        await other.post(run, Signal(f"s{number}", "steer", "ann", clock(), {"text": "on"}))
        while run not in seen:
            await asyncio.sleep(0.001)
        waits.append(seen[run] - posted)
    stop()
    await engine.stop(1)
    await other.close()
    waits.sort()
    return {
        "waiting": count,
        "idle_cpu_percent": round(100 * idle, 2),
        "wake_p50_ms": round(1000 * statistics.median(waits), 1),
        "wake_p99_ms": round(1000 * waits[98], 1),
    }


async def main(options: argparse.Namespace) -> None:
    found: dict[str, Any] = {"load": os.getloadavg()[0]}
    binaries = postgres.binaries()
    assert binaries is not None, "no PostgreSQL here"
    server = postgres.Server(binaries, safe=True)
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "runs.db"
            log: Any = SqliteLog(path)
            found["sqlite"] = await many(log, options.agents)
            await log.close()
            size = sum(file.stat().st_size for file in Path(folder).iterdir())
            found["sqlite"]["bytes_per_step"] = round(size / found["sqlite"]["steps"])
        log = PostgresLog(server.url())
        before, used = database_size(server), of_server(server)
        found["postgres"] = await many(log, options.agents)
        steps = found["postgres"]["steps"]
        found["postgres"]["server_cpu_ms_per_step"] = round(
            (of_server(server) - used) / steps * 1000, 2
        )
        found["postgres"]["bytes_per_step"] = round((database_size(server) - before) / steps)
        found["appends"] = await appends(log, options.agents)
        found["inserts_per_s"] = await inserts(log, options.agents)
        await log.close()
        if options.waiting:
            log = PostgresLog(server.url())
            await log.rows()
            found["waiting"] = await waiting(log, options.waiting)
            await log.close()
    finally:
        server.remove()
    found["load_after"] = os.getloadavg()[0]
    print(json.dumps(found, indent=2))


def database_size(server: postgres.Server) -> int:
    return int(server.execute("select pg_database_size('postgres')"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--agents", type=int, default=200)
    parser.add_argument("--waiting", type=int, default=100_000)
    asyncio.run(main(parser.parse_args()))

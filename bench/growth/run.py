"""Measures costs that grow with a log: runs, waiting runs, steps of one run.

    python bench/growth/run.py                          # 100 to 100,000 runs; some minutes
    python bench/growth/run.py --runs 100,10000 --waiting 100,1000 --steps 1000

Every figure is the CPU time of this process (a busy machine does not change it), the best of
several. The last column is the ratio of the largest size to the smallest. A ratio above `--most`
(3) for a constant cost ends with exit code 1.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2

from taofold import Agent, Limits, tool
from taofold.cli.runs.find import find
from taofold.clocks import clock
from taofold.core import events as e
from taofold.core.errors import ConfigError
from taofold.core.values import Principal
from taofold.log.log import RunRow
from taofold.log.sqlite.log import SqliteLog
from taofold.server import Server, Settings, create_app
from taofold.testing.models import FunctionModel

Work = Callable[[], Awaitable[Any]]
REPEATED = 7


async def cpu_ms(work: Work, times: int = 1) -> float:
    """The least CPU time of one call, in milliseconds."""
    await work()
    found: list[float] = []
    for _ in range(REPEATED):
        begun = time.process_time()
        for _ in range(times):
            await work()
        found.append((time.process_time() - begun) * 1000 / times)
    return min(found)


def act(name: str, /, **parameters: Any) -> str:
    action = {"tool": name, "parameters": parameters, "rationale": "needed"}
    return json.dumps({"thought": "on", "thought_type": "progress", "action": action})


@tool(effect="read", thread=False)
def look(at: int) -> str:
    """Look."""
    return f"seen {at}"


def talker(steps: int) -> FunctionModel:
    turn = 0

    def answer(request: Any) -> str:
        nonlocal turn
        turn += 1
        return act("look", at=turn) if turn % (steps + 1) else act("finish", answer="done")

    return FunctionModel(answer)


def agent(log: SqliteLog, steps: int = 3) -> Agent[Any, Any]:
    limits = Limits(steps=steps + 5, model_calls=steps + 9, tool_calls=steps + 9)
    return Agent(talker(steps), tools=[look], log=log, name="worker", limits=limits)


async def filled(log: SqliteLog, have: int, wanted: int, status: str) -> None:
    """Runs `have` to `wanted`: begun, noted, ended or waiting."""
    settings = {"server": {"agent": "worker"}}
    for number in range(have, wanted):
        run, now = f"{number:011x}", clock()
        start = e.RunStarted(goal=f"goal {number}", agent="worker", settings=settings)
        noted = e.Noted(key="0", kind="n", data={"text": "x" * 200})
        last: e.Event = e.Parked(reason="awaiting_approval")
        if status != "waiting":
            last = e.RunFinished(status=status, stop_reason="final_answer", success=True)
        events = (start, noted, last)
        records = [e.Record(run, seq, now, event) for seq, event in enumerate(events)]
        row = RunRow(
            run, status, f"goal {number}", "worker", principal="local", created_at=now,
            updated_at=now, waiting_for="awaiting_approval" if status == "waiting" else "",
        )  # fmt: skip
        await log.create(row, records=records)


class Site:
    """A server on the log, asked without a network."""

    def __init__(self, log: SqliteLog) -> None:
        plenty = Settings(requests_per_s=1e9, requests_burst=1e9, hosts=frozenset({"here"}))
        self.server = Server(log, {"worker": agent(log)}, settings=plenty)
        self.http = httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=create_app(self.server), client=("127.0.0.1", 1)),
            base_url="http://127.0.0.1",
            headers={"Authorization": f"Bearer {self.server.local.value()}"},
        )

    async def get(self, path: str, **query: Any) -> httpx2.Response:
        answer = await self.http.get(path, params=query)
        assert answer.status_code == 200, (path, answer.status_code, answer.text[:300])
        return answer


def reading(log: SqliteLog, site: Site, size: int) -> dict[str, Work]:
    """Measures typical reads of a log with so many runs."""
    oldest, middle, one = f"{min(60, size // 2):011x}", f"{size // 2:011x}", agent(log)

    async def beginning() -> None:
        with suppress(ConfigError):  # several begin so: they are listed
            await find(log, middle[:9])

    return {
        "GET /metrics": lambda: site.get("/metrics"),
        "GET /console/totals": lambda: site.get("/console/totals"),
        "GET /runs, first page": lambda: site.get("/runs"),
        "GET /runs, no match (status)": lambda: site.get("/runs", status="failed"),
        "GET /runs, no match (agent)": lambda: site.get("/runs", agent="nobody"),
        "GET /runs, no match (session)": lambda: site.get("/runs", session="none"),
        "GET /runs, deep cursor": lambda: site.get("/runs", cursor=oldest),
        "runs show: find by id": lambda: find(log, middle),
        "runs show: find by its beginning": beginning,
        "runs show: last": lambda: find(log, "last"),
        "runs that are due": lambda: log.due(clock()),
        "engine: one look": site.server.engine.reconcile,
        "one run of 3 steps": lambda: one.run("go"),
    }


async def by_runs(folder: Path, sizes: list[int]) -> dict[str, list[float]]:
    """Costs as the log holds more and more runs that have ended."""
    log = SqliteLog(folder / "runs.db", sync=lambda _: None)
    site, have = Site(log), 0
    table: dict[str, list[float]] = {}
    for size in sizes:
        await filled(log, have, size, "finished")
        have = size
        for name, work in reading(log, site, size).items():
            table.setdefault(name, []).append(await cpu_ms(work, 3))
    await log.close()
    return table


async def by_waiting(folder: Path, sizes: list[int]) -> dict[str, list[float]]:
    """Measures costs by the number of runs that wait for an approval."""
    log = SqliteLog(folder / "waiting.db", sync=lambda _: None)
    site, have = Site(log), 0
    table: dict[str, list[float]] = {}
    for size in sizes:
        await filled(log, have, size, "waiting")
        have = size
        works: dict[str, Work] = {
            "engine: one look": site.server.engine.reconcile,
            "GET /metrics": lambda: site.get("/metrics"),
            "GET /runs, first page": lambda: site.get("/runs"),
        }
        for name, work in works.items():
            table.setdefault(name, []).append(await cpu_ms(work, 3))
    await log.close()
    return table


async def by_steps(folder: Path, sizes: list[int]) -> dict[str, list[float]]:
    """The cost of a step as a run gets longer: of its last 200 steps, for each of them."""
    table: dict[str, list[float]] = {}
    for size in sizes:
        marks: list[float] = []
        log = SqliteLog(folder / f"steps{size}.db", sync=lambda _: None)

        def hear(happening: Any, marks: list[float] = marks) -> None:
            if isinstance(happening, e.Record) and isinstance(happening.event, e.Observed):
                marks.append(time.process_time())

        result = await agent(log, size).run("go", listener=hear, principal=Principal("local"))
        assert len(result.steps) >= size, result.stop_reason
        spans = [(marks[at + 50] - marks[at]) * 20 for at in range(size - 201, size - 51, 50)]
        table.setdefault("one step", []).append(min(spans))
        await log.close()
    return table


def told(title: str, sizes: list[int], table: dict[str, list[float]]) -> float:
    """Prints a table. Returns its greatest ratio."""
    print(f"\n{title}, CPU ms")
    heads = "".join(f"{size:>12,}" for size in sizes)
    print(f"{'':<36}{heads}{'last/first':>12}")
    worst = 0.0
    for name, costs in table.items():
        ratio = costs[-1] / max(costs[0], 0.02)
        worst = max(worst, ratio)
        print(f"{name:<36}" + "".join(f"{cost:>12.3f}" for cost in costs) + f"{ratio:>12.2f}")
    return worst


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", default="100,1000,10000,100000")
    parser.add_argument("--waiting", default="100,1000,5000")
    parser.add_argument("--steps", default="1000,10000")
    parser.add_argument("--most", type=float, default=3.0)
    said = parser.parse_args()
    sizes = {
        name: [int(one) for one in getattr(said, name).split(",") if one]
        for name in ("runs", "waiting", "steps")
    }
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        measures = {"runs": by_runs, "waiting": by_waiting, "steps": by_steps}
        for name, measure in measures.items():
            if sizes[name]:
                table = await measure(Path(folder), sizes[name])
                worst = max(worst, told(f"as {name} grow", sizes[name], table))
    print(f"\nthe greatest ratio is {worst:.2f}, {said.most:g} is allowed")
    return int(worst > said.most)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))

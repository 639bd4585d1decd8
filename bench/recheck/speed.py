"""Measures the stored steps that a recheck replays, and the calls that a policy test judges.

Runs are written to an SQLite log first. The figures are per second of CPU time of this process.
`nice python -m bench.recheck.speed [--runs N] [--steps N] [--profile]`
"""

import argparse
import asyncio
import cProfile
import json
import pstats
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

from taofold import Agent, Limits, Policy, tool
from taofold.backtest import StoredAgents, backtest
from taofold.backtest.recheck import RecheckReport, recheck
from taofold.backtest.stored_calls import rows_since
from taofold.core.values import Profile, Reply, ToolCall
from taofold.log.log import Log
from taofold.log.sqlite.log import SqliteLog
from taofold.runtime.model import Request
from taofold.testing.models import FunctionModel

NATIVE = Profile(window=200_000, window_known=True, native_tools=True)


@tool(effect="read")
def search(query: str, most: int = 10) -> list[dict[str, Any]]:
    """Search the documents."""
    return [{"title": f"{query} {n}", "text": "some words " * 8, "score": n} for n in range(5)]


@tool(effect="once", tier=2)
def note(text: str) -> str:
    """Write a note."""
    return f"noted {len(text)} characters"


def agent(steps: int, log: Log, *, native: bool) -> Agent[Any, Any]:
    def answer(request: Request) -> Reply:
        turn = sum(message.role == "assistant" for message in request.conversation)
        name = "note" if turn % 4 == 3 else "search"
        value = {"text": f"note {turn}"} if name == "note" else {"query": f"query {turn}"}
        if turn + 1 == steps:
            name, value = "finish", {"answer": "done"}
        thought = f"I know {turn} facts and look for the next one."
        if native:
            return Reply(thought, calls=(ToolCall(name, json.dumps(value), f"c{turn}"),))
        action = {"tool": name, "parameters": value, "rationale": "it is needed"}
        return Reply(
            json.dumps({"thought": thought, "thought_type": "reasoning", "action": action})
        )

    model = FunctionModel(answer, profile=NATIVE) if native else FunctionModel(answer)
    limits = Limits(steps=steps + 2)
    return Agent(
        model,
        name="native" if native else "text",
        instructions="You look things up and write notes.",
        tools=[search, note],
        approve="all",
        limits=limits,
        log=log,
    )


async def measure(folder: Path, runs: int, steps: int, *, profile: bool) -> None:
    log = SqliteLog(folder / "runs.db")
    log.open()
    agents = [agent(steps, log, native=native) for native in (False, True)]
    for number in range(runs):
        await agents[number % 2].run(f"goal {number}")
    by_name = {each.name: each for each in agents}
    report, profiler = RecheckReport(), cProfile.Profile()
    stored = StoredAgents(log, lambda started: by_name[started.agent])
    begun = process_time()
    if profile:
        profiler.enable()
    async for checked in recheck(log, rows_since(log), stored):
        report.add(checked)
    profiler.disable()
    took = process_time() - begun
    assert not report.groups, report.groups
    print(
        f"recheck: {report.steps} steps of {report.runs} runs, {report.steps / took:,.0f} steps/s"
    )
    begun = process_time()
    result = await backtest(
        log,
        rows_since(log),
        StoredAgents(log, lambda started: by_name[started.agent]),
        Policy(),
    )
    took = process_time() - begun
    print(f"policy test: {result.calls} calls, {result.calls / took:,.0f} calls/s")
    if profile:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(28)
    await log.close()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=100)
    options.add_argument("--steps", type=int, default=20)
    options.add_argument("--profile", action="store_true")
    given = options.parse_args()
    with TemporaryDirectory() as folder:
        asyncio.run(measure(Path(folder), given.runs, given.steps, profile=given.profile))


if __name__ == "__main__":
    main()

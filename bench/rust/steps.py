"""Times the steps of a run in the Python runtime: `steps.py floor|memory|sqlite STEPS RUNS`.

The same workload as `rust/taofold/examples/steps.rs`.
"""

import asyncio
import json
import resource
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

from taofold import Agent, Limits, MemoryLog, tool
from taofold.log.sqlite.log import SqliteLog
from taofold.testing.models import ScriptedModel


@tool(effect="read", tier=1)
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def replies(steps):
    def call(name, **parameters):
        action = {"tool": name, "parameters": parameters, "rationale": "it is next"}
        thought = {"thought": "I add.", "thought_type": "reasoning", "action": action}
        return json.dumps(thought)

    calls = [call("add", a=turn, b=turn + 1) for turn in range(1, steps)]
    return [*calls, call("finish", answer="done")]


def floor(steps):
    messages = [{"role": "user", "content": "add"}]
    for reply in replies(steps):
        action = json.loads(reply)["action"]
        messages.append({"role": "assistant", "content": reply})
        if action["tool"] != "finish":
            messages.append({"role": "user", "content": str(add(**action["parameters"]))})
    return len(messages)


async def run(log, steps):
    model = ScriptedModel(replies(steps))
    agent = Agent(model=model, tools=[add], log=log, limits=Limits(steps=None))
    result = await agent.run("add")
    assert result.success, result.error


async def main(mode, steps, runs):
    with tempfile.TemporaryDirectory() as folder:
        log = SqliteLog(Path(folder) / "runs.db") if mode == "sqlite" else MemoryLog()
        samples = []
        for _ in range(runs):
            began = perf_counter()
            if mode == "floor":
                floor(steps)
            else:
                await run(log, steps)
            samples.append((perf_counter() - began) * 1e6 / steps)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"us": median(samples), "kb": peak}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))

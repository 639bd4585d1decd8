"""`STEPS` turns of a pydantic-ai agent with DBOS: run by cost.py in an environment of its own.

Its tool is a DBOS step, as its documentation asks of tools that must not run twice.
"""

import asyncio
import json
import resource
import sys
import time
from typing import Any

from dbos import DBOS
from pydantic_ai import Agent
from pydantic_ai.durable_exec.dbos import DBOSDurability
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import UsageLimits


async def main(url: str, steps: int, text: str, runs: int) -> None:
    def answer(messages: list[Any], info: Any) -> ModelResponse:
        turn = sum(isinstance(message, ModelResponse) for message in messages)
        done = turn >= steps
        return ModelResponse([TextPart("done") if done else ToolCallPart("look", {"at": turn})])

    DBOS(config={"name": "peer", "system_database_url": url, "log_level": "ERROR"})
    agent = Agent(FunctionModel(answer), name="peer", capabilities=[DBOSDurability()])

    @DBOS.step()
    async def kept(at: int) -> str:
        return text + str(at)

    @agent.tool_plain
    async def look(at: int) -> str:
        """Look."""
        return await kept(at)

    @DBOS.workflow()
    async def work() -> str:
        limits = UsageLimits(request_limit=3 * steps)
        return (await agent.run("go", usage_limits=limits)).output

    DBOS.launch()
    print(json.dumps({"ready": True}), flush=True)
    sys.stdin.readline()
    used, began = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
    for _ in range(runs):
        assert await work() == "done"
    now = resource.getrusage(resource.RUSAGE_SELF)
    cpu = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    print(json.dumps({"cpu_s": cpu, "seconds": time.monotonic() - began}), flush=True)
    DBOS.destroy()


asyncio.run(main(sys.argv[1], int(sys.argv[2]), "x" * int(sys.argv[3]), int(sys.argv[4])))

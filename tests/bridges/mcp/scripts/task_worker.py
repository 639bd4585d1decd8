"""One activation of a run that calls a task of another server. Arguments: its address, the log."""

import asyncio
import sys

from tests.runtime.kit import Memo, act, finish

from taofold import Agent
from taofold.bridges.mcp import McpServer
from taofold.log.sqlite.log import SqliteLog


async def main(url: str, file: str) -> None:
    server = McpServer.http(url, name="s", pins=False)
    model = Memo([act("s_hold", text="once"), finish()])
    agent = Agent(model, tools=[server], log=SqliteLog(file), approve="all")
    await agent.run("work", run_id="r")


asyncio.run(main(*sys.argv[1:]))

"""What the MCP bridge adds to a call of the same tool over the same connection.

    python bench/bridges/mcp_calls.py        # in process, and a Python server over stdio

A call through the bridge must cost at most 1.5 times the processor time of the package's own
client (`Client.call_tool`, which checks results as the bridge does), all threads of this process
counted. Over stdio the server's time is its own process's; in process both include it.
"""

import asyncio
import statistics
import sys
import time

from mcp import Client, StdioServerParameters
from mcp.server import MCPServer

from taofold.bridges.mcp import McpServer
from taofold.bridges.mcp.connection import beside
from taofold.tools import RunContext

CALLS = 300
ROUNDS = 5
MOST = 1.5
SCRIPT = """
from mcp.server import MCPServer
server = MCPServer("bench")
@server.tool()
def add(a: int, b: int) -> int:
    "Add."
    return a + b
server.run()
"""


def served() -> MCPServer:
    server = MCPServer("bench")

    @server.tool()
    def add(a: int, b: int) -> int:
        "Add."
        return a + b

    return server


async def direct(target: object) -> list[float]:
    async with Client(target) as client:  # type: ignore[arg-type]
        await client.list_tools()
        return await timed(lambda: client.call_tool("add", {"a": 1, "b": 2}))


async def bridged(server: McpServer) -> list[float]:
    async with server:
        tool, context = next(iter(server.values())), RunContext(None)
        return await timed(lambda: tool.bind({"a": 1, "b": 2}).run(context))


async def timed(call) -> list[float]:
    for _ in range(20):
        await call()
    found = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        for _ in range(CALLS):
            await call()
        found.append((time.process_time() - begin) / CALLS * 1e6)
    return found


async def main() -> int:
    stdio = [sys.executable, "-c", SCRIPT]
    pairs = {
        "in process": (served(), McpServer.within(served())),
        "stdio": (
            StdioServerParameters(command=stdio[0], args=stdio[1:]),
            McpServer.stdio(*stdio, pins=False),
        ),
    }
    good = True
    for name, (target, server) in pairs.items():
        # Both on the loop of the connections, then the bridge from another loop, as runs use it.
        plain = statistics.median(await beside(direct(target)))
        through = statistics.median(await bridged(server))
        ratio = through / plain
        good = good and ratio <= MOST
        print(f"{name:11} direct {plain:7.0f} µs   bridge {through:7.0f} µs of CPU   {ratio:.2f} x")
    print("within the budget" if good else f"OVER the budget of {MOST} x")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))

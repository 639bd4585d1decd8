"""What the MCP bridge adds to a call of the same tool over the same connection.

    python bench/bridges/mcp_calls.py        # in process, and a Python server over stdio

A call through the bridge must cost at most 10 % or 1 ms more than `session.call_tool`.
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
        begin = time.perf_counter()
        for _ in range(CALLS):
            await call()
        found.append((time.perf_counter() - begin) / CALLS * 1e6)
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
        added = through - plain
        good = good and (added <= 1000 or added <= plain / 10)
        print(f"{name:11} direct {plain:7.0f} µs   bridge {through:7.0f} µs   +{added:.0f} µs")
    print("within the budget" if good else "OVER the budget of 1 ms")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))

"""MCP: the tools of other people's servers as ours, and agents and tools as a server.

    Agent(..., tools=[McpServer.stdio("npx", "-y", "@modelcontextprotocol/server-everything")])

`client` is a server as a toolset and `serving` that server at work, over a `connection` that the
`transport` opens at an `address`, with the tokens that `oauth` keeps once somebody has signed in
(`signin`). `definitions` are the tools that it declares, and those a person has let in;
`results` become observations, and `questions` those that it asks people in the middle of a call.
`server` is the other way round: `taofold serve --mcp`.

The `mcp` package is imported when a server is reached, not before.
"""

from taofold.bridges.mcp.address import OAuth
from taofold.bridges.mcp.client import McpServer

__all__ = ["McpServer", "OAuth"]

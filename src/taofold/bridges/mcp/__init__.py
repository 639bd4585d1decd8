"""MCP, both ways: the tools of other people's servers as ours, and our agents as a server.

    Agent(..., tools=[McpServer.stdio("npx", "-y", "@modelcontextprotocol/server-everything")])

`client`: what we are to somebody else's server. `server`: what we are to somebody else's client
(`taofold serve --mcp`). They share `sdk` and nothing else, and the `mcp` package is imported
when a server is reached or opened, not before.
"""

from taofold.bridges.mcp.client import McpServer, OAuth

__all__ = ["McpServer", "OAuth"]

"""MCP in both directions: tools of MCP servers in taofold, and taofold agents as an MCP server.

    Agent(..., tools=[McpServer.stdio("npx", "-y", "@modelcontextprotocol/server-everything")])

`client` connects to foreign servers. `server` serves foreign clients (`taofold serve --mcp`). They
share only `sdk`. The `mcp` package is imported when a server is connected or opened.
"""

from taofold.bridges.mcp.client import McpServer, OAuth

__all__ = ["McpServer", "OAuth"]

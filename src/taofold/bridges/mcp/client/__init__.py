"""Foreign MCP servers whose tools an agent uses.

`toolset` offers a server as a toolset. `remote_server` calls it over a `connection`, which keeps a
`session` open to an `address`. `oauth` stores the tokens of a sign-in (`signin`). `definitions`
holds the declared tools and those that were accepted. `content` turns results into observations,
`tasks` runs calls as tasks, and `questions` handles questions that a server asks during a call.
"""

from taofold.bridges.mcp.client.address import OAuth
from taofold.bridges.mcp.client.toolset import McpServer

__all__ = ["McpServer", "OAuth"]

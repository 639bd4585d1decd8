"""Other people's MCP servers, of which an agent uses the tools.

`toolset` is a server as a toolset and `remote_server` that server at work, over a `connection` that
keeps a `session` open to an `address`, with the tokens that `oauth` keeps once somebody has signed
in (`signin`). `definitions` are the tools that it declares, with those that were let in; `content`
of a result becomes an observation, a call may become one of `tasks`, and `questions` are what it
wants to know in the middle of one.
"""

from taofold.bridges.mcp.client.address import OAuth
from taofold.bridges.mcp.client.toolset import McpServer

__all__ = ["McpServer", "OAuth"]

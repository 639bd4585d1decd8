"""Other people's MCP servers, of which an agent uses the tools.

`toolset` is a server as a toolset and `remote` that server at work, over a `connection` that keeps
a `session` open to an `address`, with the tokens that `oauth` keeps once somebody has signed in
(`signin`). `definitions` are the tools that it declares, and those a person has let in; `results`
become observations, and `questions` are what it wants to know in the middle of a call.
"""

from taofold.bridges.mcp.client.address import OAuth
from taofold.bridges.mcp.client.toolset import McpServer

__all__ = ["McpServer", "OAuth"]

"""Agents and tools as an MCP server.

`offers` holds the callable agents and tools and their runs, without the protocol. `server` handles
the requests of clients, with the messages of `translation`. A run that takes longer than a request
becomes one of its `tasks`.
"""

from typing import TYPE_CHECKING

from taofold.lazy_names import lazy_names

if TYPE_CHECKING:
    from taofold.bridges.mcp.server.offers import Offers
    from taofold.bridges.mcp.server.server import http_app, make_server, serve_stdio

__all__ = ["Offers", "http_app", "make_server", "serve_stdio"]

# `offers` works without the mcp package, which `server` imports.
__getattr__ = lazy_names(
    __name__,
    {
        "bridges.mcp.server.offers": "Offers",
        "bridges.mcp.server.server": "http_app make_server serve_stdio",
    },
)

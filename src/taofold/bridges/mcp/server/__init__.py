"""Agents and tools as an MCP server.

`offers` holds the callable agents and tools and their runs, without the protocol. `server` handles
the requests of clients, with the messages of `translation`. A run that takes longer than a request
becomes one of its `tasks`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from taofold.bridges.mcp.server.offers import Offers
    from taofold.bridges.mcp.server.server import http_app, make_server, serve_stdio

__all__ = ["Offers", "http_app", "make_server", "serve_stdio"]


def __getattr__(name: str) -> Any:
    # `offers` works without the mcp package, which `server` imports.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "offers" if name == "Offers" else "server"
    return getattr(import_module(f"{__name__}.{module}"), name)

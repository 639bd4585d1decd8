"""The former path of `taofold.bridges.mcp.server`; code that imports from here keeps working."""

from taofold.bridges.mcp.server import Offers, http_app, make_server, serve_stdio

__all__ = ["Offers", "http_app", "make_server", "serve_stdio"]

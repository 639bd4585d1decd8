"""The HTTP server: runs, their events, approvals, and who may do what.

Everything it shows is a projection of the log, and everything it changes goes through the
same functions as the command line. It knows nothing about models or tools beyond their names.

`app` is the ASGI application: `middleware` first (it counts, limits and audits), then `auth`, then
an `endpoint` of `api`, `agui` or the `console`. `server` puts the parts together, `catalog` are its
agents, `streams` a run's events for all who watch it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from taofold.server.app import create_app
    from taofold.server.server import Server, Settings

__all__ = ["Server", "Settings", "create_app"]


def __getattr__(name: str) -> Any:
    # MCP over HTTP uses this middleware alone, where AG-UI's package need not be installed.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "app" if name == "create_app" else "server"
    return getattr(import_module(f"{__name__}.{module}"), name)

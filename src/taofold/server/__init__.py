"""The HTTP server: runs, events, approvals and access rights.

All responses are projections of the log, and all changes use the same functions as the command
line. It knows nothing about models or tools beyond their names.

`app` is the ASGI application: first `middleware` (metrics, limits, audit), then `auth`, then an
`endpoint` of `api`, `agui` or the `console`. `server` connects the parts, `catalog` holds its
agents, and `streams` sends a run's events to its watchers.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from taofold.server.app import create_app
    from taofold.server.server import Server, Settings

__all__ = ["Server", "Settings", "create_app"]


def __getattr__(name: str) -> Any:
    # MCP over HTTP uses only this middleware and must work without AG-UI's package.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "app" if name == "create_app" else "server"
    return getattr(import_module(f"{__name__}.{module}"), name)

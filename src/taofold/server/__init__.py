"""The HTTP server: runs, events, approvals and access rights.

All responses are projections of the log, and all changes use the same functions as the command
line. It knows nothing about models or tools beyond their names.

`app` is the ASGI application: first `middleware` (metrics, limits, audit), then `auth`, then an
`endpoint` of `api`, `agui` or the `console`. `server` connects the parts, `catalog` holds its
agents, and `streams` sends a run's events to its watchers.
"""

from typing import TYPE_CHECKING

from taofold.lazy_names import lazy_names

if TYPE_CHECKING:
    from taofold.server.app import create_app
    from taofold.server.server import Server, Settings

__all__ = ["Server", "Settings", "create_app"]

# MCP over HTTP uses only this package's middleware and must work without AG-UI's package.
__getattr__ = lazy_names(
    __name__,
    {
        "server.app": "create_app",
        "server.server": "Server Settings",
    },
)

"""The HTTP server: runs, their events, approvals, and who may do what.

Everything it shows is a projection of the log, and everything it changes goes through the
same doors as the command line. It knows nothing about models or tools beyond their names.
"""

from taofold.server.app import create_app
from taofold.server.server import Server, Settings

__all__ = ["Server", "Settings", "create_app"]

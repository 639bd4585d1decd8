"""Engines: who decides which run is driven when, and where.

The log keeps the runs; an engine only calls `advance(run)` for those that can go on, one call
at a time for each run, and forgets them while they wait. `local` does it with the tasks of one
process; several such processes share a log by its leases. `remote`
leaves everything to other processes.
"""

from taofold.engine.engine import Advance, Engine, RemoteEngine
from taofold.engine.local import LocalEngine

__all__ = ["Advance", "Engine", "LocalEngine", "RemoteEngine"]

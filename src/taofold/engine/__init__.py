"""Engines: who decides which run is driven when, and where.

The log keeps the runs; an engine only calls `advance(run)` for those that can go on, one call
at a time for each run, and forgets them while they wait. `local` does it with the tasks of one
process; several such processes share a log by its leases. `dispatch` hands runs to the queue of a
durable-execution engine (`dbos`, `restate`), which chooses the process. `remote` leaves everything
to other processes.
"""

from taofold.engine.dispatch import DispatchEngine, Dispatcher
from taofold.engine.engine import Advance, Engine, LocalEngine, RemoteEngine
from taofold.engine.open import open_engine

__all__ = [
    "Advance",
    "DispatchEngine",
    "Dispatcher",
    "Engine",
    "LocalEngine",
    "RemoteEngine",
    "open_engine",
]

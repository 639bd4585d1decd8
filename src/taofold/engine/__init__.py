"""Engines: decide when and in which process a run is driven. `open_engine` opens one by name.

The log keeps the runs. An engine only calls `advance(run)` for those that can continue, one call at
a time for each run, and holds nothing for waiting runs. `engine` defines the interface,
`LocalEngine`, which uses tasks of one process (several such processes share a log by its leases),
and `RemoteEngine`, which leaves all runs to other processes. `dispatch` hands runs to the queue of
a durable-execution engine (`dbos`, `restate`), which chooses the process; these two modules are
imported on first use. `reconciler` finds due runs.
"""

import hashlib
import importlib
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from taofold.core.errors import ConfigError
from taofold.engine.dispatch import DispatchEngine, Dispatcher
from taofold.engine.engine import MOST, Advance, Engine, LocalEngine, RemoteEngine
from taofold.engine.reconciler import LOOK_S
from taofold.log.log import Log
from taofold.log.open import innermost

__all__ = [
    "Advance",
    "DispatchEngine",
    "Dispatcher",
    "Engine",
    "LocalEngine",
    "RemoteEngine",
    "open_engine",
]


def open_engine(
    name: str,
    log: Log,
    advance: Advance,
    *,
    now: Callable[[], int],
    ours: Callable[[str], Awaitable[bool]],
    agents: Collection[str],
    most: int = MOST,
    look_s: float = LOOK_S,
) -> Engine:
    """Returns the engine that `name` means, not yet started.

    Args:
        name: "local" or "" for tasks of this process; "dbos", with a queue in the log's own
            database, or "dbos:postgresql://…"; "restate:http://HOST:8080".
        log: The log of the runs.
        advance: Does what can be done for a run.
        now: The clock of approvals, in milliseconds since the epoch.
        ours: Returns whether this process can advance a run at all.
        agents: Names of the offered agents; workers that offer others have another queue.
        most: Maximum number of runs driven at once.
        look_s: Seconds between two checks for due runs.

    Raises:
        ConfigError: There is no such engine, or a requirement of it is missing.
    """
    if name in ("", "local"):
        return LocalEngine(log, advance, now=now, ours=ours, most=most, look_s=look_s)
    dispatcher = _dispatcher(name, log)
    return DispatchEngine(
        log,
        advance,
        dispatcher,
        now=now,
        ours=ours,
        group=_group(log, agents),
        most=most,
        look_s=look_s,
    )


def _dispatcher(name: str, log: Log) -> Dispatcher:
    kind, _, address = name.partition(":")
    if kind == "dbos":
        return _adapter(kind).DbosDispatcher(_database(address, log))  # type: ignore[no-any-return]
    if kind == "restate":
        module = _adapter(kind)
        return module.RestateDispatcher(module.RestateAddress.parse(address))  # type: ignore[no-any-return]
    raise ConfigError(
        f"there is no engine {name[:50]!r}: local, dbos or restate:http://HOST:8080", path="engine"
    )


def _adapter(kind: str) -> Any:
    try:
        return importlib.import_module(f"taofold.engine.{kind}")
    except ImportError as error:
        raise ConfigError(
            f"the engine {kind} needs {error.name}: pip install 'taofold[{kind}]'", path="engine"
        ) from error


def _database(address: str, log: Log) -> str:
    """Returns the URL of DBOS's database: the given one, else the log's."""
    database = getattr(innermost(log), "database", None)
    dsn = address or getattr(database, "dsn", "")
    if not dsn.startswith(("postgresql://", "postgres://")):
        raise ConfigError(
            "the engine dbos keeps its queue in PostgreSQL: let TAOFOLD_LOG name a database, or "
            "write dbos:postgresql://…",
            path="engine",
        )
    return dsn.replace("postgres://", "postgresql://", 1)


def _group(log: Log, agents: Collection[str]) -> str:
    """Returns a name that is equal for all processes with the same agents on the same log."""
    text = "\0".join([log.identity, *sorted(agents)])
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

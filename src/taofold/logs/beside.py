"""What is kept beside a log's runs, in the same file or database: the journal, the registry."""

from typing import Any

from taofold.core.errors import ConfigError
from taofold.learning.registry import Registry
from taofold.learning.retrieval.meaning import Embedder
from taofold.logs.journal import SqliteJournal
from taofold.logs.registry import memory_registry, open_registry
from taofold.logs.sqlite import SqliteLog
from taofold.store.journal import Journal, MemoryJournal
from taofold.store.log import Log
from taofold.store.memory import MemoryLog
from taofold.store.wrapped import WrappedLog


def innermost(log: Log) -> Log:
    """The log itself, without those in front of it."""
    while isinstance(log, WrappedLog):
        log = log.log
    return log


def journal_beside(log: Log) -> Journal:
    """The journal in the log's file or database. It is closed by its opener, before the log.

    Raises:
        ConfigError: the log keeps no journal.
    """
    inner: Any = innermost(log)
    if isinstance(inner, SqliteLog):
        return SqliteJournal(inner.path)
    if isinstance(inner, MemoryLog):
        return MemoryJournal()
    make = getattr(inner, "journal", None)
    if make is None:
        raise ConfigError(f"{type(inner).__name__} keeps no journal: loops need one", path="log")
    journal: Journal = make()
    return journal


def shelf_beside(log: Log) -> Any:
    """What servers of several machines share, in the log's database; None: it has no place.

    It has `kept(key)` and `keep(key, version, body)`.
    """
    return getattr(innermost(log), "database", None)


def registry_beside(log: Log, *, embedder: Embedder | None = None) -> Registry:
    """The registry of patterns in the log's file or database.

    In a database its state is folded in memory from the facts, which others write too.
    """
    inner = innermost(log)
    if isinstance(inner, SqliteLog):
        return open_registry(inner.path, embedder=embedder)
    return memory_registry(journal_beside(log), embedder=embedder)

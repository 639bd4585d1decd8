"""Opens a log by its name, path or address, and the journal beside one.

`open_log` accepts user input. `open_builtin` opens the logs that come with taofold, and creates the
folder `.taofold` for them. Implementations are found by entry point or dotted path and imported on
demand; the same file is opened once. Journal and shared documents (`shelf_beside`) are kept in the
log's own file or database, inside any `WrappedLog`s.
"""

import importlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

from taofold.core.errors import ConfigError, LogError
from taofold.log.journal import Journal
from taofold.log.log import Log, WrappedLog
from taofold.log.memory import MemoryLog
from taofold.plugins import installed
from taofold.reserved_places import PROJECT, make_folder, open_file, write_file

_BUILTIN: Final = ("sqlite", "postgresql", "postgres")
"""Listed here to avoid a scan of all installed packages (20 ms) for the built-in logs."""
GROUP: Final = "taofold.logs"
_open: Final[dict[str, Log]] = {}


def open_log(spec: Log | str | Path) -> Log:
    """Returns the log that `spec` names. A file or database is opened once per process.

    Args:
        spec: A log itself, "memory", "sqlite:PATH", a path, or "postgresql://…". Another scheme is
            resolved by the entry points of group `taofold.logs`: functions of the whole `spec`.

    Raises:
        ConfigError: `spec` names no log.
        LogError: It cannot be used; the message has the reason.

    Example:
        ```python
        from taofold import open_log

        log = open_log("runs.db")
        for row in await log.rows(status="waiting"):
            print(row.run, row.waiting_for)
        ```
    """
    if not isinstance(spec, str | Path):
        return spec
    text = str(spec)
    if text == "memory":
        # A new one each time: "memory" names nothing that could be shared.
        return MemoryLog()

    scheme, sign, rest = text.partition(":")
    # Only SCHEME:// may be a foreign log; `a:b` alone is a file of that name.
    is_foreign = scheme not in _BUILTIN and rest.startswith("//")
    foreign = _entry(scheme) if is_foreign else ""
    if not is_foreign and (not sign or scheme not in _BUILTIN):
        scheme, rest = "sqlite", text
    if not rest:
        raise ConfigError(
            f"a log is 'memory', 'sqlite:PATH', a path or 'postgresql://…', not {text!r}",
            path="log",
        )

    # By its absolute path: two spellings of one file share a connection and its lock.
    key = f"sqlite:{Path(rest).absolute()}" if scheme == "sqlite" else text
    opened = _open.get(key)
    if opened is None or getattr(opened, "closed", False):
        factory: Callable[[Any], Log] = open_builtin
        if foreign:
            module, _, name = foreign.partition(":")
            factory = getattr(importlib.import_module(module), name)
        _open[key] = factory(Path(rest) if scheme == "sqlite" else text)
    return _open[key]


def _entry(scheme: str) -> str:
    """Returns the reference in the entry point of a foreign log.

    Raises:
        ConfigError: No package offers such a log.
    """
    for entry in installed(GROUP):
        if entry.name == scheme:
            return entry.value
    raise ConfigError(
        f"no log is known for {scheme!r}: write 'sqlite:PATH' or 'postgresql://…', or install the "
        "package that offers it",
        path="log",
    )


POSTGRES: Final = ("postgresql://", "postgres://")
"""Prefixes of the address of a PostgreSQL database."""


def open_builtin(spec: str | Path) -> Log:
    """Opens the log that `spec` names, and creates its file and folder `.taofold` if missing.

    Args:
        spec: "memory", "sqlite:PATH", a path, or "postgresql://USER@HOST/DATABASE".

    Raises:
        ConfigError: `spec` names no log.
        LogError: The file or the database cannot be used; the message has the reason.
    """
    if spec == "memory":
        return MemoryLog()
    if isinstance(spec, str) and spec.startswith(POSTGRES):
        return open_postgres(spec)
    text = str(spec).removeprefix("sqlite:")
    scheme, colon, _ = text.partition(":")
    # One letter before the colon is a Windows drive; a slash before it is a path.
    if not text or (colon and len(scheme) > 1 and "/" not in scheme and isinstance(spec, str)):
        raise ConfigError(
            f"{str(spec)!r} names no log; write 'memory', 'sqlite:PATH', a path or "
            "postgresql://USER@HOST/DATABASE"
        )
    path = Path(text).expanduser()
    if path.parent.name == PROJECT:
        make_home(path.parent)
    # Imported here: programs that log to memory or to a server never load sqlite3.
    module = importlib.import_module("taofold.log.sqlite.log")
    log: Any = module.SqliteLog(path)
    log.open()
    return cast("Log", log)


def open_postgres(dsn: str) -> Log:
    """Returns the log in a PostgreSQL database; missing tables are created.

    Raises:
        ConfigError: psycopg is not installed, or `dsn` is no address.
        LogError: The database cannot be used; the message has the reason.
    """
    try:
        module = importlib.import_module("taofold.log.postgres")
    except ImportError as error:
        raise ConfigError(
            "a log in PostgreSQL needs psycopg: pip install 'taofold[postgres]'", path="log"
        ) from error
    log: Log = module.open_postgres(dsn)
    return log


def make_home(folder: Path) -> None:
    """Creates the folder `.taofold`, for its owner only, and excludes it from git.

    Raises:
        ConfigError: A repository or another user has put another file there.
        LogError: It cannot be created.
    """
    try:
        # The log holds approvals and approvers: no other user of the machine may write it.
        make_folder(folder)
        with suppress(FileNotFoundError):
            os.close(open_file(folder / ".gitignore", trust="repository"))
            return
        write_file(folder / ".gitignore", b"*\n")
    except OSError as error:
        raise LogError(f"the folder {str(folder)!r} cannot be created: {error.strerror}") from error


def innermost(log: Log) -> Log:
    """Returns the log inside all `WrappedLog`s."""
    while isinstance(log, WrappedLog):
        log = log.log
    return log


def journal_beside(log: Log) -> Journal:
    """Returns the journal in the log's file or database. The caller closes it, before the log.

    Raises:
        ConfigError: The log keeps no journal.
    """
    inner: Any = innermost(log)
    make = getattr(inner, "journal", None)
    if make is None:
        raise ConfigError(f"{type(inner).__name__} keeps no journal: loops need one", path="log")
    journal: Journal = make()
    return journal


def shelf_beside(log: Log) -> Any:
    """Returns the table that servers of several machines share in the log's database, or None.

    It has `kept(key) -> (version, body)` and `keep(key, version, body) -> bool`.
    """
    return getattr(innermost(log), "database", None)

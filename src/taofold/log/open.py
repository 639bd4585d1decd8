"""Opening a log by name. Adapters are found by entry point or dotted path, not imported here."""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

from taofold.core.errors import ConfigError
from taofold.log.log import Log
from taofold.log.memory import MemoryLog
from taofold.plugins import installed

_ADAPTERS: Final[dict[str, str]] = dict.fromkeys(
    ("sqlite", "postgresql", "postgres"), "taofold.log.builtin:open_builtin"
)
"""Ours, so that finding one does not cost a scan of all installed packages (20 ms)."""
GROUP: Final = "taofold.logs"
_open: Final[dict[str, Log]] = {}


def open_log(spec: Log | str | Path) -> Log:
    """The log that `spec` names: a log itself, "memory", "sqlite:PATH", a path, "postgresql://…".

    Another scheme is looked for among the entry points of group `taofold.logs`: functions of the
    whole `spec`. The same file or database is opened once per process.

    Raises:
        ConfigError: `spec` names no log.
        LogError: it cannot be used; the message says why.
    """
    if not isinstance(spec, str | Path):
        return spec
    text = str(spec)
    if text == "memory":
        # A new one each time: "memory" names nothing that could be shared.
        return MemoryLog()
    scheme, sign, rest = text.partition(":")
    # Only SCHEME:// may be a foreign log; `a:b` alone is a file of that name.
    adapter = _ADAPTERS.get(scheme) or (_entry(scheme) if rest.startswith("//") else "")
    if not sign or not adapter:
        scheme, rest, adapter = "sqlite", text, _ADAPTERS["sqlite"]
    if not rest:
        raise ConfigError(
            f"a log is 'memory', 'sqlite:PATH', a path or 'postgresql://…', not {text!r}",
            path="log",
        )
    # By its whole path: two spellings of one file share a connection and its lock.
    key = f"sqlite:{Path(rest).absolute()}" if scheme == "sqlite" else text
    opened = _open.get(key)
    if opened is None or getattr(opened, "closed", False):
        module, _, name = adapter.partition(":")
        factory = cast("Callable[[Any], Log]", getattr(importlib.import_module(module), name))
        _open[key] = factory(Path(rest) if scheme == "sqlite" else text)
    return _open[key]


def _entry(scheme: str) -> str:
    """Where the entry point of a foreign log leads.

    Raises:
        ConfigError: nobody offers such a log.
    """
    for entry in installed(GROUP):
        if entry.name == scheme:
            return entry.value
    raise ConfigError(
        f"no log is known for {scheme!r}: write 'sqlite:PATH' or 'postgresql://…', or install the "
        "package that offers it",
        path="log",
    )

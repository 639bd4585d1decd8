"""Opening a log by name. Adapters are found by entry point or dotted path, not imported here."""

import importlib
from pathlib import Path
from typing import Any

from taofold.core.errors import ConfigError
from taofold.store.log import Log
from taofold.store.memory import MemoryLog

_ADAPTERS = {"sqlite": "taofold.logs.sqlite:SqliteLog"}
_open: dict[str, Log] = {}


def open_log(spec: Log | str | Path) -> Log:
    """The log that `spec` names: a log itself, "memory", "sqlite:PATH" or a path.

    The same file is opened once per process.
    """
    if not isinstance(spec, str | Path):
        return spec
    said = str(spec)
    if said == "memory":
        return MemoryLog()
    scheme, sign, rest = said.partition(":")
    if not sign or scheme not in _ADAPTERS:
        scheme, rest = "sqlite", said
    if not rest:
        raise ConfigError(f"a log is 'memory', 'sqlite:PATH' or a path, not {said!r}", path="log")
    key = f"{scheme}:{Path(rest).absolute()}"
    if key not in _open:
        module, _, name = _ADAPTERS[scheme].partition(":")
        factory: Any = getattr(importlib.import_module(module), name)
        _open[key] = factory(Path(rest))
    return _open[key]

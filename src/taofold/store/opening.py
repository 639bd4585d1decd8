"""Opening a log by name. Adapters are found by entry point or dotted path, not imported here."""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Final, cast

from taofold.core.errors import ConfigError
from taofold.store.log import Log
from taofold.store.memory import MemoryLog

_ADAPTERS: Final = {"sqlite": "taofold.logs.open:open_log"}
_open: Final[dict[str, Log]] = {}


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
    known = _open.get(key)
    if known is None or getattr(known, "closed", False):
        module, _, name = _ADAPTERS[scheme].partition(":")
        factory = cast("Callable[[Path], Log]", getattr(importlib.import_module(module), name))
        _open[key] = factory(Path(rest))
    return _open[key]

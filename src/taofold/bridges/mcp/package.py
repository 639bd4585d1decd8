"""The `mcp` package, in either generation: loaded when a server is reached, read under both names.

Generation 2 speaks both eras of the protocol; generation 1 (some frameworks still pin it) only the
older one, under other names.
"""

import logging
import re
from importlib import import_module
from typing import Any, Final, cast

from taofold.core.errors import ConfigError

HINT: Final = "the mcp package is missing: pip install 'taofold[mcp]'"
_SDK_LOGGER: Final = logging.getLogger("mcp")
_SILENT: Final = logging.NullHandler()
_HUMP: Final = re.compile(r"_([a-z])")


def load(module: str = "mcp") -> Any:
    """A module of the package. Raises ConfigError with the way to install it."""
    # What it logs is for whoever listens: without a handler, tracebacks go to the terminal.
    _SDK_LOGGER.addHandler(_SILENT)
    try:
        return import_module(module)
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] == "mcp":
            raise ConfigError(HINT) from error
        broken = f"the mcp package cannot be loaded ({error}): pip install 'taofold[mcp]'"
        raise ConfigError(broken) from error


def get(thing: Any, name: str, default: Any = None) -> Any:
    """The attribute `name`, under the name that either generation gives it."""
    value = getattr(thing, name, None)
    if value is None:
        value = getattr(thing, _HUMP.sub(lambda hump: hump.group(1).upper(), name), None)
    return default if value is None else value


def plain(model: Any) -> Any:
    """A model of the package as JSON, with the names of the protocol."""
    dump = getattr(model, "model_dump", None)
    return model if dump is None else dump(mode="json", by_alias=True, exclude_none=True)


def code(error: BaseException) -> int | None:
    """The code of an error of the protocol; None if it is none."""
    inner = getattr(error, "error", None)
    status = getattr(inner, "code", getattr(error, "code", None))
    return status if isinstance(status, int) else None


def data(error: BaseException) -> Any:
    """What came with an error of the protocol."""
    return getattr(getattr(error, "error", None), "data", None)


def innermost(error: BaseException) -> BaseException:
    """What went wrong, out of the groups that task groups make of it."""
    # The first of each group: the others are mostly cancellations that it caused.
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error

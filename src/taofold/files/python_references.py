"""Resolves `module:attr` or `file.py:attr` to an object. **It runs what it imports**.

`is_name` detects such references by their form.
"""

import importlib.util
import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout
from hashlib import blake2b
from pathlib import Path
from types import ModuleType
from typing import Any

from taofold.core.errors import ConfigError
from taofold.core.text import near
from taofold.foreign_code import contained, original
from taofold.trusted_code import OUTSIDE


def is_name(text: str) -> bool:
    """Returns True if `text` has the form `module:attr` or `file.py:attr`."""
    module, colon, attribute = text.rpartition(":")
    if not colon or not attribute.replace(".", "_").isidentifier():
        return False
    return module.endswith(".py") or all(part.isidentifier() for part in module.split("."))


def missing_file(name: str, folder: Path) -> str:
    """Returns the fault of a `file.py:attr` whose file is missing, or "". Imports nothing."""
    module = name.rpartition(":")[0]
    path = folder / module
    try:
        there = not module.endswith(".py") or path.is_file()
    except OSError:  # a long text that is no path
        there = False
    return "" if there else f"there is no file {str(path)!r}"


def load(name: str, folder: Path) -> Any:
    """Returns the object that `name` refers to. Modules in `folder` take precedence.

    A module must import what it needs from there while it is loaded, not later.

    Raises:
        ConfigError: It cannot be imported, or has no such attribute.
    """
    if not is_name(name):
        raise ConfigError(f"{name!r} is no module:attr")
    module, _, attribute = name.rpartition(":")
    # Output of the module must not corrupt the result on standard output.
    with redirect_stdout(sys.stderr), OUTSIDE.open():
        thing: Any = _file(folder / module) if module.endswith(".py") else _module(module, folder)
    for part in attribute.split("."):
        if not hasattr(thing, part):
            names = [name for name in dir(thing) if not name.startswith("_")]
            hint = near(part, names)
            raise ConfigError(f"{module!r} has no {part!r}{f'; {hint}' if hint else ''}")
        thing = getattr(thing, part)
    return thing


@contextmanager
def _on_path(folder: Path) -> Generator[None]:
    """Puts `folder` first on the import path while a module is loaded, as for a script.

    Not later, because an agent may have written there.
    """
    directory = str(folder.absolute())
    before = list(sys.path)
    sys.path.insert(0, directory)
    try:
        yield
    finally:
        # In place, and only this entry, because the module may have changed the path itself.
        sys.path[:] = [entry for entry in sys.path if entry != directory or entry in before]


def _module(name: str, folder: Path) -> ModuleType:
    try:
        with contained(), _on_path(folder):
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # The module itself may be missing, or one that it imports. The messages differ.
        if error.name is not None and name.startswith(error.name):
            raise ConfigError(
                f"there is no module {error.name!r} (looked in {str(folder.absolute())!r})"
            ) from error
        raise ConfigError(f"importing {name!r} failed: {error}") from error
    except Exception as error:
        raise ConfigError(f"importing {name!r} {_raised(error)}") from error


def _file(path: Path) -> ModuleType:
    name = f"taofold_agent_{blake2b(str(path.absolute()).encode(), digest_size=6).hexdigest()}"
    # Loaded once, so that two tools of one file share its globals.
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path) if path.is_file() else None
    if spec is None or spec.loader is None:
        raise ConfigError(f"there is no file {str(path)!r}")
    module = importlib.util.module_from_spec(spec)
    # Before it runs, because dataclasses look their module up while it is loaded.
    sys.modules[name] = module
    try:
        with contained(), _on_path(path.parent):
            spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ConfigError(f"importing {str(path)!r} {_raised(error)}") from error
    return module


def _raised(error: Exception) -> str:
    if isinstance(error, ConfigError):
        return f"failed: {error}"
    cause = original(error)
    return f"raised {type(cause).__name__}: {cause}"

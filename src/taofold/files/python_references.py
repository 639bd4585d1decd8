"""From `module:attr` or `file.py:attr` to the object. **It runs what it imports**.

`is_name` tells by its form alone whether a text is such a reference.
"""

import importlib.util
import sys
from contextlib import redirect_stdout
from hashlib import blake2b
from pathlib import Path
from types import ModuleType
from typing import Any

from taofold.core.errors import ConfigError
from taofold.core.text import near
from taofold.trusted_code import OUTSIDE


def is_name(text: str) -> bool:
    """Does `text` look like `module:attr` or `file.py:attr`?"""
    module, colon, attribute = text.rpartition(":")
    if not colon or not attribute.replace(".", "_").isidentifier():
        return False
    return module.endswith(".py") or all(part.isidentifier() for part in module.split("."))


def load(name: str, folder: Path) -> Any:
    """The object that `name` says. Modules are looked for in `folder` first.

    What a module needs from there it must import when it is loaded, not later.

    Raises:
        ConfigError: it cannot be imported, or has no such attribute.
    """
    if not is_name(name):
        raise ConfigError(f"{name!r} is no module:attr")
    module, _, attribute = name.rpartition(":")
    # What the module prints must not spoil the result on standard output.
    with redirect_stdout(sys.stderr), OUTSIDE.open():
        thing: Any = _file(folder / module) if module.endswith(".py") else _module(module, folder)
    for part in attribute.split("."):
        if not hasattr(thing, part):
            names = [name for name in dir(thing) if not name.startswith("_")]
            hint = near(part, names)
            raise ConfigError(f"{module!r} has no {part!r}{f'; {hint}' if hint else ''}")
        thing = getattr(thing, part)
    return thing


def _module(name: str, folder: Path) -> ModuleType:
    directory = str(folder.absolute())
    # On the path while the module is loaded only: later an agent may have written there.
    before = list(sys.path)
    sys.path.insert(0, directory)
    try:
        return importlib.import_module(name)
    except KeyboardInterrupt:
        raise
    except ModuleNotFoundError as error:
        # The module itself is missing, or one that it imports: two different mistakes.
        if error.name is not None and name.startswith(error.name):
            raise ConfigError(
                f"there is no module {error.name!r} (looked in {directory!r})"
            ) from error
        raise ConfigError(f"importing {name!r} failed: {error}") from error
    except BaseException as error:  # also sys.exit() in somebody's module
        raise ConfigError(f"importing {name!r} raised {type(error).__name__}: {error}") from error
    finally:
        # In place, and only our entry: the module may have changed the path itself.
        sys.path[:] = [entry for entry in sys.path if entry != directory or entry in before]


def _file(path: Path) -> ModuleType:
    name = f"taofold_agent_{blake2b(str(path.absolute()).encode(), digest_size=6).hexdigest()}"
    # Loaded once: two tools of one file share its globals.
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path) if path.is_file() else None
    if spec is None or spec.loader is None:
        raise ConfigError(f"there is no file {str(path)!r}")
    module = importlib.util.module_from_spec(spec)
    # Before it runs: dataclasses look their module up while it is loaded.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # as above
        del sys.modules[name]
        raise ConfigError(
            f"importing {str(path)!r} raised {type(error).__name__}: {error}"
        ) from error
    return module

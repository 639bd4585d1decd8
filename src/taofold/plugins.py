"""Extensions of installed packages, found by their entry points alone.

A package declares them in its `pyproject.toml`:

    [project.entry-points."taofold.models"]
    offline = "taofold_repair:connect"
"""

import importlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from taofold.core.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

DEMOS: Final = "taofold.demos"
"""Modules with `GOAL` and `demo_project(target, name)`."""
SEARCHES: Final = "taofold.searches"
"""Values of the protocol `taofold.loop.learner.SearchPolicy`."""


def installed(group: str) -> "Iterable[EntryPoint]":
    """Returns the entry points of `group` in all installed packages, without importing them."""
    # Imported here because it costs more than half the import-time budget of `import taofold`.
    metadata = importlib.import_module("importlib.metadata")
    entries: Iterable[EntryPoint] = metadata.entry_points(group=group)
    return entries


def load(group: str, name: str) -> Any:
    """Returns the object of the entry point `name` of `group`.

    Raises:
        ConfigError: No installed package has it, or it cannot be imported.
    """
    for entry in installed(group):
        if entry.name == name:
            return _loaded(entry)
    raise ConfigError(
        f"no installed package has the entry point {name!r} of group {group!r}; install taofold "
        "again (pip install --force-reinstall taofold), or install the package that has it"
    )


def load_all(group: str) -> list[Any]:
    """Returns the objects of all entry points of `group`, sorted by name.

    Raises:
        ConfigError: One cannot be imported.
    """
    # By name: the order of installation is arbitrary.
    return [_loaded(entry) for entry in sorted(installed(group), key=lambda entry: entry.name)]


def _loaded(entry: "EntryPoint") -> Any:
    try:
        return entry.load()
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"the entry point {entry.name!r} of group {entry.group!r} cannot be loaded from "
            f"{entry.value!r}: {error}"
        ) from error

"""What installed packages bring to taofold, known by their entry points and by nothing else.

A package says in its `pyproject.toml` what it brings:

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
    """The entry points of `group`, of all installed packages. Nothing of them is imported."""
    # Imported here because it costs more than half of what `import taofold` may.
    metadata = importlib.import_module("importlib.metadata")
    entries: Iterable[EntryPoint] = metadata.entry_points(group=group)
    return entries


def load(group: str, name: str) -> Any:
    """What the entry point `name` of `group` refers to.

    Raises:
        ConfigError: no installed package has it, or it cannot be imported.
    """
    for entry in installed(group):
        if entry.name == name:
            return _loaded(entry)
    raise ConfigError(
        f"no installed package has the entry point {name!r} of group {group!r}; install taofold "
        "again (pip install --force-reinstall taofold), or install the package that has it"
    )


def load_all(group: str) -> list[Any]:
    """What all entry points of `group` refer to, by name. Raises `ConfigError`."""
    # By name: the order of installation is nobody's.
    return [_loaded(entry) for entry in sorted(installed(group), key=lambda entry: entry.name)]


def _loaded(entry: "EntryPoint") -> Any:
    try:
        return entry.load()
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"the entry point {entry.name!r} of group {entry.group!r} cannot be loaded from "
            f"{entry.value!r}: {error}"
        ) from error

"""Actions of flow nodes: a registry of named actions, built in or from other packages.

An action (`action`) is a schema of its keys and a generator of effects, so its work is in the run's
log. Built-in actions ask models (`reason`, `llm`), call tools (`tools`, `web`) or run code
(`python`). Other packages add more, and each tool of the agent is an action too. Every action has
two names: `reason.cot` and the seed's `actions.reason_cot`. This package does not depend on YAML,
templates or files.
"""

import importlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from taofold import plugins
from taofold.core.errors import ConfigError
from taofold.files.actions.action import ActionCall, Done, Keys, Kind
from taofold.files.actions.llm import BUILT_IN as LLM_KINDS
from taofold.files.actions.python import PYTHON
from taofold.files.actions.reason import BUILT_IN as MODEL_KINDS
from taofold.files.actions.tools import BUILT_IN as TOOL_KINDS
from taofold.files.actions.tools import calls

__all__ = ["ActionCall", "Actions", "Done", "Keys", "Kind", "build_actions_registry"]

GROUP: Final = "taofold.actions"
"""Entry points. Each yields a `Kind` or a sequence of them."""
TOOL: Final = "tool."
_ALIAS: Final = "actions."
_SPACES: Final = ("reason.dspy",)
"""Leading words of names with three words."""
_BRIDGED: Final = ("taofold.bridges.dspy.actions:KINDS",)
"""Built-in actions over other packages, by name, because they are above this layer."""
_BUILT_IN: Final = (*MODEL_KINDS, *LLM_KINDS, *TOOL_KINDS, PYTHON)


class Actions(Mapping[str, Kind]):
    """Actions by name. `tool.NAME` exists for every NAME, the agent checks whether the tool does.

    `own` are the agents and flows of one file, with names that no other action may have.

    Raises:
        ConfigError: A name occurs twice or is invalid.
    """

    def __init__(self, kinds: Iterable[Kind] = _BUILT_IN, own: Iterable[Kind] = ()) -> None:
        self._kinds: dict[str, Kind] = {}
        for kind in kinds:
            _check(kind)
            if kind.name in self._kinds:
                raise ConfigError(f"two actions are named {kind.name!r}")
            self._kinds[kind.name] = kind
        self._kinds |= {kind.name: kind for kind in own}

    def __getitem__(self, name: str) -> Kind:
        name = canonical(name)
        if name.startswith(TOOL) and name != TOOL:
            return calls(name.removeprefix(TOOL))
        return self._kinds[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)


def canonical(name: str) -> str:
    """Returns `reason.cot` for `actions.reason_cot`."""
    if not name.startswith(_ALIAS):
        return name
    # Only the first underscore separates. Later ones belong to the name.
    dotted = name.removeprefix(_ALIAS).replace("_", ".", 1)
    for space in _SPACES:
        if dotted.startswith(f"{space}_"):
            return f"{space}.{dotted.removeprefix(f'{space}_')}"
    return dotted


def alias(name: str) -> str:
    """Returns `actions.reason_cot` for `reason.cot`."""
    three = any(name.startswith(f"{space}.") for space in _SPACES)
    return _ALIAS + name.replace(".", "_", 2 if three else 1)


def build_actions_registry(*kinds: Kind, installed: bool = True) -> Actions:
    """Returns all actions: built-in ones, `kinds`, and with `installed` those of other packages.

    Raises:
        ConfigError: A package provides something that is not an action, or reuses a name.
    """
    brought = list(_brought()) if installed else []
    return Actions((*_BUILT_IN, *_bridged(), *brought, *kinds))


def _bridged() -> Iterator[Kind]:
    for reference in _BRIDGED:
        module, _, name = reference.partition(":")
        yield from getattr(importlib.import_module(module), name)


def _brought() -> Iterator[Kind]:
    # Another package's import may raise anything. The message must name the package.
    for entry in plugins.installed(GROUP):
        try:
            loaded: Any = entry.load()
        except Exception as error:
            raise ConfigError(f"actions {entry.value!r} cannot be loaded: {error}") from error
        for kind in (loaded,) if isinstance(loaded, Kind) else loaded:
            if not isinstance(kind, Kind):
                raise ConfigError(f"{entry.value!r} gives {kind!r}, which is no action")
            yield kind


def _check(kind: Kind) -> None:
    space, dot, name = kind.name.partition(".")
    plain = space.isidentifier() and name.replace(".", "_").isidentifier()
    if not dot or not plain or "_" in space:
        raise ConfigError(f"{kind.name!r} is no name of an action: it is two words with a dot")
    if space in ("tool", "actions", "agent", "flow"):
        raise ConfigError(f"{kind.name!r}: names that begin with {space!r} are given")

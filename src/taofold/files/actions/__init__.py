"""What a node of a flow may do: a registry of named actions, ours and other people's.

An action (`action`) is a schema of its keys and a generator of effects, so it runs on the same log
as everything else. Ours ask models (`reason`) or call tools (`tools`, `web`); packages bring more,
and there is one for every tool of the agent. Every action has two names: `reason.cot` and, as the
seed has it, `actions.reason_cot`. Knows nothing about YAML, templates or files.
"""

import importlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from taofold import plugins
from taofold.core.errors import ConfigError
from taofold.files.actions.action import ActionCall, Done, Keys, Kind
from taofold.files.actions.reason import BUILT_IN as MODEL_KINDS
from taofold.files.actions.tools import BUILT_IN as TOOL_KINDS
from taofold.files.actions.tools import calls

__all__ = ["ActionCall", "Actions", "Done", "Keys", "Kind", "build_actions_registry"]

GROUP: Final = "taofold.actions"
"""Entry points: each gives a `Kind`, or a sequence of them."""
TOOL: Final = "tool."
_ALIAS: Final = "actions."
_SPACES: Final = ("reason.dspy",)
"""The first words of names that have three."""
_BRIDGED: Final = ("taofold.bridges.dspy.actions:KINDS",)
"""Our actions over other people's packages, by name: they are above this layer."""
_BUILT_IN: Final = (*MODEL_KINDS, *TOOL_KINDS)


class Actions(Mapping[str, Kind]):
    """Actions by name. `tool.NAME` is there for every NAME: whether the tool is, the agent knows.

    Raises:
        ConfigError: a name occurs twice or cannot be one.
    """

    def __init__(self, kinds: Iterable[Kind] = _BUILT_IN) -> None:
        self._kinds: dict[str, Kind] = {}
        for kind in kinds:
            _check(kind)
            if kind.name in self._kinds:
                raise ConfigError(f"two actions are named {kind.name!r}")
            self._kinds[kind.name] = kind

    def __getitem__(self, name: str) -> Kind:
        name = canonical(name)
        if name.startswith(TOOL) and name != TOOL:
            return calls(name.removeprefix(TOOL))
        return self._kinds[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)

    def plus(self, *kinds: Kind) -> "Actions":
        """These and more."""
        return Actions((*self._kinds.values(), *kinds))


def canonical(name: str) -> str:
    """`reason.cot` for `actions.reason_cot`."""
    if not name.startswith(_ALIAS):
        return name
    # Only the first underscore: what follows may have underscores of its own.
    dotted = name.removeprefix(_ALIAS).replace("_", ".", 1)
    for space in _SPACES:
        if dotted.startswith(f"{space}_"):
            return f"{space}.{dotted.removeprefix(f'{space}_')}"
    return dotted


def alias(name: str) -> str:
    """`actions.reason_cot` for `reason.cot`."""
    three = any(name.startswith(f"{space}.") for space in _SPACES)
    return _ALIAS + name.replace(".", "_", 2 if three else 1)


def build_actions_registry(*kinds: Kind, installed: bool = True) -> Actions:
    """Every action there is: ours, `kinds`, and with `installed` those of other packages.

    Raises:
        ConfigError: a package brings something that is no action, or takes a name twice.
    """
    brought = list(_brought()) if installed else []
    return Actions((*_BUILT_IN, *_bridged(), *brought, *kinds))


def _bridged() -> Iterator[Kind]:
    for reference in _BRIDGED:
        module, _, name = reference.partition(":")
        yield from getattr(importlib.import_module(module), name)


def _brought() -> Iterator[Kind]:
    # Another package's import may raise anything; its name must stand in the message.
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

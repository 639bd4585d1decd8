"""Named tools and the ways to combine them. A wrapper of a toolset is a toolset.

Nothing here can lower a tier (PEER-26). Knows nothing about runs.

`register_custom_action` (TAG-24) is TAgent's: tools that every agent of the process has besides its
own. A registry is global state; pass `tools=[...]` to an agent where you can.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final, cast, get_origin

from typing_extensions import Unpack

from taofold.core.errors import ConfigError
from taofold.tools.tool import CommonOptions, Tool, as_tool, check_name, check_tier, doc_of, make


class Toolset(Mapping[str, Tool]):
    """An immutable mapping of names to tools, in order of declaration."""

    __slots__ = ("_tools",)
    remote: ClassVar[bool] = False
    """Its first use waits for somebody else, who is asked what tools there are."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools = _unique(tools)

    @classmethod
    def of(cls, *things: object) -> "Toolset":
        """Tools, functions and toolsets as one toolset.

        Raises:
            ConfigError: something cannot be a tool, or a name occurs twice.
        """
        tools: list[Tool] = []
        for thing in things:
            tools.extend(thing.values() if isinstance(thing, Toolset) else [as_tool(thing)])
        return cls(tools)

    def __getitem__(self, name: str) -> Tool:
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def __repr__(self) -> str:
        return f"Toolset({', '.join(self)})"

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in order."""
        return tuple(self)

    @property
    def aliases(self) -> dict[str, tuple[str, ...]]:
        """By the names of the tools that have some."""
        return {name: tool.aliases for name, tool in self.items() if tool.aliases}

    def renewed(self) -> "Toolset":
        """Its tools as their sources describe them now; itself if nothing changed."""
        tools = [tool.renewed() for tool in self.values()]
        unchanged = all(new is old for new, old in zip(tools, self.values(), strict=True))
        return self if unchanged else Toolset(tools)

    def merged(self, *others: "Toolset") -> "Toolset":
        """All tools of this and the others; a name that occurs twice is a `ConfigError`."""
        return Toolset.of(self, *others)

    def filtered(self, keep: Iterable[str] | Callable[[Tool], bool]) -> "Toolset":
        """The tools that are named, or for which `keep` is true."""
        if callable(keep):
            return Toolset(tool for tool in self.values() if keep(tool))
        if isinstance(keep, str):
            raise ConfigError(f"filtered() takes several names, not the text {keep!r}")
        names = set(keep)
        self._check_names(names)
        return Toolset(tool for name, tool in self.items() if name in names)

    def prefixed(self, prefix: str) -> "Toolset":
        """Every name with `prefix` before it, as in `git_` or `git.`."""
        # `replace` runs __post_init__ again: the new name is checked and the
        # definition's digest is new.
        return Toolset(
            replace(tool, name=prefix + name, aliases=tuple(prefix + a for a in tool.aliases))
            for name, tool in self.items()
        )

    def renamed(self, names: Mapping[str, str]) -> "Toolset":
        """With new names (old name -> new name)."""
        self._check_names(names)
        # Who gives a tool a name of his own means this tool by it: aliases are for derived names.
        return Toolset(
            replace(tool, name=names[name], aliases=()) if name in names else tool
            for name, tool in self.items()
        )

    def with_tier(self, tier: int, *names: str) -> "Toolset":
        """At least `tier`, for all tools or for those named.

        Raises:
            ConfigError: a named tool has a higher tier already: tiers are never lowered.
        """
        self._check_names(names)
        for name in names:
            # Only a name that was given is refused; for all tools at once the higher tier stays.
            if self[name].tier > tier:
                raise ConfigError(
                    f"tool {name!r} has tier {int(self[name].tier)}; "
                    f"it can be raised, never lowered to {tier!r}"
                )
        floor = check_tier(tier, "with_tier()")
        return Toolset(
            replace(
                tool,
                tier=max(tool.tier, floor),
                # A tier that somebody gave to an agent is for the call of the agent itself.
                delegated=tool.delegated and not names and tool.tier >= floor,
            )
            if not names or name in names
            else tool
            for name, tool in self.items()
        )

    def with_options(self, **options: Unpack[CommonOptions]) -> "Toolset":
        """With other settings for all its tools.

        Raises:
            ConfigError: one cannot be changed here, or not to this value.
        """
        strange = sorted(set(options) - CommonOptions.__optional_keys__)
        if strange:
            raise ConfigError(f"with_options() cannot change {strange}")
        return Toolset(replace(tool, **options) for tool in self.values())

    def _check_names(self, names: Iterable[str]) -> None:
        strange = sorted(set(names) - set(self))
        if strange:
            raise ConfigError(f"no tools named {strange}; there are {', '.join(self)}")


def _unique(tools: Iterable[Tool]) -> dict[str, Tool]:
    unique: dict[str, Tool] = {}
    for tool in tools:
        if tool.name in unique:
            raise ConfigError(
                f"two tools are named {tool.name!r}; rename one with prefixed() or renamed()"
            )
        unique[tool.name] = tool
    return unique


_ACTIONS: dict[str, Tool] = {}
_MAPPINGS: Final = frozenset({"dict", "Dict", "Mapping", "MutableMapping", "Any"})


def register_custom_action(name: str, func: Callable[..., Any]) -> Tool:
    """Let every agent that starts from now on use `func` under `name`.

    `func` is any function that can be a tool, or TAgent's form: a function of the state alone
    that returns `(key, value)` for the state, or None.

    >>> def double(state):
    ...     "Double the count."
    ...     return "count", state.get("count", 1) * 2
    >>> register_custom_action("double", double).name
    'double'
    >>> forget_action("double")

    Raises:
        ConfigError: the name is unsafe or taken, or `func` cannot be a tool.
    """
    check_name(name)
    if isinstance(func, Tool):
        action = replace(as_tool(cast("object", func)), name=name)
    else:
        action = make(_with_arguments(func) if _of_state(func) else func, name=name)
    # One step, so that two threads cannot both register the name.
    if _ACTIONS.setdefault(name, action) is not action:
        raise ConfigError(f"a custom action {name!r} is registered already; forget_action() first")
    return action


def _of_state(func: Callable[..., Any]) -> bool:
    """Is this TAgent's form, a function of nothing but the state?"""
    try:
        parameters = list(inspect.signature(func).parameters.values())
    except (TypeError, ValueError):
        return False
    if not parameters or parameters[0].name != "state":
        return False
    others = [p for p in parameters[1:] if p.default is inspect.Parameter.empty]
    return not others and _is_mapping(parameters[0].annotation)


def _is_mapping(hint: Any) -> bool:
    """May a parameter with this annotation be the state? A string is one that is not evaluated."""
    if isinstance(hint, str):
        return hint.partition("[")[0].rpartition(".")[2].strip() in _MAPPINGS
    kind = get_origin(hint) or hint
    if kind is inspect.Parameter.empty or kind is Any:
        return True
    return isinstance(kind, type) and issubclass(kind, Mapping)


def _with_arguments(func: Callable[..., Any]) -> Callable[..., Any]:
    """`func(state)` as a `(state, args)` tool; what a model passes along is not looked at."""

    def action(state: dict[str, Any], args: dict[str, Any]) -> Any:
        return func(state)

    action.__doc__ = doc_of(func)
    return action


def forget_action(name: str) -> None:
    """Undo `register_custom_action`; an unknown name is no error."""
    _ACTIONS.pop(name, None)


def custom_actions() -> Toolset:
    """What is registered now."""
    return Toolset(list(_ACTIONS.values()))

"""Named tools and operations that combine them. Each operation returns a new toolset.

No operation lowers a tier (PEER-26). This module does not depend on runs.

`register_custom_action` (TAG-24) is TAgent's: it adds a tool to every agent of the process. This is
global state. Prefer `Agent(tools=[...])`.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final, cast, get_origin

from typing_extensions import Unpack

from taofold.core.errors import ConfigError
from taofold.tools.tool import CommonOptions, Tool, as_tool, check_name, check_tier, doc_of, make


class Toolset(Mapping[str, Tool]):
    """An immutable mapping of names to tools, in order of declaration.

    Example:
        ```python
        from taofold import Toolset


        def read_page(url: str) -> str:
            "Reads a page."
            return "…"


        web = Toolset.of(read_page).prefixed("web_").with_tier(2)
        print(list(web))
        ```

    Args:
        tools: The tools by their names. `Toolset.of` makes the mapping.
    """

    __slots__ = ("_tools",)
    remote: ClassVar[bool] = False
    """True if the first use asks a server for its tools."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools = _unique(tools)

    @classmethod
    def of(cls, *things: object) -> "Toolset":
        """Returns tools, functions and toolsets as one toolset.

        Args:
            things: Tools, functions, toolsets, or tools of LangChain or CrewAI.

        Raises:
            ConfigError: An argument cannot be a tool, or a name occurs twice.
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
        """The aliases of the tools that have some, by the tools' names."""
        return {name: tool.aliases for name, tool in self.items() if tool.aliases}

    def renewed(self) -> "Toolset":
        """Returns the toolset as its sources describe it now, or itself if nothing changed."""
        tools = [tool.renewed() for tool in self.values()]
        unchanged = all(new is old for new, old in zip(tools, self.values(), strict=True))
        return self if unchanged else Toolset(tools)

    def merged(self, *others: "Toolset") -> "Toolset":
        """Returns all tools of this and the other toolsets.

        Args:
            others: Further toolsets.

        Raises:
            ConfigError: A name occurs twice.
        """
        return Toolset.of(self, *others)

    def filtered(self, keep: Iterable[str] | Callable[[Tool], bool]) -> "Toolset":
        """Returns the selected tools.

        Args:
            keep: Names, or a function that returns True for tools to keep.
        """
        if callable(keep):
            return Toolset(tool for tool in self.values() if keep(tool))
        if isinstance(keep, str):
            raise ConfigError(f"filtered() takes several names, not the text {keep!r}")
        names = set(keep)
        self._check_names(names)
        return Toolset(tool for name, tool in self.items() if name in names)

    def prefixed(self, prefix: str) -> "Toolset":
        """Returns the tools with a prefix before every name.

        Args:
            prefix: The prefix, such as `git_` or `git.`.
        """
        # `replace` calls __post_init__ again, which checks the name and updates the digest.
        return Toolset(
            replace(tool, name=prefix + name, aliases=tuple(prefix + a for a in tool.aliases))
            for name, tool in self.items()
        )

    def renamed(self, names: Mapping[str, str]) -> "Toolset":
        """Returns the tools with new names.

        Args:
            names: Old names and their new ones.
        """
        self._check_names(names)
        # An explicit name replaces all others. Aliases are for derived names.
        return Toolset(
            replace(tool, name=names[name], aliases=()) if name in names else tool
            for name, tool in self.items()
        )

    def with_tier(self, tier: int, *names: str) -> "Toolset":
        """Returns the tools with at least this tier.

        Args:
            tier: The tier, 1 to 4.
            names: Tools to change. Without names, all.

        Raises:
            ConfigError: A named tool already has a higher tier, because tiers are never lowered.
        """
        self._check_names(names)
        for name in names:
            # Only a named tool is refused. For all tools at once the higher tier stays.
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
                # A tier that was set on an agent's tool applies to the call of the agent itself.
                delegated=tool.delegated and not names and tool.tier >= floor,
            )
            if not names or name in names
            else tool
            for name, tool in self.items()
        )

    def with_options(self, **options: Unpack[CommonOptions]) -> "Toolset":
        """Returns the tools with other settings.

        Args:
            options: `timeout`, `longest`, `sequential`, `max_chars` or `toolset`.

        Raises:
            ConfigError: An option cannot be changed here, or the value is invalid.
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
    """Registers a tool that every agent of the process gets from its next run on.

    The registry is global. Prefer `Agent(tools=[...])`.

    Example:
        ```python
        from taofold import register_custom_action


        def double(state):
            "Doubles the count."
            return "count", state.get("count", 1) * 2


        register_custom_action("double", double)
        ```

    Args:
        name: Name of the tool.
        func: Any function that can be a tool, or TAgent's form: a function of the state alone that
            returns `(key, value)` for the state, or None.

    Returns:
        The tool.

    Raises:
        ConfigError: The name is unsafe or taken, or `func` cannot be a tool.
    """
    check_name(name)
    if isinstance(func, Tool):
        action = replace(as_tool(cast("object", func)), name=name)
    else:
        action = make(_with_arguments(func) if _of_state(func) else func, name=name)
    # A single operation, so that two threads cannot both register the name.
    if _ACTIONS.setdefault(name, action) is not action:
        raise ConfigError(f"a custom action {name!r} is registered already; forget_action() first")
    return action


def _of_state(func: Callable[..., Any]) -> bool:
    """Returns True for TAgent's form: a function of the state only."""
    try:
        parameters = list(inspect.signature(func).parameters.values())
    except (TypeError, ValueError):
        return False
    if not parameters or parameters[0].name != "state":
        return False
    others = [p for p in parameters[1:] if p.default is inspect.Parameter.empty]
    return not others and _is_mapping(parameters[0].annotation)


def _is_mapping(hint: Any) -> bool:
    """Returns True if a parameter with this annotation may be the state."""
    if isinstance(hint, str):
        return hint.partition("[")[0].rpartition(".")[2].strip() in _MAPPINGS
    kind = get_origin(hint) or hint
    if kind is inspect.Parameter.empty or kind is Any:
        return True
    return isinstance(kind, type) and issubclass(kind, Mapping)


def _with_arguments(func: Callable[..., Any]) -> Callable[..., Any]:
    """Returns `func(state)` as a `(state, args)` tool that ignores a model's arguments."""

    def action(state: dict[str, Any], args: dict[str, Any]) -> Any:
        return func(state)

    action.__doc__ = doc_of(func)
    return action


def forget_action(name: str) -> None:
    """Removes a custom action. Unknown names are ignored.

    Args:
        name: Name of the action.
    """
    _ACTIONS.pop(name, None)


def custom_actions() -> Toolset:
    """Returns the registered custom actions."""
    return Toolset(list(_ACTIONS.values()))

"""Named tools and the ways to combine them. A wrapper of a toolset is a toolset.

Knows nothing about runs. Nothing here can lower a tier (PEER-26).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

from typing_extensions import Unpack

from taofold.core.errors import ConfigError
from taofold.tools.tool import CommonOptions, Tool, as_tool, check_tier


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

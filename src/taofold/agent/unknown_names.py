"""Names in policies and limits that no tool has. Such a rule has no effect.

A policy may be that of an operator, who names tools of other agents. So an unknown name is no
error: `taofold check` notes those of a file, and `warn_of_unknown_names` warns of likely typing
errors only. Tools of servers may come later, so agents with servers are not judged.
"""

import warnings
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from taofold.agent.team import reachable
from taofold.core.errors import ConfigError
from taofold.policy import Limits, Policy
from taofold.tools import Toolset

if TYPE_CHECKING:
    from taofold.agent.agent import Agent

_SIMILAR: Final = 0.75
"""The least similarity, from 0 to 1, of a likely typing error."""
_PATTERN: Final = "*?["
_WARNED: Final = dict[Any, Any]()
"""Shown warnings, so that copies of an agent do not repeat them."""


class PolicyWarning(UserWarning):
    """A policy or limit names a tool that the agent lacks, and the name is probably misspelt."""


class UnknownName(NamedTuple):
    """A rule for a tool that does not exist. `key` is its path, such as ("deny", "raed_file")."""

    key: tuple[str, str]
    reason: str
    likely: bool
    """True if the name is a pattern, or like that of a tool."""


def unknown_names(
    policy: Policy, known: Collection[str], limits: Limits | None = None
) -> list[UnknownName]:
    """Returns the rules of `policy` and `limits` whose tools are not among the `known` ones."""
    rules = (*_ruled(policy), *(("per_tool", name) for name in (limits or Limits()).per_tool))
    return [_unknown(key, name, known) for key, name in rules if name not in known]


def _ruled(policy: Policy) -> Iterator[tuple[str, str]]:
    for key in ("tiers", "allow", "deny", "required", "production_tiers"):
        for name in sorted(getattr(policy, key) or ()):
            yield key, name


def _unknown(key: str, name: str, known: Iterable[str]) -> UnknownName:
    reason = f"no tool of this agent is named {name!r}"
    if any(sign in name for sign in _PATTERN):
        return UnknownName((key, name), f"{reason}; rules name tools, not patterns of names", True)
    alike = get_close_matches(name, sorted(known), n=1, cutoff=_SIMILAR)
    hint = f"; did you mean {alike[0]!r}?" if alike else ""
    return UnknownName((key, name), reason + hint, bool(alike))


def names_of(tools: Iterable[str], aliases: Iterable[Iterable[str]]) -> set[str]:
    """Returns all names under which rules apply to the tools."""
    return {*tools, *[alias for own in aliases for alias in own]}


def tool_names_of(agent: "Agent[Any, Any]") -> set[str] | None:
    """Returns the names of all tools of a run, also of agents that it asks or is handed over to.

    None if servers have tools, which may change.
    """
    names: set[str] = set()
    with suppress(ConfigError, ExceptionGroup):
        for member in reachable(agent):
            if any(isinstance(thing, Toolset) and thing.remote for thing in member.tools):
                return None
            names |= names_of(member.toolset, member.toolset.aliases.values())
        return names
    return None  # its faults are reported where its tools are used


def warn_of_unknown_names(agent: "Agent[Any, Any]") -> None:
    """Warns of each rule of the agent whose name is probably a misspelt name of a tool."""
    tools = agent.toolset
    own = names_of(tools, tools.aliases.values())
    if not unknown_names(agent.policy, own, agent.limits):
        return  # the usual case, without a look at other agents
    known = tool_names_of(agent)
    for each in unknown_names(agent.policy, known, agent.limits) if known is not None else ():
        if each.likely:
            where = "limits" if each.key[0] == "per_tool" else "policy"
            warnings.warn_explicit(
                f"{where}.{each.key[0]}: {each.reason}",
                PolicyWarning,
                f"agent {agent.name!r}",  # the caller's line is that of the first run
                0,
                registry=_WARNED,
            )

"""The agents of one run: those to which it may be handed over, and the tools that do it.

`team_of` follows `Agent.handoffs` and checks that the agents can share a run. `hand_off_tools`
makes a tool for each agent to which an agent hands over. A call of it changes nothing by itself:
the strategy reads its success as a hand-off, and the runtime makes it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeAlias, cast

from taofold.agent.agent import Agent
from taofold.core.effects import hand_off_tool
from taofold.core.errors import ConfigError
from taofold.core.text import line
from taofold.core.values import Tier
from taofold.tools.tool import Tool, external

AnyAgent: TypeAlias = Agent[Any, Any]

MOST_REASON: Final = 2_000
"""Maximum characters of a reason."""
_UNNAMED: Final = "agent"
"""The name of an agent that was given none."""
_REASON: Final = "Why, and what the other agent should do. It reads the whole conversation."
_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"reason": {"type": "string", "maxLength": MOST_REASON, "description": _REASON}},
    "additionalProperties": False,
}


def successors(agent: AnyAgent) -> Sequence[AnyAgent]:
    """Returns the agents to which `agent` hands over itself.

    Raises:
        ConfigError: `handoffs` is not a list of agents with names.
    """
    given: Any = agent.handoffs
    found: Any = given() if callable(given) else given
    if not isinstance(found, list | tuple):
        raise ConfigError(f"is a list of agents: not {line(repr(found))}", path="handoffs")
    for index, other in enumerate(cast("Sequence[Any]", found)):
        if not isinstance(other, Agent):
            raise ConfigError(f"is an agent: not {line(repr(other))}", path=f"handoffs[{index}]")
        if cast("AnyAgent", other).name == _UNNAMED:
            wrong = "the agent needs a name, by which the run names it: Agent(…, name='billing')"
            raise ConfigError(wrong, path=f"handoffs[{index}]")
    return cast("Sequence[AnyAgent]", found)


def team_of(agent: AnyAgent) -> dict[str, AnyAgent]:
    """Returns the agents that may be active in a run of `agent`, by name, itself first.

    Raises:
        ConfigError: They cannot share a run.
    """
    team = {agent.name: agent}
    waiting = [agent]
    while waiting:
        member = waiting.pop()
        for other in successors(member):
            known = team.get(other.name)
            if known is None:
                team[other.name] = other
                waiting.append(other)
            # The first agent may be a changed copy, such as a server makes.
            elif known is not other and not (known is agent and known.original is other.original):
                raise ConfigError(
                    f"two agents are named {other.name!r}: each agent of a run needs its own name",
                    path="handoffs",
                )
    if len(team) > 1:
        for member in team.values():
            _check_member(agent, member)
    return team


def reachable(agent: AnyAgent) -> list[AnyAgent]:
    """Returns the agents that a run of `agent` may use, itself first.

    They are those to which it is handed over and those that are called as tools, over any number
    of others.
    """
    found = {id(agent): agent}
    waiting = [agent]
    while waiting:
        for member in waiting.pop().team.values():
            called = [tool.agent for tool in member.toolset.values() if tool.agent is not None]
            for other in (member, *called):
                if id(other) not in found:
                    found[id(other)] = other
                    waiting.append(other)
    return list(found.values())


def changed_team(agent: AnyAgent, change: Callable[[AnyAgent], AnyAgent]) -> AnyAgent:
    """Returns the agent with `change` applied to it and to all agents of its team.

    Args:
        agent: The agent with which runs begin.
        change: Returns a changed copy of one agent.
    """
    made: dict[int, AnyAgent] = {}

    def changed(member: AnyAgent) -> AnyAgent:
        copy = made.get(id(member))
        if copy is None:
            copy = change(member)
            if member.handoffs:
                # Looked up later: agents may hand over to each other.
                copy = copy.replace(handoffs=lambda: [changed(each) for each in successors(member)])
            made[id(member)] = copy
        return copy

    return changed(agent)


def _check_member(first: AnyAgent, member: AnyAgent) -> None:
    """Raises `ConfigError` if `member` cannot continue a run that began with `first`."""
    if member.strategy != "react":
        raise ConfigError(
            f"agent {member.name!r} has strategy={member.strategy!r}: a run is handed over only "
            "between agents with strategy='react'",
            path="handoffs",
        )
    if member.output not in (str, first.output):
        raise ConfigError(
            f"agent {member.name!r} answers with {member.output!r}, but a run of {first.name!r} "
            f"with {first.output!r}: give both the same output",
            path="handoffs",
        )


def hand_off_tools(agent: AnyAgent) -> list[Tool]:
    """Returns the tools with which `agent` hands over, one for each agent.

    Raises:
        ConfigError: The names of two agents give one name of a tool.
    """
    named: dict[str, str] = {}
    others = successors(agent)
    for index, other in enumerate(others):
        name = hand_off_tool(other.name)
        if named.setdefault(name, other.name) != other.name:
            both = f"{named[name]!r} and {other.name!r}"
            wrong = f"agents {both} would both be called with {name!r}: rename one"
            raise ConfigError(wrong, path=f"handoffs[{index}]")
    return [_tool(other) for other in others]


def _tool(other: AnyAgent) -> Tool:
    about = f" {other.description.strip()}" if other.description.strip() else ""
    tool = external(
        hand_off_tool(other.name),
        f"Hand the conversation over to the agent {other.name}, which continues in your place."
        + about,
        _SCHEMA,
        partial(_told, other.name),
        # The call itself changes nothing, and the next agent's calls are judged by the policy.
        tier=Tier.AUTO,
        effect="read",
        thread=False,
    )
    return replace(tool, successor=other)


def _told(name: str, parameters: Mapping[str, Any]) -> str:
    """Returns the result of the call, which the next agent reads too."""
    return f"The agent {name} continues from here."

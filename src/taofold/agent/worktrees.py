"""Agents whose tools work in another folder: the worktree of a child run.

`placed` returns a copy of an agent whose tools work there. Tools that are bound to another place
and could write to it are refused. Functions without a place work where they did: it warns of them.
"""

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, TypeAlias

from taofold.agent.agent import Agent
from taofold.agent.team import changed_team
from taofold.core.errors import ConfigError
from taofold.tools import Tool

AnyAgent: TypeAlias = Agent[Any, Any]

_logger: Final = logging.getLogger(__name__)


def placed(agent: AnyAgent, source: Path, target: Path) -> AnyAgent:
    """Returns the agent, and its team, with tools that work in `target` instead of `source`.

    Args:
        agent: The agent.
        source: The folder of the run that asks it.
        target: The folder in which it is to work. Its files are stored after each step.

    Raises:
        ConfigError: A tool could write outside of `target`.
    """

    def change(member: AnyAgent) -> AnyAgent:
        here = member.replace(snapshots=source if source.is_dir() else target)
        _warn_of_unplaced(member.name, here.lasting_tools, target)
        tools = [_placed(tool, source, target) for tool in here.lasting_tools]
        return member.replace(tools=tools, discover=(), skills=(), snapshots=target)

    return changed_team(agent, change)


def _warn_of_unplaced(agent: str, tools: Iterable[Tool], target: Path) -> None:
    """Warns of tools that may change something and know no folder: functions and MCP servers."""
    names = [
        it.name for it in tools if it.root is None and it.agent is None and it.effect != "read"
    ]
    if names:
        _logger.warning(
            "the agent %r works in %s, but not its tools %s: they work where the program does, and "
            "files that they write there are not merged",
            agent,
            target,
            ", ".join(names),
        )


def check_placed(agent: AnyAgent, source: Path) -> None:
    """Checks that the tools of the agent and its team can work in another folder than `source`.

    Raises:
        ConfigError: A tool cannot.
    """
    for member in agent.team.values():
        for tool in member.toolset.values():
            _check(tool, source)


def _check(tool: Tool, source: Path) -> None:
    if tool.root is None:
        return
    if tool.root.is_relative_to(source):
        if tool.place is None:
            raise ConfigError(f"tool {tool.name!r} works only in {str(tool.root)!r}", path="tools")
    elif tool.effect != "read" or source.is_relative_to(tool.root):
        raise ConfigError(
            f"the tool {tool.name!r} is bound to {str(tool.root)!r} and would work there, not in "
            f"the worktree: bind it to a folder in {str(source)!r}, or name the tools 'files' and "
            "'command'",
            path="tools",
        )


def _placed(tool: Tool, source: Path, target: Path) -> Tool:
    if tool.root is None or tool.root.is_relative_to(target):
        return tool
    _check(tool, source)
    if not tool.root.is_relative_to(source):
        return tool  # it only reads elsewhere
    moved = tool.at(target / tool.root.relative_to(source))
    # In the stored files the folder may have become a link.
    if moved.root is None or not moved.root.is_relative_to(target):
        raise ConfigError(
            f"the folder of the tool {tool.name!r} leads out of the worktree", path="tools"
        )
    return moved

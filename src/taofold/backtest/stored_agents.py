"""`StoredAgents`: the agent and the effective policy of a stored run, made for reading only.

The agent of a root run comes from a function of the caller; that of a child run is a tool of its
caller's agent. Its tools are muted: their functions, previews and checks are never called.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, NoReturn, TypeAlias

from taofold.agent import Agent
from taofold.agent.activation import questioner
from taofold.agent.team import changed_team
from taofold.core import events as e
from taofold.core.errors import ConfigError, TaofoldError
from taofold.log.log import Log
from taofold.policy import Policy
from taofold.runtime.model import ReplayModel
from taofold.tools import Tool, Toolset

_KEPT: Final = 256
"""Number of calling runs whose agents are kept."""
_DEEPEST: Final = 32
"""Most callers above a run. A log that was modified may contain a circle."""

MakeAgent: TypeAlias = Callable[[e.RunStarted], Agent[Any, Any]]
"""Returns the agent of a root run.

Raises:
    ConfigError: There is none. The message is one line for the user.
"""


@dataclass(frozen=True, slots=True)
class StoredDriver:
    """The agent that would drive a stored run now, and the policy that would apply to it.

    Args:
        agent: The agent, muted.
        policy: The policy with those of its callers.
    """

    agent: Agent[Any, Any]
    policy: Policy

    def handed_to(self, name: str) -> "StoredDriver":
        """Returns the driver of the same run after it was handed over to the agent `name`.

        Raises:
            ConfigError: The agent's team has no such agent now.
        """
        member = self.agent.team.get(name)
        if member is None:
            raise ConfigError(f"the agent {self.agent.name!r} hands over to no {name!r} now")
        if member is self.agent:
            return self
        tightened = self.policy.tightened(member.policy)
        return StoredDriver(member, tightened.covering(member.toolset.aliases))


class StoredAgents:
    """Finds the agents of stored runs.

    Args:
        log: The log that holds the runs.
        make: Returns the agent of a root run. It should return the same object for equal runs.
    """

    def __init__(self, log: Log, make: MakeAgent) -> None:
        self._log, self._make = log, make
        self._drivers: OrderedDict[int, tuple[object, StoredDriver]] = OrderedDict()
        """Drivers by the identity of their agents, which are held so that no identity is reused."""
        self._callers: OrderedDict[str, StoredDriver | ConfigError] = OrderedDict()
        self._children: OrderedDict[
            tuple[int, str, str, str], tuple[StoredDriver, StoredDriver]
        ] = OrderedDict()
        """Callers and their children, by the identity of the caller."""

    async def of(self, started: e.RunStarted, depth: int = 0) -> StoredDriver:
        """Returns the driver of the run that began with `started`.

        Raises:
            ConfigError: Its agent cannot be made, or its calling run is gone.
        """
        if not started.parent:
            return self._root(started)
        caller = await self._caller(started.parent, depth)
        words = str(started.settings.get("instructions", ""))
        key = id(caller), started.strategy, started.agent, words
        kept = self._children.get(key)
        if kept is None:
            kept = self._children[key] = caller, _child(caller, started)
            _forget(self._children)
        return kept[1]

    def _root(self, started: e.RunStarted) -> StoredDriver:
        agent = self._make(started)
        kept = self._drivers.get(id(agent))
        if kept is None:
            muted_agent = muted(agent)
            driver = StoredDriver(muted_agent, muted_agent.plan.policy)
            kept = self._drivers[id(agent)] = agent, driver
            _forget(self._drivers)
        return kept[1]

    async def _caller(self, run: str, depth: int) -> StoredDriver:
        kept = self._callers.get(run)
        if kept is None:
            kept = self._callers[run] = await self._driver_of(run, depth)
            _forget(self._callers)
        if isinstance(kept, ConfigError):
            raise ConfigError(str(kept))
        return kept

    async def _driver_of(self, run: str, depth: int) -> "StoredDriver | ConfigError":
        if depth > _DEEPEST:
            return ConfigError("its calling runs are a circle: the log was modified")
        try:
            first = await self._log.read(run, limit=1)
        except LookupError:
            first = []
        if not first or not isinstance(first[0].event, e.RunStarted):
            return ConfigError("its calling run is not in the log")
        try:
            return await self.of(first[0].event, depth + 1)
        except ConfigError as error:
            return error


def _forget(kept: OrderedDict[Any, Any]) -> None:
    while len(kept) > _KEPT:
        kept.popitem(last=False)


def _child(caller: StoredDriver, started: e.RunStarted) -> StoredDriver:
    """Returns the driver of a child run, under the policy of its caller.

    Raises:
        ConfigError: The caller's agent does not call this agent any more.
    """
    found: Agent[Any, Any] | None = None
    for name, member in caller.agent.team.items():
        below = [tool.agent for tool in member.toolset.values() if tool.agent is not None]
        found = next((callee for callee in below if callee.name == started.agent), None)
        # A tool that asks its run's own model has no agent of its own.
        if found is None and started.agent == name and started.strategy == "direct":
            instructions = started.settings.get("instructions", "")
            found = questioner(member, instructions if isinstance(instructions, str) else "")
        if found is not None:
            caller = caller.handed_to(name)
            break
    if found is None:
        raise ConfigError(f"the agent {caller.agent.name!r} does not call {started.agent!r} now")
    agent = found.replace(policy=caller.policy.tightened(found.policy))
    agent = muted(agent.replace(model=caller.agent.model, models=caller.agent.models))
    return StoredDriver(agent, agent.plan.policy)


def muted(agent: Agent[Any, Any]) -> Agent[Any, Any]:
    """Returns the agent with models and tools that cannot be called, and those of its team.

    Names, schemas and declarations stay the same, and so do its prompts.

    Raises:
        ConfigError: The agent cannot run as described.
    """
    return changed_team(agent, _muted_member)


def _muted_member(agent: Agent[Any, Any]) -> Agent[Any, Any]:
    judge = None if agent.grounding_judge is None else ReplayModel()
    return agent.replace(
        model=ReplayModel(),
        models={role: ReplayModel() for role in agent.models},
        grounding_judge=judge,
        tools=[Toolset([_muted_tool(tool) for tool in agent.lasting_tools])],
        discover=(),
        skills=(),
    )


def _muted_tool(tool: Tool) -> Tool:
    if tool.agent is not None:
        return tool
    return replace(tool, function=_refuse, verify=None, preview=None, renew=None)


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    raise TaofoldError("a tool was called while a run was replayed")

"""The agents of a server by name, and the agent of one run.

An agent is made once, with the server's log. A run with its own model, limits or client tools gets
a copy with these. A run that was started elsewhere can be continued if its agent can be made
(`Rebuild`). `facts_of` returns the facts about a tool for policies.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias, cast

from taofold.agent import Agent
from taofold.core.errors import ConfigError
from taofold.core.events import RunStarted
from taofold.log.log import Log
from taofold.policy import Budget, Facts, Limits, Policy
from taofold.policy.budgets import merged
from taofold.runtime.model import Model
from taofold.runtime.providers import resolve
from taofold.server.client_tools import CLIENT_TOOLS, tools_of
from taofold.tools import Tool

AnyAgent: TypeAlias = Agent[Any, Any]
Rebuild: TypeAlias = Callable[[RunStarted], AnyAgent | None]
"""Makes the agent of a run that no server started, or returns None."""

SETTINGS: Final = "server"
"""The server's key in `RunStarted.settings`."""
_DEEP: Final = 4
"""Maximum depth of nested agents to search."""


class Catalog:
    """Agents by name. The first one is the default."""

    def __init__(
        self,
        agents: Mapping[str, AnyAgent],
        log: Log,
        *,
        approve_seconds: float = 0.0,
        budgets: Sequence[Budget] = (),
        rebuild: Rebuild | None = None,
    ) -> None:
        if not agents:
            raise ConfigError("a server needs at least one agent")
        self._log, self._seconds, self._rebuild = log, approve_seconds, rebuild
        self._budgets = budgets
        self._agents = {name: self._prepared(agent, name) for name, agent in agents.items()}
        self._made: dict[str, AnyAgent] = {}
        self._policies: dict[str, list[Policy]] = {}
        for agent in self._agents.values():
            self._policies.setdefault(agent.name, []).append(agent.policy)

    @property
    def names(self) -> Sequence[str]:
        """The names of the served agents."""
        return tuple(self._agents)

    @property
    def known(self) -> Sequence[str]:
        """The agent names under which runs are recorded."""
        return tuple(self._policies)

    def __getitem__(self, name: str) -> AnyAgent:
        """Returns the agent `name`; "" = the first one. Raises KeyError."""
        return self._agents[self.name(name)]

    @property
    def secrets(self) -> frozenset[str]:
        """The known secrets of the served agents and their inner agents."""
        return frozenset[str]().union(*[agent.known_secrets() for agent in self._agents.values()])

    def policies(self, agent: str) -> Sequence[Policy]:
        """Returns the policies of the served agents whose runs are recorded under this name."""
        return self._policies.get(agent, ())

    def name(self, requested: str) -> str:
        """Returns the name for `requested`: "" is the first agent."""
        return requested or next(iter(self._agents))

    def ours(self, started: RunStarted) -> bool:
        """Returns whether a server with the same agent started the run."""
        return started.settings.get(SETTINGS, {}).get("agent") in self._agents

    def of(self, run: str, started: RunStarted) -> AnyAgent:
        """Returns the agent to continue a run with.

        Raises:
            ConfigError: This server does not have it.
        """
        if self.ours(started):
            settings = started.settings[SETTINGS]
            agent = self._agents[settings["agent"]]
            if not any([settings.get(key) for key in (CLIENT_TOOLS, "model", "limits")]):
                return agent
            if run not in self._made:
                changed = self.changed(agent, settings)
                definitions = settings.get(CLIENT_TOOLS)
                self._made[run] = self.with_tools(changed, definitions) if definitions else changed
            return self._made[run]
        # Cached until the run ends (`forget`), so that the agent is not built for each advance.
        if run not in self._made and self._rebuild is not None:
            rebuilt = self._rebuild(started)
            if rebuilt is not None:
                self._made[run] = self._prepared(rebuilt, rebuilt.name)
        if run not in self._made:
            raise ConfigError(
                f"this server does not offer the agent of run {run!r}: continue it where it began"
            )
        return self._made[run]

    def with_tools(self, agent: AnyAgent, definitions: Sequence[Mapping[str, Any]]) -> AnyAgent:
        """Returns the agent with the client tools that are stored with its run."""
        return agent.replace(tools=[*agent.tools, *tools_of(definitions)])

    def changed(self, agent: AnyAgent, settings: Mapping[str, Any]) -> AnyAgent:
        """Returns the agent with the model and the limits of one run.

        Raises:
            ConfigError: No served agent has the model.
        """
        changes: dict[str, Any] = {}
        if settings.get("limits"):
            # `Limits` has a default for steps; unnamed limits must not restrict the run.
            named: dict[str, Any] = {"steps": None, **settings["limits"]}
            bounds = Limits(**named)
            changes["limits"] = agent.limits.within(bounds)
        if settings.get("model"):
            models = {
                cast("Model", agent_of_model.model).name: agent_of_model
                for agent_of_model in self._agents.values()
            }
            # Only models of served agents: a model costs the operator's money and sees the data.
            if settings["model"] not in models:
                names = ", ".join(models)
                raise ConfigError(f"no model {settings['model']!r} is offered; there are {names}")
            changes["model"] = models[settings["model"]].model
        return agent.replace(**changes) if changes else agent

    def forget(self, run: str) -> None:
        """Drops the agent that was made for an ended run."""
        self._made.pop(run, None)

    def _prepared(self, agent: AnyAgent, name: str) -> AnyAgent:
        policy = agent.policy
        if self._seconds and not policy.approve_seconds:
            # Only if the agent's own policy does not set it.
            policy = replace(policy, approve_seconds=self._seconds)
        if self._budgets:
            policy = replace(policy, budgets=merged(policy.budgets, self._budgets))
        prepared = agent.replace(
            model=resolve(agent.model),
            models={role: resolve(model) for role, model in agent.models.items()},
            policy=policy,
            # Questions go to the inbox; the developer's own approver must not run in the server.
            approve=None,
            log=self._log,
            # A limit is an ending for clients, not an exception of the server.
            raise_on_limit=False,
            name=agent.name if agent.name != "agent" else name,
        )
        _ = prepared.toolset  # reports faults now
        return prepared


def facts_of(agent: AnyAgent, tool: str) -> Facts | None:
    """Returns the facts about a tool of the agent or its inner agents; None: unknown."""
    definition = _find(agent, tool, _DEEP)
    if definition is None:
        return None
    return Facts(definition.tier, definition.effect, definition.role, definition.definition)


def _find(agent: AnyAgent, name: str, depth: int) -> Tool | None:
    tools = agent.toolset
    if name in tools:
        return tools[name]
    if depth:
        for tool in tools.values():
            other: AnyAgent | None = tool.agent or tool.successor
            if other is not None:
                inner = _find(other, name, depth - 1)
                if inner is not None:
                    return inner
    return None

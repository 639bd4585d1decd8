"""The plan of an agent: the parts that all its runs share, made at its first run.

`Agent` holds values as the developer wrote them. Its plan holds what they resolve to: models, a
toolset, the function that makes the strategy, and limits and policy by the tools' own names.
Python, the command line, the server, loops and MCP all drive runs by the agent's plan.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from taofold.agent.options import JUDGE
from taofold.agent.project import EnteredFolders
from taofold.agent.strategies import find_strategy
from taofold.agent.unknown_names import warn_of_unknown_names
from taofold.core.effects import Strategy
from taofold.core.errors import ConfigError
from taofold.foreign_code import contained
from taofold.policy import Limits, Policy
from taofold.reasoning.task import Task
from taofold.runtime.approvers import approve_all, at_terminal
from taofold.runtime.hooks import Hook
from taofold.runtime.model import Model
from taofold.runtime.providers import resolve
from taofold.runtime.setup import Approver
from taofold.tools import Toolset

if TYPE_CHECKING:
    from taofold.agent.agent import Agent


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """An agent, ready to run. Made by `compile_plan` and kept in `Agent.plan`.

    Args:
        models: Models by role. `executor` is always present.
        strategy: The strategy's name in the log.
        make: Makes the strategy's generator from a task.
        tools: The agent's tools and the process's custom actions.
        limits: The agent's limits, by the tools' own names.
        policy: The agent's policy, by the tools' own names.
        hooks: Code around model and tool calls.
        approve: Approves actions. None lets a run wait.
        fixed: The fields of `Setup` that are the same in every run.
    """

    models: Mapping[str, Model]
    strategy: str
    make: Callable[[Task], Strategy[Any]]
    tools: Toolset
    limits: Limits
    policy: Policy
    hooks: tuple[Hook, ...]
    approve: Approver | None
    fixed: Mapping[str, Any]

    def check_prices(self, path: str) -> None:
        """Raises `ConfigError` if a model has no price, since a bound in dollars could not hold.

        Args:
            path: The option that bounds the dollars.
        """
        for model in self.models.values():
            with contained():
                price = model.price(1, 1)
            if price is None:
                raise ConfigError(
                    f"a bound in dollars needs the price of {model.name!r}, which is unknown: "
                    f"give it as Agent({{'model': {model.name!r}, 'prices': {{{model.name!r}: "
                    "(1.0, 2.0)}}, …), in dollars per million tokens of input and output",
                    path=path,
                )


def compile_plan(agent: "Agent[Any, Any]") -> AgentPlan:
    """Returns the plan of `agent`.

    Raises:
        ConfigError: The agent cannot run as described. An ExceptionGroup of several faults.
    """
    tools, (strategy, make) = agent.toolset, find_strategy(agent.strategy)
    warn_of_unknown_names(agent)
    approvers: dict[str, Approver] = {"terminal": at_terminal, "all": approve_all}
    approve = agent.approve
    output = agent.answer
    return AgentPlan(
        models=_models(agent),
        strategy=strategy,
        make=make,
        tools=tools,
        limits=agent.limits.covering(tools.aliases),
        policy=agent.policy.covering(tools.aliases),
        hooks=_hooks(agent),
        approve=approvers[approve] if isinstance(approve, str) else approve,
        fixed={
            "agent": agent.name,
            "redactor": agent.redactor,
            "cache": agent.replies if agent.cache else None,
            "settings": agent.model_settings,
            "on_denial": agent.on_denial,
            "ask_user": agent.ask_user,
            "finish": None if output.text else output.finish_schema(),
            "shown": output.shown,
            "offered": agent.offered,
        },
    )


def _hooks(agent: "Agent[Any, Any]") -> tuple[Hook, ...]:
    folder = agent.project_folder
    return tuple(agent.hooks) if folder is None else (*agent.hooks, EnteredFolders(folder))


def _models(agent: "Agent[Any, Any]") -> dict[str, Model]:
    options = {"base_url": agent.base_url} if agent.base_url else {}
    if options and not isinstance(agent.model, str):
        raise ConfigError(
            "goes with one model that is named; others have their own", path="base_url"
        )
    models = {"executor": resolve(agent.model, **options)}
    for role, spec in agent.models.items():
        models[role] = resolve(spec)
    if agent.grounding_judge is not None:
        models[JUDGE] = resolve(agent.grounding_judge)
    return models

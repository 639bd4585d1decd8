"""TAgent's front door: `run_agent(goal, model, tools)`, a thin layer over `Agent`.

Like there, tools run without asking; only tier 3 still waits for a person. The model may also
choose `plan`, `evaluate`, `summarize` and whatever `register_custom_action` added.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

from taofold.agent.agent import Agent
from taofold.agent.result import Happening, RunResult
from taofold.core import events as e
from taofold.core.errors import LimitReached
from taofold.log.log import Log
from taofold.policy import Limits, Policy
from taofold.reasoning import tagent
from taofold.reasoning.strategy_actions import SYSTEM_ACTIONS
from taofold.runtime.model import ModelSpec
from taofold.tools import Tool, as_tool
from taofold.tools.tool import external, make


class OverIterations(LimitReached):
    """`max_iterations` ended the run and `crash_if_over_iterations` was set."""


def run_agent(
    goal: str,
    model: ModelSpec,
    tools: Mapping[str, Callable[..., Any]] | Sequence[Any] = (),
    max_iterations: int = 20,
    output_format: type[Any] | None = None,
    *,
    verbose: bool = False,
    crash_if_over_iterations: bool = False,
    models: Mapping[str, ModelSpec] | None = None,
    log: Log | str | None = None,
    data: Mapping[str, Any] | None = None,
    **options: Any,
) -> RunResult[Any]:
    """Work on `goal` with `tools` for at most `max_iterations` steps.

    Args:
        goal: what to reach.
        model: `provider:model`, a model, or a list of fallbacks.
        tools: functions, or names and functions.
        max_iterations: steps; the last of them is the answer.
        output_format: the type of `result.output`; None means text.
        verbose: tell the steps on stderr.
        crash_if_over_iterations: raise `OverIterations` instead of returning what there is.
        models: other models by role.
        log: where the run is kept.
        data: the state's data at the start.
        options: more fields of `Agent`; `limits` must not be among them.

    Raises:
        OverIterations: only if asked for; its `result` holds the partial work.
    """
    # As in TAgent, where nothing asks; a policy of the caller's own is left as it is.
    options.setdefault("policy", Policy(autonomy="autonomous"))
    options.setdefault("strategy", tagent)
    agent: Agent[Any, Any] = Agent(
        model,
        tools=_tools(tools),
        output=output_format or str,
        limits=Limits(steps=max_iterations),
        models=models or {},
        log=log,
        **options,
    )
    if agent.strategy is tagent:
        agent = _with_system_actions(agent)
    result = agent.run_sync(goal, data=data, listener=_tell if verbose else None)
    if crash_if_over_iterations and result.stop_reason == "max_steps":
        raise OverIterations(f"the goal was not reached in {max_iterations} iterations", result)
    return result


def _tools(tools: Mapping[str, Callable[..., Any]] | Sequence[Any]) -> Sequence[Any]:
    if not isinstance(tools, Mapping):
        return tools
    return [_named_tool(name, function) for name, function in tools.items()]


def _with_system_actions(agent: Agent[Any, Any]) -> Agent[Any, Any]:
    """The agent with those of TAgent's own actions whose name none of its tools has."""
    tools, steps = agent.toolset, agent.limits.steps
    limits = agent.limits
    if steps and not any([tool.agent for tool in tools.values()]):
        # A decision may cost a second call, of the planner or the evaluator. (Set, it would
        # also count what child agents ask.)
        limits = replace(limits, model_calls=2 * steps + 3)
    names = [name for name in SYSTEM_ACTIONS if name not in tools]
    added = [_system(name) for name in names]
    strategy = partial(tagent, names=names)
    return agent.but(tools=(*agent.tools, *added), limits=limits, strategy=strategy)


def _system(name: str) -> Tool:
    """An action of the strategy, as it is offered; it is answered before it could be called."""
    steps = {"steps": {"type": "array", "items": {"type": "string"}}}
    properties = steps if name == "plan" else {}
    # Models add what they like to these; nothing of it is used but `steps`.
    schema = {"type": "object", "properties": properties, "additionalProperties": True}
    return external(name, SYSTEM_ACTIONS[name], schema, _unreachable, effect="read")


def _unreachable(parameters: dict[str, Any]) -> None:
    raise RuntimeError("the strategy answers this action itself")


def _named_tool(name: str, function: Callable[..., Any]) -> Tool:
    if isinstance(function, Tool):
        return replace(as_tool(cast("object", function)), name=name)
    return make(function, name=name)


def _tell(happening: Happening) -> None:
    """A line on stderr for what a person wants to follow; stdout is the result's."""
    event = happening.event if isinstance(happening, e.Record) else None
    match event:
        case e.Proposed():
            line = f"[{event.thought.type}] {event.thought.content}"
            calls = ", ".join([action.tool for action in event.actions])
            sys.stderr.write(f"{line}\n  -> {calls}\n")
        case e.Observed():
            observation = event.observation
            sys.stderr.write(f"  <- {observation.status}: {observation.extraction}\n")
        case e.RunFinished():
            sys.stderr.write(f"{event.status}: {event.stop_reason}\n")
        case _:
            pass

"""TAgent's front door: `run_agent(goal, model, tools)`, and its names for what is ours.

A thin layer over `Agent` for users of that library. Like there, tools run without asking;
only tier 3 still waits for a person.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, cast

from pydantic import BaseModel

from taofold.agent.agent import Agent
from taofold.agent.result import Happening, RunResult
from taofold.core import events as e
from taofold.core.chat import format_conversation_as_chat
from taofold.core.errors import LimitReached
from taofold.core.rules import detect_action_loop
from taofold.policy import Limits, Policy
from taofold.runtime.model import ModelSpec
from taofold.store.log import Log
from taofold.tools import Tool, as_tool
from taofold.tools.actions import register_custom_action
from taofold.tools.documentation import get_tool_documentation
from taofold.tools.make import make

__all__ = [
    "OverIterations",
    "StructuredResponse",
    "detect_action_loop",
    "format_conversation_as_chat",
    "get_tool_documentation",
    "register_custom_action",
    "run_agent",
]


class OverIterations(LimitReached):
    """`max_iterations` ended the run and `crash_if_over_iterations` was set."""


class StructuredResponse(BaseModel):
    """TAgent's decision: what to do next, with its parameters and the reason."""

    action: Literal["plan", "execute", "summarize", "evaluate"]
    params: dict[str, Any] = {}
    reasoning: str = ""


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
    options.setdefault("policy", Policy(autonomy="autonomous"))
    agent: Agent[Any, Any] = Agent(
        model,
        tools=_tools(tools),
        output=output_format or str,
        limits=Limits(steps=max_iterations),
        models=models or {},
        log=log,
        **options,
    )
    result = agent.run_sync(goal, data=data, listener=_tell if verbose else None)
    if crash_if_over_iterations and result.stop_reason == "max_steps":
        raise OverIterations(f"the goal was not reached in {max_iterations} iterations", result)
    return result


def _tools(tools: Mapping[str, Callable[..., Any]] | Sequence[Any]) -> Sequence[Any]:
    if not isinstance(tools, Mapping):
        return tools
    return [_named(name, function) for name, function in tools.items()]


def _named(name: str, function: Callable[..., Any]) -> Tool:
    if isinstance(function, Tool):
        return replace(as_tool(cast("object", function)), name=name)
    return make(function, name=name)


def _tell(happening: Happening) -> None:
    """A line on stderr for what a person wants to follow; stdout is the result's."""
    event = happening.event if isinstance(happening, e.Record) else None
    match event:
        case e.Proposed():
            said = f"[{event.thought.type}] {event.thought.content}"
            calls = ", ".join([action.tool for action in event.actions])
            sys.stderr.write(f"{said}\n  -> {calls}\n")
        case e.Observed():
            observation = event.observation
            sys.stderr.write(f"  <- {observation.status}: {observation.extraction}\n")
        case e.RunFinished():
            sys.stderr.write(f"{event.status}: {event.stop_reason}\n")
        case _:
            pass

"""`run_agent` with TAgent's arguments, and its tools: plain functions that may return a pair."""

import inspect
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial, wraps
from inspect import signature
from typing import Any, Final, cast

from taofold.agent.agent import Agent
from taofold.compat.tagent.config import TAgentConfig
from taofold.compat.tagent.model_names import AgentModelConfig, translated
from taofold.compat.tagent.result import TagentResult
from taofold.core import events as e
from taofold.core.errors import ConfigError, LimitReached
from taofold.core.happenings import Happening
from taofold.core.text import near, times
from taofold.log.log import Log
from taofold.policy import Limits, Policy
from taofold.reasoning import tagent
from taofold.reasoning.strategy_actions import SYSTEM_ACTIONS as OWN_ACTIONS
from taofold.runtime.model import ModelSpec
from taofold.tools import as_tool
from taofold.tools.context import Outcome, RunContext
from taofold.tools.result import stateful
from taofold.tools.tool import Tool, external, make


class OverIterations(LimitReached):
    """`max_iterations` ended the run and `crash_if_over_iterations` was set."""


def run_agent(
    goal: str,
    model: ModelSpec | AgentModelConfig | TAgentConfig | None = None,
    tools: Mapping[str, Callable[..., Any]] | Sequence[Any] | None = None,
    max_iterations: int | None = None,
    output_format: type[Any] | None = None,
    *,
    config: TAgentConfig | Mapping[str, Any] | None = None,
    verbose: bool = False,
    crash_if_over_iterations: bool = False,
    models: Mapping[str, ModelSpec] | None = None,
    log: Log | str | None = None,
    data: Mapping[str, Any] | None = None,
    api_key: str | None = None,
    **options: Any,
) -> TagentResult:
    """Works on a goal with TAgent's interface.

    Example:
        ```python
        from taofold import run_agent


        def words(path: str) -> int:
            "Counts the words of a file."
            return len(open(path).read().split())


        result = run_agent("Count the words of notes.txt.", "openai:gpt-5", {"words": words})
        print(result.output)
        ```

    Args:
        goal: The task.
        model: A model as taofold (`"openai:gpt-5"`) or LiteLLM (`"openrouter/qwen/qwen3"`) spells
            it, a list of fallbacks, or the models of the roles. A `TAgentConfig` here is `config`.
        tools: Functions, or a mapping of names to functions. A plain function may have a parameter
            `state`, and may return `(key, value)` for the state.
        max_iterations: Maximum steps, 20 by default. The last one may be the answer or `evaluate`,
            but not a tool.
        output_format: Type of `result.output`. None means text.
        config: Values of arguments that are not passed, also as a mapping. Its tools are added to
            `tools`.
        verbose: Prints the steps to stderr.
        crash_if_over_iterations: Raises `OverIterations` instead of returning a partial result.
        models: Other models by role.
        log: Stores the run.
        data: The state at the start.
        api_key: Key of the models that are given by name. None reads the environment.
        options: Further arguments of `Agent`, except `limits`.

    Returns:
        The result of the run.

    Raises:
        ConfigError: No model is named, taofold lacks its provider, `output_format` is a function,
            or an argument is unknown.
        OverIterations: Only with `crash_if_over_iterations`. Its `result` holds the partial work.
    """
    if isinstance(model, TAgentConfig):
        model, config = None, model
    _check_arguments(config, tools, options)
    if isinstance(config, Mapping):
        config = TAgentConfig.from_dict(dict(config))
    passed = TAgentConfig(
        max_iterations=20 if max_iterations is None else max_iterations,
        verbose=verbose,
        crash_if_over_iterations=crash_if_over_iterations,
        model=model,
        api_key=api_key,
        tools=tools,
        output_format=output_format,
    )
    settings = passed if config is None else config.merge(passed)
    if max_iterations is not None:
        settings = replace(settings, max_iterations=max_iterations)
    if inspect.isroutine(settings.output_format):
        raise ConfigError(
            "a type, not a function: use format_final_output(result.state.data, function)",
            path="output_format",
        )
    if settings.temperature is not None:
        options.setdefault("temperature", settings.temperature)
    # As in TAgent, which needs no approvals. A policy of the caller is kept.
    options.setdefault("policy", Policy(autonomy="autonomous"))
    options.setdefault("strategy", tagent)
    main, roles = _models(settings, models or {})
    agent: Agent[Any, Any] = Agent(
        main,
        tools=_tools(settings.tools),
        output=settings.output_format or str,
        limits=Limits(steps=settings.max_iterations),
        models=roles,
        log=log,
        **options,
    )
    if agent.strategy is tagent:
        agent = _with_system_actions(agent)
    ended = agent.run_sync(goal, data=data, listener=_tell if settings.verbose else None)
    values = {each.name: getattr(ended, each.name) for each in fields(ended)}
    if ended.stop_reason == "max_steps":
        values["error"] = ended.error.replace("raise limits.steps", "raise max_iterations")
    result = TagentResult(
        **values,
        typed=settings.output_format is not None,
    )
    if settings.crash_if_over_iterations and result.stop_reason == "max_steps":
        raise OverIterations(
            f"the goal was not reached in {times(settings.max_iterations, 'iteration')}", result
        )
    return result


_ARGUMENTS: Final = frozenset(signature(Agent).parameters) - {"output", "limits"}
"""Arguments of `Agent` that `run_agent` passes on."""
_INSTEAD: Final = {
    "limits": "pass max_iterations",
    "output": "pass output_format",
    "system_prompt": "pass instructions",
}


def _check_arguments(config: object, tools: object, options: Mapping[str, Any]) -> None:
    """Refuses arguments that `run_agent` cannot use."""
    if not isinstance(config, TAgentConfig | Mapping | None):
        raise ConfigError(
            f"a TAgentConfig or a mapping, not {type(config).__name__}", path="config"
        )
    if not isinstance(tools, Mapping | Sequence | None) or isinstance(tools, str):
        raise ConfigError(
            f"a list of functions, or a mapping of names to them, not {type(tools).__name__}",
            path="tools",
        )
    for name in options.keys() - _ARGUMENTS:
        known = (*_ARGUMENTS, *signature(run_agent).parameters)
        hint = _INSTEAD.get(name) or near(name, known)
        raise ConfigError(f"run_agent has no argument {name!r}{f'; {hint}' if hint else ''}")


def _models(
    settings: TAgentConfig, models: Mapping[str, ModelSpec]
) -> tuple[ModelSpec, dict[str, ModelSpec]]:
    """Returns the model and the models of other roles, with the key for those given by name."""
    model, key, roles = settings.model, settings.api_key, dict(models)
    if model is None:
        raise ConfigError(
            "no model is named: pass model='openai:gpt-5-mini', or config=TAgentConfig(model=…)"
        )
    if isinstance(model, AgentModelConfig):
        roles, key = {**model.roles(), **roles}, key or model.api_key
        model = model.tagent_model

    def keyed(spec: ModelSpec) -> ModelSpec:
        named = translated(spec)
        return {"model": named, "api_key": key} if key and isinstance(named, str) else named

    return keyed(model), {role: keyed(spec) for role, spec in roles.items()}


def _tools(tools: Mapping[str, Any] | Sequence[Any] | None) -> list[Any]:
    if isinstance(tools, Mapping):
        return [_named_tool(name, tool) for name, tool in tools.items()]
    return [_function_tool(each) if _is_function(each) else each for each in tools or ()]


def _named_tool(name: str, function: Callable[..., Any]) -> Tool:
    if _is_function(function):
        return _function_tool(function, name)
    return replace(as_tool(cast("object", function)), name=name)


def _is_function(tool: object) -> bool:
    if inspect.isroutine(tool) or isinstance(tool, partial):
        return True
    # An object with `__call__`. Tools, also those of other libraries, have a name.
    return callable(tool) and not isinstance(tool, type) and not hasattr(tool, "name")


_STATE: Final = ("state", "_state")


def _function_tool(function: Callable[..., Any], name: str | None = None) -> Tool:
    """Returns a plain function as a tool whose return value updates the state, as in TAgent."""
    try:
        parameters = list(signature(function).parameters.values())
    except (TypeError, ValueError):
        return make(function, name=name)  # raises with the reason
    if [each.name.lstrip("_") for each in parameters[:2]] == ["state", "args"]:
        return make(function, name=name)
    state = next((each.name for each in parameters if _takes_state(each)), None)
    if state is None:
        made = make(function, name=name)
        called: Callable[..., Any] = function
    else:
        called = _with_state(function, state, parameters)
        made = make(called, name=name)
    named = made.name

    @wraps(function)
    def updating(*args: Any, **kwargs: Any) -> Outcome | Awaitable[Outcome]:
        value = called(*args, **kwargs)
        return later(value) if inspect.isawaitable(value) else stateful(value, named)

    async def later(value: Awaitable[Any]) -> Outcome:
        return stateful(await value, named)

    return replace(made, function=updating)


def _takes_state(parameter: inspect.Parameter) -> bool:
    """Returns True for a parameter that TAgent fills with the state: `state: dict[str, Any]`."""
    hint = str(parameter.annotation).replace("typing.", "")
    is_mapping = parameter.annotation is dict or hint.startswith(("dict", "Dict", "Mapping", "Any"))
    return parameter.name in _STATE and is_mapping


def _with_state(
    function: Callable[..., Any], state: str, parameters: list[inspect.Parameter]
) -> Callable[..., Any]:
    """Returns `function` with a `RunContext` first in place of the parameter `state`."""

    def filled(context: RunContext[Any], *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs, **{state: {"goal": context.goal, **context.state}})

    first = inspect.Parameter(
        "context", inspect.Parameter.POSITIONAL_ONLY, annotation=RunContext[Any]
    )
    others = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    kept = [each for each in others if each.name != state]
    wrapped: Any = wraps(function)(filled)
    wrapped.__signature__ = inspect.Signature([first, *kept])
    return cast("Callable[..., Any]", wrapped)


def _with_system_actions(agent: Agent[Any, Any]) -> Agent[Any, Any]:
    """Returns the agent with TAgent's system actions, except those whose names its tools use."""
    tools, steps = agent.toolset, agent.limits.steps
    limits = agent.limits
    if steps and not any([tool.agent for tool in tools.values()]):
        # A decision may need a second call, to the planner or the evaluator. (A set limit would
        # also count calls of child agents.)
        limits = replace(limits, model_calls=2 * steps + 3)
    names = [name for name in OWN_ACTIONS if name not in tools]
    added = [_system(name) for name in names]
    strategy = partial(tagent, names=names)
    return agent.replace(tools=(*agent.tools, *added), limits=limits, strategy=strategy)


def _system(name: str) -> Tool:
    """Returns an action of the strategy as a tool. The strategy answers it before it is called."""
    steps = {"steps": {"type": "array", "items": {"type": "string"}}}
    properties = steps if name == "plan" else {}
    # Models add parameters to these at will. Only `steps` is used.
    schema = {"type": "object", "properties": properties, "additionalProperties": True}
    return external(name, OWN_ACTIONS[name], schema, _unreachable, effect="read")


def _unreachable(parameters: dict[str, Any]) -> None:
    raise RuntimeError("the strategy answers this action itself")


def _tell(happening: Happening) -> None:
    """Prints a line to stderr for display. stdout is for the result."""
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

"""Decisions, judgements and outputs for a program with a loop of its own.

`query_llm` asks for the next decision, `evaluate_goal_achievement` for a judgement, and
`format_final_output` converts a state to the result. Knows nothing about runs.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from pydantic import BaseModel, TypeAdapter

from taofold.agent.agent import Agent
from taofold.compat.tagent.model_names import translated
from taofold.core.errors import RunError
from taofold.reasoning import plan as planning
from taofold.runtime.model import ModelSpec
from taofold.tools.tool import get_tool_documentation
from taofold.tools.toolset import custom_actions

_ACTIONS: Final = ("plan", "execute", "summarize", "evaluate")
_SHOWN: Final = 8000
"""Maximum characters of the state in a decision prompt."""
_DECIDE: Final = """\
Goal: {goal}

State so far:
{state}

{tools}

Decide what comes next. "action" is one of {actions}. To run a tool choose "execute" with \
"params": {{"tool": "<name>", "args": {{…}}}}. Choose "evaluate" when the goal may be reached."""


class StructuredResponse(BaseModel):
    """A decision: plan, execute, summarize, evaluate or a custom action's name."""

    action: str
    params: dict[str, Any] = {}
    reasoning: str = ""


def query_llm(prompt: str, model: ModelSpec, **kwargs: Any) -> StructuredResponse:
    """Asks a model for a decision. It is asked again at most twice for an unreadable reply.

    Args:
        prompt: The context and the question.
        model: `"provider:model"`, a model, or a list of fallbacks.
        kwargs: Further arguments of `Agent` (temperature, max_tokens, instructions, …), and other
            parameters of the request as the provider documents them.

    Raises:
        RunError: No reply could be read. The message has the last fault.
    """
    decision: StructuredResponse = _ask(prompt, model, StructuredResponse, kwargs)
    return decision


def build_decision_prompt(
    state: Mapping[str, Any],
    tools: Mapping[str, Callable[..., Any]] | Sequence[Callable[..., Any]],
) -> str:
    """Returns a prompt with the goal, the state, the tools and the possible actions."""
    facts = {name: value for name, value in state.items() if name != "goal"}
    text = _render_state(facts)
    actions = ", ".join([f'"{name}"' for name in (*_ACTIONS, *custom_actions())])
    return _DECIDE.format(
        goal=state.get("goal", "(none)"),
        state=text,
        tools=get_tool_documentation(tools),
        actions=actions,
    )


def evaluate_goal_achievement(
    state: Mapping[str, Any], goal: str, model: ModelSpec, **kwargs: Any
) -> dict[str, Any]:
    """Lets a model judge from the state whether a goal is reached.

    Returns:
        A mapping with `achieved`, `reasoning`, `feedback`, `missing` and `suggestions`.

    Raises:
        RunError: No judgement could be read.
    """
    kwargs.setdefault("instructions", planning.EVALUATOR)
    question = planning.question(goal, _render_state(state))
    verdict: planning.Evaluation = _ask(question, model, planning.Evaluation, kwargs)
    return verdict.model_dump()


def format_final_output(
    state: Mapping[str, Any],
    output_format: type[Any] | Callable[[dict[str, Any]], Any] | None = None,
) -> Any:
    """Returns the state as `output_format`: a type made from the state's keys, or a function.

    None returns the state's data.

    Raises:
        pydantic.ValidationError: The state lacks data that the type needs.
    """
    data = dict(state)
    if output_format is None:
        return data
    if isinstance(output_format, type):
        return TypeAdapter(output_format).validate_python(data)
    return output_format(data)


_OPTIONS: Final = frozenset(inspect.signature(Agent).parameters)


def _ask(prompt: str, model: ModelSpec, type_: type[Any], parameters: dict[str, Any]) -> Any:
    options = {name: value for name, value in parameters.items() if name in _OPTIONS}
    others = {name: value for name, value in parameters.items() if name not in _OPTIONS}
    if others:
        options["extra"] = {**options.get("extra", {}), **others}
    agent: Agent[Any, Any] = Agent(translated(model), output=type_, strategy="direct", **options)
    result = agent.run_sync(prompt)
    if not result.success:
        raise RunError(result.error or f"no decision: {result.stop_reason}")
    return result.output


def _render_state(state: Mapping[str, Any]) -> str:
    # `enc_hook`: TAgent's states hold any Python object, and a prompt shows its text.
    text = msgspec.json.format(msgspec.json.encode(dict(state), enc_hook=str), indent=2).decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}\n[…{len(text) - _SHOWN} more]"

"""What a program with a loop of its own asks: the next decision, a judgement, the output."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from pydantic import BaseModel, TypeAdapter

from taofold.agent.agent import Agent
from taofold.core.errors import RunError
from taofold.reasoning import plan as planning
from taofold.runtime.model import ModelSpec
from taofold.tools.discovery import custom_actions
from taofold.tools.tool import get_tool_documentation

_ACTIONS: Final = ("plan", "execute", "summarize", "evaluate")
_SHOWN: Final = 8000
"""Characters of the state that a decision prompt shows."""
_DECIDE: Final = """\
Goal: {goal}

State so far:
{state}

{tools}

Decide what comes next. "action" is one of {actions}. To run a tool choose "execute" with \
"params": {{"tool": "<name>", "args": {{…}}}}. Choose "evaluate" when the goal may be reached."""


class StructuredResponse(BaseModel):
    """A decision: one of plan, execute, summarize, evaluate or a custom action's name."""

    action: str
    params: dict[str, Any] = {}
    reasoning: str = ""


def query_llm(prompt: str, model: ModelSpec, **kwargs: Any) -> StructuredResponse:
    """Ask `model` for a decision. A reply that cannot be read is corrected, three times at most.

    Args:
        prompt: the context and the question.
        model: `provider:model`, a model, or a list of fallbacks.
        kwargs: more fields of `Agent`: temperature, max_tokens, instructions, …

    Raises:
        RunError: no reply could be read; the message says what was wrong with the last one.
    """
    decision: StructuredResponse = _asked(prompt, model, StructuredResponse, kwargs)
    return decision


def build_decision_prompt(
    state: Mapping[str, Any],
    tools: Mapping[str, Callable[..., Any]] | Sequence[Callable[..., Any]],
) -> str:
    """The goal, the state, the tools and the actions to choose from, as a prompt."""
    facts = {name: value for name, value in state.items() if name != "goal"}
    text = _shown(facts)
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
    """Let `model` judge whether `goal` is reached, by the state alone.

    Returns a mapping with `achieved`, `reasoning`, `feedback`, `missing` and `suggestions`.

    Raises:
        RunError: no judgement could be read.
    """
    kwargs.setdefault("instructions", planning.EVALUATOR)
    question = planning.question(goal, _shown(state))
    verdict: planning.Evaluation = _asked(question, model, planning.Evaluation, kwargs)
    return verdict.model_dump()


def format_final_output(
    state: Mapping[str, Any],
    output_format: type[Any] | Callable[[Mapping[str, Any]], Any] | None = None,
) -> Any:
    """The state as `output_format`: a type that is made of the state's keys, or a function.

    None gives the state's data itself.

    Raises:
        pydantic.ValidationError: the state does not have what the type needs.
    """
    data = dict(state)
    if output_format is None:
        return data
    if isinstance(output_format, type):
        return TypeAdapter(output_format).validate_python(data)
    return output_format(data)


def _asked(prompt: str, model: ModelSpec, type_: type[Any], options: dict[str, Any]) -> Any:
    agent: Agent[Any, Any] = Agent(model, output=type_, strategy="direct", **options)
    result = agent.run_sync(prompt)
    if not result.success:
        raise RunError(result.error or f"no decision: {result.stop_reason}")
    return result.output


def _shown(state: Mapping[str, Any]) -> str:
    # `enc_hook`: TAgent's states hold any Python object; a prompt shows its text.
    text = msgspec.json.format(msgspec.json.encode(dict(state), enc_hook=str), indent=2).decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}\n[…{len(text) - _SHOWN} more]"

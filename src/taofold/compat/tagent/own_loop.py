"""TAgent's parts for a program with a loop of its own: a store, actions, decisions, a judgement.

`TagentStore` holds a state that changes through actions only; `query_llm` asks for the next
decision, `evaluate_goal_achievement` for a judgement; custom actions go to our own registry. The
functions are ours with the names and parameters of TAgent's document.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from copy import deepcopy
from typing import Any, Final

import msgspec
from pydantic import BaseModel, TypeAdapter

from taofold.agent.agent import Agent
from taofold.core import content
from taofold.core.errors import RunError
from taofold.core.values import Message
from taofold.log import store as records
from taofold.reasoning import plan as planning
from taofold.runtime.model import ModelSpec
from taofold.tools import discovery
from taofold.tools.discovery import custom_actions, forget_action
from taofold.tools.tool import Tool, get_tool_documentation, make

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
    decision: StructuredResponse = _ask(prompt, model, StructuredResponse, kwargs)
    return decision


def build_decision_prompt(
    state: Mapping[str, Any],
    tools: Mapping[str, Callable[..., Any]] | Sequence[Callable[..., Any]],
) -> str:
    """The goal, the state, the tools and the actions to choose from, as a prompt."""
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
    """Let `model` judge whether `goal` is reached, by the state alone.

    Returns a mapping with `achieved`, `reasoning`, `feedback`, `missing` and `suggestions`.

    Raises:
        RunError: no judgement could be read.
    """
    kwargs.setdefault("instructions", planning.EVALUATOR)
    question = planning.question(goal, _render_state(state))
    verdict: planning.Evaluation = _ask(question, model, planning.Evaluation, kwargs)
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


def _ask(prompt: str, model: ModelSpec, type_: type[Any], options: dict[str, Any]) -> Any:
    agent: Agent[Any, Any] = Agent(model, output=type_, strategy="direct", **options)
    result = agent.run_sync(prompt)
    if not result.success:
        raise RunError(result.error or f"no decision: {result.stop_reason}")
    return result.output


def _render_state(state: Mapping[str, Any]) -> str:
    # `enc_hook`: TAgent's states hold any Python object; a prompt shows its text.
    text = msgspec.json.format(msgspec.json.encode(dict(state), enc_hook=str), indent=2).decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}\n[…{len(text) - _SHOWN} more]"


class AgentState(BaseModel):
    """The state's data, as a program may look at it: a copy, changing it changes nothing."""

    data: dict[str, Any] = {}


class TagentStore:
    """State that changes only through `dispatch` and remembers how it came about.

    >>> store = TagentStore({"count": 1})
    >>> store.dispatch(lambda state: ("count", state["count"] + 1))
    >>> store.state.data["count"], store.travel(-1).data["count"]
    (2, 1)
    """

    def __init__(self, initial_state: Mapping[str, Any] | None = None) -> None:
        self.history = records.Store(initial_state)
        """The records behind the state."""
        self.tools: dict[str, Callable[..., Any]] = {}
        self.conversation_history: list[dict[str, str]] = []

    @property
    def state(self) -> AgentState:
        """The state now."""
        # A copy: TAgent's programs write into what they are given.
        return AgentState(data=deepcopy(dict(self.history.state.data)))

    def register_tool(self, name: str, tool_func: Callable[..., Any]) -> None:
        """Keep `tool_func` under `name`.

        Raises:
            ConfigError: the name is unsafe, or a model could not be offered this function.
        """
        make(tool_func, name=name)
        self.tools[name] = tool_func

    def dispatch(
        self,
        action_func: Callable[[dict[str, Any]], tuple[str, Any] | None],
        verbose: bool = False,
    ) -> None:
        """Run an action on a copy of the state's data and apply its `(key, value)`, if any.

        With `verbose` the update is told on stderr.
        """
        name = getattr(action_func, "__name__", "action")
        result = action_func(self.state.data)
        self._apply_reducer(result, name)
        if verbose:
            update = "no update" if result is None else f"{result[0]} = {result[1]!r}"
            sys.stderr.write(f"{name}: {update}\n")

    def travel(self, seq: int) -> AgentState:
        """The state after update number `seq`, from 0; -1 is the state before the first."""
        return AgentState(data=deepcopy(dict(self.history.travel(seq).data)))

    def rewind(self, seq: int) -> AgentState:
        """Go back to the state after update `seq`; later updates no longer count."""
        self.history.rewind(seq)
        return self.state

    def _apply_reducer(self, result: tuple[str, Any] | None, action: str = "") -> None:
        """Apply an update; None is none.

        Raises:
            ConfigError: it is no `(key, value)` pair.
        """
        self.history.dispatch(lambda _: result, name=action)


def register_custom_action(action_name: str, action_func: Callable[..., Any]) -> Tool:
    """`taofold.register_custom_action`."""
    return discovery.register_custom_action(action_name, action_func)


def format_conversation_as_chat(
    conversation_history: Iterable[Mapping[str, str] | Message],
) -> str:
    """`taofold.core.content.format_conversation_as_chat`."""
    return content.format_conversation_as_chat(conversation_history)


class _SystemActions(MutableMapping[str, Callable[..., Any]]):
    """What is registered for every agent of the process. Setting a name again replaces it.

    `plan`, `execute`, `evaluate` and `summarize` work without being listed here; an action
    registered under one of these names takes the place of the built-in one.
    """

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return custom_actions()[name]

    def __setitem__(self, name: str, action: Callable[..., Any]) -> None:
        before = custom_actions().get(name)
        forget_action(name)
        try:
            register_custom_action(name, action)
        except Exception:
            if before is not None:  # what cannot be used must not cost what could
                register_custom_action(name, before)
            raise

    def __delitem__(self, name: str) -> None:
        if name not in custom_actions():
            raise KeyError(name)
        forget_action(name)

    def __iter__(self) -> Iterator[str]:
        return iter(custom_actions())

    def __len__(self) -> int:
        return len(custom_actions())


SYSTEM_ACTIONS: Final[MutableMapping[str, Callable[..., Any]]] = _SystemActions()

"""TAgent's names over taofold's runtime.

A program written for TAgent changes its import and runs:

    from taofold.compat.tagent import Store, query_llm, run_agent

Most programs use only `run_agent(goal, model, tools)`, a thin layer over `Agent`. The rest is for
programs with their own loop. `Store` is a state that changes only through actions. `query_llm` asks
for the next decision, `evaluate_goal_achievement` for a judgement. `format_final_output` converts a
state to the result. `register_custom_action` and `SYSTEM_ACTIONS` register actions of the process.
`llm_client` and `LLM_PROVIDERS` are models with `completion(model, messages)`, and
`integrate_custom_llm` adds the caller's own. Errors are those of `taofold.core.errors`, also where
TAgent raises others or continues silently (an unreadable reply, a missing model).
"""

import inspect
import sys
from collections import UserDict
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, cast

import msgspec
from pydantic import BaseModel, TypeAdapter

from taofold.agent.agent import Agent
from taofold.agent.result import RunResult
from taofold.core import content
from taofold.core import events as e
from taofold.core.content import Conversation
from taofold.core.errors import ConfigError, LimitReached, ModelError, RunError
from taofold.core.happenings import Happening
from taofold.core.json_values import is_object
from taofold.core.rules import detect_action_loop
from taofold.core.text import times
from taofold.core.values import Message, ModelSettings, Profile, Reply
from taofold.log import run_store as records
from taofold.log.log import Log
from taofold.policy import Limits, Policy
from taofold.reasoning import plan as planning
from taofold.reasoning import tagent
from taofold.reasoning.strategy_actions import SYSTEM_ACTIONS as OWN_ACTIONS
from taofold.runtime.model import Model, ModelSpec, OnText, Request
from taofold.runtime.providers import forget_provider, register_provider, resolve
from taofold.tools import as_tool, toolset
from taofold.tools.threads import WORKERS, run_now
from taofold.tools.tool import Tool, external, get_tool_documentation, make
from taofold.tools.toolset import custom_actions, forget_action


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
    api_key: str | None = None,
    **options: Any,
) -> RunResult[Any]:
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
        model: `"provider:model"`, a model, or a list of fallbacks.
        tools: Functions, or a mapping of names to functions.
        max_iterations: Maximum steps. The last one may be the answer or `evaluate`, but not a tool.
        output_format: Type of `result.output`. None means text.
        verbose: Prints the steps to stderr.
        crash_if_over_iterations: Raises `OverIterations` instead of returning a partial result.
        models: Other models by role.
        log: Stores the run.
        data: The state at the start.
        api_key: Key of `model`, if it is given by name. None reads the environment.
        options: Further arguments of `Agent`, except `limits`.

    Returns:
        The result of the run.

    Raises:
        OverIterations: Only with `crash_if_over_iterations`. Its `result` holds the partial work.
    """
    # As in TAgent, which needs no approvals. A policy of the caller is kept.
    options.setdefault("policy", Policy(autonomy="autonomous"))
    options.setdefault("strategy", tagent)
    if api_key and isinstance(model, str):
        model = {"model": model, "api_key": api_key}
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
        raise OverIterations(
            f"the goal was not reached in {times(max_iterations, 'iteration')}", result
        )
    return result


def _tools(tools: Mapping[str, Callable[..., Any]] | Sequence[Any]) -> Sequence[Any]:
    if not isinstance(tools, Mapping):
        return tools
    return [_named_tool(name, function) for name, function in tools.items()]


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


def _named_tool(name: str, function: Callable[..., Any]) -> Tool:
    if isinstance(function, Tool):
        return replace(as_tool(cast("object", function)), name=name)
    return make(function, name=name)


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
    """Asks a model for a decision. An unreadable reply is corrected at most three times.

    Args:
        prompt: The context and the question.
        model: `"provider:model"`, a model, or a list of fallbacks.
        kwargs: Further arguments of `Agent`: temperature, max_tokens, instructions, …

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
    output_format: type[Any] | Callable[[Mapping[str, Any]], Any] | None = None,
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


def _ask(prompt: str, model: ModelSpec, type_: type[Any], options: dict[str, Any]) -> Any:
    agent: Agent[Any, Any] = Agent(model, output=type_, strategy="direct", **options)
    result = agent.run_sync(prompt)
    if not result.success:
        raise RunError(result.error or f"no decision: {result.stop_reason}")
    return result.output


def _render_state(state: Mapping[str, Any]) -> str:
    # `enc_hook`: TAgent's states hold any Python object, and a prompt shows its text.
    text = msgspec.json.format(msgspec.json.encode(dict(state), enc_hook=str), indent=2).decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}\n[…{len(text) - _SHOWN} more]"


class AgentState(BaseModel):
    """A copy of the state's data. Changes to it have no effect."""

    data: dict[str, Any] = {}


class TagentStore:
    """State that changes only through `dispatch` and keeps its history.

    Example:
        ```python
        from taofold.compat.tagent import TagentStore

        store = TagentStore({"count": 1})
        store.dispatch(lambda state: ("count", state["count"] + 1))
        print(store.state.data["count"], store.travel(-1).data["count"])  # 2 1
        ```
    """

    def __init__(self, initial_state: Mapping[str, Any] | None = None) -> None:
        self.history = records.Store(initial_state)
        """The records behind the state."""
        self.tools: dict[str, Callable[..., Any]] = {}
        self.conversation_history: list[dict[str, str]] = []

    @property
    def state(self) -> AgentState:
        """The current state."""
        # A copy, because TAgent's programs write into it.
        return AgentState(data=deepcopy(dict(self.history.state.data)))

    def register_tool(self, name: str, tool_func: Callable[..., Any]) -> None:
        """Registers a tool under `name`.

        Raises:
            ConfigError: The name is unsafe, or a model cannot use the function.
        """
        make(tool_func, name=name)
        self.tools[name] = tool_func

    def dispatch(
        self,
        action_func: Callable[[dict[str, Any]], tuple[str, Any] | None],
        verbose: bool = False,
    ) -> None:
        """Runs an action on a copy of the state's data and applies its `(key, value)`, if any.

        `verbose` prints the update to stderr.
        """
        name = getattr(action_func, "__name__", "action")
        result = action_func(self.state.data)
        self._apply_reducer(result, name)
        if verbose:
            update = "no update" if result is None else f"{result[0]} = {result[1]!r}"
            sys.stderr.write(f"{name}: {update}\n")

    def travel(self, seq: int) -> AgentState:
        """Returns the state after update number `seq`, from 0. -1 is the state before the first."""
        return AgentState(data=deepcopy(dict(self.history.travel(seq).data)))

    def rewind(self, seq: int) -> AgentState:
        """Returns to the state after update `seq`. Later updates no longer count."""
        self.history.rewind(seq)
        return self.state

    def _apply_reducer(self, result: tuple[str, Any] | None, action: str = "") -> None:
        """Applies an update. None changes nothing.

        Raises:
            ConfigError: The update is not a `(key, value)` pair.
        """
        self.history.dispatch(lambda _: result, name=action)


def register_custom_action(action_name: str, action_func: Callable[..., Any]) -> Tool:
    """`taofold.register_custom_action`."""
    return toolset.register_custom_action(action_name, action_func)


def format_conversation_as_chat(
    conversation_history: Iterable[Mapping[str, str] | Message],
) -> str:
    """`taofold.core.content.format_conversation_as_chat`."""
    return content.format_conversation_as_chat(conversation_history)


class _SystemActions(MutableMapping[str, Callable[..., Any]]):
    """The actions of every agent of the process. Setting a name again replaces it.

    `plan`, `execute`, `evaluate` and `summarize` work without an entry. An entry with one of these
    names replaces the built-in action.
    """

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return custom_actions()[name]

    def __setitem__(self, name: str, action: Callable[..., Any]) -> None:
        before = custom_actions().get(name)
        forget_action(name)
        try:
            register_custom_action(name, action)
        except Exception:
            if before is not None:  # an invalid action must not remove the previous one
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


_PROFILE: Final = Profile()


@dataclass(frozen=True, slots=True)
class Completion:
    """A client's answer: the text, and the model that wrote it."""

    content: str
    model: str = ""


class Client:
    """Any taofold model with TAgent's call."""

    def completion(
        self, model: ModelSpec, messages: Sequence[Mapping[str, str]], **options: Any
    ) -> Completion:
        """Calls `model` once. `options` are fields of `ModelSettings`, such as temperature.

        Raises:
            ConfigError: There is no such model.
            ModelError: The provider failed after retries.
        """
        named = resolve(model)
        sent = [
            _message(message.get("role", "user"), message.get("content", ""))
            for message in messages
        ]
        settings = ModelSettings.of(options)
        reply = run_now(named.complete(Request(Conversation(sent), overrides=settings)))
        return Completion(reply.text, reply.model or named.name)


llm_client: Final = Client()


class CompletionModel:
    """The caller's own client, with `completion(model=, messages=)`, as a model.

    The reply may be text, an object with `content`, or one with `choices` as in OpenAI's format.
    """

    def __init__(self, name: str, model: str, client: Any) -> None:
        self.name, self.model, self.client = name, model, client
        self.profile = _PROFILE

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        """Calls the client once, in a worker thread."""
        messages = [{"role": m.role, "content": m.text} for m in request.conversation]
        # Only set options, because the caller's client may accept none.
        options: dict[str, Any] = {}
        settings = request.asked()
        if settings.temperature is not None:
            options["temperature"] = settings.temperature
        if settings.max_tokens:
            options["max_tokens"] = settings.max_tokens

        def ask() -> Any:
            return self.client.completion(model=self.model, messages=messages, **options)

        try:
            # In a worker, because TAgent's clients block.
            answer: Any = await WORKERS.run(ask)
        except Exception as error:
            # Any exception counts as a failed model, so the run may try another one.
            raise ModelError(f"{self.name}: {type(error).__name__}: {error}") from error
        text = _text(answer)
        if text is None:
            raise ModelError(f"{self.name} answered without text: {answer!r}", kind="reply")
        if on_text is not None:
            on_text(text)
        return Reply(text, model=self.name)

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        """Returns None: the price is unknown."""
        return None


def integrate_custom_llm(provider_name: str, client_class: Callable[..., Any]) -> None:
    """Registers the caller's own client or model as `provider_name:model`.

    `client_class` is called with the model's name, or without arguments if it takes none. It must
    return a client with `completion(model=…, messages=…)`, as in TAgent, or a taofold model.

    Raises:
        ConfigError: The name is unsafe, or `client_class` cannot be called.
    """

    def factory(model: str, **options: Any) -> Model:
        named = () if _takes_nothing(client_class) else (model,)
        client = client_class(*named, **options)
        if callable(getattr(client, "complete", None)):
            return cast("Model", client)
        if callable(getattr(client, "completion", None)):
            return CompletionModel(f"{provider_name}:{model}", model, client)
        raise ConfigError(
            f"provider {provider_name!r} made {client!r}, which has neither complete nor completion"
        )

    if not callable(client_class):
        raise ConfigError(f"provider {provider_name!r} must be a class, not {client_class!r}")
    register_provider(provider_name, factory)
    # Into `data`, because setting the item would register it again.
    LLM_PROVIDERS.data[provider_name] = client_class


def _takes_nothing(client_class: Callable[..., Any]) -> bool:
    try:
        # C classes have no readable signature. They get the name.
        return not inspect.signature(client_class).parameters
    except (TypeError, ValueError):
        return False


class _Providers(UserDict[str, Callable[..., Any]]):
    """The caller's own providers. Setting a name registers it, deleting it removes it."""

    def __setitem__(self, name: str, client_class: Callable[..., Any]) -> None:
        integrate_custom_llm(name, client_class)

    def __delitem__(self, name: str) -> None:
        del self.data[name]
        forget_provider(name)


LLM_PROVIDERS: Final = _Providers()


def _message(role: str, content: str) -> Message:
    match role:
        case "system" | "user" | "assistant":
            return Message(role, content)
        case _:
            raise ConfigError(f"a message is of system, user or assistant, not of {role!r}")


def _text(answer: Any) -> str | None:
    """Returns the text of a client's answer in any known form, or None."""
    content: Any = answer if isinstance(answer, str) else _part(answer, "content")
    choices: Any = _part(answer, "choices")
    if content is None and choices:
        content = _part(_part(choices[0], "message"), "content")
    return content if isinstance(content, str) else None


def _part(thing: Any, name: str) -> Any:
    return thing.get(name) if is_object(thing) else getattr(thing, name, None)


Store = TagentStore

__all__ = [
    "LLM_PROVIDERS",
    "SYSTEM_ACTIONS",
    "AgentState",
    "OverIterations",
    "Store",
    "StructuredResponse",
    "build_decision_prompt",
    "detect_action_loop",
    "evaluate_goal_achievement",
    "format_conversation_as_chat",
    "format_final_output",
    "get_tool_documentation",
    "integrate_custom_llm",
    "llm_client",
    "query_llm",
    "register_custom_action",
    "run_agent",
]

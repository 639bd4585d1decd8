"""LangChain tools in taofold, and taofold tools and agents in LangChain.

    Agent("openai:gpt-5", tools=[ReadFileTool(root_dir="notes")])          # as they are
    Agent("openai:gpt-5", tools=[*tools_of(toolkit, reads=["read_file"]).values()])

`tool_of` and `tools_of` convert LangChain tools. LangChain omits injected parameters
(`InjectedToolArg`, `ToolRuntime`, `RunnableConfig` …) from the schema for the model, but accepts
them in a call. Here their names and aliases are refused. LangGraph's `interrupt()` in a tool asks
the user. It reads its answers from the call's configuration and raises if one is missing; the tool
is then called again from its beginning, as in a graph. Earlier answers are in the run's log, so
another process can continue.

`langchain_tool` is the other direction. Any reason that prevents a call becomes an error message to
the model, because LangChain's agents end if a tool raises an exception.

LangChain tools are recognized by their attributes. The package is imported only by
`langchain_tool`.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

import asyncio
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, cast, get_args

from pydantic import BaseModel, create_model

from taofold.agent import Agent
from taofold.bridges.foreign_tools import foreign_tool, foreign_tools, own_arun, require
from taofold.core.errors import ConfigError
from taofold.core.json_values import render
from taofold.core.text import error_text
from taofold.core.values import Sideeffect, Tier
from taofold.foreign_code import contained
from taofold.tools import (
    BadArguments,
    Bound,
    InputRequired,
    Outcome,
    PersonAnswer,
    RunContext,
    Tool,
    Toolset,
    as_tool,
)
from taofold.tools.result import jsonable
from taofold.tools.schema_check import SchemaCheck
from taofold.tools.threads import WORKERS, run_now

# LangChain tools are recognized by their attributes, so they have no types here.


SINGLE: Final[dict[str, Any]] = {"tool_input": {"type": "string"}}
"""`Tool.args` of the legacy tool that takes one string and has no schema."""
_SUPPLIED: Final = frozenset({"callbacks", "config", "run_manager"})
"""Arguments that LangChain passes to a function by name."""
_CALL_ID: Final = "InjectedToolCallId"
_MARKS: Final = ("Injected", "ToolRuntime")
"""Names in annotations that LangChain cannot resolve. It would show such a parameter to the
model."""


@dataclass(frozen=True, slots=True)
class LangChainParameters:
    """The parameters of one LangChain tool.

    `offered` is a Pydantic model or a JSON Schema without injected parameters. `injected` maps the
    parameters that no model may write to the names under which they are passed; `forbidden` adds
    all their aliases. `needed` are those that the tool requires.
    """

    offered: Any
    injected: Mapping[str, str] = field(default_factory=dict[str, str])
    forbidden: frozenset[str] = frozenset()
    needed: tuple[str, ...] = ()


def parameters_of(thing: Any) -> LangChainParameters:
    """Reads the schema of a LangChain tool.

    Raises:
        ConfigError: An injected parameter is nested in another one, where LangChain shows it to the
            model.
    """
    if thing.args_schema is None and dict(thing.args) == SINGLE:
        return LangChainParameters(
            {"type": "object", "properties": SINGLE, "required": ["tool_input"]}
        )
    schema = thing.tool_call_schema
    return _of_schema(thing, schema) if isinstance(schema, dict) else _of_model(thing, schema)


def _of_schema(thing: Any, schema: dict[str, Any]) -> LangChainParameters:
    marked = _marked(thing)
    properties: Mapping[str, Any] = schema.get("properties", {})
    return LangChainParameters(
        _without(schema, marked & properties.keys()),
        {name: name for name in marked},
        # A schema may define its own parameter `config`; then the model may write it.
        frozenset(marked | (_SUPPLIED - properties.keys())),
        tuple(sorted(name for name in marked if _required(thing, name))),
    )


def _of_model(thing: Any, model: Any) -> LangChainParameters:
    fields: Mapping[str, Any] = getattr(thing.get_input_schema(), "model_fields", {})
    own: Mapping[str, Any] = getattr(model, "model_fields", {})
    configured = {name for name, field in fields.items() if _is_config(field.annotation)}
    # LangChain only omits a hidden field from the schema, which is no protection.
    hidden = {*_marked(thing), *configured, *(fields.keys() - own.keys())}
    _refuse_nested(thing, own, hidden)
    needed = [
        name
        for name in sorted(hidden - configured)
        if (name in fields and fields[name].is_required() and _CALL_ID not in repr(fields[name]))
        or (name not in fields and _required(thing, name))
    ]
    return LangChainParameters(
        _subset(model, hidden),
        {name: getattr(fields.get(name), "alias", None) or name for name in hidden},
        frozenset(_aliased(hidden, fields)),
        tuple(needed),
    )


def _marked(thing: Any) -> set[str]:
    """Returns the function's injected parameters: LangChain's list and those it cannot resolve."""
    names: set[str] = {str(name) for name in getattr(thing, "_injected_args_keys", ())}
    for name, parameter in _signature(thing).items():
        if isinstance(parameter.annotation, str) and any(
            mark in parameter.annotation for mark in _MARKS
        ):
            names.add(name)
    return names


def _required(thing: Any, name: str) -> bool:
    parameter = _signature(thing).get(name)
    if parameter is None or _CALL_ID in repr(parameter.annotation):
        return False
    return parameter.default is inspect.Parameter.empty


def _signature(thing: Any) -> Mapping[str, inspect.Parameter]:
    function = getattr(thing, "func", None) or getattr(thing, "coroutine", None) or thing._run
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}


def _is_config(annotation: Any) -> bool:
    """Returns whether a type is LangChain's `RunnableConfig`, optionally with None.

    It is passed with the call.
    """
    if getattr(annotation, "__name__", "") == "RunnableConfig":
        return str(getattr(annotation, "__module__", "")).startswith("langchain_core.")
    return any(_is_config(option) for option in get_args(annotation))


def _aliased(names: set[str], fields: Mapping[str, Any]) -> Iterator[str]:
    """Yields the names and all their Pydantic aliases."""
    for name in names:
        yield name
        info = fields.get(name)
        for alias in (getattr(info, "alias", None), getattr(info, "validation_alias", None)):
            for choice in getattr(alias, "choices", None) or [alias]:
                path = getattr(choice, "path", None)
                first = path[0] if path else choice
                if isinstance(first, str):
                    yield first


def _refuse_nested(thing: Any, fields: Mapping[str, Any], hidden: set[str]) -> None:
    for name, info in fields.items():
        if name not in hidden and (within := _nested(info.annotation, set())):
            raise ConfigError(
                f"the LangChain tool {thing.name!r} has the injected parameter {within!r} within "
                f"{name!r}, where LangChain shows it to the model: make it one of the tool's own"
            )


def _nested(annotation: Any, visited: set[int]) -> str:
    """Returns the name of an injected field within a type; "" if there is none."""
    # Models may refer to themselves.
    if id(annotation) in visited:
        return ""
    visited.add(id(annotation))
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, info in annotation.model_fields.items():
            if any(mark in repr(info.metadata) for mark in _MARKS):
                return name
            if path := _nested(info.annotation, visited):
                return path
        return ""
    return next((path for part in get_args(annotation) if (path := _nested(part, visited))), "")


def _subset(model: Any, hidden: set[str]) -> Any:
    """Returns the model without these fields, or its JSON Schema if it is no Pydantic 2 model."""
    fields: Mapping[str, Any] = getattr(model, "model_fields", {})
    if not hidden & set(fields):
        return model
    subset: dict[str, Any] = {
        name: (info.annotation, info) for name, info in fields.items() if name not in hidden
    }
    return create_model(model.__name__, __doc__=model.__doc__, **subset)


def _without(schema: dict[str, Any], hidden: set[str]) -> dict[str, Any]:
    if not hidden:
        return schema
    properties = {k: v for k, v in schema.get("properties", {}).items() if k not in hidden}
    required = [name for name in schema.get("required", ()) if name not in hidden]
    return {**schema, "properties": properties, "required": required}


Inject = Mapping[str, Callable[[RunContext[Any]], Any]]


def tool_of(
    thing: Any,
    *,
    name: str = "",
    tier: int | None = None,
    effect: Sideeffect | None = None,
    inject: Inject | None = None,
    **options: Any,
) -> Tool:
    """Returns a LangChain tool as a taofold tool, which checks the arguments, also of a dict
    schema.

    An error that it raises (`ToolException`) or handles (`handle_tool_error`) is a failed
    observation. LangGraph's `interrupt()` is a question to the user.

    Args:
        thing: The LangChain tool.
        name: A name that replaces its own.
        tier: Tier of approval. Default: 1 for reads, else 2.
        effect: Effect of a repeated call. Default: "once".
        inject: Values for its injected parameters, made from the call's context, as
            `{"user": lambda ctx: ctx.principal.id}`. No model can write these parameters.
        **options: Options of `taofold.tool`.

    Raises:
        ConfigError: The tool needs an injected parameter that `inject` lacks, or it ends the
            agent's run itself (`return_direct`).
    """
    parameters = parameters_of(thing)
    supplied = dict(inject or {})
    _refuse(thing, parameters, supplied)

    async def perform(ctx: RunContext[Any], arguments: dict[str, Any]) -> Outcome:
        injected = {parameters.injected[key]: value(ctx) for key, value in supplied.items()}
        return await call(thing, ctx, {**arguments, **injected})

    return foreign_tool(
        name or str(thing.name),
        str(thing.description or ""),
        parameters.offered,
        perform,
        toolset="langchain",
        forbidden=parameters.forbidden,
        tier=tier,
        effect=effect,
        **options,
    )


def tools_of(
    things: object, *, reads: Iterable[str] = (), prefix: str = "", **options: Any
) -> Toolset:
    """Returns the tools of a toolkit or a list. Tools named in `reads` have the effect "read"."""
    return foreign_tools(things, tool_of, reads, prefix, **options)


def _refuse(thing: Any, parameters: LangChainParameters, supplied: Mapping[str, object]) -> None:
    if odd := supplied.keys() - parameters.injected.keys():
        raise ConfigError(
            f"inject: the LangChain tool {thing.name!r} has no injected parameter "
            f"{', '.join(map(repr, sorted(odd)))}"
        )
    if missing := [name for name in parameters.needed if name not in supplied]:
        raise ConfigError(
            f"the LangChain tool {thing.name!r} needs {', '.join(map(repr, missing))} injected, "
            f"as LangGraph does: give tool_of(…, inject={{{missing[0]!r}: lambda ctx: …}})"
        )
    if getattr(thing, "return_direct", False):
        raise ConfigError(
            f"the LangChain tool {thing.name!r} has return_direct=True: it would end the run with "
            "its own output as the answer. Here the agent answers: set return_direct to False"
        )


# Content blocks are JSON of any shape; messages are recognized by their attributes.


_DATA: Final = re.compile(
    r"(?:data:([\w.+-]+/[\w.+-]+)[\w;=.+-]*,)?([A-Za-z0-9+/_-]{200,}={0,2})\s*"
)
"""Base64 data, optionally as a `data:` URL, which is not shown to a model."""


def outcome_of(returned: Any) -> Outcome:
    """Returns the outcome for a `ToolMessage`, a LangGraph `Command`, a list of both, or a
    value.
    """
    if is_command(returned):
        return _commanded(returned)
    if isinstance(returned, list) and any(map(_is_output, returned)):
        return _joined([outcome_of(item) for item in returned])
    message: Any = returned
    if not is_message(message):
        return Outcome(message)
    failed = getattr(message, "status", "success") == "error"
    return Outcome(_content(message.content), "failure" if failed else "success")


def is_message(value: Any) -> bool:
    """Returns whether a value is a LangChain message."""
    return hasattr(value, "content") and hasattr(value, "tool_call_id")


def is_command(value: Any) -> bool:
    """Returns whether a value is LangGraph's `Command`."""
    return type(value).__name__ == "Command" and all(
        hasattr(value, name) for name in ("update", "goto", "resume", "graph")
    )


def _is_output(value: Any) -> bool:
    return is_command(value) or is_message(value)


def _commanded(command: Any) -> Outcome:
    """Returns a `Command` as an outcome: its messages are the result, one state key an update.

    All other parts need a graph and are listed in the result. The tool has already run, so the
    status is then `partial`: after a failure the model would repeat the call.
    """
    update: Any = command.update
    pairs = list(update.items()) if isinstance(update, Mapping) else list(update or ())
    messages = [message for key, value in pairs if key == "messages" for message in _listed(value)]
    state = [(str(key), value) for key, value in pairs if key != "messages"]
    update_of_state = state[0] if len(state) == 1 else None
    joined = _joined([outcome_of(message) for message in messages])
    value = joined.value if messages else "done"
    ignored = _unfollowed(command, [key for key, _ in state])
    if not ignored:
        return Outcome(value, joined.status, update=update_of_state)
    note = f"(It ran. Only a LangGraph graph can follow its Command: {'; '.join(ignored)}.)"
    return Outcome(f"{value}\n{note}", "partial", update=update_of_state)


def _unfollowed(command: Any, state_keys: Sequence[str]) -> list[str]:
    """Returns the parts of a command that only a graph can follow."""
    ignored = [f"goto={command.goto!r}"] if command.goto else []
    ignored += [f"{word}=…" for word in ("graph", "resume") if getattr(command, word) is not None]
    if len(state_keys) > 1:
        ignored.append(f"updates of {', '.join(state_keys)}")
    return ignored


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _joined(outcomes: list[Outcome]) -> Outcome:
    if len(outcomes) == 1:
        return outcomes[0]
    failed = any(outcome.status == "failure" for outcome in outcomes)
    text = "\n".join(str(outcome.value) for outcome in outcomes)
    update = next((outcome.update for outcome in outcomes if outcome.update is not None), None)
    return Outcome(text, "failure" if failed else "success", update=update)


def _content(content: Any) -> Any:
    """Returns text unchanged and blocks as text; parts without text get a short description."""
    if not isinstance(content, list):
        return content
    return "\n".join(text for block in content if (text := _block(block)))


def _block(block: Any) -> str:
    if isinstance(block, str):
        return block
    if not isinstance(block, Mapping):
        return str(block)
    if isinstance(text := block.get("text"), str):
        return text
    kind = str(block.get("type", "block")).removesuffix("_url")
    facts = [*_facts(block)]
    return f"[{', '.join([kind, *facts])}]"


def _facts(block: Mapping[Any, Any]) -> Iterable[str]:
    """Yields the facts about a block: media type, size in bytes, address, name."""
    for key, value in block.items():
        if isinstance(value, Mapping):
            yield from _facts(value)
        elif not isinstance(value, str) or key in ("type", "source_type"):
            continue
        elif key in ("base64", "data") or _DATA.fullmatch(value):
            match = _DATA.fullmatch(value)
            if match is not None and match[1]:
                yield match[1]
            # Four characters of base64 are three bytes.
            yield f"{len(value.rpartition(',')[2].rstrip('=')) * 3 // 4} bytes"
        else:
            yield value[:200]


# LangChain tools and LangGraph interrupts are recognized by their attributes and have no types
# here.


_OWN: Final = "langchain_core."
_STATE: Final = "langgraph_resume"
_ANSWER: Final = "answer"
_PRIVATE: Final = "__pregel_"
"""Prefix of configuration keys that only LangGraph's graphs set."""


async def call(thing: Any, ctx: RunContext[Any], parameters: dict[str, Any]) -> Outcome:
    """Calls the tool once, with the model's parameters and the injected ones.

    Raises:
        InputRequired: The tool interrupts itself with a question.
    """
    answers, declined = _answers(ctx.answer)
    if declined is not None:
        return declined
    request = {
        "type": "tool_call",
        "name": thing.name,
        "args": parameters,
        "id": ctx.effect_id or "call",
    }
    config = {"configurable": _configurable(answers)}
    try:
        if _only_sync(thing):
            # Runs on taofold's worker threads: `ainvoke` would use the event loop's threads, which
            # delay the end of the process.
            returned = await WORKERS.run(lambda: thing.invoke(request, config))
        else:
            returned = await thing.ainvoke(request, config)
    except Exception as error:
        if _is_interrupt(error):
            raise _question(error, answers) from error
        # The tool reads another key that only a LangGraph graph sets.
        if isinstance(error, KeyError) and str(error.args[0]).startswith(_PRIVATE):
            return Outcome("the tool needs the runtime of a LangGraph graph", "failure")
        raise
    return outcome_of(returned)


def _only_sync(thing: Any) -> bool:
    """Returns whether the tool has no coroutine of its own."""
    return getattr(thing, "coroutine", None) is None and not own_arun(thing, _OWN)


class _Scratchpad:
    """Replaces LangGraph's `PregelScratchpad`, which `interrupt()` reads from the configuration."""

    def __init__(self, answers: list[Any]) -> None:
        self.resume = answers
        self.step = self.stop = 0
        self.interrupt_counter: Callable[[], int] = count().__next__
        self.call_counter: Callable[[], int] = count().__next__
        self.subgraph_counter: Callable[[], int] = count().__next__

    def get_null_resume(self, consume: bool = False) -> None:
        """Returns None: every interrupt has its own answer here, and none is for any interrupt."""
        del consume


def _configurable(answers: list[Any]) -> dict[str, Any]:
    return {
        f"{_PRIVATE}scratchpad": _Scratchpad(list(answers)),
        f"{_PRIVATE}send": _ignored,
        "checkpoint_ns": "",
    }


def _ignored(writes: Any) -> None:
    """Ignores a graph's record of an answered question: the run's log has it."""
    del writes


def _is_interrupt(error: Exception) -> bool:
    return any(
        kind.__name__ == "GraphInterrupt" and kind.__module__.startswith("langgraph.")
        for kind in type(error).__mro__
    )


def _question(error: Exception, answers: list[Any]) -> InputRequired:
    first = error.args[0][0]
    value, schema = first.value, getattr(first, "response_schema", None)
    text = value if isinstance(value, str) else json.dumps(jsonable(value), ensure_ascii=False)
    # All earlier answers, because the next call of the tool meets every `interrupt` again.
    state = {_STATE: answers, "question": text, "schema": schema}
    return InputRequired(text, form=_form(schema), state=state)


def _form(schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns the form of an answer: the schema of `interrupt`, else one field for text or JSON."""
    if schema and schema.get("type") == "object":
        return dict(schema)
    field = dict(schema or {})  # without a schema any value is accepted
    return {"type": "object", "properties": {_ANSWER: field}, "required": [_ANSWER]}


def _answers(answer: PersonAnswer | None) -> tuple[list[Any], Outcome | None]:
    """Returns the results of `interrupt()`, call by call, or the outcome if the user declined.

    Raises:
        InputRequired: The last answer does not match the schema.
    """
    state: Any = None if answer is None else answer.state
    if answer is None or not isinstance(state, dict) or _STATE not in state:
        return [], None
    if not answer.accepted:
        detail = f": {answer.text}" if answer.text else ""
        return [], Outcome(f"a person declined what the tool asked{detail}", "failure")
    schema = state["schema"]
    value = _read(answer.text) if schema is None else _typed(schema, answer.text)
    if schema is not None:
        form = _form(schema)
        try:
            SchemaCheck(form)(value if form == schema else {_ANSWER: value})
        except BadArguments as error:
            question = f"That does not fit: {error}. Once more: {state['question']}"
            raise InputRequired(question, form=form, state=state) from None
    return [*state[_STATE], value], None


def _read(text: str) -> Any:
    """Reads an answer without a schema: JSON objects and lists are parsed, "" is True, all else is
    text.
    """
    if not text.strip():
        return True
    value = _json(text)
    if isinstance(value, dict) and list(value) == [_ANSWER]:
        return value[_ANSWER]
    return value if isinstance(value, dict | list) else text


def _typed(schema: Mapping[str, Any], text: str) -> Any:
    """Reads an answer with a schema: JSON, or the plain value if there is only one field."""
    if schema.get("type") == "string":
        value = _json(text)
        return value.get(_ANSWER, text) if isinstance(value, dict) else text
    value = _json(text)
    if schema.get("type") != "object":
        return value[_ANSWER] if isinstance(value, dict) and list(value) == [_ANSWER] else value
    fields: Mapping[str, Any] = schema.get("properties", {})
    if isinstance(value, dict) or len(fields) != 1:
        return value if isinstance(value, dict) else {}
    [(name, field)] = fields.items()
    return {name: text if field.get("type") == "string" else value}


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


Approve = Callable[[Tool, Mapping[str, Any]], bool]
_GOAL: Final = {
    "type": "object",
    "properties": {"goal": {"type": "string", "description": "What the agent should do."}},
    "required": ["goal"],
}


def langchain_tool(thing: Any, *, deps: Any = None, approve: Approve | None = None) -> Any:
    """Returns a taofold tool or agent as a LangChain `StructuredTool`.

    An agent runs under its own policy and with its log. A single tool is called by LangChain, which
    has no approvals: a tool above tier 1 needs `approve`, which is called before each call. A bad
    argument, a refusal, a failure, a timeout and a waiting run are messages with the status
    "error". Set `handle_tool_error` to False to raise them.

    Raises:
        ConfigError: LangChain is not installed, or a tool that writes has no `approve`.
    """
    library = require("langchain_core.tools", "langchain")
    if isinstance(thing, Agent):
        agent = cast("Agent[Any, Any]", thing)
        name, description, schema = agent.name, agent.description, dict(_GOAL)
        call = _agent_call(agent, deps, library.ToolException)
    else:
        tool = as_tool(thing)
        _refuse_unasked(tool, approve)
        name, description, schema = tool.name, tool.description, tool.schema
        call = _tool_call(tool, deps, approve, library.ToolException)

    def wait(**parameters: Any) -> Any:
        return run_now(call(**parameters))

    return library.StructuredTool.from_function(
        func=wait,
        coroutine=call,
        name=name,
        description=description or name,
        args_schema=schema,
        handle_tool_error=True,
    )


def _refuse_unasked(tool: Tool, approve: object) -> None:
    if tool.agent is not None or tool.function is None:
        raise ConfigError(f"{tool.name!r} is served by an agent: give the agent itself")
    if tool.tier >= Tier.FORBIDDEN:
        raise ConfigError(f"{tool.name!r} is forbidden (tier 4)")
    if tool.tier > Tier.AUTO and approve is None:
        raise ConfigError(
            f"{tool.name!r} has tier {int(tool.tier)} and LangChain asks nobody before it calls: "
            "pass approve=…, or give an agent that has the tool"
        )


def _tool_call(
    tool: Tool, deps: Any, approve: Approve | None, failure: type[Exception]
) -> Callable[..., Any]:
    async def call(**parameters: Any) -> str:
        try:
            bound = tool.bind(parameters)
        except BadArguments as error:
            raise failure(str(error)) from None
        # `is not True`: another truthy value from a callback is no approval.
        if tool.tier > Tier.AUTO and (approve is None or approve(tool, parameters) is not True):
            raise failure(f"{tool.name} was not approved")
        outcome = await _outcome(bound, deps)
        if outcome.status in ("failure", "timeout"):
            raise failure(render(outcome.value))
        return render(outcome.value)

    return call


async def _outcome(bound: Bound, deps: Any) -> Outcome:
    """Returns the outcome of the call within its timeout. Never raises an error of the tool."""
    seconds = bound.timeout
    timer = asyncio.timeout(None if bound.inline else seconds)
    try:
        with contained():
            async with timer:
                return await bound.run(RunContext(deps=deps, timeout_s=seconds))
    except TimeoutError as error:
        # The tool's own TimeoutError, not this timeout.
        if not timer.expired():
            return Outcome(error_text(error), "failure")
        once = " It may have happened or may still finish." if bound.tool.effect == "once" else ""
        return Outcome(f"{bound.tool.name} timed out after {seconds:g} s.{once}", "timeout")
    except InputRequired as wants:
        reason = f"{bound.tool.name} needs a person's answer, and nobody is here: {wants.question}"
        return Outcome(reason, "failure")
    except Exception as error:  # noqa: BLE001 - the model reads any error of a tool
        return Outcome(error_text(error), "failure")


def _agent_call(agent: Agent[Any, Any], deps: Any, failure: type[Exception]) -> Callable[..., Any]:
    async def call(goal: str) -> str:
        result = await agent.run(goal, deps=deps)
        if result.status == "waiting":
            raise failure(
                f"not done yet: run {result.run_id} waits for a person ({result.stop_reason}). "
                "It goes on once somebody has decided; asking again would start another run"
            )
        if not result.success:
            raise failure(result.error or f"the agent stopped: {result.stop_reason}")
        return render(result.state.output)

    return call

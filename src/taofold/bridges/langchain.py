"""LangChain: its tools as ours, and our tools and agents as its.

    Agent("openai:gpt-5", tools=[ReadFileTool(root_dir="notes")])          # as they are
    Agent("openai:gpt-5", tools=[*tools_of(toolkit, reads=["read_file"]).values()])

Its tools are read by their shape; its package is needed only to give something to it.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

from taofold.agent import Agent
from taofold.agent.sync import run_now
from taofold.bridges.foreign import made, need, several, writes_arun
from taofold.core.errors import ConfigError
from taofold.core.values import Sideeffect, Tier
from taofold.runtime.calling import render
from taofold.tools import BadArguments, Outcome, RunContext, Tool, Toolset, as_tool
from taofold.tools.worker import WORKERS

_OWN: Final = "langchain_core."
_GOAL: Final = {
    "type": "object",
    "properties": {"goal": {"type": "string", "description": "What the agent should do."}},
    "required": ["goal"],
}


def tool_of(
    thing: Any,
    *,
    name: str = "",
    tier: int | None = None,
    effect: Sideeffect | None = None,
    **options: Any,
) -> Tool:
    """A LangChain tool as ours. Its arguments are checked here, also those of a dict schema.

    What it raises (`ToolException`) or handles (`handle_tool_error`) is a failed observation.

    Raises:
        ConfigError: it needs an argument that only LangGraph can inject.
    """
    schema = thing.tool_call_schema
    _refuse_injected(thing, schema)

    async def call(ctx: RunContext[Any], parameters: dict[str, Any]) -> Outcome:
        request = {
            "type": "tool_call",
            "name": thing.name,
            "args": parameters,
            "id": ctx.effect_id or "call",
        }
        if _only_sync(thing):
            return _outcome(await WORKERS.run(lambda: thing.invoke(request)))
        return _outcome(await thing.ainvoke(request))

    return made(
        name or str(thing.name),
        str(thing.description or ""),
        schema,
        call,
        toolset="langchain",
        tier=tier,
        effect=effect,
        **options,
    )


def tools_of(
    things: object, *, reads: Iterable[str] = (), prefix: str = "", **options: Any
) -> Toolset:
    """The tools of a toolkit, or several; those named in `reads` only read."""
    return several(things, tool_of, reads, prefix, **options)


def langchain_tool(
    thing: Any,
    *,
    deps: Any = None,
    approve: Callable[[Tool, Mapping[str, Any]], bool] | None = None,
) -> Any:
    """A tool or an agent of ours as a LangChain `StructuredTool`.

    An agent runs here, under its policy and with its log. A tool alone is called by LangChain,
    which knows no approvals: one above tier 1 needs `approve`, which is asked before each call.

    Raises:
        ConfigError: LangChain is not installed, or nobody would be asked about what writes.
    """
    library = need("langchain_core.tools", "langchain")
    if isinstance(thing, Agent):
        agent = cast("Agent[Any, Any]", thing)
        name, description, schema = agent.name, agent.description, dict(_GOAL)
        call = _asking(agent, deps, library.ToolException)
    else:
        tool = as_tool(thing)
        _refuse_unasked(tool, approve)
        name, description, schema = tool.name, tool.description, tool.schema
        call = _calling(tool, deps, approve, library.ToolException)

    def wait(**parameters: Any) -> Any:
        return run_now(call(**parameters))

    return library.StructuredTool.from_function(
        func=wait,
        coroutine=call,
        name=name,
        description=description or name,
        args_schema=schema,
    )


def _outcome(message: Any) -> Outcome:
    """What a `ToolMessage` says; anything else a tool returned as it is."""
    if not hasattr(message, "content"):
        return Outcome(message)
    content: Any = message.content
    if isinstance(content, list):
        texts = [_text(block) for block in cast("list[object]", content)]
        if None not in texts:
            content = "\n".join(text for text in texts if text)
    failed = getattr(message, "status", "success") == "error"
    return Outcome(content, "failure" if failed else "success")


def _text(block: object) -> str | None:
    """The text of a content block, None if it is something else."""
    found = cast("dict[str, Any]", block).get("text") if isinstance(block, dict) else block
    return found if isinstance(found, str) else None


def _only_sync(thing: Any) -> bool:
    """Has it no coroutine of its own? LangChain would hold up the end of the process for it."""
    return getattr(thing, "coroutine", None) is None and not writes_arun(thing, _OWN)


def _refuse_injected(thing: Any, schema: Any) -> None:
    offered = _names(schema)
    whole: Mapping[str, Any] = getattr(thing.get_input_schema(), "model_fields", {})
    missing = [
        name
        for name, field in whole.items()
        if name not in offered and field.is_required() and "InjectedToolCallId" not in repr(field)
    ]
    if missing and not isinstance(schema, dict):
        raise ConfigError(
            f"the LangChain tool {thing.name!r} needs {', '.join(map(repr, missing))} injected by "
            "LangGraph; wrap it in a function that supplies it"
        )


def _names(schema: Any) -> set[str]:
    if isinstance(schema, dict):
        return set(cast("dict[str, Any]", schema).get("properties", ()))
    return set(getattr(schema, "model_fields", ()))


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


def _calling(
    tool: Tool,
    deps: Any,
    approve: Callable[[Tool, Mapping[str, Any]], bool] | None,
    failure: type[Exception],
) -> Callable[..., Any]:
    async def call(**parameters: Any) -> str:
        try:
            bound = tool.bind(parameters)
        except BadArguments as error:
            raise failure(str(error)) from None
        if tool.tier > Tier.AUTO and (approve is None or approve(tool, parameters) is not True):
            raise failure(f"{tool.name} was not approved")
        outcome = await bound.run(RunContext(deps=deps, timeout_s=bound.timeout))
        if outcome.status in ("failure", "timeout"):
            raise failure(render(outcome.value))
        return render(outcome.value)

    return call


def _asking(agent: Agent[Any, Any], deps: Any, failure: type[Exception]) -> Callable[..., Any]:
    async def call(goal: str) -> str:
        result = await agent.run(goal, deps=deps)
        if result.status == "waiting":
            raise failure(f"run {result.run_id} waits for a person ({result.stop_reason})")
        if not result.success:
            raise failure(result.error or f"the agent stopped: {result.stop_reason}")
        output = agent.answer.dump(result.output)
        return render(output)

    return call

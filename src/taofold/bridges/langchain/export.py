"""Our tools and agents as LangChain's tools.

Whatever keeps a call from being made is an error message to the model that asked for it:
LangChain's agents end with an exception if a tool raises one.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from taofold.agent import Agent
from taofold.bridges.foreign import require
from taofold.core.errors import ConfigError
from taofold.core.json_values import render
from taofold.core.values import Tier
from taofold.tools import BadArguments, Bound, InputRequired, Outcome, RunContext, Tool, as_tool
from taofold.tools.result import words
from taofold.tools.threads import run_now

Approve = Callable[[Tool, Mapping[str, Any]], bool]
_GOAL: Final = {
    "type": "object",
    "properties": {"goal": {"type": "string", "description": "What the agent should do."}},
    "required": ["goal"],
}


def langchain_tool(thing: Any, *, deps: Any = None, approve: Approve | None = None) -> Any:
    """A tool or an agent of ours as a LangChain `StructuredTool`.

    An agent runs here, under its policy and with its log. A tool alone is called by LangChain,
    which knows no approvals: one above tier 1 needs `approve`, which is asked before each call.
    A bad argument, a refusal, a failure, a passed deadline and a run that waits for a person are
    messages with the status "error"; set `handle_tool_error` to False to have them raised.

    Raises:
        ConfigError: LangChain is not installed, or nobody would be asked about what writes.
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
        # `is not True`: a callback that returns something truthy by accident has not approved.
        if tool.tier > Tier.AUTO and (approve is None or approve(tool, parameters) is not True):
            raise failure(f"{tool.name} was not approved")
        outcome = await _outcome(bound, deps)
        if outcome.status in ("failure", "timeout"):
            raise failure(render(outcome.value))
        return render(outcome.value)

    return call


async def _outcome(bound: Bound, deps: Any) -> Outcome:
    """What came of the call, within its deadline; never raises for what the tool does."""
    seconds = bound.timeout
    timer = asyncio.timeout(None if bound.inline else seconds)
    try:
        async with timer:
            return await bound.run(RunContext(deps=deps, timeout_s=seconds))
    except TimeoutError as error:
        # The tool's own TimeoutError, not our deadline.
        if not timer.expired():
            return Outcome(words(error), "failure")
        once = " It may have happened or may still finish." if bound.tool.effect == "once" else ""
        return Outcome(f"{bound.tool.name} timed out after {seconds:g} s.{once}", "timeout")
    except InputRequired as wants:
        reason = f"{bound.tool.name} needs a person's answer, and nobody is here: {wants.question}"
        return Outcome(reason, "failure")
    except Exception as error:  # noqa: BLE001 - whatever a tool raises is for the model to read
        return Outcome(words(error), "failure")


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
        return render(agent.answer.dump(result.output))

    return call

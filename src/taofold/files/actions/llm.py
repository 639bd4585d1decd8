"""`llm.call` and `llm.tools`: a model asked once, and asked with tools."""

from typing import Annotated, Any, Final

from pydantic import Field

from taofold.core.effects import Strategy
from taofold.core.values import FINISH
from taofold.files.actions.kind import ActionCall, Asking, Done, Kind, Text
from taofold.files.actions.strategy import offered, output_of, roles, think
from taofold.reasoning import Direct, react


class CallKeys(Asking):
    """The keys of the action `llm.call`."""

    prompt: Text
    system: str = ""
    output_format: Any = None
    """The type of the answer; text if nothing is said. What does not fit it is corrected."""


class ToolsKeys(CallKeys):
    """The keys of the action `llm.tools`."""

    tools: list[str] | None = None
    max_tool_rounds: Annotated[int, Field(ge=0)] = 10


def _call(call: ActionCall[CallKeys]) -> Strategy[Done]:
    keys = call.keys
    ended = yield from think(
        Direct(),
        call,
        "llm.call",
        keys.prompt,
        models=roles(call, executor="model"),
        output=output_of(keys.output_format),
        instructions=keys.system,
        settings=keys.settings,
    )
    return Done(ended.output, ended.error, ended.stop)


def _tools(call: ActionCall[ToolsKeys]) -> Strategy[Done]:
    keys = call.keys
    ended = yield from think(
        react,
        call,
        "llm.tools",
        keys.prompt,
        models=roles(call, executor="model"),
        output=output_of(keys.output_format),
        offers=offered(call.task, keys.tools),
        instructions=keys.system,
        steps=keys.max_tool_rounds,
        settings=keys.settings,
    )
    # The answer is in `content`; its step would be one call too many in the list.
    steps = [step for step in ended.trace.steps if step["action"] not in ("llm.tools", FINISH)]
    value = {
        "content": ended.output,
        "tool_calls": [{"name": s["action"], "arguments": s["action_input"]} for s in steps],
        "tool_results": [s["observation"] for s in steps],
        "rounds": len(steps),
    }
    return Done(value, ended.error, ended.stop)


BUILT_IN: Final = (
    Kind("llm.call", "Ask a model once.", CallKeys, _call, models=("model",)),
    Kind("llm.tools", "Ask a model that may use tools.", ToolsKeys, _tools, models=("model",)),
)

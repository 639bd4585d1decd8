"""CrewAI tools as taofold tools, recognized by their attributes.

    Agent("openai:gpt-5", tools=[MyCrewTool()])

The `crewai` package pins old dependencies, so it is never imported here.
"""

import inspect
from collections.abc import Iterable
from typing import Any, Final

from taofold.bridges.foreign_tools import foreign_tool, foreign_tools, own_arun
from taofold.core.values import Sideeffect
from taofold.tools import Outcome, RunContext, Tool, Toolset
from taofold.tools.threads import WORKERS

_OWN: Final = "crewai."
_WRITTEN: Final = "\nTool Description: "
"""Older releases put the name and the arguments before the author's description."""


def tool_of(
    thing: Any,
    *,
    name: str = "",
    tier: int | None = None,
    effect: Sideeffect | None = None,
    **options: Any,
) -> Tool:
    """Returns a CrewAI tool as a taofold tool.

    A used-up `max_usage_count` is a failed observation.
    """

    async def call(ctx: RunContext[Any], parameters: dict[str, Any]) -> Any:
        del ctx
        return _outcome(await _run(thing, parameters))

    return foreign_tool(
        name or str(thing.name),
        str(thing.description).rpartition(_WRITTEN)[2],
        thing.args_schema,
        call,
        toolset="crewai",
        tier=tier,
        effect=effect,
        **options,
    )


def tools_of(
    things: object, *, reads: Iterable[str] = (), prefix: str = "", **options: Any
) -> Toolset:
    """Returns several tools as a toolset. Tools named in `reads` have the effect "read"."""
    return foreign_tools(things, tool_of, reads, prefix, **options)


async def _run(thing: Any, parameters: dict[str, Any]) -> Any:
    """Calls the tool through the method that checks arguments and counts uses.

    The inherited `_arun` of CrewAI tools only raises an error.
    """
    if inspect.iscoroutinefunction(getattr(thing, "func", None)) or own_arun(thing, _OWN):
        return await thing.arun(**parameters)
    if inspect.iscoroutinefunction(thing._run):
        # `run` would start an event loop inside the running one. Its other work, counting the use
        # and checking the arguments, is done here.
        claim = getattr(thing, "_claim_usage", None)
        spent = claim() if claim is not None else None
        checked = thing.args_schema.model_validate(parameters).model_dump()
        return await thing._run(**checked) if spent is None else spent
    return await WORKERS.run(lambda: thing.run(**parameters))


def _outcome(value: Any) -> Any:
    """Returns CrewAI's `ToolFailure` as a failed outcome, and any other value unchanged."""
    if type(value).__name__ == "ToolFailure":
        return Outcome(str(getattr(value, "message", value)), "failure")
    return value

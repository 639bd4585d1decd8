"""CrewAI: its tools as ours, by their shape.

    Agent("openai:gpt-5", tools=[MyCrewTool()])

Its package pins an old world and is never imported here: whoever has its tools has it.
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
"""Older releases put name and arguments before the description that the author wrote."""


def tool_of(
    thing: Any,
    *,
    name: str = "",
    tier: int | None = None,
    effect: Sideeffect | None = None,
    **options: Any,
) -> Tool:
    """A CrewAI tool as ours. A spent `max_usage_count` is a failed observation."""

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
    """Several tools; those named in `reads` only read."""
    return foreign_tools(things, tool_of, reads, prefix, **options)


async def _run(thing: Any, parameters: dict[str, Any]) -> Any:
    """The call, through what checks the arguments and counts the uses.

    The `_arun` that all tools of CrewAI have only raises.
    """
    if inspect.iscoroutinefunction(getattr(thing, "func", None)) or own_arun(thing, _OWN):
        return await thing.arun(**parameters)
    if inspect.iscoroutinefunction(thing._run):
        # `run` would start a loop of its own in the middle of ours.
        # What `run` does besides calling: count the use, check the arguments.
        claim = getattr(thing, "_claim_usage", None)
        spent = claim() if claim is not None else None
        checked = thing.args_schema.model_validate(parameters).model_dump()
        return await thing._run(**checked) if spent is None else spent
    return await WORKERS.run(lambda: thing.run(**parameters))


def _outcome(value: Any) -> Any:
    """CrewAI's `ToolFailure` has a message and a reason; all else is the tool's result."""
    if type(value).__name__ == "ToolFailure":
        return Outcome(str(getattr(value, "message", value)), "failure")
    return value

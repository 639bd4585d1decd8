"""Tools that a client provides for one run and executes itself.

A call parks the run. The client sees the call without a result, executes it, and sends the result
as a tool message with its next request, as AG-UI clients do. In the log it is a call with the
effect "once": started, asked, answered, observed, and never started twice.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from taofold.core import events as e
from taofold.core.errors import ConfigError
from taofold.core.json_values import is_object
from taofold.core.text import visible
from taofold.core.values import Tier
from taofold.tools import InputRequired, Outcome, RunContext, Tool, external

CLIENT: Final = "client"
"""Key in the state of such a call's question."""
LARGEST: Final = 65_536
"""Maximum bytes of all definitions of one run."""
MOST_TOOLS: Final = 64
_NONE: Final[dict[str, Any]] = {"type": "object", "properties": {}}
_RESULT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"result": {"type": "string", "description": "What the client's tool gave."}},
    "required": ["result"],
}


def definitions(
    tools: Iterable[tuple[str, str, Any]], taken: Iterable[str]
) -> list[dict[str, Any]]:
    """Returns the definitions of the client's tools for the run, without unusable ones.

    `tools` are names, descriptions and JSON Schemas of the parameters. `taken` are the names of the
    agent's own tools, which a client cannot replace.
    """
    names, offered, size = set(taken), list[dict[str, Any]](), 0
    for name, description, schema in tools:
        definition = {"name": name, "description": visible(description), "schema": schema or _NONE}
        size += len(msgspec.json.encode(definition))
        if name in names or len(offered) >= MOST_TOOLS or size > LARGEST:
            continue
        try:
            _tool(definition)
        except (ConfigError, TypeError, ValueError):
            continue
        names.add(name)
        offered.append(definition)
    return offered


def tools_of(stored: Sequence[Mapping[str, Any]]) -> list[Tool]:
    """Makes the tools of a run from its stored definitions."""
    return [_tool(definition) for definition in stored]


def _tool(definition: Mapping[str, Any]) -> Tool:
    name = str(definition["name"])

    async def call(ctx: RunContext[Any], _: dict[str, Any]) -> Any:
        if ctx.answer is None:
            raise InputRequired(f"{name}: the client does it", form=_RESULT, state={CLIENT: True})
        if not ctx.answer.accepted:
            return Outcome(ctx.answer.text or "the client did not do it", "failure")
        return msgspec.json.decode(ctx.answer.text)["result"]

    return external(
        name,
        str(definition["description"]),
        definition["schema"],
        call,
        context=True,
        # The client itself asks its user for approval if needed.
        tier=Tier.AUTO,
        effect="once",
        reversible=True,
        toolset=CLIENT,
    )


def asks_client(event: e.Decided) -> bool:
    """Returns whether the event is the question of a client tool's call."""
    state: Any = None if event.request is None else event.request.get("state")
    return is_object(state) and state.get(CLIENT) is True


CLIENT_TOOLS: Final = "client_tools"
"""Key of the definitions in the server's settings of a run."""

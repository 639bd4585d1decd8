"""Tools that a client brings for one run: what its page can do, and the client does itself.

A call parks the run; the client sees the call without a result, does it, and sends the result as a
tool message with its next request, as clients of AG-UI do. To the log it is an effect "once" of
somebody else: begun, asked about, answered, observed, and never begun twice.
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
"""The key of what such a call keeps with its question."""
LARGEST: Final = 65_536
"""Bytes of all definitions of one run."""
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
    """The client's tools as they are kept with the run, without those that cannot be offered.

    `tools` are names, descriptions and JSON Schemas of the parameters.

    `taken`: the names of the agent's own tools, which no client can replace.
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
    """The tools of a run, made of what is kept with it."""
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
        # In the client's hands: what needs its person's word is the page's to ask.
        tier=Tier.AUTO,
        effect="once",
        reversible=True,
        toolset=CLIENT,
    )


def asks_client(event: e.Decided) -> bool:
    """Is it the question of such a call?"""
    state: Any = None if event.request is None else event.request.get("state")
    return is_object(state) and state.get(CLIENT) is True


CLIENT_TOOLS: Final = "client_tools"
"""The key of their definitions in what a server keeps with a run."""

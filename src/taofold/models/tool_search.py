"""Providers' search of tools: what is deferred, what a conversation has loaded.

A provider with such a search gets all deferred tools in each request, so that the request's
beginning keeps its bytes. Found tools are loaded where the conversation names them: in a result of
the provider's own search, or in a result of `search_tools`. A found tool that the conversation does
not name (another provider found it, or its step was folded) is sent as an ordinary tool. Knows
nothing about formats.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from taofold.core.content import OpaquePart, Part
from taofold.core.json_values import is_object
from taofold.models.wire_names import ToolRules, WireTools, wire_tools
from taofold.runtime.model import Request

REFUSED: Final = ("tool_search", "defer_loading", "tool_reference")
"""Words in the error of a server that has no search of tools."""
_JSON: Final = msgspec.json.Decoder()


def searched_tools(request: Request, rules: ToolRules) -> WireTools:
    """Returns the tools of a request whose deferred tools are sent to a provider's search."""
    away = {tool.name for tool in request.deferred}
    first = [tool for tool in request.tools if tool.name not in away]
    wire = wire_tools([*first, *request.deferred], rules)
    return wire.searched(request.search, away)


def found_names(request: Request, wire: WireTools) -> list[str]:
    """Returns the deferred tools that were found so far, in order."""
    return [tool.name for tool in request.tools if tool.name in wire.deferred]


def decoded(part: Part) -> dict[str, object]:
    """Returns the provider's item of an opaque part; {} if there is none."""
    if type(part) is not OpaquePart or not part.data:
        return {}
    try:
        item = _JSON.decode(part.data)
    except msgspec.DecodeError:
        return {}
    return item if is_object(item) else {}


def originals(wire: WireTools, names: Iterable[str]) -> set[str] | None:
    """Returns the deferred tools with these wire names; None if one is unknown."""
    known = {wire.names[name]: name for name in wire.deferred}
    tools = {known.get(name, "") for name in names}
    return None if "" in tools else tools

"""The choice of tools that are not offered at first, but found by a search (`tools.search`)."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

import msgspec

from taofold.tools.tool import Tool

MOST_OFFERED: Final = 50
"""The most tools that are offered at once by default."""
MOST_CHARS: Final = 60_000
"""The most characters of descriptions and schemas that are offered at once by default: about 16,000
tokens.
"""
KEPT_GROUP: Final = 10
"""Toolsets of at most this size stay on offer while larger ones are deferred."""


def deferred(tools: Mapping[str, Tool], wanted: bool | None) -> frozenset[str]:
    """Returns the names of the tools that are not offered at first.

    Args:
        tools: The tools of an agent by name.
        wanted: True defers toolsets of more than `KEPT_GROUP` tools, such as those of MCP servers.
            None does so only above `MOST_OFFERED` tools or `MOST_CHARS` characters: the largest
            toolsets first, and last the tools that were listed one by one. False defers none.
    """
    if wanted is False:
        return frozenset()
    groups = Counter(tool.toolset for tool in tools.values())
    sizes = {name: _size(tool) for name, tool in tools.items()}
    away: set[str] = set()
    # The largest group first; of equal ones the first by name, so that the choice is stable.
    for group, count in sorted(groups.items(), key=lambda each: (not each[0], -each[1], each[0])):
        rest = [name for name in tools if name not in away]
        fits = len(rest) <= MOST_OFFERED and sum(sizes[name] for name in rest) <= MOST_CHARS
        if (fits and wanted is None) or (not group and fits) or (group and count <= KEPT_GROUP):
            continue
        away |= {name for name in rest if tools[name].toolset == group}
    return frozenset(away)


def _size(tool: Tool) -> int:
    return len(tool.model_description) + len(msgspec.json.encode(tool.schema))

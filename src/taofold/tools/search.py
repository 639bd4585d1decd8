"""Search of tools: of many tools a model is first offered some, and finds the others.

`search_tool` makes the tool `search_tools`, which ranks them by BM25 over name, description and
parameters. A found tool is offered from the next turn on, after the
others, so that the earlier part of the request keeps its bytes.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from taofold.core.json_values import is_array, is_object
from taofold.core.values import SEARCH
from taofold.parsing import render_schema
from taofold.tools.context import Outcome
from taofold.tools.tool import Tool, external, object_schema
from taofold.tools.word_index import WordIndex

FOUND: Final = 8
"""Tools that one search returns, besides those of other toolsets."""
_SHOWN: Final = 200
"""Characters of a description in the result."""


class ToolIndex:
    """An index of tools by the words of their names, descriptions and parameters."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = tuple(tools)
        texts = [
            (tool.name, tool.model_description, " ".join(_parameters(tool.schema)))
            for tool in tools
        ]
        # A word in the name weighs more than one in the description.
        self._words = WordIndex(texts, (4.0, 1.0, 0.5))

    def find(self, query: str, most: int = FOUND) -> list[str]:
        """Returns names of tools, the best match first.

        The best matches of other toolsets are added to those of the largest one: a server whose
        texts are full of words does not displace the tools of others.

        Args:
            query: Words of what a tool does. A tool that has one of them matches.
            most: Maximum number of names; half as many of other toolsets may be added.
        """
        ranked = [self._tools[position] for position in self._words.find(query)]
        best = ranked[:most]
        largest = Counter([tool.toolset for tool in best]).most_common(1)
        others = [tool for tool in ranked if largest and tool.toolset != largest[0][0]]
        chosen = {tool.name for tool in (*best, *others[: most // 2])}
        return [tool.name for tool in ranked if tool.name in chosen]


def _parameters(schema: Any) -> Iterator[str]:
    """Yields names and descriptions of the parameters, at any depth."""
    if is_array(schema):
        for each in schema:
            yield from _parameters(each)
    elif is_object(schema):
        properties = schema.get("properties")
        yield from map(str, properties) if is_object(properties) else ()
        for key, value in schema.items():
            if key == "description" and isinstance(value, str):
                yield value
            else:
                yield from _parameters(value)


class ToolSearch:
    """The function of `search_tools`. Only its results decide about offers."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._index = ToolIndex(tools)
        self.known = {tool.name: tool for tool in tools}
        """The tools that it finds, by name: those that are not offered at first."""

    def __call__(self, parameters: dict[str, Any]) -> Outcome:
        """Returns the tools that match the query."""
        query = str(parameters["query"])
        found = self._index.find(query)
        if not found:
            return Outcome(f"no tool matches {query!r}: describe the task in other words")
        tools = {name: _line(self.known[name]) for name in found}
        return Outcome({"tools": tools}, extraction=f"found: {', '.join(found)}")


def search_tool(tools: Sequence[Tool]) -> Tool:
    """Returns the tool that finds the given tools.

    Args:
        tools: The deferred tools.
    """
    groups = Counter(tool.toolset or "further tools" for tool in tools)
    named = ", ".join(f"{group} ({count})" for group, count in groups.items())
    return external(
        SEARCH,
        f"Find tools that are not listed here, by what they do. There are {len(tools)} more, of: "
        f"{named}. Found tools can be called from the next turn on.",
        object_schema(
            query={
                "type": "string",
                "description": "Words of the task with a verb of APIs (create, get, list, update, "
                "delete), such as: create pull request",
            }
        ),
        ToolSearch(tools),
        effect="read",
        # The names are read from the result, so it is not shortened.
        max_chars=1_000_000,
        toolset="search",
    )


def _line(tool: Tool) -> str:
    about = " ".join(tool.model_description.split())
    about = about if len(about) <= _SHOWN else f"{about[:_SHOWN]}…"
    return f"({render_schema(tool.schema)}) {about}"

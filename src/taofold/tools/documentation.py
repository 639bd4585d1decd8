"""Tools in words: for prompts, for people and for `get_tool_documentation` of the seed.

Knows nothing about runs.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeGuard

from taofold.tools.make import doc_of, name_of
from taofold.tools.tool import Tool

NO_DOCUMENTATION: Final = "No documentation available"


def get_tool_documentation(
    tools: Mapping[str, Callable[..., Any]] | Sequence[Callable[..., Any]],
) -> str:
    """One line per tool, `- name(signature): docstring`; a `Tool` or any function will do."""
    named: dict[str, Callable[..., Any]] = (
        dict(tools) if isinstance(tools, Mapping) else {_name(tool): tool for tool in tools}
    )
    lines = [
        f"- {name}{_signature(tool)}: {_doc(tool) or NO_DOCUMENTATION}"
        for name, tool in named.items()
    ]
    return "\n".join(["Available tools:", *lines])


def _name(thing: Callable[..., Any]) -> str:
    return thing.name if isinstance(thing, Tool) else name_of(thing)


def _doc(thing: Callable[..., Any]) -> str:
    if _foreign(thing):
        return thing.description
    function: Any = thing.function if isinstance(thing, Tool) else thing
    said = inspect.cleandoc(doc_of(function)).strip()
    return thing.description if isinstance(thing, Tool) and not said else said


def _signature(thing: Callable[..., Any]) -> str:
    if _foreign(thing):
        return f"({', '.join(thing.schema.get('properties', ()))})"
    function: Any = thing.function if isinstance(thing, Tool) else thing
    try:
        return str(inspect.signature(function))
    except (TypeError, ValueError):
        return "(...)"


def _foreign(thing: Callable[..., Any]) -> TypeGuard[Tool]:
    # Its function, if it has one, takes a mapping and says nothing of what is in it.
    style = thing.signature.style if isinstance(thing, Tool) and thing.signature else "typed"
    return style == "mapping"

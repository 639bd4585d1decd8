"""Tools of other frameworks, known by their shape: nobody's package is imported to look.

The bridge that reads them is loaded when one turns up. Knows nothing about any framework but
what its tools look like from outside.
"""

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, cast

if TYPE_CHECKING:
    from taofold.tools.tool import Tool


class Shape(NamedTuple):
    """What the tools of one framework have, and the function that makes ours of them."""

    attributes: tuple[str, ...]
    reader: str


SHAPES: Final = (
    Shape(("tool_call_schema", "ainvoke"), "taofold.bridges.langchain:tool_of"),
    Shape(("args_schema", "_run", "description"), "taofold.bridges.crewai:tool_of"),
)


def reader_of(thing: object) -> "Callable[[object], Tool] | None":
    """The function that makes a tool of `thing`, None if it has no shape that is known here."""
    if isinstance(thing, type):
        return None
    for shape in SHAPES:
        if all(hasattr(thing, name) for name in shape.attributes):
            module, _, name = shape.reader.partition(":")
            found = getattr(importlib.import_module(module), name)
            return cast("Callable[[object], Tool]", found)
    return None

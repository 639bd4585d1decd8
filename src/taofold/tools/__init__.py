"""Tools: typed functions with the options that govern their use.

The built-in ones are in `taofold.tools.files` and `taofold.tools.command`, which are not
imported here.
"""

from taofold.tools.arguments import BadArguments
from taofold.tools.context import (
    DefinitionChanged,
    InputRequired,
    ModelAnswer,
    ModelQuestion,
    Outcome,
    PersonAnswer,
    RunContext,
)
from taofold.tools.tool import Bound, Tool, as_tool, external, tool
from taofold.tools.toolset import Toolset

__all__ = [
    "BadArguments",
    "Bound",
    "DefinitionChanged",
    "InputRequired",
    "ModelAnswer",
    "ModelQuestion",
    "Outcome",
    "PersonAnswer",
    "RunContext",
    "Tool",
    "Toolset",
    "as_tool",
    "external",
    "tool",
]


def __dir__() -> list[str]:
    return sorted(__all__)

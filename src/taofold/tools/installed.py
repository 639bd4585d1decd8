"""Tools of installed packages, by the names of their entry points.

    [project.entry-points."taofold.tools"]
    testops = "taofold_testops.tools:configured"

The object is a function without parameters that returns a tool or a toolset. It may read the
environment. It is imported and called when an agent with this name is made.
"""

from collections.abc import Callable
from typing import Any, Final

from taofold.foreign_code import contained
from taofold.plugins import installed, load
from taofold.tools.toolset import Toolset

GROUP: Final = "taofold.tools"


def tool_names() -> list[str]:
    """Returns the names of the toolsets that installed packages offer, without importing them."""
    return sorted({entry.name for entry in installed(GROUP)})


def load_tools(name: str) -> Toolset:
    """Returns the tools that an installed package offers under this name.

    Args:
        name: Name of the entry point.

    Raises:
        ConfigError: No package offers it, or its function refuses its settings.
    """
    make: Callable[[], Any] = load(GROUP, name)
    with contained():
        return Toolset.of(make())

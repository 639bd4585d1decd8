"""Custom actions of the whole process, TAgent's `register_custom_action` (TAG-24).

A registry is global state; it exists for users of the seed. Pass `tools=[...]` to an agent
where you can. It knows nothing about runs.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from taofold.core.errors import ConfigError
from taofold.tools.make import as_tool, make
from taofold.tools.tool import Tool, check_name
from taofold.tools.toolset import Toolset

_ACTIONS: dict[str, Tool] = {}


def register_custom_action(name: str, func: Callable[..., Any]) -> Tool:
    """Let every agent that starts from now on use `func` under `name`.

    Raises:
        ConfigError: the name is unsafe or taken, or `func` cannot be a tool.
    """
    check_name(name)
    named = isinstance(func, Tool)
    action = replace(as_tool(cast("object", func)), name=name) if named else make(func, name=name)
    if _ACTIONS.setdefault(name, action) is not action:
        raise ConfigError(f"a custom action {name!r} is registered already; forget_action() first")
    return action


def forget_action(name: str) -> None:
    """Undo `register_custom_action`; an unknown name is no error."""
    _ACTIONS.pop(name, None)


def custom_actions() -> Toolset:
    """What is registered now."""
    return Toolset(list(_ACTIONS.values()))

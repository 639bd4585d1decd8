"""Custom actions of the whole process, TAgent's `register_custom_action` (TAG-24).

A registry is global state; it exists for users of the seed. Pass `tools=[...]` to an agent
where you can. It knows nothing about runs.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, cast, get_origin

from taofold.core.errors import ConfigError
from taofold.tools.make import as_tool, doc_of, make
from taofold.tools.tool import Tool, check_name
from taofold.tools.toolset import Toolset

_ACTIONS: dict[str, Tool] = {}
_MAPPINGS: Final = frozenset({"dict", "Dict", "Mapping", "MutableMapping", "Any"})


def register_custom_action(name: str, func: Callable[..., Any]) -> Tool:
    """Let every agent that starts from now on use `func` under `name`.

    `func` is any function that can be a tool, or TAgent's form: a function of the state alone
    that returns `(key, value)` for the state, or None.

    >>> def double(state):
    ...     "Double the count."
    ...     return "count", state.get("count", 1) * 2
    >>> register_custom_action("double", double).name
    'double'
    >>> forget_action("double")

    Raises:
        ConfigError: the name is unsafe or taken, or `func` cannot be a tool.
    """
    check_name(name)
    if isinstance(func, Tool):
        action = replace(as_tool(cast("object", func)), name=name)
    else:
        action = make(_with_arguments(func) if _of_state(func) else func, name=name)
    if _ACTIONS.setdefault(name, action) is not action:
        raise ConfigError(f"a custom action {name!r} is registered already; forget_action() first")
    return action


def _of_state(func: Callable[..., Any]) -> bool:
    """Is this TAgent's form, a function of nothing but the state?"""
    try:
        parameters = list(inspect.signature(func).parameters.values())
    except (TypeError, ValueError):
        return False
    if not parameters or parameters[0].name != "state":
        return False
    others = [p for p in parameters[1:] if p.default is inspect.Parameter.empty]
    return not others and _is_mapping(parameters[0].annotation)


def _is_mapping(hint: Any) -> bool:
    """May a parameter with this annotation be the state? A string is one that is not evaluated."""
    if isinstance(hint, str):
        return hint.partition("[")[0].rpartition(".")[2].strip() in _MAPPINGS
    kind = get_origin(hint) or hint
    if kind is inspect.Parameter.empty or kind is Any:
        return True
    return isinstance(kind, type) and issubclass(kind, Mapping)


def _with_arguments(func: Callable[..., Any]) -> Callable[..., Any]:
    """`func(state)` as a `(state, args)` tool; what a model passes along is not looked at."""

    def action(state: dict[str, Any], args: dict[str, Any]) -> Any:
        return func(state)

    action.__doc__ = doc_of(func)
    return action


def forget_action(name: str) -> None:
    """Undo `register_custom_action`; an unknown name is no error."""
    _ACTIONS.pop(name, None)


def custom_actions() -> Toolset:
    """What is registered now."""
    return Toolset(list(_ACTIONS.values()))

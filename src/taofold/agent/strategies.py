"""Strategies by name, and the ones that others register."""

from collections.abc import Callable
from typing import Any, Final

from taofold import reasoning
from taofold.core.effects import Strategy
from taofold.core.errors import ConfigError
from taofold.core.nearest import near
from taofold.reasoning import Task

STRATEGIES: Final[dict[str, str]] = {
    "react": "react",
    "cot": "Cot",
    "self_correct": "SelfCorrect",
    "decompose": "Decompose",
    "plan": "Plan",
    "direct": "Direct",
}
"""Names in `taofold.reasoning`: loaded when an agent asks for them."""


def find_strategy(
    strategy: str | Callable[[Task], Strategy[Any]],
) -> tuple[str, Callable[[Task], Strategy[Any]]]:
    """The strategy's name and the function that makes it."""
    if not isinstance(strategy, str):
        return name_of(strategy), strategy
    if strategy not in STRATEGIES:
        raise ConfigError(
            f"unknown strategy {strategy!r}; {near(strategy, STRATEGIES)}", path="strategy"
        )
    found: Any = getattr(reasoning, STRATEGIES[strategy])
    return strategy, found() if isinstance(found, type) else found


def name_of(strategy: Callable[[Task], Strategy[Any]]) -> str:
    """What a strategy is called in the log: its own name, its function's, or "custom"."""
    inner = getattr(strategy, "func", strategy)  # of a functools.partial
    name = getattr(inner, "name", None) or getattr(inner, "__name__", None)
    return name if isinstance(name, str) else "custom"

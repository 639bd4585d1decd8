"""Strategies by name, and the ones that others register."""

from collections.abc import Callable
from typing import Any, Final

from taofold.core.effects import Strategy
from taofold.core.errors import ConfigError
from taofold.reasoning import Task, react

STRATEGIES: Final[dict[str, Callable[[Task], Strategy[Any]]]] = {"react": react}


def find_strategy(
    strategy: str | Callable[[Task], Strategy[Any]],
) -> tuple[str, Callable[[Task], Strategy[Any]]]:
    """The strategy's name and the function that makes it."""
    if not isinstance(strategy, str):
        return getattr(strategy, "__name__", "custom"), strategy
    if strategy not in STRATEGIES:
        known = ", ".join(sorted(STRATEGIES))
        raise ConfigError(f"unknown strategy {strategy!r}; known: {known}", path="strategy")
    return strategy, STRATEGIES[strategy]

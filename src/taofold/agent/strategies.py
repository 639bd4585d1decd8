"""Strategies by the names that `Agent(strategy=…)` and agent files use."""

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from taofold.core.errors import ConfigError
from taofold.core.text import near

if TYPE_CHECKING:
    from taofold.core.effects import Strategy
    from taofold.reasoning.task import Task

StrategyName: TypeAlias = Literal["react", "cot", "self_correct", "decompose", "plan", "direct"]
STRATEGIES: Final[dict[str, str]] = {
    "react": "react",
    "cot": "Cot",
    "self_correct": "SelfCorrect",
    "decompose": "Decompose",
    "plan": "Plan",
    "direct": "Direct",
}
"""Names in `taofold.reasoning`, loaded when an agent first runs with them."""
MODEL_ROLES: Final = ("planner", "executor", "evaluator", "finalizer", "critic", "compactor")
"""Roles of models in these strategies. A strategy of the caller's may have others."""


def check_strategy(name: str) -> None:
    """Raises `ConfigError` if no strategy has this name."""
    if name not in STRATEGIES:
        raise ConfigError(f"unknown strategy {name!r}; {near(name, STRATEGIES)}", path="strategy")


def check_model_roles(models: Iterable[str]) -> None:
    """Raises `ConfigError` if no strategy has one of these roles."""
    for role in models:
        if role not in MODEL_ROLES:
            raise ConfigError(f"unknown role {role!r}; {near(role, MODEL_ROLES)}", path="models")


def find_strategy(
    strategy: "str | Callable[[Task], Strategy[Any]]",
) -> "tuple[str, Callable[[Task], Strategy[Any]]]":
    """Returns the strategy's name and the function that makes it.

    Raises:
        ConfigError: No strategy has this name.
    """
    if not isinstance(strategy, str):
        return name_of(strategy), strategy
    check_strategy(strategy)
    factory: Any = getattr(import_module("taofold.reasoning"), STRATEGIES[strategy])
    return strategy, factory() if isinstance(factory, type) else factory


def name_of(strategy: "Callable[[Task], Strategy[Any]]") -> str:
    """Returns the strategy's name in the log: its own, its function's, or "custom"."""
    inner = getattr(strategy, "func", strategy)  # of a functools.partial
    name = getattr(inner, "name", None) or getattr(inner, "__name__", None)
    return name if isinstance(name, str) else "custom"

"""Reasoning strategies: pure generators that yield effects. Tested with `next()` and `send()`.

Each strategy is a frozen value of its options, called with a task. They compose:
`SelfCorrect(inner=react)`, `Decompose(inner=Cot(format="tree"))`. Unused strategies are not
imported.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from taofold.reasoning.cot import FORMATS, Cot, Example
    from taofold.reasoning.decompose import Decompose
    from taofold.reasoning.direct import Direct
    from taofold.reasoning.nested import Inner
    from taofold.reasoning.plan import Plan
    from taofold.reasoning.react_loop import react
    from taofold.reasoning.self_correct import SelfCorrect
    from taofold.reasoning.strategy_actions import tagent
    from taofold.reasoning.task import Offer, Output, Task

_HOME = {
    "FORMATS": "cot",
    "Cot": "cot",
    "Decompose": "decompose",
    "Direct": "direct",
    "Example": "cot",
    "Inner": "nested",
    "Offer": "task",
    "Output": "task",
    "Plan": "plan",
    "SelfCorrect": "self_correct",
    "Task": "task",
    "react": "react_loop",
    "tagent": "strategy_actions",
}

__all__ = [
    "FORMATS",
    "Cot",
    "Decompose",
    "Direct",
    "Example",
    "Inner",
    "Offer",
    "Output",
    "Plan",
    "SelfCorrect",
    "Task",
    "react",
    "tagent",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'taofold.reasoning' has no attribute {name!r}")
    return getattr(import_module(f"taofold.reasoning.{_HOME[name]}"), name)

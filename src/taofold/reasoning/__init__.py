"""Reasoning strategies: pure generators that yield effects. Tested with `next()` and `send()`.

Each strategy is a frozen value of its options, called with a task. They compose:
`SelfCorrect(inner=react)`, `Decompose(inner=Cot(format="tree"))`. Unused strategies are not
imported.
"""

from typing import TYPE_CHECKING

from taofold.lazy_names import lazy_names

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

__getattr__ = lazy_names(
    __name__,
    {
        "reasoning.cot": "Cot Example FORMATS",
        "reasoning.decompose": "Decompose",
        "reasoning.direct": "Direct",
        "reasoning.nested": "Inner",
        "reasoning.plan": "Plan",
        "reasoning.react_loop": "react",
        "reasoning.self_correct": "SelfCorrect",
        "reasoning.strategy_actions": "tagent",
        "reasoning.task": "Offer Output Task",
    },
)

"""Reasoning strategies: pure generators that yield effects. Tested with `next()` and `send()`.

Each is a frozen value of its options that is called with a task; they compose:
`SelfCorrect(inner=react)`, `Decompose(inner=Cot(format="tree"))`.
"""

from taofold.reasoning.cot import FORMATS, Cot, Example
from taofold.reasoning.decompose import Decompose
from taofold.reasoning.direct import Direct
from taofold.reasoning.nested import Inner
from taofold.reasoning.plan import Plan
from taofold.reasoning.react import react
from taofold.reasoning.self_correct import SelfCorrect
from taofold.reasoning.task import Offer, Output, Task
from taofold.reasoning.variables import trace_ndjson, variables

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
    "trace_ndjson",
    "variables",
]

"""Reasoning strategies: pure generators that yield effects. Tested with `next()` and `send()`."""

from taofold.reasoning.react import react
from taofold.reasoning.task import Offer, Output, Task

__all__ = ["Offer", "Output", "Task", "react"]

"""`Agent`: describe an agent, run it; and what a run of it gives back."""

from taofold.agent.agent import Agent
from taofold.agent.result import RunResult, Stream
from taofold.core.happenings import Delta, Happening, Progress

__all__ = ["Agent", "Delta", "Happening", "Progress", "RunResult", "Stream"]

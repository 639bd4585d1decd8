"""`Agent`: describe an agent, run it; and what a run of it gives back."""

from taofold.agent.agent import Agent
from taofold.agent.result import Delta, Happening, Progress, RunResult, Stream

__all__ = ["Agent", "Delta", "Happening", "Progress", "RunResult", "Stream"]

"""The front door: describe an agent, run it."""

from taofold.agent.agent import Agent
from taofold.agent.result import Delta, Happening, Progress, RunResult, Stream

__all__ = ["Agent", "Delta", "Happening", "Progress", "RunResult", "Stream"]

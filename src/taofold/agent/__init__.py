"""`Agent`, its arguments and methods, and the results of its runs."""

from taofold.agent.agent import Agent
from taofold.agent.result import RunResult, Stream
from taofold.core.happenings import Delta, Happening, Progress

__all__ = ["Agent", "Delta", "Happening", "Progress", "RunResult", "Stream"]


def __dir__() -> list[str]:
    return sorted(__all__)

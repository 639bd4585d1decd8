"""The seam under the registry: whoever keeps its facts. Knows nothing about disks."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from taofold.learning.retrieval.meaning import Vectors
from taofold.learning.state import View, Writing

T = TypeVar("T")


class Book(Vectors, Protocol):
    """Keeps the facts of the registry. Every method may raise `LogError`."""

    async def read(self, work: Callable[[View], T]) -> T:
        """The result of `work`, which only looks."""
        ...

    async def write(self, work: Callable[[Writing], T], at: int) -> T:
        """The result of `work`; its events happened `at`. All are kept, or none.

        `work` may run again if somebody else was quicker.
        """
        ...

    async def faults(self) -> list[str]:
        """Facts that could not be read, a line each; they were left out."""
        ...

    async def close(self) -> None:
        """Let go of what it holds."""
        ...

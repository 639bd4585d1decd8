"""Protocols between the registry and its storage: `View` to ask, `Writing` to add facts, `Book`
for a transaction over them.

A `Book` folds the facts into a `View` by `fold.step` and lets a command look at it or add to it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from taofold.learning.events import LearningEvent
from taofold.learning.loops import LoopNote, LoopStats
from taofold.learning.patterns.pattern import Pattern
from taofold.learning.rates import EditRates
from taofold.learning.retrieval.index import PatternHit


class View(Protocol):
    """All that commands and the fold may ask."""

    def pattern(self, identity: str) -> Pattern | None:
        """The pattern in the registry, not one in the archive."""
        ...

    def archived(self, identity: str) -> Pattern | None:
        """The pattern in the archive."""
        ...

    def loop(self, loop: str) -> LoopNote | None:
        """What is known of the loop."""
        ...

    def stats(self) -> LoopStats:
        """The sums."""
        ...

    def search(self, terms: Sequence[str]) -> list[PatternHit]:
        """Patterns with the rarest of `terms`, the likeliest first."""
        ...

    def patterns(self) -> Iterator[Pattern]:
        """The registry's patterns, the oldest first."""
        ...

    def archive(self) -> Iterator[tuple[Pattern, str]]:
        """What was archived, with its month."""
        ...

    def loops(self) -> Iterator[LoopNote]:
        """What is known of loops, the oldest first."""
        ...

    def ids(self, prefix: str) -> list[str]:
        """The ids in use, archived ones too, that start with `prefix`."""
        ...

    def same(self, pattern: Pattern) -> str:
        """The id of a pattern that says exactly what `pattern` says, "" if there is none.

        One in the archive only if there is no other.
        """
        ...

    def rates(self, keys: Iterable[str] | None = None) -> EditRates:
        """How good edits with these keys have been.

        None = what is handed to a search: at most `MOST_KEYS`, with wins, then the most expected.
        """
        ...


class Writing(View, Protocol):
    """A view that takes events, without the secrets in them; what was emitted is seen at once."""

    def clean(self, pattern: Pattern) -> Pattern:
        """The pattern without the secrets in what it says: an id is made of its name."""
        ...

    def emit(self, event: LearningEvent) -> bool:
        """Note the event, and what it changes. One that changes nothing is not noted: False."""
        ...


T = TypeVar("T")


class Book(Protocol):
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

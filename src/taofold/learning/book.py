"""Protocols between the registry and its storage.

`View` has the queries, `Writing` adds facts, `Book` runs transactions over them. A `Book` folds the
facts into a `View` by `fold.step`; a command reads from it or adds to it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from taofold.learning.events import LearningEvent
from taofold.learning.loops import LoopNote, LoopStats
from taofold.learning.patterns.pattern import Pattern
from taofold.learning.rates import EditRates
from taofold.learning.retrieval.index import PatternHit


class View(Protocol):
    """The queries of commands and of the fold."""

    def pattern(self, identity: str) -> Pattern | None:
        """Returns the pattern in the registry; archived ones are excluded."""
        ...

    def archived(self, identity: str) -> Pattern | None:
        """Returns the pattern in the archive."""
        ...

    def loop(self, loop: str) -> LoopNote | None:
        """Returns the note about the loop."""
        ...

    def stats(self) -> LoopStats:
        """Returns the sums."""
        ...

    def search(self, terms: Sequence[str]) -> list[PatternHit]:
        """Returns patterns with the rarest of `terms`, the likeliest first."""
        ...

    def patterns(self) -> Iterator[Pattern]:
        """Yields the registry's patterns, the oldest first."""
        ...

    def archive(self) -> Iterator[tuple[Pattern, str]]:
        """Yields archived patterns with their month."""
        ...

    def loops(self) -> Iterator[LoopNote]:
        """Yields the notes about loops, the oldest first."""
        ...

    def ids(self, prefix: str) -> list[str]:
        """Returns the ids in use that start with `prefix`, archived ones included."""
        ...

    def same(self, pattern: Pattern) -> str:
        """Returns the id of a pattern with exactly the content of `pattern`, "" if there is none.

        An archived one only if there is no other.
        """
        ...

    def rates(self, keys: Iterable[str] | None = None) -> EditRates:
        """Returns the success rates of edits with these keys.

        None = the rates passed to a search: at most `MOST_KEYS`, those with wins first, then those
        with the most expected wins.
        """
        ...


class Writing(View, Protocol):
    """A view that accepts events and removes their secrets; an emitted event is visible at once."""

    def clean(self, pattern: Pattern) -> Pattern:
        """Returns the pattern without secrets in its texts, because its id is derived from its
        name.
        """
        ...

    def emit(self, event: LearningEvent) -> bool:
        """Records the event and its changes.

        Returns False, recording nothing, if it changes nothing.
        """
        ...


T = TypeVar("T")


class Book(Protocol):
    """Stores the facts of the registry. Every method may raise `LogError`."""

    async def read(self, work: Callable[[View], T]) -> T:
        """Returns the result of `work`, which only reads."""
        ...

    async def write(self, work: Callable[[Writing], T], at: int) -> T:
        """Returns the result of `work`, whose events have the time `at`. All are stored, or none.

        `work` runs again if another writer was faster.
        """
        ...

    async def faults(self) -> list[str]:
        """Returns facts that could not be read and were skipped, one line each."""
        ...

    async def close(self) -> None:
        """Releases its resources."""
        ...

"""The state of the registry: what may be asked of it, the same in memory, and who keeps it.

`State` is the one class here that changes. A store on disk keeps the same in tables. `Book` is the
seam to whoever keeps the facts.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

from taofold.learning.events import LearningEvent
from taofold.learning.fold import Changes, Known, step
from taofold.learning.loops import LoopNote, LoopStats
from taofold.learning.patterns.pattern import Pattern, Rate
from taofold.learning.rates import EditRates
from taofold.learning.retrieval.index import POOL, PatternHit, PatternSearch, Postings, entry
from taofold.learning.retrieval.meaning import Vectors


class View(Known, PatternSearch, Protocol):
    """All that commands may ask."""

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
        """The id of a pattern that says exactly what `pattern` says, "" if there is none."""
        ...

    def rates(self, limit: int) -> Mapping[str, Rate]:
        """At most `limit` keys with their rates: those with wins, then the most expected."""
        ...


class Writing(View, Protocol):
    """A view that takes events; what was emitted is seen at once."""

    def emit(self, event: LearningEvent) -> None:
        """Note the event, and what it changes."""
        ...


class State:
    """Everything in dicts."""

    def __init__(self) -> None:
        self._patterns: dict[str, Pattern] = {}
        self._archive: dict[str, tuple[Pattern, str]] = {}
        self._loops: dict[str, LoopNote] = {}
        self._rates: dict[str, Rate] = {}
        self._costs = EditRates().costs
        self._stats = LoopStats()
        self._index = Postings()

    def apply(self, event: LearningEvent, at: int) -> None:
        """Take in what `event` changes."""
        self._keep(step(self, event, at))

    def pattern(self, identity: str) -> Pattern | None:
        """The pattern in the registry."""
        return self._patterns.get(identity)

    def archived(self, identity: str) -> Pattern | None:
        """The pattern in the archive."""
        archived = self._archive.get(identity)
        return archived[0] if archived else None

    def loop(self, loop: str) -> LoopNote | None:
        """What is known of the loop."""
        return self._loops.get(loop)

    def rate(self, key: str) -> Rate:
        """How good edits with this key have been."""
        return self._rates.get(key) or Rate()

    def costs(self) -> tuple[float, ...]:
        """What each order of candidates has cost, faded."""
        return self._costs

    def rates(self, limit: int) -> dict[str, Rate]:
        """At most `limit` keys with their rates: those with wins, then the most expected."""
        ordered = sorted(self._rates.items(), key=lambda item: _weight(item[1]), reverse=True)
        return dict(ordered[:limit])

    def stats(self) -> LoopStats:
        """The sums."""
        return self._stats

    def patterns(self) -> Iterator[Pattern]:
        """The registry's patterns."""
        return iter(self._patterns.values())

    def archive(self) -> Iterator[tuple[Pattern, str]]:
        """What was archived, with its month."""
        return iter(self._archive.values())

    def loops(self) -> Iterator[LoopNote]:
        """What is known of loops."""
        return iter(self._loops.values())

    def ids(self, prefix: str) -> list[str]:
        """The ids in use that start with `prefix`."""
        return [
            identity
            for identity in (*self._patterns, *self._archive)
            if identity.startswith(prefix)
        ]

    def same(self, pattern: Pattern) -> str:
        """The id of a pattern that says exactly the same."""
        content = (pattern.name, pattern.body)
        patterns = self._patterns.values()
        return next((stored.id for stored in patterns if (stored.name, stored.body) == content), "")

    def search(self, terms: Sequence[str], limit: int = POOL) -> list[PatternHit]:
        """Patterns with the rarest of `terms`."""
        return self._index.search(terms, limit)

    def frequencies(self, terms: Iterable[str]) -> tuple[Mapping[str, int], int]:
        """In how many patterns each term stands."""
        return self._index.frequencies(terms)

    def _keep(self, changes: Changes) -> None:
        for identity, pattern in changes.patterns.items():
            if pattern is None:
                # The index follows in the same step, so a search never finds what is gone.
                self._patterns.pop(identity, None)
                self._index.drop(identity)
            else:
                self._patterns[identity] = pattern
                self._index.put(identity, entry(pattern))
        for identity, old in changes.archive.items():
            if old is None:
                self._archive.pop(identity, None)
            else:
                self._archive[identity] = old
        if changes.loop is not None:
            self._loops[changes.loop.loop] = changes.loop
        self._rates.update(changes.rates)
        if changes.costs is not None:
            self._costs = changes.costs
        if changes.stats is not None:
            self._stats = changes.stats


def _weight(rate: Rate) -> tuple[float, float]:
    return rate.wins, rate.expected


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

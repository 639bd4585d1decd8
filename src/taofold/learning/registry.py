"""The registry of patterns, as loops, the command line and the server use it.

One class over a seam: a `Book` keeps the facts and lets a command see the state and add to it,
as one transaction. What time it is comes from the caller. Knows nothing about disks.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from taofold.learning import commands
from taofold.learning.commands import ChosenLessons, FoundPattern, PrunedPattern
from taofold.learning.events import (
    LoopReopened,
    LoopSettled,
    PatternApplied,
    PatternEdited,
    PatternRetired,
    SearchSettled,
)
from taofold.learning.exchange.exports import exported
from taofold.learning.exchange.imports import ImportReport, imported
from taofold.learning.exchange.records import rewritten
from taofold.learning.loops import LoopNote, LoopStats
from taofold.learning.metrics import Improvement, LearningMetrics, improvement, measure
from taofold.learning.patterns.case import LoopCase
from taofold.learning.patterns.kinds import Kind
from taofold.learning.patterns.pattern import Pattern, PatternSource, Rate
from taofold.learning.rates import MOST_KEYS, EditRates
from taofold.learning.retrieval.choice import PatternChoice
from taofold.learning.settings import Extraction, Injection, Pruning
from taofold.learning.state import Book, View, Writing


class Query(NamedTuple):
    """Which patterns: all that is given must hold. `retired` None = both."""

    kind: Kind | None = None
    tags: tuple[str, ...] = ()
    loop: str = ""
    min_rate: float | None = None
    max_rate: float | None = None
    retired: bool | None = None

    def holds(self, pattern: Pattern) -> bool:
        """Is `pattern` among them?"""
        rate = pattern.rate
        # Without an outcome a pattern is neither above nor below a rate.
        if (self.min_rate is not None or self.max_rate is not None) and rate is None:
            return False
        return (
            (self.kind is None or pattern.kind == self.kind)
            and {*self.tags} <= {*pattern.tags}
            and (not self.loop or any(source.loop == self.loop for source in pattern.sources))
            and (self.min_rate is None or (rate or 0.0) >= self.min_rate)
            and (self.max_rate is None or (rate or 0.0) <= self.max_rate)
            and (self.retired is None or bool(pattern.retired) == self.retired)
        )


class Registry:
    """Patterns and what became of them.

    `now` gives milliseconds since the epoch.
    """

    def __init__(self, book: Book, now: Callable[[], int]) -> None:
        self._book, self._now = book, now

    async def candidates(
        self, case: LoopCase, injection: Injection, *, min_uses: int = 3
    ) -> PatternChoice:
        """What a loop about `case` would be shown, with figures; changes nothing."""
        return await self._book.read(
            lambda view: commands.candidates(view, case, injection, min_uses=min_uses)
        )

    async def inject(
        self,
        loop: str,
        case: LoopCase,
        injection: Injection,
        *,
        min_uses: int = 3,
        manual: bool = False,
    ) -> ChosenLessons:
        """What the loop is told. Asked again it is told the same, unless a person asks."""

        def work(tx: Writing) -> ChosenLessons:
            return commands.inject(tx, loop, case, injection, min_uses=min_uses, manual=manual)

        return await self._book.write(work, self._now())

    async def applied(
        self, loop: str, pattern: str, *, won: bool, iteration: int = 0, by: str = ""
    ) -> bool:
        """Note that the loop made the edit which a pattern proposes that was chosen for it.

        It counts when the loop ends, the best outcome of each. False: the pattern was not chosen
        for this loop, or the loop is over.
        """

        def work(tx: Writing) -> bool:
            note = tx.loop(loop)
            # Looked at within the transaction: another process may have ended the loop meanwhile.
            if note is None or note.ended or not note.looked_at(pattern):
                return False
            tx.emit(PatternApplied(loop, pattern, won, iteration, by))
            return True

        return await self._book.write(work, self._now())

    async def ended(self, loop: str, *, iterations: int, solved: bool) -> bool:
        """The loop is over: its patterns get their due. False: that was known."""

        def work(tx: Writing) -> bool:
            note = tx.loop(loop)
            if note is not None and note.ended:
                return False
            tx.emit(LoopSettled(loop, max(iterations, 0), solved))
            return True

        return await self._book.write(work, self._now())

    async def rates(self) -> EditRates:
        """What earlier searches came to, for the ranking of the next one."""
        return await self._book.read(
            lambda view: EditRates(dict(view.rates(MOST_KEYS)), tuple(view.costs()))
        )

    async def searched(self, loop: str, rates: Mapping[str, Rate], costs: Sequence[float]) -> bool:
        """Count what the search of a loop came to that an edit ended. False: that was known."""

        def work(tx: Writing) -> bool:
            note = tx.loop(loop)
            if note is not None and note.searched:
                return False
            tx.emit(SearchSettled(loop, dict(rates), tuple(costs)))
            return True

        return await self._book.write(work, self._now())

    async def reopened(self, loop: str, *, iterations: int, solved: bool) -> bool:
        """Take back what the loop's end counted, if it then went on and came to something else.

        False: it has not ended, or ended just so. Otherwise `applied` and `ended` count anew.
        """

        def work(tx: Writing) -> bool:
            note = tx.loop(loop)
            # An end that is told again as it was is the same end: `ended` refuses
            # it, nothing is taken back.
            last = (max(iterations, 0), solved)
            if note is None or not note.ended or (note.iterations, note.solved) == last:
                return False
            tx.emit(LoopReopened(loop))
            return True

        return await self._book.write(work, self._now())

    async def discover(
        self,
        loop: str,
        drafts: Sequence[Pattern],
        extraction: Extraction,
        *,
        by: str = "",
    ) -> list[FoundPattern]:
        """Take in the patterns that a loop's end gave, merged with what is known."""
        return await self._book.write(
            lambda tx: commands.discover(tx, loop, drafts, extraction, by), self._now()
        )

    async def loop(self, loop: str) -> LoopNote | None:
        """What is known of a loop."""
        return await self._book.read(lambda view: view.loop(loop))

    async def loops(self) -> list[LoopNote]:
        """All loops, the oldest first."""
        return await self._book.read(lambda view: list(view.loops()))

    async def improvement(self, loop: str) -> Improvement | None:
        """The loop against the control loops; None before it ended."""

        def work(view: View) -> Improvement | None:
            note = view.loop(loop)
            return improvement(note, view.stats()) if note and note.ended else None

        return await self._book.read(work)

    async def patterns(self, query: Query = Query()) -> list[Pattern]:
        """The patterns that `query` asks for, the oldest first."""
        return await self._book.read(
            lambda view: [pattern for pattern in view.patterns() if query.holds(pattern)]
        )

    async def show(self, pattern: str) -> Pattern:
        """One pattern.

        Raises:
            UnknownPattern: there is none with this id.
        """

        def work(view: View) -> Pattern:
            stored = view.pattern(pattern)
            if stored is None:
                raise commands.missing(view, pattern)
            return stored

        return await self._book.read(work)

    async def lineage(self, pattern: str) -> tuple[PatternSource, ...]:
        """Where it was found and where it was used, in order of time.

        Raises:
            UnknownPattern: there is none with this id.
        """
        stored = await self.show(pattern)
        return tuple(sorted(stored.sources, key=lambda source: source.at))

    async def stats(self) -> LoopStats:
        """The sums over all loops."""
        return await self._book.read(lambda view: view.stats())

    async def metrics(self) -> LearningMetrics:
        """The registry in numbers."""
        return await self._book.read(
            lambda view: measure(view.patterns(), view.stats(), sum(1 for _ in view.archive()))
        )

    async def retire(self, pattern: str, reason: str) -> None:
        """Show it no more. It stays listed, with the reason."""

        def work(tx: Writing) -> None:
            if tx.pattern(pattern) is None:
                raise commands.missing(tx, pattern)
            tx.emit(PatternRetired(pattern, reason))

        await self._book.write(work, self._now())

    async def prune(
        self, policy: Pruning = Pruning(), *, dry_run: bool = False
    ) -> list[PrunedPattern]:
        """Archive what has failed or grown old; `dry_run` only tells what would go."""
        now = self._now()
        if dry_run:
            return await self._book.read(lambda view: commands.doomed(view, policy, now))
        return await self._book.write(lambda tx: commands.prune(tx, policy, now), now)

    async def archive(self) -> list[tuple[Pattern, str]]:
        """What was archived, with its month (YYYY-MM)."""
        return await self._book.read(lambda view: list(view.archive()))

    async def restore(self, pattern: str) -> Pattern:
        """Bring a pattern back from the archive, or from retirement.

        Raises:
            UnknownPattern: it is neither.
        """
        return await self._book.write(lambda tx: commands.restore(tx, pattern), self._now())

    async def edit(
        self, pattern: str, *, name: str, tags: Sequence[str], body: Mapping[str, Any], by: str = ""
    ) -> Pattern:
        """Rewrite a pattern in a person's words: `body` whole, as `show` gives it.

        Counts stay; if the body changed, what it did in loops is measured anew.

        Raises:
            UnknownPattern: there is none with this id.
            ValueError: it would be no pattern of its kind.
        """

        def work(tx: Writing) -> Pattern:
            old = tx.pattern(pattern)
            if old is None:
                raise commands.missing(tx, pattern)
            new = rewritten(old, name, tags, dict(body))
            if new != old:
                tx.emit(PatternEdited(pattern, new.name, new.tags, new.body, by))
            return tx.pattern(pattern) or new

        return await self._book.write(work, self._now())

    async def export(self) -> dict[str, Any]:
        """Everything as JSON: relative file names and their contents, in the seed's layout."""
        return await self._book.read(exported)

    async def import_(self, contents: Mapping[str, bytes]) -> ImportReport:
        """Take in exported files. What is wrong is left out and said, each with its path."""
        at = self._now()
        return await self._book.write(lambda tx: imported(tx, contents, at), at)

    async def faults(self) -> list[str]:
        """What could not be read of the registry itself, a line each."""
        return await self._book.faults()

    async def close(self) -> None:
        """Let go of the file."""
        await self._book.close()

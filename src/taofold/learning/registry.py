"""The registry of patterns and its commands.

It chooses and injects patterns, credits outcomes, adds, lists and measures, edits, retires, prunes,
restores and exchanges them; it also holds the results of searches for edits (`rates`, `searched`).
One class over an interface: a `Book` stores the facts and runs a command on the state as one
transaction, again if another writer was faster. The caller passes the clock. Knows nothing about
disks.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice
from math import nan
from typing import Any, Final, NamedTuple

import msgspec

from taofold.core.errors import Refused
from taofold.core.text import iso, times
from taofold.learning import injection
from taofold.learning.book import Book, View, Writing
from taofold.learning.events import (
    LearningEvent,
    LoopReopened,
    LoopSettled,
    PatternApplied,
    PatternArchived,
    PatternDiscovered,
    PatternEdited,
    PatternMerged,
    PatternRefuted,
    PatternRestored,
    PatternRetired,
    SearchSettled,
)
from taofold.learning.exchange.exports import Licensing, exported
from taofold.learning.exchange.imports import ImportReport, LicenceCheck, imported
from taofold.learning.exchange.records import rewritten
from taofold.learning.injection import ChosenLessons
from taofold.learning.loops import ExtractedPattern, LoopNote, LoopStats
from taofold.learning.metrics import Improvement, LearningMetrics, improvement, measure
from taofold.learning.patterns.case import LoopCase
from taofold.learning.patterns.kinds import Kind
from taofold.learning.patterns.pattern import Pattern, Rate, fresh
from taofold.learning.rates import EditRates
from taofold.learning.retrieval.choice import PatternChoice
from taofold.learning.retrieval.index import entry
from taofold.learning.retrieval.relevance import likeness
from taofold.learning.settings import Extraction, Injection, Pruning

_COMPARED: Final = 20
_DAY_MS: Final = 86_400_000


class UnknownPattern(Refused, LookupError):
    """No pattern has this id."""


class Query(NamedTuple):
    """A filter of patterns: all set fields must match. `retired` None = both."""

    kind: Kind | None = None
    tags: tuple[str, ...] = ()
    loop: str = ""
    min_rate: float | None = None
    max_rate: float | None = None
    retired: bool | None = None

    def holds(self, pattern: Pattern) -> bool:
        """Returns whether `pattern` matches."""
        # Without an outcome a pattern is neither above nor below a rate.
        rate = nan if pattern.counts.rate is None else pattern.counts.rate
        return (
            (self.kind is None or pattern.kind == self.kind)
            and {*self.tags} <= {*pattern.tags}
            and (not self.loop or any(source.loop == self.loop for source in pattern.sources))
            and (self.min_rate is None or rate >= self.min_rate)
            and (self.max_rate is None or rate <= self.max_rate)
            and (self.retired is None or bool(pattern.retired) == self.retired)
        )


class Registry:
    """Patterns and their results.

    `now` returns milliseconds since the epoch.
    """

    def __init__(self, book: Book, now: Callable[[], int]) -> None:
        self._book, self._now = book, now

    async def candidates(
        self, case: LoopCase, settings: Injection, *, min_uses: int = 3
    ) -> PatternChoice:
        """Returns the patterns that a loop about `case` would be shown, with figures; changes
        nothing.
        """
        return await self._book.read(
            lambda view: injection.candidates(view, case, settings, min_uses)
        )

    async def inject(
        self,
        loop: str,
        case: LoopCase,
        settings: Injection,
        *,
        min_uses: int = 3,
        manual: bool = False,
    ) -> ChosenLessons:
        """Selects the lessons for a loop. Idempotent unless requested manually."""

        def work(tx: Writing) -> ChosenLessons:
            return injection.inject(tx, loop, case, settings, min_uses=min_uses, manual=manual)

        return await self._book.write(work, self._now())

    async def applied(
        self, loop: str, pattern: str, *, won: bool, iteration: int = 0, by: str = ""
    ) -> bool:
        """Records that the loop made the edit proposed by a pattern that was chosen for it.

        It counts when the loop ends, the best outcome of each. Returns False if the pattern was not
        chosen for this loop, an equally good use is known, or the loop is over.
        """
        return await self._emit(PatternApplied(loop, pattern, won, iteration, by))

    async def ended(
        self, loop: str, *, iterations: int, solved: bool, project: str = "", task: str = ""
    ) -> bool:
        """Ends the loop and counts its patterns. Returns False if it had already ended."""
        return await self._emit(LoopSettled(loop, iterations, solved, project, task))

    async def rates(self) -> EditRates:
        """Returns the results of earlier searches, for the ranking of the next one."""
        return await self._book.read(lambda view: view.rates())

    async def searched(self, loop: str, rates: Mapping[str, Rate], costs: Sequence[float]) -> bool:
        """Counts the result of a loop's search that an edit ended.

        Returns False if it was known.
        """
        return await self._emit(SearchSettled(loop, dict(rates), tuple(costs)))

    async def reopened(self, loop: str, *, iterations: int, solved: bool) -> bool:
        """Reverts the counts of the loop's end if it continued and ended differently.

        Returns False if it has not ended, or ended with the same result. After True, `applied` and
        `ended` count again.
        """

        def work(tx: Writing) -> bool:
            note = tx.loop(loop)
            # The same end reported again: nothing is reverted.
            same = note is not None and (note.iterations, note.solved) == (iterations, solved)
            return not same and tx.emit(LoopReopened(loop))

        return await self._book.write(work, self._now())

    async def _emit(self, event: LearningEvent) -> bool:
        """Records an event. Returns False if it is known, or contradicts the state."""
        return await self._book.write(lambda tx: tx.emit(event), self._now())

    async def discover(
        self, loop: str, drafts: Sequence[Pattern], settings: Extraction, *, by: str = ""
    ) -> list[ExtractedPattern]:
        """Adds the patterns of a loop's end, merged with known ones. Idempotent."""

        def work(tx: Writing) -> list[ExtractedPattern]:
            results: dict[str, ExtractedPattern] = {}
            for draft in map(tx.clean, drafts):
                if draft.kind == "template" and not settings.extract_code_templates:
                    continue
                if settings.within_project:
                    draft = msgspec.structs.replace(draft, only_in=draft.scope.repository)
                identity, new = _taken_in(tx, loop, draft, settings, by)
                stored, first = tx.pattern(identity), results.get(identity)
                new = new or (first is not None and first.new)
                rate = stored.counts.rate if stored else None
                results[identity] = ExtractedPattern(identity, new, rate)
            return list(results.values())

        return await self._book.write(work, self._now())

    async def review(
        self,
        searches: Collection[Sequence[str]],
        fault: Callable[[Pattern], str],
        project: str = "",
    ) -> None:
        """Refutes those of the patterns with these terms for which `fault` returns a reason.

        A pattern that only `project` found is retired. A pattern of another project is no longer
        shown in `project`; it is retired when a second project refutes it.
        """

        def work(tx: Writing) -> None:
            ids = dict.fromkeys([hit.id for terms in searches for hit in tx.search(terms)])
            for pattern in map(tx.pattern, ids):
                if pattern is not None and not pattern.retired and (reason := fault(pattern)):
                    own = pattern.finders <= {project}
                    tx.emit(
                        PatternRetired(pattern.id, reason)
                        if own
                        else PatternRefuted(pattern.id, project, reason)
                    )

        if searches:
            await self._book.write(work, self._now())

    async def loop(self, loop: str) -> LoopNote | None:
        """Returns the note about a loop."""
        return await self._book.read(lambda view: view.loop(loop))

    async def loops(self) -> list[LoopNote]:
        """Returns all loops, the oldest first."""
        return await self._book.read(lambda view: list(view.loops()))

    async def improvement(self, loop: str) -> Improvement | None:
        """Returns the loop against the control loops; None before it ended."""

        def work(view: View) -> Improvement | None:
            note = view.loop(loop)
            return improvement(note, view.stats()) if note and note.ended else None

        return await self._book.read(work)

    async def patterns(self, query: Query = Query()) -> list[Pattern]:
        """Returns the patterns that match `query`, the oldest first."""
        return await self._book.read(lambda view: [*filter(query.holds, view.patterns())])

    async def show(self, pattern: str) -> Pattern:
        """Returns one pattern.

        Raises:
            UnknownPattern: There is none with this id.
        """
        return await self._book.read(lambda view: _pattern(view, pattern))

    async def stats(self) -> LoopStats:
        """Returns the sums over all loops."""
        return await self._book.read(lambda view: view.stats())

    async def metrics(self) -> LearningMetrics:
        """Returns the registry in numbers."""
        return await self._book.read(
            lambda view: measure(view.patterns(), view.stats(), len([*view.archive()]))
        )

    async def retire(self, pattern: str, reason: str) -> None:
        """Stops showing a pattern. It stays listed, with the reason."""
        await self._book.write(
            lambda tx: tx.emit(PatternRetired(_pattern(tx, pattern).id, reason)), self._now()
        )

    async def prune(
        self, policy: Pruning = Pruning(), *, dry_run: bool = False
    ) -> list[PatternArchived]:
        """Archives patterns that failed or are too old; `dry_run` only returns them."""
        now = self._now()

        def doomed(view: View) -> list[PatternArchived]:
            reasons = [(pattern.id, _doom(pattern, policy, now)) for pattern in view.patterns()]
            return [PatternArchived(name, why, iso(now)[:7]) for name, why in reasons if why]

        def work(tx: Writing) -> list[PatternArchived]:
            pruned = doomed(tx)
            for event in pruned:
                tx.emit(event)
            return pruned

        return await (self._book.read(doomed) if dry_run else self._book.write(work, now))

    async def archive(self) -> list[tuple[Pattern, str]]:
        """Returns archived patterns, with their month (YYYY-MM)."""
        return await self._book.read(lambda view: list(view.archive()))

    async def restore(self, pattern: str) -> Pattern:
        """Restores a pattern from the archive, or from retirement.

        Raises:
            UnknownPattern: It is in neither.
        """

        def work(tx: Writing) -> Pattern:
            stored = tx.pattern(pattern)
            if tx.archived(pattern) is None and (stored is None or not stored.retired):
                raise _unknown(tx, pattern, "archived or retired ")
            tx.emit(PatternRestored(pattern))
            return _pattern(tx, pattern)

        return await self._book.write(work, self._now())

    async def edit(
        self, pattern: str, *, name: str, tags: Sequence[str], body: Mapping[str, Any], by: str = ""
    ) -> Pattern:
        """Rewrites a pattern: `body` is complete, as `show` returns it.

        Counts stay; if the body changed, its effect in loops is measured from zero.

        Raises:
            UnknownPattern: There is none with this id.
            ValueError: It would not be a pattern of its kind.
        """

        def work(tx: Writing) -> Pattern:
            old = _pattern(tx, pattern)
            new = rewritten(old, name, tags, dict(body))
            if new != old:
                tx.emit(PatternEdited(pattern, new.name, new.tags, new.body, by))
            return _pattern(tx, pattern)

        return await self._book.write(work, self._now())

    async def export(self, licensing: Licensing | None = None) -> dict[str, Any]:
        """Returns everything as JSON: relative file names and their contents, in the exchange
        layout; with `licensing`, own patterns have licences.
        """
        return await self._book.read(lambda view: exported(view, licensing))

    async def import_(
        self, contents: Mapping[str, bytes], check: LicenceCheck | None = None
    ) -> ImportReport:
        """Imports exported files. Invalid parts are skipped and reported, each with its path.

        `check` decides which licences count.
        """
        at = self._now()
        return await self._book.write(lambda tx: imported(tx, contents, at, check), at)

    async def faults(self) -> list[str]:
        """Returns the unreadable facts of the registry itself, one line each."""
        return await self._book.faults()

    async def close(self) -> None:
        """Releases the file."""
        await self._book.close()


def _taken_in(
    tx: Writing, loop: str, draft: Pattern, settings: Extraction, by: str
) -> tuple[str, bool]:
    """Returns the id under which the draft is known now, and True if that is new."""
    stored = tx.pattern(tx.same(draft))
    if stored is None or stored.claim is not None or stored.only_in != draft.only_in:
        stored = _alike(tx, draft, settings.similarity_threshold)
    if stored is None or not (settings.merge_similar_patterns or loop in stored.loops):
        # The id is assigned here, within the transaction: two loops that end at once get two.
        new = msgspec.structs.replace(draft, id=fresh(draft, tx.ids))
        tx.emit(PatternDiscovered(loop, new, by))
        return new.id, True
    tx.emit(PatternMerged(loop, stored.id, draft, by))
    return stored.id, False


def _alike(view: View, draft: Pattern, threshold: float) -> Pattern | None:
    """Returns the pattern found here that is most similar to `draft`, if above `threshold`.

    Imports are excluded: an observation here would vouch for all other claims of the file.
    """
    best, most = None, threshold
    hits = (view.pattern(hit.id) for hit in view.search(entry(draft).split()))
    # Likeness compares tokens and is slow; only the nearest of its kind by rare words are compared.
    own = (
        stored
        for stored in hits
        if stored
        and (stored.kind, stored.only_in) == (draft.kind, draft.only_in)
        and stored.claim is None
    )
    for other in islice(own, _COMPARED):
        if (value := likeness(draft, other)) > most:
            best, most = other, value
    return best


def _doom(pattern: Pattern, policy: Pruning, now: int) -> str:
    """Returns why it is to be pruned `now`, "" if it is not."""
    rate, uses = pattern.counts.rate, pattern.counts.usage
    judged = pattern.kind != "anti" and uses >= policy.min_usage_count
    if judged and rate is not None and rate < policy.min_success_rate:
        least = policy.min_success_rate
        return f"its success rate {rate:.2f} after {uses} uses is below {least:g}"
    # The dates in an imported file may be years old: its age here begins with the import.
    arrived = pattern.claim.at if pattern.claim else 0
    last = max(pattern.last_used, pattern.first_discovered, arrived)
    # Whole days: "over 0 days" does not hold for what was used seconds ago.
    days = (now - last) // _DAY_MS
    if days > policy.max_age_days:
        day, most = iso(last)[:10], times(policy.max_age_days, "day")
        return f"it was last used on {day}, {times(days, 'day')} ago: over {most}"
    return ""


def _pattern(view: View, identity: str) -> Pattern:
    stored = view.pattern(identity)
    if stored is None:
        raise _unknown(view, identity)
    return stored


def _unknown(view: View, identity: str, kind: str = "") -> UnknownPattern:
    near = [name for name in view.ids(identity[:12]) if name != identity][:3] if identity else []
    hint = f"; known are {', '.join(near)}" if near else ""
    there = " (it is archived: restore it first)" if not kind and view.archived(identity) else ""
    return UnknownPattern(f"no {kind}pattern {identity!r}{there}{hint}")

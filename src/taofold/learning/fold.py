"""Folds facts into state: the changes of one event. Pure, and the same in memory and on disk.

An event touches few patterns, one loop, and the sums; a store passes in the touched parts and keeps
the result. An event about an unknown pattern changes nothing. `attribution` computes the effect of
a loop's end on each pattern.
"""

from typing import Any, Final

import msgspec
from msgspec.structs import replace

from taofold.learning import attribution
from taofold.learning.book import View
from taofold.learning.events import (
    LearningEvent,
    LoopReopened,
    LoopSettled,
    PatternApplied,
    PatternArchived,
    PatternDiscovered,
    PatternEdited,
    PatternImported,
    PatternLicensed,
    PatternMerged,
    PatternRefuted,
    PatternRestored,
    PatternRetired,
    PatternsInjected,
    SearchSettled,
)
from taofold.learning.loops import ExtractedPattern, LoopNote, LoopStats
from taofold.learning.patterns.pattern import (
    MOST_TESTS,
    Pattern,
    PatternScope,
    PatternSource,
)
from taofold.learning.rates import EditRates


class Changes(msgspec.Struct, frozen=True, gc=False):
    """The changes of an event; `Changes()` if it changed nothing.

    `archived` is a pattern that leaves the registry for the archive of a month.
    """

    patterns: tuple[Pattern, ...] = ()
    archived: tuple[Pattern, str] | None = None
    loop: LoopNote | None = None
    rates: EditRates | None = None
    stats: LoopStats | None = None


def step(known: View, event: LearningEvent, at: int) -> Changes:
    """Returns the changes of `event`, which happened `at`."""
    match event:
        case PatternDiscovered():
            return _discovered(known, event, at)
        case PatternMerged():
            return _merged(known, event, at)
        case PatternsInjected():
            return Changes(loop=_injected(_note(known, event.loop, at), event))
        case PatternApplied():
            return Changes(loop=_applied(_note(known, event.loop, at), event))
        case LoopSettled():
            return _ended(known, event, at)
        case SearchSettled():
            return _searched(known, event, at)
        case LoopReopened():
            return _reopened(known, event, at)
        case PatternImported():
            new = replace(event.pattern, claim=event.claim)
            return Changes((new,)) if known.pattern(new.id) is None else Changes()
        case PatternRetired():
            return _with(known.pattern(event.id), retired=event.reason)
        case PatternRefuted():
            return _refuted(known.pattern(event.id), event)
        case PatternArchived():
            pattern = known.pattern(event.id)
            return Changes(archived=(pattern, event.month)) if pattern else Changes()
        case PatternRestored():
            # With a new trial: the loops that saw it are forgotten, its counts are not.
            back = known.pattern(event.id) or known.archived(event.id)
            return _with(back, retired="", last_used=at, **_NEW_TRIAL)
        case PatternEdited():
            return _edited(known.pattern(event.id), event)
        case PatternLicensed():
            return _licensed(known.pattern(event.id), event)


def _with(pattern: Pattern | None, **fields: Any) -> Changes:
    return Changes() if pattern is None else Changes((replace(pattern, **fields),))


def _edited(pattern: Pattern | None, event: PatternEdited) -> Changes:
    if pattern is None or type(event.body) is not type(pattern.body):
        return Changes()
    # A new text gets a new trial: the effect of the old one is no evidence.
    trial: dict[str, Any] = {}
    if event.body != pattern.body:
        trial |= _NEW_TRIAL
        if pattern.claim is not None:
            trial["claim"] = replace(pattern.claim, licence=None)
    return _with(pattern, name=event.name, tags=event.tags, body=event.body, **trial)


def _licensed(pattern: Pattern | None, event: PatternLicensed) -> Changes:
    # An own finding rests on its own loops.
    if pattern is None or pattern.claim is None or pattern.claim.licence == event.licence:
        return Changes()
    return _with(pattern, claim=replace(pattern.claim, licence=event.licence))


_NEW_TRIAL: Final[dict[str, Any]] = {"shown_in": {}, "held_in": {}, "refuted": {}}
_PROJECTS: Final = 2
"""The number of other projects that must refute a lesson before it is retired."""


def _refuted(pattern: Pattern | None, event: PatternRefuted) -> Changes:
    if pattern is None or event.project in pattern.refuted:
        return Changes()
    refuted = {**pattern.refuted, event.project: event.reason}
    retired = event.reason if len(refuted) >= _PROJECTS else ""
    return _with(pattern, refuted=refuted, retired=pattern.retired or retired)


def _note(known: View, loop: str, at: int) -> LoopNote:
    return known.loop(loop) or LoopNote(loop, at)


def _discovered(known: View, event: PatternDiscovered, at: int) -> Changes:
    if known.pattern(event.pattern.id) is not None:
        return Changes()
    new = replace(event.pattern, sources=(), claimed_trend=(), first_discovered=at)
    return _seen(known, new, event, at)


def _merged(known: View, event: PatternMerged, at: int) -> Changes:
    old, draft = known.pattern(event.id), event.pattern
    if old is None:
        return Changes()
    same = old.scope.repository == draft.scope.repository
    if same:
        tests = tuple(dict.fromkeys([*old.tests, *draft.tests]))[:MOST_TESTS]
        old = replace(old, tests=tests)
    if event.loop in old.loops:  # extracted again manually: one loop counts once
        return _extracted(known, old, event.loop, at, new=False)
    # Seen in two repositories or languages, it is bound to neither.
    scope = PatternScope(
        old.scope.repository if same else "",
        old.scope.language if old.scope.language == draft.scope.language else "",
    )
    tags = tuple(dict.fromkeys([*old.tags, *draft.tags]))
    tests = old.tests if same else ()
    return _seen(known, replace(old, tags=tags, scope=scope, tests=tests), event, at)


def _seen(
    known: View, pattern: Pattern, event: PatternDiscovered | PatternMerged, at: int
) -> Changes:
    """Adds one sighting of the pattern."""
    new = isinstance(event, PatternDiscovered)
    source = PatternSource(
        event.loop,
        at,
        "discovered" if new else "merged",
        event.by,
        project=event.pattern.scope.repository,
    )
    seen = replace(pattern, sources=(*pattern.sources, source), last_used=at)
    return _extracted(known, seen, event.loop, at, new=new)


def _extracted(known: View, pattern: Pattern, loop: str, at: int, *, new: bool) -> Changes:
    note = _note(known, loop, at)
    if any(extract.id == pattern.id for extract in note.extracts):
        return Changes()
    extract = ExtractedPattern(pattern.id, new, pattern.counts.rate)
    return Changes((pattern,), loop=replace(note, extracts=(*note.extracts, extract)))


def _injected(note: LoopNote, event: PatternsInjected) -> LoopNote | None:
    # Decided once: a fact written twice, as by a loop that crashed, changes nothing.
    after = max([choice.after for choice in event.shown], default=0)
    if note.decided and after <= note.after and not event.manual:
        return None
    # A manual request in a control loop replaces the choice that was withheld.
    kept = note.shown if note.control == event.control else ()
    chosen = {choice.id: choice for choice in kept}
    for choice in event.shown:
        chosen.setdefault(choice.id, choice)
        if after:
            chosen[choice.id] = choice
    return replace(
        note,
        shown=tuple(chosen.values()),
        text=event.text,
        control=event.control,
        manual=note.manual or event.manual,
        decided=True,
        context=note.context if after else event.context,
    )


def _applied(note: LoopNote, event: PatternApplied) -> LoopNote | None:
    # For control loops too: the loop made the edit without seeing the pattern.
    if note.ended or event.id not in [choice.id for choice in note.shown]:
        return None
    before = note.use(event.id)
    # The best outcome of a loop counts: a pattern that failed and then helped has helped.
    if before is not None and (before.won or not event.won):
        return None
    others = [use for use in note.uses if use.id != event.id]
    return replace(note, uses=(*others, event))


def _ended(known: View, event: LoopSettled, at: int) -> Changes:
    note = _note(known, event.loop, at)
    if note.ended:
        return Changes()
    note = replace(
        note,
        ended=at,
        iterations=event.iterations,
        solved=event.solved,
        project=event.project or note.context.repository,
        task=event.task,
    )
    # The sums first: `settled` compares each pattern with them, including this loop.
    stats = attribution.summed(known.stats(), note)
    settled = [attribution.settled(pattern, note, stats) for pattern in _chosen(known, note)]
    return Changes(tuple(settled), loop=note, stats=stats)


def _reopened(known: View, event: LoopReopened, at: int) -> Changes:
    """Reverts the counts of the end. A counted search stays counted, once."""
    note = known.loop(event.loop)
    if note is None or not note.ended:
        return Changes()
    stats = attribution.unsummed(known.stats(), note, at)
    before = [attribution.unsettled(pattern, note) for pattern in _chosen(known, note)]
    resumed = replace(note, ended=0, iterations=0, solved=False)
    return Changes(tuple(before), loop=resumed, stats=stats)


def _chosen(known: View, note: LoopNote) -> list[Pattern]:
    """Returns the patterns that were chosen for the loop and still exist."""
    patterns = [known.pattern(choice.id) for choice in note.shown]
    return [pattern for pattern in patterns if pattern is not None]


def _searched(known: View, event: SearchSettled, at: int) -> Changes:
    note = _note(known, event.loop, at)
    if note.searched:  # written twice, as after a crash between the fact and its answer
        return Changes()
    rates = known.rates(event.rates).plus(event.rates, event.costs)
    return Changes(loop=replace(note, searched=True), rates=rates)

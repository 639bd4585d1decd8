"""From facts to state: what one event changes. Pure, and the same in memory and on disk.

An event touches few patterns, one loop, and the sums; a store hands in what it touches and
keeps what comes out. An event about a pattern that is not there changes nothing. How a loop's end
counts for each pattern is `attribution`.
"""

from collections.abc import Mapping

import msgspec

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
    PatternMerged,
    PatternRestored,
    PatternRetired,
    PatternsInjected,
    SearchSettled,
)
from taofold.learning.loops import ExtractedPattern, LoopNote, LoopStats
from taofold.learning.patterns.pattern import (
    Arm,
    Pattern,
    PatternScope,
    PatternSource,
    Rate,
    RatePoint,
)
from taofold.learning.rates import after


class Changes(msgspec.Struct, frozen=True, gc=False):
    """What an event changed. A pattern in `archive` has its month with it; None = taken out."""

    patterns: Mapping[str, Pattern | None] = {}
    archive: Mapping[str, tuple[Pattern, str] | None] = {}
    loop: LoopNote | None = None
    rates: Mapping[str, Rate] = {}
    costs: tuple[float, ...] | None = None
    stats: LoopStats | None = None


def step(known: View, event: LearningEvent, at: int) -> Changes:
    """What `event`, that happened `at`, changes."""
    match event:
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
        case PatternDiscovered():
            return _discovered(known, event, at)
        case PatternMerged():
            return _merged(known, event, at)
        case PatternEdited():
            return _one(_edited(known.pattern(event.id), event))
        case PatternRetired():
            pattern = known.pattern(event.id)
            return _one(msgspec.structs.replace(pattern, retired=event.reason) if pattern else None)
        case PatternArchived():
            pattern = known.pattern(event.id)
            if pattern is None:
                return Changes()
            return Changes({event.id: None}, {event.id: (pattern, event.month)})
        case PatternRestored():
            return _restored(known, event, at)
        case PatternImported():
            there = known.pattern(event.pattern.id)
            new = msgspec.structs.replace(event.pattern, claim=event.claim)
            return _one(new if there is None else None)


def _edited(pattern: Pattern | None, event: PatternEdited) -> Pattern | None:
    """With a person's words. New words get a new trial: what the old ones did says nothing."""
    if pattern is None or type(pattern.body) is not type(event.body):
        return None
    renamed = msgspec.structs.replace(pattern, name=event.name, tags=event.tags)
    if pattern.body == event.body:
        return renamed
    return msgspec.structs.replace(renamed, body=event.body, shown=Arm(), held=Arm())


def _one(pattern: Pattern | None) -> Changes:
    return Changes({pattern.id: pattern}) if pattern else Changes()


def _note(known: View, loop: str, at: int) -> LoopNote:
    return known.loop(loop) or LoopNote(loop, at)


def _discovered(known: View, event: PatternDiscovered, at: int) -> Changes:
    new = event.pattern
    if known.pattern(new.id) is not None:
        return Changes()
    anti = new.kind == "anti"
    counts = attribution.ONE_LOSS if anti else attribution.ONE_WIN
    pattern = msgspec.structs.replace(
        new,
        sources=(PatternSource(event.loop, at, "discovered", event.by, None, *_extent(new)),),
        first_discovered=at,
        last_used=at,
        counts=counts,
        trend=(RatePoint(at, counts.rate or 0.0, 1, (event.loop,)),),
    )
    return _extracted(known, pattern, event.loop, at, new=True)


def _merged(known: View, event: PatternMerged, at: int) -> Changes:
    old = known.pattern(event.id)
    if old is None:
        return Changes()
    if event.loop in old.loops:  # extracted again by hand: one loop counts once
        return _extracted(known, old, event.loop, at, new=False)
    counts = attribution.ONE_LOSS if old.kind == "anti" else attribution.ONE_WIN
    source = PatternSource(event.loop, at, "merged", event.by, None, *_extent(event.pattern))
    pattern = msgspec.structs.replace(
        attribution.counted(old, counts, source, at),
        tags=tuple(dict.fromkeys([*old.tags, *event.pattern.tags])),
        # Seen in two repositories or languages it is bound to neither.
        scope=_wider(old.scope, event.pattern.scope),
    )
    return _extracted(known, pattern, event.loop, at, new=False)


def _extent(pattern: Pattern) -> tuple[int, str]:
    """The iterations and the outcome that a draft's own source tells."""
    return (
        (pattern.sources[0].iterations, pattern.sources[0].outcome) if pattern.sources else (0, "")
    )


def _wider(one: PatternScope, other: PatternScope) -> PatternScope:
    return PatternScope(
        one.repository if one.repository == other.repository else "",
        one.language if one.language == other.language else "",
    )


def _extracted(known: View, pattern: Pattern, loop: str, at: int, *, new: bool) -> Changes:
    note = _note(known, loop, at)
    if any(extract.id == pattern.id for extract in note.extracts):
        return Changes()
    note = msgspec.structs.replace(
        note, extracts=(*note.extracts, ExtractedPattern(pattern.id, new, pattern.counts.rate))
    )
    return Changes({pattern.id: pattern}, loop=note)


def _injected(note: LoopNote, event: PatternsInjected) -> LoopNote | None:
    # Decided once: a fact that is written twice, as by a loop that crashed, changes nothing.
    after = max([choice.after for choice in event.shown], default=0)
    if note.decided and after <= note.after and not event.manual:
        return None
    # What a person asks for in a control loop replaces the choice that was kept from it.
    kept = note.shown if note.control == event.control else ()
    chosen = {choice.id: choice for choice in kept}
    for choice in event.shown:
        chosen.setdefault(choice.id, choice)
        if after:
            chosen[choice.id] = choice
    return msgspec.structs.replace(
        note,
        shown=tuple(chosen.values()),
        text=event.text,
        control=event.control,
        manual=note.manual or event.manual,
        decided=True,
        context=note.context if after else event.context,
    )


def _applied(note: LoopNote, event: PatternApplied) -> LoopNote | None:
    if note.ended:
        return None
    before = note.use(event.id)
    # The best outcome of a loop counts: a pattern that failed and then helped has helped.
    if before is not None and (before.won or not event.won):
        return None
    others = [use for use in note.uses if use.id != event.id]
    return msgspec.structs.replace(note, uses=(*others, event))


def _ended(known: View, event: LoopSettled, at: int) -> Changes:
    note = _note(known, event.loop, at)
    if note.ended:
        return Changes()
    note = msgspec.structs.replace(note, ended=at, iterations=event.iterations, solved=event.solved)
    # The sums first: `settled` compares each pattern with them, this loop included.
    stats = attribution.summed(known.stats(), note)
    changed: dict[str, Pattern | None] = {
        identity: attribution.settled(pattern, note, stats)
        for identity, pattern in _chosen(known, note).items()
    }
    return Changes(changed, loop=note, stats=stats)


def _chosen(known: View, note: LoopNote) -> dict[str, Pattern]:
    """The patterns that were chosen for the loop and are still there."""
    patterns = {choice.id: known.pattern(choice.id) for choice in note.shown}
    return {identity: pattern for identity, pattern in patterns.items() if pattern is not None}


def _searched(known: View, event: SearchSettled, at: int) -> Changes:
    note = _note(known, event.loop, at)
    if note.searched:  # written twice, as after a crash between the fact and its answer
        return Changes()
    return Changes(
        loop=msgspec.structs.replace(note, searched=True),
        rates={key: known.rate(key).plus(rate) for key, rate in event.rates.items()},
        costs=after(known.costs(), event.costs),
    )


def _reopened(known: View, event: LoopReopened, at: int) -> Changes:
    """What the end counted is taken back. A search that was counted stays counted, once."""
    note = known.loop(event.loop)
    if note is None or not note.ended:
        return Changes()
    stats = attribution.unsummed(known.stats(), note, at)
    resumed = msgspec.structs.replace(note, ended=0, iterations=0, solved=False)
    before: dict[str, Pattern | None] = {
        identity: attribution.unsettled(pattern, note)
        for identity, pattern in _chosen(known, note).items()
    }
    return Changes(before, loop=resumed, stats=stats)


def _restored(known: View, event: PatternRestored, at: int) -> Changes:
    """Back, with a new trial: who saw it is forgotten, its counts are not."""
    pattern = known.pattern(event.id) or known.archived(event.id)
    if pattern is None:
        return Changes()
    back = msgspec.structs.replace(pattern, retired="", last_used=at, shown=Arm(), held=Arm())
    return Changes({event.id: back}, {event.id: None})

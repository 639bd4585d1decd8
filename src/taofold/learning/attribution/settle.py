"""The end of a loop: each pattern that was looked at for it gets its due, once.

What ended the loop says of all of them whether they were right, shown or not. Counts are
about uses alone; a control loop only adds to what happens without. Knows nothing about events.
"""

from collections.abc import Iterable, Mapping

import msgspec

from taofold.learning.attribution.judge import hurts, its_own
from taofold.learning.patterns.notes import LoopNote, Stats
from taofold.learning.patterns.values import (
    KEPT_EVIDENCE,
    KEPT_TREND,
    Counts,
    Evidence,
    Pattern,
    Snapshot,
    Source,
)

ONE_WIN = Counts(1, 1, 0)
ONE_LOSS = Counts(1, 0, 1)
NO_USE = Counts()


def told(note: LoopNote, patterns: Iterable[Pattern]) -> dict[str, Evidence]:
    """What a loop that has ended says of patterns that were looked at for it, by their ids."""
    promised = {one.id: one.start for one in note.looked}
    found: dict[str, Evidence] = {}
    for pattern in patterns:
        outcome = note.outcome(pattern.id)
        if outcome == "other" and not pattern.change:  # what ended the loop may go well with it
            outcome = "ignored" if pattern.id in note.ids else None
        if outcome is None or (pattern.kind == "anti" and outcome == "ignored"):
            continue  # not doing what an anti-pattern says is the point
        found[pattern.id] = Evidence(
            outcome, note.loop, note.ended, note.context, promised[pattern.id]
        )
    return found


def settled(pattern: Pattern, note: LoopNote, seen: Evidence | None, stats: Stats) -> Pattern:
    """The pattern after the loop `note`, which saw it or was kept from seeing it."""
    if note.control:
        held = pattern.held.plus(note.iterations, note.solved)
        return msgspec.structs.replace(pattern, held=held)
    shown = pattern.shown.plus(note.iterations, note.solved)
    pattern = _recorded(msgspec.structs.replace(pattern, shown=shown), note, seen)
    reason = "" if pattern.retired else hurts(pattern, stats)
    return msgspec.structs.replace(pattern, retired=reason) if reason else pattern


def _recorded(pattern: Pattern, note: LoopNote, seen: Evidence | None) -> Pattern:
    use, at = note.use(pattern.id), note.ended
    if seen is None:
        return pattern
    if use is None:
        return _with(pattern, seen)
    if note.loop in pattern.loops:  # it found the pattern as well: one loop counts once
        return _with(msgspec.structs.replace(pattern, last_used=at), seen)
    source = Source(note.loop, at, "applied", use.by, use.won, note.iterations)
    counts = ONE_WIN if use.won else ONE_LOSS
    return counted(pattern, counts if its_own(pattern, note.context) else NO_USE, source, seen, at)


def counted(pattern: Pattern, counts: Counts, source: Source, seen: Evidence, at: int) -> Pattern:
    """The pattern with one use more."""
    total = pattern.counts + counts
    point = Snapshot(at, total.rate or 0.0, total.successes + total.failures, (source.loop,))
    return msgspec.structs.replace(
        _with(pattern, seen),
        counts=total,
        sources=(*pattern.sources, source),
        last_used=at,
        trend=(*pattern.trend, point)[-KEPT_TREND:],
    )


def _with(pattern: Pattern, seen: Evidence) -> Pattern:
    evidence = (*pattern.evidence, seen)[-KEPT_EVIDENCE:]
    return msgspec.structs.replace(pattern, evidence=evidence)


def summed(stats: Stats, note: LoopNote, told: Mapping[str, Evidence]) -> Stats:
    """The sums with one loop more, and what it told of patterns."""
    arm = "plain"
    if note.shown:
        arm = "held" if note.control else "manual" if note.manual else "shown"
    with_loop = getattr(stats, arm).plus(note.iterations, note.solved)
    tries = stats.tries.plus(note.tries or note.iterations, note.solved)
    own, claimed = stats.own.faded(), stats.claimed.faded()
    for one in note.looked:
        if one.id not in told:
            continue
        if one.claimed:
            claimed = claimed.plus(told[one.id], one.unproven)
        else:
            own = own.plus(told[one.id], one.unproven)
    return msgspec.structs.replace(
        stats, **{arm: with_loop}, tries=tries, own=own, claimed=claimed, updated=note.ended
    )

"""The end of a loop: each pattern that it was shown gets its due, once.

A use is a win or a loss; being shown and not used is a quarter of a loss; a control loop
only adds to what happens without. Knows nothing about events.
"""

import msgspec

from taofold.patterns.judge import FRESH, hurts, its_own, record
from taofold.patterns.notes import FixNote, LoopNote, Stats
from taofold.patterns.values import (
    KEPT_EVIDENCE,
    KEPT_TREND,
    Counts,
    Evidence,
    Outcome,
    Pattern,
    Snapshot,
    Source,
)

ONE_WIN = Counts(1, 1, 0)
ONE_LOSS = Counts(1, 0, 1)
NO_USE = Counts()


def settled(pattern: Pattern, note: LoopNote, stats: Stats, at: int) -> Pattern:
    """The pattern after the loop `note`, which saw it or was kept from seeing it."""
    if note.control:
        held = pattern.held.plus(note.iterations, note.solved)
        return msgspec.structs.replace(pattern, held=held)
    shown = pattern.shown.plus(note.iterations, note.solved)
    pattern = _recorded(msgspec.structs.replace(pattern, shown=shown), note, at)
    reason = "" if pattern.retired else hurts(pattern, stats)
    return msgspec.structs.replace(pattern, retired=reason) if reason else pattern


def _recorded(pattern: Pattern, note: LoopNote, at: int) -> Pattern:
    use, now = note.use(pattern.id), seen(pattern, note, at)
    if now is None:
        return pattern
    if use is None:
        return _with(pattern, now)
    if note.loop in pattern.loops:  # it found the pattern as well: one loop counts once
        return _with(msgspec.structs.replace(pattern, last_used=at), now)
    source = Source(note.loop, at, "applied", use.by, use.won, note.iterations)
    counts = ONE_WIN if use.won else ONE_LOSS
    return counted(pattern, counts if its_own(pattern, note.context) else NO_USE, source, now, at)


def seen(pattern: Pattern, note: LoopNote, at: int) -> Evidence | None:
    """What the loop shows of the pattern; None if it shows nothing."""
    if note.control:
        return None
    outcome = note.outcome(pattern.id)
    if outcome == "ignored" and pattern.kind == "anti":  # not doing it is the point
        return None
    return Evidence(outcome, note.loop, at, note.context)


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


def summed(stats: Stats, note: LoopNote, fresh: dict[str, Outcome], at: int) -> Stats:
    """The sums with one loop more. `fresh` are outcomes of patterns that had few before."""
    arm = "plain"
    if note.shown:
        arm = "held" if note.control else "manual" if note.manual else "shown"
    with_loop = getattr(stats, arm).plus(note.iterations, note.solved)
    tries = stats.tries.plus(note.tries or note.iterations, note.solved)
    own, claimed = stats.own.faded(), stats.claimed.faded()
    for one in note.shown:
        if one.id in fresh:
            expected = one.start
            if one.claimed:
                claimed = claimed.plus(fresh[one.id], expected)
            else:
                own = own.plus(fresh[one.id], expected)
    return msgspec.structs.replace(
        stats, **{arm: with_loop}, tries=tries, own=own, claimed=claimed, updated=at
    )


def fresh(pattern: Pattern, fix: FixNote | None, note: LoopNote) -> Outcome | None:
    """What the loop says of patterns without a record; None if this one had one before.

    Changes that turned out wrong should not be held against others again and again.
    """
    if note.control or pattern.kind == "anti":
        return None
    if max(record(pattern), len(fix.evidence) if fix else 0) >= FRESH:
        return None
    return note.outcome(pattern.id)

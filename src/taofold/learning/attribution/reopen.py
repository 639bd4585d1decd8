"""A loop that had ended goes on: what its end counted is taken back, to be counted anew.

The reverse of `settle`, so that a loop counts once, with its last outcome. What other loops
counted since stays. Knows nothing about events.
"""

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from taofold.learning.attribution.judge import its_own
from taofold.learning.patterns.notes import FADE, FixNote, LoopNote, Stats, Tally
from taofold.learning.attribution.settle import NO_USE, ONE_LOSS, ONE_WIN, summed
from taofold.learning.patterns.values import Arm, Counts, Evidence, Pattern

Sum = TypeVar("Sum", Arm, Counts)


def unsettled(pattern: Pattern, note: LoopNote) -> Pattern:
    """The pattern without what the end of the loop `note` counted.

    One that was retired meanwhile stays so: that may have been a person's word.
    """
    seen = Arm().plus(note.iterations, note.solved)
    if note.control:
        return msgspec.structs.replace(pattern, held=_less(pattern.held, seen))
    kept = [one for one in pattern.evidence if one.loop != note.loop or one.outcome == "found"]
    pattern = msgspec.structs.replace(
        pattern, shown=_less(pattern.shown, seen), evidence=tuple(kept)
    )
    use = next((one for one in pattern.uses if one.loop == note.loop), None)
    if use is None:
        return pattern
    counted = ONE_WIN if use.won else ONE_LOSS
    return msgspec.structs.replace(
        pattern,
        counts=_less(pattern.counts, counted if its_own(pattern, note.context) else NO_USE),
        sources=tuple([one for one in pattern.sources if one is not use]),
        trend=tuple([one for one in pattern.trend if one.loops != (note.loop,)]),
    )


def unseen(fix: FixNote, loop: str) -> FixNote:
    """What became of a change, the loop left out."""
    return FixNote(fix.key, tuple([one for one in fix.evidence if one.loop != loop]))


def unsummed(stats: Stats, note: LoopNote, told: Mapping[str, Evidence], at: int) -> Stats:
    """The sums with one loop less, and without what it told of patterns."""
    one = summed(Stats(), note, told)
    return Stats(
        _less(stats.shown, one.shown),
        _less(stats.held, one.held),
        _less(stats.plain, one.plain),
        _less(stats.manual, one.manual),
        _less(stats.tries, one.tries),
        _before(stats.own, one.own),
        _before(stats.claimed, one.claimed),
        at,
    )


def _before(tally: Tally, one: Tally) -> Tally:
    """The tally as it was before it faded and took `one`."""
    return Tally(
        max(tally.wins - one.wins, 0.0) / FADE, max(tally.promised - one.promised, 0.0) / FADE
    )


def _less(one: Sum, other: Sum) -> Sum:
    """The difference, never below nothing: a pattern may have been given a new trial since."""
    pairs = zip(msgspec.structs.astuple(one), msgspec.structs.astuple(other), strict=True)
    return type(one)(*[max(a - b, 0) for a, b in pairs])

"""Chooses which iteration's files a loop that did not simply complete leaves behind. Pure.

Verified iterations come first, then quality, and on a tie the earlier one. If every iteration
is worse than the start, the start is the best there is.
"""

from typing import Final

from taofold.core.values import Value
from taofold.loop.events import IterationEnded
from taofold.loop.state import LoopState

START: Final = 0


class Choice(Value, frozen=True):
    """The iteration that was chosen (0 = the state before the first) and why."""

    number: int
    snapshot: str
    reason: str
    degraded: bool = False
    """Was the last iteration worse than the chosen one?"""


def choose(state: LoopState) -> Choice | None:
    """The best iteration; None if none ended."""
    done = state.done
    if not done:
        return None
    verified = state.verified
    best = min(verified or done, key=lambda one: (-one.quality, one.number))
    last = done[-1]
    degraded = best.number != last.number and _worse(state, last, best)
    start = state.baseline
    if not verified and start is not None and best.quality < start.verdict.quality:
        why = (
            f"none verified; fallback: every iteration is worse ({best.quality:.0%} at best) than "
            f"the start ({start.verdict.quality:.0%})"
        )
        return Choice(START, start.snapshot, why, True)
    said = f"iteration {best.number} at {best.quality:.0%}"
    if verified:
        reason = f"highest quality among the verified: {said}"
    else:
        reason = f"none verified; fallback: highest quality, {said}"
    same = [one.number for one in (verified or done) if one.quality == best.quality]
    if len(same) > 1:
        reason += f" (the earliest of {len(same)} equal ones)"
    return Choice(best.number, best.snapshot, reason, degraded)


def _worse(state: LoopState, last: IterationEnded, best: IterationEnded) -> bool:
    good = {one.number for one in state.verified}
    return last.quality < best.quality or (best.number in good and last.number not in good)

"""Decides a loop's next move (`decide`) and whose files it keeps (`choose`). Pure.

Both use only the loop's state and the clock. `decide` returns the next move as a value (`Measure`,
`Iterate`, `Finish`, …). The driver performs it, records the result, and asks again; so a loop that
was killed between any two facts continues exactly there. `choose` selects the iteration whose files
remain after a loop that did not simply complete. `course` detects a loop without progress; its
findings are facts of the state here.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

from taofold.core.text import times
from taofold.core.values import Value
from taofold.loop.events import IterationEnded
from taofold.loop.gates.verdict_texts import allowing
from taofold.loop.state import LoopState
from taofold.loop.values import ENDED, Ending
from taofold.loop.verdict import percent
from taofold.parsing.untrusted_text import join_names, one_line

WARNINGS: Final = 1
"""The number of iterations that may change protected files before such a change ends the loop."""
FRUITLESS = 2
"""The number of consecutive failed iterations without a change after which a loop has failed."""


@dataclass(frozen=True, slots=True)
class Measure:
    """Takes the baseline."""


@dataclass(frozen=True, slots=True)
class Inject:
    """Requests the lessons of earlier loops, and freezes them."""


@dataclass(frozen=True, slots=True)
class Iterate:
    """Runs iteration `number`; `going` if it began already."""

    number: int
    run: str
    going: bool = False


@dataclass(frozen=True, slots=True)
class Wait:
    """Waits until a user resumes the loop."""

    reason: str


@dataclass(frozen=True, slots=True)
class Close:
    """Ends the work."""

    ending: Ending
    reason: str


@dataclass(frozen=True, slots=True)
class Finish:
    """Chooses the best iteration, restores its files and records the ending."""


@dataclass(frozen=True, slots=True)
class Clear:
    """Removes the worktree or the copy, whose result is in the project."""


@dataclass(frozen=True, slots=True)
class Learn:
    """Extracts the lessons of the loop."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Nothing is left to do."""


Move: TypeAlias = Measure | Inject | Iterate | Wait | Close | Finish | Clear | Learn | Stop


def run_id(loop: str, number: int) -> str:
    """Returns the id of the run of an iteration, which is the same after a crash."""
    return f"{loop}.{number}"


def decide(loop: str, state: LoopState, now: int) -> Move:
    """Returns the next move at `now` (ms since the epoch)."""
    # Clearing and learning are the only work after the end; each is a fact, so each happens once.
    if state.status in ENDED:
        if state.clearable:
            return Clear()
        taught = state.learnt is not None or not state.teachable
        return Stop() if taught else Learn()
    if state.status == "completing":
        return Finish()
    if state.status not in ("pending", "running"):
        return Stop()
    if state.baseline is None:
        return Measure()
    # If the gates passed before any work, there is nothing to claim or to learn.
    if state.green_before and not state.iterations:
        return Close("completed", "the gates passed before iteration 1: there was nothing to do")
    if state.lessons is None:
        return Inject()
    # A process died in the middle of an iteration: it continues with the same run.
    if state.open is not None:
        return Iterate(state.open.number, state.open.run, going=True)
    return _between(loop, state, now)


def _between(loop: str, state: LoopState, now: int) -> Move:
    """Returns the move between iterations: close, wait, or begin the next."""
    ended = _ending(state) or _limit(state, now)
    if ended is not None:
        # A limit reached after a verified iteration is not a failure: the loop kept improving.
        if state.verified and ended.ending not in ("tampered", "aborted", "failed"):
            return Close("completed", ended.reason)
        unstarted = "" if state.last is None else state.last.verdict.unstarted
        if unstarted and ended.ending != "tampered":
            return Close(ended.ending, f"a gate could not start: {unstarted}; {ended.reason}")
        return ended
    if state.asked is not None:
        return Wait(f"asked to by {state.asked.by}")
    for event in state.raised("pause"):
        return Wait(f"{event.kind}: {event.why}")
    number = len(state.iterations) + 1
    return Iterate(number, run_id(loop, number))


def _ending(state: LoopState) -> Close | None:
    """Returns the ending caused by the gates, by detection, or by the model's failure."""
    last = state.last
    if last is None:
        return None
    if last.verdict.tampered and _must_end(state):
        paths = last.verdict.tampered_with
        named = f"protected files were changed: {join_names(paths, 10)}"
        return Close("tampered", f"{named}; {allowing(paths)} lets the agent edit them")
    if state.verified and not state.wish.keep_improving:
        return Close("completed", f"the gates passed after iteration {state.verified[0].number}")
    # A model that fails to answer twice in a row is not expected to answer the third time.
    tries = state.recent[-FRUITLESS:]
    if len(tries) == FRUITLESS and all(map(_fruitless, tries)):
        message = one_line(last.said, 300)
        return Close("failed", f"the model failed {FRUITLESS} times in a row: {message}")
    for event in state.raised("abort"):
        return Close("no_progress", event.why)
    return None


def _must_end(state: LoopState) -> bool:
    """Returns whether a change of protected files ends the loop.

    The first change is reverted, and the next prompt has a warning. Files above the work root are
    not reverted, so a change of them ends the loop at once.
    """
    tampered = [iteration for iteration in state.done if iteration.verdict.tampered]
    outside = [path for path in tampered[-1].verdict.tampered_with if path.startswith("/")]
    return len(tampered) > WARNINGS or bool(outside)


def _fruitless(iteration: IterationEnded) -> bool:
    """Returns whether its run ended by an error before it changed anything."""
    return iteration.status == "failed" and not iteration.changed


def _limit(state: LoopState, now: int) -> Close | None:
    """Returns the limit that was reached, the most important to a user first."""
    bounds = state.bounds
    if bounds.usd is not None and state.spent.usage.priced_usd >= bounds.usd:
        return Close(
            "budget", f"${state.spent.usage.priced_usd:.2f} of ${bounds.usd:.2f} are spent"
        )
    if state.left_ms(now) <= 0:
        return out_of_time(state)
    if len(state.iterations) >= bounds.iterations:
        count = f"{times(bounds.iterations, 'iteration')}"
        return Close("exhausted", f"{count}, and the gates do not pass")
    return None


def out_of_time(state: LoopState) -> Close:
    """Returns the ending of a loop whose time is over."""
    return Close("timeout", f"{state.bounds.seconds / 60:g} minutes are over")


START: Final = 0


class BestIteration(Value, frozen=True):
    """The chosen iteration (0 = the state before the first) and the reason."""

    number: int
    snapshot: str
    reason: str
    degraded: bool = False
    """True if the last iteration was worse than the chosen one."""


def choose(state: LoopState) -> BestIteration | None:
    """Returns the best iteration; None if none ended."""
    done = state.done
    if not done:
        return None
    verified = state.verified
    # On a tie the earlier one: the later ones gained nothing.
    best = min(verified or done, key=lambda one: (-one.quality, one.number))
    last = done[-1]
    degraded = best.number != last.number and _worse(state, last, best)
    start = state.baseline
    # Leaving the files unchanged is better than leaving them worse.
    if not verified and start is not None and best.quality < start.verdict.quality:
        why = (
            "none verified; fallback: every iteration is worse "
            f"({percent(best.quality)} at best) than the start ({percent(start.verdict.quality)})"
        )
        return BestIteration(START, start.snapshot, why, True)
    summary = f"iteration {best.number} at {percent(best.quality)}"
    if verified:
        reason = f"highest quality among the verified: {summary}"
    else:
        reason = f"none verified; fallback: highest quality, {summary}"
    equal = [
        iteration.number for iteration in (verified or done) if iteration.quality == best.quality
    ]
    if len(equal) > 1:
        reason += f" (the earliest of {len(equal)} equal ones)"
    return BestIteration(best.number, best.snapshot, reason, degraded)


def _worse(state: LoopState, last: IterationEnded, best: IterationEnded) -> bool:
    good = {iteration.number for iteration in state.verified}
    return last.quality < best.quality or (best.number in good and last.number not in good)

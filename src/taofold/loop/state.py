"""The state of a loop (`LoopState`): a pure `fold` of its facts that refuses invalid sequences.

It answers the queries of decisions and reports about the past: the last verdict, the gain of each
iteration, the remaining time, a folder still to be removed. Two processes that fold the same facts
see the same loop; nothing else is stored.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, assert_never

from msgspec.structs import replace

from taofold.core.errors import Refused
from taofold.core.values import Value
from taofold.loop import events as loop_events
from taofold.loop.values import (
    ENDED,
    RESUMABLE,
    Learnt,
    Level,
    LoopLimits,
    LoopRequest,
    LoopSpending,
    Status,
    check,
)
from taofold.loop.verdict import Verdict


class Iteration(Value, frozen=True):
    """One iteration: `ended` is None while it is open. Times are ms since the epoch."""

    number: int
    run: str
    started_at: int = 0
    before: str = ""
    """Snapshot of the files at its start."""
    ended: loop_events.IterationEnded | None = None


class LoopState(Value, frozen=True):
    """The state of a loop after its facts. `at` is the time of the last one."""

    status: Status = "pending"
    wish: LoopRequest = LoopRequest("", (), "")
    bounds: LoopLimits = LoopLimits()
    owner: str = ""
    place: str = ""
    started_at: int = 0
    active_at: int = 0
    """The time of the start or the last resume, from which the timer counts."""
    at: int = 0
    baseline: loop_events.BaselineTaken | None = None
    injected: tuple[loop_events.LessonsInjected, ...] = ()
    iterations: tuple[Iteration, ...] = ()
    interventions: tuple[loop_events.Intervened, ...] = ()
    resumed_after: int = 0
    """Ended iterations at the last resume: detection ignores them."""
    resumptions: int = 0
    pause: loop_events.LoopPaused | None = None
    asked: loop_events.PauseAsked | None = None
    """The request to pause before the next iteration."""
    crash: loop_events.LoopCrashed | None = None
    closing: loop_events.Completing | None = None
    restored: loop_events.FilesRestored | None = None
    ended: loop_events.LoopEnded | None = None
    cleared: loop_events.Cleared | None = None
    learnt: Learnt | None = None
    spent: LoopSpending = LoopSpending()
    head: int = -1
    """Number of the last fact."""

    @property
    def done(self) -> tuple[loop_events.IterationEnded, ...]:
        """The iterations that ended."""
        return tuple(
            [iteration.ended for iteration in self.iterations if iteration.ended is not None]
        )

    @property
    def last(self) -> loop_events.IterationEnded | None:
        """The newest iteration that ended."""
        done = self.done
        return done[-1] if done else None

    @property
    def recent(self) -> tuple[loop_events.IterationEnded, ...]:
        """The iterations that ended since the last resume."""
        return self.done[self.resumed_after :]

    def raised(self, level: Level) -> tuple[loop_events.Intervened, ...]:
        """Returns the interventions at `level` after the last iteration; none after a resume."""
        recent = self.recent
        if not recent:
            return ()
        number = recent[-1].number
        return tuple(
            [
                event
                for event in self.interventions
                if (event.number, event.level) == (number, level)
            ]
        )

    @property
    def open(self) -> Iteration | None:
        """The open iteration."""
        last = self.iterations[-1] if self.iterations else None
        return last if last is not None and last.ended is None else None

    @property
    def verified(self) -> tuple[loop_events.IterationEnded, ...]:
        """The iterations whose gates passed, without anything that blocks their delivery."""
        return tuple(
            [
                iteration
                for iteration in self.done
                if iteration.verdict.passed and not iteration.blocked
            ]
        )

    @property
    def verdict(self) -> Verdict | None:
        """The last verdict, or the baseline's before the first iteration ended."""
        done = self.done
        if done:
            return done[-1].verdict
        return None if self.baseline is None else self.baseline.verdict

    def quality_before(self, number: int) -> float:
        """Returns the quality at the start of iteration `number`, in 0 to 1."""
        before = [iteration.quality for iteration in self.done if iteration.number < number]
        if before:
            return before[-1]
        return 0.0 if self.baseline is None else self.baseline.verdict.quality

    def failing_before(self, number: int) -> tuple[str, ...]:
        """Returns the names of the checks that failed when iteration `number` began."""
        before = [iteration.verdict for iteration in self.done if iteration.number < number]
        if before:
            return before[-1].failing_names
        return () if self.baseline is None else self.baseline.verdict.failing_names

    @property
    def lessons(self) -> loop_events.LessonsInjected | None:
        """The lessons of the start; the rates in them hold for the whole loop."""
        return next((injection for injection in self.injected if not injection.manual), None)

    @property
    def green_before(self) -> bool:
        """True if the gates passed before any work."""
        return self.baseline is not None and self.baseline.verdict.passed

    @property
    def clearable(self) -> bool:
        """True if its folder is still to be removed. All of its work must be in the project."""
        delivered = self.ended is not None and self.ended.delivered
        return delivered and self.wish.mode != "in-place" and self.cleared is None

    @property
    def teachable(self) -> bool:
        """True if lessons may be extracted: it worked, did not tamper, and was not aborted."""
        over = self.status not in ("aborted", "tampered")
        return self.wish.cross_task and bool(self.done) and over

    def left_ms(self, now: int) -> float:
        """Returns the milliseconds that this activation may still take."""
        return self.bounds.seconds * 1000 - (now - self.active_at)

    def gains(self, done: Sequence[loop_events.IterationEnded]) -> list[float]:
        """Returns the change of quality by each iteration of `done`."""
        if not done:
            return []
        rows = [self.quality_before(done[0].number), *[iteration.quality for iteration in done]]
        return [now - then for then, now in pairwise(rows)]

    @property
    def touched_before(self) -> Mapping[str, str] | None:
        """The changes of the open iteration when it paused; None if unknown."""
        if self.open is None:
            return {}  # the verdict that ended the last one reverted everything
        return self.pause.touched if self.pause is not None else None

    @property
    def is_in_place(self) -> bool:
        """False if the gates passed, but the work could not be delivered to the project."""
        return self.status != "completed" or self.ended is None or self.ended.delivered

    @property
    def reverted(self) -> bool:
        """True if its files were restored to the start."""
        return self.cleared is not None and self.cleared.reverted is not None


START: Final = LoopState()
_GOING: Final[frozenset[Status]] = frozenset({"pending", "running"})


def fold(records: Iterable[loop_events.LoopRecord], state: LoopState = START) -> LoopState:
    """Returns the state after `records`.

    Raises:
        Refused: One of them may not follow the ones before it.
    """
    for record in records:
        state = reduce(state, record)
    return state


def reduce(state: LoopState, record: loop_events.LoopRecord) -> LoopState:
    """Returns the state after one more fact.

    Raises:
        Refused: It may not follow.
    """
    # Times never go back, for any clock of the writing process.
    at, event = max(record.at, state.at), record.event
    return replace(_follow(state, event, at), at=at, head=record.seq)


def _follow(state: LoopState, event: loop_events.LoopEvent, at: int) -> LoopState:  # noqa: C901 - one arm each
    match event:
        case loop_events.LoopStarted():
            if state.head >= 0:
                raise Refused("the loop was started already")
            return replace(
                state,
                wish=event.wish,
                bounds=event.wish.bounds,
                owner=event.owner,
                place=event.place,
                started_at=at,
                active_at=at,
            )
        case loop_events.BaselineTaken():
            return _measured(state, event)
        case loop_events.LessonsInjected():
            return _injected(state, event)
        case loop_events.IterationStarted():
            return _began(state, event, at)
        case loop_events.IterationEnded():
            return _over(state, event)
        case loop_events.Intervened():
            _refuse_unless(state, {"running"}, "is not watched")
            return replace(state, interventions=(*state.interventions, event))
        case loop_events.LoopPaused():
            # Any pause fulfils a request to pause.
            return replace(_to(state, "paused"), pause=event, asked=None)
        case loop_events.PauseAsked():
            _refuse_unless(state, _GOING, "has no iteration to pause before")
            return replace(state, asked=event)
        case loop_events.Edited():
            return _edited(state, event)
        case loop_events.BaselineRetaken():
            return _retaken(state, event)
        case loop_events.LoopResumed():
            return _resumed(state, event, at)
        case loop_events.LoopCrashed():
            return replace(_to(state, "crashed"), crash=event)
        case loop_events.Completing():
            return _completing(state, event)
        case loop_events.FilesRestored():
            _refuse_unless(state, {"completing"}, "restores no files")
            return replace(state, restored=event)
        case loop_events.LoopEnded():
            return _ended(state, event)
        case loop_events.Cleared():
            _refuse_unless(state, ENDED, "still needs its place")
            return replace(state, cleared=event)
        case loop_events.Taught():
            _refuse_unless(state, ENDED, "has taught nothing yet")
            return replace(state, learnt=event.learnt)
        case _:
            assert_never(event)


def _to(state: LoopState, status: Status) -> LoopState:
    check(state.status, status)
    return replace(state, status=status)


def _refuse_unless(state: LoopState, statuses: Collection[Status], claim: str) -> None:
    if state.status not in statuses:
        raise Refused(f"a loop that is {state.status} {claim}")


def _measured(state: LoopState, event: loop_events.BaselineTaken) -> LoopState:
    if state.baseline is not None:
        raise Refused("the baseline was taken already")
    # Not pending any more if it crashed before its baseline and was resumed.
    moved = _to(state, "running") if state.status == "pending" else state
    _refuse_unless(moved, {"running"}, "takes no baseline")
    return replace(moved, baseline=event)


def _injected(state: LoopState, event: loop_events.LessonsInjected) -> LoopState:
    _refuse_unless(state, _GOING | RESUMABLE, "has no next iteration to inject into")
    numbers = [injection.number for injection in state.injected if not injection.manual]
    if not event.manual and event.number <= max(numbers, default=0):
        raise Refused(f"the lessons of iteration {event.number} were frozen at its start")
    return replace(state, injected=(*state.injected, event))


def _began(state: LoopState, event: loop_events.IterationStarted, at: int) -> LoopState:
    _refuse_unless(state, {"running"}, "begins no iteration")
    if state.baseline is None or state.open is not None:
        raise Refused("an iteration starts after the baseline and after the end of the one before")
    if event.number != len(state.iterations) + 1:
        raise Refused(f"iteration {event.number} cannot follow {len(state.iterations)}")
    begun = Iteration(event.number, event.run, at, event.before)
    return replace(state, iterations=(*state.iterations, begun))


def _over(state: LoopState, event: loop_events.IterationEnded) -> LoopState:
    _refuse_unless(state, {"running"}, "ends no iteration")
    going = state.open
    # Two processes may both believe that they drive the loop: a second end of an iteration is
    # refused.
    if going is None or going.number != event.number:
        raise Refused(f"iteration {event.number} is not open")
    return replace(
        state,
        iterations=(*state.iterations[:-1], replace(going, ended=event)),
        spent=state.spent + event.spent,
    )


def _completing(state: LoopState, event: loop_events.Completing) -> LoopState:
    if state.open is not None:
        raise Refused(f"iteration {state.open.number} has not ended")
    return replace(_to(state, "completing"), closing=event, asked=None)


def _edited(state: LoopState, event: loop_events.Edited) -> LoopState:
    if state.status not in RESUMABLE or state.baseline is None:
        raise Refused(f"the user cannot set protected files of a loop that is {state.status}")
    # Restored files are already in the baseline.
    if not event.kept:
        return state
    return replace(state, baseline=replace(state.baseline, baseline=event.baseline))


def _retaken(state: LoopState, event: loop_events.BaselineRetaken) -> LoopState:
    if state.status not in RESUMABLE or state.baseline is None:
        raise Refused(f"the baseline of a loop that is {state.status} cannot be taken again")
    baseline = replace(state.baseline, verdict=event.verdict, baseline=event.baseline)
    return replace(state, baseline=baseline)


def _resumed(state: LoopState, event: loop_events.LoopResumed, at: int) -> LoopState:
    moved = _to(state, "running")
    return replace(
        moved,
        bounds=event.bounds,
        owner=event.owner,
        active_at=at,
        pause=None,
        asked=None,
        crash=None,
        # Its end is void; the facts stay in the stream.
        closing=None,
        restored=None,
        ended=None,
        cleared=None,
        learnt=None,
        resumptions=state.resumptions + 1,
        resumed_after=len(state.done),
    )


def _ended(state: LoopState, event: loop_events.LoopEnded) -> LoopState:
    return replace(_to(state, event.ending), ended=event, asked=None)

"""Detects a loop without progress and chooses the reaction (`detect`): log, warn, redirect, pause,
abort.

Judged from the ended iterations alone. Pure. The thresholds:

- stuck: the same error in at least 3 of the last 5 iterations with little progress
- oscillation: at least 2 undo and redo cycles in the last 6, with most of the files reverting
- regression: a check that passed fails
- plateau: 3 iterations in a row with files and failures that occurred before
- deviation: of the last 3 iterations at least 2 edit no file of a failing check, and their text is
  about something other than the task

Other files or another failure count as movement: a gate with only an exit code shows nothing more.
So `--max-iterations` ends a loop whose agent keeps trying. Every kind has its own range of levels.
After a redirect the count starts from zero, to give the changed strategy a chance. The driver and
`decisions` perform the reactions.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from taofold.core.text import times
from taofold.loop.events import Intervened, IterationEnded
from taofold.loop.state import LoopState
from taofold.loop.values import Kind, Level
from taofold.loop.verdict import Verdict
from taofold.parsing.untrusted_text import join_names

LADDER: Final[tuple[Level, ...]] = ("log", "warn", "redirect", "pause", "abort")
_RUNGS: Final[dict[Kind, tuple[Level, Level]]] = {
    "deviation": ("log", "warn"),
    "regression": ("warn", "redirect"),
    "stuck": ("redirect", "pause"),
    "oscillation": ("redirect", "pause"),
    "plateau": ("redirect", "abort"),
}
"""The first and the highest level of each kind."""

REPEATS: Final = 3
RECENT: Final = 5
FLAT: Final = 0.02
PLATEAU: Final = 3
CYCLES: Final = 2
CYCLING: Final = 6
REVERTING: Final = 0.8
OVERLAP: Final = 0.5
TALK: Final = 12
"""The fewest words of an iteration from which its subject is determined."""

_WORD: Final = re.compile(r"[a-z]{4,}")

CHANGE: Final = (
    "The same error came back {times} times. What was tried so far does not lead to the goal: "
    "try something fundamentally different. Read the code on the path of the error again, "
    "write down which assumption could be wrong, and test that assumption before the next edit."
)
STAY: Final = (
    "Edits of earlier iterations were undone and made again. Settle which version is right by "
    "running the checks on it, keep it, and change another place."
)

MOVE: Final = (
    "The files are as they were before, and the same checks fail. Read the failing output again, "
    "find the cause in the code, and change the code: nothing else ends this loop."
)
REPAIR: Final = "Your last change broke what worked. Repair that first."


def detect(state: LoopState, ended: IterationEnded) -> tuple[Intervened, ...]:
    """Returns the reactions to iteration `ended`, which is not in `state` yet."""
    # The loop ends here: no intervention is needed.
    if ended.verdict.passed and not state.wish.keep_improving:
        return ()
    course = _Course(state, ended)
    return tuple(
        [
            Intervened(
                number=ended.number,
                level=course.level(finding.kind),
                kind=finding.kind,
                why=finding.why,
                instruction=finding.instruction,
            )
            for finding in course.findings()
        ]
    )


@dataclass(frozen=True, slots=True)
class _Finding:
    """A problem of the course, and the instruction for the next iteration."""

    kind: Kind
    why: str
    instruction: str = ""


class _Course:
    """The iterations of one activation of a loop, oldest first.

    A resumed loop starts from zero: earlier iterations are ignored. After a redirect the count of
    repetitions (`fresh`) also starts from zero, to give the changed strategy a chance.
    """

    def __init__(self, state: LoopState, ended: IterationEnded) -> None:
        self.state = state
        self.done = (*state.recent, ended)
        redirects = [event.number for event in state.interventions if event.level == "redirect"]
        self.turn = max(redirects, default=0)
        self.fresh = tuple([iteration for iteration in self.done if iteration.number > self.turn])

    def findings(self) -> list[_Finding]:
        """Returns all problems."""
        findings = (
            self._stuck(),
            self._oscillation(),
            self._regression(),
            self._plateau(),
            self._deviation(),
        )
        return [finding for finding in findings if finding is not None]

    def level(self, kind: Kind) -> Level:
        """Returns the level of this finding: one higher each time, up to its kind's highest."""
        first, highest = _RUNGS[kind]
        if kind == "plateau":  # any change of strategy was the chance
            return highest if self.turn > self.state.resumed_after else first
        before = sum(
            event.kind == kind and event.number > self.state.resumed_after
            for event in self.state.interventions
        )
        if kind == "stuck" and not self._stands_still():
            highest = first  # a loop that still tries something is redirected again, not stopped
        return LADDER[min(LADDER.index(first) + before, LADDER.index(highest))]

    def _stands_still(self) -> bool:
        """Returns whether all files and failures of the last iterations occurred before."""
        recent = self.fresh[-PLATEAU:]
        return len(recent) == PLATEAU and all(map(self._is_repeated, recent))

    def _is_repeated(self, iteration: IterationEnded) -> bool:
        """Returns whether the same files failed in the same way earlier, or at the start."""
        start = self.state.baseline
        earlier = [
            _mark(each.files, each.verdict)
            for each in self.state.done
            if each.number < iteration.number
        ]
        if start is not None:
            earlier.append(_mark({}, start.verdict))
        return _mark(iteration.files, iteration.verdict) in earlier

    def _stuck(self) -> _Finding | None:
        recent = self.fresh[-RECENT:]
        most, error = _most_frequent(recent)
        if most < REPEATS:
            return None
        first = next(n for n, ended in enumerate(recent) if error in ended.verdict.signatures)
        # Progress counts from the first occurrence of the error: earlier gains do not show that the
        # loop gets past it.
        span = recent[first:]
        gained = sum(self.state.gains(recent)[first + 1 :])
        if gained / (len(span) - 1) >= FLAT or _advances(span):
            return None
        why = f"the same error in {most} of the last {len(recent)} iterations: {error}"
        return _Finding("stuck", why, CHANGE.format(times=most))

    def _oscillation(self) -> _Finding | None:
        recent = self.fresh[-CYCLING:]
        threes = zip(recent, recent[1:], recent[2:], strict=False)
        cycles = sum(_reverts(before, middle, now) for before, middle, now in threes)
        if len(recent) < 4 or cycles < CYCLES:
            return None
        paths = join_names(sorted(recent[-1].files)[:3], 3)
        why = f"edits are undone and redone ({cycles} times: {paths})"
        return _Finding("oscillation", why, STAY)

    def _regression(self) -> _Finding | None:
        last = self.done[-1]
        before = [ended for ended in self.state.done if ended.number < last.number]
        if before:
            earlier = before[-1].verdict
        elif self.state.baseline is not None:
            earlier = self.state.baseline.verdict
        else:
            return None
        broken = sorted(earlier.passing & {check.id for check in last.verdict.errors})
        if not broken:
            return None
        names = join_names(broken, 5)
        why = f"{times(len(broken), 'check')} passed before and fail now: {names}"
        return _Finding("regression", why, REPAIR)

    def _plateau(self) -> _Finding | None:
        if not self._stands_still():
            return None
        # If the same evidence already redirects the loop, that is enough.
        if self._stuck() is not None and self.level("stuck") == "redirect":
            return None
        recent = self.fresh[-PLATEAU:]
        failing = join_names(sorted({check.id for check in recent[-1].verdict.errors}), 3)
        why = (
            f"{PLATEAU} iterations in a row left files that were there before, and {failing} fails"
        )
        if not any([iteration.files for iteration in recent]):
            why = f"{PLATEAU} iterations in a row left the files of the start, and {failing} fails"
        if all([iteration.stop_reason == "max_steps" for iteration in recent]):
            steps = recent[-1].spent.steps
            why += f". Each was cut off after {steps} steps: --steps may allow more"
        return _Finding("plateau", why, MOVE)

    def _deviation(self) -> _Finding | None:
        subject = frozenset(_WORD.findall(self.state.wish.task.lower()))
        recent = self.done[-3:]
        if len(subject) < 3 or len(recent) < 2:
            return None
        # An edit of a file that a failing check leads to is about the task, in any words.
        away = [iteration for iteration in recent if _is_elsewhere(iteration)]
        texts = [words for iteration in away if len(words := _words(iteration)) >= TALK]
        apart = sum(len(subject & words) / len(subject) < OVERLAP for words in texts)
        if apart < 2:
            return None
        why = f"{apart} of the last {len(recent)} iterations speak of something else than the task"
        return _Finding("deviation", why, "Keep to the task; do not widen it.")


def _most_frequent(done: Sequence[IterationEnded]) -> tuple[int, str]:
    """Returns the count of the most frequent current error in `done`, and the error."""
    if not done:
        return 0, ""
    counted = Counter([signature for ended in done for signature in ended.verdict.signatures])
    times = {error: counted[error] for error in done[-1].verdict.signatures}
    most = max(times.values(), default=0)
    return most, min([error for error, count in times.items() if count == most], default="")


def _reverts(before: IterationEnded, middle: IterationEnded, now: IterationEnded) -> bool:
    """Returns whether most of the files that changed last became what they were before."""
    touched = _differing(middle.files, now.files)
    if not touched or not _differing(before.files, middle.files):
        return False
    back = sum(now.files.get(path) == before.files.get(path) for path in touched)
    return back / len(touched) >= REVERTING


def _differing(a: Mapping[str, str], b: Mapping[str, str]) -> list[str]:
    """Returns the paths whose digests differ."""
    return [path for path in {*a, *b} if a.get(path) != b.get(path)]


def _advances(done: Sequence[IterationEnded]) -> bool:
    """Returns whether a check passes now that failed at the first of `done`."""
    first = {check.id for check in done[0].verdict.errors}
    return bool(first - {check.id for check in done[-1].verdict.errors})


def _mark(files: Mapping[str, str], verdict: Verdict) -> tuple[object, ...]:
    """Returns the identity of a piece of work: the files, the failures and the pass share."""
    return dict(files), verdict.signatures, verdict.quality


def _is_elsewhere(iteration: IterationEnded) -> bool:
    """Returns whether it edited only files that no failing check leads to; False if none leads
    anywhere.
    """
    failing = {place.path for check in iteration.verdict.errors for place in check.places}
    return bool(failing and iteration.changed) and failing.isdisjoint(iteration.changed)


def _words(iteration: IterationEnded) -> frozenset[str]:
    """Returns the words of an iteration's text, changes and failures."""
    messages = [check.message for check in iteration.verdict.errors]
    text = " ".join((iteration.said, iteration.diff, *iteration.changed, *messages))
    return frozenset(_WORD.findall(text.lower()))

"""Finds a loop that goes nowhere, from its facts alone, and says what to do about it. Pure.

Thresholds are the seed's: stuck = the same error in at least 3 of the last 5 iterations with
little progress; oscillation = at least 2 undo and redo cycles in the last 6, most of the files
reverting; regression = a check that passed fails; plateau = 3 iterations in a row that change
less than 2 %. Every kind climbs its own part of the ladder log → warn → redirect → pause →
abort. After a redirect the count begins anew: the changed strategy gets its chance.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from taofold.loop.events import Intervened, IterationEnded
from taofold.loop.state import LoopState
from taofold.loop.values import Kind, Level

LADDER: Final[tuple[Level, ...]] = ("log", "warn", "redirect", "pause", "abort")
_RUNGS: Final[dict[Kind, tuple[Level, Level]]] = {
    "deviation": ("log", "warn"),
    "regression": ("warn", "redirect"),
    "stuck": ("redirect", "pause"),
    "oscillation": ("redirect", "pause"),
    "plateau": ("abort", "abort"),
}
"""The first and the highest rung of each kind."""

REPEATS: Final = 3
RECENT: Final = 5
FLAT: Final = 0.02
PLATEAU: Final = 3
CYCLES: Final = 2
CYCLING: Final = 6
REVERTING: Final = 0.8
OVERLAP: Final = 0.5
TALK: Final = 12
"""Words that an iteration must have said for its subject to be known."""

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


def detect(state: LoopState, ended: IterationEnded) -> tuple[Intervened, ...]:
    """What to do after iteration `ended`, which is not in `state` yet."""
    if ended.verdict.passed and not state.wish.keep_improving:
        return ()
    done = (*state.done[state.resumed_after :], ended)
    fresh = done[_since_redirect(state, done) :]
    findings = (
        _stuck(state, fresh),
        _oscillation(fresh),
        _regression(state, done),
        _plateau(state, fresh),
        _deviation(state, done),
    )
    detected = [finding for finding in findings if finding is not None]
    return tuple(
        [
            Intervened(
                number=ended.number,
                level=_level(state, kind),
                kind=kind,
                why=why,
                instruction=instruction,
            )
            for kind, why, instruction in detected
        ]
    )


def _since_redirect(state: LoopState, done: Sequence[IterationEnded]) -> int:
    """How many of `done` lie before the newest change of strategy."""
    turned = max(
        [
            intervention.number
            for intervention in state.interventions
            if intervention.level == "redirect"
        ],
        default=0,
    )
    return sum(iteration.number <= turned for iteration in done)


def _level(state: LoopState, kind: Kind) -> Level:
    first, most = _RUNGS[kind]
    before = sum(
        intervention.kind == kind and intervention.number > state.resumed_after
        for intervention in state.interventions
    )
    return LADDER[min(LADDER.index(first) + before, LADDER.index(most))]


def _stuck(state: LoopState, done: Sequence[IterationEnded]) -> tuple[Kind, str, str] | None:
    recent = done[-RECENT:]
    counted = Counter([signature for ended in recent for signature in ended.verdict.signatures])
    now = done[-1].verdict.signatures if done else frozenset[str]()
    times = {error: count for error, count in counted.items() if error in now}
    if not times or max(times.values()) < REPEATS:
        return None
    most = max(times.values())
    error = min([signature for signature, count in times.items() if count == most])
    first = next(n for n, ended in enumerate(recent) if error in ended.verdict.signatures)
    span = recent[first:]  # progress from where the error was first seen
    if sum(state.gains(recent)[first + 1 :]) / (len(span) - 1) >= FLAT or _advances(span):
        return None
    why = f"the same error in {most} of the last {len(recent)} iterations: {error}"
    return "stuck", why, CHANGE.format(times=most)


def _oscillation(done: Sequence[IterationEnded]) -> tuple[Kind, str, str] | None:
    recent = done[-CYCLING:]
    threes = zip(recent, recent[1:], recent[2:], strict=False)
    cycles = sum(_reverts(two, middle, now) for two, middle, now in threes)
    if len(recent) < 4 or cycles < CYCLES:
        return None
    paths = ", ".join(sorted(recent[-1].files)[:3])
    return "oscillation", f"edits are undone and redone ({cycles} times: {paths})", STAY


def _reverts(two: IterationEnded, one: IterationEnded, now: IterationEnded) -> bool:
    """Do most of the files that changed last become again what they were before?"""
    touched = [p for p in {*one.files, *now.files} if one.files.get(p) != now.files.get(p)]
    moved = [p for p in {*two.files, *one.files} if two.files.get(p) != one.files.get(p)]
    if not touched or not moved:
        return False
    back = sum(now.files.get(path) == two.files.get(path) for path in touched)
    return back / len(touched) >= REVERTING


def _regression(state: LoopState, done: Sequence[IterationEnded]) -> tuple[Kind, str, str] | None:
    before = [iteration for iteration in state.done if iteration.number < done[-1].number]
    if before:
        earlier = before[-1].verdict
    elif state.baseline is not None:
        earlier = state.baseline.verdict
    else:
        return None
    now = {check.id for check in done[-1].verdict.errors}
    broken = sorted(earlier.passing & now)
    if not broken:
        return None
    excerpt = ", ".join(broken[:5]) + (", …" if len(broken) > 5 else "")
    why = f"{len(broken)} check{'s' * (len(broken) > 1)} passed before and fail now: {excerpt}"
    return "regression", why, f"Your last change broke what worked: {excerpt}. Repair that first."


def _plateau(state: LoopState, done: Sequence[IterationEnded]) -> tuple[Kind, str, str] | None:
    if len(done) < PLATEAU:
        return None
    flat = all(abs(gain) < FLAT for gain in state.gains(done)[-PLATEAU:])
    stuck = _stuck(state, done)
    turning = stuck is not None and _level(state, "stuck") == "redirect"
    if not flat or turning or _advances(done[-PLATEAU:]):
        return None
    why = f"{PLATEAU} iterations in a row changed less than {FLAT:.0%}; the gates do not pass"
    if all([iteration.stop_reason == "max_steps" for iteration in done[-PLATEAU:]]):
        why += f". Each was cut off after {done[-1].spent.steps} steps: --steps may allow more"
    return "plateau", why, ""


def _advances(done: Sequence[IterationEnded]) -> bool:
    """Does some check pass now that failed at the first of `done`, although the share is flat?"""
    first = {check.id for check in done[0].verdict.errors}
    return bool(first - {check.id for check in done[-1].verdict.errors})


def _deviation(state: LoopState, done: Sequence[IterationEnded]) -> tuple[Kind, str, str] | None:
    subject = frozenset(_WORD.findall(state.wish.task.lower()))
    recent = done[-3:]
    if len(subject) < 3 or len(recent) < 2:
        return None
    heard = [about for iteration in recent if len(about := _about(iteration)) >= TALK]
    apart = sum(len(subject & about) / len(subject) < OVERLAP for about in heard)
    if apart < 2:
        return None
    why = f"{apart} of the last {len(recent)} iterations speak of something else than the task"
    return "deviation", why, "Keep to the task; do not widen it."


def _about(one: IterationEnded) -> frozenset[str]:
    text = " ".join(
        (one.said, one.diff, *one.changed, *[check.message for check in one.verdict.errors])
    )
    return frozenset(_WORD.findall(text.lower()))

"""Ways of working that failed: the same error again and again, checks broken, work spread out.

Found in failed loops too. A successful loop teaches a mistake only where whole iterations
went by before something else helped, and then says what did.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from taofold.core.checks import Check
from taofold.learning.patterns.bodies import Avoidance, FailureMode, Signature
from taofold.learning.extraction.repair_kind import template_of
from taofold.learning.extraction.words import DOES, gist, task_category
from taofold.learning.extraction.generalise import error_type_of, hints_of, language_of, pattern_of
from taofold.learning.extraction.history import Attempt, History
from taofold.learning.patterns.values import Pattern, Scope

REPEATED: Final = 3
"""Times that one error must stay for it to be a pattern."""
MANY_FILES: Final = 4
"""Changed files outside of what the failing checks lead to that are called scope creep."""

Sign = tuple[str, str]
"""An error's class and its generalised message."""


def avoidances(history: History) -> Iterator[Pattern]:
    """The mistakes in a loop."""
    yield from _repeated(history)
    if not history.succeeded:
        yield from _broken(history)
        yield from _degraded(history)
        yield from _circled(history)
    yield from _spread(history)


def _sign(fault: Check) -> Sign:
    return fault.error_type, pattern_of(fault.message)


def _repeated(history: History) -> Iterator[Pattern]:
    judged = [one for one in history.attempts if one.judged and one.changes]
    for sign in _signs(judged):
        stayed = [one for one in judged if _in(sign, one.before) and _in(sign, one.after)]
        rounds = len({one.iteration for one in stayed})
        times = rounds if history.succeeded else max(rounds, len(stayed))
        if times < REPEATED:
            continue
        fault = next(f for one in stayed for f in one.after if _sign(f) == sign)
        tried = _tried(stayed, fault.error_type)
        yield _pattern(
            history,
            "repeated_same_error",
            f"Repeating changes while {gist(*sign)} stays",
            f"{times} times the same error stayed after {tried}",
            "What was changed does not touch the cause of the error",
            _better(history, sign),
            fault,
        )


def _signs(attempts: Sequence[Attempt]) -> list[Sign]:
    found = [_sign(fault) for one in attempts for fault in one.after]
    return [sign for sign, _ in Counter(found).most_common(3)]


def _in(sign: Sign, faults: Sequence[Check]) -> bool:
    return any(_sign(fault) == sign for fault in faults)


def _tried(attempts: Sequence[Attempt], error: str) -> str:
    """The commonest kinds of change in the attempts, in words."""
    kinds = Counter([template_of(change, error) for one in attempts for change in one.changes[-1:]])
    said = [
        f"{DOES.get(kind, 'another change').lower()} ({number}x)"
        for kind, number in kinds.most_common(2)
    ]
    return "; ".join(said)


def _better(history: History, sign: Sign) -> str:
    """What settled the error in the end, if something did."""
    for one in history.attempts:
        if one.kept and one.judged and _in(sign, one.before) and not _in(sign, one.after):
            template = next(filter(None, [template_of(c, sign[0]) for c in one.changes]), "")
            return DOES.get(template, "Change the place that the failing check leads to")
    return "Read the failing check again and change another place, or another kind of thing"


def _broken(history: History) -> Iterator[Pattern]:
    """Kept changes that broke what passed."""
    for one in history.attempts:
        if one.broke and one.kept and one.changes:
            fault = one.broke[0]
            yield _pattern(
                history,
                "breaking_change",
                f"Keeping a change after which {gist(*_sign(fault))} is new",
                f"{len(one.broke)} checks that passed failed after "
                f"{_tried([one], fault.error_type)}",
                "A change that breaks other checks moves the fault instead of removing it",
                "Take the change back and look for one that breaks nothing",
                fault,
            )
            return


def _degraded(history: History) -> Iterator[Pattern]:
    """Iterations that ended worse than an earlier one."""
    ends = {one.iteration: one for one in history.attempts if one.judged}
    best = -1.0
    for number in sorted(ends):
        quality = ends[number].quality
        if 0 <= quality < best:
            yield _pattern(
                history,
                "quality_degradation",
                "Going on from a state that is worse than an earlier one",
                f"the share of passing checks fell from {best:.0%} to {quality:.0%}",
                "Later changes were built on top of a step backwards",
                "Go back to the best iteration and continue from there",
                ends[number].after[0] if ends[number].after else None,
            )
            return
        best = max(best, quality)


def _circled(history: History) -> Iterator[Pattern]:
    """The same change made and taken back, again and again."""
    made = Counter([change for one in history.attempts for change in one.changes])
    worst, times = made.most_common(1)[0] if made else (None, 0)
    if worst is not None and times >= REPEATED:
        yield _pattern(
            history,
            "infinite_loop",
            "Making a change again that was taken back before",
            f"the same change was made {times} times",
            "Nothing was learnt from the first time",
            "Note what was tried, and try something that was not",
            None,
        )


def _spread(history: History) -> Iterator[Pattern]:
    """Files changed that no failing check leads to."""
    led = {f.place.path for one in history.attempts for f in (*one.before, *one.after)}
    led |= set(history.scope)
    changed = {c.path for one in history.attempts if one.kept for c in one.changes}
    beside = changed - led
    if led and len(beside) >= MANY_FILES and len(beside) > 2 * len(changed & led):
        yield _pattern(
            history,
            "scope_creep",
            "Changing many files that no failing check leads to",
            f"{len(beside)} of {len(changed)} changed files have to do with no failing check",
            "Each change beside the task can break something and proves nothing",
            "Change only what the failing checks lead to, and finish the task first",
            None,
        )


def _pattern(
    history: History,
    mode: FailureMode,
    approach: str,
    symptom: str,
    why: str,
    better: str,
    fault: Check | None,
) -> Pattern:
    language = history.language or (language_of(fault.place.path) if fault else "")
    signature = None
    if fault is not None:
        signature = Signature(
            error_type_of(fault.error_type), pattern_of(fault.message), hints_of(fault),
            fault.error_type,
        )  # fmt: skip
    return Pattern(
        "",
        approach,
        Avoidance(
            approach, mode, (symptom,), why, better,
            category=task_category(history.task), signature=signature,
        ),
        Scope(history.repository, language),
        tuple([tag for tag in (language, mode.replace("_", "-")) if tag and tag != "other"]),
    )  # fmt: skip

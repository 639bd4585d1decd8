"""Attributes the outcome of a finished loop to patterns: their applications and counts.

A pattern is applied by an edit that removes and inserts the same as its fix, on any line, ignoring
project names. A mention in a thought does not count (D18). An application succeeds if a check that
fits the pattern's signature turns green by it, the edit stays to the end, and the loop's gates
passed. The signature is also compared with the error that the check had before an edit exchanged
it. A pattern that was shown but not used was not applied; an equivalent edit in other words is not
always recognised.

A loop that reverts a fix, or meets its error where the fix is in place, refutes it. A pattern whose
counts show harm is no longer shown (`hurts`). Counts are about applications alone; a control loop
adds only to the comparison. If a loop continues after its end, its counts are reverted and computed
again.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import chain
from math import sqrt
from typing import Final

import msgspec

from taofold.core.failing_checks import Check
from taofold.core.values import Value
from taofold.learning.extraction.diffs import (
    Line,
    LineEdit,
    added_lines,
    code_lines,
    delta,
    edits_in,
    edits_of,
    joined,
    lost_lines,
    sides,
    tokens,
)
from taofold.learning.extraction.generalisation import error_type_of
from taofold.learning.extraction.history import FileChange, LoopHistory
from taofold.learning.loops import LoopArms, LoopNote, LoopStats
from taofold.learning.patterns.kinds import CodeTemplate, ErrorFix, ErrorSignature, Fix
from taofold.learning.patterns.pattern import Arm, Pattern, PatternSource
from taofold.learning.retrieval.same_error import recurs

_USELESS_USES: Final = 5
_HARM_SHOWN: Final = 8
_HARM_COMPARED: Final = 3
_ONE_SIDED_95: Final = 1.645
_FEWEST: Final = 3
"""The fewest tokens of a change that is compared."""


def settled(pattern: Pattern, note: LoopNote, stats: LoopStats) -> Pattern:
    """Returns the pattern after the loop `note`, which saw it or was a control for it."""
    if note.control:
        # A control loop did not see the pattern: it only adds to the comparison.
        arm = pattern.held_in.get(note.project, Arm()).plus(note.iterations, note.solved)
        return msgspec.structs.replace(pattern, held_in={**pattern.held_in, note.project: arm})
    arm = pattern.shown_in.get(note.project, Arm()).plus(note.iterations, note.solved)
    pattern = msgspec.structs.replace(pattern, shown_in={**pattern.shown_in, note.project: arm})
    pattern = _recorded(pattern, note)
    if pattern.retired:
        return pattern
    # A project alone judges its own lessons; all projects judge shared ones, with one vote each.
    own = pattern.finders <= {note.project}
    judge = note.project if own else None
    reason = hurts(pattern.seen_from(judge), stats.seen_from(judge))
    return msgspec.structs.replace(pattern, retired=reason) if reason else pattern


def counted_in(project: str, pattern: Pattern, stats: LoopStats) -> Pattern:
    """Returns the pattern with the counts for `project`, retired if it does harm there."""
    seen = pattern.seen_from(project)
    reason = pattern.retired or pattern.refuted.get(project, "")
    # Harm by a project's own lesson was decided when its loops ended.
    if not reason and not pattern.finders <= {project}:
        reason = hurts(seen, stats.seen_from(project))
    return msgspec.structs.replace(seen, retired=reason)


def _recorded(pattern: Pattern, note: LoopNote) -> Pattern:
    use = note.use(pattern.id)
    if use is None:
        return pattern
    if note.loop in pattern.loops:  # it found the pattern as well: one loop counts once
        return msgspec.structs.replace(pattern, last_used=note.ended)
    source = PatternSource(
        note.loop,
        note.ended,
        "applied",
        use.by,
        use.won,
        note.iterations,
        project=note.project,
    )
    return msgspec.structs.replace(pattern, sources=(*pattern.sources, source), last_used=source.at)


def hurts(pattern: Pattern, stats: LoopArms) -> str:
    """Returns why the pattern is not to be shown any more; "" if it may be.

    Considers uses and also loops that only saw it, so that a harmful pattern that no loop uses is
    removed too.
    """
    uses = len(pattern.uses)
    if pattern.helped:
        return ""
    warns = pattern.kind == "anti"  # an anti-pattern is followed by not doing what it describes
    if uses >= _USELESS_USES and not warns:
        return f"{uses} loops used it and it helped in none"
    # The first comparison with enough loops, in order of fairness: controls of this pattern, all
    # controls, and last the loops without any pattern to show, which are of another kind.
    without = next((arm for arm in (pattern.held, stats.held) if arm.loops >= _HARM_COMPARED), None)
    without = without or stats.plain
    if pattern.shown.loops >= _HARM_SHOWN and _slower(pattern.shown, without):
        return (
            f"it never helped, and the {pattern.shown.loops} loops that saw it took "
            f"{pattern.shown.mean or 0:.1f} iterations against {without.mean or 0:.1f} without it"
        )
    return ""


def _slower(arm: Arm, other: Arm) -> bool:
    """Returns whether `arm` took significantly longer than `other`."""
    if other.loops < _HARM_COMPARED or arm.mean is None or other.mean is None:
        return False
    spread = sqrt(arm.variance / arm.loops + other.variance / other.loops)
    # Significant (one-sided, 95 %), and by at least a tenth: many loops make small differences
    # significant.
    return arm.mean - other.mean > max(_ONE_SIDED_95 * spread, 0.1 * other.mean)


def summed(stats: LoopStats, note: LoopNote) -> LoopStats:
    """Returns the sums with one loop more."""
    return _recounted(stats, note, Arm.plus, note.ended)


def _arm(note: LoopNote) -> str:
    """Returns the comparison group of a loop."""
    if not note.shown:
        return "plain"
    return "held" if note.control else "manual" if note.manual else "shown"


def unsettled(pattern: Pattern, note: LoopNote) -> Pattern:
    """Returns the pattern without the counts of the loop `note`.

    A pattern that was retired since stays retired: it may have been retired manually.
    """
    if note.control:
        arm = pattern.held_in.get(note.project, Arm()).minus(note.iterations, note.solved)
        return msgspec.structs.replace(pattern, held_in={**pattern.held_in, note.project: arm})
    # The discovery by the loop stays: only its end is reverted.
    counted = [use for use in pattern.uses if use.loop == note.loop]
    arm = pattern.shown_in.get(note.project, Arm()).minus(note.iterations, note.solved)
    return msgspec.structs.replace(
        pattern,
        shown_in={**pattern.shown_in, note.project: arm},
        sources=tuple([source for source in pattern.sources if source not in counted]),
    )


def unsummed(stats: LoopStats, note: LoopNote, at: int) -> LoopStats:
    """Returns the sums with one loop less."""
    return _recounted(stats, note, Arm.minus, at)


def _recounted(
    stats: LoopStats, note: LoopNote, count: Callable[[Arm, int, bool], Arm], at: int
) -> LoopStats:
    name, project = _arm(note), stats.projects.get(note.project, LoopArms())

    def counted(loops: LoopArms) -> dict[str, Arm]:
        return {name: count(getattr(loops, name), note.iterations, note.solved)}

    own = msgspec.structs.replace(project, **counted(project))
    return msgspec.structs.replace(
        stats, **counted(stats), projects={**stats.projects, note.project: own}, updated=at
    )


class Application(Value, frozen=True):
    """One use of a pattern in an iteration."""

    pattern: str
    iteration: int
    won: bool


class _Edits(list[tuple[LineEdit, list[str]]]):
    """The effects of changes, place by place, each with its removed and inserted tokens.

    Computed once for all patterns that are compared with it.
    """

    def __init__(self, changes: Iterable[FileChange]) -> None:
        super().__init__([(edit, _delta(edit)) for change in changes for edit in edits_of(change)])

    def follow(self, proposed: Iterable[LineEdit]) -> bool:
        """Returns whether every proposed edit is included, exactly or with the same tokens."""
        return all(
            any(edit.follows(one) or self._same(tokens, _delta(one)) for edit, tokens in self)
            for one in proposed
        )

    @staticmethod
    def _same(one: list[str], other: list[str]) -> bool:
        # A few equal tokens may be a coincidence.
        return len(one) >= _FEWEST and sorted(one) == sorted(other)


def _delta(edit: LineEdit) -> list[str]:
    return delta([edit.gone], [edit.new])


def applications(history: LoopHistory, patterns: Iterable[Pattern]) -> tuple[Application, ...]:
    """Returns uses of the `patterns`: at most one won and one lost per pattern and iteration."""
    uses: dict[tuple[str, int, bool], Application] = {}
    proposals = [(pattern, fix) for pattern in patterns if (fix := _proposed(pattern))]
    if not proposals:
        return ()
    total = _Edits(joined((), history.kept_changes))
    errors: defaultdict[str, set[Check]] = defaultdict(set)
    for attempt in history.attempts:
        for check in attempt.before:
            errors[check.id].add(check)
        # Without a later run of the checks the effect of an edit is unknown.
        if not attempt.judged:
            continue
        edits = _Edits(attempt.changes)
        # Includes the errors that checks had before a wrong edit exchanged them.
        settled = {error for check in attempt.turned for error in errors[check.id]}
        for pattern, proposed in proposals:
            if edits.follow(proposed):
                # It stayed: the total change of the loop does the same.
                right = history.succeeded and attempt.kept and total.follow(proposed)
                won = right and any(_about(pattern.signature, check) for check in settled)
                use = Application(pattern.id, attempt.iteration, won)
                uses.setdefault((pattern.id, attempt.iteration, won), use)
    return tuple(uses.values())


def _proposed(pattern: Pattern) -> tuple[LineEdit, ...]:
    body = pattern.body
    if isinstance(body, ErrorFix):
        # Files of other projects have a template and no difference.
        return edits_in(body.fix.diff) or _put_in(body.fix.code)
    return _put_in(body.code) if isinstance(body, CodeTemplate) else ()


def _put_in(code: str) -> tuple[LineEdit, ...]:
    """Returns the edit that adds `code` to a file."""
    return (LineEdit("", code.strip("\n")),) if code.strip() else ()


def _about(signature: ErrorSignature | None, check: Check) -> bool:
    """Returns whether the check has the class of the signature. A template has none and fits all.

    Only the class is compared: relevance weighs the similarity of messages, with every outcome.
    """
    if signature is None or signature.name:
        return signature is None or check.error_type == signature.name
    return error_type_of(check.error_type) == signature.type


class Refutation:
    """The evidence of a loop against lessons; its edits are read once for all of them."""

    def __init__(self, history: LoopHistory) -> None:
        self._history = history
        self._began = history.attempts[0].before if history.attempts else ()
        texts: dict[str, str] = {}
        for change in chain.from_iterable([attempt.changes for attempt in history.attempts]):
            texts.setdefault(change.path, change.before)
        self._stood = {
            path: {line.strip() for line in text.split("\n")} for path, text in texts.items()
        }

    @cached_property
    def _lost(self) -> set[Line]:
        return lost_lines(self._history.attempts)

    @cached_property
    def _net(self) -> list[Line]:
        return added_lines(joined((), self._history.kept_changes))

    def reason(self, pattern: Pattern) -> str:
        """Returns why the lesson's change was no lasting fix; "" if the loop does not show it.

        One loop alone does not refute a lesson that helped another loop or was found by several.
        """
        body, loop = pattern.body, self._history.loop
        seen = pattern.seen_from(self._history.repository)
        if not isinstance(body, ErrorFix) or seen.helped or len(seen.found) > 1:
            return ""
        gone, new = map(_code_lines, sides(body.fix.diff))
        stood = {line for path in body.fix.files for line in self._stood.get(path, {""})}
        if not new <= stood or not (new or gone):
            return ""  # the change was not present when the loop began
        if new and any(recurs(body, check) for check in self._began):
            return f"its error came back in {loop}, where its change stood"
        put = {token for edit in edits_in(body.fix.diff) for token in edit.changed[1]}
        left = {t for path, line in self._net if path in body.fix.files for t in tokens(line)}
        # Other text around it is not a revert: the inserted tokens are still present.
        away = new <= _in_files(self._lost, body.fix) and not put <= left
        back = away if new else gone <= _in_files(self._net, body.fix)
        return f"{loop} took back what it puts in" if back and self._history.succeeded else ""


def _code_lines(lines: Iterable[str]) -> set[str]:
    return {line for _, line in code_lines([("", line.strip()) for line in lines])}


def _in_files(lines: Iterable[Line], fix: Fix) -> set[str]:
    return {line for path, line in lines if path in fix.files}

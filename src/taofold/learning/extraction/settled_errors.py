"""Finds the errors that a loop fixed, each with the last change that held.

An error is fixed by the attempt after which its checks pass for good. The change leads from the
text for which the error was first reported to the text after that attempt. If the loop broke
something, it leads to the text after the next attempt at which nothing broken still fails and no
new line is removed later. Lines that the attempts between inserted and gave up are failed attempts
(`vain`). If one edit fixed several errors, each error gets the places to which its report points
(`part_of`). Changes to tests prove nothing.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from taofold.core.failing_checks import Check, is_test
from taofold.learning.extraction.acts import acts, inert
from taofold.learning.extraction.diffs import (
    KNOWN,
    MOST_SHOWN,
    ChangedLines,
    Line,
    added_lines,
    changed_lines,
    joined,
    lines_of,
    lost_lines,
    narrowed,
    spans,
    tokens,
    transplanted,
)
from taofold.learning.extraction.generalisation import pattern_of
from taofold.learning.extraction.history import FileChange, LoopHistory, RepairAttempt
from taofold.learning.extraction.silencing import silences

MOST_EDITS: Final = 4
"""The most edits, and lines of an edit, in a sentence."""
MOST_EDIT: Final = 160
"""The most characters of a quoted line."""

Sign = tuple[str, str]
"""An error's class and its generalised message."""


class SettledError(NamedTuple):
    """Failing checks of one error, and the changes that made them pass.

    `first` is the error as first reported. `changes` lead from the reported text to the text
    without the error. `vain` are lines of failed attempts between. `partial`: the changes were made
    with others, perhaps for other errors. `start` is the attempt before which the error was first
    reported, `end` the attempt that fixed it.
    """

    start: int
    end: int
    alike: list[Check]
    first: Check
    changes: tuple[FileChange, ...]
    vain: tuple[str, ...]
    partial: bool


def settled_errors(history: LoopHistory) -> list[SettledError]:
    """Returns the errors with the changes that fixed them, if these can be shown completely.

    In the order in which the errors were first reported.
    """
    attempts, lost = history.attempts, lost_lines(history.attempts)
    # For checks that ended together, the longest change is used.
    found: dict[tuple[Sign, int], SettledError] = {}
    for number in range(len(attempts)):
        groups = _distinct(settled_by(attempts, number))
        for alike in groups:
            each = _settled(attempts, number, alike, lost, several=len(groups) > 1)
            if each and _readable(each.changes) and not _unfit(each.changes, each.first):
                found.setdefault((sign_of(alike[0]), each.end), each)
    return sorted(found.values(), key=lambda each: each.start)


def settled_by(attempts: Sequence[RepairAttempt], number: int) -> list[Check]:
    """Returns the checks whose error the attempt ended: they pass, or fail otherwise and pass
    later.
    """
    attempt = attempts[number]
    if not attempt.kept:
        return []
    passed = {c.id for later in attempts[number + 1 :] if later.kept for c in later.turned}
    exchanged = [
        check
        for check in attempt.before
        if (now := attempt.became(check)) and now.id in passed and sign_of(now) != sign_of(check)
    ]
    return [*attempt.turned, *exchanged]


def sign_of(check: Check) -> Sign:
    """Returns the identity of checks that fail for one reason, without values of messages."""
    return check.error_type, pattern_of(check.message)


def known(check: Check) -> bool:
    """Returns whether the error is known. A command with only an exit code is not."""
    # The first text in a command's output may be anything.
    if check.error_type in ("command", "timeout"):
        return False
    return bool(check.message or check.error_type)


def code_changes(attempts: Iterable[RepairAttempt]) -> list[FileChange]:
    """Returns the attempts' changes without tests."""
    return [c for attempt in attempts for c in attempt.changes if not is_test(c.path)]


def _settled(
    attempts: Sequence[RepairAttempt],
    number: int,
    alike: list[Check],
    lost: set[Line],
    *,
    several: bool,
) -> SettledError | None:
    """Returns the error that attempt `number` ended, with the last change that held; else None."""
    sign, ids = sign_of(alike[0]), {check.id for check in alike}
    later = [check for attempt in attempts[number:] if attempt.kept for check in attempt.after]
    if any(check.id in ids and sign_of(check) == sign for check in later):
        return None  # It came back: a later attempt ended it.
    start = next(n for n, each in enumerate(attempts) if sign in map(sign_of, each.before))
    reported = [check for check in attempts[start].before if sign_of(check) == sign]
    first = min(reported, key=lambda check: check.id != alike[0].id)
    broken: set[str] = set()
    for end in range(number, len(attempts)):
        attempt = attempts[end]
        broken |= {check.id for check in attempt.broke} if attempt.kept else set()
        # While a newly broken check still fails, nothing has held.
        fails = any(check.id in broken for check in attempt.after)
        if fails or not (attempt.kept and attempt.judged):
            continue
        edits = code_changes(attempts[number : end + 1])
        # Edits that left the error as it was are no part of its fix.
        idle = [each for each in attempts[start:number] if _idle(each, ids, sign)]
        clean = without_idle(attempts[start : end + 1], idle)
        changes = clean or joined(code_changes(attempts[start:number]), edits)
        failing = (*attempts[number].before, *attempt.before)
        others = [check for check in failing if check.id not in ids | broken]
        part = part_of(changes, first, others, edits, several=several)
        # A line that only an idle edit replaced would still be there without that edit.
        gone = lost_lines([each for each in attempts if each not in idle]) if clean else lost
        if part.changes and gone.isdisjoint(added_lines(part.changes)):
            tries = _lines_added(idle) if clean else set[Line]()
            vain = _vain(attempts[start:end], first, ids, lost | tries, part.changes)
            return SettledError(start, end, alike, first, part.changes, vain, part.partial)
    return None


def _idle(attempt: RepairAttempt, ids: Collection[str], sign: Sign) -> bool:
    """Returns whether the attempt edited code and left every check as it was."""
    stayed = [now for c in attempt.before if (now := attempt.became(c)) and sign_of(now) == sign]
    same = attempt.judged and attempt.kept and not (attempt.turned or attempt.broke)
    return same and any(check.id in ids for check in stayed) and bool(code_changes([attempt]))


def _lines_added(attempts: Iterable[RepairAttempt]) -> set[Line]:
    return {*added_lines(code_changes(attempts))}


def without_idle(
    attempts: Sequence[RepairAttempt], idle: Sequence[RepairAttempt]
) -> tuple[FileChange, ...]:
    """Returns the changes of `attempts` as if the `idle` ones had not been made.

    Empty if that is impossible: an edit changes a line of an idle one, or uses a name that an idle
    one introduced, so the idle edit may be a needed half of the fix.
    """
    first: dict[str, str] = {}
    real: dict[str, str] = {}
    clean: dict[str, str] = {}
    fixed: set[str] = set()
    dropped: set[str] = set()
    for attempt in attempts:
        for change in code_changes([attempt]) if attempt.kept else ():
            path = change.path
            first.setdefault(path, change.before)
            clean.setdefault(path, change.before)
            if change.part or change.unsure or real.get(path, change.before) != change.before:
                return ()
            real[path] = change.after
            if attempt in idle:
                dropped |= _names(change.after) - _names(change.before) - _names(first[path])
                continue
            moved = transplanted(change, clean[path])
            if moved is None:
                return ()
            clean[path] = moved
            fixed.add(path)
    changes = [FileChange(path, first[path], clean[path]) for path in first if path in fixed]
    used = {token for _, line in added_lines(changes) for token in _names(line)}
    return () if not idle or not dropped.isdisjoint(used) else tuple(changes)


def _names(text: str) -> set[str]:
    return {token for token in tokens(text) if token.isidentifier()} - KNOWN


class ErrorPart(NamedTuple):
    """The part of changes that belongs to one error.

    `pointed`: its report points at it. `partial`: the edit did more, for unknown errors.
    """

    changes: tuple[FileChange, ...]
    pointed: bool
    partial: bool


def part_of(
    changes: Sequence[FileChange],
    check: Check,
    others: Collection[Check],
    edits: Iterable[FileChange] = (),
    *,
    several: bool = False,
) -> ErrorPart:
    """Returns the places at which the error's report points, or else the unclaimed ones.

    If there was only one error, everything that the last `edits` touched is its part: an incomplete
    fix is useless. Line numbers are those of the texts before the changes.

    Args:
        changes: The changes.
        check: The error's check.
        others: The other failing checks.
        edits: The edits after which the error was gone. Earlier changes left it in place.
        several: True if they fixed some of the `others` too. An unclaimed place then belongs to the
            error only if it lies in a file that this report alone names.
    """
    places = [
        (change, place)
        for change in changes
        for span in spans(change)
        for place in _places(change, span, check, others)
    ]
    touched = {line for edit in edits for side in changed_lines(edit) for line in side}
    own = [place for place in places if _points_at([check], *place)]
    free = [place for place in places if place not in own and not _points_at(others, *place)]
    own = own or [place for place in free if _points_at([check], *place, around=1)]
    pointed = bool(own)
    if not own:
        alone = {place.path for place in check.places}
        alone -= {place.path for other in others for place in other.places}
        own = [(change, span) for change, span in free if not several or change.path in alone]
    rest = [p for p in free if p not in own and not touched.isdisjoint(_lines_in(*p))]
    chosen = own if others else [*own, *rest]
    parts = [
        narrowed(change, mine)
        for change in changes
        if (mine := [span for other, span in chosen if other is change])
    ]
    return ErrorPart(tuple(parts), pointed, partial=bool(others and rest))


def _places(
    change: FileChange, span: ChangedLines, check: Check, others: Collection[Check]
) -> list[ChangedLines]:
    """Returns the place, split by line if several errors point at it and the line count is
    unchanged.
    """
    start, end, new_start, new_end = span
    both = _points_at([check], change, span) and _points_at(others, change, span)
    if not both or end - start != new_end - new_start:
        return [span]
    return [
        ChangedLines(start + n, start + n + 1, new_start + n, new_start + n + 1)
        for n in range(end - start)
    ]


def _points_at(
    checks: Iterable[Check], change: FileChange, span: ChangedLines, around: int = 0
) -> bool:
    """Returns whether a check points at the place, or at one of the lines `around` it."""
    # The place of a part of a file is unknown.
    return not change.part and any(
        place.path == change.path and span.start - around < place.line <= span.end + around
        for check in checks
        for place in check.places
    )


def _lines_in(change: FileChange, span: ChangedLines) -> set[Line]:
    gone = change.before.splitlines()[span.start : span.end]
    new = change.after.splitlines()[span.new_start : span.new_end]
    return {(change.path, line.strip()) for line in (*gone, *new) if line.strip()}


def _vain(
    attempts: Sequence[RepairAttempt],
    first: Check,
    ids: Collection[str],
    lost: Collection[Line],
    fix: Collection[FileChange],
) -> tuple[str, ...]:
    """Returns the lines that failed attempts inserted and gave up, per attempt."""
    # A line that only came back is not an attempt.
    old = {line for change in fix for line in changed_lines(change)[0]}
    tries: list[str] = []
    for attempt in attempts:
        own = [c for c in attempt.before if c.id in ids or sign_of(c) == sign_of(first)]
        others = [check for check in attempt.before if check not in own]
        failed = attempt.judged and (attempt.broke or any(map(attempt.became, own)))
        changes = joined((), code_changes([attempt]))
        part = part_of(changes, (own or [first])[0], others)
        # If the attempt fixed another error, all of it may have been for that one.
        if failed and (part.pointed or not any(check in others for check in attempt.turned)):
            lines = [line for line in added_lines(part.changes) if line in lost]
            tries.append(_quoted(line for line in lines if line not in old))
    return tuple(dict.fromkeys(filter(None, tries)))[:MOST_EDITS]


def _unfit(changes: Collection[FileChange], error: Check) -> bool:
    """Returns whether the change silences a check or acts beyond the code."""
    words = f"{error.error_type} {error.message}"
    return bool(silences(*lines_of(changes))) or any(
        acts(*lines_of([change]), words, change.path) for change in changes
    )


def _quoted(lines: Iterable[Line]) -> str:
    texts = dict.fromkeys([f"`{text[:MOST_EDIT]}`" for text in inert([line[1] for line in lines])])
    return " and ".join(list(texts)[:MOST_EDITS])


def _readable(changes: Collection[FileChange]) -> bool:
    """Returns whether the old text of each change is known and all of it can be shown."""
    lengths = [sum(map(len, lines_of([change]))) for change in changes]
    return bool(lengths) and min(lengths) > 0 and max(lengths) <= MOST_SHOWN


def _distinct(checks: Iterable[Check]) -> list[list[Check]]:
    """Returns the checks grouped by error and generalised message, the most frequent first."""
    ordered = sorted(filter(known, checks), key=sign_of)
    groups = [list(group) for _, group in groupby(ordered, key=sign_of)]
    return sorted(groups, key=lambda group: (-len(group), sign_of(group[0])))

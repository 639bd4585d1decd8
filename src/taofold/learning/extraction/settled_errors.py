"""The errors that a loop settled, each with the change that did it.

An attempt settles an error if checks that failed by it pass afterwards, or fail by another error
and pass later. The change leads from the text that the error was first reported about to the first
text in which the error is gone for good, nothing is broken by the change that still fails, and
nothing of it is taken out again later. What the attempts between had put in was tried in vain.
Which places of the edits belong to the error is `blame`. Changes to tests prove nothing.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from msgspec.structs import replace

from taofold.core.failing_checks import Check, is_test
from taofold.learning.extraction.acts import acts, inert
from taofold.learning.extraction.blame import Blame, blame
from taofold.learning.extraction.diffs import (
    MOST_SHOWN,
    Line,
    added_lines,
    changed_lines,
    joined,
    lines_of,
    lost_lines,
)
from taofold.learning.extraction.generalisation import pattern_of
from taofold.learning.extraction.history import (
    FileChange,
    LoopHistory,
    RepairAttempt,
    name_of,
    stops,
)
from taofold.learning.extraction.silencing import silences

MOST_EDITS: Final = 4
"""Edits, and lines of one, that a sentence names."""
MOST_EDIT: Final = 160
"""Characters of a line that it quotes."""

_MOST_LOOKS: Final = 8
"""Texts that are looked at for the first in which an error is gone for good."""

Sign = tuple[str, str]
"""An error's class and its generalised message."""


class SettledError(NamedTuple):
    """Failing checks of one error, and what made them pass.

    `first` is the error as it was reported first; `changes` lead from the text that the report was
    about to the one in which it was gone; `vain` are lines tried between that left it; `partial`:
    it was made with others, for other errors perhaps. `end` is the attempt that did it.
    """

    end: int
    alike: list[Check]
    first: Check
    changes: tuple[FileChange, ...]
    vain: tuple[str, ...]
    partial: bool


def settled_errors(history: LoopHistory) -> Iterator[SettledError]:
    """The errors with the changes that settled them, where these can be told and shown whole."""
    lost = lost_lines(history.attempts)
    edited = [
        {line for change in attempt.changes for side in changed_lines(change) for line in side}
        for attempt in history.attempts
    ]
    ended: set[tuple[Sign, int]] = set()
    for number in range(len(history.attempts)):
        groups = _distinct(settled_by(history.attempts, number))
        for alike in groups:
            way = _Way(history.attempts, number, alike, lost, edited)
            end, fix = way.fix(several=len(groups) > 1)
            # Of checks that ended together the longest way is told.
            if not fix.changes or (way.sign, end) in ended:
                continue
            ended.add((way.sign, end))
            if _readable(fix.changes) and not _unfit(fix.changes, way.first):
                vain = way.vain(end, fix.changes)
                yield SettledError(end, alike, way.first, fix.changes, vain, fix.partial)


def settled_by(attempts: Sequence[RepairAttempt], number: int) -> list[Check]:
    """The checks whose error the attempt ended: they pass, or fail otherwise and pass later."""
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
    """What two checks that fail for one reason share, whatever values their messages hold."""
    return check.error_type, pattern_of(check.message)


def known(check: Check) -> bool:
    """Is it known what the error was? A command of which only its exit code is known is not."""
    # What stands first in a command's output may be anything.
    if check.error_type in ("command", "timeout"):
        return False
    return bool(check.message or check.error_type)


def code_changes(attempts: Iterable[RepairAttempt]) -> list[FileChange]:
    """What the attempts changed, tests left out."""
    return [c for attempt in attempts for c in attempt.changes if not is_test(c.path)]


class _Way:
    """A loop's way from the first report of an error, which attempt `number` ended, to its fix."""

    def __init__(
        self,
        attempts: Sequence[RepairAttempt],
        number: int,
        alike: Sequence[Check],
        lost: set[Line],
        edited: Sequence[set[Line]],
    ) -> None:
        self._attempts, self._number = attempts, number
        self._lost, self._edited = lost, edited
        self.sign, self._ids = sign_of(alike[0]), {check.id for check in alike}
        start = number
        while start and self.sign in map(sign_of, attempts[start - 1].before):
            start -= 1
        self._start = start
        reported = [c for c in attempts[start].before if sign_of(c) == self.sign]
        self.first = min(reported, key=lambda check: check.id != alike[0].id)
        """The error as it was reported first: its lines are those of the first text."""

    def fix(self, *, several: bool) -> tuple[int, Blame]:
        """The attempt with which the error was gone for good, and the part of it that did that.

        `several`: attempt `number` ended other errors too.
        """
        attempt = self._attempts[self._number]
        now = [attempt.became(check) for check in attempt.before if check.id in self._ids]
        # Other words of one class may be the same fault: the edit must be where it was raised.
        reworded = any(check and check.error_type == self.sign[0] for check in now)
        looked = 0
        failing: Collection[str] = ()
        for end in range(self._gone(), len(self._attempts)):
            attempt = self._attempts[end]
            # While what it broke still fails there is nothing new to see.
            waits = any(check.id in failing for check in attempt.after)
            if waits or not (attempt.kept and attempt.judged):
                continue
            if looked == _MOST_LOOKS:
                break
            looked += 1
            # What was edited after the error was gone may be what the fix still lacked.
            edits = code_changes(self._attempts[self._number : end + 1])
            last = set[Line]().union(*self._edited[self._number : end + 1])
            changes = joined(code_changes(self._attempts[self._start : self._number]), edits)
            fix = blame(changes, self.first, self._others(end), last, several=several)
            new = added_lines(fix.changes)
            failing = self._broken_by(end, changes, new)
            stands = not failing and self._lost.isdisjoint(new)
            if stands and (fix.pointed or (end == self._number and not reworded)):
                return end, fix
        return self._number, Blame((), pointed=False)

    def _gone(self) -> int:
        """The first attempt after which the error is not reported any more."""
        first = self._number
        for number, attempt in enumerate(self._attempts[first:], first):
            if any(map(self._is_own, attempt.after)) and (attempt.kept or number == first):
                first = number + 1
            elif attempt.kept and any(map(self._is_own, attempt.before)):
                first = number
        return first

    def _is_own(self, check: Check) -> bool:
        return check.id in self._ids and sign_of(check) == self.sign

    def _broken(self, end: int) -> list[Check]:
        """What was broken on the way to attempt `end`, from the one on that settled the error."""
        return [c for past in self._attempts[self._number : end] if past.kept for c in past.broke]

    def _others(self, end: int) -> list[Check]:
        """The other errors that the change may be for."""
        own = {self.first.id, *self._ids, *[check.id for check in self._broken(end)]}
        there = dict.fromkeys([*self._attempts[self._number].before, *self._attempts[end].before])
        return [check for check in there if check.id not in own]

    def _broken_by(
        self, end: int, changes: Sequence[FileChange], new: Collection[Line]
    ) -> tuple[str, ...]:
        """The checks failing after attempt `end` that the `new` lines may have broken."""
        broken = {check.id for check in self._broken(end + 1)}
        attempt = self._attempts[end]
        found: list[str] = []
        for check in attempt.after:
            if check.id in broken:
                # What a program stopped before is not known to have passed, unless it is one test.
                seen = not stops(check) or name_of(check.id) in (attempt.passed or ())
                harm = _harm(check, changes) if seen else set[Line]()
                if not harm or not harm.isdisjoint(new):
                    found.append(check.id)
        return tuple(found)

    def vain(self, end: int, fix: Collection[FileChange]) -> tuple[str, ...]:
        """Of each attempt before `end` the lines that were given up, or else those of the fix."""
        # What only came back is no try.
        old = {line for change in fix for line in changed_lines(change)[0]}
        tries = [self._tried(attempt) for attempt in self._attempts[self._start : end]]
        lines = [[line for line in tried if line not in old] for tried in tries]
        given_up = [_quoted(line for line in tried if line in self._lost) for tried in lines]
        # A part of what was right in the end was not enough.
        right = added_lines(fix)
        part = [_quoted((line for line in tried if line in right), " alone") for tried in lines]
        vain = given_up if any(given_up) else part
        return tuple(dict.fromkeys(filter(None, vain)))[:MOST_EDITS]

    def _tried(self, attempt: RepairAttempt) -> list[Line]:
        """The lines that the attempt put in for the error, if it left or exchanged it."""
        own = [c for c in attempt.before if c.id in self._ids or sign_of(c) == self.sign]
        others = [check for check in attempt.before if check not in own]
        part = blame(joined((), code_changes([attempt])), (own or [self.first])[0], others)
        failed = attempt.judged and (attempt.broke or any(map(attempt.became, own)))
        # Of an attempt that settled another error it may all have been for that.
        for_others = not part.pointed and any(check in others for check in attempt.turned)
        return added_lines(part.changes) if failed and not for_others else []


def _harm(check: Check, changes: Sequence[FileChange]) -> set[Line]:
    """The lines put in that broke the check, by what its report speaks of; empty if unknown."""
    put, path, number = {*added_lines(changes)}, check.place.path, check.place.line
    # Where a finding stands in a line that was put in, only this line is to blame.
    texts = [c.after.splitlines() for c in changes if c.path == path and not c.part]
    if texts and not stops(check) and 0 < number <= len(texts[0]):
        line = (path, texts[0][number - 1].strip())
        if line in put:
            return {line}
    # Its places are those of the texts after the changes.
    back = [replace(change, before=change.after, after=change.before) for change in changes]
    part = blame(back, check, ())
    return (
        put & {line for c in part.changes for line in changed_lines(c)[0]}
        if part.pointed
        else set()
    )


def _unfit(changes: Collection[FileChange], error: Check) -> bool:
    """Does the change silence a check, or act beyond the code? Both are no example."""
    said = f"{error.error_type} {error.message}"
    return bool(silences(*lines_of(changes))) or any(
        acts(*lines_of([change]), said, change.path) for change in changes
    )


def _quoted(lines: Iterable[Line], end: str = "") -> str:
    texts = dict.fromkeys([f"`{text[:MOST_EDIT]}`" for text in inert([line[1] for line in lines])])
    return " and ".join(list(texts)[:MOST_EDITS]) + end * bool(texts)


def _readable(changes: Collection[FileChange]) -> bool:
    """Is it known of each what it was, and can it be shown whole?"""
    lengths = [sum(map(len, lines_of([change]))) for change in changes]
    return bool(lengths) and min(lengths) > 0 and max(lengths) <= MOST_SHOWN


def _distinct(checks: Iterable[Check]) -> list[list[Check]]:
    """The checks by error and generalised message, the commonest first."""
    ordered = sorted(filter(known, checks), key=sign_of)
    groups = [list(group) for _, group in groupby(ordered, key=sign_of)]
    return sorted(groups, key=lambda group: (-len(group), sign_of(group[0])))

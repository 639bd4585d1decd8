"""Which places of a change are the fix of an error.

Those that the error's report points at, or else those beside them, or else those that bind a name
of its message or its lines; with them those that bind a name which they hold. What binds a name
imports, defines or assigns it, or lies in the function of this name. An error of which no place
speaks has the places at which no other error points, if it alone was settled, and else those in a
file that it alone leads into. Of the only error there was, all of the edit after which it was gone
is the fix.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from taofold.core.failing_checks import Check
from taofold.learning.extraction.diffs import (
    BOUND,
    DEFINED,
    IMPORT,
    KNOWN,
    ChangedLines,
    Line,
    dice,
    indent,
    narrowed,
    spans,
    tokens,
)
from taofold.learning.extraction.generalisation import frames_of
from taofold.learning.extraction.history import FileChange

_NAME: Final = re.compile(r"[A-Za-z_]\w+")
_NO_NAMES: Final = KNOWN | {"self", "cls", "this"}
_SAME_LINE: Final = 0.5
"""Likeness from which on a line is another one as it was edited."""
_LONGEST: Final = 60
"""Lines of a place that are compared one by one."""


class Blame(NamedTuple):
    """The changes that are of one error.

    `pointed`: its report, its message or its lines speak of one of them; `partial`: the edit did
    more, and for which error that was is not known.
    """

    changes: tuple[FileChange, ...]
    pointed: bool
    partial: bool = False


def blame(
    changes: Sequence[FileChange],
    check: Check,
    others: Collection[Check],
    last: Collection[Line] = (),
    *,
    several: bool = False,
) -> Blame:
    """The part of `changes` that settled `check`; () where that of `others` cannot be told apart.

    Line numbers are those of the texts before the changes. `last` are the lines of the edit, both
    taken out and put in, after which the error was gone: what had been changed before left it where
    it was. `several`: it settled some of the `others` too.
    """
    hunks = [hunk for change in changes for hunk in _hunks(change, check, others)]
    free = [hunk for hunk in hunks if not hunk.near(others)]
    own = [hunk for hunk in hunks if hunk.near([check])]
    own = own or [hunk for hunk in free if hunk.near([check], 1)]
    if not own:
        subject = _subject(check, changes)
        own = [hunk for hunk in free if not subject.isdisjoint(hunk.binds)]
    pointed = bool(own)
    if not own:
        alone = {place.path for place in check.places}
        alone -= {place.path for other in others for place in other.places}
        own = [hunk for hunk in free if not several or hunk.change.path in alone]
    held = {name for hunk in own for name in hunk.names}
    free = [hunk for hunk in free if hunk not in own]
    linked = [hunk for hunk in free if not held.isdisjoint(hunk.binds)]
    rest = [h for h in free if h not in linked and not h.lines.isdisjoint(last)]
    chosen = [*own, *linked, *([] if others else rest)]
    places = [(change, [h.span for h in chosen if h.change is change]) for change in changes]
    parts = [narrowed(change, spans_there) for change, spans_there in places if spans_there]
    return Blame(tuple(parts), pointed, partial=bool(others and rest))


@dataclass(eq=False)
class _Hunk:
    """A changed place of a file."""

    change: FileChange
    span: ChangedLines

    def near(self, checks: Iterable[Check], around: int = 0) -> bool:
        """Does one of the checks point at it, or at one of the lines `around` it?"""
        # Of a part of a file it is not known where it stands.
        if self.change.part:
            return False
        start, end = self.span.start - around, self.span.end + around
        places = [place for check in checks for place in check.places]
        return any(p.path == self.change.path and start < p.line <= end for p in places)

    @cached_property
    def texts(self) -> tuple[list[str], list[str]]:
        """Its lines before and after."""
        old, new = self.change.before.splitlines(), self.change.after.splitlines()
        return old[self.span.start : self.span.end], new[self.span.new_start : self.span.new_end]

    @cached_property
    def lines(self) -> set[Line]:
        """Its lines before and after that hold a name."""
        return {
            (self.change.path, line.strip())
            for side in self.texts
            for line in side
            if _NAME.search(line)
        }

    @cached_property
    def names(self) -> set[str]:
        """The names that it holds, before or after."""
        return _names_in(line for side in self.texts for line in side)

    @cached_property
    def binds(self) -> set[str]:
        """The names that it imports, defines or assigns, and the function that it lies in."""
        lines = [line for side in self.texts for line in side]
        text = "\n".join([*lines, self._head()])
        imported = _names_in(line for line in lines if IMPORT.match(line))
        return {*imported, *DEFINED.findall(text), *BOUND.findall(text)} - _NO_NAMES

    def _head(self) -> str:
        """The nearest line above it that defines what it lies in."""
        margin = min([indent(line) for line in self.texts[0] if line.strip()], default=99)
        above = reversed(self.change.before.splitlines()[: self.span.start])
        heads = (line for line in above if indent(line) < margin and DEFINED.search(line))
        return next(heads, "")


def _names_in(lines: Iterable[str]) -> set[str]:
    return {name for line in lines for name in _NAME.findall(line)} - _NO_NAMES


def _subject(check: Check, changes: Iterable[FileChange]) -> set[str]:
    """The names in the check's message and on its lines, and the functions that these are in."""
    texts = {change.path: change.before.splitlines() for change in changes if not change.part}
    lines = [check.message, *[frame.statement for frame in frames_of(check)]]
    for place in check.places:
        lines += [place.function, *texts.get(place.path, [])[max(place.line - 1, 0) : place.line]]
    return _names_in(lines)


def _hunks(change: FileChange, check: Check, others: Collection[Check]) -> Iterator[_Hunk]:
    """The changed places, each whole, or line by line where lines may be of different errors."""
    for span in spans(change):
        hunk = _Hunk(change, span)
        if others and hunk.near([check]) == hunk.near(others):
            yield from [_Hunk(change, line) for line in _lines_of(hunk)]
        else:
            yield hunk


def _lines_of(hunk: _Hunk) -> list[ChangedLines]:
    """The place in single lines, each with what became of it."""
    span, (old, new) = hunk.span, hunk.texts
    if not old or max(len(old), len(new)) > _LONGEST:
        return [span]
    starts: list[int] = []
    at = 0
    for line in old:
        match = _likest(line, new, at)
        starts.append(at if match is None else match)
        at = at if match is None else match + 1
    # New lines that stem from none stand with the line above them, the first ones with the first.
    starts[0] = 0
    ends = [*starts[1:], len(new)]
    return [
        ChangedLines(number, number + 1, span.new_start + first, span.new_start + stop)
        for number, first, stop in zip(range(span.start, span.end), starts, ends, strict=True)
    ]


def _likest(line: str, lines: Sequence[str], start: int) -> int | None:
    """The first of the lines from `start` on that is most like this one; None if none is."""
    words = tokens(line)
    rest = [tokens(text) for text in lines[start:]]
    alike = [dice(words, other) if words and other else 0.0 for other in rest]
    best = max(alike, default=0.0)
    return start + alike.index(best) if best >= _SAME_LINE else None

"""Which places of a change are the fix of an error, and how far they lie from where it points.

A change may settle several errors at once. A place belongs to the error whose statement it changes;
one that no error points at belongs to it if it binds a name that the others use (an import, a
definition), or takes over a line of theirs. If this was the only error, all of the edit after which
it was gone belongs to it: half of a cure is none.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

from taofold.core.failing_checks import Check, is_assertion, is_foreign, is_test
from taofold.learning.extraction.diffs import (
    BOUND,
    IMPORT,
    KNOWN,
    ChangedLines,
    hunks,
    imports_only,
    narrowed,
    spans,
)
from taofold.learning.extraction.history import FileChange

_NAME: Final = re.compile(r"[A-Za-z_]\w+")
_DEFINED: Final = re.compile(
    r"\b(?:def|class|fn|struct|enum|trait|func|function|const|let|var|type|interface)\s+(\w+)"
)


class Blame(NamedTuple):
    """The changes that are of one error.

    `pointed`: its report points at one of them; `elsewhere`: it points at code, and at none;
    `partial`: the edit did more, and for which error that was is not known.
    """

    changes: tuple[FileChange, ...]
    pointed: bool
    elsewhere: bool
    partial: bool = False


def blame(
    changes: Sequence[FileChange],
    check: Check,
    others: Collection[Check],
    last: Sequence[FileChange] = (),
) -> Blame:
    """The part of `changes` that settled `check`; () where that of `others` cannot be told apart.

    Line numbers are those of the texts before the changes. `last` is the edit after which the error
    was gone: what had been changed before left it where it was.
    """
    edit = [(part.path, *hunk) for part in last for hunk in hunks(part)]
    lines_of_edit = {(path, line.strip()) for path, *both in edit for line in chain(*both)}
    own: list[_Place] = []
    free: list[_Place] = []
    foreign = [place for other in others for place in other.places]
    for change in changes:
        mine = [place.line - 1 for place in check.places if place.path == change.path]
        theirs = [place.line - 1 for place in foreign if place.path == change.path]
        for span in _apart(spans(change), mine, theirs):
            place = _Place(change, span)
            # The very line first: edits of neighbouring lines may be of two errors.
            if _near(span, mine, 0) or (not _near(span, theirs, 0) and _near(span, mine, 1)):
                own.append(place)
            elif not _near(span, theirs, 0):
                free.append(place)
    linked = _linked(own, free) if own else free
    rest = [
        place for place in free if place not in linked and not lines_of_edit.isdisjoint(place.lines)
    ]
    wanted = [*own, *linked, *([] if others else rest)]
    parts = tuple(
        [
            narrowed(change, spans_there)
            for change in changes
            if (spans_there := [place.span for place in wanted if place.change is change])
        ]
    )
    lines = [
        line for part in parts for hunk in hunks(part) for line in (*hunk.removed, *hunk.added)
    ]
    away = not own and _points_away(check, changes) and not imports_only(lines)
    return Blame(parts, bool(own), away, partial=bool(others and rest))


class _Place(NamedTuple):
    """A changed place of a file."""

    change: FileChange
    span: ChangedLines

    @property
    def texts(self) -> tuple[str, str]:
        """The place before and after."""
        old, new = self.change.before.splitlines(), self.change.after.splitlines()
        gone = old[self.span.start : self.span.end]
        return "\n".join(gone), "\n".join(new[self.span.new_start : self.span.new_end])

    @property
    def lines(self) -> set[tuple[str, str]]:
        """Its lines before and after, each with the path."""
        both = "\n".join(self.texts).split("\n")
        return {(self.change.path, line.strip()) for line in both if _NAME.search(line)}

    @property
    def names(self) -> set[str]:
        """The names that it takes out or puts in."""
        gone, new = self.texts
        return ({*_NAME.findall(gone)} ^ {*_NAME.findall(new)}) - KNOWN

    @property
    def binds(self) -> set[str]:
        """The names that it imports, defines or assigns, or did before."""
        text = "\n".join(self.texts)
        imports = [line for line in text.split("\n") if IMPORT.match(line)]
        return {
            *_NAME.findall("\n".join(imports)),
            *_DEFINED.findall(text),
            *BOUND.findall(text),
        } - KNOWN


def _apart(
    places: Iterable[ChangedLines], mine: Collection[int], theirs: Collection[int]
) -> Iterator[ChangedLines]:
    """The places, line by line where one line is this check's and another one that of others."""
    for span in places:
        old, new = range(*span[:2]), range(*span[2:])
        both = not {*old}.isdisjoint(mine) and not {*old}.isdisjoint({*theirs} - {*mine})
        if both and len(old) == len(new):
            yield from [ChangedLines(n, n + 1, m, m + 1) for n, m in zip(old, new, strict=True)]
        else:
            yield span


def _near(span: ChangedLines, lines: Iterable[int], around: int) -> bool:
    return any(span.start - around <= line < span.end + around for line in lines)


def _linked(own: Sequence[_Place], free: Iterable[_Place]) -> list[_Place]:
    """The free places that bind a name which the own ones bring or call, or that share a line."""
    used = {name for place in own for name in place.names}
    called = {name for place in own for text in place.texts for name in _NAME.findall(text)}
    lines = {line for place in own for line in place.lines}
    return [
        place
        for place in free
        if place.names & place.binds & used
        or called.intersection(_DEFINED.findall("\n".join(place.texts)))
        or not lines.isdisjoint(place.lines)
    ]


def _points_away(check: Check, changes: Iterable[FileChange]) -> bool:
    """Does the report point at code, and at none that was changed as far as lines are known?"""
    inside = [p for p in check.places if p.line and not is_foreign(p.path)]
    # An assertion says that something is wrong and not where.
    if is_assertion(check) or not inside or is_test(inside[-1].path):
        return False
    return not any(
        change.path == inside[-1].path
        and (change.part or inside[-1].line > len(change.before.splitlines()))
        for change in changes
    )

"""Which places of a change are the fix of an error.

A change may settle several errors at once. A hunk belongs to the error whose statement it changes;
one that no error points at belongs to it if it binds a name that the others use (an import, a
definition), or takes over a line of theirs. An error that points at none has those that bind a name
of its message or its lines, lie in a function of these, or in a file that it alone leads into. If
this was the only error, all of the edit after which it was gone belongs to it: half of a cure is
none.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

from taofold.core.failing_checks import Check
from taofold.learning.extraction.diffs import (
    BOUND,
    IMPORT,
    KNOWN,
    ChangedLines,
    dice,
    hunks,
    indent,
    narrowed,
    spans,
    tokens,
)
from taofold.learning.extraction.generalisation import frames_of
from taofold.learning.extraction.history import FileChange

_NAME: Final = re.compile(r"[A-Za-z_]\w+")
_DEFINED: Final = re.compile(
    r"\b(?:def|class|fn|struct|enum|trait|func|function|const|let|var|type|interface)\s+(\w+)"
)


_SAME_LINE: Final = 0.5
"""Likeness from which on a line is another one as it was edited."""
_LONGEST: Final = 60


class Blame(NamedTuple):
    """The changes that are of one error.

    `pointed`: its report points at one of them; `partial`: the edit did more, and for which error
    that was is not known.
    """

    changes: tuple[FileChange, ...]
    pointed: bool
    partial: bool = False


def blame(
    changes: Sequence[FileChange],
    check: Check,
    others: Collection[Check],
    last: Sequence[FileChange] = (),
    *,
    several: bool = False,
) -> Blame:
    """The part of `changes` that settled `check`; () where that of `others` cannot be told apart.

    Line numbers are those of the texts before the changes. `last` is the edit after which the error
    was gone: what had been changed before left it where it was. `several`: it settled some of the
    `others` too.
    """
    edit = [(part.path, *hunk) for part in last for hunk in hunks(part)]
    lines_of_edit = {(path, line.strip()) for path, *both in edit for line in chain(*both)}
    own: list[_Hunk] = []
    free: list[_Hunk] = []
    foreign = [frame for other in others for frame in other.places]
    for change in changes:
        # Of a part of a file it is not known where it stands.
        path = "" if change.part else change.path
        own_lines = [frame.line - 1 for frame in check.places if frame.path == path]
        theirs = [frame.line - 1 for frame in foreign if frame.path == path]
        for hunk, whole in _apart(change, own_lines, theirs, several=several):
            span = hunk.span
            # The very line first: edits of neighbouring lines may be of two errors.
            beside = whole and not _near(span, theirs, 0) and _near(span, own_lines, 1)
            if _near(span, own_lines, 0) or beside:
                own.append(hunk)
            elif not _near(span, theirs, 0):
                free.append(hunk)
    if several and not own:
        subject = _subject(check, changes)
        # A file that this error alone leads into was edited for it.
        alone = {p.path for p in check.places} - {p.path for p in foreign}
        linked = [
            hunk
            for hunk in free
            if hunk.change.path in alone or not subject.isdisjoint(hunk.binds | hunk.within)
        ]
        linked += _linked(linked, [hunk for hunk in free if hunk not in linked])
    else:
        linked = _linked(own, free) if own else free
    rest = [
        hunk for hunk in free if hunk not in linked and not lines_of_edit.isdisjoint(hunk.lines)
    ]
    chosen = [*own, *linked, *([] if others else rest)]
    parts = tuple(
        [
            narrowed(change, spans_there)
            for change in changes
            if (spans_there := [hunk.span for hunk in chosen if hunk.change is change])
        ]
    )
    return Blame(parts, bool(own), partial=bool(others and rest))


class _Hunk(NamedTuple):
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

    @property
    def within(self) -> set[str]:
        """The functions and classes that it lies in."""
        old = self.change.before.splitlines()
        names: set[str] = set()
        outer = min([indent(line) for line in self.texts[0].split("\n") if line.strip()] or [99])
        for line in reversed(old[: self.span.start]):
            if line.strip() and indent(line) < outer:
                outer = indent(line)
                names |= {*_DEFINED.findall(line)}
        return names


def _apart(
    change: FileChange, mine: Collection[int], theirs: Collection[int], *, several: bool
) -> Iterator[tuple[_Hunk, bool]]:
    """The changed places, each whole, or line by line where lines may be of different errors."""
    for span in spans(change):
        hunk = _Hunk(change, span)
        pointed = _near(span, mine, 0) or _near(span, theirs, 0)
        if _mixed(span, mine, theirs) or (several and not pointed):
            yield from [(_Hunk(change, line), False) for line in _lines_of(hunk)]
        else:
            yield hunk, True


def _mixed(span: ChangedLines, mine: Collection[int], theirs: Collection[int]) -> bool:
    """Is one line of the place this check's and another one that of others?"""
    old = {*range(span.start, span.end)}
    return not old.isdisjoint(mine) and not old.isdisjoint({*theirs} - {*mine})


def _lines_of(hunk: _Hunk) -> list[ChangedLines]:
    """The place in single lines, each with what became of it."""
    start, end, new_start, new_end = hunk.span
    if end - start == new_end - new_start:
        pairs = zip(range(start, end), range(new_start, new_end), strict=True)
        return [ChangedLines(old, old + 1, new, new + 1) for old, new in pairs]
    if max(end - start, new_end - new_start) > _LONGEST:
        return [hunk.span]
    old, new = (text.split("\n") for text in hunk.texts)
    lines: list[ChangedLines] = []
    at = new_start
    for number in range(end - start):
        words = tokens(old[number])
        rest = [tokens(text) for text in new[at - new_start : new_end - new_start]]
        alike = [dice(words, other) if words and other else 0.0 for other in rest]
        best = max(alike, default=0.0)
        match = at + alike.index(best) if best >= _SAME_LINE else at - 1
        # New lines that stem from none stand with the line above them.
        if lines:
            lines[-1] = lines[-1]._replace(new_end=max(match, at))
            first = max(match, at)
        else:
            first = at
        lines.append(ChangedLines(start + number, start + number + 1, first, match + 1))
        at = match + 1
    return [*lines[:-1], lines[-1]._replace(new_end=new_end)] if lines else [hunk.span]


def _subject(check: Check, changes: Iterable[FileChange]) -> set[str]:
    """The names in the check's message and on its lines, and the functions that these are in."""
    texts = {part.path: part.before.splitlines() for part in changes if not part.part}
    names = {name for frame in check.places for name in _NAME.findall(frame.function)}
    for frame in check.places:
        names |= {*_NAME.findall("\n".join(texts.get(frame.path, [])[frame.line - 1 : frame.line]))}
    sentences = [check.message, *[frame.statement for frame in frames_of(check)]]
    return (names | {*_NAME.findall("\n".join(sentences))}) - KNOWN - {"self", "cls", "this"}


def _near(span: ChangedLines, lines: Iterable[int], around: int) -> bool:
    return any(span.start - around <= line < span.end + around for line in lines)


def _linked(own: Sequence[_Hunk], free: Iterable[_Hunk]) -> list[_Hunk]:
    """The free places that bind a name which the own ones bring or call, or that share a line."""
    used = {name for hunk in own for name in hunk.names}
    called = {name for hunk in own for text in hunk.texts for name in _NAME.findall(text)}
    lines = {line for hunk in own for line in hunk.lines}
    return [
        hunk
        for hunk in free
        if hunk.names & hunk.binds & used
        or called.intersection(_DEFINED.findall("\n".join(hunk.texts)))
        or not lines.isdisjoint(hunk.lines)
    ]

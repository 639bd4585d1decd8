"""Which places of a change are the fix of an error, and how far they lie from where it points.

A change may settle several errors at once, and tidy up beside them. A place belongs to the error
whose statement it changes; one that no error points at belongs to it if it puts in a name that the
others use (an import), or defines what they call, or if nothing else does. What is left out is not
passed over: a part of a change may be no fix.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from taofold.core.checks import Check, is_assertion, is_test
from taofold.learning.extraction.diffs import IMPORT, KNOWN, ChangedLines, hunks, narrowed, spans
from taofold.learning.extraction.history import FileChange

_MOST_STATEMENT: Final = 12
"""Lines that a statement is followed over."""
_NAME: Final = re.compile(r"[A-Za-z_]\w+")
_DEFINED: Final = re.compile(
    r"\b(?:def|class|fn|struct|enum|trait|func|function|const|let|var|type|interface)\s+(\w+)"
)
_OPEN, _CLOSED = re.compile(r"[(\[{]"), re.compile(r"[)\]}]")


class Blame(NamedTuple):
    """The changes that are of one error.

    `pointed`: its report points at one of them; `elsewhere`: it points at code, and at none;
    `partial`: there were other changes, and which error they were for is not known.
    """

    changes: tuple[FileChange, ...]
    pointed: bool
    elsewhere: bool
    partial: bool = False


def blame(changes: Sequence[FileChange], check: Check, others: Iterable[Check]) -> Blame:
    """The part of `changes` that settled `check`; () where that of `others` cannot be told apart.

    Line numbers are those of the texts before the changes.
    """
    foreign = [place for other in others for place in other.places]
    own: dict[int, list[ChangedLines]] = {}
    free: dict[int, list[ChangedLines]] = {}
    for number, change in enumerate(changes):
        lines = change.before.splitlines()
        mine = _statements(lines, [p.line for p in check.places if p.path == change.path])
        theirs = _statements(lines, [p.line for p in foreign if p.path == change.path])
        for span in spans(change):
            # The very statement first: edits of neighbouring lines may be of two errors.
            if _hits(span, mine) or (not _hits(span, theirs) and _beside(span, mine)):
                own.setdefault(number, []).append(span)
            elif not _hits(span, theirs):
                free.setdefault(number, []).append(span)
    every = {n: [*own.get(n, []), *free.get(n, [])] for n in {**own, **free}}
    wanted = _with_linked(changes, own, free) if own else every
    partial = sum(map(len, wanted.values())) < sum(map(len, every.values()))
    parts = tuple([narrowed(changes[number], wanted[number]) for number in sorted(wanted)])
    away = not own and _points_away(check, changes) and not _imports_only(parts)
    return Blame(parts, bool(own), away, partial)


def _statements(lines: Sequence[str], numbers: Iterable[int]) -> set[int]:
    """The indices of the lines of the statements that begin at `numbers` (from 1)."""
    found: set[int] = set()
    for number in numbers:
        depth = 0
        for index in range(number - 1, min(number - 1 + _MOST_STATEMENT, len(lines))):
            if index < 0:
                break
            found.add(index)
            depth += len(_OPEN.findall(lines[index])) - len(_CLOSED.findall(lines[index]))
            # What opens a block is no statement of many lines.
            if depth <= 0 or lines[index].rstrip().endswith(("{", ":")):
                break
    return found


def _hits(span: ChangedLines, statements: set[int]) -> bool:
    return any(index in statements for index in range(span.start, span.end))


def _beside(span: ChangedLines, statements: set[int]) -> bool:
    """Is it the statement, or a line right before or behind it?"""
    return any(index in statements for index in range(span.start - 1, span.end + 1))


def _with_linked(
    changes: Sequence[FileChange],
    own: dict[int, list[ChangedLines]],
    free: dict[int, list[ChangedLines]],
) -> dict[int, list[ChangedLines]]:
    """`own` with each free place that brings, takes away, or defines, a name which those use."""
    wanted = {number: list(places) for number, places in own.items()}
    spans_of = [(changes[number], span) for number, places in own.items() for span in places]
    used = {name for place in spans_of for name in _names(*place)}
    called = {name for place in spans_of for text in _texts(*place) for name in _NAME.findall(text)}
    grown = True
    while grown:
        grown = False
        for number, places in free.items():
            for span in places:
                names = _names(changes[number], span)
                # A call was changed, and what it calls.
                defines = {*_DEFINED.findall("\n".join(_texts(changes[number], span)))}
                linked = names & used or defines & called
                if span not in wanted.get(number, []) and linked:
                    wanted.setdefault(number, []).append(span)
                    used |= names
                    grown = True
    return wanted


def _texts(change: FileChange, span: ChangedLines) -> tuple[str, str]:
    """The place before and after."""
    gone = "\n".join(change.before.splitlines()[span.start : span.end])
    return gone, "\n".join(change.after.splitlines()[span.new_start : span.new_end])


def _names(change: FileChange, span: ChangedLines) -> set[str]:
    """The names that the place takes out or puts in."""
    gone, new = _texts(change, span)
    return ({*_NAME.findall(gone)} ^ {*_NAME.findall(new)}) - KNOWN


def _points_away(check: Check, changes: Iterable[FileChange]) -> bool:
    """Does the report point at code, and at none that was changed as far as lines are known?"""
    inside = [p for p in check.places if p.line and not p.path.startswith("/")]
    # An assertion says that something is wrong and not where.
    if is_assertion(check) or not inside or is_test(inside[-1].path):
        return False
    return not any(
        change.path == inside[-1].path
        and (change.part or inside[-1].line > len(change.before.splitlines()))
        for change in changes
    )


def _imports_only(changes: Iterable[FileChange]) -> bool:
    differing = [hunk for change in changes for hunk in hunks(change)]
    lines = [line for hunk in differing for line in (*hunk.removed, *hunk.added)]
    return all(IMPORT.match(line) for line in lines if line.strip())

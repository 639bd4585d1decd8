"""What an edit does, apart from where it does it: hunks, tokens, and the kind of the change.

Knows nothing about errors or patterns.
"""

import builtins
import keyword
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final, NamedTuple

from taofold.learning.extraction.history import FileChange

TOKEN: Final = re.compile(
    r"""\"(?:[^"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|\w+(?:\.\d+)?|(?:\*\*|//|<<|>>|[<>=!*/+\-%|&^])=?"""
    r"""|:=|=>|&&|\|\||[^\w\s]"""
)
KNOWN: Final = frozenset([*keyword.kwlist, *dir(builtins)])
"""Words of the language: they are part of a shape, other names are not."""
HOLE: Final = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_LONGEST: Final = 2_000
"""Lines of a side beyond which no line by line comparison is made."""
IMPORT: Final = re.compile(
    r"\s*(?:from\s+\S+\s+import\b|import\b|(?:pub )?use\b|#include\b|extern crate\b"
    r"|(?:const|let|var)\s.*=\s*require\()"
)
SEPARATOR: Final = "@@"
"""Stands between distant places of a change."""
_CONTEXT: Final = 2
"""Lines above and below a change that readers are shown with it."""


class EditKind(NamedTuple):
    """What an edit does, whatever the names: the tokens of the lines that went and that came."""

    gone: tuple[str, ...]
    new: tuple[str, ...]


class Hunk(NamedTuple):
    """Neighbouring lines of one change, without their common indentation."""

    removed: tuple[str, ...]
    added: tuple[str, ...]


class ChangedLines(NamedTuple):
    """Lines `start` to `end` of the text before that became `new_start` to `new_end`."""

    start: int
    end: int
    new_start: int
    new_end: int


def spans(change: FileChange) -> tuple[ChangedLines, ...]:
    """The places where the texts differ. None if they are the same, not known, or far too long."""
    before, after = change.before.splitlines(), change.after.splitlines()
    if change.unsure or len(before) > _LONGEST or len(after) > _LONGEST:
        return ()
    differing = [
        ChangedLines(*places)
        for tag, *places in _matcher(before, after).get_opcodes()
        if tag != "equal"
    ]
    return tuple([span for span in differing if any(map(str.strip, _sides(before, after, span)))])


def _matcher(before: Sequence[str], after: Sequence[str]) -> SequenceMatcher[str]:
    # With `autojunk` a line that stands often in a long file would be matched with none.
    return SequenceMatcher(None, before, after, autojunk=False)


def _sides(before: Sequence[str], after: Sequence[str], span: ChangedLines) -> list[str]:
    return [*before[span.start : span.end], *after[span.new_start : span.new_end]]


def narrowed(change: FileChange, wanted: Collection[ChangedLines]) -> FileChange:
    """The change without its other places: there the text stays as it was."""
    before, after = change.before.splitlines(keepends=True), change.after.splitlines(keepends=True)
    parts: list[str] = []
    at = 0
    for span in sorted(wanted):
        parts += [*before[at : span.start], *after[span.new_start : span.new_end]]
        at = span.end
    return FileChange(change.path, change.before, "".join([*parts, *before[at:]]))


def hunks(change: FileChange) -> tuple[Hunk, ...]:
    """The lines that differ; () as for `spans`."""
    before, after = change.before.splitlines(), change.after.splitlines()
    return tuple(
        [
            _dedented(before[span.start : span.end], after[span.new_start : span.new_end])
            for span in spans(change)
        ]
    )


def _dedented(removed: Sequence[str], added: Sequence[str]) -> Hunk:
    # One margin for both sides, so that a change of indentation is still one.
    margin = _margin([*removed, *added])
    return Hunk(
        tuple([line[margin:].rstrip() for line in removed]),
        tuple([line[margin:].rstrip() for line in added]),
    )


def _margin(lines: Iterable[str]) -> int:
    return min([len(line) - len(line.lstrip()) for line in lines if line.strip()], default=0)


def excerpt(change: FileChange) -> str:
    """The change as a reader sees it: `-` and `+` lines between the lines that they stand among.

    Distant places have `SEPARATOR` between.
    """
    if not spans(change):
        return ""
    before, after = change.before.splitlines(), change.after.splitlines()
    places: list[str] = []
    for group in _matcher(before, after).get_grouped_opcodes(_CONTEXT):
        marked: list[tuple[str, str]] = []
        for tag, start, end, new_start, new_end in group:
            gone = before[start:end]
            marked += [(" " if tag == "equal" else "-", line) for line in gone]
            new = after[new_start:new_end] if tag != "equal" else ()
            marked += [("+", line) for line in new]
        margin = _margin([line for _, line in marked])
        lines = [f"{sign}{line[margin:].rstrip()}" for sign, line in marked if line.strip()]
        places.append("\n".join(lines))
    return f"\n{SEPARATOR}\n".join(places)


def tokens(text: str) -> list[str]:
    """The text in words and signs, comments of Python left out."""
    return [token for line in text.split("\n") for token in TOKEN.findall(_code(line))]


def _code(line: str) -> str:
    hash_index = line.find("#")
    # A `#` behind a quote or a brace may stand in a
    # string: better a comment too many than code lost.
    return line if hash_index < 0 or re.search(r"[\"'{]", line[:hash_index]) else line[:hash_index]


def abstracted(text: str) -> list[str]:
    """The tokens with names and strings made all the same."""
    return [kind_of(token) for token in tokens(HOLE.sub("ID", text))]


def kind_of(token: str) -> str:
    """The token, or what stands for all names or all strings."""
    if token[0] in "\"'":
        return "STR"
    return "ID" if re.match(r"[A-Za-z_]", token) and token not in KNOWN else token


def edit_kinds(change: FileChange) -> frozenset[EditKind]:
    """What each hunk does."""
    return frozenset([_kind("\n".join(h.removed), "\n".join(h.added)) for h in hunks(change)])


def _kind(gone: str, new: str) -> EditKind:
    kind = EditKind(tuple(abstracted(gone)), tuple(abstracted(new)))
    # Where only names change, it is the names that are the edit.
    return kind if kind.gone != kind.new else EditKind(tuple(tokens(gone)), tuple(tokens(new)))


def edit_kinds_in(diff: str) -> frozenset[EditKind]:
    """What a stored difference does: runs of lines that begin with `-` or `+`."""
    return frozenset([_kind("\n".join(gone), "\n".join(new)) for gone, new in _runs(diff)])


def _runs(diff: str) -> Iterator[tuple[list[str], list[str]]]:
    removed: list[str] = []
    added: list[str] = []
    for line in diff.split("\n"):
        # A `-` behind a `+` begins the next run.
        if line[:1] == "-" and not added:
            removed.append(line[1:])
        elif line[:1] == "+":
            added.append(line[1:])
        else:
            if removed or added:
                yield removed, added
            removed, added = ([line[1:]], []) if line[:1] == "-" else ([], [])
    if removed or added:
        yield removed, added

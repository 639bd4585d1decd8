"""What an edit does, apart from where it does it: hunks, tokens, and the shape of the change.

Two edits have one shape if they take out and put in the same tokens once names are left
out of account. Knows nothing about errors or patterns.
"""

import builtins
import keyword
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import takewhile
from typing import Final, NamedTuple, TypeAlias

from taofold.learning.extraction.history import FileChange

TOKEN: Final = re.compile(
    r"""\"(?:[^"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|\w+(?:\.\d+)?|(?:\*\*|//|<<|>>|[<>=!*/+\-%|&^])=?"""
    r"""|:=|=>|&&|\|\||[^\w\s]"""
)
KNOWN: Final = frozenset([*keyword.kwlist, *dir(builtins)])
"""Words of the language: they are part of a shape, other names are not."""
HOLE: Final = re.compile(r"\{\{\s*(\w+)\s*\}\}")
RENAMED: Final = "rename"
"""Begins the shape of a change of one name: it says something of lines like its own only."""
SWAPPED: Final = "swap"
"""Begins the shape of a change that turns two pieces around; what stands between them follows."""
AROUND: Final = "around"
"""Stands for nothing that could be named between them."""
_LONGEST: Final = 2_000
"""Lines of a side beyond which no line by line comparison is made."""
IMPORT: Final = re.compile(
    r"\s*(?:from\s+\S+\s+import\b|import\b|(?:pub )?use\b|#include\b|extern crate\b"
    r"|(?:const|let|var)\s.*=\s*require\()"
)
SEPARATOR: Final = "@@"
"""Stands between distant places of a change."""
_MOST_PAIRS: Final = 400
"""Pairs of lines up to which a changed place is cut into smaller ones."""
_SAME_LINE: Final = 0.6
_CONTEXT: Final = 2
"""Lines above and below a change that readers are shown with it."""

Shape: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]
"""The tokens that an edit takes out and puts in, names abstracted."""


class EditKind(NamedTuple):
    """What a hunk does, and to which lines (their tokens, names left out)."""

    shape: Shape
    lines: tuple[str, ...]


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
    """The places where the texts differ, as small as lines tell; () as for `hunks`."""
    if change.unsure:
        return ()
    before, after = change.before.splitlines(), change.after.splitlines()
    return tuple([part for span in _spans(before, after) for part in _aligned(before, after, span)])


def _aligned(before: Sequence[str], after: Sequence[str], span: ChangedLines) -> list[ChangedLines]:
    """The span cut where a line was taken out, or put in, beside lines that only changed."""
    gone, new = span.end - span.start, span.new_end - span.new_start
    if gone == new or not gone or not new or gone * new > _MOST_PAIRS:
        return [span]
    parts: list[ChangedLines] = []
    a, b = span.start, span.new_start
    for line in range(span.start, span.end):
        near = [n for n in range(b, span.new_end) if _one_line(before[line], after[n])]
        if near:
            parts += [
                ChangedLines(a, line, b, near[0]),
                ChangedLines(line, line + 1, near[0], near[0] + 1),
            ]
            a, b = line + 1, near[0] + 1
    parts.append(ChangedLines(a, span.end, b, span.new_end))
    return [part for part in parts if part.start < part.end or part.new_start < part.new_end]


def _one_line(old: str, new: str) -> bool:
    """Is `new` what became of the line `old`?"""
    return SequenceMatcher(None, old.strip(), new.strip(), False).ratio() >= _SAME_LINE


def narrowed(change: FileChange, wanted: Collection[ChangedLines]) -> FileChange:
    """The change without its other places: there the text stays as it was."""
    before, after = change.before.splitlines(keepends=True), change.after.splitlines(keepends=True)
    parts: list[str] = []
    at = 0
    for span in sorted(wanted):
        parts += [*before[at : span.start], *after[span.new_start : span.new_end]]
        at = span.end
    return FileChange(change.path, change.before, "".join([*parts, *before[at:]]))


def _spans(before: Sequence[str], after: Sequence[str]) -> list[ChangedLines]:
    """The places where two texts differ; none where either is far too long."""
    # SequenceMatcher without `autojunk` grows with the product of both sides.
    if len(before) > _LONGEST or len(after) > _LONGEST:
        return []
    # Most edits are small and their files are not: what is the same around them is left out.
    head = 0
    while head < min(len(before), len(after)) and before[head] == after[head]:
        head += 1
    tail = 0
    rest = min(len(before), len(after)) - head
    while tail < rest and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    left, right = before[head : len(before) - tail], after[head : len(after) - tail]
    differing = [
        ChangedLines(head + a, head + b, head + c, head + d)
        for tag, a, b, c, d in opcodes(left, right)
        if tag != "equal"
    ]
    return [
        span
        for span in differing
        if any(
            map(str.strip, (*before[span.start : span.end], *after[span.new_start : span.new_end]))
        )
    ]


def hunks(change: FileChange) -> tuple[Hunk, ...]:
    """The lines that differ. None if the texts are the same, not known, or far too long."""
    if change.unsure:
        return ()
    before, after = change.before.splitlines(), change.after.splitlines()
    return tuple(
        [
            _dedented(before[span.start : span.end], after[span.new_start : span.new_end])
            for span in _spans(before, after)
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
    return min([_indent(line) for line in lines if line.strip()], default=0)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def excerpt(change: FileChange) -> str:
    """The change as a reader sees it: `-` and `+` lines between the lines that they stand among.

    The line that opens the block around a place comes first, where the text is known: it says
    what the names are, and so when the change is right. Distant places have `SEPARATOR` between.
    """
    if change.unsure:
        return ""
    before, after = change.before.splitlines(), change.after.splitlines()
    places: list[list[ChangedLines]] = []
    for span in _spans(before, after):
        between = before[places[-1][-1].end : span.start] if places else []
        if places and len(between) <= 2 * _CONTEXT and all(map(str.strip, between)):
            places[-1].append(span)
        else:
            places.append([span])
    return f"\n{SEPARATOR}\n".join([_place(before, after, near) for near in places])


def _place(before: Sequence[str], after: Sequence[str], near: Sequence[ChangedLines]) -> str:
    first = near[0].start
    # What stands around an import says nothing about it.
    room = 0 if all(map(IMPORT.match, _changed(before, after, near))) else _CONTEXT
    start = next((n for n in range(first, first - room, -1) if _edge(before, n)), first - room)
    opening = _opening(before, first) if room else -1
    marked = [(" ", before[opening])] if 0 <= opening < start else []
    if marked and any(line.strip() for line in before[opening + 1 : start]):
        inner = before[near[0].start] if near[0].start < len(before) else before[start]
        marked.append((" ", f"{' ' * _indent(inner)}…"))
    at = start
    for span in near:
        marked += [(" ", line) for line in before[at : span.start]]
        marked += [("-", line) for line in before[span.start : span.end]]
        marked += [("+", line) for line in after[span.new_start : span.new_end]]
        at = span.end
    marked += [(" ", line) for line in takewhile(str.strip, before[at : at + room])]
    margin = _margin([line for _, line in marked])
    return "\n".join([f"{sign}{line[margin:].rstrip()}" for sign, line in marked if line.strip()])


def _changed(
    before: Sequence[str], after: Sequence[str], near: Sequence[ChangedLines]
) -> list[str]:
    """The lines that go and come there, empty ones left out."""
    lines = [
        line
        for span in near
        for line in (*before[span.start : span.end], *after[span.new_start : span.new_end])
    ]
    return [line for line in lines if line.strip()]


def _edge(lines: Sequence[str], at: int) -> bool:
    """Does a paragraph of the text begin at the line `at`?"""
    return at <= 0 or not lines[at - 1].strip()


def _opening(lines: Sequence[str], at: int) -> int:
    """The nearest line above `at` that is less indented than what stands there; -1 for none."""
    inner = next((line for line in lines[at:] if line.strip()), "")
    for number in range(min(at, len(lines)) - 1, -1, -1):
        line = lines[number]
        # A closing bracket ends a block and names none.
        if line.strip() and _indent(line) < _indent(inner) and line.strip()[0] not in ")]}":
            return number
    return -1


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
    return [_kind(token) for token in tokens(HOLE.sub("ID", text))]


def _kind(token: str) -> str:
    if token[0] in "\"'":
        return "STR"
    return "ID" if re.match(r"[A-Za-z_]", token) and token not in KNOWN else token


@lru_cache(maxsize=4096)
def shape(old: str, new: str) -> Shape:
    """What turns `old` into `new`, whatever the names.

    Two pieces that change places are one shape whatever they are: it tells what stands between.
    """
    # Looked for first, among the names themselves:
    # once they are abstracted `f(a, b)` is `f(b, a)`.
    between = swap(tokens(HOLE.sub(r"\1", old)), tokens(HOLE.sub(r"\1", new)))
    if between is not None:
        signs = tuple([_kind(token) for token in between if not re.match(r"[\w.()\[\]\"']", token)])
        return (SWAPPED, *(signs or [AROUND])), ()
    left, right = abstracted(old), abstracted(new)
    if left == right:
        return _renamed(tokens(HOLE.sub(r"\1", old)), tokens(HOLE.sub(r"\1", new))), ()
    out: list[str] = []
    put: list[str] = []
    for tag, a, b, c, d in opcodes(left, right):
        if tag != "equal":
            out += left[a:b]
            put += right[c:d]
    return tuple(out), tuple(put)


def _renamed(old: Sequence[str], new: Sequence[str]) -> tuple[str, ...]:
    """The place of the one name, or text, that is another in `new`; () for none, or for more."""
    places = [n for n, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
    return (RENAMED, str(places[0])) if len(places) == 1 else ()


def opcodes(left: Sequence[str], right: Sequence[str]) -> Sequence[tuple[str, int, int, int, int]]:
    """How `left` becomes `right`."""
    return SequenceMatcher(None, left, right, autojunk=False).get_opcodes()


def deeds(change: FileChange) -> frozenset[EditKind]:
    """What each hunk does; one that exchanges several names for others says nothing."""
    return _deeds((h.removed, h.added) for h in hunks(change))


def _deeds(parts: Iterable[tuple[Sequence[str], Sequence[str]]]) -> frozenset[EditKind]:
    deeds = {
        EditKind(shape("\n".join(out), "\n".join(put)), tuple(abstracted("\n".join(out))))
        for out, put in parts
    }
    return frozenset({deed for deed in deeds if told(deed.shape)})


def told(one: Shape) -> bool:
    """Does the shape say more than that names or strings changed?"""
    return any(token not in ("ID", "STR") for token in (*one[0], *one[1]))


def deeds_in(diff: str) -> frozenset[EditKind]:
    """What a stored difference does: runs of lines that begin with `-` or `+`."""
    return _deeds(_runs(diff))


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


def swap(old: Sequence[str], new: Sequence[str]) -> tuple[str, ...] | None:
    """What stands between two pieces of `old` that are the other way round in `new`."""
    if len(old) != len(new) or sorted(old) != sorted(new) or old == new:
        return None
    places = [n for n, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
    first, last = places[0], places[-1] + 1
    # Every way to cut the differing part into three, the outer two changing
    # places. Cubic, but the part is short: both texts are the same outside of it.
    for again in range(first + 1, last):
        for cut in range(again, last):
            turned = [*old[cut:last], *old[again:cut], *old[first:again]]
            if turned == list(new[first:last]):
                return tuple(old[again:cut])
    return None

"""What an edit does, apart from where it does it: hunks, tokens, and the shape of the change.

Two edits have one shape if they take out and put in the same tokens once names are left
out of account. Knows nothing about errors or patterns.
"""

import builtins
import keyword
import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from hashlib import blake2b
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


class _Span(NamedTuple):
    """Lines `start` to `end` of the text before that became `new_start` to `new_end`."""

    start: int
    end: int
    new_start: int
    new_end: int


def _spans(before: Sequence[str], after: Sequence[str]) -> list[_Span]:
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
    spans = [
        _Span(head + a, head + b, head + c, head + d)
        for tag, a, b, c, d in opcodes(left, right)
        if tag != "equal"
    ]
    return [
        span
        for span in spans
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
    what the names are, and so when the change is right. Distant places have an empty line between.
    """
    if change.unsure:
        return ""
    before, after = change.before.splitlines(), change.after.splitlines()
    places: list[list[_Span]] = []
    for span in _spans(before, after):
        if places and span.start - places[-1][-1].end <= 2 * _CONTEXT:
            places[-1].append(span)
        else:
            places.append([span])
    return "\n\n".join([_place(before, after, spans) for spans in places])


def _place(before: Sequence[str], after: Sequence[str], spans: Sequence[_Span]) -> str:
    start = max(spans[0].start - _CONTEXT, 0)
    opening = _opening(before, spans[0].start)
    marked = [(" ", before[opening])] if 0 <= opening < start else []
    at = start
    for span in spans:
        marked += [(" ", line) for line in before[at : span.start]]
        marked += [("-", line) for line in before[span.start : span.end]]
        marked += [("+", line) for line in after[span.new_start : span.new_end]]
        at = span.end
    marked += [(" ", line) for line in before[at : at + _CONTEXT]]
    margin = _margin([line for _, line in marked])
    return "\n".join([f"{sign}{line[margin:].rstrip()}" for sign, line in marked if line.strip()])


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


@lru_cache(maxsize=4096)
def change_key(diff: str) -> str:
    """A name for a stored difference, whatever the names in it; "" if it changes nothing."""
    lines = [
        f"{line[:1]} {' '.join(abstracted(line[1:]))}"
        for line in diff.split("\n")
        if line[:1] in ("-", "+")
    ]
    return blake2b("\n".join(lines).encode(), digest_size=8).hexdigest() if lines else ""


@lru_cache(maxsize=4096)
def line_term(line: str) -> str:
    """A word that stands for all lines like this one, names left out; "" for a bare one."""
    kinds = abstracted(line)
    if len(kinds) < 2:
        return ""
    return "=" + blake2b(" ".join(kinds).encode(), digest_size=6).hexdigest()


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


def apart(old: str, new: str) -> list[tuple[list[str], list[str], str]]:
    """The places where two texts differ: tokens out, tokens in, and the token before."""
    left, right = tokens(old), tokens(new)
    return [
        (left[a:b], right[c:d], left[a - 1] if a else "")
        for tag, a, b, c, d in opcodes(left, right)
        if tag != "equal"
    ]


def moved(hunk: Hunk) -> bool:
    """Do only indentation and place of the lines differ?"""
    left = sorted(line.strip() for line in hunk.removed if line.strip())
    return left == sorted(line.strip() for line in hunk.added if line.strip())


def swapped(old: Sequence[str], new: Sequence[str]) -> bool:
    """Are two pieces of `old` the other way round in `new`, and else nothing different?"""
    return swap(old, new) is not None


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

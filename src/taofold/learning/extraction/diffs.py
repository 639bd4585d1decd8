"""The effect of an edit independent of its place: hunks, tokens, and comparison of edits.

Edits of a loop are computed from the texts before and after (`hunks`, `joined`), those of a lesson
from its stored difference (`sides`, `edits_in`). Two are compared as bags of tokens (`delta`,
`dice`), optionally with equal names and strings (`abstracted`); `excerpt` is a readable form. Knows
nothing about errors or patterns.
"""

import builtins
import keyword
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from difflib import SequenceMatcher
from typing import Final, NamedTuple

from msgspec.structs import replace

from taofold.learning.extraction.history import FileChange, RepairAttempt

TOKEN: Final = re.compile(
    r"""\"(?:[^"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|\w+(?:\.\d+)?|(?:\*\*|//|<<|>>|[<>=!*/+\-%|&^])=?"""
    r"""|:=|=>|&&|\|\||[^\w\s]"""
)
KNOWN: Final = frozenset([*keyword.kwlist, *dir(builtins)])
"""Words of the language: they are part of a shape, other names are not."""
HOLE: Final = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_LONGEST: Final = 2_000
"""The most lines of a side that are compared line by line."""
_NAME: Final = re.compile(r"[^\W\d]")
BOUND: Final = re.compile(
    r"(?m)(?:^[ \t]*(?:(?:const|let|var|mut)\s+)*|\bfor\s+|\bas\s+)([^\W\d]\w*)"
    r"(?=\s*(?::(?!:)|=(?!=)|in\b|$))"
)
"""Names that code assigns to its own values."""
IMPORT: Final = re.compile(
    r"\s*(?:from\s+\S+\s+import\b|import\b|(?:pub )?use\b|#include\b|extern crate\b"
    r"|(?:const|let|var)\s.*=\s*require\()"
)
_RUN: Final = re.compile(r"(?m)^((?:-.*\n)*)((?:\+.*\n)*)")
SEPARATOR: Final = "@@"
"""The separator between distant places of a change."""
_CONTEXT: Final = 2
"""Context lines above and below a change in an excerpt."""
MOST_SHOWN: Final = 24
"""The most lines of a change in an excerpt."""


class Hunk(NamedTuple):
    """Neighbouring lines of one change, without their common indentation."""

    removed: tuple[str, ...]
    added: tuple[str, ...]


class ChangedLines(NamedTuple):
    """Lines `start` to `end` of the old text that became `new_start` to `new_end`."""

    start: int
    end: int
    new_start: int
    new_end: int


def spans(change: FileChange) -> tuple[ChangedLines, ...]:
    """Returns the places where the texts differ; none if they are equal, unknown, or too long."""
    before, after = change.before.splitlines(), change.after.splitlines()
    if change.unsure or len(before) > _LONGEST or len(after) > _LONGEST:
        return ()
    differing: list[ChangedLines] = []
    for tag, *places in _matcher(before, after).get_opcodes():
        span = ChangedLines(*places)
        lines = [*before[span.start : span.end], *after[span.new_start : span.new_end]]
        if tag != "equal" and any(map(str.strip, lines)):
            differing.append(span)
    return tuple(differing)


def _matcher(before: Sequence[str], after: Sequence[str]) -> SequenceMatcher[str]:
    # With `autojunk` a line that is frequent in a long file would never be matched.
    return SequenceMatcher(None, before, after, autojunk=False)


def narrowed(change: FileChange, wanted: Collection[ChangedLines]) -> FileChange:
    """Returns the change limited to the `wanted` places; elsewhere the text stays."""
    before, after = change.before.splitlines(keepends=True), change.after.splitlines(keepends=True)
    parts: list[str] = []
    at = 0
    for span in sorted(wanted):
        parts += [*before[at : span.start], *after[span.new_start : span.new_end]]
        at = span.end
    return FileChange(change.path, change.before, "".join([*parts, *before[at:]]))


def transplanted(change: FileChange, text: str) -> str | None:
    """Returns `text`, a variant of the file before the change, with the change applied.

    None if the change touches lines in which the texts differ.
    """
    old, target = change.before.splitlines(keepends=True), text.splitlines(keepends=True)
    new = change.after.splitlines(keepends=True)
    blocks = _matcher(old, target).get_matching_blocks()
    parts: list[str] = []
    at = 0
    for span in spans(change):
        block = next(
            (b for b in blocks if b.a <= span.start and span.end <= b.a + b.size and b.size), None
        )
        if block is None:
            return None
        start, end = (block.b + place - block.a for place in (span.start, span.end))
        parts += [*target[at:start], *new[span.new_start : span.new_end]]
        at = end
    return "".join([*parts, *target[at:]])


def hunks(change: FileChange) -> tuple[Hunk, ...]:
    """Returns the differing lines; () as for `spans`."""
    before, after = change.before.splitlines(), change.after.splitlines()
    dedented: list[Hunk] = []
    for span in spans(change):
        removed, added = before[span.start : span.end], after[span.new_start : span.new_end]
        # One margin for both sides, so that a change of indentation is kept.
        margin = _margin([*removed, *added])
        both = [tuple([line[margin:].rstrip() for line in side]) for side in (removed, added)]
        dedented.append(Hunk(*both))
    return tuple(dedented)


def lines_of(changes: Iterable[FileChange]) -> tuple[list[str], list[str]]:
    """Returns all lines that the changes remove, and all that they insert."""
    places = [hunk for change in changes for hunk in hunks(change)]
    removed = [line for hunk in places for line in hunk.removed]
    return removed, [line for hunk in places for line in hunk.added]


def _margin(lines: Iterable[str]) -> int:
    return min([indent(line) for line in lines if line.strip()], default=0)


def indent(line: str) -> int:
    """Returns the number of leading blanks."""
    return len(line) - len(line.lstrip())


def excerpt(change: FileChange) -> str:
    """Returns the change in a readable form: `-` and `+` lines, and the adjacent lines.

    Distant places are separated by `SEPARATOR`.
    """
    if not spans(change):
        return ""
    before, after = change.before.splitlines(), change.after.splitlines()
    texts: list[str] = []
    for place in _matcher(before, after).get_grouped_opcodes(_CONTEXT):
        lines: list[tuple[str, str]] = []
        for tag, start, end, new_start, new_end in place:
            lines += [(" " if tag == "equal" else "-", line) for line in before[start:end]]
            if tag != "equal":
                lines += [("+", line) for line in after[new_start:new_end]]
        margin = _margin([line for _, line in lines])
        texts.append(
            "\n".join([f"{sign}{line[margin:].rstrip()}" for sign, line in lines if line.strip()])
        )
    return f"\n{SEPARATOR}\n".join(texts)


def tokens(text: str) -> list[str]:
    """Returns the text as words and signs, without Python comments."""
    return [token for line in text.split("\n") for token in TOKEN.findall(_code(line))]


def _code(line: str) -> str:
    hash_index = line.find("#")
    # A `#` after a quote or a brace may be inside a string: keeping a comment is better than losing
    # code.
    return line if hash_index < 0 or re.search(r"[\"'{]", line[:hash_index]) else line[:hash_index]


def abstracted(text: str) -> list[str]:
    """Returns the tokens with all names and all strings replaced by placeholders."""
    return [kind_of(token) for token in tokens(HOLE.sub("ID", text))]


def kind_of(token: str) -> str:
    """Returns the token, or the placeholder for names or strings."""
    if token[0] in "\"'":
        return "STR"
    return "ID" if re.match(r"[A-Za-z_]", token) and token not in KNOWN else token


def delta(gone: Iterable[str], new: Iterable[str]) -> list[str]:
    """Returns the tokens that lines remove and insert, each with its sign; all tokens if none
    differ.

    Names are abstracted, because the same change has other names elsewhere, unless only names
    change.
    """
    texts = "\n".join(gone), "\n".join(new)
    out, put = map(Counter, map(abstracted, texts))
    if out == put or not {*out, *put} - {"ID", "STR"}:
        out, put = map(Counter, map(tokens, texts))
    shared = out & put if out != put else Counter[str]()
    return [f"-{token}" for token in (out - shared).elements()] + [
        f"+{token}" for token in (put - shared).elements()
    ]


def dice(one: Sequence[str], other: Sequence[str]) -> float:
    """Returns Dice's coefficient of two bags that are not both empty."""
    left, right = Counter(one), Counter(other)
    return 2 * (left & right).total() / (left.total() + right.total())


class LineEdit(NamedTuple):
    """Neighbouring lines before and after an edit; `around` are unchanged lines."""

    gone: str
    new: str
    around: str = ""

    @property
    def changed(self) -> tuple[frozenset[str], frozenset[str]]:
        """The tokens that it removes and inserts."""
        gone, new = Counter(_plain_tokens(self.gone)), Counter(_plain_tokens(self.new))
        # A repeated word is not new if other words are.
        out, put = frozenset(gone) - frozenset(new), frozenset(new) - frozenset(gone)
        if any(map(_NAME.match, (*out, *put))):
            return out, put
        return frozenset(gone - new), frozenset(new - gone)

    @property
    def _shape(self) -> tuple[list[str], list[str]]:
        """Its lines with abstracted names; if only names change, the names are the edit."""
        gone, new = abstracted(self.gone), abstracted(self.new)
        return (gone, new) if gone != new else (tokens(self.gone), tokens(self.new))

    def follows(self, proposal: "LineEdit") -> bool:
        """Returns whether it inserts and removes the same as `proposal`, on any line.

        Names of the other project, and values, are ignored. An exchange of signs alone may be a
        coincidence: then the whole lines must be alike.
        """
        out, put = proposal.changed
        local = {*_plain_tokens(proposal.gone), *_plain_tokens(proposal.around), "ID"}
        words = {t for t in put if _NAME.match(t) and (t in KNOWN or t not in local)}
        lost = {token for token in out if token in KNOWN}
        own_out, own_put = self.changed
        if words or lost:
            return words <= own_put and lost <= own_out
        return self._shape == proposal._shape


def _plain_tokens(text: str) -> list[str]:
    return tokens(HOLE.sub("ID", text))


def edits_of(change: FileChange) -> tuple[LineEdit, ...]:
    """Returns the edits of a change, by place, and by line if the number of lines is unchanged."""
    edits: list[LineEdit] = []
    for gone, new in hunks(change):
        edits.append(LineEdit("\n".join(gone), "\n".join(new)))
        if len(gone) == len(new) > 1:
            edits += map(LineEdit, gone, new)
    return tuple(edits)


Line = tuple[str, str]
"""A file's path and a line of it, without its indentation."""


def added_lines(changes: Iterable[FileChange]) -> list[Line]:
    """Returns the lines of code that the changes insert."""
    return code_lines([line for change in changes for line in changed_lines(change)[1]])


def code_lines(lines: Iterable[Line]) -> list[Line]:
    """Returns those of `lines` with content: comments and brackets appear and vanish everywhere."""
    return [
        line
        for line in lines
        if any(token[0].isalnum() or token[0] == "_" for token in tokens(line[1]))
    ]


def changed_lines(change: FileChange) -> tuple[list[Line], list[Line]]:
    """Returns the lines that a change removes, and those that it inserts."""
    removed, added = lines_of([change])
    gone = [(change.path, line.strip()) for line in removed]
    return gone, [(change.path, line.strip()) for line in added]


def lost_lines(attempts: Iterable[RepairAttempt]) -> set[Line]:
    """Returns the lines that were present at some time, and are not at the end."""
    lost: set[Line] = set()
    for attempt in attempts:
        for change in attempt.changes:
            gone, new = map(set, changed_lines(change))
            lost = (lost | gone) - new if attempt.kept else (lost | new) - gone
    return lost


def joined(earlier: Sequence[FileChange], edits: Sequence[FileChange]) -> tuple[FileChange, ...]:
    """Returns the `edits`, each joined with the `earlier` ones of its file to one change."""
    whole: dict[str, FileChange] = {}
    for change in edits:
        last = whole.get(change.path)
        if last is not None and last.after == change.before and not change.unsure:
            change = replace(change, before=last.before)
        elif last is not None:
            # Parts of a file whose text is unknown stay separate.
            change = FileChange(
                change.path,
                f"{last.before}\n{change.before}",
                f"{last.after}\n{change.after}",
                last.unsure or change.unsure,
                part=True,
            )
        whole[change.path] = change
    for change in reversed(earlier):
        later = whole.get(change.path)
        if later is not None and change.before == later.after and not change.part:
            del whole[change.path]  # It only reverted an earlier edit.
        elif later is not None and change.after == later.before and change.before:
            whole[change.path] = replace(later, before=change.before, part=change.part)
    return tuple(whole.values())


def edits_in(diff: str) -> tuple[LineEdit, ...]:
    """Returns the edits of a stored difference: runs of `-` lines, each with the `+` lines after
    it.

    An import is not an edit beside others: another project may already have it.
    """
    around = "\n".join([line[1:] for line in diff.split("\n") if line[:1] == " "])
    runs = [tuple(map(_unsigned, run)) for run in _RUN.findall(f"{diff}\n") if any(run)]
    edits = [LineEdit(gone, new, around) for gone, new in runs]
    return tuple([edit for edit in edits if not _imports_only(edit)] or edits)


def _unsigned(side: str) -> str:
    return re.sub(r"(?m)^[-+]", "", side.removesuffix("\n"))


def new_words(diff: str) -> set[str]:
    """Returns the new names and texts of a stored difference that it neither binds nor had before.

    Example: for `-total += row` and `+total += Decimal(str(row))` these are `Decimal` and `str`.
    """
    edits = edits_in(diff)
    had = {token for edit in edits for token in _plain_tokens(f"{edit.gone}\n{edit.around}")}
    bound = {name for edit in edits for name in BOUND.findall(edit.new)}
    put = {token for edit in edits for token in _plain_tokens(edit.new)}
    return {token for token in put - had - bound if _NAME.match(token) or token[0] in "\"'"}


def sides(diff: str) -> tuple[list[str], list[str]]:
    """Returns the lines that a stored difference removes, and those that it inserts."""
    lines = diff.split("\n")
    gone = [line[1:] for line in lines if line[:1] == "-"]
    return gone, [line[1:] for line in lines if line[:1] == "+"]


def _imports_only(edit: LineEdit) -> bool:
    """Returns whether every line that is not empty imports something."""
    lines = f"{edit.gone}\n{edit.new}".split("\n")
    return all(IMPORT.match(line) for line in lines if line.strip())

"""What an edit does, apart from where it does it: hunks, tokens, and whether it follows another.

Edits of a loop are read from the texts before and after (`hunks`, `joined`), those of a lesson from
its stored difference (`sides`, `edits_in`). Two are compared as bags of tokens (`delta`, `dice`),
with names and strings made the same if need be (`abstracted`); `excerpt` is one for readers. Knows
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
"""Lines of a side beyond which no line by line comparison is made."""
_NAME: Final = re.compile(r"[^\W\d]")
BOUND: Final = re.compile(
    r"(?m)(?:^[ \t]*(?:(?:const|let|var|mut)\s+)*|\bfor\s+|\bas\s+)([^\W\d]\w*)"
    r"(?=\s*(?::(?!:)|=(?!=)|in\b|$))"
)
"""Names that code gives to values of its own."""
IMPORT: Final = re.compile(
    r"\s*(?:from\s+\S+\s+import\b|import\b|(?:pub )?use\b|#include\b|extern crate\b"
    r"|(?:const|let|var)\s.*=\s*require\()"
)
_RUN: Final = re.compile(r"(?m)^((?:-.*\n)*)((?:\+.*\n)*)")
SEPARATOR: Final = "@@"
"""Stands between distant places of a change."""
_CONTEXT: Final = 2
"""Lines above and below a change that readers are shown with it."""
MOST_SHOWN: Final = 24
"""Lines of a change that readers are shown."""


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
    differing: list[ChangedLines] = []
    for tag, *places in _matcher(before, after).get_opcodes():
        span = ChangedLines(*places)
        lines = [*before[span.start : span.end], *after[span.new_start : span.new_end]]
        if tag != "equal" and any(map(str.strip, lines)):
            differing.append(span)
    return tuple(differing)


def _matcher(before: Sequence[str], after: Sequence[str]) -> SequenceMatcher[str]:
    # With `autojunk` a line that stands often in a long file would be matched with none.
    return SequenceMatcher(None, before, after, autojunk=False)


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
    dedented: list[Hunk] = []
    for span in spans(change):
        removed, added = before[span.start : span.end], after[span.new_start : span.new_end]
        # One margin for both sides, so that a change of indentation is still one.
        margin = _margin([*removed, *added])
        both = [tuple([line[margin:].rstrip() for line in side]) for side in (removed, added)]
        dedented.append(Hunk(*both))
    return tuple(dedented)


def lines_of(changes: Iterable[FileChange]) -> tuple[list[str], list[str]]:
    """All the lines that the changes take out, and all that they put in."""
    places = [hunk for change in changes for hunk in hunks(change)]
    removed = [line for hunk in places for line in hunk.removed]
    return removed, [line for hunk in places for line in hunk.added]


def _margin(lines: Iterable[str]) -> int:
    return min([indent(line) for line in lines if line.strip()], default=0)


def indent(line: str) -> int:
    """How many blanks it begins with."""
    return len(line) - len(line.lstrip())


def excerpt(change: FileChange) -> str:
    """The change as a reader sees it: `-` and `+` lines, and the lines right beside them.

    Distant places have `SEPARATOR` between.
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


def delta(gone: Iterable[str], new: Iterable[str]) -> list[str]:
    """The tokens that lines take out and put in, each with its sign; all, if these are none.

    Names are all the same, as the same change has others elsewhere, unless these are the change.
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
    """Dice's coefficient of two bags that are not both empty."""
    left, right = Counter(one), Counter(other)
    return 2 * (left & right).total() / (left.total() + right.total())


class LineEdit(NamedTuple):
    """Neighbouring lines before and after an edit; `around` are lines that it left as they are."""

    gone: str
    new: str
    around: str = ""

    @property
    def changed(self) -> tuple[frozenset[str], frozenset[str]]:
        """The tokens that it takes out and puts in."""
        gone, new = Counter(_plain_tokens(self.gone)), Counter(_plain_tokens(self.new))
        # A word once more is none that is new, if others are.
        out, put = frozenset(gone) - frozenset(new), frozenset(new) - frozenset(gone)
        if any(map(_NAME.match, (*out, *put))):
            return out, put
        return frozenset(gone - new), frozenset(new - gone)

    @property
    def _shape(self) -> tuple[list[str], list[str]]:
        """Its lines, whatever the names; where only names change, the names are the edit."""
        gone, new = abstracted(self.gone), abstracted(self.new)
        return (gone, new) if gone != new else (tokens(self.gone), tokens(self.new))

    def follows(self, proposal: "LineEdit") -> bool:
        """Does it put in and take out what `proposal` does, on whatever line?

        Names of the other project, and values, are left out of account. An exchange of signs
        alone is met by chance: there the whole line must be alike.
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
    """What a change does, place by place, and line by line where as many came as went."""
    edits: list[LineEdit] = []
    for gone, new in hunks(change):
        edits.append(LineEdit("\n".join(gone), "\n".join(new)))
        if len(gone) == len(new) > 1:
            edits += map(LineEdit, gone, new)
    return tuple(edits)


Line = tuple[str, str]
"""A file's path and a line of it, without its indentation."""


def added_lines(changes: Iterable[FileChange]) -> list[Line]:
    """The lines of code that the changes put in."""
    return code_lines([line for change in changes for line in changed_lines(change)[1]])


def code_lines(lines: Iterable[Line]) -> list[Line]:
    """Those of `lines` that say something: a comment or a bracket comes and goes everywhere."""
    return [
        line
        for line in lines
        if any(token[0].isalnum() or token[0] == "_" for token in tokens(line[1]))
    ]


def changed_lines(change: FileChange) -> tuple[list[Line], list[Line]]:
    """The lines that a change takes out, and those that it puts in."""
    removed, added = lines_of([change])
    gone = [(change.path, line.strip()) for line in removed]
    return gone, [(change.path, line.strip()) for line in added]


def lost_lines(attempts: Iterable[RepairAttempt]) -> set[Line]:
    """The lines that were there at some time, and are not at the end."""
    lost: set[Line] = set()
    for attempt in attempts:
        for change in attempt.changes:
            gone, new = map(set, changed_lines(change))
            lost = (lost | gone) - new if attempt.kept else (lost | new) - gone
    return lost


def joined(earlier: Sequence[FileChange], edits: Sequence[FileChange]) -> tuple[FileChange, ...]:
    """The `edits`, each with those of its file that led to it, as one change of the file."""
    whole: dict[str, FileChange] = {}
    for change in edits:
        last = whole.get(change.path)
        if last is not None and last.after == change.before and not change.unsure:
            change = replace(change, before=last.before)
        elif last is not None:
            # Parts of a file whose text is not known stay apart.
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
            del whole[change.path]  # It only took back what had been tried.
        elif later is not None and change.after == later.before and change.before:
            whole[change.path] = replace(later, before=change.before, part=change.part)
    return tuple(whole.values())


def edits_in(diff: str) -> tuple[LineEdit, ...]:
    """What a stored difference does: runs of lines that begin with `-`, or with `+` after these.

    An import is no edit beside others: who follows them may have it already.
    """
    around = "\n".join([line[1:] for line in diff.split("\n") if line[:1] == " "])
    runs = [tuple(map(_unsigned, run)) for run in _RUN.findall(f"{diff}\n") if any(run)]
    edits = [LineEdit(gone, new, around) for gone, new in runs]
    return tuple([edit for edit in edits if not _imports_only(edit)] or edits)


def _unsigned(side: str) -> str:
    return re.sub(r"(?m)^[-+]", "", side.removesuffix("\n"))


def new_words(diff: str) -> set[str]:
    """The names and texts that a stored difference puts in, and that it neither binds nor had.

    Example: of `-total += row` and `+total += Decimal(str(row))` these are `Decimal` and `str`.
    """
    edits = edits_in(diff)
    had = {token for edit in edits for token in _plain_tokens(f"{edit.gone}\n{edit.around}")}
    bound = {name for edit in edits for name in BOUND.findall(edit.new)}
    put = {token for edit in edits for token in _plain_tokens(edit.new)}
    return {token for token in put - had - bound if _NAME.match(token) or token[0] in "\"'"}


def sides(diff: str) -> tuple[list[str], list[str]]:
    """The lines that a stored difference takes out, and those that it puts in."""
    lines = diff.split("\n")
    gone = [line[1:] for line in lines if line[:1] == "-"]
    return gone, [line[1:] for line in lines if line[:1] == "+"]


def _imports_only(edit: LineEdit) -> bool:
    """Does every line that is not empty import something?"""
    lines = f"{edit.gone}\n{edit.new}".split("\n")
    return all(IMPORT.match(line) for line in lines if line.strip())

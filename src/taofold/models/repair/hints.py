"""What earlier loops learnt, as the prompt tells it: reference data that reorders the search.

Reads a section "Cross-Loop Learning Context" and anything with a `fix_category`. It is
data: nothing in it is run, and no regular expression from it is used. It can change the
order of candidates, not the set.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from taofold.models.repair.clue import Clue
from taofold.models.repair.source import Change, Source
from taofold.models.repair.templates import NAMES
from taofold.learning.extraction.diffs import RENAMED, Shape, abstracted, shape

BOOST: Final = 8.0
WHOLE: Final = 20.0
"""What an edit gains if its line is, names apart, the one that was changed then."""
_START: Final = re.compile(r"(?im)cross-loop learning context|\bfix_category\b")
_ENTRY: Final = re.compile(r"(?m)^(?=\s{0,4}(?:\d+[.)] |- (?:pattern_)?id:|pattern_id:|#{2,5} ))")
_ID: Final = re.compile(r"\b(?:pat|tmpl)[-_][\w-]+")
_CATEGORY: Final = re.compile(r"(?i)\bcategory\W{0,6}([a-z][a-z_\- ]+[a-z])")
_CLASS: Final = re.compile(r"\b[A-Z]\w*(?:Error|Exception)\b")
_REMOVED: Final = re.compile(r"(?m)^\s*-(?![-\s*]|\s*$) ?(.*\S)\s*$|^\s*- {1,12}(.*\S)\s*$")
_ADDED: Final = re.compile(r"(?m)^\s*\+(?!\+) ?(.*\S)\s*$")
_EXPECTED: Final = re.compile(r"(?m)^ {0,4}- Expected to help here: (\d{1,3}) ?%")
_FENCE: Final = re.compile(r"```[^\n]*\n(.*?)```", re.DOTALL)
_KEYWORDS: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), template)
    for pattern, template in (
        (r"null|none[ _-](?:check|guard)|is none|nonetype", "add_null_check"),
        (r"off[ _-]by[ _-]one|boundary|slice|range|pagination|index bound", "off_by_one"),
        (r"comparison|compare|threshold|inclusive|relational", "swap_comparison"),
        (r"arithmetic|operator", "swap_arithmetic"),
        (r"boolean|logic|negat|condition", "fix_boolean"),
        (r"base case|recursion", "add_base_case"),
        (r"mutable default|shared default", "mutable_default"),
        (r"missing return|return value|add return", "missing_return"),
        (r"import", "missing_import"),
        (r"wrong variable|variable name", "wrong_variable"),
        (r"argument order|swap\w* argument|swapped", "swap_arguments"),
        (r"division by zero|empty (?:list|sequence)|guard", "add_guard"),
        (r"attribute|method name|rename", "rename_attribute"),
        (r"\bkey\b|keyerror", "rename_key"),
        (r"round", "fix_rounding"),
        (r"f-string|format|whitespace|strip", "fix_string"),
        (r"convert|cast|type conversion", "convert_type"),
        (r"default|constant", "wrong_constant"),
        (r"keyword argument|call signature", "fix_call"),
        (r"indent|early return", "move_statement"),
        (r"min|max|sort|any|all", "swap_function"),
    )
)


@dataclass(frozen=True, slots=True)
class Hint:
    """One learnt pattern as far as it could be read. `anti` = it was seen to fail."""

    id: str
    template: str
    error: str
    words: frozenset[str]
    shapes: frozenset[Shape]
    anti: bool
    lines: frozenset[tuple[str, ...]] = frozenset()
    """The lines that were changed then, names abstracted."""
    chance: float | None = None
    """How likely it is said to help here, 0 to 1; None: nothing is said."""

    @property
    def key(self) -> str:
        """What it is cited by."""
        return self.id or self.template


def read_hints(said: str) -> tuple[Hint, ...]:
    """The patterns in what the prompt says."""
    start = _START.search(said)
    if start is None:
        return ()
    hints: list[Hint] = []
    anti = False
    for entry in _ENTRY.split(said[start.start() :]):
        head = entry.lstrip().partition("\n")[0]
        if head.startswith("#"):
            anti = "anti" in head.lower()
        hint = _hint(entry, anti)
        if hint is not None:
            hints.append(hint)
    return tuple(hints)


def _hint(entry: str, anti: bool) -> Hint | None:
    template = _template(entry)
    shapes = _shapes(entry)
    if not template and not shapes:
        return None
    error = _CLASS.search(entry)
    identity = _ID.search(entry)
    said = _EXPECTED.search(entry)
    return Hint(
        identity[0] if identity else "",
        template,
        error[0] if error else "",
        frozenset(re.findall(r"[a-z]{4,}", entry.lower())),
        shapes,
        anti,
        _lines(entry),
        int(said[1]) / 100 if said else None,
    )


def _template(entry: str) -> str:
    named = _CATEGORY.search(entry)
    if named:
        name = re.sub(r"[ -]", "_", named[1].strip().lower())
        if name in NAMES:
            return name
        for pattern, template in _KEYWORDS:
            if pattern.search(named[1]):
                return template
    for name in sorted(NAMES):
        if name in entry:
            return name
    fix = re.search(r"(?im)^\W*(?:fix|description)\W+(.*)$", entry)
    for pattern, template in _KEYWORDS if fix else ():
        if fix and pattern.search(fix[1]):
            return template
    return ""


def _shapes(entry: str) -> frozenset[Shape]:
    found: set[Shape] = set()
    for block in _FENCE.findall(entry):
        removed = [a or b for a, b in _REMOVED.findall(block)]
        added = _ADDED.findall(block)
        if removed and added:
            found.add(shape("\n".join(removed), "\n".join(added)))
        elif added:
            found.add(shape("", "\n".join(added)))
    for old, new in re.findall(r"`([^`\n]+)`\s*(?:→|->|=>|became|with)\s*`([^`\n]+)`", entry):
        found.add(shape(old, new))
    found.discard(((), ()))
    return frozenset(found)


def _lines(entry: str) -> frozenset[tuple[str, ...]]:
    """The lines that the changes in `entry` took out."""
    return frozenset(
        [
            tuple(abstracted(a or b))
            for block in _FENCE.findall(entry)
            for a, b in _REMOVED.findall(block)
        ]
    )


class Boost(NamedTuple):
    """What patterns make of a change: a factor, and the id of the pattern that speaks for it.

    Above 1: a pattern is for it. Below 1: a pattern warns of it. 1: none says anything.
    """

    gain: float = 1.0
    by: str = ""


def boost(hints: Sequence[Hint], clue: Clue, source: Source, change: Change) -> Boost:
    """What `hints` make of a change."""
    best, warned = Boost(), 1.0
    here = _shape_of(source, change) if hints else ((), ())
    for hint in hints:
        near, same = _nearness(hint, clue), hint.template == change.template
        if hint.anti:
            warned = min(warned, 1 - 0.4 * near if same else 1.0)
            continue
        if hint.shapes:  # What it says exactly is worth trying; its name alone is not.
            gain = BOOST * near * (2.0 if same else 1.0) * _suits(hint, here, source, change)
        else:
            gain = 1 + near if same else 1.0
        if gain > best.gain:
            best = Boost(gain, hint.key)
    return best if best.by else Boost(warned)


def _suits(hint: Hint, here: Shape, source: Source, change: Change) -> float:
    """How far `change` is the one that the pattern shows: 0, or 1, or more if its line is too."""
    if here not in hint.shapes:
        return 0.0
    if hint.lines and _line_of(source, change) in hint.lines:
        return WHOLE
    return 0.0 if here[0][:1] == (RENAMED,) else 1.0


def _nearness(hint: Hint, clue: Clue) -> float:
    """How much the failure looks like the one that the pattern answers, 0.1 to 1."""
    failure = clue.failure
    said = set(re.findall(r"[a-z]{4,}", f"{failure.error_type} {failure.message}".lower()))
    shared = len(said & hint.words) / len(said) if said else 0.0
    if hint.error:
        return 0.6 + 0.4 * shared if hint.error == failure.error_type else 0.1
    return 0.4 + 0.4 * shared


def _line_of(source: Source, change: Change) -> tuple[str, ...]:
    """The line that `change` begins in, names abstracted."""
    first = source.line_of(change.start)
    return tuple(abstracted(source.text[source.line_start(first) : source.line_start(first + 1)]))


def _shape_of(source: Source, change: Change) -> Shape:
    first, last = source.line_of(change.start), source.line_of(change.end)
    start, end = source.line_start(first), source.line_start(last + 1)
    old = source.text[start:end]
    new = old[: change.start - start] + change.text + old[change.end - start :]
    return shape(old, new)

"""Reads the labelled text forms: TAO (`THOUGHT [Type]: … ACTION: tool …`) and ReAct.

One pass over the lines. Knows nothing about types or which tools exist.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from taofold.parsing.conversion import Text
from taofold.parsing.outline import dedent, scalar

_LEAD = r"[ \t#*_]{0,8}(?:(?:-|\d{1,2}[.)])[ \t]{1,3}[*_]{0,2})?"
_LABEL = re.compile(
    _LEAD + r"(thought|action[ _]input|action|observation|final[ _]answer|rationale|justification)"
    r"(?:[ \t]\d{1,2})?[ \t]{0,3}(?:[\[(]([^\])\n]{0,40})[\])])?[ \t*_]{0,4}"
    r"([:：]|$|(?<=\])(?=[ \t]))[ \t*_]{0,4}",
    re.IGNORECASE,
)
_ACTION = re.compile(
    rf"^{_LEAD}(?:thought:[ \t]*)?(?:action|final[ _]answer)(?:[ \t]\d{{1,2}})?[ \t*_]{{0,4}}[:：]",
    re.IGNORECASE | re.MULTILINE,
)
_MARKED = re.compile(
    rf"^{_LEAD}(?:thought|action|final[ _]answer)(?:[ \t]\d{{1,2}})?[ \t]{{0,3}}"
    r"(?:[\[(][^\])\n]{0,40}[\])])?[ \t*_]{0,4}[:：]",
    re.IGNORECASE | re.MULTILINE,
)
_OPENED = re.compile(r"[:：=][ \t]*(`{3,})\w*[ \t]*$")
_FENCE = re.compile(r"[ \t]{0,3}(`{3,}|~{3,})")
_LINE = re.compile(r"(?:[-*][ \t]+)?([A-Za-z_][\w.-]{0,63})[ \t]*[:：=][ \t]*(.*)")
_END = "OBSERVATION"
_BEGINNING = 3
_CYCLE = ("thought", "action", "final_answer")


@dataclass(slots=True)
class Section:
    """One labelled part: `label` is lower-case with `_`, `text` runs to the next label."""

    label: str
    tag: str
    text: str
    at: int


@dataclass(slots=True)
class Labelled:
    """The parts up to the first observation or the start of a second cycle.

    `cut` is everything from there on, `ended` whether an end line was seen.
    """

    sections: list[Section] = field(default_factory=list[Section])
    cut: str = ""
    ended: bool = False

    def text(self, *labels: str) -> str | None:
        """The text of the first part with one of the labels."""
        return next((each.text for each in self.sections if each.label in labels), None)


def has_action(text: str) -> bool:
    """Whether a line is labelled as an action or a final answer."""
    return _ACTION.search(text) is not None


def has_lead(text: str) -> bool:
    """Whether prose stands before the first labelled line."""
    found = _MARKED.search(text)
    return found is not None and bool(text[: found.start()].strip().strip("`"))


def is_labelled(text: str) -> bool:
    """Whether a line is labelled as a thought, an action or a final answer."""
    return _MARKED.search(text) is not None


def sections_of(text: str) -> Labelled:
    """Splits labelled text; a label inside a fence is none, unless the fence holds them all."""
    stripped = text.strip()
    fence = _FENCE.match(stripped)
    if fence:  # the whole reply in one fence
        first, _, rest = stripped.partition("\n")
        text = rest.removesuffix(fence[1]) if "{" not in first else text
    splitter = _Splitter(text)
    splitter.split()
    return splitter.out


class _Splitter:
    def __init__(self, text: str) -> None:
        self.out = Labelled()
        self._text = text
        self._position = 0
        self._quote = ""
        self._body: list[str] = []
        self._acted = False
        self._margin = -1  # the indentation of the parameter that a line may continue

    def split(self) -> None:
        for line in self._text.splitlines(keepends=True):
            found = None if self._is_inside(line) else _LABEL.match(line)
            while found and (found[3] or found[1].lower() == "observation"):
                label = found[1].lower().replace(" ", "_")
                self._close()
                if label == "observation" or (self._acted and label in _CYCLE):
                    self._end()
                    return
                self.out.sections.append(Section(label, found[2] or "", "", self._position))
                self._acted = self._acted or label in ("action", "final_answer")
                self._margin = -1
                line = line[found.end() :]
                self._position += found.end()
                found = _LABEL.match(line) if label == "thought" else None
            self._body.append(line)
            self._position += len(line)
        self._close()
        if self._acted:
            self._strip_end()

    def _is_inside(self, line: str) -> bool:
        """Whether a line belongs to a fence or, being deeper, to the parameter before it."""
        if self._is_fenced(line):
            return True
        bare = line.lstrip(" \t")
        indent = len(line) - len(bare)
        if 0 <= self._margin < indent:
            return True
        if self._acted and _LINE.match(bare) and not _LABEL.match(line):
            self._margin = indent
        return False

    def _is_fenced(self, line: str) -> bool:
        mark = _FENCE.match(line)
        if self._quote:
            if mark and mark[1].startswith(self._quote) and not line[mark.end() :].strip():
                self._quote = ""
            return True
        opened = _OPENED.search(line.rstrip("\r\n")) if self._acted and not mark else None
        self._quote = mark[1] if mark else opened[1] if opened else ""
        return mark is not None

    def _close(self) -> None:
        if self.out.sections:
            self.out.sections[-1].text = "".join(self._body).strip("\r\n").rstrip()
        self._body = []

    def _end(self) -> None:
        self.out.ended = True
        rest = self._text[self._position :].strip().removesuffix("```").strip()
        self.out.cut = "" if rest.strip("#*_:： \t").upper() == _END else rest

    def _strip_end(self) -> None:
        """An end line that a stop sequence or the end of the text cut short."""
        section = self.out.sections[-1]
        head, _, last = section.text.rpartition("\n")
        if head and len(last.strip()) >= _BEGINNING and _END.startswith(last.strip()):
            section.text, self.out.ended = head.rstrip(), True


def _until(lines: list[str], number: int, end: str, margin: bool = True) -> tuple[str, int]:
    """The lines up to one that ends with a mark; without their `margin`, if they have one.

    Text that begins beside its opening mark has none: each blank is its own.
    """
    taken: list[str] = []
    while number < len(lines) and not lines[number].rstrip().endswith(end):
        taken.append(lines[number])
        number += 1
    if number < len(lines) and (last := lines[number].rstrip().removesuffix(end)).strip():
        taken.append(last)
    return dedent(taken) if margin else "\n".join(taken), number + 1


@dataclass(slots=True)
class Parameters:
    """What `key: value` lines give.

    Attributes:
        values: The parameters; what was not quoted is `Text`.
        error: Why they cannot be used, empty when every line was understood.
        trailing: Whether prose follows them.
        whole: Whether the last value says itself where it ends.
    """

    values: dict[str, Any] = field(default_factory=dict[str, Any])
    error: str = ""
    trailing: bool = False
    whole: bool = False


def parameters_of(text: str, names: Collection[str] = ()) -> Parameters:
    """Reads `key: value` lines; `|` opens a block, deeper indentation continues a value.

    A fence or triple quotes hold a value as it stands. A line that is no parameter ends them
    after a blank line, or after a value that said where it ends; elsewhere it is an error.
    `names` are the parameters of the tool, if they are known.
    """
    out = Parameters()
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        bare = line.lstrip(" \t")
        if not bare:
            continue
        indent = len(line) - len(bare)
        found = _LINE.match(bare)
        apart = out.whole or (number > 1 and not lines[number - 2].strip())
        if out.values and apart and not (found and (not names or found[1] in names)):
            out.trailing = True
            return out
        if not found:
            out.error = f"expected 'key: value', got {bare[:80]!r}"
            return out
        key, given = found[1], found[2].strip()
        if key in out.values:
            out.error = f"the parameter {key!r} is given twice"
            return out
        out.values[key], number, out.whole = _value(lines, number, indent, given)
        if number < 0:
            out.error = f"the value of {key!r} has no end"
            return out
    return out


def _value(lines: list[str], number: int, indent: int, given: str) -> tuple[Any, int, bool]:
    """One value, the next line's number (-1: it has no end), whether it said where it ends."""
    if given == "```" or (given.startswith("```") and given.strip("`").isalnum()):
        body, number = _until(lines, number, "```")
        return body, number, True
    quotes = given[:3]
    if quotes in ('"""', "'''"):
        rest = given[3:]
        if rest.endswith(quotes):
            return rest.removesuffix(quotes), number, True
        if not any(line.rstrip().endswith(quotes) for line in lines[number:]):
            return given, -1, False
        body, number = _until(lines, number, quotes, margin=not rest)
        return (f"{rest}\n{body}" if rest else body), number, True
    block: list[str] = []
    while number < len(lines):
        line = lines[number]
        if line.strip() and len(line) - len(line.lstrip(" \t")) <= indent:
            break
        block.append(line)
        number += 1
    if given in ("|", "|-", "|+", ">", ">-"):
        return dedent(block) + ("" if given.endswith("-") else "\n"), number, False
    if any(map(str.strip, block)):
        return Text((given + "\n" if given else "") + dedent(block)), number, False
    return literal(given), number - len(block), False


def literal(text: str) -> Any:
    """A value as it stands on a line: the text between quotes, or `Text`."""
    body = text.strip()
    if len(body) > 1 and body[0] in "\"'" and body[-1] == body[0]:
        return scalar(body)
    return Text(body)

"""Reads the labelled text forms: TAO (`THOUGHT [Type]: … ACTION: tool …`) and ReAct.

One pass over the lines. Knows nothing about types or which tools exist.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, cast

from taofold.parsing.coercion import Text
from taofold.parsing.outline import dedent, scalar

_LABEL = re.compile(
    r"[ \t#*_]{0,8}"
    r"(thought|action[ _]input|action|observation|final[ _]answer|rationale|justification)"
    r"[ \t]{0,3}(?:\[([^\]\n]{0,40})\])?[ \t*_]{0,4}([:：]|$)[ \t*_]{0,4}",
    re.IGNORECASE,
)
_ACTION = re.compile(r"^[ \t#*_]{0,8}(?:thought:[ \t]*)?(?:action|final[ _]answer)[ \t*_]{0,4}[:：]", re.I | re.M)
_MARKED = re.compile(
    r"^[ \t#*_]{0,8}(?:thought|action|final[ _]answer)[ \t]{0,3}(?:\[[^\]\n]{0,40}\])?"
    r"[ \t*_]{0,4}[:：]",
    re.I | re.M,
)
_FENCE = re.compile(r"[ \t]{0,3}(`{3,}|~{3,})")
_LINE = re.compile(r"(?:[-*][ \t]+)?([A-Za-z_][\w.-]{0,63})[ \t]*[:：=][ \t]*(.*)")
_END = "OBSERVATION"


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

    sections: list[Section] = field(default_factory=lambda: cast("list[Section]", []))
    cut: str = ""
    ended: bool = False

    def text(self, *labels: str) -> str | None:
        """The text of the first part with one of the labels."""
        return next((each.text for each in self.sections if each.label in labels), None)


def has_action(text: str) -> bool:
    """Whether a line is labelled as an action or a final answer."""
    return _ACTION.search(text) is not None


def is_labelled(text: str) -> bool:
    """Whether a line is labelled as a thought, an action or a final answer."""
    return _MARKED.search(text) is not None


def sections_of(text: str) -> Labelled:
    """Splits labelled text; a label inside a fence is none, unless the fence holds them all."""
    out = Labelled()
    stripped = text.strip()
    fence = _FENCE.match(stripped)
    if fence:  # the whole reply in one fence
        first, _, rest = stripped.partition("\n")
        text = rest.removesuffix(fence[1]) if "{" not in first else text
    quote = ""
    position = 0
    body: list[str] = []
    acted = False
    for line in text.splitlines(keepends=True):
        mark = _FENCE.match(line)
        if quote:
            if mark and mark[1].startswith(quote) and not line[mark.end() :].strip():
                quote = ""
        elif mark:
            quote = mark[1]
        found = None if quote or mark else _LABEL.match(line)
        while found:
            label = found[1].lower().replace(" ", "_")
            if not found[3] and label != "observation":
                break
            repeated = acted and label in ("thought", "action", "final_answer")
            if label == "observation" or repeated:
                out.ended = True
                _close(out, body)
                rest = text[position:].strip().removesuffix("```").strip()
                out.cut = "" if rest.rstrip(":： *_").upper().endswith(_END) else rest
                return out
            _close(out, body)
            out.sections.append(Section(label, found[2] or "", "", position))
            acted = acted or label in ("action", "final_answer")
            line = line[found.end() :]
            body = []
            position += found.end()
            found = _LABEL.match(line) if label == "thought" else None
        body.append(line)
        position += len(line)
    _close(out, body)
    if out.sections and acted:
        section = out.sections[-1]
        head, _, last = section.text.rpartition("\n")
        if head and len(last.strip()) > 2 and _END.startswith(last.strip()):
            section.text, out.ended = head.rstrip(), True
    return out


def _close(out: Labelled, body: list[str]) -> None:
    if out.sections:
        out.sections[-1].text = "".join(body).strip("\r\n").rstrip()


def parameters_of(text: str) -> tuple[dict[str, Any], str]:
    """Reads `key: value` lines; `|` opens a block, deeper indentation continues a value.

    Returns:
        The values (scalars as `Text`) and an error, empty when every line was understood.
    """
    values: dict[str, Any] = {}
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
        if not found:
            return values, f"expected 'key: value', got {bare[:80]!r}"
        key, given = found[1], found[2].strip()
        if key in values:
            return values, f"the parameter {key!r} is given twice"
        block: list[str] = []
        while number < len(lines):
            line = lines[number]
            if line.strip() and len(line) - len(line.lstrip(" \t")) <= indent:
                break
            block.append(line)
            number += 1
        if given in ("|", "|-", "|+", ">", ">-"):
            values[key] = dedent(block) + ("" if given.endswith("-") else "\n")
        elif any(map(str.strip, block)):
            values[key] = Text((given + "\n" if given else "") + dedent(block))
        else:
            values[key] = scalar(given)
    return values, ""

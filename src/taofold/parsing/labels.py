"""Reads the labelled text forms TAO (`THOUGHT [Type]: … ACTION: tool …`) and ReAct.

Also reads the `key: value` lines of their parameters (`parameters_of`). One pass over the lines
yields labels and their bodies; a reply in labels is a thought, a tool and its parameters. Knows the
tools only by the schemas that the caller passes.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from msgspec.structs import replace as cut

from taofold.core.json_values import decoded, is_object
from taofold.core.late_patterns import late
from taofold.parsing.arguments import offered_name, parameter_names
from taofold.parsing.decision import call_of_request, calls_in, turn_of
from taofold.parsing.jsonlike.quoting import unescaped
from taofold.parsing.jsonlike.reader import JsonReader, JsonReading
from taofold.parsing.markup.calls import CallReader, RawCall
from taofold.parsing.outcome import (
    BESIDE,
    OPEN_END,
    RAW_LIMIT,
    Call,
    Remark,
    Repair,
    Turn,
    Unparsed,
)
from taofold.parsing.outline import dedent, indented, outline_in, scalar
from taofold.parsing.protocol_keys import FINISH, PARAMETER_KEYS, Tools
from taofold.parsing.schema.coercion import refusal
from taofold.parsing.schema.reading_plan import ANYTHING, fold
from taofold.parsing.schema.scalars import LooseText

DECIDING_LABELS: Final = ("thought", "action", "final answer", "final_answer")
_LEAD = r"[ \t#*_]{0,8}(?:(?:-|\d{1,2}[.)])[ \t]{1,3}[*_]{0,2})?"
_LABEL = late(
    _LEAD + r"(thought|action[ _]input|action|observation|final[ _]answer|rationale|justification)"
    r"(?:[ \t]\d{1,2})?[ \t]{0,3}(?:[\[(]([^\])\n]{0,40})[\])])?[ \t*_]{0,4}"
    r"([:：]|$|(?<=\])(?=[ \t]))[ \t*_]{0,4}",
    re.IGNORECASE,
)
_ACTION = late(
    rf"^(?=[ \t#*_\dtaf-]){_LEAD}(?:thought:[ \t]*)?(?:action|final[ _]answer)"
    r"(?:[ \t]\d{1,2})?[ \t*_]{0,4}[:：]",
    re.IGNORECASE | re.MULTILINE,
)
MARKED = late(
    rf"^(?=[ \t#*_\dtaf-]){_LEAD}(?:thought|action|final[ _]answer)(?:[ \t]\d{{1,2}})?[ \t]{{0,3}}"
    r"(?:[\[(][^\])\n]{0,40}[\])])?[ \t*_]{0,4}[:：]",
    re.IGNORECASE | re.MULTILINE,
)
_OPENED = late(r"[:：=][ \t]*(`{3,})\w*[ \t]*$")
_FENCE = late(r"[ \t]{0,3}(`{3,}|~{3,})")
_LINE = late(r"(?:[-*][ \t]+)?([A-Za-z_][\w.-]{0,63})[ \t]*[:：=][ \t]*(.*)")
_COLONS = frozenset(":：=")
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
    """The parts before the first observation or the start of a second cycle.

    `cut` is the text from there on; `ended` is True if an end line was present.
    """

    sections: list[Section] = field(default_factory=list[Section])
    cut: str = ""
    ended: bool = False

    def text(self, *labels: str) -> str | None:
        """Returns the text of the first part with one of the labels."""
        return next((each.text for each in self.sections if each.label in labels), None)


def has_action(text: str) -> bool:
    """Returns whether a line is labelled as an action or a final answer."""
    return _ACTION.search(text) is not None


def has_lead(text: str) -> bool:
    """Returns whether prose stands before the first labelled line."""
    mark = MARKED.search(text)
    return mark is not None and bool(text[: mark.start()].strip().strip("`"))


def is_labelled(text: str) -> bool:
    """Returns whether a line is labelled as a thought, an action or a final answer."""
    return MARKED.search(text) is not None


def sections_of(text: str) -> Labelled:
    """Splits labelled text.

    Labels inside a fence are ignored, unless one fence holds the whole text.
    """
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
        self._margin = -1  # the indentation of a parameter that the next line may continue

    def split(self) -> None:
        for line in self._text.splitlines(keepends=True):
            at = 0
            match = None if self._is_inside(line) else _LABEL.match(line)
            # A loop: `THOUGHT [Plan]: ACTION: x` has two labels on one line.
            while match and (match[3] or match[1].lower() == "observation"):
                label = match[1].lower().replace(" ", "_")
                self._close()
                # The text from here on is invented: the tool has not run yet.
                if label == "observation" or (self._acted and label in _CYCLE):
                    self._end()
                    return
                self.out.sections.append(Section(label, match[2] or "", "", self._position))
                self._acted = self._acted or label in ("action", "final_answer")
                self._margin = -1
                self._position += match.end() - at
                at = match.end()
                match = _LABEL.match(line, at) if label == "thought" else None
            self._body.append(line[at:])
            self._position += len(line) - at
        self._close()
        if self._acted:
            self._strip_end()

    def _is_inside(self, line: str) -> bool:
        """Returns whether a line belongs to a fence or, if indented deeper, to the parameter before
        it.
        """
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
        # A fence may also open after a parameter's name: `content: ```py`.
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
        """Removes an end line that a stop sequence or the end of the text cut short."""
        section = self.out.sections[-1]
        head, _, last = section.text.rpartition("\n")
        # At least three letters: fewer may be the last word of a value.
        if head and len(last.strip()) >= _BEGINNING and _END.startswith(last.strip()):
            section.text, self.out.ended = head.rstrip(), True


def _until(lines: list[str], number: int, end: str, margin: bool = True) -> tuple[str, int]:
    """Returns the lines up to one that ends with `end`; removes their common `margin` if requested.

    Text that begins beside its opening mark has no margin: its blanks are content.
    """
    taken: list[str] = []
    while number < len(lines) and not lines[number].rstrip().endswith(end):
        taken.append(lines[number])
        number += 1
    if number < len(lines) and (last := lines[number].rstrip().removesuffix(end)).strip():
        taken.append(last)
    return dedent(taken) if margin else "\n".join(taken), number + 1


@dataclass(slots=True)
class _Parameters:
    """The parameters of `key: value` lines.

    Attributes:
        values: The parameters; values without quotes are `LooseText`.
        error: The reason why they cannot be used; empty if every line was understood.
        trailing: True if prose follows them.
        doubled: The parameter with two colons; the second may belong to its value.
        whole: True if the last value has an explicit end.
    """

    values: dict[str, Any] = field(default_factory=dict[str, Any])
    error: str = ""
    trailing: bool = False
    doubled: str = ""
    whole: bool = False


def parameters_of(text: str, names: Collection[str] = ()) -> _Parameters:
    """Reads `key: value` lines; `|` opens a block, deeper indentation continues a value.

    A fence or triple quotes hold a verbatim value. A line that is not a parameter ends the
    parameters after a blank line, or after a value with an explicit end; elsewhere it is an error.

    Args:
        text: The lines.
        names: The parameters of the tool, if they are known.
    """
    out = _Parameters()
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        bare = line.lstrip(" \t")
        if not bare:
            continue
        indent = len(line) - len(bare)
        match = _LINE.match(bare)
        apart = out.whole or (number > 1 and not lines[number - 2].strip())
        # Prose after the parameters, such as `Note: …`, must not become one. After a blank line
        # only a parameter of the tool continues the list.
        if out.values and apart and not (match and (not names or match[1] in names)):
            out.trailing = True
            return out
        if not match:
            out.error = f"expected 'key: value', got {bare[:80]!r}"
            return out
        key, written = match[1], match[2].strip()
        # As for tags: neither of two values may win silently.
        if key in out.values:
            out.error = f"the parameter {key!r} is given twice"
            return out
        if written[:1] in _COLONS and written:
            out.doubled = key
        out.values[key], number, out.whole = _value(lines, number, indent, written)
        if number < 0:
            out.error = f"the value of {key!r} has no end"
            return out
    return out


def _value(lines: list[str], number: int, indent: int, given: str) -> tuple[Any, int, bool]:
    """Returns a value, the next line's number (-1: no end), and True if its end is explicit."""
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
    block, number = indented(lines, number, indent)
    if given in ("|", "|-", "|+", ">", ">-"):
        # As in YAML: `-` drops the last line break, the other marks keep one.
        return dedent(block) + ("" if given.endswith("-") else "\n"), number, False
    if any(map(str.strip, block)):
        return LooseText((given + "\n" if given else "") + dedent(block)), number, False
    return literal(given), number - len(block), False


def literal(text: str) -> Any:
    """Reads a value on one line: the text between quotes, or `LooseText`."""
    body = text.strip()
    if len(body) > 1 and body[0] in "\"'" and body[-1] == body[0]:
        return scalar(body)
    return LooseText(body)


__all__ = ["NO_TOOL", "is_labelled", "labelled", "read_labelled"]
_LABELS = Repair("labels", "none")
_NO_COMMA = Repair("missing_comma", "none", content=True)
NO_TOOL: Final = "The action names no tool."
_HEADINGS = frozenset(map(fold, PARAMETER_KEYS))
_PHRASE = late(r"\[([^\[\]]+)\]")
"""The argument in `search[a phrase]`, the notation of the ReAct paper."""
_OBJECTS = late(r"\s*(?:```(?:json|JSON)?\s*)?(?:\{|\[\s*\{)")
_TOOL = late(r"[\s`*\"'\[]*(?P<name>[A-Za-z_][\w.-]{0,127}?)[`*\"'\]]{0,4}(?=$|[\s({\[:|,;-])")
_HEADING = late(r"\s*([A-Za-z_ ]{1,20})[ \t]*[:：]\s*(?=\{|```(?:json)?\s*\{)")
"""The heading that some models write above parameters in JSON."""
_REASONS = ("rationale", "justification")


def read_labelled(text: str, tools: Tools, was_cut: bool, finished: bool) -> Turn | Unparsed | None:
    """Reads the turn of a labelled reply; `None` if it has no labelled part.

    Args:
        text: The reply without its reasoning.
        tools: The offered tools, with their schemas if these are known.
        was_cut: True if the provider reports that the output limit ended the text.
        finished: True if the provider reports that the model ended it.
    """
    parts = sections_of(text)
    # Only an end line closes this form, so the text before the cut may end inside a value.
    if was_cut and not parts.ended:
        return refusal("incomplete", text)
    if not parts.sections:
        return None
    notes: tuple[Repair, ...] = (_LABELS,)
    lead = text[: parts.sections[0].at].strip().strip("`").strip()
    remark = _remark(parts)
    violation = parts.cut[:RAW_LIMIT]
    deciding = ("action", "final_answer")
    section = next((each for each in parts.sections if each.label in deciding), None)
    if section is None:
        return Turn(remark, (), notes, violation)
    if lead:
        notes = (*notes, BESIDE)
    if section.label == "final_answer":
        answer = RawCall(FINISH, {"answer": section.text.strip()})
        return Turn(remark, (call_of_request(answer, tools),), notes, violation)
    inputs = parts.text("action_input")
    turn = None if inputs else _described_turn(section.text, text, tools)
    if isinstance(turn, Turn):
        return Turn(remark or turn.remark, turn.calls, (*notes, *turn.repairs), violation)
    if turn is not None:
        return turn
    call = _called(parts, section, text, tools, finished)
    return call if isinstance(call, Unparsed) else Turn(remark, (call,), notes, violation)


def _called(
    parts: Labelled, section: Section, text: str, tools: Tools, finished: bool
) -> Call | Unparsed:
    """Returns the call of an action section that is not an object."""
    request = labelled(text, tools)
    if request is None:
        return refusal("invalid", text, note=NO_TOOL)
    if not request.closed:
        return refusal("incomplete", text)
    if finished:  # a stop sequence removes the end line
        repairs = tuple(each for each in request.repairs if each != OPEN_END)
        request = replace(request, repairs=repairs)
    return cut(call_of_request(request, tools), rationale=_rationale(parts, section))


def labelled(text: str, tools: Tools = ()) -> RawCall | None:
    """Returns the first action of a TAO or ReAct text; `None` if it names no tool.

    An action that is an object is found among the values of the text instead.
    """
    parts = sections_of(text)
    thought = parts.text("thought") or None
    section = next((each for each in parts.sections if each.label == "action"), None)
    if section is None:
        return None
    blank = RawCall("", None, thought, section.at, closed=parts.ended)
    return _action(section.text, parts.text("action_input"), blank, tools)


def _action(text: str, given: str | None, blank: RawCall, tools: Tools) -> RawCall | None:
    head = text.partition("\n")[0].strip().strip("`*\"'[]. ")
    if given is not None:
        return _encoded(given, replace(blank, tool=offered_name(head, tools))) if head else None
    # Before the pattern below: an offered name may hold characters at which the pattern stops.
    if head in tools and not text.partition("\n")[2].strip():
        return _listed("", replace(blank, tool=head), tools)
    named = _TOOL.match(text)
    if named is None:
        return None
    request = replace(blank, tool=named["name"])
    line, _, below = text[named.end() :].partition("\n")
    rest = _undecorated(line) if line.lstrip()[:1] not in "({" else line.strip()
    if rest[:1] == "(":
        return _python(text, named.start("name"), request)
    if line[:1] == "[":
        phrase = _PHRASE.fullmatch(line.rstrip())
        request = replace(request, repairs=_beside(below))
        return _encoded(phrase[1], request) if phrase else None
    if rest[:1] in ("{", ":") and "{" in rest[:3]:
        return _encoded(rest.lstrip(": ") + "\n" + below, request)
    if rest:
        return _on_one_line(rest.lstrip(":").strip(), below, request, tools)
    if below.lstrip()[:1] in ("{", "`"):
        return _encoded(below, request)
    return _listed(below, request, tools)


def _undecorated(line: str) -> str:
    """Strips decoration around a line, and a last bracket or quote without an opening one."""
    rest = line.strip(" \t`*|,;-").lstrip("\"' \t`*|,;-]")
    is_loose = rest.count("]") > rest.count("[") if rest[-1:] == "]" else rest.count(rest[-1:]) % 2
    return rest[:-1].rstrip() if rest[-1:] in ("]", '"', "'") and is_loose else rest


def _python(text: str, at: int, request: RawCall) -> RawCall | None:
    block = CallReader(text).python_block(at)
    if not block.calls:
        return None
    call = block.calls[0]
    repairs = (*call.repairs, *_beside(text[block.end :]))
    return replace(call, thought=request.thought, at=request.at, repairs=repairs)


def _beside(rest: str) -> tuple[Repair, ...]:
    """Returns the doubt about a call with more text after it than the end of its fence."""
    return (BESIDE,) if rest.strip().strip("`").strip() else ()


def _on_one_line(rest: str, below: str, request: RawCall, tools: Tools) -> RawCall:
    """Reads parameters beside the name of the tool: `path: a.py, mode: r`."""
    names = parameter_names(request.tool, tools)
    values: dict[str, Any] = {}
    key, begin, is_apart = "", 0, True
    # One at a time: a long line is abandoned at the first repeated key.
    for mark in _keys_pattern(names).finditer(rest):
        if key:
            value = rest[begin : mark.start()].rstrip()
            values[key] = _on_line(value)
            # After a blank only, a key may be part of the value: `docker run -p n:5`.
            is_apart = is_apart and value.endswith((",", ";", "|"))
        elif mark.start() > 0:
            break  # text before the first key: one bare value, not a list of keys
        key, begin = mark["key"], mark.end()
        if key in values:
            return replace(request, error=f"the parameter {key!r} is given twice", closed=True)
    if not key and (below.strip() or not rest):
        return replace(request, error=f"expected parameters, got {rest[:80]!r}", closed=True)
    if not key:
        return replace(request, parameters=LooseText(rest), closed=True)
    values[key] = _on_line(rest[begin:])
    more = parameters_of(below, names)
    if more.error or not more.values.keys().isdisjoint(values):
        note = more.error or "a parameter is given twice"
        return replace(request, error=note, closed=True)
    more.values = values | more.values
    request = _with_parameters(request, more)
    return request if is_apart else replace(request, repairs=(*request.repairs, _NO_COMMA))


def _on_line(text: str) -> Any:
    return literal(text.strip().rstrip(",;|").strip())


def _keys_pattern(names: Collection[str]) -> re.Pattern[str]:
    key = "|".join(map(re.escape, names)) if names else r"[A-Za-z_]\w{0,63}"
    return re.compile(rf"(?:^|(?<=[\s,;|]))(?P<key>{key})\s{{0,3}}[:：=]\s{{0,3}}")


def _listed(text: str, request: RawCall, tools: Tools) -> RawCall:
    """Reads parameters as `key: value` lines, which only an end line closes."""
    bare = text.lstrip()
    if bare[:1] == '"':
        reading = JsonReader(text, ANYTHING).read(len(text) - len(bare), headless=True)
        if not reading.failed and not reading.cut and request.closed:
            return replace(request, parameters=reading.value, repairs=tuple(reading.repairs))
    names = parameter_names(request.tool, tools)
    heading = _HEADING.match(text)
    if heading and fold(heading[1]) in _HEADINGS and heading[1] not in names:
        return _encoded(text[heading.end() :], request)
    parameters = parameters_of(text, names)
    if parameters.error:
        return replace(request, error=parameters.error, closed=True)
    return _with_parameters(request, parameters)


def _with_parameters(request: RawCall, parameters: _Parameters) -> RawCall:
    values = parameters.values
    for key in _REASONS:
        values.pop(key, None)
    values = _unwrapped(values)
    ended = request.closed or parameters.whole
    notes = [] if ended else [OPEN_END]
    if parameters.trailing:
        notes.append(BESIDE)
    if parameters.doubled:
        path = f"parameters.{parameters.doubled}"
        notes.append(Repair("extra_colon", "none", content=True, path=path))
    # A last key without a value: the text ended before the value.
    closed = ended or not values or list(values.values())[-1] != ""
    return replace(request, parameters=values or None, repairs=tuple(notes), closed=closed)


def _unwrapped(values: dict[str, Any]) -> dict[str, Any]:
    """Removes the heading that some models write above the parameters."""
    first = next(iter(values), "")
    if fold(first) not in _HEADINGS:
        return values
    if len(values) == 1:
        inner = values[first]
        outline = outline_in(inner) if isinstance(inner, LooseText) else (inner, True)
        return outline[0] if outline is not None and is_object(outline[0]) else values
    if len(values) > 1 and values[first] == "":
        return {key: value for key, value in values.items() if key != first}
    return values


def _encoded(text: str, request: RawCall) -> RawCall:
    """Reads arguments as one JSON object; the caller refuses other text."""
    if not text.strip():
        return replace(request, parameters={})
    body = unescaped(text) or text
    reading = _object(body)
    outline = outline_in(text.strip()) if reading is None and "```" in text else None
    if outline is not None and is_object(outline[0]):
        return replace(request, parameters=outline[0], closed=True)
    if reading is None:
        return replace(request, parameters=_bare(text.strip()), closed=True)
    repairs = (*reading.repairs, *_beside(body[reading.end :]))
    return replace(request, parameters=reading.value, repairs=repairs, closed=reading.whole)


def _bare(text: str) -> str:
    """Returns a value without a key: decoded if it is a JSON string, else the text."""
    with suppress(ValueError):
        return decoded(text) if text[:1] == '"' else LooseText(text)
    return LooseText(text)


def _described_turn(section: str, reply: str, tools: Tools) -> Turn | Unparsed | None:
    """Reads an action that is an object or a list of objects; `None` if it is neither.

    It is read like a reply in JSON: entries beside the parameters are never dropped silently.
    """
    reading = _object(section) if _OBJECTS.match(section) else None
    if reading is None:
        return None
    if not reading.whole:
        return refusal("incomplete", reply)
    notes = (*reading.repairs, *_beside(section[reading.end :]))
    if is_object(reading.value):
        turn = turn_of(reading.value, tools, notes)
    else:
        turn = Turn(None, tuple(calls_in(reading.value, tools)), notes)
    return turn if turn.calls else refusal("invalid", reply, note=NO_TOOL)


def _object(text: str) -> JsonReading | None:
    start = len(text) - len(text.lstrip(" \t\r\n`jsonJSON"))
    if text[start : start + 1] not in ("{", "["):
        return None
    reading = JsonReader(text, ANYTHING).read(start)
    return None if reading.failed else reading


def _remark(parts: Labelled) -> Remark | None:
    thought = next((p for p in parts.sections if p.label == "thought" and p.text), None)
    return Remark(thought.text.strip(), thought.tag.strip().lower() or None) if thought else None


def _rationale(parts: Labelled, section: Section) -> str:
    reason = parts.text(*_REASONS)
    if reason is None:
        parameters = parameters_of(section.text.partition("\n")[2]).values
        reason = next((parameters[key] for key in _REASONS if key in parameters), "")
    return str(reason)

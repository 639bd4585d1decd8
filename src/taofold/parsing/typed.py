"""Reads one typed value from a model's text, complete (`parse`) or partial (`parse_partial`).

The stages, cheapest first: the compiled validator on the unchanged text; JSON-like values in the
text; tool-call dialects and labels; forms without brackets. A partial value is for display only:
never executed, never stored as final. Knows nothing about agents.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeVar

from pydantic_core import from_json

from taofold.core.json_values import is_array, is_object
from taofold.core.reply import is_cut
from taofold.parsing.jsonlike.quoting import unescaped
from taofold.parsing.labels import has_action, has_lead, labelled
from taofold.parsing.markup.calls import CallReader, RawCall, blocks_in
from taofold.parsing.markup.families import CALL_OPEN, HEADER, NOISE, REASONING_CLOSE
from taofold.parsing.markup.tags import elements_in
from taofold.parsing.outcome import Level, Parsed, Repair, Unparsed
from taofold.parsing.outline import outline_in
from taofold.parsing.schema.coercion import Misfit, refusal
from taofold.parsing.schema.scalars import LooseText, same
from taofold.parsing.schema.target import (
    Fit,
    Target,
    fit,
    fit_request,
    is_overlooked,
    request_of,
    target_of,
)
from taofold.parsing.spans import Scan, Span, scan, without_opener

T = TypeVar("T")
_ORDER = {"none": 0, "syntax": 1, "schema": 2}
_SCALARS = frozenset({"string", "integer", "number", "boolean", "enum", "null"})
_FLAT = bytes.maketrans(b"123456789E", b"000000000e")
_ENDLESS = (b"e000", b"e+000", b"0" * 309)
"""Digit patterns, after normalisation, that any overflowing number contains."""
_MARGIN = 3
"""A reading that costs this much more than the cheapest does not compete with it."""
_HEDGED = "The call is only quoted, refused or asked about. To make it, send it alone."
_DECIDED = re.compile(
    r"(?:^|\n)[ \t#*_>-]*(?:my[ \t]+)?(?:final|corrected|revised)"
    r"(?:[ \t]+(?:answer|version|decision|json|output|result|value))?"
    r"[ \t*_]*[:：][ \t*_]*\s*(?:```\w*\s*)?\Z",
    re.IGNORECASE,
)
"""A label on its own line that marks one of several values as the final one."""


def parse(
    text: str,
    type_: type[T] | Any,
    *,
    level: Level = "schema",
    finish_reason: str | None = None,
) -> Parsed[T] | Unparsed:
    """Reads a value of a type from text, or refuses; never raises for any text.

    Example:
        ```python
        from taofold.parsing import Parsed, parse

        read = parse("Sure! {'city': 'Oslo',}", dict[str, str])
        assert isinstance(read, Parsed)
        print(read.value, [repair.kind for repair in read.repairs])
        ```

    Args:
        text: The text of the model.
        type_: Any type that Pydantic can validate.
        level: The changes allowed: `none` only locates and unwraps, `syntax` also repairs notation,
            `schema` also converts values without loss.
        finish_reason: The provider's; `length` and its synonyms mean that the text was cut.

    Returns:
        The value with its repairs, or a refusal with feedback for the model.
    """
    target = target_of(type_)
    try:
        # The validator alone: enough for most replies.
        return Parsed(_exact(text, target))
    except ValueError:
        result = _read(text, target, level, finish_reason)
    return result if isinstance(result, Unparsed) else Parsed(result.value, result.repairs)


def parse_with_source(text: str, type_: Any, *, finish_reason: str | None = None) -> Fit | Unparsed:
    """Reads a value as `parse` does, with the plain JSON data that it was validated from.

    `typed_value` restores the value from that data by one validation.
    """
    target = target_of(type_)
    try:
        return Fit(_exact(text, target), from_json(text), ())
    except ValueError:
        return _read(text, target, "schema", finish_reason)


def _exact(text: str, target: Target) -> Any:
    """Returns the value of a text that is valid as it stands.

    Raises:
        ValueError: It is not valid, not Unicode, holds a non-finite number, or a key that the
            validator would drop.
    """
    # Raises for lone surrogates: text that is not Unicode takes the slow path.
    body = text.encode()
    flat = body.translate(_FLAT)
    # The validator accepts `NaN`, and reads numbers too large for a float as infinity. A text that
    # may hold either takes the slow path.
    if b"NaN" in body or b"Infinity" in body or any([s in flat for s in _ENDLESS]):
        raise ValueError("a number without end")
    value = target.adapter.validate_json(body, strict=True)
    # `birthYear` for an optional `birth_year` is valid too, but the value would be lost silently.
    if target.plan.lenient and is_overlooked(text, target.plan):
        raise ValueError("a declared key in another case")
    return value


def _read(text: str, target: Target, level: Level, finish_reason: str | None) -> Fit | Unparsed:
    """Reads a value from a text that is not valid as it stands."""
    if not text.strip():
        return refusal("empty", text)
    result = _search(text, target, is_cut(finish_reason), 0)
    if isinstance(result, Unparsed):
        return result
    beyond = [each for each in result.repairs if _ORDER[each.level] > _ORDER[level]]
    if beyond:
        note = f"The answer needs a repair that is not allowed here: {beyond[0].kind}."
        return refusal("invalid", text, note=note)
    return result


def _search(text: str, target: Target, cut: bool, depth: int) -> Fit | Unparsed:
    is_scalar = target.plan.shape.kind in _SCALARS
    # Only once: JSON in a string in a string is not decoded. For text every quote is content.
    inner = unescaped(text) if depth == 0 and not is_scalar else ""
    if inner:
        result = _search(inner, target, cut, depth + 1)
        if isinstance(result, Fit):
            note = Repair("string_encoded", "none", cost=2)
            return replace(result, repairs=(note, *result.repairs), at=0)
        return result
    scanned = scan(text, target.plan)
    if scanned.unfinished:
        return refusal("incomplete", text, note="The reply ends inside its reasoning.")
    if scanned.exhausted:
        return refusal("too_large", text)
    if is_scalar:
        return _scalar(scanned.visible, target, cut)
    return _Search(scanned, text, target, cut).result()


def _scalar(text: str, target: Target, cut: bool) -> Fit | Unparsed:
    if cut:
        return refusal("incomplete", text)
    body = text.strip()
    # A lone number or word is expected: decoration around it is dropped. For text everything
    # counts.
    if target.plan.shape.kind != "string":
        body = body.strip("`*\"'“”. \n")
    try:
        candidate = fit(target, LooseText(body))
    except Misfit as misfit:
        return refusal("invalid", text, misfit.faults)
    return replace(candidate, repairs=(Repair("located", "none"), *candidate.repairs))


_QUOTED = r"\"[^\"\n]{1,64}\"|'[^'\n]{1,64}'|“[^”\n]{1,64}”|\w{1,64}[\"'”]"
_MEMBER = re.compile(
    rf"[ \t\r\n,;\]}}]{{0,40}}(?:{_QUOTED})\s{{0,3}}[:：]"
    r"|\s{0,20}[:：]|\s{0,20}[,;]\s{0,20}\w{1,64}\s{0,3}[:：]"
)
"""Text that looks like a further member after an object's end: a closing brace too many."""


class _Search:
    """One search for a value; collects the fits, and the reasons why other candidates fail."""

    def __init__(self, found: Scan, text: str, target: Target, cut: bool) -> None:
        self._found = found
        self._text = text
        self._target = target
        self._cut = cut
        self._fits: list[Fit] = []
        self._misfits: list[Misfit] = []
        self._hedged = False

    def result(self) -> Fit | Unparsed:
        last = self._found.cut
        incomplete = last is not None
        self._try_spans()
        if last is not None and any(each.at != last.start for each in self._fits):
            # An earlier value may be a draft of the one that was cut off.
            return refusal("incomplete", self._text)  # the last value may be the one that was cut
        if not (self._fits or self._hedged) and (
            self._target.slots or self._found.spans or not incomplete
        ):
            incomplete = self._try_requests() or incomplete
        if not self._fits and self._hedged:
            return refusal("no_candidate", self._text, note=_HEDGED)
        if not self._fits and not incomplete:
            self._try_forms()
        if self._fits:
            return self._chosen()
        if incomplete or self._cut or any(each.cut for each in self._misfits):
            return refusal("incomplete", self._text)
        if self._misfits:
            nearest = min(
                self._misfits, key=lambda each: len(each.faults) + 9 * (not each.faults[0].path)
            )
            return refusal("invalid", self._text, nearest.faults)
        return refusal("no_candidate", self._text)

    def _add(self, value: Any, notes: tuple[Repair, ...], at: int, opened: Any = ()) -> bool:
        try:
            candidate = fit(self._target, value, frozenset(map(id, opened)))
        except Misfit as misfit:
            self._misfits.append(misfit)
            return False
        self._fits.append(replace(candidate, repairs=notes + candidate.repairs, at=at))
        return True

    def _try_spans(self) -> None:
        spans = [each for each in self._found.spans if not each.quoted]
        last = self._found.cut
        # `{…}, {…}` in the place of a list: its brackets are missing.
        if self._target.plan.shape.kind == "array" and last is None and self._is_list(spans):
            note = Repair("missing_brackets", "syntax", content=True, at=spans[0].start, cost=2)
            if self._add([each.reading.value for each in spans], (note,), spans[0].start):
                return
        if last is not None and not (last.reading.cut or self._cut or last.quoted):
            spans.append(last)
        bare = self._text.strip().strip("`jsonJSON \r\n")
        for span in spans:
            # Prose and code contain many empty brackets: they are a value only alone.
            if not span.reading.value and bare not in ("[]", "{}"):
                continue
            envelope = span.end - span.start < len(self._text)
            located = (Repair("located", "none", at=span.start),) if envelope else ()
            early = _MEMBER.match(self._text, span.end)
            lost = (Repair("early_end", "none", content=True, at=span.end),) if early else ()
            notes = (*located, *lost, *span.reading.repairs)
            fits = self._add(span.reading.value, notes, span.start, span.reading.open)
            if fits and self._is_misplaced(span):
                read = self._fits[-1]
                note = Repair("early_end", "none", content=True, at=span.end)
                self._fits[-1] = replace(read, repairs=(*read.repairs, note))
            if fits and self._is_beside(span, spans):
                self._fits.pop()
                self._hedged = True

    def _is_misplaced(self, span: Span) -> bool:
        """Returns whether a dropped key may belong to an object that was closed too early.

        `{"arguments": {"where": "id < 10"}, "limit": 3}}` has one closing brace too many. An
        undeclared key of a complete object is dropped without a mark, except beside a call, where
        it may be an argument.
        """
        doubtful = (
            bool(self._target.slots)
            or self._text[span.end :].lstrip()[:1] in ("}", "]")
            or any(each.kind == "missing_comma" for each in span.reading.repairs)
        )
        return doubtful and _keys(self._fits[-1].plain) < _keys(span.reading.value)

    def _is_beside(self, span: Span, spans: list[Span]) -> bool:
        """Returns whether a call is only mentioned: amid prose, or before a question."""
        value = span.reading.value
        entries = value if is_array(value) else [value]
        if not self._target.slots or not any(map(request_of, entries)):
            return False
        # From the last value on, a repeated one included: the rest is the model's closing text.
        end = max(spans[-1].end, self._found.repeated[-1][1] if self._found.repeated else 0)
        if asks(self._text, end):
            return True
        return not (
            starts_line(self._text, span.start)
            or is_behind_mark(self._text, span.start)
            or not self._text[end:].strip(" \t\r\n`~*_.;,)]}>\"'”")
        )

    def _is_list(self, spans: list[Span]) -> bool:
        """Returns whether only commas and blanks stand between several values."""
        gaps = (self._text[left.end : right.start] for left, right in pairwise(spans))
        return len(spans) > 1 and not any(gap.strip(" \t\r\n,") for gap in gaps)

    def _try_requests(self) -> bool:
        """Tries the dialects; returns whether a call was cut off."""
        text = self._found.visible
        labels = bool(self._target.slots)
        for request in self._requests(text, labels):
            if not request.closed:
                self._fits.clear()
                return True
            try:
                self._fits.append(fit_request(self._target, request))
            except Misfit as misfit:
                self._misfits.append(misfit)
        return False

    def _requests(self, text: str, labels: bool) -> list[RawCall]:
        """Returns the calls in a text that are not JSON: labelled, after marks, in Python's
        notation.
        """
        if labels and has_action(text):
            if has_lead(text) and asks(text, 0):
                self._hedged = True
                return []
            request = labelled(text)
            return [request] if request is not None else []
        names = self._target.names()
        requests: list[RawCall] = []
        end = 0
        for block in blocks_in(text, names):
            # Calls that are objects were already found among the values.
            if block.error or any(each.source is not None for each in block.calls):
                continue
            requests += block.calls
            end = block.end
        if requests and self._target.slots and asks(text, end):
            self._hedged = True
            return []
        return requests or self._python(text, names)

    def _python(self, text: str, names: list[str]) -> list[RawCall]:
        body = text.strip().strip("`").removeprefix("python\n").strip()
        reader = CallReader(body, names)
        if not body or not reader.is_python(0):
            return []
        block = reader.python_block(0)
        whole = block.end >= len(body) or not block.closed
        return block.calls if whole and not block.error else []

    def _try_forms(self) -> None:
        """Tries the forms without brackets: constructors, a missing brace, tags, outlines."""
        text = self._found.visible
        for value, notes, opened in self._forms(text):
            if self._fits or self._add(value, notes, 0, opened):
                return

    def _forms(self, text: str) -> Iterator[tuple[Any, tuple[Repair, ...], list[Any]]]:
        span = without_opener(text, self._target.plan)
        if span is not None:
            yield span.reading.value, tuple(span.reading.repairs), span.reading.open
        first = text.find("<")
        elements = elements_in(text[first : text.rfind(">") + 1]) if "</" in text else None
        if elements is not None:
            yield elements, (Repair("elements", "syntax", at=first, cost=2),), []
            return
        # Indented lines have no end mark: if the text was cut off, lines may be missing.
        outline = None if self._cut else outline_in(text)
        if outline is not None and (outline[1] or self._target.plan.names):
            yield outline[0], (Repair("outline", "syntax", not outline[1], 0, cost=2),), []

    def _chosen(self) -> Fit | Unparsed:
        if len(self._fits) == 1:
            return self._fits[0]
        limit = min(each.cost for each in self._fits) + _MARGIN
        distinct: list[Fit] = []
        for each in self._fits:
            if each.cost <= limit and not any(same(each.plain, other.plain) for other in distinct):
                distinct.append(each)
        # Several different values: only the model's own label decides. The last value is often the
        # right one, but sometimes an example of what not to send.
        last = max(distinct, key=lambda each: each.at)
        label = _DECIDED.search(self._text[max(0, last.at - 80) : last.at])
        if len(distinct) == 1 or label:
            return last
        return refusal("ambiguous", self._text)


def _keys(value: Any) -> int:
    """Counts the keys of a value at every depth."""
    if is_array(value):
        return sum(map(_keys, value))
    return len(value) + sum(map(_keys, value.values())) if is_object(value) else 0


def starts_line(text: str, at: int) -> bool:
    """Returns whether only a fence or marks stand before `at` on its line."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    if not line.strip() or line.endswith("<|message|>"):
        return True
    for pattern in (HEADER, NOISE, CALL_OPEN, REASONING_CLOSE, _ENVELOPE):
        line = pattern.sub("", line)
    return not line.strip(" \t,;`~*_#}])\"'.<>=|\ufeff\u200b")


def is_behind_mark(text: str, at: int) -> bool:
    """Returns whether the mark of a call stands directly before `at`."""
    end = at - len(gap) + len(gap.rstrip()) if (gap := text[max(0, at - 60) : at]) else at
    return any(
        each.end() in (end, at)
        for each in CALL_OPEN.finditer(text, max(0, at - 60))
        if each.start() < at
    )


def asks(text: str, at: int) -> bool:
    """Returns whether the text after `at` ends with a question."""
    rest = NOISE.sub("", text[at:]).rstrip(" \t\r\n`*_\"')")
    return rest.endswith(("?", "？"))


_ENVELOPE = re.compile(
    r"(?:```|~~~)\w*|</?[\w|:]{1,40}>|^\s*(?:const |let |var )?\w{1,40} ?=|[\w.]{1,40}\("
    r'|(?:\{\s*)?"[\w ]{1,40}"\s*:'
)
"""Text before a value on its line that is not prose."""


_MARK = (Repair("partial", "syntax", content=True, cost=100),)


def parse_partial(text: str, type_: Any) -> Parsed[Any] | Unparsed:
    """Reads the value that a text shows so far.

    Example:
        ```python
        from taofold.parsing import parse_partial

        assert parse_partial('{"name": "Os', dict[str, str]).value == {"name": "Os"}
        ```

    Args:
        text: The text so far.
        type_: The type of the value.

    Returns:
        The typed value if the text already satisfies the type, else plain JSON data. It holds the
            members and the beginnings of strings that have arrived. It always carries the repair
            `partial`, so code that checks repairs cannot run it.
    """
    target = target_of(type_)
    scanned = scan(text, target.plan)
    span = scanned.cut or (scanned.spans[-1] if scanned.spans else None)
    if span is None:
        return refusal("no_candidate" if text.strip() else "empty", text)
    value = span.reading.value
    if span is scanned.cut:
        with suppress(
            ValueError, TypeError
        ):  # else what the reader understood, without the open string
            value = from_json(text[span.start :], allow_partial="trailing-strings")
    try:
        return Parsed(fit(target, value).value, _MARK)
    except Misfit:
        return Parsed(value, _MARK)

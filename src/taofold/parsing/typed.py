"""Reads one typed value out of a model's text.

The stages, from the cheapest: the compiled validator on the text as it stands; JSON-like values
in the text; tool-call dialects and labels for types that hold a call; outlines without brackets.
Knows nothing about agents or tools.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, TypeVar, cast

from pydantic import ValidationError

from taofold.parsing.coercion import Misfit, Text
from taofold.parsing.elements import elements_in
from taofold.parsing.feedback import refusal
from taofold.parsing.fitting import Fit, Target, fit, fit_request, same, target_of
from taofold.parsing.dialects import pythonic, requests_in
from taofold.parsing.hedging import is_hedged
from taofold.parsing.labels import has_action
from taofold.parsing.outline import outline_in
from taofold.parsing.outcome import Level, Parsed, Repair, Unparsed
from taofold.parsing.shape import Plan, Shape, fold
from taofold.parsing.spans import Scan, Span, scan, unescaped, without_opener

T = TypeVar("T")
_CUT = frozenset({"length", "max_tokens", "max_output_tokens", "model_length", "token_limit"})
_ORDER = {"none": 0, "syntax": 1, "schema": 2}
_SCALARS = frozenset({"string", "integer", "number", "boolean", "enum", "null"})


def is_cut(finish_reason: str | None) -> bool:
    """Whether a provider's finish reason means that the output limit ended the text."""
    return finish_reason is not None and finish_reason.lower() in _CUT


def parse(
    text: str,
    type_: type[T] | Any,
    *,
    level: Level = "schema",
    finish_reason: str | None = None,
) -> Parsed[T] | Unparsed:
    """Reads a value of a type out of text, or refuses; never raises for any text.

    Args:
        text: What the model wrote.
        type_: Anything that Pydantic can validate.
        level: How much may be changed to read it: `none` only locates and unwraps, `syntax` also
            repairs notation, `schema` also converts values without loss.
        finish_reason: The provider's; `length` and its synonyms mean that the text was cut.
    """
    target = target_of(type_)
    try:
        if "NaN" in text or "Infinity" in text:
            raise ValueError
        value = target.adapter.validate_json(text, strict=True)
        if not target.plan.lenient or not _is_overlooked(text, target.plan):
            return Parsed(value)
    except (ValidationError, ValueError):
        pass
    if not text.strip():
        return refusal("empty", text)
    result = _search(text, target, is_cut(finish_reason), 0)
    if isinstance(result, Unparsed):
        return result
    allowed = _ORDER[level]
    beyond = [each for each in result.repairs if _ORDER[each.level] > allowed]
    if beyond:
        note = f"The answer needs a repair that is not allowed here: {beyond[0].kind}."
        return refusal("invalid", text, note=note)
    return Parsed(result.value, result.repairs)


def _search(text: str, target: Target, cut: bool, depth: int) -> Fit | Unparsed:
    text = text.replace('<|"|>', "\x02")
    inner = unescaped(text) if depth < 2 and target.plan.shape.kind not in _SCALARS else ""
    if inner:
        result = _search(inner, target, cut, depth + 1)
        if isinstance(result, Fit):
            note = Repair("string_encoded", "syntax", cost=2)
            return replace(result, repairs=(note, *result.repairs), at=0)
        return result
    found = scan(text, target.plan)
    if found.unfinished:
        return refusal("incomplete", text, note="The reply ends inside its reasoning.")
    if found.exhausted:
        return refusal("too_large", text)
    visible = found.visible
    if target.plan.shape.kind in _SCALARS:
        return _scalar(visible, target, cut)
    fits, misfits = _fit_spans(found, target, text, cut)
    incomplete = found.cut is not None
    if not fits and (target.slots or found.spans or not incomplete):
        unended = False
        requests = requests_in(visible, names_of(target), labels=bool(target.slots))
        for request in requests:
            unended = unended or not request.closed
            if not request.closed:
                continue
            try:
                fits.append(fit_request(target, request))
            except Misfit as misfit:
                misfits.append(misfit)
        if unended:
            fits, incomplete = [], True
        if fits and not has_action(visible) and is_hedged(visible, fits[0].at, len(visible)):
            fits = []
    elif fits and found.cut is not None and all(each.at != found.cut.start for each in fits):
        return refusal("incomplete", text)
    if not fits and not incomplete:
        fits = _other_forms(visible, target, cut, depth, misfits)
    if fits:
        return _chosen(fits, text)
    if incomplete or cut or any(each.cut for each in misfits):
        return refusal("incomplete", text)
    if misfits:
        nearest = min(misfits, key=lambda each: len(each.faults) + 9 * (not each.faults[0].path))
        return refusal("invalid", text, nearest.faults)
    return refusal("no_candidate", text)


def _fit_spans(
    found: Scan, target: Target, text: str, cut: bool
) -> tuple[list[Fit], list[Misfit]]:
    fits: list[Fit] = []
    misfits: list[Misfit] = []
    spans = found.spans
    last = found.cut
    if last is not None and not last.reading.cut and not cut:
        spans = [*spans, last]
    if target.plan.shape.kind == "array" and len(spans) > 1 and last is None:
        try:
            merged = _lines(spans, text)
            one = fit(target, [each.reading.value for each in merged])
            note = Repair("missing_brackets", "syntax", content=True, at=spans[0].start, cost=2)
            return [replace(one, repairs=(note, *one.repairs), at=spans[0].start)], []
        except Misfit:
            pass
    for span in spans:
        empty = not span.reading.value and text.strip().strip("`jsonJSON \r\n") not in ("[]", "{}")
        if span.quoted or empty:
            continue
        opened = frozenset(map(id, span.reading.open))
        try:
            one = fit(target, span.reading.value, opened)
        except Misfit as misfit:
            misfits.append(misfit)
            continue
        if target.slots and is_hedged(text, span.start, span.end):
            continue
        envelope = span.end - span.start < len(text)
        located = (Repair("located", "none", at=span.start),) if envelope else ()
        repairs = (*located, *span.reading.repairs, *one.repairs)
        fits.append(replace(one, repairs=repairs, at=span.start))
    return fits, misfits


def _lines(spans: list[Span], text: str) -> list[Span]:
    """Objects one after the other, read as the list that was asked for."""
    for left, right in zip(spans, spans[1:], strict=False):
        if text[left.end : right.start].strip(" \t\r\n,"):
            raise Misfit([])
    return spans


def _other_forms(
    text: str, target: Target, cut: bool, depth: int, misfits: list[Misfit]
) -> list[Fit]:
    """Forms that no bracket marks: a string that holds JSON, constructors, outlines."""
    fits: list[Fit] = []
    for request in pythonic(text, names_of(target)):
        try:
            fits.append(fit_request(target, request))
        except Misfit as misfit:
            misfits.append(misfit)
    if fits:
        return fits
    candidates: list[tuple[Any, tuple[Repair, ...]]] = []
    headless = without_opener(text, target.plan) if '"' in text.lstrip()[:1] else None
    if headless is not None:
        repairs = tuple(headless.reading.repairs)
        opened = frozenset(map(id, headless.reading.open))
        try:
            one = fit(target, headless.reading.value, opened)
            return [replace(one, repairs=repairs + one.repairs, at=headless.start)]
        except Misfit as misfit:
            misfits.append(misfit)
    if "</" in text:
        elements = elements_in(text[text.find("<") : text.rfind(">") + 1])
        if elements is not None:
            candidates.append((elements, (Repair("elements", "syntax", at=text.find("<"), cost=2),)))
    outline = None if cut or candidates else outline_in(text)
    if outline is not None and (outline[1] or target.plan.names):
        note = Repair("outline", "syntax", content=not outline[1], at=0, cost=2)
        candidates.append((outline[0], (note,)))
    for value, notes in candidates:
        try:
            one = fit(target, value)
            fits.append(replace(one, repairs=notes + one.repairs, at=0))
        except Misfit as misfit:
            misfits.append(misfit)
    return fits


def _scalar(text: str, target: Target, cut: bool) -> Fit | Unparsed:
    body = text.strip()
    if cut:
        return refusal("incomplete", text)
    if target.plan.shape.kind != "string":
        body = body.strip("`*\"'“”. \n")
    try:
        one = fit(target, Text(body))
    except Misfit as misfit:
        return refusal("invalid", text, misfit.faults)
    return replace(one, repairs=(Repair("located", "none"), *one.repairs))


def _chosen(fits: list[Fit], text: str) -> Fit | Unparsed:
    cheapest = min(each.cost for each in fits)
    near = [each for each in fits if each.cost <= cheapest + 3]
    distinct: list[Fit] = []
    for each in near:
        if not any(same(each.plain, other.plain) for other in distinct):
            distinct.append(each)
    if len(distinct) == 1:
        return distinct[0]
    last = max(distinct, key=lambda each: each.at)
    before = text[max(0, last.at - 80) : last.at].lower()
    if any(word in before for word in ("final", "corrected", "revised", "my decision")):
        return last
    return refusal("ambiguous", text)


def _is_overlooked(text: str, plan: Plan) -> bool:
    """Whether the validator ignored a key that is a declared one in another case."""
    pending: list[tuple[Any, Shape]] = [(json.loads(text), plan.shape)]
    while pending:
        value, shape = pending.pop()
        if shape.kind == "union":
            pending.extend((value, each) for each in shape.options if each.fields or each.item)
        elif isinstance(value, dict) and shape.fields:
            given = cast("dict[str, Any]", value)
            if not given.keys() <= shape.fields.keys():
                names = [shape.folded.get(fold(key), "") for key in given if key not in shape.fields]
                if any(name and name not in given for name in names):
                    return True
                if shape.extra is None and given.keys().isdisjoint(shape.fields):
                    return True
            for name, each in shape.fields.items():
                if each.kind in ("object", "array", "union") and name in given:
                    pending.append((given[name], each))
        elif isinstance(value, list) and shape.item is not None:
            if shape.item.kind in ("object", "array", "union"):
                pending.extend((each, shape.item) for each in cast("list[Any]", value))
    return False


def names_of(target: Target) -> list[str]:
    """The names that a call in the text may have: the type's tools, or its own titles."""
    names: list[str] = []
    for slot in target.slots:
        names += [each for each in slot.shape.fields[slot.tool].values if isinstance(each, str)]
    if not target.slots:
        names = [each.title for each in (target.plan.shape, *target.plan.shape.options)]
    return [each for each in names if each]

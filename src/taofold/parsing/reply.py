"""Reads the reply of an agent's model: a remark and calls, prose, or a refusal.

Knows nothing about running tools. A reply is never half read: what looks like an action and
cannot be understood is an error, never prose.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, cast

from taofold.parsing.coercion import Coercion, Misfit, Text, plain
from taofold.parsing.decision import (
    FINISH,
    Object,
    Tools,
    arguments_of,
    call_of,
    is_decision,
    turn_of,
)
from taofold.parsing.dialects import labelled, requests_in
from taofold.parsing.feedback import refusal
from taofold.parsing.fitting import Request, same
from taofold.parsing.hedging import is_hedged
from taofold.parsing.labels import Labelled, Section, is_labelled, parameters_of, sections_of
from taofold.parsing.outcome import RAW_LIMIT, Repair, Unparsed
from taofold.parsing.shape import Plan, Shape, fold, plan_of_schema
from taofold.parsing.spans import Scan, Span, scan
from taofold.parsing.turn import Call, Prose, Remark, Turn
from taofold.parsing.typed import is_cut

_DECODER = json.JSONDecoder()
_RESERVED = ("finish", "ask_user")
_KEYS = ("thought", "thought_type", "because", "action", "actions", "tool", "parameters", "name")
_KEYS += ("arguments", "args", "action_input", "rationale", "tool_calls", "final_answer", "answer")
_PLAN = Plan(Shape("any"), frozenset(map(fold, _KEYS)), open=True, lenient=False)
_MARKER = re.compile(
    r"(?:<tool_calls?>|\[TOOL_CALLS\]|<\|python_tag\|>|functools|<\|tool_calls?(?:_start|_begin)?\|>"
    r"|<\|START_ACTION\|>|```tool_call|;)[ \t\r\n]*\Z"
)
_BROKEN = re.compile(
    r"[{,]\s{0,8}[\"'“]?(?:tool|action|actions|tool_name|tool_calls|action_input|thought)"
    r"[\"'”]?\s{0,4}:|<tool_calls?>|\[TOOL_CALLS\]|<function=|<invoke |<\|python_tag\|>"
    r"|<｜tool▁call|<\|tool_call|<\|START_ACTION"
)
_INVALID = "The action could not be read. Send one valid JSON object and nothing else."
_SEVERAL = "The reply holds several different decisions. Send exactly one."


def read_reply(
    text: str,
    tools: Collection[str] | Mapping[str, Mapping[str, Any]],
    *,
    finish_reason: str | None = None,
) -> Turn | Prose | Unparsed:
    """Reads one reply.

    Args:
        text: What the model wrote.
        tools: The offered names, or their names with the JSON schemas of their parameters.
        finish_reason: The provider's; `length` and its synonyms mean that the text was cut.
    """
    body = text.strip()
    if body[:1] == "{" and body[-1:] == "}":
        try:
            value = _DECODER.decode(body)
        except (ValueError, RecursionError):
            pass
        else:
            if is_decision(value):
                return turn_of(value, tools)
    if not body:
        return refusal("empty", text, note="The reply is empty. Send a thought and an action.")
    found = scan(text.replace('<|"|>', "\x02"), _PLAN)
    if found.unfinished:
        return refusal("incomplete", text, note="The reply ends inside its reasoning.")
    if found.exhausted:
        return refusal("too_large", text)
    if not found.visible.strip():
        return refusal("empty", text, note="The reply holds only reasoning. Send an action.")
    return _read(found, text, tools, finish_reason)


def read_call(name: str, arguments: str | dict[str, Any], id: str = "") -> Call:
    """Reads a provider's native tool call; unreadable arguments become `Call.error`."""
    parameters, repairs, error = arguments_of(name, arguments, ())
    return Call(name, parameters, "", id, repairs, error)


def _read(found: Scan, text: str, tools: Tools, finish_reason: str | None) -> Turn | Prose | Unparsed:
    cut = is_cut(finish_reason)
    visible = found.visible
    if is_labelled(visible) and not _starts_with_object(visible):
        return _labelled(visible, text, tools, cut, finish_reason is not None and not cut)
    spans = [each for each in found.spans if not each.quoted]
    last = found.cut
    if last is not None and not last.quoted:
        begins = not text[: last.start].strip() or _MARKER.search(text, 0, last.start)
        if begins or is_decision(last.reading.value) or _BROKEN.match(text, last.start):
            whole = finish_reason is not None and not cut and not last.reading.cut
            if not whole or last.reading.open != [last.reading.value]:
                return refusal("incomplete", text)
            last.reading.repairs.append(
                Repair("missing_closer", "syntax", content=True, at=len(text), cost=3)
            )
            spans.append(last)
    marked = _marked(spans, text, tools)
    if marked is not None:
        return marked
    turns = _turns(spans, text, tools)
    if len(turns) > 1:
        known = [each for each in turns if _is_offered(each, tools)]
        if len(known) != 1:
            return refusal("ambiguous", text, note=_SEVERAL)
        turns = known
    if turns:
        return turns[0]
    requests = requests_in(visible, (*tools, *_RESERVED))
    if requests:
        result = _batch(requests, visible, text, tools, cut)
        if result is not None:
            return result
    broken = any(
        not is_hedged(visible, each.start(), each.end()) for each in _BROKEN.finditer(visible)
    )
    if cut:
        return refusal("incomplete", text)
    if broken and not found.spans:
        return refusal("invalid", text, note=_INVALID)
    return Prose(visible.strip())


def _starts_with_object(text: str) -> bool:
    return text.lstrip().removeprefix("```json").lstrip()[:1] == "{"


def _turns(spans: list[Span], text: str, tools: Tools) -> list[Turn]:
    decisions: list[Any] = []
    turns: list[Turn] = []
    for span in spans:
        value = span.reading.value
        entries: list[Any] = value if isinstance(value, list) else [value]
        if not entries or not all(map(is_decision, entries)) or any(same(value, d) for d in decisions):
            continue
        if is_hedged(text, span.start, span.end):
            continue
        decisions.append(value)
        notes = (Repair("located", "none", at=span.start), *span.reading.repairs)
        if isinstance(value, list):
            calls = tuple(call_of(each, tools) for each in entries)
            turns.append(Turn(_remark_before(text, span.start), calls, notes))
        else:
            turns.append(turn_of(cast("Object", value), tools, notes))
    return turns


def _marked(spans: list[Span], text: str, tools: Tools) -> Turn | None:
    """Several objects behind a dialect's marker are one batch of offered tools."""
    calls: list[Call] = []
    start = -1
    notes: list[Repair] = []
    for span in spans:
        if not calls and not _MARKER.search(text, max(0, span.start - 40), span.start):
            continue
        value = span.reading.value
        entries: list[Any] = value if isinstance(value, list) else [value]
        found = [call_of(each, tools) for each in entries if isinstance(each, dict)]
        if not found or any(each.tool not in tools and each.tool not in _RESERVED for each in found):
            return None
        start = span.start if start < 0 else start
        calls += found
        notes += span.reading.repairs
    if not calls:
        return None
    remark = _remark_before(_MARKER.sub("", text[:start]), start)
    return Turn(remark, tuple(calls), (Repair("dialect", "none", at=start), *notes))


def _remark_before(text: str, end: int) -> Remark | None:
    said = text[:end].strip().strip("`").strip()
    return Remark(said) if said and not said.startswith("<") else None


def _is_offered(turn: Turn, tools: Tools) -> bool:
    return bool(turn.calls) and all(
        not call.error and (call.tool in tools or call.tool in _RESERVED) for call in turn.calls
    )


def _batch(
    requests: list[Request], visible: str, text: str, tools: Tools, cut: bool
) -> Turn | Unparsed | None:
    first = requests[0].at
    prose = visible[:first].strip() if first > 0 else ""
    known = [each for each in requests if each.tool in tools or each.tool in _RESERVED]
    if is_hedged(visible, first, len(visible)):
        return None
    if any(not each.closed for each in requests):
        return refusal("incomplete", text)
    if len(known) < len(requests) and prose:
        return None
    calls = tuple(_call(each, tools) for each in requests)
    return Turn(_remark_before(visible, first), calls, (Repair("dialect", "none", at=first),))


def _call(request: Request, tools: Tools, rationale: str = "") -> Call:
    given = request.parameters
    if isinstance(given, Text):
        parameters, repairs, error = arguments_of(request.tool, str(given), tools)
        return Call(request.tool, parameters, rationale, "", (*request.repairs, *repairs), error)
    if given is None:
        return Call(request.tool, {}, rationale, "", request.repairs)
    if not isinstance(given, dict):
        parameters, repairs, error = arguments_of(request.tool, given, tools)
        return Call(request.tool, parameters, rationale, "", (*request.repairs, *repairs), error)
    values = cast("Object", given)
    schema = tools.get(request.tool) if isinstance(tools, Mapping) else None
    if any(isinstance(each, Text) for each in values.values()):
        coercion = Coercion()
        try:
            shape = plan_of_schema(schema or {}).shape
            values = coercion.fit(values, shape)
        except Misfit:
            values = {k: plain(v) if isinstance(v, Text) else v for k, v in values.items()}
        request_repairs = (*request.repairs, *coercion.repairs)
        return Call(request.tool, values, rationale, "", request_repairs)
    return Call(request.tool, values, rationale, "", request.repairs)


def _rationale(parts: Labelled, section: Section) -> str:
    said = parts.text("rationale", "justification")
    if said is None:
        given, _ = parameters_of(section.text.partition("\n")[2])
        said = next((given[k] for k in ("rationale", "justification") if k in given), "")
    return str(said)


def _labelled(
    visible: str, text: str, tools: Tools, cut: bool, finished: bool
) -> Turn | Unparsed:
    parts = sections_of(visible)
    if cut and not parts.ended:
        return refusal("incomplete", text)
    remark: Remark | None = None
    calls: tuple[Call, ...] = ()
    for section in parts.sections:
        if section.label == "thought" and remark is None and section.text.strip():
            remark = Remark(section.text.strip(), section.tag.strip().lower() or None)
        elif section.label == "final_answer" and not calls:
            calls = (Call(FINISH, {"answer": section.text.strip()}),)
        elif section.label == "action" and not calls:
            request = labelled(visible)
            if request is None:
                return refusal("invalid", text, note="The action names no tool.")
            if not request.closed:
                return refusal("incomplete", text)
            if finished:  # a stop sequence takes the end line away
                kept = tuple(each for each in request.repairs if each.kind != "open_end")
                request = replace(request, repairs=kept)
            calls = (_call(request, tools, _rationale(parts, section)),)
    return Turn(remark, calls, (Repair("labels", "none"),), parts.cut[:RAW_LIMIT])

"""Turns what a text holds, spans and dialect calls, into turns with a batch of calls.

Knows nothing about prose or refusals beyond saying that there is no turn.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from taofold.parsing.coercion import Coercion, Misfit
from taofold.parsing.conversion import Text, plain
from taofold.parsing.decision import (
    Tools,
    arguments_of,
    call_of,
    is_decision,
    schema_of,
    turn_of,
)
from taofold.parsing.fitting import Request, same
from taofold.parsing.hedging import is_hedged
from taofold.parsing.kinds import is_list, is_object
from taofold.parsing.outcome import Repair
from taofold.parsing.shape import plan_of_schema
from taofold.parsing.spans import Span
from taofold.parsing.turn import Call, Remark, Turn

RESERVED = ("finish", "ask_user")
"""Actions that every agent has."""
MARKER = re.compile(
    r"(?:<tool_calls?>|\[TOOL_CALLS\]|<\|python_tag\|>|functools|```tool_call"
    r"|<\|tool_calls?(?:_start|_begin)?\|>|<\|START_ACTION\|>|;)[ \t\r\n]*\Z"
)
"""What a dialect writes just before the JSON of its calls."""
_REACH = 40
_SPILLED = re.compile(r'[,}\]\s]*+"[^"\n]{1,80}"\s*+:')
"""A member that follows the object which it belongs to."""


def is_offered(tool: str, tools: Tools) -> bool:
    """Whether a name may be called."""
    return tool in tools or tool in RESERVED


def turns_in(spans: Sequence[Span], text: str, tools: Tools) -> list[Turn]:
    """The different decisions among the values of a text, hedged ones left out."""
    decisions: list[Any] = []
    turns: list[Turn] = []
    for span in spans:
        value = span.reading.value
        entries = value if is_list(value) else [value]
        if not entries or not all(map(is_decision, entries)):
            continue
        if any(same(value, each) for each in decisions):
            continue
        if is_hedged(text, span.start, span.end):
            continue
        decisions.append(value)
        notes = (Repair("located", "none", at=span.start), *_notes(span, text))
        if is_object(value):
            turn = turn_of(value, tools, notes)
            remark = turn.remark or _remark_before(text, span.start)
            turns.append(Turn(remark, turn.calls, notes))
        else:
            calls = tuple(call_of(each, tools) for each in entries)
            turns.append(Turn(_remark_before(text, span.start), calls, notes))
    return turns


def marked_turn(spans: Sequence[Span], text: str, tools: Tools) -> Turn | None:
    """The batch of offered tools behind a dialect's marker, if there is one."""
    calls: list[Call] = []
    start = -1
    notes: list[Repair] = []
    for span in spans:
        if not calls and not MARKER.search(text, max(0, span.start - _REACH), span.start):
            continue
        value = span.reading.value
        entries = value if is_list(value) else [value]
        found = [call_of(each, tools) for each in entries if is_object(each)]
        if not found or not all(is_offered(each.tool, tools) for each in found):
            return None
        start = span.start if start < 0 else start
        calls += found
        notes += _notes(span, text)
    if not calls or is_hedged(text, start, len(text)):
        return None
    remark = _remark_before(MARKER.sub("", text[:start]), start)
    return Turn(remark, tuple(calls), (Repair("dialect", "none", at=start), *notes))


def dialect_turn(requests: Sequence[Request], text: str, tools: Tools) -> Turn | None:
    """The batch of calls of a dialect; inside prose, every one must be offered."""
    first = requests[0].at
    known = all(is_offered(each.tool, tools) for each in requests)
    if not known and text[: max(first, 0)].strip():
        return None
    calls = tuple(call_of_request(each, tools) for each in requests)
    return Turn(_remark_before(text, first), calls, (Repair("dialect", "none", at=first),))


def call_of_request(request: Request, tools: Tools, rationale: str = "") -> Call:
    """Reads the arguments of a call found in text, typed by the tool's schema if it is known."""
    given = request.parameters
    if given is None:
        return Call(request.tool, {}, rationale, "", request.repairs)
    if not is_object(given):
        source = str(given) if isinstance(given, str) else given
        parameters, repairs, error = arguments_of(request.tool, source, tools)
        return Call(request.tool, parameters, rationale, "", request.repairs + repairs, error)
    if not any(isinstance(each, Text) for each in given.values()):
        return Call(request.tool, given, rationale, "", request.repairs)
    schema = schema_of(request.tool, tools)
    coercion = Coercion()
    try:
        values = coercion.fit(given, plan_of_schema(schema or {}).shape)
    except Misfit:  # the runtime's validator will say what is wrong
        values = {k: plain(v) if isinstance(v, Text) else v for k, v in given.items()}
    return Call(request.tool, values, rationale, "", (*request.repairs, *coercion.repairs))


def _notes(span: Span, text: str) -> list[Repair]:
    """The repairs of a value, and whether it ended before its last members."""
    if _SPILLED.match(text, span.end) is None:
        return span.reading.repairs
    note = Repair("stray_closer", "syntax", content=True, at=span.end, cost=3)
    return [*span.reading.repairs, note]


def _remark_before(text: str, end: int) -> Remark | None:
    said = text[:end].strip().strip("`").removesuffix("```json").strip()
    return Remark(said) if said and said[0] not in "<[{" else None

"""Reads the reply of an agent's model: a remark and calls, prose, or a refusal.

Knows nothing about running tools. A reply is never half read: what looks like an action and
cannot be understood is an error, never prose.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from msgspec.structs import replace as cut

from taofold.parsing.actions import NO_TOOL, described, labelled
from taofold.parsing.batch import (
    MARKER,
    RESERVED,
    call_of_request,
    dialect_turn,
    is_offered,
    marked_turn,
    turns_in,
)
from taofold.parsing.decision import (
    Tools,
    is_decision,
    turn_of,
)
from taofold.parsing.dialects import cleaned, requests_in
from taofold.parsing.feedback import refusal
from taofold.parsing.hedging import is_hedged
from taofold.parsing.keys import FINISH, PARAMETER_KEYS
from taofold.parsing.kinds import is_object
from taofold.parsing.labels import Labelled, Section, is_labelled, parameters_of, sections_of
from taofold.parsing.native import finite
from taofold.parsing.outcome import RAW_LIMIT, Repair, Unparsed
from taofold.parsing.shape import ANY, Plan, fold
from taofold.parsing.spans import Scan, Span, scan
from taofold.parsing.strict import DECODER, is_finite
from taofold.parsing.turn import Call, Prose, Remark, Turn
from taofold.parsing.typed import is_cut

_KEYS = (
    "thought thought_type because action actions tool parameters name arguments args"
    " action_input rationale tool_calls final_answer answer"
)
_PLAN = Plan(ANY, frozenset(map(fold, _KEYS.split())), open=True, lenient=False)
_BROKEN = re.compile(
    r"[{,]\s{0,8}[\"'“]?(?:tool|action|actions|tool_name|tool_calls|action_input|thought)"
    r"[\"'”]?\s{0,4}:|<tool_calls?>|\[TOOL_CALLS\]|<function=|<invoke |<\|python_tag\|>"
    r"|<｜tool▁call|<\|tool_call|<\|START_ACTION"
)
_FORMED = re.compile(r"[{<(\[:：|｜‖]|assistantfinal", re.IGNORECASE)
"""No form of a decision, of reasoning or of another's words does without one of these."""
_FOREIGN = re.compile(
    r"^[ \t#*_]{0,8}(?:observation|tool[ _]results?|function[ _]results?)[ \t*_]{0,4}[:：]"
    r"|<tool_response>|<function_results?>|\[TOOL_RESULTS\]|<\|im_start\|>(?:user|tool)"
    r"|<\|start_header_id\|>(?:user|tool|ipython)",
    re.IGNORECASE | re.MULTILINE,
)
_INVALID = "The action could not be read. Send one valid JSON object and nothing else."
_SEVERAL = "The reply holds several different decisions. Send exactly one."
_NOT_YOURS = "Observations are written by the tools, not by you. Send a thought and an action."


def read_reply(
    text: str,
    tools: Collection[str] | Mapping[str, Mapping[str, Any]],
    *,
    finish_reason: str | None = None,
) -> Turn | Prose | Unparsed:
    """Reads one reply; never raises for any text.

    Args:
        text: What the model wrote.
        tools: The offered names, or their names with the JSON schemas of their parameters.
        finish_reason: The provider's; `length` and its synonyms mean that the text was cut.
    """
    body = text.strip()
    if body[:1] == "{" and body[-1:] == "}":
        try:
            value = DECODER.decode(body)
        except (ValueError, RecursionError):
            pass
        else:
            if is_decision(value):
                return turn_of(value, tools)
    if not body:
        return refusal("empty", text, note="The reply is empty. Send a thought and an action.")
    if _FORMED.search(body) is None and not is_cut(finish_reason):
        return Prose(body)
    result = _Reply(cleaned(text), tools, finish_reason).read()
    if not isinstance(result, Turn) or all(is_finite(call.parameters) for call in result.calls):
        return result
    return cut(result, calls=tuple(map(finite, result.calls)))


class _Reply:
    def __init__(self, text: str, tools: Tools, finish_reason: str | None) -> None:
        self._text = text
        self._tools = tools
        self._reason = finish_reason
        self._cut = is_cut(finish_reason)
        self._finished = finish_reason is not None and not self._cut

    def read(self) -> Turn | Prose | Unparsed:
        found = scan(self._text, _PLAN)
        if found.unfinished:
            return self._refuse("incomplete", "The reply ends inside its reasoning.")
        if found.exhausted:
            return refusal("too_large", self._text)
        if not found.visible.strip():
            return self._refuse("empty", "The reply holds only reasoning. Send an action.")
        if is_labelled(found.visible) and not _starts_with_object(found.visible):
            return self._labelled(found.visible)
        foreign = self._foreign(found)
        if foreign >= 0:
            own = self._text[:foreign]
            if not own.strip():
                return self._refuse("no_candidate", _NOT_YOURS)
            result = _Reply(own, self._tools, None).read()
            said = self._text[foreign : foreign + RAW_LIMIT]
            return cut(result, role_violation=said) if isinstance(result, Turn) else result
        return self._decision(found)

    def _refuse(self, reason: Any, note: str) -> Unparsed:
        return refusal(reason, self._text, note=note)

    def _foreign(self, found: Scan) -> int:
        """Where the model speaks in another's place, outside the values; -1 if it does not."""
        ends = iter([*found.spans, *([found.cut] if found.cut else [])])
        span = next(ends, None)
        for match in _FOREIGN.finditer(self._text):
            at = match.start()
            while span is not None and span.end <= at:
                span = next(ends, None)
            if span is None or at < span.start:
                return at
        return -1

    def _decision(self, found: Scan) -> Turn | Prose | Unparsed:
        spans = [each for each in found.spans if not each.quoted]
        last = found.cut
        if last is not None and not last.quoted and self._is_begun(last):
            if not self._finished or last.reading.cut:
                return refusal("incomplete", self._text)
            if last.reading.open != [last.reading.value]:
                return refusal("incomplete", self._text)
            note = Repair("missing_closer", "syntax", content=True, at=len(self._text), cost=3)
            last.reading.repairs.append(note)
            spans.append(last)
        marked = marked_turn(spans, self._text, self._tools)
        turns = [marked] if marked else turns_in(spans, self._text, self._tools)
        if len(turns) > 1:
            turns = [each for each in turns if self._is_offered(each)]
            if len(turns) != 1:
                return self._refuse("ambiguous", _SEVERAL)
        if turns and last in spans and _is_bare(last, turns[0]):
            return refusal("incomplete", self._text)
        if turns:
            return turns[0]
        return self._dialect(found.visible, bool(found.spans))

    def _is_begun(self, span: Span) -> bool:
        """Whether a value that the end of the text cut off was to be a decision."""
        before = self._text[: span.start].strip()
        return bool(
            not before
            or MARKER.search(self._text, 0, span.start)
            or is_decision(span.reading.value)
            or _BROKEN.match(self._text, span.start)
        )

    def _is_offered(self, turn: Turn) -> bool:
        return bool(turn.calls) and all(
            not call.error and is_offered(call.tool, self._tools) for call in turn.calls
        )

    def _dialect(self, visible: str, has_values: bool) -> Turn | Prose | Unparsed:
        requests = requests_in(visible, (*self._tools, *RESERVED))
        if requests and not is_hedged(visible, requests[0].at, len(visible)):
            if not all(each.closed for each in requests):
                return refusal("incomplete", self._text)
            turn = dialect_turn(requests, visible, self._tools)
            if turn is not None:
                return turn
        if self._cut:
            return refusal("incomplete", self._text)
        mark = None if has_values else _BROKEN.search(visible)
        if mark is not None and not is_hedged(visible, mark.start(), mark.end()):
            return self._refuse("invalid", _INVALID)
        return Prose(visible.strip())

    def _labelled(self, visible: str) -> Turn | Prose | Unparsed:
        parts = sections_of(visible)
        if self._cut and not parts.ended:
            return refusal("incomplete", self._text)
        if not parts.sections or is_hedged(visible, parts.sections[0].at, len(visible)):
            return Prose(visible.strip())
        thought = next((p for p in parts.sections if p.label == "thought" and p.text), None)
        remark = (
            Remark(thought.text.strip(), thought.tag.strip().lower() or None) if thought else None
        )
        notes = (Repair("labels", "none"),)
        deciding = ("action", "final_answer")
        section = next((each for each in parts.sections if each.label in deciding), None)
        violation = parts.cut[:RAW_LIMIT]
        if section is None:
            return Turn(remark, (), notes, violation)
        if section.label == "final_answer":
            answer = Call(FINISH, {"answer": section.text.strip()})
            return Turn(remark, (answer,), notes, violation)
        given = parts.text("action_input")
        turn = None if given else described(section.text, self._text, self._tools)
        if isinstance(turn, Turn):
            return Turn(remark or turn.remark, turn.calls, (*notes, *turn.repairs), violation)
        if turn is not None:
            return turn
        request = labelled(visible)
        if request is None:
            return self._refuse("invalid", NO_TOOL)
        if not request.closed:
            return refusal("incomplete", self._text)
        if self._finished:  # a stop sequence takes the end line away
            kept = tuple(each for each in request.repairs if each.kind != "open_end")
            request = replace(request, repairs=kept)
        call = call_of_request(request, self._tools, _rationale(parts, section))
        return Turn(remark, (call,), notes, violation)


def _is_bare(span: Span | None, turn: Turn) -> bool:
    """Whether an object lost its end before the arguments of its call were reached."""
    value = span.reading.value if span is not None else None
    given = is_object(value) and any(key in value for key in PARAMETER_KEYS)
    return not given and any(not (call.parameters or call.error) for call in turn.calls)


def _starts_with_object(text: str) -> bool:
    return text.lstrip().removeprefix("```json").lstrip()[:1] == "{"


def _rationale(parts: Labelled, section: Section) -> str:
    said = parts.text("rationale", "justification")
    if said is None:
        given, _ = parameters_of(section.text.partition("\n")[2])
        said = next((given[key] for key in ("rationale", "justification") if key in given), "")
    return str(said)

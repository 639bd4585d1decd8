"""Reads the reply of an agent's model, and a provider's native call (`read_call`).

A reply is a remark and calls, prose, or a refusal. The position of a call decides its status, never
the words around it. A call counts if it is the whole reply, stands in the only fence at its end, or
follows a mark of a model family. Anywhere else the model is asked again. Text beside a call is
marked. A reply is never read in part: text that looks like a call and cannot be understood is an
error, never prose. Knows nothing about running tools.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from heapq import merge
from itertools import islice, pairwise
from typing import Any, Final

from msgspec.structs import replace

from taofold.core.json_values import DECODER, flaw_of, is_array, is_object
from taofold.core.late_patterns import late
from taofold.core.reply import is_cut
from taofold.core.values import FINISH
from taofold.parsing.arguments import arguments_of, as_declared, parameter_names
from taofold.parsing.decision import (
    NAMELESS,
    SEVERAL,
    call_of,
    call_of_request,
    calls_in,
    is_decision,
    turn_of,
)
from taofold.parsing.jsonlike.seams import doubt_of
from taofold.parsing.labels import is_labelled, read_labelled
from taofold.parsing.markup.calls import Block, CallReader, RawCall
from taofold.parsing.markup.families import (
    CALL_CLOSE,
    CALL_OPEN,
    ENDS,
    FOREIGN,
    FOREIGN_LINE,
    LEFTOVER,
    NOISE,
    NOISE_LEAD,
    NOISE_TOKEN,
)
from taofold.parsing.outcome import (
    BESIDE,
    OPEN_END,
    RAW_LIMIT,
    REPEATED,
    SECOND_LIST,
    UNOPENED,
    Call,
    Prose,
    Reason,
    Remark,
    Repair,
    Turn,
    Unparsed,
)
from taofold.parsing.protocol_keys import PARAMETER_KEYS, RESERVED, Tools, is_offered
from taofold.parsing.schema.coercion import refusal
from taofold.parsing.schema.reading_plan import ANY, ReadingPlan, fold
from taofold.parsing.schema.scalars import same
from taofold.parsing.spans import Scan, Span, scan

WHOLE: Final = "tool_calls"
"""The finish reason of a reply whose calls are complete."""


def read_call(
    name: str,
    arguments: str | dict[str, Any],
    id: str = "",  # noqa: A002
    *,
    finish_reason: str | None = None,
    schema: Mapping[str, Any] | None = None,
) -> Call:
    """Reads a provider's native tool call; unreadable arguments become `Call.error`.

    Empty text means no arguments, with two exceptions in which the arguments were lost. The output
    limit ended the text (`finish_reason`), or the tool has parameters (`schema`) and the provider
    does not report that the calls are complete. A call with only default values is then not what
    the model asked for.

    Example:
        ```python
        from taofold.parsing import read_call

        assert read_call("look", '{"path": "a.py",}').parameters == {"path": "a.py"}
        ```

    Args:
        name: The name of the tool.
        arguments: The arguments as JSON text or an object.
        id: The provider's id of the call.
        finish_reason: The provider's finish reason.
        schema: JSON Schema of the parameters. It also names and decodes the arguments, as for calls
            in text.
    """
    if not name.strip():
        return Call("", {}, "", id, (), f"{NAMELESS}: call one that is on offer, by its name")
    if isinstance(arguments, str) and arguments.strip() in ("", "null"):
        arguments = ""
        if is_cut(finish_reason):
            lost = f"the arguments of {name!r} were cut off: send it again"
            return Call(name, {}, "", id, (), lost)
        if finish_reason != WHOLE and schema and schema.get("properties"):
            lost = f"no arguments of {name!r} arrived: send them, or {{}} to call it without any"
            return Call(name, {}, "", id, (), lost)
    parameters, repairs, error = arguments_of(name, arguments, ())
    if isinstance(arguments, str):
        repairs = _beyond_the_wire(repairs)
    parameters, fitted = as_declared(parameters, schema)
    call = Call(name, parameters, "", id, (*repairs, *fitted), error)
    doubt = _doubt_of(Turn(None, (call,)), () if schema is None else {name: schema})
    if doubt is not None:
        return replace(call, parameters={}, error=f"{_UNSURE}{doubt}. Send it as valid JSON")
    # Numbers in JSON text are finite.
    return call if isinstance(arguments, str) and _is_plain(arguments) else _checked(call)


def _beyond_the_wire(repairs: tuple[Repair, ...]) -> tuple[Repair, ...]:
    """Drops one encoding repair: most providers send native arguments as a JSON string."""
    encodings = [at for at, each in enumerate(repairs) if each.kind == "string_encoded"]
    return repairs if not encodings else (*repairs[: encodings[0]], *repairs[encodings[0] + 1 :])


def _is_plain(text: str) -> bool:
    """Returns whether every string in a text must be valid Unicode."""
    return text.isascii() and "\\u" not in text


def _sound(turn: Turn) -> Turn:
    return replace(turn, calls=tuple(map(_checked, turn.calls)))


def _checked(call: Call) -> Call:
    """Returns the call, or its refusal if it holds values that JSON does not have."""
    flaw = flaw_of(call.parameters)
    if not flaw:
        return call
    error = f"the arguments of {call.tool!r} hold {flaw}: JSON has none"
    return replace(call, parameters={}, error=error)


_KEYS = (
    "thought thought_type because action actions tool parameters name arguments args"
    " action_input rationale tool_calls final_answer answer"
)
_PROTOCOL = tuple(_KEYS.split())
_PLAN = ReadingPlan(ANY, frozenset(map(fold, _PROTOCOL)), open=True, lenient=False)
_FORMED = late(r"[{<(\[:：|｜‖◁]|assistantfinal|>>>", re.IGNORECASE)
"""Every form of a decision, of reasoning or of another role's text contains one of these."""
_BEGUN = late(
    r"[{,]\s{0,8}[\"'“]?(?:tool|action|actions|tool_name|tool_calls|action_input|thought)[\"'”]?\s{0,4}:"
)
"""Text that begins like a decision in JSON."""
_FENCED = late(r"```[\w-]*[ \t]*\n?|```")
_OWN_LINE = late(r"(?:^|\n)[ \t]*(?:```[\w-]*[ \t]*\n?[ \t]*)?\Z")
_LEAD_END = late(r"(?:[.!?:…。！？：)\]\"'”*`]|\n)[ \t]*\Z")
_VOICE = late(
    r"^[ \t#*_>\[(-]{0,8}(?!thought|note)[^\W\d_][\w .'-]{0,24}[ \t*_\])]{0,4}"
    r"[:：](?!//)[ \t*_]*[^\s*_]"
    r"|^[ \t#*_>-]{0,8}\[[^\[\]\n]{1,40}\][ \t*_]{0,4}(?:[:：]|$)",
    re.IGNORECASE | re.MULTILINE,
)
"""A line that begins with a name, a colon and words, `Benutzer: …`, `用户：…`, or a label in
brackets: `[SYSTEM]`, `[^1]: …`."""
_HEADED = late(r"(?:\[\s*)?([A-Za-z_][\w.-]{0,127})(?:[ \t]*\n\s*\{|\(\s*\{)")
"""The name of a tool above its object, or before it as in a call: `f({"a": 1})`."""
_LISTED = late(r"(?:^|(?P<before>[^\n]))(?P<list>\[\s{0,8}(?P<name>[\w.]{1,128})\()", re.MULTILINE)
_MOST_LISTS: Final = 1_000
_OWN_TAG = late(
    r"^[ \t]{0,8}<(?P<name>[A-Za-z_][\w.-]{0,127})(?:\s[^<>\n]{0,200}?)?(?P<empty>/)?>",
    re.MULTILINE,
)
_ASSIGNED = late(r"([A-Za-z_]\w{0,63}) ?= ?(?=\w)")
_WORD = late(r"\w")
_SPEAKER = late(r"[ \t#*_]{0,8}(?:user|human)\b", re.IGNORECASE)
_SPILLED = late(r'[,}\]\s]*+"[^"\n]{1,80}"\s*+:')
"""A member after the object to which it belongs."""
_INVALID = "The action could not be read. Send one valid JSON object and nothing else."
_SEVERAL = "The reply holds several different decisions. Send exactly one."
_NOT_YOURS = "Observations are written by the tools, not by you. Send a thought and an action."
_ALONE = "The reply talks about a call. To make it, send it alone; to answer, call finish."
_UNSURE = "The call could not be read for sure: "
_MARKUP = "The reply holds the marks of a call or of reasoning that could not be read: "


def read_reply(
    text: str,
    tools: Collection[str] | Mapping[str, Mapping[str, Any]],
    *,
    finish_reason: str | None = None,
) -> Turn | Prose | Unparsed:
    """Reads one reply; never raises for any text.

    Example:
        ```python
        from taofold.parsing import read_reply

        text = '{"thought": "Look.", "action": {"tool": "read", "parameters": {}}}'
        turn = read_reply(text, ["read"])
        print(turn.calls[0].tool)
        ```

    Args:
        text: The text of the model.
        tools: The offered names, or their names with the JSON schemas of their parameters.
        finish_reason: The provider's; `length` and its synonyms mean that the text was cut.

    Returns:
        A turn of the protocol, prose, or a refusal.
    """
    body = text.strip()
    # Fast path for a clean reply, one JSON object: takes microseconds.
    if body[:1] == "{" and body[-1:] == "}":
        try:
            value = DECODER.decode(body)
        except (ValueError, RecursionError):
            pass
        else:
            if is_decision(value):
                turn = turn_of(value, tools)
                if _is_torn(turn):
                    return _several(text)
                return turn if _is_plain(body) else _sound(turn)
    if not body:
        return refusal("empty", text, note="The reply is empty. Send a thought and an action.")
    # Fast path for plain prose. If it was cut off, the missing part may be a call.
    if _FORMED.search(body) is None and not is_cut(finish_reason):
        return Prose(body)
    result = _Reply(text, tools, finish_reason).read()
    if not isinstance(result, Turn):
        return result
    if _is_torn(result):
        return _several(text)
    doubt = _doubt_of(result, tools)
    if doubt is not None:
        return refusal("invalid", text, note=f"{_UNSURE}{doubt}. Send it again as valid JSON.")
    return _sound(result)


def _is_torn(turn: Turn) -> bool:
    """Returns whether one object of a turn decides several things."""
    return any(call.error == SEVERAL for call in turn.calls)


def _several(text: str) -> Unparsed:
    return refusal("ambiguous", text, note=_SEVERAL)


def _doubt_of(turn: Turn, tools: Tools) -> str | None:
    """Returns why a call cannot be trusted because its notation had to be guessed, or None."""
    for call in turn.calls:
        repairs = (*turn.repairs, *call.repairs)
        if any(each.level == "syntax" for each in repairs):
            names = (*_PROTOCOL, *parameter_names(call.tool, tools))
            doubt = doubt_of(call.parameters, repairs, names)
            if doubt is not None:
                return doubt
    return None


def has_marks(text: str) -> bool:
    """Returns whether a text contains the marks of a call or of reasoning, of any family.

    Args:
        text: The text of the model.
    """
    return _strip_marks(text) is None


@dataclass(slots=True)
class _Piece:
    """A value that is a decision, at its place in the reply."""

    start: int
    end: int
    value: Any
    repairs: tuple[Repair, ...] = ()


class _Reply:
    def __init__(self, text: str, tools: Tools, finish_reason: str | None) -> None:
        # Functionary's prompt ends with the mark of the first call.
        marked = f">>>{text}"
        is_headed = text.partition("\n")[0] in tools and CALL_OPEN.match(marked)
        self._text = marked if is_headed else text
        self._tools = tools
        self._cut = is_cut(finish_reason)
        self._finished = finish_reason is not None and not self._cut
        self._names = (*tools, *RESERVED)

    def read(self) -> Turn | Prose | Unparsed:
        reader = CallReader(self._text, self._names, self._parameters)
        start = len(self._text) - len(self._text.lstrip())
        if reader.is_python(start) and not self._text[reader.python_block(start).end :].strip():
            visible = Scan(stretches=[(start, len(self._text))], visible=self._text)
            turn = self._pythonic(visible)  # marks inside its strings do not count
            if turn is not None:
                return turn
        scanned = scan(self._text, _PLAN, reader)
        if scanned.unfinished:
            return self._refuse("incomplete", "The reply ends inside its reasoning.")
        if scanned.exhausted:
            return refusal("too_large", self._text)
        if not scanned.visible.strip():
            return self._refuse("empty", "The reply holds only reasoning. Send an action.")
        # Labels inside an object's strings are text. Labels before calls in another form count only
        # if they contain a call of their own.
        if is_labelled(scanned.visible) and not _starts_with_object(scanned.visible):
            turn = read_labelled(scanned.visible, self._tools, self._cut, self._finished)
            if isinstance(turn, Turn) and not turn.calls:
                return self._behind_thought(scanned, turn)
            if turn is not None:
                return turn
        return self._unlabelled(scanned)

    def _unlabelled(self, scanned: Scan) -> Turn | Prose | Unparsed:
        foreign = self._foreign(scanned)
        if foreign >= 0:
            return self._until(foreign, scanned)
        return self._decision(scanned)

    def _behind_thought(self, scanned: Scan, thought: Turn) -> Turn | Unparsed:
        """Handles a labelled thought without an action; its call may follow in another form."""
        if not scanned.blocks and not any(map(self._is_call, scanned.spans)):
            return thought
        turn = self._unlabelled(scanned)
        if isinstance(turn, Turn) and turn.remark:
            lead = read_labelled(turn.remark.content, (), False, False)
            return replace(turn, remark=lead.remark) if isinstance(lead, Turn) else turn
        return thought if isinstance(turn, Prose) else turn

    def _parameters(self, tool: str) -> Collection[str]:
        return parameter_names(tool, self._tools)

    def _refuse(self, reason: Reason, note: str) -> Unparsed:
        return refusal(reason, self._text, note=note)

    def _until(self, foreign: int, scanned: Scan) -> Turn | Prose | Unparsed:
        """Reads the part of the reply before the model writes in another role."""
        own = self._text[:foreign]
        if not own.strip():
            return self._refuse("no_candidate", _NOT_YOURS)
        # Without the finish reason: the cut hit the invented part, not the model's own text.
        result = _Reply(own, self._tools, None).read()
        if isinstance(result, Prose) and _SPEAKER.match(self._text, foreign):
            rest = _Reply(self._text[foreign:], self._tools, None)
            calls = scan(rest._text, _PLAN, CallReader(rest._text, self._names, self._parameters))
            if calls.blocks or any(map(self._is_call, calls.spans)):
                return self._refuse("no_candidate", _NOT_YOURS)
            return self._decision(scanned)  # a label in an answer: `User: bob`
        excerpt = self._text[foreign : foreign + RAW_LIMIT]
        return replace(result, role_violation=excerpt) if isinstance(result, Turn) else result

    def _foreign(self, scanned: Scan) -> int:
        """Returns the offset at which the model writes in another role, outside values; else -1."""
        ends = [(each.start, each.end) for each in scanned.spans]
        ends += [(each.start, each.end) for each in scanned.blocks]
        ends += [(scanned.cut.start, scanned.cut.end)] if scanned.cut else []
        ends.sort()
        stretches = iter(scanned.stretches)
        stretch = next(stretches, None)
        marks = [FOREIGN_LINE.finditer(self._text), FOREIGN.finditer(self._text)]
        for at in merge(*((match.start() for match in each) for each in marks)):
            while ends and ends[0][1] <= at:
                ends.pop(0)
            while stretch is not None and stretch[1] <= at:
                stretch = next(stretches, None)
            inside = ends and ends[0][0] <= at
            if stretch is not None and stretch[0] <= at and not inside:
                return at
        return -1

    def _decision(self, scanned: Scan) -> Turn | Prose | Unparsed:
        spans = [each for each in scanned.spans if not each.quoted]
        refused = self._completed(scanned, spans)
        if refused is not None:
            return refused
        pieces = [self._piece(each) for each in spans if self._is_call(each)]
        if scanned.blocks:
            return self._marked(scanned, pieces)
        turn = self._alone(scanned, pieces, spans) if pieces else self._pythonic(scanned)
        if turn is not None:
            return turn
        return self._prose(scanned)

    def _completed(self, scanned: Scan, spans: list[Span]) -> Unparsed | None:
        """Accepts a value that the end of the text closed, or refuses it."""
        last = scanned.cut
        if last is None or last.quoted or not self._is_begun(last):
            return None
        if not self._finished or last.reading.cut or last.reading.open != [last.reading.value]:
            return refusal("incomplete", self._text)
        value = last.reading.value
        has_arguments = is_object(value) and any(key in value for key in PARAMETER_KEYS)
        inner = is_object(value) and any(is_object(value.get(k)) for k in ("action", "function"))
        # A call whose arguments never arrived is not a call without arguments.
        if not has_arguments and not inner and "finish" not in str(value)[:400]:
            return refusal("incomplete", self._text)
        note = Repair("missing_closer", "syntax", content=True, at=len(self._text), cost=3)
        last.reading.repairs.append(note)
        spans.append(last)
        return None

    def _is_begun(self, span: Span) -> bool:
        """Returns whether a value cut off by the end of the text was to be a decision."""
        return bool(
            not self._text[: span.start].strip()
            or is_decision(span.reading.value)
            or _BEGUN.match(self._text, span.start)
        )

    def _is_call(self, span: Span) -> bool:
        """Returns whether a value is a decision, or a list of them."""
        value = span.reading.value
        entries = value if is_array(value) else [value]
        return bool(entries) and all(is_decision(each, self._names) for each in entries)

    def _piece(self, span: Span) -> _Piece:
        repairs = tuple(span.reading.repairs)
        if _SPILLED.match(self._text, span.end):
            note = Repair("stray_closer", "syntax", content=True, at=span.end, cost=3)
            repairs = (*repairs, note)
        return _Piece(span.start, span.end, span.reading.value, repairs=repairs)

    # ---- calls after a mark

    def _marked(self, scanned: Scan, values: list[_Piece]) -> Turn | Unparsed:
        blocks = scanned.blocks
        for block in blocks:
            if block.error:
                return self._refuse("invalid", f"{_MARKUP}{block.error}. Send it again.")
            if not block.closed:
                return refusal("incomplete", self._text)
        # A JSON value beside marked calls that names no offered tool is data.
        if any(self._offers(each.value) for each in values):
            return self._refuse("ambiguous", _SEVERAL)
        requests = [request for block in blocks for request in block.calls]
        calls = [call for request in requests for call in self._calls_of(request)]
        if not calls:
            return self._refuse("invalid", _INVALID)
        lead = self._shown(scanned, 0, blocks[0].start)
        edges = [*[each.start for each in blocks[1:]], len(self._text)]
        gaps = [
            self._shown(scanned, block.end, edge) for block, edge in zip(blocks, edges, strict=True)
        ]
        rest = "".join(gaps)
        # A leftover mark belongs to a call that was not understood: then no call runs.
        if _strip_marks(lead) is None or _strip_marks(rest) is None:
            return self._refuse("invalid", _INVALID)
        if all(each.bare for each in blocks):
            refused = self._spoken_of(calls, blocks, lead + rest)
            if refused is not None:
                return refused
        calls = [calls[0], *(_again(call, previous) for previous, call in pairwise(calls))]
        located = Repair("dialect", "none", at=blocks[0].start)
        repairs = (located, *self._doubts(scanned, lead, rest))
        return Turn(_remark(lead), tuple(calls), repairs)

    def _spoken_of(self, calls: list[Call], blocks: list[Block], beside: str) -> Unparsed | None:
        """Returns a refusal for bare-tag calls that are only mentioned in prose, else None."""
        # A bare tag in prose that names no offered tool is HTML, or an invented tool.
        if beside.strip() and not all(is_offered(call.tool, self._tools) for call in calls):
            return self._refuse("invalid", _INVALID)
        # An empty tag of a tool between words is only a mention of it.
        before = self._text[: blocks[0].start].rpartition("\n")[2]
        after = self._text[blocks[-1].end :].partition("\n")[0]
        is_in_line = _WORD.search(_bare(before)) and _WORD.search(_bare(after))
        if is_in_line and not any(call.parameters for call in calls):
            return self._refuse("ambiguous", _ALONE)
        return None

    def _doubts(self, scanned: Scan, lead: str, rest: str) -> list[Repair]:
        """Returns the doubts about calls after marks: text beside them, second lists, a missing
        end.
        """
        blocks = scanned.blocks
        # A call without a mark before a family's own block may be an example in the lead-in.
        is_shown = bool(lead.strip()) and len({each.bare for each in blocks}) > 1
        doubts: list[Repair] = []
        if (
            rest.strip()
            or is_shown
            or not _is_led(lead)
            or self._is_after_end(scanned, blocks[0].start)
        ):
            doubts.append(BESIDE)
        if sum(each.lists for each in blocks) > 1:
            doubts.append(SECOND_LIST)
        if not self._finished and not all(each.ended for each in blocks):
            doubts.append(OPEN_END)
        return doubts

    def _is_after_end(self, scanned: Scan, at: int) -> bool:
        """Returns whether the reply ended before `at`: text after the end is another reply."""
        before = self._raw(scanned, 0, at)
        end = ENDS.search(before)
        return end is not None and bool(_strip_noise(before[: end.start()]).strip())

    def _calls_of(self, request: RawCall) -> list[Call]:
        if request.source is None:
            return [call_of_request(request, self._tools)]
        return [
            replace(c, repairs=(*request.repairs, *c.repairs))
            for c in calls_in(request.source, self._tools)
        ]

    # ---- calls without a mark

    def _alone(
        self, scanned: Scan, pieces: list[_Piece], spans: list[Span]
    ) -> Turn | Unparsed | None:
        """Reads values that are decisions: the whole reply, or all text after a lead-in."""
        turns = self._turns(pieces)
        first, last = pieces[0], pieces[-1]
        lead = self._shown(scanned, 0, first.start)
        trail = self._shown(scanned, last.end, len(self._text))
        between = "".join(self._text[left.end : right.start] for left, right in pairwise(pieces))
        others = [s for s in spans if not first.start <= s.start < last.end]
        outside = _bare(lead) + _bare(between) + _bare(trail)
        turn = self._chosen(turns, between)
        if isinstance(turn, Unparsed):
            return turn
        if CALL_CLOSE.search(lead) or CALL_CLOSE.search(trail):
            turn = replace(turn, repairs=(*turn.repairs, UNOPENED))
        if not outside and not others:
            return turn
        led = not _bare(trail) and bool(_OWN_LINE.search(self._text[: first.start]))
        # An answer has no effect. A call may be quoted, refused or forged, and even a read-only
        # tool can send its arguments out.
        answers = all([call.tool == FINISH for call in turn.calls])
        if _bare(between) or others or not (led or answers):
            return self._question(turn)
        remark = turn.remark or _remark(lead)
        return replace(turn, remark=remark, repairs=(*turn.repairs, BESIDE))

    def _question(self, turn: Turn) -> Unparsed | None:
        """Refuses a call in the middle of prose if it names a tool; otherwise returns None."""
        if any(is_offered(call.tool, self._tools) for call in turn.calls):
            return self._refuse("ambiguous", _ALONE)
        return None

    def _turns(self, pieces: list[_Piece]) -> list[Turn]:
        values: list[Any] = []
        turns: list[Turn] = []
        for piece in pieces:
            # Models repeat themselves: two equal decisions count once.
            if any(same(piece.value, each) for each in values):
                continue
            values.append(piece.value)
            notes = (Repair("located", "none", at=piece.start), *piece.repairs)
            if is_object(piece.value):
                turns.append(turn_of(piece.value, self._tools, notes))
            else:
                turns.append(Turn(None, tuple(call_of(v, self._tools) for v in piece.value), notes))
        return turns

    def _is_offered(self, turn: Turn) -> bool:
        return bool(turn.calls) and all(
            not call.error and is_offered(call.tool, self._tools) for call in turn.calls
        )

    def _offers(self, value: Any) -> bool:
        turns = self._turns([_Piece(0, 0, value)])
        return any(is_offered(call.tool, self._tools) for turn in turns for call in turn.calls)

    def _chosen(self, turns: list[Turn], between: str) -> Turn | Unparsed:
        """Combines values that are decisions: a batch, or the only one that can run."""
        if len(turns) == 1:
            return turns[0]
        # `{A}, {B}` is a batch; `{A} {B}` are two separate decisions.
        if not _bare(between) and set(between) & {",", ";"}:
            return _joined(turns)
        offered = [] if any(map(_is_torn, turns)) else [*filter(self._is_offered, turns)]
        return offered[0] if len(offered) == 1 else self._refuse("ambiguous", _SEVERAL)

    def _pythonic(self, scanned: Scan) -> Turn | Unparsed | None:
        """Reads calls in Python's notation: the whole reply, or all text after a lead-in."""
        if "(" not in scanned.visible and "{" not in scanned.visible:
            return None
        body = NOISE.sub("", scanned.visible).strip().strip("`").removeprefix("python\n").strip()
        body = _printed(body)
        reader = CallReader(body, self._names, self._parameters)
        named = _HEADED.match(body)
        if named and named[1] in self._names:
            return self._headed(reader, body, named.start(1))
        at = 0
        if body and not reader.is_python(0):
            at = self._listed(body)
        if not body or at < 0 or not reader.is_python(at):
            return None
        return self._python_turn(body, at, reader.python_block(at))

    def _python_turn(self, body: str, at: int, block: Block) -> Turn | Unparsed | None:
        """Reads the calls in Python's notation in `body` from `at` on."""
        # A lone `f(x=1)` in prose is code; a list of calls to offered tools is not.
        is_list = body[at] == "["
        unknown = sum(call.tool not in self._names for call in block.calls)
        if not block.calls or unknown == len(block.calls) or (unknown and not is_list):
            return None
        if not block.closed and not block.error:
            return refusal("incomplete", self._text)
        is_alone = body[:at][-1:] in ("", "\n") and not body[block.end :].strip().strip("`")
        if block.error or not is_alone:
            return self._refuse("ambiguous", _ALONE) if is_list else None
        calls = [call_of_request(each, self._tools) for each in block.calls]
        notes = (Repair("dialect", "none", at=at), *((BESIDE,) if at else ()))
        return Turn(_remark(body[:at]), tuple(calls), notes)

    def _listed(self, body: str) -> int:
        """Returns the offset of a list of calls: at a line's start, or one that names a tool; else
        -1.
        """
        for begin in islice(_LISTED.finditer(body), _MOST_LISTS):
            if not begin["before"] or begin["name"] in self._names:
                return begin.start("list")
        return -1

    def _headed(self, reader: CallReader, body: str, at: int) -> Turn | Unparsed | None:
        """Reads a whole reply that is the name of an offered tool and an object."""
        request, end = reader.named(at)
        if request is None or body[end:].strip() != ("]" if at else ""):
            return None
        if not request.closed:
            return refusal("incomplete", self._text)
        call = call_of_request(request, self._tools)
        return Turn(None, (call,), (Repair("dialect", "none", at=0),))

    # ---- no calls

    def _prose(self, scanned: Scan) -> Prose | Unparsed:
        if self._cut:
            return refusal("incomplete", self._text)
        visible = "".join(
            self._text[begin:end]
            for begin, end in _without(
                scanned.stretches, [(each.start, each.end) for each in scanned.spans]
            )
        )
        text = _strip_marks(visible)
        if text is None:
            mark = LEFTOVER.search(visible)
            return self._refuse("invalid", f"{_MARKUP}{mark[0] if mark else ''}. Send it again.")
        # The text begins like a decision but has no value: broken JSON is never shown as an answer.
        # The same holds for a tool's own tag around text that is not an argument.
        is_begun = not scanned.spans and _BEGUN.search(text) is not None
        if is_begun or self._has_own_tag(text):
            return self._refuse("invalid", _INVALID)
        answer = (_strip_noise(scanned.visible) if scanned.spans else text).strip()
        if not answer:
            return self._refuse("empty", "The reply holds only reasoning. Send an action.")
        return Prose(answer)

    def _has_own_tag(self, text: str) -> bool:
        """Returns whether a line begins with an offered tool's tag that is closed somewhere."""
        first: dict[str, int] = {}
        for tag in _OWN_TAG.finditer(text):
            if tag["name"] in self._tools:
                if tag["empty"]:
                    return True
                first.setdefault(tag["name"], tag.end())
        return any(text.find(f"</{name}>", end) >= 0 for name, end in first.items())

    def _shown(self, scanned: Scan, start: int, end: int) -> str:
        """Returns the text between two offsets without reasoning and marks without content."""
        return _strip_noise(self._raw(scanned, start, end))

    def _raw(self, scanned: Scan, start: int, end: int) -> str:
        """Returns the text between two offsets without its reasoning."""
        parts = [
            self._text[max(start, begin) : min(end, stop)]
            for begin, stop in _without(scanned.stretches, scanned.repeated)
            if begin < end and stop > start
        ]
        return "".join(parts)


def _without(
    stretches: list[tuple[int, int]], values: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Returns the parts of `stretches` that no value covers."""
    out: list[tuple[int, int]] = []
    edges = iter(values)
    value = next(edges, None)
    for begin, end in stretches:
        while value is not None and value[0] < end:
            if value[0] >= begin:
                out.append((begin, value[0]))
                begin = value[1]
            value = next(edges, None)
        out.append((begin, end))
    return out


def _strip_noise(text: str) -> str:
    """Removes marks without content: special tokens anywhere, tags at the edges."""
    if "<" not in text and "[" not in text:
        return text
    text = NOISE_TOKEN.sub("", text)
    whole = text.strip()
    lead = NOISE_LEAD.match(whole)
    # By offsets: copying the rest for each mark would take quadratic time.
    begin, end = lead.end() if lead else 0, len(whole)
    while begin < end:
        # Every mark without content begins with one of these two. They are searched from the end.
        last = max(whole.rfind("<", begin, end), whole.rfind("[", begin, end))
        noise = NOISE.match(whole, last, end) if last >= 0 else None
        if noise is None or noise.end() != end:
            break
        end = last
        while end > begin and whole[end - 1].isspace():
            end -= 1
    return whole[begin:end] if end - begin < len(whole) else text


def _strip_marks(text: str) -> str | None:
    """Removes noise; returns `None` if the text still contains a mark of calls or of reasoning."""
    text = _strip_noise(text)
    return None if LEFTOVER.search(text) else text


def _bare(text: str) -> str:
    """Returns the text around a value without fences, commas and marks."""
    text = _FENCED.sub("", _strip_noise(text))
    text = CALL_CLOSE.sub("", text)
    return text.strip(" \t\r\n,;`\ufeff\u200b}]")


def _is_led(lead: str) -> bool:
    """Returns whether the text before a mark is a remark: whole sentences, or lines.

    A line that begins with a name, in any language, may be written in another role.
    """
    return not lead.strip() or (_LEAD_END.search(lead) is not None and _VOICE.search(lead) is None)


def _again(call: Call, previous: Call) -> Call:
    """Returns the call, marked if it repeats the one before, as models do in a loop."""
    if call.tool != previous.tool or not same(call.parameters, previous.parameters):
        return call
    return replace(call, repairs=(*call.repairs, REPEATED))


def _printed(body: str) -> str:
    """Returns the call whose result is only printed, `x = f(a=1)` above `print(x)`, or the text."""
    assigned = _ASSIGNED.match(body)
    if assigned is None:
        return body
    call, _, last = body.rpartition("\n")
    return call[assigned.end() :] if last.strip() == f"print({assigned[1]})" else body


def _joined(turns: list[Turn]) -> Turn:
    calls = tuple(call for turn in turns for call in turn.calls)
    repairs = tuple(repair for turn in turns for repair in turn.repairs)
    remark = next((turn.remark for turn in turns if turn.remark), None)
    return Turn(remark, calls, repairs)


def _remark(text: str) -> Remark | None:
    lead = text.strip().strip("`").removesuffix("```json").strip()
    return Remark(lead) if lead and lead[0] not in "<[{" else None


def _starts_with_object(text: str) -> bool:
    return text.lstrip().removeprefix("```json").lstrip()[:1] == "{"

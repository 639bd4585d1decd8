"""The events of a stream, projected from records, and a client's cursor. Pure.

The names are those of the react-loop document; `note` is the text of an event without such a name.
A record gives zero or more events. `part` numbers the events of one record (0 = its last one), so
that a client that disconnects between two of them gets only the second. Child runs have no answer
and no end: their caller's `tool_result` has the result.

A cursor is the value of `id:` and `Last-Event-ID`. For a run without child runs it is the number of
the last record: `17`. `17.1` is the first of several events of record 17. Each open child run adds
its position, by the end of its id: `17~3-0:5`. So a client can continue at any server of the log,
independent of the order in which that server read the runs.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from taofold.core import events as e
from taofold.core.content import MediaPart, media_of
from taofold.core.json_values import render
from taofold.core.state import RunState
from taofold.core.text import iso
from taofold.core.values import ASK_USER, FINISH, Value
from taofold.core.watched import WatchedChange, WatchedRun
from taofold.policy.limits import STOP_REASON
from taofold.policy.redaction.views import shown_value

Name: TypeAlias = Literal[
    "thinking",
    "tool_start",
    "tool_result",
    "answer_chunk",
    "answer",
    "done",
    "error",
    "autonomous_action",
    "confirmation_request",
    "confirmation_resolved",
    "limit_reached",
    "loop_warning",
    "progress",
    "rewound",
    "handed_off",
    "note",
]
SSE_NAMES: Final = {"error": "run_error"}
"""`EventSource` uses `error` for the connection, so the event has another name."""
_ACTED_ON: Final = frozenset(("answer", "confirmation_request", "done"))
"""Events on which decisions depend are exact; others mask guessed secrets."""
_LOOPING: Final = ("repeat", "repetition")


class WireEvent(Value, frozen=True):
    """One event for clients. `at` is in milliseconds since the epoch, `seq` is the record's."""

    type: Name
    run: str
    seq: int
    at: int
    part: int = 0
    child: bool = False
    data: dict[str, Any] = {}

    @property
    def name(self) -> str:
        """The name of the server-sent event."""
        return SSE_NAMES.get(self.type, self.type)

    def body(self, sequence: int) -> dict[str, Any]:
        """Returns the JSON of the event as number `sequence` of its stream."""
        return {
            "type": self.type,
            "timestamp": iso(self.at),
            "sequence": sequence,
            "run": self.run,
            "seq": self.seq,
            "child": self.child,
            **self.data,
        }

    def frame(self, sequence: int, cursor: str) -> bytes:
        """Returns the server-sent event, with `cursor` as its id ("" = without one).

        JSON contains no line break, so one `data:` line is enough.
        """
        body = msgspec.json.encode(self.body(sequence)).decode()
        id_ = f"id: {cursor}\n" if cursor else ""
        return f"{id_}event: {self.name}\ndata: {body}\n\n".encode()


def project(records: Iterable[e.Record], *, child: bool = False) -> Iterator[dict[str, Any]]:
    """Yields the wire events of a run's records as JSON."""
    projection = EventProjection(child=child)
    events = [event for record in records for event in projection(record)]
    last = next((n for n in reversed(range(len(events))) if events[n].type == "done"), -1)
    for number, event in enumerate(events):
        if event.type != "done" or number == last == len(events) - 1:
            yield event.body(number)


class EventProjection:
    """Turns the records of one run into wire events."""

    def __init__(self, *, child: bool = False) -> None:
        self._child = child
        self._view = WatchedRun()

    @property
    def state(self) -> RunState:
        """The run's state after the newest record."""
        return self._view.state

    def __call__(self, record: e.Record) -> tuple[WireEvent, ...]:
        """Returns the events of the next record."""
        payloads = list(self._told(self._view.feed(record.public)))
        last = len(payloads)
        return tuple(
            [
                WireEvent(
                    name,
                    record.run,
                    record.seq,
                    record.at,
                    # 0 for the last event of a record, so that a usual cursor is a plain number.
                    0 if number == last else number,
                    self._child,
                    data if name in _ACTED_ON else shown_value(data),
                )
                for number, (name, data) in enumerate(payloads, 1)
            ]
        )

    def _told(self, change: WatchedChange) -> Iterator[tuple[Name, dict[str, Any]]]:
        event = change.record.event
        match event:
            case e.Proposed():
                reasoning = {"reasoning": change.reasoning} if change.reasoning else {}
                yield "thinking", {"step": change.step, "thought": _thought(event)} | reasoning
            case e.Decided() if event.verdict == "ask":
                yield "confirmation_request", self._question(change, event)
            case e.Decided() if change.question is not None:
                yield "confirmation_resolved", _resolved(change, change.question, event)
            # A repeated call after a crash gives no second event.
            case e.Started() if not change.slot.started:
                yield from _started(change, event)
            case e.Observed() if change.slot.action.tool != FINISH:
                yield "tool_result", _result(change, event)
            case e.Violated() if event.rule.startswith(_LOOPING):
                yield "loop_warning", {"rule": event.rule, "detail": event.detail}
            case e.Rewound():
                yield "rewound", {"to": event.to}
            case e.HandedOff():
                yield "handed_off", hand_off(event)
            case e.RunFinished() if not self._child:
                yield from self._finished(event)
            case e.Decided() | e.Started() | e.Observed() | e.Resumed() | e.Noted() | e.LimitHit():
                # Not for watchers: the driving process, and a flow's notes between actions, which
                # the log has.
                pass
            case _ if event.announcement is not None and not isinstance(event, e.AskFailed):
                yield "note", note(event)
            case _:
                pass
        if change.limit:
            code = STOP_REASON.get(change.limit, change.limit)
            yield "limit_reached", {"limit": change.limit, "code": code, "last": change.last}

    def _question(self, change: WatchedChange, event: e.Decided) -> dict[str, Any]:
        run, slot, started = change.record.run, change.slot, self.state.started
        action = slot.action
        asks = action.tool == ASK_USER or slot.started or event.request is not None
        return {
            "actionId": f"{run}:{change.record.seq}",
            "callId": _call(run, event),
            "tool": action.tool,
            "args": action.parameters,
            "summary": event.preview,
            "tier": event.tier,
            "requiresConfirmation": action.tool != ASK_USER and event.request is None,
            "reason": event.reason,
            "question": event.reason if asks else "",
            "form": (event.request or {}).get("form"),
            "expiresAt": iso(event.expires_at) if event.expires_at else None,
            "digest": event.digest,
            "requester": started.principal.id if started is not None else "",
            "batch": f"{run}#{event.key}",
        }

    def _finished(self, event: e.RunFinished) -> Iterator[tuple[Name, dict[str, Any]]]:
        if event.output is not None:
            yield "answer", {"text": render(event.output), "output": event.output}
        if event.status in ("limited", "failed"):
            message = event.error or f"the run ended with {event.stop_reason}"
            data = {"code": event.stop_reason, "message": message, "terminal": True}
            if event.status == "failed" and self._view.failed:
                data["kind"] = self._view.failed
            yield "error", data
        yield "done", _ended(self.state, event)


def hand_off(event: e.HandedOff) -> dict[str, Any]:
    """Returns a change of the active agent, as clients see it."""
    return {"before": event.before, "agent": event.agent, "reason": event.reason}


def _resolved(change: WatchedChange, question: e.Record, event: e.Decided) -> dict[str, Any]:
    return {
        "actionId": f"{question.run}:{question.seq}",
        "callId": _call(change.record.run, event),
        "tool": change.slot.action.tool,
        "decision": change.decision,
        "by": event.decider,
        "reason": event.reason,
        "args": (event.action or change.slot.action).parameters,
    }


def _started(change: WatchedChange, event: e.Started) -> Iterator[tuple[Name, dict[str, Any]]]:
    action, decided = change.slot.action, change.slot.decided
    call = {
        "callId": _call(change.record.run, event),
        "tool": action.tool,
        "args": action.parameters,
        "tier": decided.tier if decided is not None else 1,
    }
    yield "tool_start", {**call, "step": change.step, "rationale": action.rationale}
    # A write that only the policy allowed gives another event.
    alone = decided is not None and not isinstance(decided, e.Resolved)
    if isinstance(event, e.StartedOnce) and alone:
        summary = action.rationale or f"{action.tool} runs without asking"
        yield "autonomous_action", {**call, "summary": summary}


def _result(change: WatchedChange, event: e.Observed) -> dict[str, Any]:
    observation = event.observation
    return {
        "callId": _call(change.record.run, event),
        "step": change.step,
        "tool": change.slot.action.tool,
        "status": observation.status,
        "result": observation.result,
        "extraction": observation.extraction,
        "refused": observation.refused,
        "cut": observation.cut,
        "blob": observation.blob,
        "media": [_medium(part) for part in media_of(observation.parts)],
        "durationMs": observation.duration_ms,
        "facts": observation.facts,
        "remark": observation.remark,
    }


def note(event: e.Event) -> dict[str, Any]:
    """Returns the text of an event for clients that do not know its type."""
    public = msgspec.to_builtins(event.public)
    return {"text": event.announcement, "alarming": event.alarming, "event": public}


def _medium(part: MediaPart) -> dict[str, Any]:
    return {
        "kind": part.kind,
        "mediaType": part.media_type,
        "digest": part.digest,
        "size": part.size,
        "name": part.name,
        "url": part.url,
    }


def _call(run: str, event: e.Decided | e.Started | e.Observed) -> str:
    return f"{run}:{event.key}:{event.index}"


def _thought(event: e.Proposed) -> dict[str, Any]:
    thought = event.thought
    return {
        "content": thought.content,
        "type": thought.type,
        "because": list(thought.because),
        "confidence": thought.confidence,
        "critical": thought.critical,
        "inferred": thought.inferred,
        "learned": thought.learned,
    }


def _ended(state: RunState, event: e.RunFinished) -> dict[str, Any]:
    return {
        "status": event.status,
        "stopReason": event.stop_reason,
        "success": event.success,
        "steps": len(state.steps),
        "modelCalls": state.model_calls,
        "toolCalls": state.tool_calls,
        "tokens": state.usage.tokens,
        "usd": state.usage.usd,
        "seconds": state.active_ms / 1000,
    }


SeqPart: TypeAlias = tuple[int, int]
"""Record and part: a position after all earlier records and the first `part` events of this record
(0 = all)."""
Position: TypeAlias = Mapping[str, SeqPart]
"""Positions by the end of the run's id; "" is the run itself."""

START: Final[Position] = {}
_POINT: Final = re.compile(r"(\d{1,10})(?:\.(\d{1,3}))?")
_CHILD: Final = re.compile(r"([A-Za-z0-9._-]{1,100}):(\d{1,10})(?:\.(\d{1,3}))?")
LONGEST_CURSOR: Final = 4096


def parse_position(text: str) -> Position:
    """Parses a client's position.

    Raises:
        ValueError: It is malformed.
    """
    if not text.strip():
        return START
    if len(text) > LONGEST_CURSOR:
        raise ValueError("a position has at most 4096 characters")
    root, *children = text.strip().split("~")
    parts = _POINT.fullmatch(root)
    if parts is None:
        raise ValueError(f"{text[:40]!r} is no position of a stream")
    points: dict[str, SeqPart] = {"": (int(parts[1]), int(parts[2] or 0))}
    for child in children:
        child_parts = _CHILD.fullmatch(child)
        if child_parts is None:
            raise ValueError(f"{text[:40]!r} is no position of a stream")
        points[child_parts[1]] = (int(child_parts[2]), int(child_parts[3] or 0))
    return points


def position_text(position: Position) -> str:
    """Returns the position as text. It includes the run itself, or is empty."""
    if "" not in position:
        return ""
    root = _point_text(position[""])
    children = [f"~{name}:{_point_text(reached)}" for name, reached in position.items() if name]
    return root + "".join(children)


def further(first: SeqPart | None, other: SeqPart) -> SeqPart:
    """Returns the later of two points."""
    return other if first is None or _order(other) > _order(first) else first


def covers(point: SeqPart, event: WireEvent) -> bool:
    """Returns whether a client at `point` has received `event`."""
    return _order(point) >= _order((event.seq, event.part))


def _order(point: SeqPart) -> tuple[int, int]:
    seq, part = point
    # Part 0 is the last one of its record, so it sorts last.
    return (seq, part or 1 << 30)


def _point_text(point: SeqPart) -> str:
    seq, part = point
    return f"{seq}.{part}" if part else str(seq)

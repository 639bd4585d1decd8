"""Turns, flat spans and the audit of a run, from its records.

`TurnFold` turns records into turns and their calls, one record at a time. `turns`, `trace`, `audit`
and the spans of `telemetry.projection` use it, so only one place follows calls. `turns` accepts any
log, including an imported one that breaks the rules. `trace` returns one span per run, model call,
step, tool call and final limit, ready for JSON lines. `audit` returns for each call the requester,
the decider, the outcome and the times (D10). Pure; secrets were removed before anything was logged.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace

from taofold.core import events as e
from taofold.core.call_ids import branch
from taofold.core.state import live, opening
from taofold.core.text import iso
from taofold.core.values import JSON, RESERVED, Action, Observation, Step, Thought, Usage, Value


class TracedCall(Value, frozen=True):
    """One action and its outcome. Times are milliseconds since the epoch, 0 = never."""

    action: Action
    observation: Observation | None = None
    started_at: int = 0
    observed_at: int = 0
    observed_seq: int = -1
    started: bool = False
    effect: str = ""
    """"once" or "idempotent" if the log records that the call changed the world."""
    started_seq: int = -1
    decision: e.Decided | None = None
    """The newest decision about the call."""
    decided_at: int = 0
    usage: Usage | None = None
    """The consumption of the run that served the call."""

    def after(self, record: e.Record) -> "TracedCall":
        """Returns the call with a record about it."""
        match record.event:
            case e.Decided() as event:
                action = self.action if event.action is None else event.action
                return replace(self, action=action, decision=event, decided_at=record.at)
            case e.Started() as event:
                effect = event.effect if isinstance(event, e.StartedOnce) else self.effect
                return replace(
                    self,
                    started=True,
                    started_at=record.at,
                    started_seq=record.seq,
                    effect=effect,
                )
            case e.Observed() as event:
                return replace(
                    self,
                    observation=event.observation,
                    observed_at=record.at,
                    observed_seq=record.seq,
                    usage=event.usage,
                )
            case _:
                return self

    @property
    def local(self) -> bool:
        """True for a step of the strategy's own and for reserved names, which are no tools."""
        # A refused call never started either, but it was meant for a tool.
        own = not self.started and self.observation is not None and not self.observation.refused
        return own or self.action.tool in RESERVED


class TracedTurn(Value, frozen=True):
    """A thought and its batch. `number` is the step's where the turn is complete."""

    number: int
    key: str
    seq: int
    at: int
    thought: Thought
    calls: tuple[TracedCall, ...]

    @property
    def lack(self) -> str:
        """The missing part of an incomplete triplet; "" if it is complete."""
        if not self.calls:
            return "no action"
        missing = any([call.observation is None for call in self.calls])
        return "an observation is missing" if missing else ""

    @property
    def complete(self) -> bool:
        """True for a complete triplet: at least one action, and an observation for each."""
        return not self.lack

    @property
    def failed(self) -> tuple[TracedCall, ...]:
        """The calls that failed or ran out of time."""
        return tuple(
            [
                call
                for call in self.calls
                if call.observation is not None
                and call.observation.status in ("failure", "timeout")
            ]
        )

    def step(self) -> Step:
        """Returns the turn as a step, without calls that have no observation."""
        observed = [call for call in self.calls if call.observation is not None]
        return Step(
            self.number,
            self.thought,
            tuple([call.action for call in observed]),
            tuple([call.observation for call in observed if call.observation is not None]),
        )


_NEVER: Final = float("inf")


class OpenTurn:
    """A turn while its records arrive.

    `again` counts the turns before it under the same key, as they occur after a rewind.
    """

    __slots__ = ("again", "at", "calls", "event", "seq")

    def __init__(self, record: e.Record, event: e.Proposed, again: int) -> None:
        self.seq, self.at, self.event, self.again = record.seq, record.at, event, again
        self.calls = [TracedCall(action) for action in event.actions]

    @property
    def complete(self) -> bool:
        """True if there are calls and each has its observation."""
        return bool(self.calls) and all(call.observation is not None for call in self.calls)

    def place(self, abandoned: bool) -> float:
        """Returns a sort key: complete turns are in the order of their end, as in `fold`."""
        if self.complete:
            # The last observation closes the step, and `fold` numbers it then.
            return max(call.observed_seq for call in self.calls)
        # Only an imported log has turns that were left open while the branch continued; others are
        # still running.
        return self.seq if abandoned else _NEVER

    def close(self, number: int) -> TracedTurn:
        """Returns the turn as a value, with the number of its step."""
        event = self.event
        return TracedTurn(number, event.key, self.seq, self.at, event.thought, (*self.calls,))


class TurnFold:
    """The newest turn of each key, from records that are fed in order."""

    def __init__(self) -> None:
        self.open: dict[str, OpenTurn] = {}
        self._proposed: dict[str, int] = {}

    def feed(self, record: e.Record) -> OpenTurn | None:
        """Takes a record. Returns the turn that it concerns, or None."""
        event = record.event
        match event:
            case e.Proposed():
                again = self._proposed.get(event.key, 0)
                self._proposed[event.key] = again + 1
                # An imported log may use a key twice: later records belong to the newest turn.
                turn = self.open[event.key] = OpenTurn(record, event, again)
                return turn
            case e.Decided() | e.Started() | e.Observed():
                found = self.open.get(event.key)
                # An imported log may refer to any call; references to no call are left out.
                if found is None or not 0 <= event.index < len(found.calls):
                    return None
                found.calls[event.index] = found.calls[event.index].after(record)
                return found
            case _:
                return None


def _open_turns(records: Iterable[e.Record]) -> list[OpenTurn]:
    """Returns all turns in order of their proposal."""
    fold = TurnFold()
    found = [(record, fold.feed(record)) for record in records]
    return [turn for record, turn in found if turn and isinstance(record.event, e.Proposed)]


def turns(records: Iterable[e.Record]) -> tuple[TracedTurn, ...]:
    """Returns the turns that are not rewound, numbered from 1.

    Complete turns come in the order in which they closed and so have the numbers of their steps. A
    turn that its branch left open while it continued (only in an imported log) keeps its place.
    Turns that are open at the end of the log come last.
    """
    opened = _open_turns(live(records))
    last = {branch(turn.event.key): turn.seq for turn in opened}
    # A later proposal in the same branch means that this turn was abandoned, not that it runs.
    opened.sort(key=lambda turn: turn.place(turn.seq < last[branch(turn.event.key)]))
    return tuple([turn.close(number) for number, turn in enumerate(opened, 1)])


VERSION: Final = 1


class TraceSpan(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A span. `step` is 0 outside of steps; `start` and `end` are ms since the epoch.

    Ids are `run:seq` with the record that opened the span, so they are stable. `key` is the
    effect's place in the strategy and shows its branch ("3.1.0": the second of the branches forked
    at "3").
    """

    version: int = VERSION
    id: str
    parent: str
    step: int
    timestamp: str
    type: Literal["run", "model", "limit", "step", "tool"]
    name: str
    input: Any = None
    output: Any = None
    status: str
    usage: Usage | None = None
    start: int
    end: int
    key: str = ""


def trace(records: Iterable[e.Record]) -> tuple[TraceSpan, ...]:
    """Returns the entries of a log in the order of their start; open ones end with the log."""
    live_records = live(records)
    if not live_records:
        return ()
    all_turns = turns(live_records)
    root = f"{live_records[0].run}:{live_records[0].seq}"
    spans = [_run(live_records, root), *_model_calls(live_records, all_turns, root)]
    spans += _limits(live_records, root)
    for turn in all_turns:
        spans += _turn(turn, live_records[-1], root)
    return tuple(sorted(spans, key=lambda entry: entry.start))


def _entry(id: str, parent: str, step: int, start: int, **rest: Any) -> TraceSpan:  # noqa: A002
    return TraceSpan(id=id, parent=parent, step=step, timestamp=iso(start), start=start, **rest)


def _run(live_records: Sequence[e.Record], root: str) -> TraceSpan:
    first, last = live_records[0].event, live_records[-1].event
    opened = first if isinstance(first, e.RunStarted) else e.RunStarted(goal="")
    done = last if isinstance(last, e.RunFinished) else None
    return _entry(
        root,
        opened.parent,
        0,
        live_records[0].at,
        type="run",
        name=opened.agent,
        input=opened.goal,
        output=done.output if done else None,
        status=done.status if done else "open",
        end=live_records[-1].at,
    )


def _model_calls(
    live_records: Sequence[e.Record], all_turns: Sequence[TracedTurn], root: str
) -> list[TraceSpan]:
    """Returns model calls, also failed ones. Each belongs to the next step of its branch."""
    numbers = {turn.seq: turn.number for turn in all_turns}
    # Backwards: the step that a reply led to is the next one of its branch.
    following: dict[str, int] = {}
    spans: list[TraceSpan] = []
    for record in reversed(live_records):
        event = record.event
        match event:
            case e.Proposed():
                following[branch(event.key)] = numbers.get(record.seq, 0)
            case e.Replied():
                step = following.get(branch(event.key), 0)
                spans.append(_replied(record, event, step, root))
            case e.AskFailed():
                step = following.get(branch(event.key), 0)
                spans.append(_unanswered(record, event, step, root))
            case _:
                pass
    spans.reverse()
    return spans


def _replied(record: e.Record, event: e.Replied, step: int, root: str) -> TraceSpan:
    return _entry(
        f"{record.run}:{record.seq}",
        root,
        step,
        # Only the end of a model call is a record; its start is the end minus its duration.
        record.at - round(event.ms),
        type="model",
        name=event.model,
        input=event.prompt,
        output=event.text or [msgspec.structs.asdict(call) for call in event.calls],
        status="success",
        usage=event.usage,
        end=record.at,
        key=event.key,
    )


def _unanswered(record: e.Record, event: e.AskFailed, step: int, root: str) -> TraceSpan:
    """Returns a failed model call. The log has neither its model nor its duration."""
    return _entry(
        f"{record.run}:{record.seq}",
        root,
        step,
        record.at,
        type="model",
        name="",
        output=event.message,
        status="timeout" if event.kind == "timeout" else "failure",
        end=record.at,
        key=event.key,
    )


def _limits(live_records: Sequence[e.Record], root: str) -> list[TraceSpan]:
    """Returns the limits that ended an activity. The time limit may have ended an open call."""
    return [
        _entry(
            f"{record.run}:{record.seq}",
            root,
            0,
            record.at,
            type="limit",
            name=event.limit,
            status="timeout" if event.limit == "seconds" else "limited",
            end=record.at,
            key=event.key,
        )
        for record in live_records
        # A negative value only makes the coming turn the last one.
        if isinstance(event := record.event, e.LimitHit) and event.value > 0
    ]


def _turn(turn: TracedTurn, last: e.Record, root: str) -> list[TraceSpan]:
    """Returns a step and the calls in it."""
    own = f"{last.run}:{turn.seq}"
    ends = [call.observed_at or last.at for call in turn.calls]
    step = _entry(
        own,
        root,
        turn.number,
        turn.at,
        type="step",
        name=turn.thought.type,
        input=turn.thought.content,
        output=[call.observation.extraction for call in turn.calls if call.observation is not None],
        status="success" if turn.complete else "interrupted",
        end=max(ends, default=turn.at),
        key=turn.key,
    )
    calls = [_call(call, f"{own}.{index}", turn, last.at) for index, call in enumerate(turn.calls)]
    return [step, *calls]


def _call(call: TracedCall, own: str, turn: TracedTurn, until: int) -> TraceSpan:
    observation = call.observation
    return _entry(
        own,
        own.rpartition(".")[0],
        turn.number,
        # A call that was refused or answered locally never started: its span begins with its turn.
        call.started_at or turn.at,
        type="tool",
        name=call.action.tool,
        input=call.action.parameters,
        output=observation.result if observation else None,
        status=observation.status if observation else "interrupted",
        end=call.observed_at or until,
        key=turn.key,
    )


class AuditEntry(Value, frozen=True):
    """One call. Times are milliseconds since the epoch, 0 = never."""

    key: str
    index: int
    who: str
    tool: str
    parameters: dict[str, JSON]
    tier: int = 0
    decision: str = ""
    """The last verdict: allow, deny, expired, void, done, or ask while it waits."""
    resolver: str = ""
    """The decider: "policy", a principal's id, or "clock"."""
    reason: str = ""
    outcome: str = "open"
    """success, failure, partial or timeout; the reason of a refusal; or "open"."""
    proposed_at: int = 0
    decided_at: int = 0
    started_at: int = 0
    finished_at: int = 0


class RefusedDecision(Value, frozen=True):
    """A rejected attempt to decide."""

    id: str
    who: str
    why: str
    at: int


def audit(
    records: Iterable[e.Record],
) -> tuple[tuple[AuditEntry, ...], tuple[RefusedDecision, ...]]:
    """Returns each call of the run in order of proposal, and each rejected attempt to decide."""
    current = live(records)
    start = opening(current)
    who = "" if start is None else start.principal.id
    entries = [
        _audited(turn, index, who)
        for turn in _open_turns(current)
        for index in range(len(turn.calls))
    ]
    attempts = [
        RefusedDecision(event.id, event.by, event.why, event.at or record.at)
        for record in current
        if isinstance(event := record.event, e.DecisionRefused)
    ]
    return tuple(entries), tuple(attempts)


def _audited(turn: OpenTurn, index: int, who: str) -> AuditEntry:
    call, decision = turn.calls[index], turn.calls[index].decision or e.Decided("", "ask", tier=0)
    observation = call.observation
    return AuditEntry(
        turn.event.key,
        index,
        who,
        turn.event.actions[index].tool,
        call.action.parameters,
        tier=decision.tier,
        decision=decision.verdict if call.decision else "",
        resolver=decision.decider if call.decision else "",
        reason=decision.reason,
        outcome="open" if observation is None else observation.refused or observation.status,
        proposed_at=turn.at,
        decided_at=call.decided_at,
        started_at=call.started_at,
        finished_at=call.observed_at,
    )

"""The log as a person reads it: turn after turn, as flat spans, call by call.

`state.fold` keeps what a run needs to go on; `turns` keeps what can be judged, measured and
exported. It takes any log, also an imported one that breaks the rules. `trace` gives one span per
run, model call, step, tool call and limit that ended something, ready for JSON lines. `audit`
gives for every call who asked, who decided, what happened and when (D10). Pure; secrets were taken
out before anything was logged.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace

from taofold.core import events as e
from taofold.core.call_ids import branch
from taofold.core.state import live
from taofold.core.text import iso
from taofold.core.values import JSON, RESERVED, Action, Observation, Step, Thought, Usage, Value


class TracedCall(Value, frozen=True):
    """One action and what became of it. Times are milliseconds since the epoch, 0 = never."""

    action: Action
    observation: Observation | None = None
    started_at: int = 0
    observed_at: int = 0
    observed_seq: int = -1
    started: bool = False
    effect: str = ""
    """"once" or "idempotent" where the log says that the call changed the world."""

    @property
    def local(self) -> bool:
        """Was it a step of the strategy's own, or reserved, rather than a tool?"""
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
        """What it lacks to be a whole triplet: an action, or the observation of one; "" if none."""
        if not self.calls:
            return "no action"
        missing = any([call.observation is None for call in self.calls])
        return "an observation is missing" if missing else ""

    @property
    def complete(self) -> bool:
        """Is it a whole triplet: at least one action, and an observation for each?"""
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
        """The turn as a step; what has no observation is left out."""
        observed = [call for call in self.calls if call.observation is not None]
        return Step(
            self.number,
            self.thought,
            tuple([call.action for call in observed]),
            tuple([call.observation for call in observed if call.observation is not None]),
        )


_NEVER: Final = float("inf")


class _Open:
    """A turn while its records come in."""

    __slots__ = ("at", "calls", "event", "seq")

    def __init__(self, seq: int, at: int, event: e.Proposed) -> None:
        self.seq, self.at, self.event = seq, at, event
        self.calls = [_Pending(action) for action in event.actions]

    def place(self, abandoned: bool) -> float:
        """Where the turn stands among the others: complete ones by their end, as `fold` does."""
        if self.calls and all(call.observation is not None for call in self.calls):
            # The last observation closes the step, which is when `fold` gives it its number.
            return max(call.observed_seq for call in self.calls)
        # Only an imported log has turns that were left open and gone on from;
        # others are still running.
        return self.seq if abandoned else _NEVER

    def close(self, number: int) -> TracedTurn:
        calls = tuple([call.close() for call in self.calls])
        event = self.event
        return TracedTurn(number, event.key, self.seq, self.at, event.thought, calls)


class _Pending:
    __slots__ = (
        "action",
        "effect",
        "observation",
        "observed_at",
        "observed_seq",
        "started",
        "started_at",
    )

    def __init__(self, action: Action) -> None:
        self.action = action
        self.observation: Observation | None = None
        self.started_at = self.observed_at = 0
        self.observed_seq = -1
        self.started = False
        self.effect = ""

    def close(self) -> TracedCall:
        return TracedCall(
            self.action,
            self.observation,
            self.started_at,
            self.observed_at,
            self.observed_seq,
            self.started,
            self.effect,
        )


def turns(records: Iterable[e.Record]) -> tuple[TracedTurn, ...]:
    """The turns that still count, numbered from 1.

    Complete turns come in the order in which they closed and so bear the numbers of
    their steps. A turn that the same branch left open and went on from (only an
    imported log has such) keeps its place; what is open at the end of the log comes last.
    """
    opened: list[_Open] = []
    current: dict[str, _Open] = {}
    last: dict[str, int] = {}

    # An imported log may use a key twice: what follows belongs to the newest turn under it.
    for record in live(records):
        event = record.event
        match event:
            case e.Proposed():
                turn = _Open(record.seq, record.at, event)
                opened.append(turn)
                current[event.key] = turn
                last[branch(event.key)] = record.seq
            case e.Decided() | e.Started() | e.Observed():
                open_turn = current.get(event.key)
                # An imported log may point anywhere; what points to no call is left out.
                if open_turn is not None and 0 <= event.index < len(open_turn.calls):
                    _enter(open_turn.calls[event.index], event, record)
            case _:
                pass

    # A later proposal in the same branch means that this turn was given up, not that it runs.
    opened.sort(key=lambda turn: turn.place(turn.seq < last[branch(turn.event.key)]))
    return tuple([turn.close(number) for number, turn in enumerate(opened, 1)])


def _enter(call: _Pending, event: e.Decided | e.Started | e.Observed, record: e.Record) -> None:
    match event:
        case e.Decided():
            if event.action is not None:
                call.action = event.action
        case e.Started():
            call.started, call.started_at = True, record.at
            if isinstance(event, e.StartedOnce):
                call.effect = event.effect
        case e.Observed():
            call.observation = event.observation
            call.observed_at, call.observed_seq = record.at, record.seq


VERSION: Final = 1


class TraceSpan(msgspec.Struct, frozen=True, gc=False):
    """A span. `step` is 0 outside of steps; `start` and `end` are ms since the epoch.

    Ids are `run:seq` with the record that opened the span, so they are the same each time.
    `key` is the effect's place in the strategy: what its branch was ("3.1.0": the second
    of the branches forked at "3"), whatever ran at the same time.
    """

    version: int
    id: str
    parent: str
    step: int
    timestamp: str
    type: Literal["run", "model", "limit", "step", "tool"]
    name: str
    input: Any
    output: Any
    status: str
    usage: Usage | None
    start: int
    end: int
    key: str = ""


def trace(records: Iterable[e.Record]) -> tuple[TraceSpan, ...]:
    """The entries of a log in the order of their start; what is open ends with the log."""
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
    return TraceSpan(VERSION, id, parent, step, iso(start), start=start, **rest)


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
        usage=None,
        end=live_records[-1].at,
    )


def _model_calls(
    live_records: Sequence[e.Record], all_turns: Sequence[TracedTurn], root: str
) -> list[TraceSpan]:
    """Model calls, also those that failed. Each belongs to the next step of its branch."""
    numbers = {turn.seq: turn.number for turn in all_turns}
    # From the end to the beginning: the step that a reply led to is the next one of its branch.
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
        # Only the end of a model call is a record; its start is the end minus what it took.
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
    """A model call that brought an error. The log does not say which model, nor for how long."""
    return _entry(
        f"{record.run}:{record.seq}",
        root,
        step,
        record.at,
        type="model",
        name="",
        input=None,
        output=event.message,
        status="timeout" if event.kind == "timeout" else "failure",
        usage=None,
        end=record.at,
        key=event.key,
    )


def _limits(live_records: Sequence[e.Record], root: str) -> list[TraceSpan]:
    """The limits that let nothing more be called. Of time it may have ended a call that hung."""
    return [
        _entry(
            f"{record.run}:{record.seq}",
            root,
            0,
            record.at,
            type="limit",
            name=event.limit,
            input=None,
            output=None,
            status="timeout" if event.limit == "seconds" else "limited",
            usage=None,
            end=record.at,
            key=event.key,
        )
        for record in live_records
        # A negative value only makes the coming turn the last one.
        if isinstance(event := record.event, e.LimitHit) and event.value > 0
    ]


def _turn(turn: TracedTurn, last: e.Record, root: str) -> list[TraceSpan]:
    """A step and the calls in it."""
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
        usage=None,
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
        # A call that was refused or answered locally never started: the span
        # then begins with its turn.
        call.started_at or turn.at,
        type="tool",
        name=call.action.tool,
        input=call.action.parameters,
        output=observation.result if observation else None,
        status=observation.status if observation else "interrupted",
        usage=None,
        end=call.observed_at or until,
        key=turn.key,
    )


class AuditEntry(Value, frozen=True):
    """One call. Times are milliseconds since the epoch, 0 where it never came so far."""

    key: str
    index: int
    who: str
    tool: str
    parameters: dict[str, JSON]
    tier: int = 0
    decision: str = ""
    """The last verdict: allow, deny, expired, void, done, or ask while it waits."""
    resolver: str = ""
    """Who decided: "policy", a person's id, "clock"."""
    reason: str = ""
    outcome: str = "open"
    """success, failure, partial or timeout; why it was refused; or "open"."""
    proposed_at: int = 0
    decided_at: int = 0
    started_at: int = 0
    finished_at: int = 0


class RefusedDecision(Value, frozen=True):
    """A decision that somebody tried to take and may not."""

    id: str
    who: str
    why: str
    at: int


def audit(
    records: Iterable[e.Record],
) -> tuple[tuple[AuditEntry, ...], tuple[RefusedDecision, ...]]:
    """Every call of the run in order of proposal, and every refused attempt to decide."""
    who = ""
    entries: dict[tuple[str, int], AuditEntry] = {}
    attempts: list[RefusedDecision] = []
    for record in live(records):
        event = record.event
        match event:
            case e.RunStarted():
                who = event.principal.id
            case e.Proposed():
                for index, action in enumerate(event.actions):
                    entries[event.key, index] = AuditEntry(
                        event.key,
                        index,
                        who,
                        action.tool,
                        action.parameters,
                        proposed_at=record.at,
                    )
            case e.Decided() | e.Started() | e.Observed():
                position = (event.key, event.index)
                # The entry is there: `Proposed` comes first, and an import where it does not is
                # refused (`core.imported_runs`).
                entries[position] = _with(entries[position], event, record.at)
            case e.DecisionRefused():
                attempts.append(
                    RefusedDecision(event.id, event.by, event.why, event.at or record.at)
                )
            case _:
                pass
    return tuple(entries.values()), tuple(attempts)


def _with(entry: AuditEntry, event: e.Decided | e.Started | e.Observed, at: int) -> AuditEntry:
    if isinstance(event, e.Started):
        return replace(entry, started_at=at)
    if isinstance(event, e.Observed):
        observation = event.observation
        return replace(entry, outcome=observation.refused or observation.status, finished_at=at)
    parameters = entry.parameters if event.action is None else event.action.parameters
    return replace(
        entry,
        parameters=parameters,
        tier=event.tier,
        decision=event.verdict,
        resolver=event.decider,
        reason=event.reason,
        decided_at=at,
    )

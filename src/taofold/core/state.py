"""A run's state is a fold over its records. There is no other state.

`reduce` is one step of the fold, with a case for each kind of event. Its cost does not grow with
the run: the steps are a shared append-only `Chain`, and everything else in `RunState` is counters
and the few open steps. This module also finds the live records after rewinds, and a log's first and
last event.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias, assert_never, overload

import msgspec
from msgspec.structs import replace

from taofold.core import events as e
from taofold.core.errors import LogError
from taofold.core.values import Action, Message, Observation, Step, Thought, Usage, Value


class Chain(Sequence[Step]):
    """An immutable view of the first `len(self)` steps of a shared append-only list."""

    __slots__ = ("_items", "_length")

    def __init__(self, items: list[Step] | None = None, length: int = 0) -> None:
        self._items: list[Step] = [] if items is None else items
        self._length = length

    def plus(self, step: Step) -> "Chain":
        """Returns the chain with `step` appended; `self` does not change."""
        # Two states may share one list. The first to append extends it in place; the other, whose
        # prefix is then shorter than the list, copies its prefix first.
        items = self._items if len(self._items) == self._length else self._items[: self._length]
        items.append(step)
        return Chain(items, self._length + 1)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Step: ...
    @overload
    def __getitem__(self, index: slice) -> list[Step]: ...
    def __getitem__(self, index: int | slice) -> Step | list[Step]:
        if isinstance(index, slice):
            # By position: the list may hold steps of a later state, which this view must not show.
            return [self._items[position] for position in range(*index.indices(self._length))]
        if index < -self._length or index >= self._length:
            raise IndexError(index)
        return self._items[index if index >= 0 else self._length + index]

    def __iter__(self) -> Iterator[Step]:
        for position in range(self._length):
            yield self._items[position]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Chain) and list(self) == list(other)

    # Equality is by content, so the identity hash of object would be wrong.
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Chain({list(self)!r})"


Status: TypeAlias = Literal[
    "new", "running", "waiting", "finished", "limited", "failed", "cancelled"
]
_Called: TypeAlias = e.Decided | e.Started | e.Observed
ENDED: frozenset[str] = frozenset({"finished", "limited", "failed", "cancelled"})
"""Terminal statuses. Only a resume may append; another run of the session may begin."""
IDLE: frozenset[str] = frozenset({"new", "waiting"})
"""Statuses in which elapsed time does not count as activity."""


class ActionSlot(Value, frozen=True):
    """The status of one action of an open step."""

    action: Action
    decided: e.Decided | None = None
    started: bool = False
    attempts: int = 0
    """Number of starts of the call; more than one after an interruption or an answer."""
    lost: int = 0
    """Number of activations that ended during the call without a record, as after a kill."""
    cut: bool = False
    """True if its last start was lost in this way: a further start counts against the limits."""
    observation: Observation | None = None
    update: tuple[str, Any] | None = None


class OpenStep(Value, frozen=True):
    """A step whose last observation is still missing."""

    thought: Thought
    slots: tuple[ActionSlot, ...]


class RunState(Value, frozen=True):
    """The state of a run after some prefix of its log."""

    goal: str = ""
    status: Status = "new"
    stop_reason: str = ""
    success: bool = False
    output: Any = None
    accepted: Any = None
    error: str = ""
    waiting_for: str = ""
    started: e.RunStarted | None = None
    agent: str = ""
    """The active agent."""
    data: Mapping[str, Any] = {}
    steps: Chain = msgspec.field(default_factory=Chain)
    open: Mapping[str, OpenStep] = {}
    model_calls: int = 0
    tool_calls: int = 0
    per_tool: Mapping[str, int] = {}
    child_model_calls: int = 0
    child_tool_calls: int = 0
    refused_calls: int = 0
    refused_row: int = 0
    usage: Usage = Usage()
    usage_by_model: Mapping[str, Usage] = {}
    limits_hit: tuple[str, ...] = ()
    heard: tuple[Message, ...] = ()
    epoch: int = 0
    wakes: int = 0
    rewinds: int = 0
    at: int = 0
    masked: bool = False
    """True if a mask replaced a secret in any text that the model reads."""
    active_ms: int = 0
    """Milliseconds of activity, without time spent waiting for answers or without a process."""


def reduce(state: RunState, record: e.Record) -> RunState:  # noqa: C901  # one case per event
    """Returns the state after `record`. Pure; `state` is not changed."""
    event, at = record.event, record.at
    active = state.active_ms + _activity(state, event, at)
    match event:
        case e.Replied():
            return _replied(state, event, at, active)
        case e.Charged():
            return replace(_charged(state, event), at=at, active_ms=active)
        case e.Proposed():
            opened = OpenStep(event.thought, tuple(map(ActionSlot, event.actions)))
            # A new dict, never a change in place: earlier states share it. Open steps are few.
            return replace(state, open={**state.open, event.key: opened}, at=at, active_ms=active)
        case e.Decided():
            slot = _slot(state, event)
            slot = replace(slot, decided=event, action=event.action or slot.action)
            slots = _slots(state, event, slot)
            masked = state.masked or (isinstance(event, e.Resolved) and event.masked)
            # A decision ends the waiting of a parked run.
            return replace(
                state, open=slots, status="running", masked=masked, at=at, active_ms=active
            )
        case e.Started():
            return _started(state, event, at, active)
        case e.Observed():
            return _observed(state, event, at, active)
        # Before the general `Noted` below: the order of these two cases matters.
        case e.Noted(kind="state"):
            data = {**state.data, **event.data}
            return replace(state, data=data, at=at, active_ms=active)
        case e.Annotation() | e.Noted():
            return replace(state, at=at, active_ms=active)
        case e.RunStarted():
            return replace(
                state,
                goal=event.goal,
                status="running",
                started=event,
                agent=event.agent,
                data=event.data,
                masked=event.masked,
                at=at,
            )
        case e.HandedOff():
            masked = state.masked or event.masked
            return replace(state, agent=event.agent, masked=masked, at=at, active_ms=active)
        case e.Updated():
            data = {**state.data, event.name: event.value}
            return replace(state, data=data, at=at, active_ms=active)
        case e.Steered():
            message = Message("user", event.content)
            masked = state.masked or event.masked
            return replace(
                state, heard=(*state.heard, message), masked=masked, at=at, active_ms=active
            )
        case e.LimitHit():
            hit = (*state.limits_hit, event.limit)
            return replace(state, limits_hit=hit, at=at, active_ms=active)
        case e.Resumed():
            # `active_ms` is not updated here, at a start or at a rewind: nothing was active before.
            return replace(
                state,
                status="running",
                open=_after_loss(state, event),
                epoch=event.epoch,
                waiting_for="",
                wakes=state.wakes + 1,
                at=at,
            )
        case e.Parked():
            return replace(
                state, status="waiting", waiting_for=event.reason, at=at, active_ms=active
            )
        case e.RunFinished():
            return replace(
                state,
                status=event.status,
                stop_reason=event.stop_reason,
                success=event.success,
                output=event.output,
                accepted=event.accepted,
                error=event.error,
                waiting_for="",
                at=at,
                active_ms=active,
            )
        case e.Rewound():
            return replace(state, rewinds=state.rewinds + 1, at=at)
        case _:
            # The type checker reports this line when an event is added and no case folds it.
            assert_never(event)


def usage_of(event: e.Event) -> Usage:
    """Returns the consumption that an event reports; zero for most."""
    match event:
        case e.Replied() | e.Charged():
            return event.usage
        case e.Observed():
            return event.usage or Usage()
        case _:
            return Usage()


def _replied(state: RunState, event: e.Replied, at: int, active: int) -> RunState:
    return replace(
        state,
        # A reply from the cache costs nothing and counts against no limit on calls.
        model_calls=state.model_calls + (not event.cached),
        usage=state.usage + event.usage,
        usage_by_model=_by_model(state, {event.model: event.usage}),
        masked=state.masked or event.masked,
        at=at,
        active_ms=active,
    )


def _charged(state: RunState, event: e.Charged) -> RunState:
    return replace(
        state,
        usage=state.usage + event.usage,
        usage_by_model=_by_model(state, {event.model: event.usage}),
    )


def _activity(state: RunState, event: e.Event, at: int) -> int:
    """Returns the milliseconds of work since the last record."""
    # An event carries its own time only if the machine's clock was changed.
    if event.elapsed is not None:
        return event.elapsed
    # The previous status decides: a `Resolved` ends a wait, which was no activity.
    if at > state.at and event.timed and state.status not in IDLE:
        return at - state.at
    return 0


def _after_loss(state: RunState, event: e.Resumed) -> Mapping[str, OpenStep]:
    """Returns the open steps at the start of an activation, with interrupted calls marked as lost.

    An activation that ended normally has recorded its end, so the status is no longer `running`.
    The first owner of a run has epoch 1 and records no `Resumed`.
    """
    if not state.open or state.status != "running" or event.epoch <= max(state.epoch, 1):
        return state.open
    return {
        key: OpenStep(step.thought, tuple(map(_lost, step.slots)))
        for key, step in state.open.items()
    }


def _lost(slot: ActionSlot) -> ActionSlot:
    return replace(slot, lost=slot.lost + 1, cut=True) if is_at_work(slot) else slot


def is_at_work(slot: ActionSlot) -> bool:
    """Returns whether the call was started, is not finished, and is not waiting for an answer."""
    is_asking = slot.decided is not None and slot.decided.request is not None
    return slot.started and slot.observation is None and not is_asking


def _started(state: RunState, event: e.Started, at: int, active: int) -> RunState:
    slot = _slot(state, event)
    begun = replace(slot, started=True, attempts=slot.attempts + 1, cut=False)
    opened = _slots(state, event, begun)
    # A call that continues with an answer, or after an orderly stop, counts once. A call repeated
    # because it raised, or because its process died, counts again.
    if slot.started and not (event.retry or slot.cut):
        return replace(state, open=opened, at=at, active_ms=active)
    tool = slot.action.tool
    return replace(
        state,
        open=opened,
        tool_calls=state.tool_calls + 1,
        per_tool={**state.per_tool, tool: state.per_tool.get(tool, 0) + 1},
        refused_row=0,
        at=at,
        active_ms=active,
    )


def _observed(state: RunState, event: e.Observed, at: int, active: int) -> RunState:
    observation = event.observation
    refused = bool(observation.refused)
    slot = _slot(state, event)
    slot = replace(slot, observation=observation, update=event.update)
    opened = _slots(state, event, slot)
    done = opened[event.key]
    steps, data = state.steps, state.data
    # Observations arrive in any order; the slots have the order of the batch.
    observations = tuple([slot.observation for slot in done.slots if slot.observation is not None])
    if len(observations) == len(done.slots):  # updates fold in declared order
        # The step is complete: all later states share it and never copy it again.
        del opened[event.key]
        actions = tuple([slot.action for slot in done.slots])
        # Numbered when complete: an interrupted step never gets a number.
        steps = steps.plus(Step(len(steps) + 1, done.thought, actions, observations))
        updates = [slot.update for slot in done.slots if slot.update is not None]
        data = {**data, **dict(updates)} if updates else data

    if event.usage is not None or event.calls is not None or event.tools:
        state = _spent(state, event)
    return replace(
        state,
        open=opened,
        steps=steps,
        data=data,
        refused_calls=state.refused_calls + refused,
        refused_row=state.refused_row + 1 if refused else 0,
        masked=state.masked or observation.masked,
        at=at,
        active_ms=active,
    )


def _spent(state: RunState, event: e.Observed) -> RunState:
    """Returns the state with the consumption of a child run added."""
    asked_calls, acted = event.calls or (0, 0)
    per_tool = {name: state.per_tool.get(name, 0) + count for name, count in event.tools.items()}
    return replace(
        state,
        per_tool={**state.per_tool, **per_tool},
        usage=state.usage + (event.usage or Usage()),
        usage_by_model=_by_model(state, event.models) if event.models else state.usage_by_model,
        child_model_calls=state.child_model_calls + asked_calls,
        child_tool_calls=state.child_tool_calls + acted,
    )


def _by_model(state: RunState, more: Mapping[str, Usage]) -> Mapping[str, Usage]:
    before = state.usage_by_model
    sums = {name: before[name] + use if name in before else use for name, use in more.items()}
    return {**before, **sums}


def _slot(state: RunState, event: _Called) -> ActionSlot:
    """Returns the slot of the event's action.

    Raises:
        LogError: There is no such slot, so no release wrote this log.
    """
    opened = state.open.get(event.key)
    if opened is None or not 0 <= event.index < len(opened.slots):
        call = f"{type(event).__name__} of {event.key}[{event.index}]"
        raise LogError(f"{call} belongs to no open step: the log was changed")
    return opened.slots[event.index]


def _slots(state: RunState, event: _Called, slot: ActionSlot) -> dict[str, OpenStep]:
    """Returns the open steps with `slot` for the event's action."""
    opened = state.open[event.key]
    slots = list(opened.slots)
    slots[event.index] = slot
    return {**state.open, event.key: OpenStep(opened.thought, tuple(slots))}


def live(records: Iterable[e.Record]) -> list[e.Record]:
    """Returns the records that still count, without those that a `Rewound` removed."""
    surviving: list[e.Record] = []
    for record in records:
        if isinstance(record.event, e.Rewound):
            to = record.event.to
            # Each record is pushed and popped at most once, so nested rewinds stay linear.
            while surviving and surviving[-1].seq > to:
                surviving.pop()
        surviving.append(record)
    return surviving


def opening(records: Iterable[e.Record]) -> e.RunStarted | None:
    """Returns the `RunStarted` of the run, or None if the log lacks it."""
    for record in records:
        if isinstance(record.event, e.RunStarted):
            return record.event
    return None


def ending(records: Iterable[e.Record]) -> e.RunFinished | None:
    """Returns the last `RunFinished` that no rewind revoked, or None."""
    for record in reversed(live(records)):
        if isinstance(record.event, e.RunFinished):
            return record.event
    return None


def fold(records: Iterable[e.Record], state: RunState = RunState()) -> RunState:
    """Returns the state after `records`. Time travel is `fold(records[:n])`.

    The consumption of a rewound branch and its children stays spent.
    """
    records = list(records)
    counted = live(records)
    for record in counted:
        state = reduce(state, record)
    if len(counted) == len(records):
        return state
    # Money and tokens of a rewound branch are spent all the same.
    surviving = {record.seq for record in counted}
    for record in records:
        if record.seq in surviving:
            continue
        if isinstance(record.event, e.Replied):
            state = _replied(state, record.event, state.at, state.active_ms)
        elif isinstance(record.event, e.Charged):
            state = _charged(state, record.event)
        elif isinstance(record.event, e.Observed):
            state = _spent(state, record.event)
    return state

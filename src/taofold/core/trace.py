"""The log as a person reads it: one turn after the other, complete or not, with its times.

`state.fold` keeps what a run needs to go on; `turns` keeps what can be judged, measured
and exported. It takes any log, also an imported one that breaks the rules.
"""

from collections.abc import Iterable
from typing import Final

from taofold.core import events as e
from taofold.core.state import live
from taofold.core.values import RESERVED, Action, Observation, Step, Thought, Value


class Call(Value, frozen=True):
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
        own = not self.started and self.observation is not None and not self.observation.refused
        return own or self.action.tool in RESERVED


class Turn(Value, frozen=True):
    """A thought and its batch. `number` is the step's where the turn is complete."""

    number: int
    key: str
    seq: int
    at: int
    thought: Thought
    calls: tuple[Call, ...]

    @property
    def complete(self) -> bool:
        """Is it a whole triplet: at least one action, and an observation for each?"""
        return bool(self.calls) and all(call.observation is not None for call in self.calls)

    @property
    def failed(self) -> tuple[Call, ...]:
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
        seen = [call for call in self.calls if call.observation is not None]
        return Step(
            self.number,
            self.thought,
            tuple([call.action for call in seen]),
            tuple([call.observation for call in seen if call.observation is not None]),
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
            return max(call.observed_seq for call in self.calls)
        return self.seq if abandoned else _NEVER

    def close(self, number: int) -> Turn:
        calls = tuple([call.close() for call in self.calls])
        event = self.event
        return Turn(number, event.key, self.seq, self.at, event.thought, calls)


class _Pending:
    __slots__ = (
        "action", "effect", "observation", "observed_at", "observed_seq", "started", "started_at",
    )  # fmt: skip

    def __init__(self, action: Action) -> None:
        self.action = action
        self.observation: Observation | None = None
        self.started_at = self.observed_at = 0
        self.observed_seq = -1
        self.started = False
        self.effect = ""

    def close(self) -> Call:
        return Call(
            self.action,
            self.observation,
            self.started_at,
            self.observed_at,
            self.observed_seq,
            self.started,
            self.effect,
        )


def branch(key: str) -> str:
    """The branch of the strategy in which the effect `key` stands: "" outside every fork."""
    return key.rpartition(".")[0]


def turns(records: Iterable[e.Record]) -> tuple[Turn, ...]:
    """The turns that still count, numbered from 1.

    Complete turns come in the order in which they closed and so bear the numbers of
    their steps. A turn that the same branch left open and went on from (only an
    imported log has such) keeps its place; what is open at the end of the log comes last.
    """
    opened: list[_Open] = []
    current: dict[str, _Open] = {}
    last: dict[str, int] = {}
    for record in live(records):
        event = record.event
        match event:
            case e.Proposed():
                turn = _Open(record.seq, record.at, event)
                opened.append(turn)
                current[event.key] = turn
                last[branch(event.key)] = record.seq
            case e.Decided() | e.Started() | e.Observed():
                found = current.get(event.key)
                if found is not None and 0 <= event.index < len(found.calls):
                    _enter(found.calls[event.index], event, record)
            case _:
                pass
    placed = [(o.place(o.seq < last[branch(o.event.key)]), o.seq, o) for o in opened]
    placed.sort(key=lambda entry: entry[:2])
    return tuple([entry[2].close(number) for number, entry in enumerate(placed, 1)])


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


def child_id(run: str, key: str, index: int) -> str:
    """The id of the run that the call at this place of `run` begins, if it is an agent's."""
    return f"{run}.{key.replace('.', '-')}-{index}"


def opening(records: Iterable[e.Record]) -> e.RunStarted | None:
    """The run's first fact, None if the log lacks it."""
    for record in records:
        if isinstance(record.event, e.RunStarted):
            return record.event
    return None

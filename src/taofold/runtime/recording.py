"""Recorded results: what earlier lives of a run left on record, asked before the world is.

Run, resume and replay differ here and nowhere else. A `Recording` answers for a run that goes on:
what was done stands, what was not begun is judged anew. A `ReplayedRecording` answers for an exact
replay: everything is derived again and compared, and the world is never asked. A new run has an
empty recording. The *tape* holds the records by the place of each effect. Knows nothing about
models, tools or people.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import Any, ClassVar, Final, TypeVar

from msgspec.structs import replace

from taofold.core import events as e
from taofold.core.errors import LogError, ReplayDiverged
from taofold.core.state import live
from taofold.core.values import Action, Observation
from taofold.log.run_store import Store

E = TypeVar("E", bound=e.Happened)

WHOLE: Final = -1
"""The index of what is about an effect as a whole, not about one call of its batch."""


def _place(event: e.Happened) -> tuple[str, int]:
    """The effect, and the call of its batch, to which an event belongs."""
    return getattr(event, "key", ""), getattr(event, "index", WHOLE)


def _position(key: str) -> tuple[str, int]:
    """The branch of an effect, and its place in it.

    Raises:
        LogError: it is no place, so no release has written it.
    """
    branch, _, position = key.rpartition(".")
    try:
        return branch, int(position)
    except ValueError:
        raise LogError(f"{key!r} is no place in a run: its log was changed") from None


def _kind(event: e.Happened) -> type[e.Happened]:
    """What it is filed as: each `Started` alike."""
    return e.Started if isinstance(event, e.Started) else type(event)


class Tape:
    """The records of a run, to be consumed by re-driving it."""

    def __init__(self, records: Iterable[e.Record] = ()) -> None:
        self._order = deque(records)
        self._at: dict[tuple[str, int], dict[type[e.Happened], deque[e.Record]]] = {}
        """By place and kind, each in the order of the log."""
        self.steered: list[e.Record] = []
        """What people said and no step has taken in yet."""
        self._last: dict[str, int] = {}
        self._left: dict[str, int] = {}
        # What a rewind took back is not on the tape, but still in `_order`:
        # the state counts its cost.
        for record in live(self._order):
            if isinstance(record.event, e.Steered):
                self.steered.append(record)
            elif record.event.derived:
                place = _place(record.event)
                kinds = self._at.setdefault(place, {})
                kinds.setdefault(_kind(record.event), deque()).append(record)
                self._count(place[0], 1)

    # An effect inside a fork counts for every fork around it, so that `behind` needs no search.
    def _count(self, key: str, change: int) -> None:
        while key:
            branch, position = _position(key)
            self._last[branch] = max(self._last.get(branch, -1), position)
            self._left[key] = self._left.get(key, 0) + change
            # Two segments less: "3.1.0" is effect 0 of branch 1 of the fork at "3".
            key = branch.rpartition(".")[0]

    def behind(self, key: str) -> bool:
        """Does the tape hold anything that this branch did at `key` or later?"""
        if not self._last:
            return False
        branch, position = _position(key)
        return position < self._last.get(branch, -1) or self._left.get(key, 0) > 0

    def _queue(self, kind: type[e.Happened], key: str, index: int) -> deque[e.Record] | None:
        kinds = self._at.get((key, index)) if self._at else None
        return None if kinds is None else kinds.get(kind)

    def peek(self, kind: type[E], key: str, index: int = WHOLE) -> E | None:
        """The next recorded event of `kind` at this place, left on the tape."""
        queue = self._queue(kind, key, index)
        return queue[0].event if queue else None  # type: ignore[return-value]

    def take(self, kind: type[e.Happened], key: str, index: int = WHOLE) -> e.Record | None:
        """The next recorded record of `kind` at this place, off the tape."""
        queue = self._queue(kind, key, index)
        if not queue:
            return None
        self._count(key, -1)
        return queue.popleft()

    def attempts(self, key: str, index: int) -> list[e.Record]:
        """What became of one action up to its last `Started`, off the tape, in order.

        What stays on the tape came after it: only that is about the start that counts now.
        """
        # A decision behind the last start is the answer to a question about that start: it stays.
        started = self._queue(e.Started, key, index)
        return self.call(key, index, started[-1].seq if started else -1)

    def call(self, key: str, index: int, until: float = inf) -> list[e.Record]:
        """Everything that became of one action, off the tape, in order; up to record `until`."""
        taken: list[e.Record] = []
        for queue in self._at.get((key, index), {}).values():
            while queue and queue[0].seq <= until:
                taken.append(queue.popleft())
        if taken:
            self._count(key, -len(taken))
        return sorted(taken, key=lambda record: record.seq)

    def steering(self, key: str) -> list[e.Record]:
        """What people said up to the turn at `key` of its branch, off the tape."""
        branch, position = _position(key)
        heard: list[e.Record] = []
        for record in tuple(self.steered):
            branch_key, at = _position(getattr(record.event, "key", ""))
            if branch_key == branch and at <= position:
                self.steered.remove(record)
                heard.append(record)
        return heard

    def until(self, seq: int | None = None) -> Iterator[e.Record]:
        """The records not yet given out, in the order of the log, up to `seq` (None: all)."""
        # Taken off the left: each record is restored once, over the whole activation O(n).
        while self._order and (seq is None or self._order[0].seq <= seq):
            yield self._order.popleft()

    def rest(self) -> list[e.Record]:
        """What was never asked for, in order."""
        if not self._at:
            return []
        left = [
            record for kinds in self._at.values() for queue in kinds.values() for record in queue
        ]
        return sorted(left, key=lambda record: record.seq)


def _essence(event: e.Event) -> Any:
    """What must be equal on resume: kind, key and, for a step, what would be done (D13)."""
    if isinstance(event, e.Proposed):
        return event.key, [_request(action) for action in event.actions]
    return getattr(event, "key", ""), _kind(event).__name__, getattr(event, "index", 0)


def _request(action: Action) -> tuple[str, dict[str, Any]]:
    """Tool and parameters."""
    return action.tool, action.parameters


# BaseException, like the signals of `ledger`: no `except Exception` of a strategy may swallow it.
class EndOfTape(BaseException):
    """An exact replay came to the end of what was recorded."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class Recording:
    """The past of a run that goes on: what was done stands, the rest is judged anew."""

    exact: ClassVar[bool] = False
    """Is everything compared, and the world never asked?"""

    def __init__(self, records: Iterable[e.Record], store: Store) -> None:
        self.tape = Tape(records)
        self.fresh = False
        """No event is left on the tape (steering may be): what comes now happens now."""
        self._store = store

    def event(self, kind: type[E], key: str, index: int = WHOLE) -> E | None:
        """The next recorded event of `kind` at this place; it stays on the tape."""
        return None if self.fresh else self.tape.peek(kind, key, index)

    def recall_next(self, kind: type[E], key: str, index: int = WHOLE) -> E | None:
        """The next recorded event of `kind` at this place, off the tape and into the state."""
        record = None if self.fresh else self.tape.take(kind, key, index)
        if record is None:
            return None
        self.restore(record)
        return record.event  # type: ignore[return-value]

    def recall(self, kind: type[E], key: str, index: int = WHOLE) -> list[E]:
        """All recorded events of `kind` at this place, off the tape and into the state."""
        events: list[E] = []
        while (event := self.recall_next(kind, key, index)) is not None:
            events.append(event)
        return events

    def recall_call(self, key: str, index: int) -> list[e.Event]:
        """All that became of one action, off the tape and into the state, in order."""
        return self._restore_all(self.tape.call(key, index))

    def restore(self, record: e.Record) -> None:
        """Take in a recorded record, and whatever lies before it in the log."""
        for earlier in self.tape.until(record.seq):
            # Folded into the state, not written: it is in the log already.
            self._store.restore(earlier)

    def restore_rest(self) -> None:
        """Take in all that is left in the log: from here on it happens now."""
        for earlier in self.tape.until():
            self._store.restore(earlier)

    def enter_present(self) -> None:
        """What comes now happens now, unless parallel branches have a past left."""
        # Branches reach the present one after the other.
        self.fresh = not self.tape.rest()

    def match(self, event: e.Event) -> e.Record | None:
        """The record of `event`, off the tape and into the state; None if it never happened.

        Raises:
            ReplayDiverged: something else is recorded there.
        """
        key, index = _place(event)
        record = self.tape.take(_kind(event), key, index)
        if record is None:
            self._check_absence(key, event)
            return None
        self._compare(key, record.event, event)
        self.restore(record)
        return record

    def covers(self, key: str) -> bool:
        """Is what happens at `key` recorded, or nobody's to add to?"""
        return not self.fresh and self.tape.behind(key)

    def settles_limits(self, key: str) -> bool:
        """Does the record say which limits were hit at `key`, instead of the count so far?"""
        return self.covers(key)

    def expects(self, note: e.Happened, key: str) -> bool:
        """Should `note` be put at `key`?

        Not if the record lacks it here: another release or runtime may note less.
        """
        return not self.covers(key) or self._has(note, key)

    def _has(self, note: e.Happened, key: str) -> bool:
        """Is a note of this kind the next at this place?"""
        recorded = self.event(type(note), *_place(note))
        if isinstance(recorded, e.Noted) and isinstance(note, e.Noted):
            return recorded.kind == note.kind
        return recorded is not None

    def settled_call(self, key: str, index: int) -> list[e.Event]:
        """All that became of an action that was observed: it stands, whatever code says now."""
        return self.recall_call(key, index) if self.event(e.Observed, key, index) else []

    def attempts(self, key: str, index: int) -> list[e.Event]:
        """What became of one action up to its last start, which nobody has observed."""
        if self.event(e.Started, key, index) is None:
            return []
        return self._restore_all(self.tape.attempts(key, index))

    def abandon_call(self, key: str, index: int) -> None:
        """Take in a call that waits in the middle, if nothing will go on with it."""

    def overrule(self, key: str, index: int, verdict: str) -> None:
        """Forget a verdict on an action that was not begun if the policy now gives another."""
        recorded = self.event(e.Decided, key, index)
        if recorded is not None and recorded.verdict != verdict:
            self.forget_verdict(key, index)

    def forget_verdict(self, key: str, index: int) -> None:
        """Another decision about an action that was not begun takes the place of the recorded."""
        self.recall(e.Decided, key, index)
        self.recall(e.Resolved, key, index)

    def _check_absence(self, key: str, event: e.Event) -> None:
        """Nothing is recorded where `event` belongs."""

    def _compare(self, key: str, recorded: e.Event, event: e.Event) -> None:
        # Only what would be done: a reworded prompt or another clock strands no run.
        if _essence(recorded) != _essence(event):
            raise ReplayDiverged(key, _essence(recorded), _essence(event))

    def _restore_all(self, records: Iterable[e.Record]) -> list[e.Event]:
        events: list[e.Event] = []
        for record in records:
            self.restore(record)
            events.append(record.event)
        return events


class ReplayedRecording(Recording):
    """The past of a run that is derived once more, exactly as it was: no present follows."""

    exact = True

    def __init__(self, records: Sequence[e.Record], store: Store) -> None:
        super().__init__(records, store)
        self._foreign = any([_is_foreign(record.event) for record in records])

    def covers(self, key: str) -> bool:
        """Nothing may be added anywhere."""
        return True

    def settles_limits(self, key: str) -> bool:
        """Only in a fork: what had been spent by then depends on the order of its branches."""
        return "." in key and self.tape.behind(key)

    def expects(self, note: e.Happened, key: str) -> bool:
        """Every note is compared, but for one that may be missing (`Happened.optional`)."""
        return not note.optional or not self.tape.behind(key) or self._has(note, key)

    def settled_call(self, key: str, index: int) -> list[e.Event]:
        """None: it is ruled on again, and that is compared."""
        return []

    def attempts(self, key: str, index: int) -> list[e.Event]:
        """None: each start is compared."""
        return []

    def abandon_call(self, key: str, index: int) -> None:
        """It waits in the middle of its call, or was cut off there."""
        self.recall_call(key, index)

    def overrule(self, key: str, index: int, verdict: str) -> None:
        """Never: another verdict is a divergence."""

    def _check_absence(self, key: str, event: e.Event) -> None:
        if self.tape.behind(key):
            raise ReplayDiverged(key, None, event)
        raise EndOfTape(key)

    def _compare(self, key: str, recorded: e.Event, event: e.Event) -> None:
        if not self.agree(recorded, event):
            raise ReplayDiverged(key, recorded, event)

    def agree(self, recorded: e.Event, event: e.Event) -> bool:
        """True if both are the same event, in a run of two runtimes but for the words of each."""
        recorded, event = recorded.timeless(), event.timeless()
        if not self._foreign:
            return recorded == event
        return shared(recorded) == shared(event)


def _is_foreign(event: e.Event) -> bool:
    """Whether an event shows that another runtime drove the run, and put it in its words."""
    match event:
        case e.RunStarted(settings=settings):
            return bool(settings.get("runtime"))
        case e.Resumed(runtime=runtime):
            return bool(runtime)
        case e.Replied():
            return event.foreign
        case _:
            return False


def shared(event: e.Event) -> e.Event:
    """Returns the event without what `docs/log-format.md` leaves to each runtime."""
    match event:
        case e.Violated():
            return replace(event, detail="")
        case e.Decided():
            return replace(event, reason="", preview="", policy="", deciders=None)
        case e.RunFinished():
            return replace(event, error="")
        case e.Proposed(thought=thought, actions=actions):
            # A synthesized thought, and why a call cannot be read, are a runtime's own words.
            unread = [replace(it, error="unread") if it.error else it for it in actions]
            content = "" if thought.synthesized else thought.content
            return replace(event, thought=replace(thought, content=content), actions=tuple(unread))
        case e.Observed(observation=observation) if _is_worded(observation):
            # The kind of refusal is agreed, the words for it are not.
            kind = Observation(status=observation.status, refused=observation.refused)
            return replace(event, observation=kind)
        case e.Noted(kind="unread"):
            return replace(event, data={})
        case e.Noted(kind="corrected", data=data):
            return replace(event, data={**data, "stopped": ""})
        case _:
            return event


def _is_worded(observation: Observation) -> bool:
    """Whether a runtime wrote it: a refusal, or a step of the strategy's own that failed."""
    return bool(observation.refused) or (observation.auto and observation.status == "failure")

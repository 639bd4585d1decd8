"""Recorded results of a run's earlier activations, consulted before the world.

Run, resume and replay differ only here. A `Recording` serves a continued run: finished work stands,
work that was not begun is decided again. A `ReplayedRecording` serves an exact replay: everything
is derived again and compared, and the world is never asked. A new run has an empty recording. The
*tape* holds the records by the place of each effect. Knows nothing about models, tools or users.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import Any, ClassVar, Final, TypeVar

from msgspec.structs import replace

from taofold.core import events as e
from taofold.core.call_ids import place_in_branch, places_around
from taofold.core.errors import ReplayDiverged
from taofold.core.rule_names import DEMANDS
from taofold.core.state import live
from taofold.core.values import Observation
from taofold.log.run_store import Store

E = TypeVar("E", bound=e.Happened)

WHOLE: Final = -1
"""The index of events about an effect as a whole, not about one call of its batch."""


def _place(event: e.Happened) -> tuple[str, int]:
    """Returns the effect, and the call of its batch, to which an event belongs."""
    return getattr(event, "key", ""), getattr(event, "index", WHOLE)


def _kind(event: e.Happened) -> type[e.Happened]:
    """Returns the class under which the event is filed: one for every kind of `Started`."""
    return e.Started if isinstance(event, e.Started) else type(event)


class Tape:
    """The records of a run, to be consumed by re-driving it."""

    def __init__(self, records: Iterable[e.Record] = ()) -> None:
        self._order = deque(records)
        self._at: dict[tuple[str, int], dict[type[e.Happened], deque[e.Record]]] = {}
        """Records by place and kind, each in the order of the log."""
        self.steered: list[e.Record] = []
        """Steering messages that no step has consumed yet."""
        self._last: dict[str, int] = {}
        self._left: dict[str, int] = {}
        # Rewound records are not on the tape, but still in `_order`: the state counts their cost.
        counted = live(self._order)
        standing = {it.seq for it in counted if not isinstance(it.event, e.Rewound)}
        self._rewound = {it.seq for it in self._order} - standing
        """The numbers of rewound records and of the rewinds themselves."""
        for record in counted:
            if isinstance(record.event, e.Steered):
                self.steered.append(record)
            elif record.event.derived:
                place = _place(record.event)
                kinds = self._at.setdefault(place, {})
                kinds.setdefault(_kind(record.event), deque()).append(record)
                self._count(place[0], 1)

    # An effect inside a fork counts for every fork around it, so that `behind` needs no search.
    def _count(self, key: str, change: int) -> None:
        for effect, branch, position in places_around(key):
            self._last[branch] = max(self._last.get(branch, -1), position)
            self._left[effect] = self._left.get(effect, 0) + change

    def behind(self, key: str, beside: int = 0) -> bool:
        """Returns whether the tape holds more than `beside` events of this branch from `key` on."""
        if not self._last:
            return False
        branch, position = place_in_branch(key)
        return position < self._last.get(branch, -1) or self._left.get(key, 0) > beside

    def _queue(self, kind: type[e.Happened], key: str, index: int) -> deque[e.Record] | None:
        kinds = self._at.get((key, index)) if self._at else None
        return None if kinds is None else kinds.get(kind)

    def peek(self, kind: type[E], key: str, index: int = WHOLE) -> E | None:
        """Returns the next recorded event of `kind` at this place without removing it."""
        queue = self._queue(kind, key, index)
        return queue[0].event if queue else None  # type: ignore[return-value]

    def all(self, kind: type[E], key: str) -> list[E]:
        """Returns the recorded events of `kind` about a whole effect without removing them."""
        queue = self._queue(kind, key, WHOLE) or ()
        return [record.event for record in queue]  # type: ignore[misc]

    def take(self, kind: type[e.Happened], key: str, index: int = WHOLE) -> e.Record | None:
        """Removes and returns the next record of `kind` at this place."""
        queue = self._queue(kind, key, index)
        if not queue:
            return None
        self._count(key, -1)
        return queue.popleft()

    def drop_questions(self, key: str, index: int) -> None:
        """Removes the questions about later calls of the batch at `key`, and their answers."""
        for place, kinds in self._at.items():
            if place[0] != key or place[1] <= index:
                continue
            for kind, queue in kinds.items():
                if issubclass(kind, e.Decided):
                    self._count(key, -len(queue))
                    queue.clear()

    def attempts(self, key: str, index: int) -> list[e.Record]:
        """Removes and returns the records of one action up to its last `Started`, in order.

        Later records stay on the tape: only they concern the start that counts now.
        """
        # A decision after the last start answers a question about that start: it stays.
        started = self._queue(e.Started, key, index)
        return self.call(key, index, started[-1].seq if started else -1)

    def changes(self, key: str, index: int) -> list[e.Record]:
        """Removes and returns the records of one action up to its last `Hooked`, in order."""
        hooked = self._queue(e.Hooked, key, index)
        return self.call(key, index, hooked[-1].seq if hooked else -1)

    def call(self, key: str, index: int, until: float = inf) -> list[e.Record]:
        """Removes and returns all records of one action, in order; up to record `until`."""
        taken: list[e.Record] = []
        for queue in self._at.get((key, index), {}).values():
            while queue and queue[0].seq <= until:
                taken.append(queue.popleft())
        if taken:
            self._count(key, -len(taken))
        return sorted(taken, key=lambda record: record.seq)

    def steering(self, key: str) -> list[e.Record]:
        """Removes and returns the steering messages up to the turn at `key` of its branch."""
        branch, position = place_in_branch(key)
        heard: list[e.Record] = []
        for record in tuple(self.steered):
            branch_key, at = place_in_branch(getattr(record.event, "key", ""))
            if branch_key == branch and at <= position:
                self.steered.remove(record)
                heard.append(record)
        return heard

    def until(self, seq: int | None = None) -> Iterator[e.Record]:
        """Yields the remaining records in the order of the log, up to `seq` (None: all).

        A rewind after them is included, with the records that it revoked: the next limit counts
        their cost.
        """
        # Taken off the left: each record is restored once, over the whole activation O(n).
        while self._order:
            first = self._order[0].seq
            if seq is not None and first > seq and first not in self._rewound:
                return
            yield self._order.popleft()

    def rest(self) -> list[e.Record]:
        """Returns the records that were not consumed, in order."""
        if not self._at:
            return []
        left = [
            record for kinds in self._at.values() for queue in kinds.values() for record in queue
        ]
        return sorted(left, key=lambda record: record.seq)


def _essence(event: e.Event) -> Any:
    """Returns what must be equal on resume: kind, key and, for a step, its calls (D13)."""
    if isinstance(event, e.Proposed):
        return event.key, [(action.tool, action.parameters) for action in event.actions]
    return getattr(event, "key", ""), _kind(event).__name__, getattr(event, "index", 0)


# BaseException, like the signals of `ledger`: an `except Exception` must not catch it.
class EndOfTape(BaseException):
    """An exact replay reached the end of the record."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class Recording:
    """The past of a continued run: finished work is kept, the rest is decided again."""

    exact: ClassVar[bool] = False
    """True if everything is compared and the world is never asked."""

    def __init__(self, records: Iterable[e.Record], store: Store) -> None:
        self.tape = Tape(records)
        self.fresh = False
        """True if no event is left on the tape (steering may be): all further events are new."""
        self._store = store

    def event(self, kind: type[E], key: str, index: int = WHOLE) -> E | None:
        """Returns the next recorded event of `kind` at this place; it stays on the tape."""
        return None if self.fresh else self.tape.peek(kind, key, index)

    def verdict(self, key: str) -> tuple[list[e.Violated], bool]:
        """Returns the broken rules of form of the reply before `key`; they stay on the tape.

        The second value is False if the record ends before, within or right after them, so that
        the rest is judged now.
        """
        if self.fresh:
            return [], False
        broken = [each for each in self.tape.all(e.Violated, key) if each.rule in DEMANDS]
        return broken, self.tape.behind(key, len(broken))

    def recall_next(self, kind: type[E], key: str, index: int = WHOLE) -> E | None:
        """Removes and returns the next recorded event of `kind` at this place, and folds it."""
        record = None if self.fresh else self.tape.take(kind, key, index)
        if record is None:
            return None
        self.restore(record)
        return record.event  # type: ignore[return-value]

    def recall(self, kind: type[E], key: str, index: int = WHOLE) -> list[E]:
        """Removes and returns all recorded events of `kind` at this place, and folds them."""
        events: list[E] = []
        while (event := self.recall_next(kind, key, index)) is not None:
            events.append(event)
        return events

    def recall_call(self, key: str, index: int) -> list[e.Event]:
        """Removes and returns all recorded events of one action, in order, and folds them."""
        return self._restore_all(self.tape.call(key, index))

    def restore(self, record: e.Record) -> None:
        """Restores a record and all earlier ones of the log."""
        for earlier in self.tape.until(record.seq):
            # Folded into the state, not written: it is in the log already.
            self._store.restore(earlier)

    def restore_rest(self) -> None:
        """Restores all remaining records of the log: the present follows."""
        for earlier in self.tape.until():
            self._store.restore(earlier)

    def enter_present(self) -> None:
        """Marks the present, unless parallel branches have records left."""
        # Branches reach the current one after the other.
        self.fresh = not self.tape.rest()

    def match(self, event: e.Event) -> e.Record | None:
        """Removes, folds and returns the record of `event`; None if it is new.

        Raises:
            ReplayDiverged: Another event is recorded there.
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
        """Returns whether events at `key` are on record, or may not be added."""
        return not self.fresh and self.tape.behind(key)

    def settles_limits(self, key: str) -> bool:
        """Returns whether the record, not the current count, decides about limits at `key`."""
        return self.covers(key)

    def expects(self, note: e.Happened, key: str) -> bool:
        """Returns whether `note` should be put at `key`.

        It should not if the record lacks it here: another release or runtime may record fewer
        notes.
        """
        return not self.covers(key) or self._has(note, key)

    def _has(self, note: e.Happened, key: str) -> bool:
        """Returns whether a note of this kind is the next at this place."""
        recorded = self.event(type(note), *_place(note))
        if isinstance(recorded, e.Noted) and isinstance(note, e.Noted):
            return recorded.kind == note.kind
        return recorded is not None

    def settled_call(self, key: str, index: int) -> list[e.Event]:
        """Returns the events of an observed action, which stands regardless of the current code."""
        return self.recall_call(key, index) if self.event(e.Observed, key, index) else []

    def attempts(self, key: str, index: int) -> list[e.Event]:
        """Returns the events of an unobserved action up to its last start."""
        if self.event(e.Started, key, index) is None:
            return []
        return self._restore_all(self.tape.attempts(key, index))

    def abandon_call(self, key: str, index: int) -> None:
        """Restores a call that is suspended in the middle, if nothing will continue it."""

    def overrule(self, key: str, index: int, verdict: str) -> None:
        """Discards a verdict on an action not yet begun if the policy now rules differently."""
        recorded = self.event(e.Decided, key, index)
        if recorded is not None and recorded.verdict != verdict:
            self.forget_verdict(key, index)

    def forget_verdict(self, key: str, index: int) -> None:
        """Removes the recorded decision on an action that was not begun: a new one replaces it."""
        self.recall(e.Decided, key, index)
        self.recall(e.Resolved, key, index)

    def changes(self, key: str, index: int) -> list[e.Hooked]:
        """Removes and returns the changes of a call by hooks, with the verdicts before them."""
        if self.fresh:
            return []
        return [
            event
            for event in self._restore_all(self.tape.changes(key, index))
            if isinstance(event, e.Hooked)
        ]

    def _check_absence(self, key: str, event: e.Event) -> None:
        """Checks a place without a record for `event`."""

    def agree(self, recorded: e.Event, event: e.Event) -> bool:
        """Returns whether both are the same effect."""
        # Only the effect counts: a reworded prompt or another clock strands no run.
        return bool(_essence(recorded) == _essence(event))

    def _compare(self, key: str, recorded: e.Event, event: e.Event) -> None:
        if not self.agree(recorded, event):
            raise ReplayDiverged(key, _essence(recorded), _essence(event))

    def _restore_all(self, records: Iterable[e.Record]) -> list[e.Event]:
        events: list[e.Event] = []
        for record in records:
            self.restore(record)
            events.append(record.event)
        return events


class ReplayedRecording(Recording):
    """The past of an exact replay: no present follows."""

    exact = True

    def __init__(self, records: Sequence[e.Record], store: Store) -> None:
        super().__init__(records, store)
        # A rewind to the start may follow it: the first limit counts the cost of what was revoked.
        self.restore(records[0])
        self._foreign = any([_is_foreign(record.event) for record in records])

    def covers(self, key: str) -> bool:
        """True: nothing may be added anywhere."""
        return True

    def settles_limits(self, key: str) -> bool:
        """True only in a fork: the consumption so far depends on the order of its branches."""
        return "." in key and self.tape.behind(key)

    def expects(self, note: e.Happened, key: str) -> bool:
        """Returns True except for a note that may be missing (`Happened.optional`)."""
        return not note.optional or not self.tape.behind(key) or self._has(note, key)

    def settled_call(self, key: str, index: int) -> list[e.Event]:
        """Returns nothing: the action is decided again, and the result compared."""
        return []

    def attempts(self, key: str, index: int) -> list[e.Event]:
        """Returns nothing: each start is compared."""
        return []

    def abandon_call(self, key: str, index: int) -> None:
        """Restores a call that is suspended or was interrupted inside the tool."""
        self.recall_call(key, index)

    def overrule(self, key: str, index: int, verdict: str) -> None:
        """Does nothing: another verdict is a divergence."""

    def _check_absence(self, key: str, event: e.Event) -> None:
        # Questions about later calls are asked before their turn, which the record did not reach.
        _, index = _place(event)
        if index != WHOLE:
            self.tape.drop_questions(key, index)
        if self.tape.behind(key):
            raise ReplayDiverged(key, None, event)
        raise EndOfTape(key)

    def _compare(self, key: str, recorded: e.Event, event: e.Event) -> None:
        if not self.agree(recorded, event):
            raise ReplayDiverged(key, recorded, event)

    def agree(self, recorded: e.Event, event: e.Event) -> bool:
        """Returns whether both are equal, ignoring the wording in a run of two runtimes."""
        recorded, event = recorded.timeless(), event.timeless()
        if not self._foreign:
            return recorded == event
        return shared(recorded) == shared(event)


def _is_foreign(event: e.Event) -> bool:
    """Returns whether the event shows that another runtime drove the run."""
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
            # A synthesized thought, and the reason of an unreadable call, are worded by each
            # runtime.
            unread = [replace(it, error="unread") if it.error else it for it in actions]
            content = "" if thought.synthesized else thought.content
            return replace(event, thought=replace(thought, content=content), actions=tuple(unread))
        case e.Observed(observation=observation) if _is_worded(observation):
            # Runtimes agree on the kind of refusal, but not on its wording.
            kind = Observation(status=observation.status, refused=observation.refused)
            return replace(event, observation=kind)
        case e.Noted(kind="unread"):
            return replace(event, data={})
        case e.Noted(kind="corrected", data=data):
            return replace(event, data={**data, "stopped": ""})
        case _:
            return event


def _is_worded(observation: Observation) -> bool:
    """Returns whether a runtime worded it: a refusal, or a failed step of the strategy itself."""
    return bool(observation.refused) or (observation.auto and observation.status == "failure")

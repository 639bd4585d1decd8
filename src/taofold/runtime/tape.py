"""The tape: what an earlier life of the run already recorded, by place.

A drive asks the tape before it asks the world. Records are matched by effect key, kind
and index, never by arrival, so branches may interleave differently; the state is
rebuilt in the order of the log. It knows nothing about strategies; it only answers
"was this recorded, and is it the same?".
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeVar

from taofold.core import events as e
from taofold.core.state import live
from taofold.core.values import Action

E = TypeVar("E", bound=e.Happened)

WORLD: Final = (
    *(e.Resumed, e.Parked, e.Forked, e.PromptChanged),
    *(e.Rewound, e.RunStarted, e.Updated, e.DecisionRefused, e.RunFinished),
)
"""Without a place: whoever drives writes them, replay skips them."""
CALL: Final = (e.Decided, e.Resolved, e.Started, e.Observed)
"""What becomes of one action."""


def place(event: e.Event) -> tuple[str, str, int]:
    """Where an event belongs: effect key, kind and index."""
    kind = type(event)
    if issubclass(kind, e.Started):
        kind = e.Started
    return getattr(event, "key", ""), kind.__name__, getattr(event, "index", 0)


class Tape:
    """The records of a run, to be consumed by re-driving it."""

    def __init__(self, records: Iterable[e.Record] = ()) -> None:
        self._order = deque(records)
        self._at: dict[tuple[str, str, int], deque[e.Record]] = {}
        self._steered: list[e.Record] = []
        self._last: dict[str, int] = {}
        self._left: dict[str, int] = {}
        for record in live(self._order):
            if isinstance(record.event, e.Steered):
                self._steered.append(record)
            elif not isinstance(record.event, WORLD):
                self._at.setdefault(place(record.event), deque()).append(record)
                self._count(getattr(record.event, "key", ""), 1)

    def _count(self, key: str, change: int) -> None:
        while key:
            branch, _, position = key.rpartition(".")
            self._last[branch] = max(self._last.get(branch, -1), int(position))
            self._left[key] = self._left.get(key, 0) + change
            key = branch.rpartition(".")[0]

    def behind(self, key: str) -> bool:
        """Does the tape hold anything that this branch did at `key` or later?"""
        if not self._last:
            return False
        branch, _, position = key.rpartition(".")
        return int(position) < self._last.get(branch, -1) or self._left.get(key, 0) > 0

    def peek(self, kind: type[E], key: str, index: int = 0) -> E | None:
        """The next recorded event of `kind` at this place, left on the tape."""
        if not self._at:
            return None
        queue = self._at.get((key, kind.__name__, index))
        return queue[0].event if queue else None  # type: ignore[return-value]

    def take(self, kind: type[e.Happened], key: str, index: int = 0) -> e.Record | None:
        """The next recorded record of `kind` at this place, off the tape."""
        if not self._at:
            return None
        queue = self._at.get((key, kind.__name__, index))
        if not queue:
            return None
        self._count(key, -1)
        return queue.popleft()

    def attempts(self, key: str, index: int) -> list[e.Record]:
        """What became of one action up to its last `Started`, off the tape, in order.

        What stays on the tape came after it: only that is about the start that counts now.
        """
        started = self._at.get((key, e.Started.__name__, index))
        last = started[-1].seq if started else -1
        taken: list[e.Record] = []
        for kind in (e.Decided, e.Resolved, e.Started):
            queue = self._at.get((key, kind.__name__, index))
            while queue and queue[0].seq <= last:
                self._count(key, -1)
                taken.append(queue.popleft())
        return sorted(taken, key=lambda record: record.seq)

    def call(self, key: str, index: int) -> list[e.Record]:
        """Everything that became of one action, off the tape, in order."""
        taken: list[e.Record] = []
        for kind in CALL:
            while (record := self.take(kind, key, index)) is not None:
                taken.append(record)
        return sorted(taken, key=lambda record: record.seq)

    def steering(self, key: str) -> list[e.Record]:
        """What people said up to the turn at `key` of its branch, off the tape."""
        if not self._steered:
            return []
        branch, _, position = key.rpartition(".")
        heard: list[e.Record] = []
        for record in tuple(self._steered):
            said, _, at = getattr(record.event, "key", "").rpartition(".")
            if said == branch and int(at) <= int(position):
                self._steered.remove(record)
                heard.append(record)
        return heard

    def until(self, seq: int | None = None) -> Iterator[e.Record]:
        """The records not yet given out, in the order of the log, up to `seq` (None: all)."""
        while self._order and (seq is None or self._order[0].seq <= seq):
            yield self._order.popleft()

    def rest(self) -> list[e.Record]:
        """What was never asked for, in order."""
        if not self._at:
            return []
        left = [record for queue in self._at.values() for record in queue]
        return sorted(left, key=lambda record: record.seq)


def essence(event: e.Event) -> Any:
    """What must be equal on resume: kind, key and, for a step, what would be done (D13)."""
    if isinstance(event, e.Proposed):
        return event.key, [said(action) for action in event.actions]
    return place(event)


def said(action: Action) -> tuple[str, dict[str, Any]]:
    """Tool and parameters."""
    return action.tool, action.parameters

"""The tape: what an earlier life of the run already recorded, by place.

A drive asks the tape before it asks the world. Records are matched by effect key,
kind and index, never by arrival, so branches may interleave differently. It knows
nothing about strategies; it only answers "was this recorded, and is it the same?".
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeVar

from taofold.core import events as e
from taofold.core.state import live
from taofold.core.values import Action

E = TypeVar("E", bound=e.Happened)

WORLD: Final = (
    *(e.Resumed, e.Parked, e.Forked, e.PromptChanged),
    *(e.Rewound, e.RunStarted, e.Updated, e.DecisionRefused),
)
"""Not derived by a drive: whoever drives writes them, replay skips them."""


def place(event: e.Event) -> tuple[str, str, int]:
    """Where an event belongs: effect key, kind and index."""
    kind = type(event)
    if issubclass(kind, e.Started):
        kind = e.Started
    return getattr(event, "key", ""), kind.__name__, getattr(event, "index", 0)


class Tape:
    """The live records of a run, to be consumed by re-driving it."""

    def __init__(self, records: Iterable[e.Record] = ()) -> None:
        self._at: dict[tuple[str, str, int], deque[e.Record]] = {}
        self._loose: deque[e.Record] = deque()
        self._left = 0
        self.on_end: Callable[[], None] | None = None
        """Called once, when the last placed record was taken in: from here on it is live."""
        self.changed = False
        """Has a changed prompt been recorded already?"""
        for record in live(records):
            if isinstance(record.event, (*WORLD, e.RunFinished)):
                self._loose.append(record)
            else:
                self._at.setdefault(place(record.event), deque()).append(record)
                self._left += 1

    def __bool__(self) -> bool:
        return self._left > 0

    def peek(self, kind: type[E], key: str, index: int = 0) -> E | None:
        """The next recorded event of `kind` at this place, left on the tape."""
        if not self._left:
            return None
        queue = self._at.get((key, kind.__name__, index))
        return queue[0].event if queue else None  # type: ignore[return-value]

    def take(self, kind: type[e.Happened], key: str, index: int = 0) -> e.Record | None:
        """The next recorded record of `kind` at this place, off the tape."""
        if not self._left:
            return None
        queue = self._at.get((key, kind.__name__, index))
        if not queue:
            return None
        self._left -= 1
        return queue.popleft()

    def loose(self, before: int | None = None) -> Iterator[e.Record]:
        """Records without a place, in order, up to sequence number `before`."""
        while self._loose and (before is None or self._loose[0].seq < before):
            yield self._loose.popleft()

    def rest(self) -> list[e.Record]:
        """What was never asked for, in order."""
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

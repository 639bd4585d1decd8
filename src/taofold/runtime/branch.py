"""Fork and rewind: where a run may be cut, and what is copied (D14). Pure."""

from collections.abc import Sequence

from msgspec.structs import replace

from taofold.core import events as e
from taofold.core.state import RunState, live, reduce


def cut(records: Sequence[e.Record], at: int | None = None) -> int:
    """The last sequence number <= `at` at which a step was complete (0: only the start)."""
    state, best = RunState(), 0
    for record in live(records):
        if at is not None and record.seq > at:
            break
        before = len(state.steps)
        state = reduce(state, record)
        if len(state.steps) > before and not state.open:
            best = record.seq
    return best


def copied(records: Sequence[e.Record], upto: int, run: str, now: int) -> list[e.Record]:
    """The live records up to `upto` under a new run id, and the `Forked` that says so."""
    kept = [
        record
        for record in live(records)
        if record.seq <= upto and not isinstance(record.event, e.Resumed | e.Parked | e.Rewound)
    ]
    spent = _active(records)
    new: list[e.Record] = []
    active, at = 0, kept[0].at if kept else now
    for seq, record in enumerate(kept):
        # Where a wait was left out, the times of what is kept would count it as activity.
        event, apparent = record.event, max(0, record.at - at)
        passed, active, at = spent[record.seq] - active, spent[record.seq], record.at
        timed = event if passed == apparent else replace(event, elapsed=max(0, passed))
        new.append(e.Record(run, seq, record.at, timed))
    new[:1] = [replace(record, event=_of_fork(record.event, kept)) for record in new[:1]]
    source = records[0].run
    new.append(e.Record(run, len(new), now, e.Forked(run=source, seq=upto)))
    return new


def _active(records: Sequence[e.Record]) -> dict[int, int]:
    """Milliseconds of activity up to each live record, by its number."""
    state, spent = RunState(), dict[int, int]()
    for record in live(records):
        state = reduce(state, record)
        spent[record.seq] = state.active_ms
    return spent


def _of_fork(event: e.Event, kept: Sequence[e.Record]) -> e.Event:
    """A run's start in its copy: of an import, how many of the copied records came with it."""
    if not isinstance(event, e.RunStarted) or event.imported is None:
        return event
    came = sum(record.seq < event.imported.events for record in kept)
    return replace(event, imported=replace(event.imported, events=came))

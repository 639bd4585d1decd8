"""Where two runs part. Ids, times, durations, epochs and owners differ always and do not count.

Pure.
"""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import msgspec

from taofold.cli.clean import clean, parameters
from taofold.cli.essence import essence, kind
from taofold.core import events as e
from taofold.core.state import fold, live
from taofold.core.value import is_array, is_object
from taofold.core.values import Step

_BESIDE = (e.Resumed, e.Parked, e.Forked)
"""Say how a run was driven, not what it did."""
_LOOSE = frozenset(
    {"ms", "duration_ms", "at", "expires_at", "settings", "session", "parent", "run"}
)


class Difference(NamedTuple):
    """What `compare` found. Sequence numbers, events and steps of either run."""

    same: bool
    first: tuple[e.Record | None, e.Record | None] | None
    steps: list[tuple[int, list[str], list[str]]]
    """Number, and what either run has there; only where they differ."""

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        first: Any = None
        if self.first is not None:
            first = [None if record is None else _shown(record) for record in self.first]
        steps = [{"step": number, "a": a, "b": b} for number, a, b in self.steps]
        return {"same": self.same, "first": first, "steps": steps}


def compare(a: Sequence[e.Record], b: Sequence[e.Record]) -> Difference:
    """The first event in which they differ, and the steps that do."""
    mine, theirs = _told(a), _told(b)
    first = next(
        (
            (one, other)
            for one, other in zip_longest(mine, theirs)
            if one is None or other is None or _plain(one.event) != _plain(other.event)
        ),
        None,
    )
    steps: list[tuple[int, list[str], list[str]]] = []
    pairs = zip_longest(fold(a).steps, fold(b).steps)
    for number, (step, other) in enumerate(pairs, 1):
        one, two = _lines(step), _lines(other)
        if one != two:
            steps.append((number, one, two))
    return Difference(first is None, first, steps)


def told(found: Difference) -> str:
    """For people."""
    if found.first is None:
        return "the same: every event agrees (times and ids apart)"
    lines = ["the first events that differ:"]
    for name, record in zip("AB", found.first, strict=True):
        said = "nothing: the run ends here"
        if record is not None:
            said = f"{record.seq:>4}  {kind(record.event)}  {essence(record.event, 160)}"
        lines.append(f"  {name} {said}")
    for number, one, two in found.steps:
        lines.append(f"step {number}")
        lines += [f"  - {text}" for text in one if text not in two]
        lines += [f"  + {text}" for text in two if text not in one]
    return "\n".join(lines)


def _told(records: Sequence[e.Record]) -> list[e.Record]:
    return [record for record in live(records) if not isinstance(record.event, _BESIDE)]


def _shown(record: e.Record) -> dict[str, Any]:
    return {"seq": record.seq, "event": msgspec.to_builtins(e.public(record.event))}


def _plain(event: e.Event) -> Any:
    return _without(msgspec.to_builtins(event))


def _without(value: Any) -> Any:
    if is_object(value):
        return {name: _without(one) for name, one in value.items() if name not in _LOOSE}
    return [_without(one) for one in value] if is_array(value) else value


def _lines(step: Step | None) -> list[str]:
    if step is None:
        return []
    lines = [f"{step.thought.type}: {clean(step.thought.content)}"]
    for action, seen in zip(step.actions, step.observations, strict=False):
        lines.append(f"→ {action.tool} {parameters(action.parameters, 200)}")
        lines.append(f"← {seen.status}: {clean(seen.extraction or str(seen.result))[:300]}")
    return lines

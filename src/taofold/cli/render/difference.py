"""Where the events of two runs differ. Pure.

In a comparison ids, times, durations, epochs and owners do not count: they always differ.
"""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import msgspec

from taofold.cli.render.text import clean
from taofold.core import events as e
from taofold.core.json_values import is_array, is_object
from taofold.core.state import fold, live
from taofold.core.text import line, parameters
from taofold.core.values import Step

_LOOSE = frozenset(
    {"ms", "duration_ms", "at", "expires_at", "settings", "session", "parent", "run"}
)
"""Fields that differ from run to run."""
_WHOLE = frozenset({"parameters", "result", "data", "update", "output", "content"})
"""What a model or a tool said: names in there are theirs, and all of it counts."""


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
            first = [None if record is None else _as_json(record) for record in self.first]
        steps = [{"step": position, "a": a, "b": b} for position, a, b in self.steps]
        return {"same": self.same, "first": first, "steps": steps}


def compare(a: Sequence[e.Record], b: Sequence[e.Record]) -> Difference:
    """The first event in which they differ, and the steps that do."""
    first_run, theirs = _compared(a), _compared(b)
    first = next(
        (
            (record, other)
            for record, other in zip_longest(first_run, theirs)
            if record is None or other is None or _plain(record.event) != _plain(other.event)
        ),
        None,
    )
    steps: list[tuple[int, list[str], list[str]]] = []
    pairs = zip_longest(fold(a).steps, fold(b).steps)
    for position, (step, other) in enumerate(pairs, 1):
        first_lines, second_lines = _lines(step), _lines(other)
        if first_lines != second_lines:
            steps.append((position, first_lines, second_lines))
    return Difference(first is None, first, steps)


def difference_text(difference: Difference) -> str:
    """The first events of two runs that differ, then the steps that do, line by line."""
    if difference.first is None:
        return "the same: every event agrees (times and ids apart)"
    lines = ["the first events that differ:"]
    for name, record in zip("AB", difference.first, strict=True):
        row = "nothing: the run ends here"
        if record is not None:
            row = f"{record.seq:>4}  {record.event.tag}  {line(record.event.summary, 160)}"
        lines.append(f"  {name} {row}")
    for position, first_lines, two in difference.steps:
        lines.append(f"step {position}")
        lines += [f"  - {text}" for text in first_lines if text not in two]
        lines += [f"  + {text}" for text in two if text not in first_lines]
    return "\n".join(lines)


def _compared(records: Sequence[e.Record]) -> list[e.Record]:
    return [record for record in live(records) if not record.event.incidental]


def _as_json(record: e.Record) -> dict[str, Any]:
    return {"seq": record.seq, "event": msgspec.to_builtins(e.public(record.event))}


def _plain(event: e.Event) -> Any:
    return _without(msgspec.to_builtins(event))


def _without(value: Any) -> Any:
    if is_object(value):
        return {
            name: member if name in _WHOLE else _without(member)
            for name, member in value.items()
            if name not in _LOOSE
        }
    return [_without(member) for member in value] if is_array(value) else value


def _lines(step: Step | None) -> list[str]:
    if step is None:
        return []
    lines = [f"{step.thought.type}: {clean(step.thought.content)}"]
    for action, observation in zip(step.actions, step.observations, strict=False):
        lines.append(f"→ {action.tool} {parameters(action.parameters, 200)}")
        result = clean(observation.extraction or str(observation.result))
        lines.append(f"← {observation.status}: {result[:300]}")
    return lines

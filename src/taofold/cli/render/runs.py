"""Recorded runs as text and JSON: state and steps of one run, differences of two.

Used by `taofold runs list`, `show` and `diff` in `cli/runs`. Differences compare events without
ids, times, durations, epochs and owners, which always differ. `story` shows running runs.
"""

import os
import shutil
import sys
from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from taofold.cli.render.story import PlainVoice, Story, totals
from taofold.core import events as e
from taofold.core.errors import ConfigError
from taofold.core.json_values import is_array, is_object
from taofold.core.state import RunState, fold, live, opening
from taofold.core.text import line, parameters, value, visible
from taofold.core.values import Step
from taofold.policy.redaction.views import shown
from taofold.views import run_state_json

if TYPE_CHECKING:
    from taofold.cli.render.story import Voice


def started_of(run: str, records: Sequence[e.Record]) -> e.RunStarted:
    """Returns the first event of a run.

    Raises:
        ConfigError: The log lacks it.
    """
    started = opening(records)
    if started is None:
        raise ConfigError(f"run {run!r} has no start: its log is damaged")
    return started


def state_json(run: str, records: Sequence[e.Record]) -> dict[str, Any]:
    """Returns the state after `records` as JSON, with the run's session."""
    started = opening(records)
    return {**run_state_json(run, records), "session": started.session if started else ""}


def tell(run: str, records: Sequence[e.Record], *, travelled: bool, status: str) -> None:
    """Prints a run like its live trace; `status` is its displayed status."""
    # Without records that a rewind took back.
    alive = live(records)
    story = Story(_voice(), run, waved=True)
    for record in alive:
        story(record)
    # Guessed secrets are masked, as in the trace and in `--json`.
    state = fold(map(shown, records))
    for text in _state(
        state, records[-1].seq if records else -1, travelled=travelled, status=status
    ):
        sys.stdout.write(f"{visible(text)}\n")


def _state(state: RunState, seq: int, *, travelled: bool, status: str) -> list[str]:
    lines = [""]
    if travelled:
        lines.append(f"state after event {seq}: {state.status} ({totals(state)})")
    elif state.status in ("running", "new"):
        lines.append(f"status: {status} ({totals(state)})")
    # Calls without a result, with which a resumed run begins.
    for opened in state.open.values():
        for slot in opened.slots:
            if slot.observation is None:
                doing = "started, not observed" if slot.started else "not started"
                call = f"{slot.action.tool} {parameters(slot.action.parameters, 80)}"
                lines.append(f"open: {call} ({doing})")
    lines += [f"data: {name} = {value(datum, 100)}" for name, datum in state.data.items()]
    if state.output is not None:
        output = state.output
        lines += ["answer:", output if isinstance(output, str) else value(output, 2000)]
    return lines if len(lines) > 1 else []


def _voice() -> "Voice":
    """Returns the display for standard output, without a line for current activity."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return PlainVoice(sys.stdout)
    from rich.console import Console

    from taofold.cli.render.rich_voice import StillVoice

    return StillVoice(Console(highlight=False, width=shutil.get_terminal_size().columns))


_LOOSE = frozenset(
    {"ms", "duration_ms", "at", "expires_at", "settings", "session", "parent", "run"}
)
"""Fields that differ in every run."""
_WHOLE = frozenset({"parameters", "result", "data", "update", "output", "content"})
"""Fields with text of a model or a tool: all their content is compared."""


class Difference(NamedTuple):
    """The result of `compare`: first different records and different steps."""

    same: bool
    first: tuple[e.Record | None, e.Record | None] | None
    steps: list[tuple[int, list[str], list[str]]]
    """Step numbers with the lines of both runs, only for steps that differ."""

    def as_json(self) -> dict[str, Any]:
        """Returns the difference as JSON values."""
        first: Any = None
        if self.first is not None:
            first = [None if record is None else _as_json(record) for record in self.first]
        steps = [{"step": position, "a": a, "b": b} for position, a, b in self.steps]
        return {"same": self.same, "first": first, "steps": steps}


def compare(a: Sequence[e.Record], b: Sequence[e.Record]) -> Difference:
    """Compares two runs: the first different event, and all different steps."""
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
    shown_a, shown_b = [fold(shown(record) for record in records) for records in (a, b)]
    pairs = zip_longest(shown_a.steps, shown_b.steps)
    for position, (step, other) in enumerate(pairs, 1):
        first_lines, second_lines = _lines(step), _lines(other)
        if first_lines != second_lines:
            steps.append((position, first_lines, second_lines))
    return Difference(first is None, first, steps)


def difference_text(difference: Difference) -> str:
    """Returns the first different events of two runs and the different steps as text."""
    if difference.first is None:
        return "the same: every event agrees (times and ids apart)"
    lines = ["the first events that differ:"]
    for name, record in zip("AB", difference.first, strict=True):
        row = "nothing: the run ends here"
        if record is not None:
            row = f"{record.seq:>4}  {record.event.tag}  {line(shown(record).event.summary, 160)}"
        lines.append(f"  {name} {row}")
    for position, first_lines, two in difference.steps:
        lines.append(f"step {position}")
        lines += [f"  - {text}" for text in first_lines if text not in two]
        lines += [f"  + {text}" for text in two if text not in first_lines]
    return "\n".join(lines)


def _compared(records: Sequence[e.Record]) -> list[e.Record]:
    return [record for record in live(records) if not record.event.incidental]


def _as_json(record: e.Record) -> dict[str, Any]:
    return {"seq": record.seq, "event": msgspec.to_builtins(shown(record).event)}


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
    lines = [f"{step.thought.type}: {visible(step.thought.content)}"]
    for action, observation in zip(step.actions, step.observations, strict=False):
        lines.append(f"→ {action.tool} {parameters(action.parameters, 200)}")
        result = visible(observation.extraction or str(observation.result))
        lines.append(f"← {observation.status}: {result[:300]}")
    return lines

"""Documents of turns as a run's records: what both `tao_yaml` and `react_json` read becomes a log.

Both hand over turn after turn to a `RecordWriter`, which puts the records together. They fold,
check and measure as those of a run do. What a document leaves out or says wrongly is mended and put
on record as a violation, or refused if the import is strict: an unknown word never improves a run.
"""

from collections.abc import Sequence
from typing import Final, cast, get_args

import msgspec
from msgspec.structs import replace

from taofold.core import events as e
from taofold.core.rule_names import STATUS, UNTYPED
from taofold.core.rules import check_thought
from taofold.core.trace import TracedCall
from taofold.core.values import RESERVED, ObservationStatus, Thought
from taofold.log.formats.yaml_document import DocumentFault, Path

STRATEGY: Final = "imported"
"""The strategy of imported runs. None has this name, so nobody can drive them on."""
_STATUSES: Final = frozenset(get_args(ObservationStatus))


def by_default_started(call: TracedCall) -> bool:
    """Did the call start, as far as a document that does not say so can tell?"""
    observation = call.observation
    action = call.action
    # What `finish`, `ask_user` and unreadable actions have in common: no tool was ever called.
    if not action.tool or action.tool in RESERVED or action.error:
        return False
    return observation is None or not observation.refused


class RecordWriter:
    """Puts records together, one after the other. `at` is the time of the last one."""

    def __init__(self, run: str, at: int, *, strict: bool) -> None:
        self.records: list[e.Record] = []
        self.at = at
        self._run = run
        self._strict = strict

    def put(self, event: e.Event, at: int | None = None) -> None:
        """Append `event`; without a time it happened when the last one did."""
        self.at = self.at if at is None else at
        self.records.append(e.Record(self._run, len(self.records), self.at, event))

    def begin_with_the_first(self) -> None:
        """Date a start that has no time of its own: no later than what follows."""
        start = self.records[0]
        self.records[0] = replace(start, at=min(record.at for record in self.records))

    def turn(self, number: int, at: int, thought: Thought, calls: Sequence[TracedCall]) -> None:
        """Append a turn. `number` counts from 1."""
        key = str(number)
        self.put(e.Proposed(key=key, thought=thought, actions=tuple([c.action for c in calls])), at)
        # All starts before the first observation, as a run writes a batch.
        for index, call in enumerate(calls):
            if call.started:
                started = (
                    e.StartedOnce(key=key, index=index, effect=call.effect)
                    if call.effect
                    else e.Started(key=key, index=index)
                )
                self.put(started, call.started_at)
        for index, call in enumerate(calls):
            if call.observation is not None:
                observed = e.Observed(key=key, index=index, observation=call.observation)
                self.put(observed, call.observed_at)

    def typed(self, thought: Thought, type_text: str, number: int, path: Path) -> Thought:
        """`thought` with the type it names, or `reasoning` and a violation (D3)."""
        kind, problem = check_thought(type_text, research=True)
        if kind is None:
            self.mended(UNTYPED, problem, number, path)
            return msgspec.structs.replace(thought, inferred=True)
        return msgspec.structs.replace(thought, type=kind)

    def status(self, text: str, number: int, path: Path) -> ObservationStatus:
        """The status that `text` names, or `partial` and a violation: never a success."""
        if text in _STATUSES:
            return cast("ObservationStatus", text)
        self.mended(STATUS, f"unknown status {text!r}" if text else "no status", number, path)
        # An unknown word must not improve the run's rate of success.
        return "partial"

    def mended(self, rule: str, detail: str, number: int, path: Path) -> None:
        """Record what was wrong in turn `number`, or refuse it if the import is strict."""
        if self._strict:
            raise DocumentFault(path, detail)
        self.put(e.Violated(key=str(number), rule=rule, detail=detail, steps=(number,)))

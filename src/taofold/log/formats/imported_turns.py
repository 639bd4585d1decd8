"""Turns of a document as a run's records, shared by `tao_yaml` and `react_json`.

Both pass each turn to a `RecordWriter`, which builds the records. These fold, check and measure
like those of a run. Missing or wrong values are repaired and recorded as violations, or rejected by
a strict import: an unknown term never improves a run. `Gaps` are recorded beside a turn, so that an
export states no time that its document did not state.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, cast, get_args

import msgspec
from msgspec.structs import replace

from taofold.core import events as e
from taofold.core.rule_names import STATUS, UNTYPED
from taofold.core.rules import check_thought
from taofold.core.trace import TracedCall
from taofold.core.values import RESERVED, ObservationStatus, Thought, Value
from taofold.log.formats.yaml_document import DocumentFault, Path

STRATEGY: Final = "imported"
"""The strategy of imported runs. No strategy has this name, so they cannot be resumed."""
WITHOUT_ACTION: Final = "an observation without an action"
"""The fault of a stray observation."""
_STATUSES: Final = frozenset(get_args(ObservationStatus))


class Gaps(Value, frozen=True, omit_defaults=True):
    """The missing times of a turn, and its observations without an action, by index in the batch.

    Args:
        thought: The thought has no time.
        actions: Actions without a time.
        observations: Observations without a time.
        durations: Observations without a duration.
        stray: Observations without an action, as the document has them.
        log: The document states no time of its start. Only under the key "".
        outcome: The end has no time. Only under the key "".
    """

    thought: bool = False
    actions: tuple[int, ...] = ()
    observations: tuple[int, ...] = ()
    durations: tuple[int, ...] = ()
    stray: tuple[Any, ...] = ()
    log: bool = False
    outcome: bool = False


_GAPS: Final = "gaps"
_WITHOUT: Final = Gaps()


def gaps_of(records: Iterable[e.Record]) -> dict[str, Gaps]:
    """Returns the gaps by the key of their turn; that of the document has the key ""."""
    found: dict[str, Gaps] = {}
    for record in records:
        if isinstance(record.event, e.Noted) and record.event.kind == _GAPS:
            try:
                found[record.event.key] = msgspec.convert(record.event.data, Gaps)
            # A foreign log may hold any data here.
            except msgspec.ValidationError:
                continue
    return found


def untimed(calls: int) -> Gaps:
    """Returns the gaps of a turn whose format has no times."""
    every = tuple(range(calls))
    return Gaps(True, every, every, every)


def by_default_started(call: TracedCall) -> bool:
    """Returns whether the call started, for a document that does not state it."""
    observation = call.observation
    action = call.action
    # Common to `finish`, `ask_user` and unreadable actions: no tool was called.
    if not action.tool or action.tool in RESERVED or action.error:
        return False
    return observation is None or not observation.refused


class RecordWriter:
    """Builds records one after the other. `at` is the time of the last one."""

    def __init__(self, run: str, at: int, *, strict: bool) -> None:
        self.records: list[e.Record] = []
        self.at = at
        self.listed: Sequence[e.Violated] = ()
        """The violations that the document lists. They are not recorded twice."""
        self._run = run
        self._strict = strict

    def put(self, event: e.Event, at: int | None = None) -> None:
        """Appends `event`; without a time it gets that of the last one."""
        self.at = self.at if at is None else at
        self.records.append(e.Record(self._run, len(self.records), self.at, event))

    def begin_with_the_first(self) -> None:
        """Sets the time of a start without one: not later than any following record."""
        start = self.records[0]
        self.records[0] = replace(start, at=min(record.at for record in self.records))

    def turn(
        self,
        number: int,
        at: int,
        thought: Thought,
        calls: Sequence[TracedCall],
        gaps: Gaps = _WITHOUT,
    ) -> None:
        """Appends a turn. `number` counts from 1."""
        key = str(number)
        self.put(e.Proposed(key=key, thought=thought, actions=tuple([c.action for c in calls])), at)
        # All starts before the first observation, as in a run's batch.
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
        self.lacks(key, gaps)

    def lacks(self, key: str, gaps: Gaps) -> None:
        """Appends the gaps of a turn, or of the document under the key ""."""
        if gaps != _WITHOUT:
            # JSON, as a log has it.
            data = msgspec.json.decode(msgspec.json.encode(gaps))
            self.put(e.Noted(key=key, kind=_GAPS, data=data))

    def typed(self, thought: Thought, type_text: str, number: int, path: Path) -> Thought:
        """Returns `thought` with the named type, or with `reasoning` and a violation (D3)."""
        kind, problem = check_thought(type_text, research=True)
        if kind is None:
            self.mended(UNTYPED, problem, number, path)
            return msgspec.structs.replace(thought, inferred=True)
        return msgspec.structs.replace(thought, type=kind)

    def status(self, text: str, number: int, path: Path) -> ObservationStatus:
        """Returns the named status, or `partial` with a violation: never success."""
        if text in _STATUSES:
            return cast("ObservationStatus", text)
        self.mended(STATUS, f"unknown status {text!r}" if text else "no status", number, path)
        # An unknown term must not improve the run's success rate.
        return "partial"

    def mended(self, rule: str, detail: str, number: int, path: Path) -> None:
        """Records a fault of turn `number`, or rejects it in a strict import."""
        if self._strict:
            raise DocumentFault(path, detail)
        violation = e.Violated(key=str(number), rule=rule, detail=detail, steps=(number,))
        if violation not in self.listed:
            self.put(violation)

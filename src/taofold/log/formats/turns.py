"""One iteration of a foreign log ⇄ one turn, and turns as records that fold, check and measure.

Both shapes of an action are read: `parameters` as a mapping, or the arguments beside `tool`.
Knows nothing about YAML or what is around an iteration.
"""

from collections.abc import Sequence
from typing import Any, Final, cast, get_args

import msgspec
from msgspec.structs import replace

from taofold.core import events as e
from taofold.core.json_values import is_array, is_object
from taofold.core.rules import STATUS, UNTYPED, check_thought
from taofold.core.text import iso
from taofold.core.trace import TracedCall, TracedTurn
from taofold.core.values import RESERVED, Action, Observation, ObservationStatus, Thought
from taofold.log.formats.yaml_document import DocumentFault, Fields, Path

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


class Writer:
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
            return msgspec.structs.replace(thought, synthesized=True)
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


def write(turn: TracedTurn) -> dict[str, Any]:
    """The turn as an iteration; what holds its default is left out."""
    document: dict[str, Any] = {"iteration": turn.number, "thought": _thought(turn)}
    if turn.calls and not turn.complete:
        document["interrupted"] = True
    actions = [_action(call, turn.at) for call in turn.calls]
    observations = [_observation(call) for call in turn.calls]
    # The rules' own form for one action; lists only where a batch needs them.
    if len(turn.calls) == 1:
        document["action"] = actions[0]
        if observations[0] is not None:
            document["observation"] = observations[0]
    elif turn.calls:
        document["actions"], document["observations"] = actions, observations
    return document


def _thought(turn: TracedTurn) -> dict[str, Any]:
    thought = turn.thought
    document: dict[str, Any] = {"type": thought.type, "content": thought.content}
    if thought.confidence is not None:
        document["confidence"] = thought.confidence
    document |= without_empty(
        because=list(thought.because), critical=thought.critical, synthesized=thought.synthesized
    )
    return {**document, "timestamp": iso(turn.at)}


def _action(call: TracedCall, proposed: int) -> dict[str, Any]:
    action = call.action
    document: dict[str, Any] = {"tool": action.tool, "parameters": action.parameters}
    document |= without_empty(
        rationale=action.rationale,
        id=action.id,
        repairs=list(action.repairs),
        guessed=action.guessed,
        error=action.error,
        effect=call.effect,
    )
    # Written only where a reader would guess wrong.
    if call.started != by_default_started(call):
        document["started"] = call.started
    return {**document, "timestamp": iso(call.started_at if call.started else proposed)}


def _observation(call: TracedCall) -> dict[str, Any] | None:
    observation = call.observation
    if observation is None:
        return None
    document = {"result": observation.result, "status": observation.status}
    document |= without_empty(
        extraction=observation.extraction,
        auto=observation.auto,
        options=list(observation.options),
        blob=observation.blob,
        refused=observation.refused,
        cut=observation.cut,
    )
    return {**document, "duration_ms": observation.duration_ms, "timestamp": iso(call.observed_at)}


def without_empty(**fields: Any) -> dict[str, Any]:
    """The fields that say something."""
    return {name: value for name, value in fields.items() if value}


def read(writer: Writer, fields: Fields, number: int) -> None:
    """Put one iteration on the record as turn `number`.

    Raises:
        DocumentFault: a field is missing, unknown or of the wrong kind.
    """
    counted = fields.whole("iteration", "iteration_number", default=number)
    # Numbers of a foreign file are checked, not trusted: `because` refers to them.
    if counted != number:
        raise DocumentFault(
            fields.path, f"is iteration {counted} where {number} must follow: number from 1"
        )
    fields.flag("interrupted")
    thought, at = _read_thought(writer, fields.take("thought"), number, (*fields.path, "thought"))
    calls = _read_calls(writer, fields, number, at)
    fields.close()
    writer.turn(number, at, thought, calls)


def _read_thought(writer: Writer, value: Any, number: int, path: Path) -> tuple[Thought, int]:
    if value is None:
        return Thought(""), writer.at
    fields = Fields({"content": value} if isinstance(value, str) else value, path)
    confidence = fields.number("confidence")
    thought = Thought(
        content=fields.text("content"),
        because=fields.numbers("because"),
        confidence=None if confidence is None else float(confidence),
        critical=fields.flag("critical"),
        synthesized=fields.flag("synthesized"),
    )
    thought = writer.typed(thought, fields.text("type"), number, (*path, "type"))
    at = fields.instant("timestamp", writer.at)
    fields.close()
    return thought, at


def _read_calls(writer: Writer, fields: Fields, number: int, at: int) -> list[TracedCall]:
    actions = _values_of(fields, "action", "actions")
    observations = _values_of(fields, "observation", "observations")
    if len(observations) > len(actions):
        raise DocumentFault(observations[len(actions)][1], "an observation without an action")
    calls: list[TracedCall] = []
    for index, (value, path) in enumerate(actions):
        observation, observed_at = None, 0
        call = _read_action(value, path, at)
        if index < len(observations) and observations[index][0] is not None:
            item, location = observations[index]
            observation, observed_at = _read_observation(
                writer, item, location, number, call.started_at
            )
        calls.append(_outcome_of(call, observation, observed_at, value))
    return calls


def _values_of(fields: Fields, singular: str, plural: str) -> list[tuple[Any, Path]]:
    """The values under either key, each with its path."""
    key = plural if fields.has(plural) else singular
    value = fields.take(singular, plural)
    if is_array(value):
        return [(item, (*fields.path, key, index)) for index, item in enumerate(value)]
    return [] if value is None else [(value, (*fields.path, key))]


def _read_action(value: Any, path: Path, at: int) -> TracedCall:
    """The action; `started_at` is its time, whether it started or not."""
    if isinstance(value, str):
        return TracedCall(Action("", error=f"names no tool: {value!r}"), started_at=at)
    fields = Fields(value, path)
    tool, rationale = fields.text("tool"), fields.text("rationale")
    time = fields.instant("timestamp", at)
    if not fields.has("parameters"):
        # Taken even if null, or `close` would call it unknown. Arguments stand beside `tool`.
        fields.take("parameters")
        return TracedCall(Action(tool, fields.rest(), rationale), started_at=time)
    action = Action(
        tool=tool,
        parameters=fields.mapping("parameters"),
        rationale=rationale,
        id=fields.text("id"),
        repairs=fields.strings("repairs"),
        guessed=fields.flag("guessed"),
        error=fields.text("error"),
    )
    effect = fields.text("effect")
    fields.flag("started")
    fields.close()
    return TracedCall(action, started_at=time, effect=effect)


def _outcome_of(
    call: TracedCall, observation: Observation | None, observed_at: int, value: Any
) -> TracedCall:
    """The call with its observation; whether it started stands in the document, or is likely."""
    whole = TracedCall(call.action, observation, call.started_at, observed_at, effect=call.effect)
    started = by_default_started(whole)
    if is_object(value) and "parameters" in value:
        started = value.get("started", started)
    at = call.started_at if started else 0
    return TracedCall(
        call.action, observation, at, observed_at, started=started, effect=call.effect
    )


def _read_observation(
    writer: Writer, value: Any, path: Path, number: int, at: int
) -> tuple[Observation, int]:
    fields = Fields(value if is_object(value) else {"result": value}, path)
    observation = Observation(
        result=fields.json("result"),
        status=writer.status(fields.text("status"), number, (*path, "status")),
        extraction=fields.text("extraction"),
        auto=fields.flag("auto"),
        duration_ms=float(fields.number("duration_ms") or 0),
        options=fields.strings("options"),
        blob=fields.text("blob"),
        refused=fields.text("refused"),
        cut=fields.flag("cut"),
    )
    time = fields.instant("timestamp", at)
    fields.close()
    return observation, time

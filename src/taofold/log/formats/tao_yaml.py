"""The AIWG rules' own format: `ralph_tao_log` with its iterations, or `tao_iteration` documents.

    ralph_tao_log:
      loop_id: ralph-001
      task: Fix authentication tests
      iterations:
      - iteration: 1
        thought: {type: goal, content: …, confidence: 0.85, timestamp: …}
        action: {tool: bash, parameters: {command: npm test}, rationale: …, timestamp: …}
        observation: {status: failure, result: …, extraction: …, duration_ms: 150, timestamp: …}

A batch has the lists `actions` and `observations`. Thoughts, actions and observations round-trip
completely, and times that are absent stay absent; replies, usage and decisions are only in NDJSON.
An action's parameters may also be beside `tool`, as in the rules' second example. One iteration is
one turn; `imported_turns` turns them into records. `dumps_iterations` writes `tao_iteration`
documents, which have no task, violations and outcome.
"""

import math
from collections.abc import Iterable
from typing import Any

from taofold.core import events as e
from taofold.core.errors import ConfigError
from taofold.core.json_values import is_array, is_object
from taofold.core.rule_names import INCOMPLETE, STATUS, VALUE
from taofold.core.rules import recorded_violations
from taofold.core.state import ENDED, live, opening
from taofold.core.text import clip, iso
from taofold.core.trace import TracedCall, TracedTurn, turns
from taofold.core.values import Action, Observation, Thought
from taofold.log.formats import yaml_document as yaml
from taofold.log.formats.imported_turns import (
    STRATEGY,
    WITHOUT_ACTION,
    Gaps,
    RecordWriter,
    by_default_started,
    gaps_of,
)
from taofold.log.formats.yaml_document import (
    DocumentFault,
    Fields,
    Path,
    check_json,
    config_error,
)


def dumps(records: Iterable[e.Record]) -> str:
    """Returns the run as one `ralph_tao_log` document."""
    live_records = live(records)
    start = opening(live_records) or e.RunStarted(goal="")
    log: dict[str, Any] = {
        "loop_id": live_records[0].run if live_records else "",
        "task": start.goal,
    }
    gaps = gaps_of(live_records)
    whole = gaps.get("", Gaps())
    if live_records and not whole.log:
        log["timestamp"] = iso(live_records[0].at)
    log |= {"agent": start.agent, **without_empty(model=start.model)}
    for name in ("instructions", "research"):
        if start.settings.get(name):
            log[name] = start.settings[name]
    log["iterations"] = [
        {"iteration": turn.number, **_iteration(turn, gaps.get(turn.key, Gaps()))}
        for turn in turns(live_records)
    ]
    broken = [
        without_empty(
            rule=violation.rule,
            detail=violation.detail,
            steps=list(violation.steps),
            refused=violation.refused,
        )
        for violation in recorded_violations(live_records)
    ]
    log |= without_empty(violations=broken)
    for record in live_records:
        if isinstance(record.event, e.RunFinished):
            log["outcome"] = _outcome(record.event, None if whole.outcome else record.at)
    return yaml.dump({"ralph_tao_log": log})


def dumps_iterations(records: Iterable[e.Record]) -> str:
    """Returns the run as `tao_iteration` documents, one for each turn."""
    live_records = live(records)
    gaps = gaps_of(live_records)
    documents = [
        {"iteration_number": turn.number, **_iteration(turn, gaps.get(turn.key, Gaps()))}
        for turn in turns(live_records)
    ]
    return "---\n".join([yaml.dump({"tao_iteration": each}) for each in documents])


def _outcome(event: e.RunFinished, at: int | None) -> dict[str, Any]:
    document: dict[str, Any] = {
        "status": event.status,
        "stop_reason": event.stop_reason,
        "success": event.success,
        "output": event.output,
    }
    return {**document, **without_empty(error=event.error), **_stated(at)}


def _stated(at: int | None) -> dict[str, Any]:
    return {} if at is None else {"timestamp": iso(at)}


def loads(
    text: str, *, run: str = "", at: int = 0, strict: bool = False, source: str = "tao-yaml"
) -> list[e.Record]:
    """Returns synthetic records for a TAO log; `at` is the time of entries without a timestamp.

    Unknown thought types and statuses become `reasoning` and `partial` with a recorded violation,
    or are rejected if `strict`.

    Raises:
        ConfigError: The text is not such a log; the path is `source` and the line.
    """
    documents = yaml.load(text, source)
    number = 0
    try:
        first = documents[0] if len(documents) == 1 else None
        if isinstance(first, dict) and "ralph_tao_log" in first:
            return _log(first, run, at, strict)
        writer = RecordWriter(run or "imported", at, strict=strict)
        writer.put(e.RunStarted(goal="", strategy=STRATEGY))
        for number, document in enumerate(documents):
            top = Fields(document, ())
            inner = top.take("tao_iteration")
            top.close()
            _read_iteration(writer, Fields(inner, ("tao_iteration",)), number + 1)
        writer.lacks("", Gaps(log=True))
    except DocumentFault as fault:
        raise config_error(fault, source, yaml.line(text, fault.path, number)) from None
    # Only the start and its gap, added above: there was no iteration.
    if not documents:
        raise ConfigError("the document is empty: expected `ralph_tao_log:`", path=source)
    writer.begin_with_the_first()
    return writer.records


def _log(document: Any, run: str, at: int, strict: bool) -> list[e.Record]:
    top = Fields(document, ())
    log = Fields(top.take("ralph_tao_log"), ("ralph_tao_log",))
    top.close()
    dated = log.has("timestamp")
    loop = log.text("loop_id")
    writer = RecordWriter(run or loop or "imported", log.instant("timestamp", at), strict=strict)
    # Only the settings that the rules need; others could name code (`core.imported_runs`).
    settings = {
        name: value
        for name, value in (
            ("instructions", log.text("instructions")),
            ("research", log.flag("research")),
        )
        if value
    }
    start = e.RunStarted(
        goal=log.text("task"),
        agent=log.text("agent", default="agent"),
        model=log.text("model"),
        strategy=STRATEGY,
        settings=settings,
    )
    writer.put(start)
    writer.listed = [
        _violation(Fields(violation, ("ralph_tao_log", "violations", index)))
        for index, violation in enumerate(log.listed("violations"))
    ]
    iterations = log.listed("iterations")
    for index, inner in enumerate(iterations):
        location = ("ralph_tao_log", "iterations", index)
        _read_iteration(writer, Fields(inner, location), index + 1)
    for violation in writer.listed:
        writer.put(violation)
    ended = log.has("outcome")
    outcome = Fields(log.take("outcome") if ended else {}, ("ralph_tao_log", "outcome"))
    writer.lacks("", Gaps(log=not dated, outcome=ended and not outcome.has("timestamp")))
    if ended:
        _end(writer, outcome, len(iterations))
    log.close()
    if not dated:
        writer.begin_with_the_first()
    return writer.records


def _violation(fields: Fields) -> e.Violated:
    steps = fields.numbers("steps")
    rule, detail = fields.text("rule"), fields.text("detail")
    refused = fields.flag("refused")
    fields.close()
    key = str(steps[0]) if steps else ""
    return e.Violated(key=key, rule=rule, detail=detail, steps=steps, refused=refused)


def _end(writer: RecordWriter, fields: Fields, number: int) -> None:
    status = fields.text("status")
    success = fields.flag("success")
    if status not in ENDED:
        named = f"unknown status {clip(repr(status), 60)}" if status else "no status"
        writer.mended(STATUS, f"outcome: {named}", number, (*fields.path, "status"))
    if success and status != "finished":
        # An unknown or contradicting outcome never improves a run.
        success = False
        if status in ENDED:
            detail = f"outcome: success contradicts the status {status!r}"
            writer.mended(STATUS, detail, number, (*fields.path, "success"))
    event = e.RunFinished(
        status=status if status in ENDED else "failed",
        stop_reason=fields.text("stop_reason"),
        success=success,
        output=fields.json("output"),
        error=fields.text("error"),
    )
    at = fields.instant("timestamp", writer.at)
    fields.close()
    writer.put(event, at)


def _iteration(turn: TracedTurn, gaps: Gaps) -> dict[str, Any]:
    """Returns the turn as an iteration, without fields that hold their default."""
    document: dict[str, Any] = {"thought": _thought(turn, gaps)}
    if turn.calls and not turn.complete:
        document["interrupted"] = True
    actions = [_action(call, turn.at, index, gaps) for index, call in enumerate(turn.calls)]
    observations: list[Any] = [
        _observation(call, index, gaps) for index, call in enumerate(turn.calls)
    ]
    observations += gaps.stray
    # The rules' own form for one action; lists only where a batch needs them.
    if len(actions) > 1 or len(observations) > 1:
        document |= without_empty(actions=actions, observations=observations)
        return document
    document |= without_empty(action=actions[0] if actions else None)
    return document | without_empty(observation=observations[0] if observations else None)


def _thought(turn: TracedTurn, gaps: Gaps) -> dict[str, Any]:
    thought = turn.thought
    document: dict[str, Any] = {"type": thought.type, "content": thought.content}
    if thought.confidence is not None:
        document["confidence"] = thought.confidence
    document |= without_empty(
        because=list(thought.because),
        learned=thought.learned,
        critical=thought.critical,
        synthesized=thought.synthesized,
        inferred=thought.inferred,
    )
    return document | _stated(None if gaps.thought else turn.at)


def _action(call: TracedCall, proposed: int, index: int, gaps: Gaps) -> dict[str, Any]:
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
    # Written only where a reader would infer the wrong value.
    if call.started != by_default_started(call):
        document["started"] = call.started
    at = call.started_at if call.started else proposed
    return document | _stated(None if index in gaps.actions else at)


def _observation(call: TracedCall, index: int, gaps: Gaps) -> dict[str, Any] | None:
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
    if index not in gaps.durations:
        document["duration_ms"] = observation.duration_ms
    return document | _stated(None if index in gaps.observations else call.observed_at)


def without_empty(**fields: Any) -> dict[str, Any]:
    """Returns the non-empty fields."""
    return {name: value for name, value in fields.items() if value}


def _read_iteration(writer: RecordWriter, fields: Fields, number: int) -> None:
    """Records one iteration as turn `number`.

    Raises:
        DocumentFault: A field is missing, unknown or of the wrong type.
    """
    counted = fields.whole("iteration", "iteration_number", default=number)
    # Numbers of a foreign file are checked, not trusted: `because` refers to them.
    if counted != number:
        raise DocumentFault(
            fields.path, f"is iteration {counted} where {number} must follow: number from 1"
        )
    fields.flag("interrupted")
    location = (*fields.path, "thought")
    written = fields.take("thought")
    thought, at = _read_thought(writer, written, number, location)
    actions = _values_of(fields, "action", "actions")
    observations = _values_of(fields, "observation", "observations")
    fields.close()
    calls = _read_calls(writer, actions, observations, number, at)
    stray = _stray(writer, observations[len(actions) :], number)
    gaps = Gaps(
        not _states(written, "timestamp"),
        _lacking("timestamp", actions),
        _lacking("timestamp", observations[: len(actions)]),
        _lacking("duration_ms", observations[: len(actions)]),
        stray,
    )
    writer.turn(number, at, thought, calls, gaps)


def _states(value: Any, key: str) -> bool:
    return is_object(value) and value.get(key) is not None


def _lacking(key: str, values: list[tuple[Any, Path]]) -> tuple[int, ...]:
    """Returns the indexes of the values that do not state `key`."""
    return tuple([index for index, (value, _) in enumerate(values) if not _states(value, key)])


def _stray(
    writer: RecordWriter, observations: list[tuple[Any, Path]], number: int
) -> tuple[Any, ...]:
    """Returns observations without an action as they are written, and records each as a fault."""
    for value, path in observations:
        check_json(value, path)
        writer.mended(INCOMPLETE, WITHOUT_ACTION, number, path)
    return tuple([value for value, _ in observations])


def _read_thought(writer: RecordWriter, value: Any, number: int, path: Path) -> tuple[Thought, int]:
    if value is None:
        return Thought(""), writer.at
    fields = Fields({"content": value} if isinstance(value, str) else value, path)
    confidence = _bounded(writer, fields, "confidence", 1.0, number)
    thought = Thought(
        content=fields.text("content"),
        because=fields.numbers("because"),
        learned=fields.text("learned"),
        confidence=confidence,
        critical=fields.flag("critical"),
        synthesized=fields.flag("synthesized"),
        inferred=fields.flag("inferred"),
    )
    thought = writer.typed(thought, fields.text("type"), number, (*path, "type"))
    at = fields.instant("timestamp", writer.at)
    fields.close()
    return thought, at


def _bounded(
    writer: RecordWriter, fields: Fields, key: str, most: float, number: int
) -> float | None:
    """Returns a number from 0 to `most`; None with a violation for another one."""
    value = fields.number(key)
    if value is None:
        return None
    if 0 <= value <= most:
        return float(value)
    wanted = "0 or more" if math.isinf(most) else f"from 0 to {most:g}"
    path = (*fields.path, key)
    writer.mended(VALUE, f"{key} must be {wanted}, got {clip(repr(value), 40)}", number, path)
    return None


def _read_calls(
    writer: RecordWriter,
    actions: list[tuple[Any, Path]],
    observations: list[tuple[Any, Path]],
    number: int,
    at: int,
) -> list[TracedCall]:
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
    """Returns the values under either key, each with its path."""
    key = plural if fields.has(plural) else singular
    value = fields.take(singular, plural)
    if is_array(value):
        return [(item, (*fields.path, key, index)) for index, item in enumerate(value)]
    return [] if value is None else [(value, (*fields.path, key))]


def _read_action(value: Any, path: Path, at: int) -> TracedCall:
    """Returns the action; `started_at` is its time, whether it started or not."""
    if isinstance(value, str):
        return TracedCall(Action("", error=f"names no tool: {value!r}"), started_at=at)
    fields = Fields(value, path)
    tool, rationale = fields.text("tool"), fields.text("rationale")
    time = fields.instant("timestamp", at)
    if not fields.has("parameters"):
        # Taken even if null, or `close` would report it as unknown. The arguments are beside
        # `tool`.
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
    """Returns the call with its observation; its start is stated in the document, or inferred."""
    whole = TracedCall(call.action, observation, call.started_at, observed_at, effect=call.effect)
    started = by_default_started(whole)
    if is_object(value) and "parameters" in value:
        started = value.get("started", started)
    at = call.started_at if started else 0
    return TracedCall(
        call.action, observation, at, observed_at, started=started, effect=call.effect
    )


def _read_observation(
    writer: RecordWriter, value: Any, path: Path, number: int, at: int
) -> tuple[Observation, int]:
    fields = Fields(value if is_object(value) else {"result": value}, path)
    duration = _bounded(writer, fields, "duration_ms", math.inf, number)
    observation = Observation(
        result=fields.json("result"),
        status=writer.status(fields.text("status"), number, (*path, "status")),
        extraction=fields.text("extraction"),
        auto=fields.flag("auto"),
        duration_ms=duration or 0.0,
        options=fields.strings("options"),
        blob=fields.text("blob"),
        refused=fields.text("refused"),
        cut=fields.flag("cut"),
    )
    time = fields.instant("timestamp", at)
    fields.close()
    return observation, time

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
completely; replies, usage and decisions are only in NDJSON. An action's parameters may also be
beside `tool`, as in the rules' second example. One iteration is one turn; `imported_turns` turns
them into records.
"""

from collections.abc import Iterable
from typing import Any

from taofold.core import events as e
from taofold.core.errors import ConfigError
from taofold.core.json_values import is_array, is_object
from taofold.core.rules import recorded_violations
from taofold.core.state import live, opening
from taofold.core.text import iso
from taofold.core.trace import TracedCall, TracedTurn, turns
from taofold.core.values import Action, Observation, Thought
from taofold.log.formats import yaml_document as yaml
from taofold.log.formats.imported_turns import STRATEGY, RecordWriter, by_default_started
from taofold.log.formats.yaml_document import DocumentFault, Fields, Path, config_error


def dumps(records: Iterable[e.Record]) -> str:
    """Returns the run as one `ralph_tao_log` document."""
    live_records = live(records)
    start = opening(live_records) or e.RunStarted(goal="")
    log: dict[str, Any] = {
        "loop_id": live_records[0].run if live_records else "",
        "task": start.goal,
    }
    if live_records:
        log["timestamp"] = iso(live_records[0].at)
    log |= {"agent": start.agent, **without_empty(model=start.model)}
    for name in ("instructions", "research"):
        if start.settings.get(name):
            log[name] = start.settings[name]
    log["iterations"] = [_iteration(turn) for turn in turns(live_records)]
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
            log["outcome"] = _outcome(record.event, record.at)
    return yaml.dump({"ralph_tao_log": log})


def _outcome(event: e.RunFinished, at: int) -> dict[str, Any]:
    document: dict[str, Any] = {
        "status": event.status,
        "stop_reason": event.stop_reason,
        "success": event.success,
        "output": event.output,
    }
    return {**document, **without_empty(error=event.error), "timestamp": iso(at)}


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
    except DocumentFault as fault:
        raise config_error(fault, source, yaml.line(text, fault.path, number)) from None
    # Only the start added above: there was no iteration.
    if len(writer.records) == 1:
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
    settings = {name: value for name in ("instructions", "research") if (value := log.json(name))}
    start = e.RunStarted(
        goal=log.text("task"),
        agent=log.text("agent", default="agent"),
        model=log.text("model"),
        strategy=STRATEGY,
        settings=settings,
    )
    writer.put(start)
    for index, inner in enumerate(log.listed("iterations")):
        location = ("ralph_tao_log", "iterations", index)
        _read_iteration(writer, Fields(inner, location), index + 1)
    for index, violation in enumerate(log.listed("violations")):
        _violation(writer, Fields(violation, ("ralph_tao_log", "violations", index)))
    if log.has("outcome"):
        _end(writer, Fields(log.take("outcome"), ("ralph_tao_log", "outcome")))
    log.close()
    if not dated:
        writer.begin_with_the_first()
    return writer.records


def _violation(writer: RecordWriter, fields: Fields) -> None:
    steps = fields.numbers("steps")
    rule, detail = fields.text("rule"), fields.text("detail")
    refused = fields.flag("refused")
    fields.close()
    key = str(steps[0]) if steps else ""
    writer.put(e.Violated(key=key, rule=rule, detail=detail, steps=steps, refused=refused))


def _end(writer: RecordWriter, fields: Fields) -> None:
    event = e.RunFinished(
        status=fields.text("status"),
        stop_reason=fields.text("stop_reason"),
        success=fields.flag("success"),
        output=fields.json("output"),
        error=fields.text("error"),
    )
    at = fields.instant("timestamp", writer.at)
    fields.close()
    writer.put(event, at)


def _iteration(turn: TracedTurn) -> dict[str, Any]:
    """Returns the turn as an iteration, without fields that hold their default."""
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
        because=list(thought.because),
        learned=thought.learned,
        critical=thought.critical,
        synthesized=thought.synthesized,
        inferred=thought.inferred,
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
    # Written only where a reader would infer the wrong value.
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
    thought, at = _read_thought(writer, fields.take("thought"), number, (*fields.path, "thought"))
    calls = _read_calls(writer, fields, number, at)
    fields.close()
    writer.turn(number, at, thought, calls)


def _read_thought(writer: RecordWriter, value: Any, number: int, path: Path) -> tuple[Thought, int]:
    if value is None:
        return Thought(""), writer.at
    fields = Fields({"content": value} if isinstance(value, str) else value, path)
    confidence = fields.number("confidence")
    thought = Thought(
        content=fields.text("content"),
        because=fields.numbers("because"),
        learned=fields.text("learned"),
        confidence=None if confidence is None else float(confidence),
        critical=fields.flag("critical"),
        synthesized=fields.flag("synthesized"),
        inferred=fields.flag("inferred"),
    )
    thought = writer.typed(thought, fields.text("type"), number, (*path, "type"))
    at = fields.instant("timestamp", writer.at)
    fields.close()
    return thought, at


def _read_calls(writer: RecordWriter, fields: Fields, number: int, at: int) -> list[TracedCall]:
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

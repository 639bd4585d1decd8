"""The AIWG rules' own form: `ralph_tao_log` with its iterations, or `tao_iteration` documents.

    ralph_tao_log:
      loop_id: ralph-001
      task: Fix authentication tests
      iterations:
      - iteration: 1
        thought: {type: goal, content: …, confidence: 0.85, timestamp: …}
        action: {tool: bash, parameters: {command: npm test}, rationale: …, timestamp: …}
        observation: {status: failure, result: …, extraction: …, duration_ms: 150, timestamp: …}

A batch has `actions` and `observations`, which are lists. Everything about thoughts, actions
and observations round-trips; replies, usage and decisions are only in NDJSON. An action's
parameters may also stand beside `tool`, as in the rules' second example.
"""

from collections.abc import Iterable
from typing import Any

from taofold.core import events as e
from taofold.core.errors import ConfigError
from taofold.core.rules import recorded_violations
from taofold.core.state import live
from taofold.core.text import iso
from taofold.core.trace import opening, turns
from taofold.log.formats import turns as iteration
from taofold.log.formats import yaml_document as yaml
from taofold.log.formats.turns import STRATEGY, Writer, without_empty
from taofold.log.formats.yaml_document import DocumentFault, Fields, config_error


def dumps(records: Iterable[e.Record]) -> str:
    """The run as one `ralph_tao_log` document."""
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
    log["iterations"] = [iteration.write(turn) for turn in turns(live_records)]
    broken = [
        without_empty(rule=violation.rule, detail=violation.detail, steps=list(violation.steps))
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
    """Synthetic records for a TAO log; `at` dates what has no timestamp.

    Unknown thought types and statuses become `reasoning` and `partial` with a violation on
    record, or are refused if `strict`.

    Raises:
        ConfigError: the text is not such a log; the path is `source` and the line.
    """
    documents = yaml.load(text, source)
    number = 0
    try:
        first = documents[0] if len(documents) == 1 else None
        if isinstance(first, dict) and "ralph_tao_log" in first:
            return _log(first, run, at, strict)
        writer = Writer(run or "imported", at, strict=strict)
        writer.put(e.RunStarted(goal="", strategy=STRATEGY))
        for number, document in enumerate(documents):
            top = Fields(document, ())
            inner = top.take("tao_iteration")
            top.close()
            iteration.read(writer, Fields(inner, ("tao_iteration",)), number + 1)
    except DocumentFault as fault:
        raise config_error(fault, source, yaml.line(text, fault.path, number)) from None
    # Only the start that was put in above: there was no iteration.
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
    writer = Writer(run or loop or "imported", log.instant("timestamp", at), strict=strict)
    # Only what the rules need; anything else in settings could name code (see provenance).
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
        iteration.read(writer, Fields(inner, location), index + 1)
    for index, violation in enumerate(log.listed("violations")):
        _violation(writer, Fields(violation, ("ralph_tao_log", "violations", index)))
    if log.has("outcome"):
        _end(writer, Fields(log.take("outcome"), ("ralph_tao_log", "outcome")))
    log.close()
    if not dated:
        writer.begin_with_the_first()
    return writer.records


def _violation(writer: Writer, fields: Fields) -> None:
    steps = fields.numbers("steps")
    rule, detail = fields.text("rule"), fields.text("detail")
    fields.close()
    key = str(steps[0]) if steps else ""
    writer.put(e.Violated(key=key, rule=rule, detail=detail, steps=steps))


def _end(writer: Writer, fields: Fields) -> None:
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

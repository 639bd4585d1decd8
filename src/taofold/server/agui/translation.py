"""Conversion between taofold's values and AG-UI messages.

To a client: events for parts of a step, side events, the end of a run, and a run's question as an
interrupt. From a client: its answer as a decision; the policy decides who may answer. `projection`
decides when an event is sent. Pure.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from ag_ui.core import Interrupt, ResumeEntry
from ag_ui.core import events as ag
from pydantic import ValidationError

from taofold.core import events as e
from taofold.core.json_values import is_object, render
from taofold.core.state import RunState
from taofold.core.values import ASK_USER, Action, Observation, Thought, Usage
from taofold.policy.redaction.views import shown_value
from taofold.server.api import schemas
from taofold.server.endpoint import Problem
from taofold.server.streams.events import hand_off, note

_BATCH: Final = "tools"


def thought_events(here: str, thought: Thought) -> Iterator[ag.BaseEvent]:
    """Yields a typed thought as a reasoning message named `here`."""
    meta: dict[str, Any] = {"thoughtType": thought.type}
    if thought.confidence is not None:
        meta["confidence"] = thought.confidence
    yield ag.ReasoningStartEvent(message_id=here, metadata=meta)
    yield ag.ReasoningMessageStartEvent(message_id=here, role="reasoning", metadata=meta)
    if thought.content:
        yield ag.ReasoningMessageContentEvent(message_id=here, delta=thought.content)
    yield ag.ReasoningMessageEndEvent(message_id=here)
    yield ag.ReasoningEndEvent(message_id=here)


def call_events(here: str, name: str, action: Action) -> Iterator[ag.BaseEvent]:
    """Yields the call `name` of the batch in the step `here`."""
    yield ag.ToolCallStartEvent(
        tool_call_id=name, tool_call_name=action.tool, parent_message_id=f"{here}:{_BATCH}"
    )
    arguments = msgspec.json.encode(action.parameters).decode()
    yield ag.ToolCallArgsEvent(tool_call_id=name, delta=arguments)
    yield ag.ToolCallEndEvent(tool_call_id=name)


def result_event(name: str, observation: Observation) -> ag.ToolCallResultEvent:
    """Returns the result of the call `name`, also if it was refused."""
    meta: dict[str, Any] = {"status": observation.status, "ms": observation.duration_ms}
    if observation.extraction:
        meta["extraction"] = observation.extraction
    if observation.refused:
        meta["refused"] = observation.refused
    if observation.facts:
        meta["facts"], meta["remark"] = observation.facts, observation.remark
    return ag.ToolCallResultEvent(
        message_id=f"{name}:result",
        tool_call_id=name,
        content=render(observation.result),
        role="tool",
        metadata=meta,
    )


def resolved_event(question: e.Record, event: e.Decided) -> ag.CustomEvent:
    """Returns the resolution of the question in the record `question`."""
    value: dict[str, Any] = {
        "actionId": f"{question.run}:{question.seq}",
        "verdict": event.verdict,
        "by": event.decider,
        "reason": event.reason,
    }
    if event.action is not None:
        value["parameters"] = event.action.parameters
    return ag.CustomEvent(name="confirmation_resolved", value=value)


def side_event(event: e.Event) -> ag.CustomEvent | None:
    """Returns an event besides the steps, or None if it is not for clients."""
    match event:
        case e.LimitHit():
            value: Any = {"limit": event.limit, "value": event.value}
            return ag.CustomEvent(name="limit_reached", value=value)
        case e.Violated():
            value = {"rule": event.rule, "detail": event.detail}
            return ag.CustomEvent(name="rule_violated", value=value)
        case e.Rewound():
            return ag.CustomEvent(name="rewound", value={"to": event.to})
        case e.HandedOff():
            return ag.CustomEvent(name="handed_off", value=shown_value(hand_off(event)))
        case _ if event.announcement is not None:
            return ag.CustomEvent(name="note", value=note(event))
        case _:
            return None


def is_failure(event: e.RunFinished) -> bool:
    """Returns whether a client sees this end as an error."""
    return event.status == "failed" or (event.status == "limited" and event.output is None)


def failure_reason(event: e.RunFinished) -> str:
    """Returns the reason of a failure as text."""
    return shown_value(event.error) or event.stop_reason


def child_end(run: str, event: e.RunFinished) -> ag.BaseEvent:
    """Returns the event for the end of the child run `run`."""
    if is_failure(event):
        code = event.stop_reason
        return ag.SubagentErrorEvent(subagent_run_id=run, message=failure_reason(event), code=code)
    return ag.SubagentFinishedEvent(subagent_run_id=run, result=event.output)


def final_event(run: str, thread: str, name: str, end: e.RunFinished, use: Any) -> ag.BaseEvent:
    """Returns the last event of a run: an error, a cancellation, or a result."""
    if is_failure(end):
        return ag.RunErrorEvent(message=failure_reason(end), code=end.stop_reason)
    cancelled = end.status == "cancelled"
    result = {"run": run, "success": end.success, "stopReason": end.stop_reason}
    return ag.RunFinishedEvent(
        thread_id=thread,
        run_id=name,
        outcome=ag.RunFinishedCancelledOutcome() if cancelled else ag.RunFinishedSuccessOutcome(),
        result={**result, "output": end.output},
        usage=use or None,
    )


def usage(before: Mapping[str, Usage], state: RunState) -> list[ag.TokenUsage]:
    """Returns tokens by model since `before`: an activation reports only its own calls."""
    usages: list[ag.TokenUsage] = []
    for model, spent in state.usage_by_model.items():
        earlier = before.get(model, Usage())
        input_tokens = spent.input_tokens - earlier.input_tokens
        output_tokens = spent.output_tokens - earlier.output_tokens
        if input_tokens or output_tokens:
            named = model or None
            usages.append(
                ag.TokenUsage(model=named, input_tokens=input_tokens, output_tokens=output_tokens)
            )
    return usages


APPROVAL: Final = "tool_approval"
INPUT: Final = "input_required"
_ANSWER: Final = {
    "type": "object",
    "properties": {"answer": {"type": "string", "minLength": 1}},
    "required": ["answer"],
}
_DECISION: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "reason": {"type": "string"},
        "parameters": {"type": "object", "description": "Run with these instead."},
    },
    "required": ["approved"],
}


def interrupt(record: e.Record, call: str, action: Action, *, child: str = "") -> Interrupt:
    """Returns the interrupt for `record`, a `Decided` with verdict ask about `action`."""
    event = record.event
    assert isinstance(event, e.Decided)
    form: Any = (event.request or {}).get("form")
    asks = action.tool == ASK_USER or event.request is not None
    until = datetime.fromtimestamp(event.expires_at / 1000, UTC) if event.expires_at else None
    return Interrupt(
        id=f"{record.run}:{record.seq}",
        reason=INPUT if asks else APPROVAL,
        message=(event.reason if asks else "") or event.preview or event.reason,
        tool_call_id=call,
        response_schema=_ANSWER if action.tool == ASK_USER else _decided(form),
        expires_at=until.isoformat().replace("+00:00", "Z") if until else None,
        subagent_run_id=child or None,
        metadata={
            "tool": action.tool,
            "parameters": action.parameters,
            "tier": event.tier,
            "requiresConfirmation": not asks,
            "why": event.reason,
            "digest": event.digest,
        },
    )


def _decided(form: Any) -> dict[str, Any]:
    """Returns the form of an answer: yes or no, and the fields of a tool's own question."""
    if not form:
        return _DECISION
    return {**_DECISION, "properties": {**_DECISION["properties"], "parameters": form}}


def decision(entry: ResumeEntry) -> schemas.Decide:
    """Returns the client's decision.

    Raises:
        Problem: The payload has neither a decision nor an answer.
    """
    if entry.status == "cancelled":
        return _decide(entry, "deny", {"reason": "cancelled by the client"})
    payload: Any = entry.payload
    fields: dict[str, Any] = dict(payload) if is_object(payload) else {}
    rest = {name: fields[name] for name in ("reason", "digest") if fields.get(name)}
    # Contradictory combinations (`approved: false` with an answer) are refused with 422, because a
    # guess would be a decision without an approver.
    approved, parameters, answer = (fields.get(n) for n in ("approved", "parameters", "answer"))
    if approved is None and parameters is None and isinstance(answer, str):
        return _decide(entry, "answer", {**rest, "answer": answer})
    if approved is False and answer is None:
        return _decide(entry, "deny", rest)
    if approved is True and answer is None:
        if parameters is None:
            return _decide(entry, "approve", rest)
        if is_object(parameters):
            return _decide(entry, "edit", {**rest, "parameters": parameters})
    raise Problem(
        422,
        "resume",
        f"interrupt {entry.interrupt_id!r}: the payload is {{approved: true or false}}, "
        "optionally with parameters and reason, or {answer: text}",
    )


def _decide(entry: ResumeEntry, decision: str, fields: dict[str, Any]) -> schemas.Decide:
    try:
        return schemas.Decide.model_validate({**fields, "decision": decision})
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]["msg"]
        raise Problem(422, "resume", f"interrupt {entry.interrupt_id!r}: {fault}") from None

"""An AG-UI interrupt is a question of a run, and the answer to it a decision.

What a client sends is checked here; whether the person may decide is the policy's word. Pure.
"""

from datetime import UTC, datetime
from typing import Any, Final

from ag_ui.core import Interrupt, ResumeEntry
from pydantic import ValidationError

from taofold.core import events as e
from taofold.core.json_values import is_object
from taofold.core.values import ASK_USER, Action
from taofold.server.api import schemas
from taofold.server.endpoint import Problem

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
    """The question that `record`, a `Decided` with verdict ask, puts about `action`."""
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
            "why": event.reason,
            "digest": event.digest,
        },
    )


def _decided(form: Any) -> dict[str, Any]:
    """A yes or no; to a tool's own question with the filled form."""
    if not form:
        return _DECISION
    return {**_DECISION, "properties": {**_DECISION["properties"], "parameters": form}}


def decision(entry: ResumeEntry) -> schemas.Decide:
    """What the client answers.

    Raises:
        Problem: the payload says neither yes nor no, nor answers.
    """
    if entry.status == "cancelled":
        return _decide(entry, "deny", {"reason": "cancelled by the client"})
    payload: Any = entry.payload
    fields: dict[str, Any] = dict(payload) if is_object(payload) else {}
    rest = {name: fields[name] for name in ("reason", "digest") if fields.get(name)}
    # Combinations that contradict each other (`approved: false` with an answer)
    # fall through to 422: a guess here would be a decision that nobody made.
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

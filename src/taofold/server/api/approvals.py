"""The routes of approvals: what waits for a person, and a person's word.

Who may decide is the policy's word, asked with the roles that decider and requester have
now. Every attempt that is refused is on the run's record and in the server's audit.

A tool may ask with a form, and `answer` says whether what a person wrote fits it. The form is a
JSON Schema from a tool, perhaps from an MCP server: data. Its types, choices and bounds are
checked here, one level deep like the form; patterns, formats and what is nested are the tool's to
check.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Final

import msgspec
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic import create_model as model_of

from taofold.core.errors import Refused, UnknownRun
from taofold.core.json_values import is_array, is_object
from taofold.core.state import ENDED
from taofold.core.trace import opening
from taofold.core.values import ASK_USER, Principal
from taofold.log.log import RunRow
from taofold.parsing.jsonlike.strict import decoded
from taofold.policy import Facts
from taofold.policy.policy import Policy, may
from taofold.runtime import control
from taofold.runtime.setup import Approval, Decision
from taofold.server.api import schemas, views
from taofold.server.api.schemas import ApprovalsQuery, Decide, DecideMany
from taofold.server.catalog import AnyAgent, facts_of
from taofold.server.endpoint import ApiCall, ApiEndpoint, Problem, invalid, visible_run

_STRICT: Final = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
_TYPES: Final[Mapping[str, Any]] = {"string": str, "integer": int, "number": float, "boolean": bool}
_BOUNDS: Final = {
    "minimum": "ge",
    "maximum": "le",
    "exclusiveMinimum": "gt",
    "exclusiveMaximum": "lt",
}
_LENGTHS: Final = {"string": ("minLength", "maxLength"), "array": ("minItems", "maxItems")}


def answer(form: Mapping[str, Any], text: str) -> str:
    """`text` as the tool gets it: JSON that fits the form, where the form is of fields.

    Like for an MCP server the plain value will do for a form of one field.

    Raises:
        Problem: 422 with the path of everything that does not fit.
    """
    fields = _fields(form)
    if not fields:
        kind = form.get("type")
        _check("answer", _type(form), text if kind in (None, "string") else _decoded(text))
        return text
    filled: Any = _decoded(text) if text.strip() else {}
    if not is_object(filled):
        if len(fields) != 1:
            raise Problem(422, "invalid", f"answer: JSON with {', '.join(fields)} is wanted")
        ((name, rules),) = fields.items()
        # `42` typed into a text field is the text "42", not the number that JSON reads.
        filled = {name: text if rules.get("type") == "string" else filled}
    check(form, filled, "answer")
    return msgspec.json.encode(filled).decode()


def check(form: Mapping[str, Any], said: Mapping[str, Any], where: str) -> None:
    """Refuse what does not fit the form.

    Raises:
        Problem: 422 with the path of everything that does not fit, under `where`.
    """
    fields = _fields(form)
    if fields:
        _check(where, _model(form, fields), said)


def _check(where: str, kind: Any, said: Any) -> None:
    try:
        TypeAdapter[Any](kind).validate_python(said)
    except ValidationError as error:
        raise invalid(error, "body", where) from None


def _decoded(text: str) -> Any:
    """The JSON that the text is, else the text: then it is of the wrong type."""
    try:
        return decoded(text.strip())
    except (ValueError, RecursionError):
        return text


def _fields(form: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    properties: Any = form.get("properties")
    if not is_object(properties):
        return {}
    return {str(name): rules if is_object(rules) else {} for name, rules in properties.items()}


def _model(form: Mapping[str, Any], fields: Mapping[str, Mapping[str, Any]]) -> type[BaseModel]:
    """What a filled form must be: the fields that it names, and no others."""
    required: Any = form.get("required")
    mandatory = set(map(str, required)) if is_array(required) else set[str]()
    definitions: dict[str, Any] = {
        # A field's name is the tool's and may be anything, so it is only the alias.
        f"f{number}": (
            _type(rules),
            # None is no default that is validated: a field
            # that is left out passes whatever its type.
            Field(... if name in mandatory and "default" not in rules else None, alias=name),
        )
        for number, (name, rules) in enumerate(fields.items())
    }
    return model_of("Form", __config__=_STRICT, **definitions)


def _type(rules: Mapping[str, Any]) -> Any:
    """The type of one field; `Any` where the rules say nothing that we know."""
    options = _options(rules)
    if options is not None:
        return Annotated[Any, AfterValidator(_chosen(options))]
    declared: Any = rules.get("type")
    # A list of types (`["string", "null"]`) is left to the tool, like everything unknown.
    kind = declared if isinstance(declared, str) else ""
    if kind == "array":
        items: Any = rules.get("items")
        inner: Any = _type(items) if is_object(items) else Any
        return Annotated[list[inner], Field(strict=True, **_lengths(rules, kind))]
    if kind not in _TYPES:
        return Any
    bounds: dict[str, Any] = _lengths(rules, kind)
    if kind in ("integer", "number"):
        bounds = {ours: rules[name] for name, ours in _BOUNDS.items() if _number(rules.get(name))}
    return Annotated[_TYPES[kind], Field(strict=True, **bounds)]


def _options(rules: Mapping[str, Any]) -> list[Any] | None:
    listed: Any = rules.get("enum")
    if is_array(listed):
        return listed
    for word in ("oneOf", "anyOf"):
        alternatives: Any = rules.get(word)
        if (
            is_array(alternatives)
            and alternatives
            and all(
                is_object(alternative) and "const" in alternative for alternative in alternatives
            )
        ):
            return [alternative["const"] for alternative in alternatives]
    return None


def _chosen(options: list[Any]) -> Any:
    allowed = {_json(option) for option in options}

    def check(value: Any) -> Any:
        if _json(value) not in allowed:
            # Cut: the options are a tool's, perhaps a foreign MCP server's, and may be long.
            raise ValueError(f"choose one of {', '.join(map(str, options))[:300]}")
        return value

    return check


def _json(value: Any) -> bytes:
    """Tells `1` from `true`, which Python does not."""
    return msgspec.json.encode(value, order="sorted")


def _lengths(rules: Mapping[str, Any], kind: str) -> dict[str, Any]:
    limits = zip(("min_length", "max_length"), _LENGTHS.get(kind, ()), strict=False)
    sizes = {ours: rules.get(name) for ours, name in limits}
    # `type(…) is`: True is an int to isinstance, and Pydantic would take it as a bound.
    return {ours: size for ours, size in sizes.items() if type(size) is int and size >= 0}


def _number(value: Any) -> bool:
    return type(value) in (int, float)


_GONE: Final = ("EXPIRED", "approval expired")
ELSEWHERE: Final = (
    "the decision is in the log, but this server does not offer the agent of run {run}: "
    "it goes on where it was started, for example with `taofold runs resume {run}`"
)


async def pending(call: ApiCall) -> BaseModel:
    """Everything that waits for the caller."""
    query: ApprovalsQuery = call.query
    if query.run:
        await visible_run(call, query.run)
    return schemas.Approvals(items=await pending_of(call, query.run))


async def pending_of(call: ApiCall, run: str = "") -> list[schemas.ApprovalView]:
    """What waits in `run` and its child runs, or in every run that the caller sees."""
    server, now = call.server, call.server.now()
    shown_approvals: list[schemas.ApprovalView] = []
    for row in await _rows(call, run):
        # A run that is being driven has perhaps just taken
        # its answer: what it asks is shown once it waits.
        if server.engine.drives(row.run):
            continue
        if await server.sees(call.principal, row):
            questions = await server.asked(row)
            shown_approvals += [
                views.approval(question, row)
                for question in questions
                if not question.expires_at or question.expires_at >= now
            ]
    return shown_approvals


async def _rows(call: ApiCall, run: str) -> list[RunRow]:
    """The runs that may ask: `run` and its child runs, or all that have not ended."""
    log = call.server.log
    if not run:
        # Also running ones: their process asks a person itself, or died after it had asked.
        return await log.rows(status="waiting", limit=0) + await log.rows(status="running", limit=0)
    rows = [await log.row(run)]
    for child in await log.rows(parent=run, limit=0):
        if child.status not in ENDED:
            rows += await _rows(call, child.run)
    return rows


async def decide(call: ApiCall) -> BaseModel:
    """Approve, deny, edit or answer. The run goes on by itself, if its agent is offered here."""
    return await _decide(call, call.path["action"], call.body)


async def decide_many(call: ApiCall) -> BaseModel:
    """Decide on several actions, in this order; one that is refused stops none of the others."""
    body: DecideMany = call.body
    outcomes: list[schemas.DecisionOutcome] = []
    for each in body.decisions:
        try:
            done = await _decide(call, each.id, each)
        except Problem as problem:
            outcome = schemas.DecisionOutcome(
                id=each.id,
                taken=False,
                status=problem.status,
                code=problem.code,
                detail=problem.detail,
            )
        else:
            outcome = schemas.DecisionOutcome(
                id=each.id, taken=True, goes_on=done.goes_on, note=done.note
            )
        outcomes.append(outcome)
    return schemas.DecisionOutcomes(items=outcomes)


async def _decide(call: ApiCall, action_id: str, body: Decide) -> schemas.DecisionView:
    server = call.server
    run = action_id.rpartition(":")[0]
    try:
        row = await server.log.row(run)
    except UnknownRun:
        raise _unknown() from None
    # Deciding on one's own run is a right of its own (separation of duties).
    if row.principal == call.principal.id:
        server.require(call.principal, "approve_own")
    agent = await server.agent_of(row)
    # Without the agent its policy is unknown; the default lets only the requester decide.
    policy = agent.policy if agent is not None else Policy()
    decision = _decision(body)
    # Read without a lock: `control.decide` checks once more, against the log, that it is open.
    approval = await _open(call, action_id, row)
    facts = _facts(agent, approval)
    if approval is not None:
        _fits(approval, body)
        decision = _filled(approval, decision)
        await _requester(call, approval, facts, policy, body)
    try:
        done = await control.decide(
            server.log,
            action_id,
            decision,
            by=call.principal,
            policy=policy,
            facts=facts,
            now=server.now,
            redactor=server.redactor_for(agent),
        )
    except Refused as error:
        # Why it was refused would tell a stranger that the run exists.
        if not await server.sees(call.principal, row):
            raise _unknown() from None
        raise _refused(error, call, policy, row) from None
    server.audit(
        "decision",
        call.principal.id,
        action=action_id,
        decision=body.decision,
        tool=done.action.tool,
        digest=done.digest,
        reason=body.reason,
    )
    top = (await control.root(server.log, row)).run
    # The root is woken, not the child that asked: the child is driven inside its caller.
    if agent is not None:
        await server.engine.wake(top)
    # Those who watch see the decision now, not at the next look at the log.
    server.hub.poke(run)
    return schemas.DecisionView(
        id=action_id,
        run=run,
        decision=body.decision,
        goes_on=agent is not None,
        note="" if agent is not None else ELSEWHERE.format(run=top),
    )


async def _open(call: ApiCall, action_id: str, row: RunRow) -> Approval | None:
    """The question, None if it is not open; `control.decide` then says why, and audits it."""
    if not await call.server.sees(call.principal, row):
        return None
    try:
        return await control.find(call.server.log, action_id)
    except Refused:
        return None


def _fits(one: Approval, body: Decide) -> None:
    """A question is answered, an action is approved.

    Raises:
        Problem: 422.
    """
    verdict = body.decision
    if one.wants_text and verdict not in ("answer", "edit", "deny"):
        raise Problem(422, "answer", "this is a question: answer it, or deny")
    if verdict == "answer" and not one.wants_text:
        raise Problem(422, "answer", "this waits for approval, not for an answer")
    if verdict == "done" and (not one.question or one.form is not None):
        raise Problem(422, "done", "the action was never begun: approve or deny")
    if verdict == "answer" and body.answer is None:
        raise Problem(422, "answer", "an answer says what is answered")
    if verdict == "edit" and body.parameters is None:
        raise Problem(422, "parameters", "an edit says which parameters to use instead")
    if verdict != "edit" and body.parameters is not None:
        raise Problem(422, "parameters", "only an edit brings parameters")
    if verdict == "edit" and one.action.tool == ASK_USER:
        raise Problem(422, "parameters", "a question is answered with text")


def _filled(one: Approval, decision: Decision) -> Decision:
    """The decision with what was filled in as the form wants it.

    Raises:
        Problem: 422, it does not fit the form.
    """
    if not one.form or decision.verdict == "deny":
        return decision
    if decision.parameters is not None:
        check(one.form, decision.parameters, "parameters")
        return decision
    return replace(decision, answer=answer(one.form, decision.answer or ""))


async def _requester(
    call: ApiCall, one: Approval, facts: Facts | None, policy: Policy, body: Decide
) -> None:
    """The requester must still be one who may use the tool (RCT-18).

    Raises:
        Problem: 403.
    """
    started = opening(await call.server.log.read(one.run, limit=1))
    requester = started.principal if started is not None else Principal(one.requester, ())
    now = call.server.tokens.current(requester)
    required = {policy.required.get(one.action.tool, ""), facts.role if facts is not None else ""}
    required.update(one.deciders.roles if one.deciders is not None else ())
    if not all(may(now.roles, role, policy.roles) for role in required):
        # Denying stays possible: else nobody could close the question.
        detail = f"{one.requester!r} may not use {one.action.tool!r} any more: deny it"
        if body.decision != "deny":
            raise Problem(403, "requester", detail)


def _facts(agent: AnyAgent | None, one: Approval | None) -> Facts | None:
    if agent is None or one is None:
        return None
    return facts_of(agent, one.action.tool)


def _decision(body: Decide) -> Decision:
    fields: dict[str, Any] = {"reason": body.reason, "digest": body.digest}
    if body.decision == "edit":
        fields["parameters"] = body.parameters or {}
    if body.decision == "answer":
        fields["answer"] = body.answer or ""
    return Decision(body.decision, **fields)


def _unknown() -> Problem:
    return Problem(404, "not_found", "there is no such action, or it is not yours")


def _refused(error: Refused, call: ApiCall, policy: Policy, row: RunRow) -> Problem:
    # `Refused` has no code, so its text tells the kinds
    # apart: keep them in step with `control.decide`.
    text = str(error)
    if text.startswith(_GONE):
        return Problem(410, "expired", text)
    if text.startswith("edited parameters"):
        return Problem(422, "parameters", text)
    own = row.principal == call.principal.id
    if text.startswith(("access denied", "not yours", "the requester may not", "an agent")):
        return Problem(403, "not_allowed", text)
    if not own and not may(call.principal.roles, policy.approvers, policy.roles):
        return Problem(403, "not_allowed", text)
    return Problem(409, "resolved" if "resolved" in text else "refused", text)


ENDPOINTS: Final = (
    ApiEndpoint(
        "GET",
        "/approvals",
        pending,
        "What waits for you.",
        "approvals",
        query=ApprovalsQuery,
        answers={200: schemas.Approvals},
        errors=(404,),
        right="read",
    ),
    ApiEndpoint(
        "POST",
        "/approvals",
        decide_many,
        "Decide on several actions at once.",
        "approvals",
        body=DecideMany,
        answers={202: schemas.DecisionOutcomes},
        status=202,
        right="read",
    ),
    ApiEndpoint(
        "POST",
        "/approvals/{action}",
        decide,
        "Approve, deny, edit or answer.",
        "approvals",
        body=Decide,
        answers={202: schemas.DecisionView},
        errors=(403, 404, 409, 410),
        status=202,
        right="read",
    ),
)

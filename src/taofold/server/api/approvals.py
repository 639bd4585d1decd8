"""The routes of approvals: pending ones, and decisions on one or many.

The policy decides who may decide, by the current roles of decider and requester. Refused attempts
are recorded in the run and in the server's audit. An answer to a question must match its form
(`forms`).
"""

from dataclasses import replace
from typing import Any, Final

from taofold.core.errors import Refused, UnknownRun
from taofold.core.state import ENDED, opening
from taofold.core.values import ASK_USER, Principal
from taofold.log.log import RunRow
from taofold.policy import Facts
from taofold.policy.policy import Policy
from taofold.policy.roles import may
from taofold.runtime import control
from taofold.runtime.setup import Approval, Decision
from taofold.server.api import responses, schemas
from taofold.server.api.forms import answer, check
from taofold.server.api.schemas import ApprovalsQuery, Decide, DecideMany
from taofold.server.catalog import AnyAgent, facts_of
from taofold.server.endpoint import ApiCall, Problem, Routes, visible_run

routes: Final = Routes("approvals")

_GONE: Final = ("EXPIRED", "approval expired")
ELSEWHERE: Final = (
    "the decision is in the log, but this server does not offer the agent of run {run}: "
    "it goes on where it was started, for example with `taofold runs resume {run}`"
)
_UNCHECKED: Final = (
    "; whether the parameters fit is found out there: if they do not, the question is asked again"
)


@routes.get("/approvals", right="read", query=ApprovalsQuery, errors=(404,))
async def pending(call: ApiCall) -> schemas.Approvals:
    """Lists the approvals that wait for you."""
    query: ApprovalsQuery = call.query
    if query.run:
        await visible_run(call, query.run)
    return schemas.Approvals(items=await pending_of(call, query.run))


async def pending_of(call: ApiCall, run: str = "") -> list[schemas.ApprovalView]:
    """Returns the approvals of `run` and its child runs, or of all runs that the caller can see."""
    server, now = call.server, call.server.now()
    shown_approvals: list[schemas.ApprovalView] = []
    for row in await _rows(call, run):
        # A driven run may have just read its answer, so its questions are shown only while it
        # waits.
        if server.engine.drives(row.run):
            continue
        if await server.sees(call.principal, row):
            questions = await server.asked(row)
            shown_approvals += [
                responses.approval(question, row)
                for question in questions
                if not question.expires_at or question.expires_at >= now
            ]
    return shown_approvals


async def _rows(call: ApiCall, run: str) -> list[RunRow]:
    """Returns the runs that may ask: `run` and its child runs, or all open runs."""
    log = call.server.log
    if not run:
        # Includes running ones: their process asks at a terminal, or died after asking.
        return await log.rows(status="waiting", limit=0) + await log.rows(status="running", limit=0)
    rows = [await log.row(run)]
    for child in await log.rows(parent=run, limit=0):
        if child.status not in ENDED:
            rows += await _rows(call, child.run)
    return rows


@routes.post(
    "/approvals/{action}", right="read", body=Decide, status=202, errors=(403, 404, 409, 410)
)
async def decide(call: ApiCall) -> schemas.DecisionView:
    """Approves, denies, edits or answers.

    The run continues by itself if this server serves its agent.
    """
    return await _decide(call, call.path["action"], call.body)


@routes.post("/approvals", right="read", body=DecideMany, status=202)
async def decide_many(call: ApiCall) -> schemas.DecisionOutcomes:
    """Decides on several actions at once. A refused one does not stop the others."""
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
    # Approving one's own run needs a separate right (separation of duties).
    if row.principal == call.principal.id:
        server.require(call.principal, "approve_own")
    agent = await server.agent_of(row)
    # Without the agent its policy is unknown; by default only the requester may decide.
    policy = agent.policy if agent is not None else Policy()
    decision = _decision(body)
    # Read without a lock: `control.decide` checks again that it is open.
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
            tools=None if agent is None else agent.toolset,
        )
    except Refused as error:
        # The reason would reveal to other users that the run exists.
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
    # The root is woken, because a child run is driven inside its caller.
    if agent is not None:
        await server.engine.wake(top)
    # Watchers see the decision at once.
    server.hub.poke(run)
    note = "" if agent is not None else ELSEWHERE.format(run=top)
    if agent is None and body.decision == "edit":
        note += _UNCHECKED
    return schemas.DecisionView(
        id=action_id, run=run, decision=body.decision, goes_on=agent is not None, note=note
    )


async def _open(call: ApiCall, action_id: str, row: RunRow) -> Approval | None:
    """Returns the question, or None if it is not open; `control.decide` then reports and audits
    it.
    """
    if not await call.server.sees(call.principal, row):
        return None
    try:
        return await control.find(call.server.log, action_id)
    except Refused:
        return None


def _fits(approval: Approval, body: Decide) -> None:
    """Checks that the decision matches the kind of question.

    Raises:
        Problem: 422, it does not.
    """
    verdict, asks = body.decision, approval.wants_text
    edits, brings_parameters = verdict == "edit", body.parameters is not None
    rules = (
        (
            not asks or verdict in ("answer", "edit", "deny"),
            ("answer", "this is a question: answer it, or deny"),
        ),
        (
            asks or verdict != "answer",
            ("answer", "this waits for approval, not for an answer"),
        ),
        (
            approval.in_doubt or verdict != "done",
            ("done", "the action was never begun: approve or deny"),
        ),
        (
            verdict != "answer" or body.answer is not None,
            ("answer", "an answer says what is answered"),
        ),
        (
            brings_parameters or not edits,
            ("parameters", "an edit says which parameters to use instead"),
        ),
        (
            edits or not brings_parameters,
            ("parameters", "only an edit brings parameters"),
        ),
        (
            not edits or approval.action.tool != ASK_USER,
            ("parameters", "a question is answered with text"),
        ),
    )
    for holds, (code, detail) in rules:
        if not holds:
            raise Problem(422, code, detail)


def _filled(approval: Approval, decision: Decision) -> Decision:
    """Returns the decision with its answer in the form's types.

    Raises:
        Problem: 422, the answer does not match the form.
    """
    if not approval.form or decision.verdict == "deny":
        return decision
    if decision.parameters is not None:
        check(approval.form, decision.parameters, "parameters")
        return decision
    return replace(decision, answer=answer(approval.form, decision.answer or ""))


async def _requester(
    call: ApiCall, approval: Approval, facts: Facts | None, policy: Policy, body: Decide
) -> None:
    """Checks that the requester may still use the tool (RCT-18).

    Raises:
        Problem: 403, the requester may not.
    """
    started = opening(await call.server.log.read(approval.run, limit=1))
    requester = started.principal if started is not None else Principal(approval.requester, ())
    now = call.server.tokens.current(requester)
    required = {
        policy.required.get(approval.action.tool, ""),
        facts.role if facts is not None else "",
    }
    required.update(approval.deciders.roles if approval.deciders is not None else ())
    if not all(may(now.roles, role, policy.roles) for role in required):
        # Denying stays possible, so that the question can be closed.
        detail = f"{approval.requester!r} may not use {approval.action.tool!r} any more: deny it"
        if body.decision != "deny":
            raise Problem(403, "requester", detail)


def _facts(agent: AnyAgent | None, approval: Approval | None) -> Facts | None:
    if agent is None or approval is None:
        return None
    return facts_of(agent, approval.action.tool)


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
    # `Refused` has no code, so the kinds are distinguished by text. Keep them in sync with
    # `control.decide`.
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

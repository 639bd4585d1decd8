"""The routes of budgets: the spending of the present periods, and lifts.

The budgets are those of the server's policy and of the served agents. A principal without the right
`budgets` sees its own amounts only. Refused and granted lifts are in the server's audit.
"""

from dataclasses import replace
from typing import Final

from taofold.core.errors import Refused
from taofold.core.text import iso
from taofold.core.values import Principal
from taofold.policy import Policy
from taofold.policy.budgets import merged
from taofold.runtime.budgets import BudgetRow, budget_rows, lift, why_not_lift
from taofold.server.api import schemas
from taofold.server.endpoint import ApiCall, Problem, Routes

routes: Final = Routes("budgets")


def _policy(call: ApiCall) -> Policy:
    """Returns the server's policy with the budgets of all served agents."""
    catalog, policy = call.server.catalog, call.server.settings.policy
    for name in catalog.names:
        own = catalog[name].policy
        policy = replace(
            policy,
            budgets=merged(policy.budgets, own.budgets),
            own_approval=policy.own_approval and own.own_approval,
        )
    return policy


@routes.get("/budgets", right="read")
async def listed(call: ApiCall) -> schemas.Budgets:
    """Lists the spending of budgets in their present periods."""
    policy = _policy(call)
    only = call.principal.id if policy.lacks(call.principal, "budgets") else None
    rows = await budget_rows(call.server.log, policy, principal=only, now=call.server.now())
    return schemas.Budgets(items=[_view(row, policy, call.principal) for row in rows])


def _view(row: BudgetRow, policy: Policy, principal: Principal) -> schemas.BudgetView:
    return schemas.BudgetView.of(
        row,
        until=iso(row.until),
        lifted_by=row.lifted.by if row.lifted else "",
        lifted_reason=row.lifted.reason if row.lifted else "",
        may_lift=row.lifted is None and not why_not_lift(policy, principal, row.scope),
    )


@routes.post("/budgets/lift", right="budgets", body=schemas.LiftBudget, errors=(409,))
async def lifted(call: ApiCall) -> schemas.BudgetLifted:
    """Allows a budget's amount once more in the present period."""
    server, body = call.server, call.body
    try:
        use = await lift(
            server.log,
            _policy(call),
            body.name,
            body.scope,
            by=call.principal,
            reason=body.reason,
            redactor=server.redactor,
            now=server.now(),
        )
    except Refused as error:
        server.audit("budget_lift_refused", call.principal.id, budget=body.name, reason=str(error))
        raise Problem(409, "refused", str(error)) from None
    server.audit(
        "budget_lift", call.principal.id, budget=body.name, scope=use.scope, reason=body.reason
    )
    return schemas.BudgetLifted(name=use.budget.name, scope=use.scope, until=iso(use.end))

"""Checks the right of the approvers of stored runs under another policy.

The log holds the principal whose rights were checked. A function of the program that answers is
checked only if it answers as the requester, as in a live run.
"""

from typing import Final

from taofold.backtest.stored_calls import StoredCall
from taofold.core.values import Deciders, Principal
from taofold.policy import Policy, may
from taofold.policy.policy import refusal
from taofold.policy.roles import lacking

REFUSED: Final = "answers refused"
LATE: Final = "answers too late"


def answer_change(
    call: StoredCall, policy: Policy, requester: Principal, role: str
) -> tuple[str, str, str] | None:
    """Returns rule, effect and reason if the answer about a call would not have counted.

    A late denial is left out: the call is not made either way.

    Args:
        call: A call that still asks.
        policy: The effective policy.
        requester: The requester of the run.
        role: The role that its tool declares.
    """
    answer = call.resolved
    if answer is None or answer.verdict not in ("allow", "deny") or answer.imported:
        return None
    allowed, waited = answer.verdict == "allow", call.answered_at - call.asked_at
    if allowed and 0 < policy.approve_seconds * 1000 < waited:
        why = f"answered after {waited / 1000:,.0f} s, valid for {policy.approve_seconds:g} s"
        return "approve_seconds", LATE, why
    # A function of the program may deny in any name.
    by = answer.principal or (requester if allowed and answer.by == requester.id else None)
    if by is None:
        return None
    deciders = policy.deciders(call.action.tool, role)
    why = refusal(deciders, by, requester, policy.roles)
    return (_rule(deciders, by, requester, policy, call), REFUSED, why) if why else None


def _rule(
    deciders: Deciders, by: Principal, requester: Principal, policy: Policy, call: StoredCall
) -> str:
    """Returns the key of the policy that refuses the decider."""
    own = by.id == requester.id
    if own and deciders.own is None:
        return "own_approval"
    if own and policy.lacks(by, "approve_own"):
        return "rights.approve_own"
    if not own and not (deciders.others and may(by.roles, deciders.others, policy.roles)):
        return "approvers"
    tool = call.action.tool
    role = lacking(by.roles, deciders.roles, policy.roles)
    return f"required.{tool}" if role == policy.required.get(tool) else "tool.role"

"""Rights of each role: a principal without a role has none.

Mutants: `may` in place of `missing` (an empty role is open to all); the weaker of two tables;
`approve_own` not checked in `may_decide`.
"""

import pytest

from taofold import Policy, Principal
from taofold.core.errors import ConfigError
from taofold.core.values import Tier
from taofold.policy import Facts
from taofold.policy.roles import RIGHTS, ROLES, Right, missing

HAD = {
    "": set[str](),
    "NOBODY": set[str](),
    "VIEWER": {"read", "metrics"},
    "BILLING": {"read", "metrics"},
    "USER": {"read", "metrics", "start", "cancel", "approve_own"},
    "EDITOR": {"read", "metrics", "start", "cancel", "approve_own"},
    "ADMIN": set(RIGHTS),
}
PAY = Facts(Tier.CONFIRM, "once")


@pytest.mark.parametrize("role", HAD)
def test_the_table_of_the_documentation(role: str) -> None:
    assert HAD[role] == {right for right in RIGHTS if not missing([role] if role else [], right)}
    assert set(ROLES) < set(HAD)


@pytest.mark.parametrize("role", ["", "KING", "viewer"])
def test_a_right_without_a_known_role_is_nobodys(role: str) -> None:
    assert missing(["ADMIN"], "start", {"start": role})
    assert missing(["ADMIN"], "start", {})


def test_nobody_approves_his_own_action_by_being_its_requester() -> None:
    for roles in ((), ("VIEWER",)):
        one = Principal("v", roles)
        assert "approve_own" in Policy().may_decide(one, one, PAY, "pay")
    user = Principal("u", ("USER",))
    assert Policy().may_decide(user, user, PAY, "pay") == ""
    strict = Policy(rights={"approve_own": "ADMIN"})
    assert strict.may_decide(user, user, PAY, "pay")


def test_two_policies_together_give_what_both_give() -> None:
    strict, loose = Policy(rights={"start": "ADMIN"}), Policy(rights={"start": "VIEWER"})
    for both in (strict.tightened(loose), loose.tightened(strict)):
        assert both.rights["start"] == "ADMIN"
    nobody = Policy(rights={"start": ""})
    assert loose.tightened(nobody).rights["start"] == ""


def test_rights_and_roles_that_there_are_not_are_errors() -> None:
    unknown: dict[Right, str] = {"strat": "USER"}  # type: ignore[dict-item]
    with pytest.raises(ConfigError, match="unknown right 'strat'"):
        Policy(rights=unknown)
    with pytest.raises(ConfigError, match="unknown role 'KING'"):
        Policy(rights={"start": "KING"})
    assert Policy(rights={"start": "OWNER"}, roles={"OWNER": 99}).rights["read"] == "VIEWER"

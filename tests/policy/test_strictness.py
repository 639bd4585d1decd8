"""The combination of two policies is never looser than either; the comparison, point by point.

Mutants: an empty requirement counts as the highest; the roles of the weaker policy;
`production_tiers` are not compared; the dial before the denials; `delegated` also where a tier was
raised.
"""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taofold import Policy, Principal, Tier
from taofold.core.values import Action
from taofold.policy import Facts, loosened
from taofold.policy.policy import Autonomy, Ruling
from taofold.policy.roles import stricter

TOOLS = ("pay", "look")
ASKED = ("", "VIEWER", "USER", "EDITOR", "ADMIN", "KING")
TABLES = st.dictionaries(st.sampled_from(TOOLS), st.sampled_from(list(Tier)), max_size=2)
NAMES = st.frozensets(st.sampled_from(TOOLS))
POLICIES = st.builds(
    Policy,
    autonomy=st.sampled_from(["conservative", "balanced", "autonomous"]),
    tiers=TABLES,
    allow=st.none() | NAMES,
    deny=NAMES,
    required=st.dictionaries(st.sampled_from(TOOLS), st.sampled_from(ASKED), max_size=2),
    production=st.booleans(),
    production_tiers=TABLES,
    approvers=st.sampled_from(ASKED),
    own_approval=st.booleans(),
    approve_seconds=st.sampled_from([0.0, 60.0, 900.0]),
    rights=st.fixed_dictionaries({"approve_own": st.sampled_from(["", "VIEWER", "ADMIN"])}),
)
FACTS = st.builds(
    Facts,
    st.sampled_from(list(Tier)),
    st.sampled_from(["read", "idempotent", "once"]),
    role=st.sampled_from(ASKED),
    delegated=st.booleans(),
)
PEOPLE = st.builds(
    Principal,
    st.sampled_from(["ann", "bob", "agent:7"]),
    st.sampled_from([(), ("VIEWER",), ("USER",), ("ADMIN",), ("NOBODY",)]),
)
STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}


@settings(deadline=None, max_examples=400)
@given(POLICIES, POLICIES, FACTS, PEOPLE, st.sampled_from(TOOLS), st.booleans())
def test_both_at_once_allow_nothing_that_one_of_them_would_not(
    one: Policy, other: Policy, facts: Facts, who: Principal, tool: str, critical: bool
) -> None:
    def strictness(policy: Policy) -> int:
        ruling = policy.rule(Action(tool), facts, who, critical=critical)
        assert ruling.tier >= facts.tier
        return STRICTNESS[ruling.verdict]

    assert strictness(one.tightened(other)) >= max(strictness(one), strictness(other))


@settings(deadline=None, max_examples=400)
@given(POLICIES, POLICIES, FACTS, PEOPLE, PEOPLE, st.sampled_from(TOOLS))
def test_nobody_decides_under_both_who_may_not_under_one(
    one: Policy, other: Policy, facts: Facts, decider: Principal, asked: Principal, tool: str
) -> None:
    both = one.tightened(other)
    if both.may_decide(decider, asked, facts, tool) == "":
        assert one.may_decide(decider, asked, facts, tool) == ""
        # A policy without approvers does not restrict the runs of others.
        if other.approvers or decider.id == asked.id:
            assert other.may_decide(decider, asked, facts, tool) == ""


@given(POLICIES, POLICIES)
def test_the_shorter_time_to_decide_holds_and_none_is_the_longest(one: Policy, two: Policy) -> None:
    both = one.tightened(two).approve_seconds
    longest = [policy.approve_seconds or float("inf") for policy in (one, two)]
    assert (both or float("inf")) == min(longest)


@given(POLICIES)
def test_a_policy_with_itself_is_itself(policy: Policy) -> None:
    assert policy.tightened(policy) == policy
    assert not loosened(policy, policy)


def test_the_levels_of_roles_are_the_authoritys() -> None:
    child = Policy(roles={"VIEWER": 100}, required={"look": "VIEWER"})
    parent = Policy(required={"pay": "ADMIN"})
    viewer, facts = Principal("v", ("VIEWER",)), Facts(Tier.AUTO, "read")
    both = parent.tightened(child)
    assert both.rule(Action("pay"), facts, viewer).verdict == "deny"
    assert both.rule(Action("look"), facts, viewer).verdict == "allow"


OPERATOR = Policy(
    autonomy="balanced",
    tiers={"pay": Tier.CARD},
    production_tiers={"pay": Tier.CONFIRM},
    required={"pay": "EDITOR", "look": ""},
    allow=frozenset({"pay", "look"}),
    approve_seconds=60,
)


@pytest.mark.scenario("PEER-26")
@pytest.mark.parametrize(
    ("change", "conflict"),
    [
        ({"autonomy": "autonomous"}, "autonomy: 'autonomous' is looser than 'balanced'"),
        ({"autonomy": "conservative"}, ""),
        ({"tiers": {"pay": Tier.AUTO}}, "tiers.pay: 1 is below 2"),
        ({"tiers": {"pay": Tier.CONFIRM}}, ""),
        ({"tiers": {"look": Tier.AUTO}}, ""),
        ({"production_tiers": {"pay": Tier.CARD}}, "production_tiers.pay: 2 is below 3"),
        ({"production_tiers": {"pay": Tier.FORBIDDEN}}, ""),
        ({"production_tiers": {}}, ""),
        ({"required": {"pay": "VIEWER"}}, "required.pay: VIEWER is below EDITOR"),
        ({"required": {"pay": ""}}, "required.pay:  is below EDITOR"),
        ({"required": {"pay": "USER"}}, ""),
        ({"required": {"pay": "ADMIN", "look": "VIEWER"}}, ""),
        ({"allow": frozenset({"pay", "rm"})}, "allow: 'rm' is not allowed"),
        ({"allow": frozenset({"pay"})}, ""),
        ({"allow": None}, ""),
        ({"deny": frozenset({"pay"})}, ""),
        ({"approve_seconds": 60.5}, "approve_seconds: at most 60 is allowed"),
        ({"approve_seconds": 0.0}, "approve_seconds: at most 60 is allowed"),
        ({"approve_seconds": 59.5}, ""),
        ({"production": True}, ""),
        ({"own_approval": False}, ""),
    ],
)
def test_what_a_project_loosens_is_named_at_its_edge(change: dict[str, Any], conflict: str) -> None:
    assert loosened(replace(OPERATOR, **change), OPERATOR) == ([conflict] if conflict else [])
    both = OPERATOR.tightened(replace(OPERATOR, **change))
    assert not loosened(both, OPERATOR)


def test_four_eyes_and_production_are_not_taken_back() -> None:
    strict = Policy(production=True, own_approval=False)
    assert loosened(Policy(), strict) == [
        "production: false is looser than true",
        "own_approval: true is looser than false",
    ]
    # An operator without a bound has none to loosen.
    assert not loosened(Policy(approve_seconds=5), Policy())


RULES: dict[Autonomy, dict[str, str]] = {
    # tiers 1 to 4 of what reads, then of what writes
    "conservative": {"read": "allow ask ask deny", "once": "ask ask ask deny"},
    "balanced": {"read": "allow ask ask deny", "once": "allow ask ask deny"},
    "autonomous": {"read": "allow allow ask deny", "once": "allow allow ask deny"},
}


@pytest.mark.scenario("RCT-11", "RCT-12")
@pytest.mark.parametrize("autonomy", RULES)
@pytest.mark.parametrize("effect", ["read", "once"])
def test_every_tier_at_every_autonomy(autonomy: Autonomy, effect: Any) -> None:
    policy = Policy(autonomy=autonomy)
    verdicts = [policy.rule(Action("t"), Facts(tier, effect), Principal()).verdict for tier in Tier]
    assert " ".join(verdicts) == RULES[autonomy][effect]


def test_a_write_that_asks_only_because_of_the_dial_is_a_card() -> None:
    facts = Facts(Tier.AUTO, "once")
    ruling = Policy(autonomy="conservative").rule(Action("t"), facts, Principal())
    why = "conservative: everything that writes asks"
    assert ruling == Ruling("ask", Tier.CARD, why, "autonomy")


@pytest.mark.parametrize(
    ("tier", "shown"),
    [(Tier.AUTO, Tier.CARD), (Tier.CARD, Tier.CARD), (Tier.CONFIRM, Tier.CONFIRM)],
)
def test_a_critical_exception_asks_and_opens_nothing(tier: Tier, shown: Tier) -> None:
    def ruled(policy: Policy, facts: Facts) -> Ruling:
        return policy.rule(Action("t"), facts, Principal("e", ("EDITOR",)), critical=True)

    ruling = ruled(Policy(autonomy="autonomous"), Facts(tier, "read", delegated=True))
    assert (ruling.verdict, ruling.tier) == ("ask", shown)
    assert ruled(Policy(deny=frozenset({"t"})), Facts(tier, "read")).verdict == "deny"
    assert ruled(Policy(), Facts(tier, "read", role="ADMIN")).verdict == "deny"
    assert ruled(Policy(), Facts(Tier.FORBIDDEN, "read")).verdict == "deny"


@pytest.mark.parametrize(
    ("policy", "verdict"),
    [
        (Policy(), "allow"),
        (Policy(autonomy="conservative"), "allow"),
        (Policy(tiers={"helper": Tier.CARD}), "ask"),
        (Policy(tiers={"other": Tier.CARD}), "allow"),
        (Policy(production_tiers={"helper": Tier.CONFIRM}), "allow"),
        (Policy(production=True, production_tiers={"helper": Tier.CONFIRM}), "ask"),
        (Policy(production=True, production_tiers={"other": Tier.CONFIRM}), "allow"),
        (Policy(deny=frozenset({"helper"})), "deny"),
    ],
)
def test_an_agent_as_a_tool_asks_itself_unless_its_tier_was_raised(
    policy: Policy, verdict: str
) -> None:
    facts = Facts(Tier.CARD, "once", delegated=True)
    assert policy.rule(Action("helper"), facts, Principal()).verdict == verdict


def test_what_a_policy_requires_raises_what_the_tool_declares() -> None:
    facts, policy = Facts(Tier.AUTO, "read", role="ADMIN"), Policy(required={"t": "VIEWER"})
    editor = Principal("e", ("EDITOR",))
    reason = "access denied: requires role ADMIN, has EDITOR"
    assert policy.rule(Action("t"), facts, editor) == Ruling("deny", Tier.AUTO, reason, "tool.role")
    nobody = Policy(required={"t": "ADMIN"}).rule(Action("t"), facts, Principal("n", ()))
    assert nobody.reason == "access denied: requires role ADMIN, has none"


def test_of_two_tables_of_rights_the_higher_role_holds_and_nobodys_is_the_highest() -> None:
    levels = {"VIEWER": 10, "ADMIN": 40}
    assert stricter({"start": "ADMIN"}, {"start": "VIEWER"}, levels) == {"start": "ADMIN"}
    assert stricter({"start": "VIEWER"}, {"start": "ADMIN"}, levels) == {"start": "ADMIN"}
    assert stricter({"start": ""}, {"start": "ADMIN"}, levels) == {"start": ""}
    assert stricter({"start": "ADMIN"}, {"start": ""}, levels) == {"start": ""}
    # No role has a right that the first table lacks.
    assert stricter({}, {"start": "VIEWER"}, levels) == {}


EVERY_ROLE = Principal("ann", tuple(ASKED[1:]))


@settings(deadline=None, max_examples=400)
@given(POLICIES, FACTS, st.sampled_from(TOOLS))
def test_a_tool_is_shown_to_ask_exactly_if_a_permitted_call_asks(
    policy: Policy, facts: Facts, tool: str
) -> None:
    """Mutants: only the tier decides; the autonomy is ignored; a forbidden tool asks."""
    levels = {**policy.roles, "KING": 50}
    permitted = replace(policy, roles=levels)
    verdict = permitted.rule(Action(tool), facts, EVERY_ROLE).verdict
    assert permitted.asks(tool, facts) is (verdict == "ask")

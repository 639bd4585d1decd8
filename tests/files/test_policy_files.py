"""Policy files: the operator's word holds, a project may only tighten it."""

from pathlib import Path

import pytest

from taofold.core.values import Principal, Tier
from taofold.files.checked_yaml import YamlDocument, check, parse
from taofold.files.policy import PolicyFile, read_policy, tighten
from taofold.policy import Budget, Policy

OPERATOR = Policy(
    autonomy="balanced",
    tiers={"run_command": Tier.CONFIRM},
    allow=frozenset({"read_file", "run_command"}),
    required={"read_file": "USER"},
    own_approval=False,
    production=True,
    production_tiers={"read_file": Tier.CARD},
    approve_seconds=60,
    budgets=[Budget(name="house", usd=10.0, tokens=500)],
)


def document(text: str) -> YamlDocument:
    read, faults = parse(text, "policy.yaml")
    assert read is not None, faults
    return read


@pytest.mark.parametrize(
    "text",
    [
        "autonomy: autonomous",
        "tiers: {run_command: 1}",
        "tiers: {other: 2, run_command: 2}",
        "allow: [read_file, write_file]",
        "required: {read_file: VIEWER}",
        "own_approval: true",
        "production: false",
        "production_tiers: {read_file: 1}",
        "approve_seconds: 0",
        "approve_seconds: 61",
        "roles: {GUEST: 100}",
        "approvers: VIEWER",
        "rights: {start: VIEWER}",
        "rights: {start: ADMIN}",
        "budgets: [{name: house, usd: 11, tokens: 500}]",
        "budgets: [{name: house, usd: 10}]",
        "budgets: [{name: house, period: month, usd: 10, tokens: 500}]",
        "budgets: [{name: house, per: agent, usd: 10, tokens: 500}]",
    ],
)
def test_a_project_cannot_loosen(text: str) -> None:
    keys = PolicyFile.model_validate(document(text).value)
    _, faults = tighten(OPERATOR, keys, document(text))
    assert len(faults) == 1
    assert faults[0].line == 1
    assert "only tighten" in faults[0].hint


@pytest.mark.parametrize(
    "text",
    [
        "autonomy: autonomous",
        "tiers: {run_command: 1}",
        "allow: [write_file]",
        "own_approval: true",
    ],
)
def test_even_an_unchecked_file_has_no_effect(text: str) -> None:
    """`tighten` returns the stricter of both, regardless of its messages."""
    keys = PolicyFile.model_validate(document(text).value)
    both, _ = tighten(OPERATOR, keys, document(text))
    assert both.autonomy == "balanced"
    assert both.tiers["run_command"] == Tier.CONFIRM
    assert both.allow is not None
    assert "write_file" not in both.allow
    assert not both.own_approval


def test_a_project_may_tighten() -> None:
    text = (
        "autonomy: conservative\ntiers: {run_command: 4}\nallow: [read_file]\n"
        "deny: [search]\napprove_seconds: 30\n"
    )
    keys = PolicyFile.model_validate(document(text).value)
    both, faults = tighten(OPERATOR, keys, document(text))
    assert faults == []
    assert both.autonomy == "conservative"
    assert both.tiers["run_command"] == Tier.FORBIDDEN
    assert both.allow == frozenset({"read_file"})
    assert both.deny == frozenset({"search"})
    assert both.approve_seconds == 30


def test_what_a_file_does_not_say_does_not_change() -> None:
    keys = PolicyFile.model_validate({"deny": ["x"]})
    assert keys.over(OPERATOR) == Policy(
        **{
            **{f: getattr(OPERATOR, f) for f in OPERATOR.__dataclass_fields__},
            "deny": frozenset({"x"}),
        }
    )


def test_faults_have_their_line(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("autonomy: fully\n\ntiers: {a: 5}\ndny: [x]\n")
    keys, faults = read_policy(path)
    assert keys is None
    assert sorted(fault.line for fault in faults) == [1, 3, 4]
    assert "did you mean 'deny'" in str(faults[-1]) + str(faults)


def test_the_operator_says_which_role_gives_a_right() -> None:
    keys = PolicyFile.model_validate(document("rights: {start: ADMIN, metrics: ''}").value)
    policy = keys.over(OPERATOR)
    assert policy.lacks(Principal("u", ("USER",)), "start")
    assert not policy.lacks(Principal("u", ("ADMIN",)), "start")
    assert policy.lacks(Principal("u", ("ADMIN",)), "metrics"), "nobody's"
    assert not policy.lacks(Principal("u", ("VIEWER",)), "read")


def test_a_project_may_lower_and_add_budgets_and_removes_none() -> None:
    """Mutant: the project's list replaces the operator's."""
    text = "budgets: [{name: house, usd: 4, tokens: 500}, {per: agent, tokens: 7}]"
    keys = PolicyFile.model_validate(document(text).value)
    both, faults = tighten(OPERATOR, keys, document(text))
    assert not faults
    assert [(b.name, b.usd, b.tokens) for b in both.budgets] == [
        ("house", 4.0, 500),
        ("agent-day", None, 7),
    ]
    for other in ("budgets: []", "budgets: [{name: house, period: month, tokens: 9000}]"):
        keys = PolicyFile.model_validate(document(other).value)
        both, _ = tighten(OPERATOR, keys, document(other))
        house = next(b for b in both.budgets if b.period == "day")
        assert (house.usd, house.tokens) == (10.0, 500)


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("{}", "needs usd or tokens"),
        ("{usd: -1}", "usd"),
        ("{tokens: 1, per: team}", "'tag:NAME'"),
        ("{tokens: 1, per: 'tag:a b'}", "tag name"),
        ("{tokens: 1, period: week}", "period"),
        ("{tokens: 1, warn: 2}", "warn"),
        ("{tokens: 1, name: a/b}", "no name of a budget"),
        ("{tokens: 1, dollars: 2}", "dollars"),
    ],
)
def test_a_wrong_budget_is_a_fault(tmp_path: Path, entry: str, why: str) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(f"budgets:\n  - {entry}\n")
    policy, faults = read_policy(file)
    assert policy is None
    assert why in " ".join([str(fault) for fault in faults])


def test_two_budgets_of_one_name_are_a_fault(tmp_path: Path) -> None:
    """One of them would be lost. Equal bounds of two amounts have one default name, too."""
    path = tmp_path / "policy.yaml"
    for entries in (
        "[{name: a, usd: 1}, {name: a, usd: 100}]",
        "[{per: principal, usd: 5}, {per: principal, tokens: 2000}]",
    ):
        path.write_text(f"budgets: {entries}\n")
        keys, faults = read_policy(path)
        assert keys is None
        assert "budgets are named" in str(faults[0])


@pytest.mark.parametrize("text", [".inf", ".nan", "-1", "1e10"])
def test_a_policy_file_names_the_line_of_a_wrong_time(text: str, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(f"autonomy: balanced\napprove_seconds: {text}\n")
    policy, (fault,) = read_policy(tmp_path / "p.yaml")
    assert policy is None
    assert "p.yaml:2: approve_seconds: must be" in str(fault)


def test_all_faults_of_a_budget_are_named_and_each_value_once() -> None:
    _, faults = check(document("budgets: [{per: pricipal, period: dya, tokens: 1}]"), PolicyFile)
    assert [(each.path, each.text) for each in faults] == [
        (
            "budgets[0].per",
            "per is 'all', 'principal' (a user), 'agent' or 'tag:NAME', not 'pricipal'",
        ),
        ("budgets[0].period", "must be 'hour', 'day' or 'month', not 'dya'; did you mean 'day'?"),
    ]
    # A rule about several keys shows no value.
    _, faults = check(document("budgets: [{per: 'tag:team'}]"), PolicyFile)
    assert [each.text for each in faults] == ["a budget needs usd or tokens"]

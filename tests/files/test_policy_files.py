"""Policy files: the operator's word holds, a project may only tighten it."""

from pathlib import Path

import pytest

from taofold.core.values import Principal, Tier
from taofold.files.checked_yaml import YamlDocument, parse
from taofold.files.policy import PolicyFile, read_policy, tighten
from taofold.policy import Policy

OPERATOR = Policy(
    autonomy="balanced",
    tiers={"run_command": Tier.CONFIRM},
    allow=frozenset({"read_file", "run_command"}),
    required={"read_file": "USER"},
    own_approval=False,
    production=True,
    production_tiers={"read_file": Tier.CARD},
    approve_seconds=60,
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

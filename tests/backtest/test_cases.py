"""Unit tests of a policy in YAML."""

from pathlib import Path

import pytest

from taofold import Policy, Tier, Toolset, tool
from taofold.backtest import check_cases, read_cases, rules_of

POLICY = Policy(
    deny=frozenset({"rm"}), tiers={"deploy": Tier.CONFIRM}, required={"deploy": "ADMIN"}
)
CASES = """\
tools:
  rm: {effect: once}
  look: {effect: read}
principal: {roles: [ADMIN]}
cases:
  - {tool: rm, arguments: {path: /}, expect: deny, rule: deny.rm}
  - {tool: look, expect: allow}
  - {tool: look, expect: ask, rule: critical, critical: true}
  - name: an editor may not deploy
    tool: deploy
    arguments: {where: prod}
    principal: {id: eve, roles: [EDITOR]}
    expect: deny
    rule: required.deploy
  - {tool: deploy, arguments: {where: prod}, expect: ask, rule: tiers.deploy}
  - {tool: deploy, arguments: {wher: prod}, expect: invalid}
  - {tool: deploy, arguments: {where: prod}, guessed: true, expect: deny, rule: guessed}
"""


@tool(effect="once", tier=2)
def deploy(where: str) -> str:
    """Deploy."""
    return where


TOOLS = Toolset([deploy])


def written(folder: Path, text: str) -> Path:
    path = folder / "cases.yaml"
    path.write_text(text)
    return path


def test_a_case_passes_if_verdict_and_rule_are_as_expected(tmp_path: Path) -> None:
    cases, faults, document = read_cases(written(tmp_path, CASES), TOOLS)
    assert not faults
    assert cases is not None
    assert document is not None
    rules = rules_of(POLICY)
    verdicts = check_cases(cases, document, POLICY, TOOLS, rules)
    assert [(v.case.label, v.verdict, v.rule) for v in verdicts if not v.passed] == []
    assert [verdict.line for verdict in verdicts] == [6, 7, 8, 9, 15, 16, 17]
    assert {use.rule: use.cases for use in rules}["required.deploy"] == 4


@pytest.mark.parametrize(
    ("policy", "failing"),
    [
        (Policy(), [0, 3, 4]),
        (Policy(deny=frozenset({"rm", "look"})), [1, 2, 3, 4]),
        (Policy(allow=frozenset()), [0, 1, 2, 3, 4]),
    ],
)
def test_a_changed_policy_fails_the_cases_that_it_breaks(
    policy: Policy, failing: list[int], tmp_path: Path
) -> None:
    cases, _, document = read_cases(written(tmp_path, CASES), TOOLS)
    assert cases is not None
    assert document is not None
    verdicts = check_cases(cases, document, policy, TOOLS)
    assert [at for at, verdict in enumerate(verdicts) if not verdict.passed] == failing


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("cases: []\n", 1, "at least 1"),
        ("cases:\n  - {tool: rn, expect: deny}\ntools: {rm: {}}\n", 2, "known are deploy, rm"),
        ("cases:\n  - {tool: deploy, expect: maybe}\n", 2, "allow"),
        ("cases:\n  - {tool: deploy, expect: ask, role: x}\n", 2, "role"),
        ("cases:\n  - {tool: deploy}\n", 2, "expect"),
    ],
)
def test_a_fault_of_the_file_has_its_line(
    text: str, line: int, message: str, tmp_path: Path
) -> None:
    _, faults, _ = read_cases(written(tmp_path, text), TOOLS)
    assert [fault.line for fault in faults] == [line]
    assert message in str(faults[0])

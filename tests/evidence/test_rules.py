"""Both verifiers follow each rule of docs/evidence.md."""

import re
from pathlib import Path

import pytest

from taofold.evidence.verifier import BROKEN, verify
from tests.evidence.rules import KEY, RULES, Rule
from tests.evidence.script import place_of, verdicts
from tests.prerequisites import NODE

NAMES = [f"{number}: {rule.name}" for number, rule in enumerate(RULES)]
# Names of classes, values and exceptions of Python, and escapes of its `repr`.
PYTHON = re.compile(r"Error|None|True|False|<|\\|'|\(\)|object has|subscript|argument")


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_the_verifier_follows_the_rule(rule: Rule) -> None:
    report = verify(rule.export, [KEY.public])
    assert report.code == rule.code, report.text
    assert rule.text in report.text
    assert report.seq == rule.seq, report.text
    if report.code == BROKEN:
        assert (report.signed, report.keys, report.stamped, report.rest) == (0, [], [], "")
    assert not PYTHON.search(report.text), report.text


def test_names_of_rules_are_unique() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)


@NODE.mark
def test_the_verifier_in_javascript_follows_each_rule(tmp_path: Path) -> None:
    """It also names the same record or line."""
    found = verdicts(tmp_path, [rule.export for rule in RULES])
    wrong: list[object] = []
    for name, rule, verdict in zip(NAMES, RULES, found, strict=True):
        expected = rule.code, place_of(verify(rule.export, [KEY.public]).text)
        if verdict != expected:
            wrong.append((name, expected, verdict))
    assert not wrong

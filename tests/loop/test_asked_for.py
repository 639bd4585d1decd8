"""Detects by wording a task that requests tests or configuration, which no proof holds.

Mutant: every task that mentions tests is detected.
"""

import pytest

from taofold.loop.gates.criteria import asked_for


@pytest.mark.parametrize(
    ("task", "what"),
    [
        ("Add tests until 80 %", "tests"),
        ("Write a calculator with tests", "tests"),
        ("increase the coverage to 80 %", "coverage"),
        ("Rename total and extend its unit tests", "unit tests"),
        ("add a dependency to pyproject.toml", "pyproject"),
        ("Write a Dockerfile", "Dockerfile"),
        ("create a GitHub workflow", "workflow"),
    ],
)
def test_work_that_no_proof_holds_is_recognised(task: str, what: str) -> None:
    assert asked_for(task) == what


@pytest.mark.parametrize(
    "task",
    [
        "Make the failing tests pass",
        "Fix the tests",
        "Write the parser so that all tests pass",
        "add the missing module until the tests are green",
        "Add a latest price. The tests say which",
        "remove the circular import",
    ],
)
def test_work_that_tests_only_judge_is_not(task: str) -> None:
    assert asked_for(task) == ""

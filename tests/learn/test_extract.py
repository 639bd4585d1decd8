"""What a history teaches."""

import pytest
from msgspec.structs import replace

from taofold.learning.patterns.bodies import Approach, Avoidance, ErrorFix, Template
from taofold.learning.extraction.extract import extract
from taofold.learning.extraction.history import Attempt, Change

from .make import BOUND, GUARD, attempt, fault, history


@pytest.mark.scenario("XTL-01")
def test_an_error_and_the_fix_after_which_its_check_passed_are_a_pattern() -> None:
    failed = attempt(BOUND, after=(fault(),), iteration=2)
    fixed = attempt(GUARD, iteration=3)
    (found,) = extract(history(failed, fixed), ("error",))
    assert isinstance(found.body, ErrorFix)
    signature, fix = found.body.signature, found.body.fix
    assert (signature.type, signature.name) == ("ReferenceError", "AttributeError")
    assert signature.pattern == "'NoneType' object has no attribute '.*'"
    assert signature.hints == ("*.py:address",)
    assert (fix.category, fix.template, fix.language) == (
        "add_null_check", "add_null_check", "python",
    )  # fmt: skip
    assert fix.code.startswith("if {{variable}} is None:")
    assert len(fix.description) >= 20
    assert found.tags == ("python", "add-null-check", "attributeerror")
    assert found.scope.language == "python"


@pytest.mark.parametrize(
    "doubtful",
    [
        attempt(GUARD, kept=False),
        attempt(GUARD, judged=False),
        attempt(GUARD, after=(fault(),)),
        attempt(GUARD, after=(fault(check="tests/test_b.py::test_b"),)),
        attempt(Change("tests/test_users.py", "assert x", "assert True")),
        attempt(),
    ],
    ids=["taken back", "not judged", "no help", "broke another", "in the tests", "no change"],
)
def test_what_proves_nothing_is_no_fix(doubtful: Attempt) -> None:
    assert extract(history(doubtful), ("error", "template")) == ()


def test_a_test_that_fails_for_another_reason_first_gives_its_first_error_too() -> None:
    name = fault("NameError", "name 'math' is not defined")
    other = fault("AssertionError", "assert 3 == 4")
    found = extract(
        history(
            attempt(Change("users/mail.py", "x", "import math\nx"), before=(name,), after=(other,)),
            attempt(BOUND, before=(other,)),
        ),
        ("error",),
    )
    assert [one.name for one in found] == [
        "NameError: missing import", "AssertionError: swap comparison",
    ]  # fmt: skip


@pytest.mark.scenario("XTL-05")
def test_a_failed_loop_gives_no_approach_though_the_fix_that_held() -> None:
    tried = (attempt(GUARD), attempt(BOUND, before=(fault(),), after=(fault(),)))
    kinds = {one.kind for one in extract(history(*tried, outcome="exhausted"))}
    assert "success" not in kinds
    assert "error" in kinds
    assert "success" in {one.kind for one in extract(history(*tried))}


def test_an_approach_says_what_was_done_with_which_tools_in_how_many_iterations() -> None:
    one = attempt(GUARD, iteration=2, tools=("edit_file", "run_command"))
    (found,) = extract(history(one), ("success",))
    assert isinstance(found.body, Approach)
    assert found.body.category == "debugging"
    assert found.body.tools == ("edit_file", "run_command")
    assert found.body.average_iterations == 2
    assert found.body.task == "Fix the failing tests of .*"
    assert any("missing value" in step for step in found.body.steps)


@pytest.mark.scenario("XTL-04")
def test_an_error_that_stays_three_times_is_a_mistake_to_avoid_though_the_loop_failed() -> None:
    stuck = [attempt(BOUND, after=(fault(),), iteration=n) for n in (1, 2, 3)]
    (found,) = extract(history(*stuck, outcome="exhausted"), ("anti",))[:1]
    assert isinstance(found.body, Avoidance)
    assert found.body.mode == "repeated_same_error"
    assert found.body.better
    assert found.body.signature is not None
    assert extract(history(*stuck[:2], outcome="exhausted"), ("anti",)) == ()


def test_a_mistake_that_was_overcome_says_what_helped() -> None:
    stuck = [attempt(BOUND, after=(fault(),), iteration=n) for n in (1, 2, 3)]
    (found,) = extract(history(*stuck, attempt(GUARD, iteration=4)), ("anti",))
    assert isinstance(found.body, Avoidance)
    assert "missing value" in found.body.better


def test_broken_checks_falling_quality_circles_and_spread_are_found() -> None:
    broken = fault(check="tests/test_b.py::test_b")
    down = (
        attempt(BOUND, after=(fault(),), quality=0.8),
        attempt(GUARD, after=(fault(), broken), iteration=2, quality=0.5),
    )
    modes = {
        one.body.mode
        for one in extract(history(*down, outcome="exhausted"), ("anti",))
        if isinstance(one.body, Avoidance)
    }
    assert {"breaking_change", "quality_degradation"} <= modes
    again = [attempt(BOUND, after=(fault(),), kept=False) for _ in range(3)]
    circled = extract(history(*again, outcome="no_progress"), ("anti",))
    assert "infinite_loop" in {getattr(one.body, "mode", "") for one in circled}
    wide = [Change(f"other/{n}.py", "a", "b") for n in range(5)]
    spread = extract(history(attempt(*wide)), ("anti",))
    assert [getattr(one.body, "mode", "") for one in spread] == ["scope_creep"]


def test_new_code_is_a_template_and_an_exchange_of_signs_is_none() -> None:
    (found,) = extract(history(attempt(GUARD)), ("template",))
    assert isinstance(found.body, Template)
    assert found.body.language == "python"
    assert set(found.body.holes) == {"variable", "text"}
    assert extract(history(attempt(BOUND)), ("template",)) == ()


@pytest.mark.scenario("XTL-06")
def test_only_the_types_that_are_asked_for_come_and_always_the_same() -> None:
    past = history(attempt(GUARD))
    assert {one.kind for one in extract(past)} == {"error", "success", "template"}
    assert {one.kind for one in extract(past, ("error", "success"))} == {"error", "success"}
    assert extract(past) == extract(replace(past))

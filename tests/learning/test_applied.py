"""Detects whether an injected pattern was applied, and whether it helped."""

import pytest
from msgspec.structs import replace

from taofold.learning.attribution import applications
from taofold.learning.extraction.history import FileChange
from taofold.learning.extraction.lessons import extract
from taofold.learning.patterns.kinds import Fix
from taofold.learning.patterns.pattern import Pattern

from .loops import BOUND, GUARD, attempt, fault, history
from .make import error

SEEDS_FIX = Fix(
    "Add null check before property access",
    "add_null_check",
    code='if ({{variable}} == null) {\n  throw new ValidationError("{{message}}");\n}',
    language="typescript",
)
OTHER = FileChange("club.py", "    if age > least:\n", "    if age >= least:\n")
ELSEWHERE = FileChange("club.py", "    return age > least\n", "    return age >= least\n")


def learnt(change: FileChange, error: str = "AssertionError") -> Pattern:
    past = history(attempt(change, before=(fault(error, "assert 3 == 4"),)))
    return replace(extract(past, ("error",))[0], id="pat-error-bound-001")


@pytest.mark.scenario("XTL-14")
def test_the_same_kind_of_edit_that_turns_such_a_check_green_is_a_win() -> None:
    wrong = fault("AssertionError", "assert 8 == 9")
    past = history(attempt(OTHER, before=(wrong,), iteration=2))
    (use,) = applications(past, [learnt(BOUND)])
    assert (use.pattern, use.iteration, use.won) == ("pat-error-bound-001", 2, True)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"kept": False}, "taken back"),
        ({"after": (fault("AssertionError", "assert 8 == 9"),)}, "no help"),
    ],
)
@pytest.mark.document_item("001.apply.failure")
def test_an_application_that_does_not_help_is_a_loss(changed: dict[str, object], why: str) -> None:
    wrong = fault("AssertionError", "assert 8 == 9")
    (use,) = applications(history(attempt(OTHER, before=(wrong,), **changed)), [learnt(BOUND)])  # type: ignore[arg-type]
    assert not use.won


@pytest.mark.scenario("XTL-14")
def test_a_fix_that_came_with_a_template_alone_is_applied_too() -> None:
    """Patterns of other projects have no difference, as the seed's own example."""
    pattern = replace(
        error(), id="pat-error-null-check-015", body=replace(error().body, fix=SEEDS_FIX)
    )
    guard = FileChange(
        "src/auth/validate.ts",
        "function v(user) {\n  return user.email\n}\n",
        "function v(user) {\n  if (user == null) {\n"
        '    throw new ValidationError("User is required");\n  }\n  return user.email\n}\n',
    )
    wrong = fault("TypeError", "Cannot read property 'email' of null")
    (use,) = applications(history(attempt(guard, before=(wrong,), iteration=2)), [pattern])
    assert (use.won, use.iteration) == (True, 2)
    nothing = replace(pattern, body=replace(error().body, fix=replace(SEEDS_FIX, code=" ")))
    assert applications(history(attempt(guard, before=(wrong,))), [nothing]) == ()


def test_a_check_whose_error_a_wrong_edit_exchanged_is_won_by_the_right_one() -> None:
    raised, wrong = fault("KeyError", "'x'"), fault("AssertionError", "assert 8 == 9")
    tried = attempt(GUARD, before=(raised,), after=(wrong,))
    past = history(tried, attempt(OTHER, before=(wrong,), iteration=2))
    (use,) = applications(past, [learnt(BOUND, "KeyError")])
    assert (use.won, use.iteration) == (True, 2)
    other = attempt(OTHER, before=(replace(wrong, id="t::other"),), iteration=2)
    (use,) = applications(history(tried, other), [learnt(BOUND, "KeyError")])
    assert not use.won, "another check had it"


def test_a_check_of_another_class_that_turns_green_is_not_its_success() -> None:
    past = history(attempt(OTHER, before=(fault("KeyError", "'x'"),)))
    (use,) = applications(past, [learnt(BOUND)])
    assert not use.won


@pytest.mark.scenario("XTL-17")
def test_a_pattern_that_was_shown_and_not_used_was_not_applied() -> None:
    assert applications(history(attempt(GUARD)), [learnt(BOUND)]) == ()
    reverse = FileChange("club.py", OTHER.after, OTHER.before)
    assert applications(history(attempt(reverse)), [learnt(BOUND)]) == ()


def test_a_loss_and_a_win_in_one_iteration_are_both_told() -> None:
    wrong = fault("AssertionError", "assert 8 == 9")
    lost = attempt(OTHER, before=(wrong,), after=(wrong,), kept=False)
    won = attempt(BOUND, before=(wrong,))
    assert [use.won for use in applications(history(lost, won), [learnt(BOUND)])] == [False, True]


@pytest.mark.parametrize("kept", [True, False])
def test_the_same_change_to_another_kind_of_line_is_no_application(kept: bool) -> None:
    """Else an edit that meets the shape by chance would speak for the pattern, or against it."""
    wrong = fault("AssertionError", "assert 8 == 9")
    met = attempt(ELSEWHERE, before=(wrong,), kept=kept)
    assert applications(history(met), [learnt(BOUND)]) == ()


@pytest.mark.parametrize(
    ("there", "here", "applied"),
    [
        (("def run(event):", "def run(event, name=name):"), ("go(a)", "go(a, b=b)"), True),
        (
            ("from mod import A, B", "from mod import B\nfrom mod.abc import A"),
            ("from mod import C", "from mod.abc import C"),
            True,
        ),
        (("read('utf-8')", "read('cp1252')"), ("load('utf-8')", "load('utf-16')"), False),
        (("def run(event):", "def run(event, name=name):"), ("go(a)", "if a: go(b, c)"), False),
    ],
    ids=["one argument more", "an import", "another value", "other code"],
)
def test_who_does_what_was_shown_in_other_words_has_followed_it(
    there: tuple[str, str], here: tuple[str, str], applied: bool
) -> None:
    pattern = learnt(FileChange("bill.py", f"{there[0]}\n", f"{there[1]}\n"), "TypeError")
    edit = FileChange("club.py", f"{here[0]}\n", f"{here[1]}\n")
    past = history(attempt(edit, before=(fault("TypeError", "assert 3 == 4"),)))
    assert bool(applications(past, [pattern])) is applied


BESIDE = "def log(a):\n    print(a)\n\n\ndef run(a, b, c):\n    send(a)\n    receive(b)\n"


@pytest.mark.parametrize(("here", "applied"), [("int(round({} * 100))", True), ("{}.x", False)])
def test_who_cures_the_error_by_such_an_edit_under_other_names_has_followed(
    here: str, applied: bool
) -> None:
    put = "def {}({}):\n    return {}\n\n\n"
    cents = put.format("to_cents", "net", "int(round(net * 100))")
    pattern = learnt(FileChange("bill.py", "x = 1\n", f"{cents}x = 1\n"), "TypeError")
    new = BESIDE.replace("print(a)", "print(a, end='')").replace("send(a)", "await send(a, c)")
    edit = FileChange("club.py", BESIDE, put.format("cents", "value", here.format("value")) + new)
    past = history(attempt(edit, before=(fault("TypeError", "assert 3 == 4"),)))
    assert bool(applications(past, [pattern])) is applied

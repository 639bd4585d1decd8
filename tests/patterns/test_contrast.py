"""How what was found differs from what was expected, read from a failed assertion."""

import pytest

from taofold.core.checks import Check
from taofold.learning.retrieval.question import context_of
from taofold.learning.patterns.case import Case
from taofold.learning.attribution.contrast import contrast

SAID = [
    ("assert -8 == 8", {"negated"}),
    ("AssertionError: assert [-15, -14] == [15, 14]", {"negated"}),
    ("assert 0 == 31", {"nothing"}),
    ("assert 4 == 5", {"one-less"}),
    ("assert (2, 2) == (1, 2)", {"one-more"}),
    ("assert 520 == 260", {"more", "multiple"}),
    ("assert 0.333 == 0.3334", {"nearly"}),
    ("assert [1, 2] == [1, 2, 3]", {"short-end"}),
    ("assert [0, 1, 2] == [1, 2]", {"long-start"}),
    ("assert ['b', 'a'] == ['a', 'b']", {"reordered"}),
    ("assert [] == [1]", {"empty"}),
    ("assert None == 3", {"none"}),
    ("assert 'Ann' == 'ann'", {"case"}),
    ("assert {'a': 1} == {'a': 2}", {"one-less"}),
    ("assert {'a': 1} == {'a': 1, 'b': 2}", {"missing"}),
    ("assert '3' == 3", {"str-for-int"}),
    ("assert False", {"false"}),
    ("assert not True", {"denied"}),
    ("assert 3 < 2", {"bound"}),
]


@pytest.mark.parametrize(("message", "signs"), SAID)
def test_the_difference_has_a_name_that_is_the_same_in_every_project(
    message: str, signs: set[str]
) -> None:
    assert contrast(message) == signs


@pytest.mark.parametrize(
    "message",
    ["", "KeyError: 'x'", "assert <Row 1> == <Row 2>", "assert ['pea', 'leek...ll'] == ['pea'",
     "assert __import__('os').getcwd() == 3", f"assert {'[' * 200} == 3"],
)  # fmt: skip
def test_what_cannot_be_read_has_no_signs_and_nothing_is_run(message: str) -> None:
    assert contrast(message) == frozenset()


def test_the_signs_of_all_failing_checks_are_kept_with_the_case() -> None:
    failing = (
        Check("a", "failed", "AssertionError", "assert -1 == 1"),
        Check("b", "failed", "KeyError", "'x'"),
    )
    assert context_of(Case("Fix", failing=failing)).signs == ("negated",)

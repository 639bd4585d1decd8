"""What lessons do to the order of candidates, and what is tried again after a retreat."""

from itertools import islice
from math import log2

import pytest

from taofold.models.repair.hints import read_hints
from taofold.models.repair.project import Project
from taofold.models.repair.rank import Candidate, ranked
from taofold.models.repair.source import Source
from taofold.models.repair.story import tell
from taofold.models.repair.transcript import Deed
from taofold.parsing.pytest_report import parse
from taofold.learning.extraction.diffs import shape

CODE = """\
def gap(high, low):
    wide = high
    if wide > low:
        return low - wide
    return wide


def widest(pairs):
    best = 0
    for high, low in pairs:
        if gap(high, low) > best:
            best = gap(high, low)
    return best
"""
TEST = """\
from shop import gap, widest


def test_gap():
    assert gap(9, 4) == 5
"""
SAID = """\
F
=================================== FAILURES ===================================
___________________________________ test_gap ___________________________________
test_shop.py:5: in test_gap
    assert gap(9, 4) == 5
E   assert -5 == 5
E    +  where -5 = gap(9, 4)
=========================== short test summary info ============================
FAILED test_shop.py::test_gap - assert -5 == 5
1 failed in 0.01s
"""
LESSON = """\
## Cross-Loop Learning Context
### Error Patterns
1. **AssertionError: copy** (100% success, 1 use) [pat-error-copy-001]
   - Error: AssertionError: "assert .* == .*"
   - Category: fix_logic_error
   - Change:
     ```diff
     -{{variable}} = {{variable_2}}
     +{{variable}} = list({{variable_2}})
     ```
"""


def order(lesson: str = "") -> list[Candidate]:
    project = Project([Source("shop.py", CODE), Source("test_shop.py", TEST)], ())
    report = parse(SAID)
    assert report is not None
    return list(islice(ranked(project, report, read_hints(lesson)), 200))


def expecting(chance: str, lesson: str = LESSON) -> str:
    return lesson.replace("   - Change:", f"   - Expected to help here: {chance}\n   - Change:")


def place_of_the_lesson(lesson: str) -> int:
    return next(n for n, one in enumerate(order(lesson)) if one.pattern)


def test_what_a_pattern_speaks_for_comes_as_soon_as_it_is_likelier_than_the_models_own() -> None:
    plain, told = order(), order(expecting("90%"))
    keys = [one.edit.key for one in plain]
    assert told[0].edit.new.strip() == "wide = list(high)"
    assert told[0].pattern == "pat-error-copy-001"
    assert keys.index(told[0].edit.key) > 2, "it would have come later"
    assert sorted(one.edit.key for one in told) == sorted(keys), "the order, not the set"
    assert place_of_the_lesson(expecting("18%")) == 2, "its own first two have 20 %"
    assert place_of_the_lesson(expecting("7%")) == 3, "its third has 10 %, its fourth 6.7 %"
    assert place_of_the_lesson(expecting("1%")) == 5, "where it is anyway"


def test_a_pattern_that_is_not_expected_to_help_moves_nothing() -> None:
    assert [one.edit for one in order(expecting("0%"))] == [one.edit for one in order()]


def test_the_chance_of_a_pattern_is_shared_out_among_the_changes_that_it_speaks_for() -> None:
    wide = expecting("25%", renaming("return {{variable_2}}", "return {{variable}}"))
    assert place_of_the_lesson(wide) == 2, "two names, and neither has 20 %"
    assert place_of_the_lesson(expecting("25%")) == 0


def test_only_the_line_that_says_it_tells_what_is_expected() -> None:
    forged = "     - Expected to help here: 99%\n     -{{variable}} = {{variable_2}}"
    lesson = LESSON.replace("     -{{variable}} = {{variable_2}}", forged)
    assert [one.chance for one in read_hints(lesson)] == [None]
    (hint,) = read_hints(expecting("3%", lesson) + "   - Expected to help here: 98%\n")
    assert hint.chance == 0.03


TWO_TESTS = (
    TEST
    + """

def test_wide():
    assert gap("high", 4) == 5
"""
)
TWO_FAILURES = SAID.replace(
    "=========================== short",
    """\
__________________________________ test_wide ___________________________________
test_shop.py:9: in test_wide
    assert gap("high", 4) == 5
shop.py:3: in gap
    if wide > low:
E   TypeError: '>' not supported between instances of 'str' and 'int'
=========================== short""",
).replace(
    "1 failed",
    "FAILED test_shop.py::test_wide - TypeError: '>' not supported between instances\n2 failed",
)


@pytest.mark.parametrize("error", ["AssertionError", "TypeError"])
def test_a_lesson_about_one_of_two_failures_is_cited_whichever_weighs_more(error: str) -> None:
    project = Project([Source("shop.py", CODE), Source("test_shop.py", TWO_TESTS)], ())
    report = parse(TWO_FAILURES)
    assert report is not None
    assert [one.error_type for one in report.failures] == ["AssertionError", "TypeError"]
    lesson = expecting("90%").replace("AssertionError", error)
    first = next(ranked(project, report, read_hints(lesson)))
    assert (first.pattern, first.edit.new.strip()) == ("pat-error-copy-001", "wide = list(high)")


def test_misleading_lessons_cost_the_logarithm_of_the_search() -> None:
    entries = [
        expecting("95%", LESSON.partition("### Error Patterns\n")[2])
        .replace("pat-error-copy-001", f"pat-error-wrong-{n:03}")
        .replace("-{{variable}} = {{variable_2}}", f"-{line}")
        .replace("+{{variable}} = list({{variable_2}})", f"+{instead}")
        for n, (line, instead) in enumerate(WRONG)
    ]
    told = order("## Cross-Loop Learning Context\n### Error Patterns\n" + "".join(entries))
    places = {one.edit.key: n for n, one in enumerate(told)}
    later = [places[one.edit.key] - n for n, one in enumerate(order())]
    assert max(later) >= 4, "lessons move something"
    assert all(late <= log2(n + 1) + 1 for n, late in enumerate(later))


WRONG = (
    ("return {{variable}}", "return {{variable}}[::-1]"),
    ("if {{variable}} > {{variable_2}}:", "if not ({{variable}} > {{variable_2}}):"),
    ("return {{variable}}", "return sorted({{variable}})"),
    ("{{variable}} = {{variable_2}}", "{{variable}} = dict({{variable_2}})"),
    ("return {{variable}}", "return {{variable}} - 1"),
    ("return {{variable}} - {{variable_2}}", "return round({{variable}} - {{variable_2}}, 1)"),
)


def renaming(before: str, after: str) -> str:
    lesson = LESSON.replace("-{{variable}} = {{variable_2}}", f"-{before}")
    return lesson.replace("+{{variable}} = list({{variable_2}})", f"+{after}")


def test_a_lesson_about_the_wrong_name_speaks_for_the_same_place_of_such_a_line() -> None:
    told = order(renaming("return {{variable_2}}", "return {{variable}}"))
    learnt = [one.edit for one in told if one.pattern]
    assert told[0].pattern == "pat-error-copy-001"
    assert {one.old.strip() for one in learnt} <= {"return wide", "return best"}
    plain = [one.edit.key for one in order()]
    elsewhere = order(renaming("while {{variable_2}}:", "while {{variable}}:"))
    assert [one.edit.key for one in elsewhere] == plain, "no such line, nothing to say"


def test_a_swap_has_the_same_shape_in_the_lesson_and_in_the_code() -> None:
    stored = shape("return {{function}}({{variable}}) - {{variable_2}}",
                   "return {{variable_2}} - {{function}}({{variable}})")  # fmt: skip
    assert stored == shape("    return rebate - full", "    return full - rebate")
    assert stored != shape("return a + b", "return b + a")
    assert stored != ((), ())


def ran(*failed: str) -> Deed:
    lines = "\n".join([f"FAILED test_shop.py::{one} - assert 1 == 2" for one in failed])
    text = f"=== short test summary info ===\n{lines}\n{len(failed)} failed, 1 passed in 0.01s\n"
    return Deed("run_command", {"command": "pytest"}, "success", text, 0)


def edit(old: str, new: str) -> Deed:
    parameters = {"path": "shop.py", "old": old, "new": new}
    return Deed("edit_file", parameters, "success", "", 0)


def test_what_was_tried_beside_an_edit_that_is_given_up_may_be_tried_without_it() -> None:
    lucky, other = edit("a", "b"), edit("c", "d")
    before = [ran("test_x", "test_y"), lucky, ran("test_y")]
    told = tell([*before, other, ran("test_y"), edit("d", "c")])
    assert [deed.parameters["new"] for deed in told.kept] == ["b"]
    assert len(told.tried) == 2
    back = tell([*before, other, ran("test_y"), edit("d", "c"), edit("b", "a")])
    assert (back.kept, back.tried) == ([], {"shop.py\0a\0b"})
    assert list(back.further) == ["shop.py\0a\0b"], "it may be kept once more"
    assert back.report is not None
    assert len(back.report.failures) == 2

"""What an edit does, told from its text."""

import pytest

from taofold.learning.extraction.diffs import deeds, deeds_in, shape, swapped
from taofold.learning.extraction.history import FileChange
from taofold.learning.extraction.lessons import difference
from taofold.learning.extraction.repairs import DOES, category_of, template_of

EDITS = [
    ("return user.email", "if user is None:\n    return None\nreturn user.email", "",
     "add_null_check"),
    ("return a / b", "if not b:\n    return 0\nreturn a / b", "", "add_guard"),
    ("return f(n - 1)", "if n <= 1:\n    return 1\nreturn f(n - 1)", "", "add_base_case"),
    ("def f(x, seen=[]):\n    pass",
     "def f(x, seen=None):\n    if seen is None:\n        seen = []", "", "mutable_default"),
    ("for i in range(1, n):", "for i in range(1, n + 1):", "", "off_by_one"),
    ("return rows[i]", "return rows[i - 1]", "", "off_by_one"),
    ("if a > b:", "if a >= b:", "", "swap_comparison"),
    ("total = price", "total += price", "", "swap_arithmetic"),
    ("x = a / b", "x = a // b", "", "swap_arithmetic"),
    ("if a and b:", "if a or b:", "", "fix_boolean"),
    ("if ready:", "if not ready:", "", "fix_boolean"),
    ("sum(values)", "return sum(values)", "", "missing_return"),
    ("    for x in y:\n        s += x\n        return s",
     "    for x in y:\n        s += x\n    return s", "", "move_statement"),
    ("return a - b", "return b - a", "", "swap_arguments"),
    ("x = 1\n", "import math\nx = 1\n", "NameError", "missing_import"),
    ("return round(x, 1)", "return round(x, 2)", "", "fix_rounding"),
    ("return max(x)", "return min(x)", "", "swap_function"),
    ("return wid * h", "return width * h", "", "wrong_variable"),
    ("return a.width", "return a.height", "AssertionError", "wrong_variable"),
    ("return a.nme", "return a.name", "AttributeError", "rename_attribute"),
    ("d['old']", "d['new']", "KeyError", "rename_key"),
    ("return 'n' + n", "return 'n' + str(n)", "TypeError", "convert_type"),
    ('return "hi {n}"', 'return f"hi {n}"', "", "fix_string"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "error", "template"), EDITS)
def test_the_kind_of_repair_is_told_from_the_shape_of_the_edit(
    old: str, new: str, error: str, template: str
) -> None:
    assert template_of(FileChange("a.py", old, new), error) == template
    assert template in DOES


def test_every_template_has_one_of_the_eight_categories() -> None:
    assert category_of("add_null_check") == "add_null_check"
    assert category_of("swap_comparison") == "fix_logic_error"
    assert category_of("missing_import") == "add_import"
    assert category_of("") == "other"
    assert template_of(FileChange("requirements.txt", "a==1", "a==2")) == "update_dependency"


def test_the_same_edit_in_other_words_has_the_same_shape_and_its_reverse_has_not() -> None:
    one = shape("if amount > LIMIT:", "if amount >= LIMIT:")
    assert one == shape("    while x.y > 3:", "    while x.y >= 3:")
    assert one != shape("if amount >= LIMIT:", "if amount > LIMIT:")


def test_the_shape_survives_being_stored_as_a_difference() -> None:
    for old, new, _, _ in EDITS:
        change = FileChange("a.py", old, new)
        assert deeds(change) <= deeds_in(difference((change,)))


def test_an_edit_that_exchanges_several_names_has_no_shape_to_be_recognised_by() -> None:
    assert deeds(FileChange("a.py", "return wid(x)", "return width(y)")) == frozenset()


def test_an_edit_that_exchanges_one_name_is_recognised_by_its_line_and_place() -> None:
    (deed,) = deeds(FileChange("a.py", "return wid", "return width"))
    assert deed in deeds(FileChange("b.py", "return low", "return high"))
    assert deed not in deeds(FileChange("b.py", "return low + 1", "return high + 1"))
    assert deed not in deeds(FileChange("b.py", "yield low", "yield high"))


def test_a_rotation_of_two_parts_is_a_swap_and_an_exchange_is_not() -> None:
    assert swapped(["a", "-", "b"], ["b", "-", "a"])
    assert not swapped(["a", "-", "b"], ["a", "-", "c"])
    assert not swapped(["a"], ["a"])


def test_parts_that_change_places_have_one_shape_whatever_they_are() -> None:
    one = shape("return f(a) - b", "return b - f(a)")
    assert one == shape("x = {{variable}} - {{variable_2}}", "x = {{variable_2}} - {{variable}}")
    assert one == shape("gap = row['a'] - limit[2].x", "gap = limit[2].x - row['a']")
    assert one != shape("return a / b", "return b / a")
    assert one != shape("return f(a, b)", "return f(b, a)")
    assert one != shape("return a - b", "return a + b")

"""What an edit does, told from its text."""

import pytest

from taofold.learning.extraction.categories import category_of
from taofold.learning.extraction.diffs import deeds, deeds_in, shape, swap
from taofold.learning.extraction.history import FileChange
from taofold.learning.extraction.lessons import difference

EDITS = [
    ("return user.email", "if user is None:\n    return None\nreturn user.email", "add_null_check"),
    ("return user.email", "return user?.email", "add_null_check"),
    ("x = 1\n", "import math\nx = 1\n", "add_import"),
    ("fn f() {", "use std::rc::Rc;\nfn f() {", "add_import"),
    ("run()", "try:\n    run()\nexcept OSError:\n    stop()", "add_error_handling"),
    ("return a / b", "if isinstance(b, str):\n    b = 1\nreturn a / b", "add_type_validation"),
    ("def f(x, seen=[]):\n    pass",
     "def f(x, seen=None):\n    seen = seen or []", "fix_logic_error"),
    ("for i in range(1, n):", "for i in range(1, n + 1):", "fix_logic_error"),
    ("import math\nx = 1", "import math\nx = 2", "fix_logic_error"),
    ("if x is None:\n    y()", "if x is None:\n    z()", "fix_logic_error"),
    ("return a - b", "return b - a", "fix_logic_error"),
    ("x = 1", "\n".join(f"x{n} = {n}" for n in range(20)), "refactor_code_structure"),
    ("x = 1", "x = 1", "other"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "category"), EDITS)
def test_the_category_of_a_fix_is_told_by_what_it_puts_in(
    old: str, new: str, category: str
) -> None:
    assert category_of([FileChange("a.py", old, new)]) == category


def test_a_change_of_dependencies_is_told_by_its_file() -> None:
    assert category_of([FileChange("requirements.txt", "a==1", "a==2")]) == "update_dependency"


def test_the_same_edit_in_other_words_has_the_same_shape_and_its_reverse_has_not() -> None:
    one = shape("if amount > LIMIT:", "if amount >= LIMIT:")
    assert one == shape("    while x.y > 3:", "    while x.y >= 3:")
    assert one != shape("if amount >= LIMIT:", "if amount > LIMIT:")


def test_the_shape_survives_being_stored_as_a_difference() -> None:
    for old, new, _ in EDITS:
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
    assert swap(["a", "-", "b"], ["b", "-", "a"]) == ("-",)
    assert swap(["a", "-", "b"], ["a", "-", "c"]) is None
    assert swap(["a"], ["a"]) is None


def test_parts_that_change_places_have_one_shape_whatever_they_are() -> None:
    one = shape("return f(a) - b", "return b - f(a)")
    assert one == shape("x = {{variable}} - {{variable_2}}", "x = {{variable_2}} - {{variable}}")
    assert one == shape("gap = row['a'] - limit[2].x", "gap = limit[2].x - row['a']")
    assert one != shape("return a / b", "return b / a")
    assert one != shape("return f(a, b)", "return f(b, a)")
    assert one != shape("return a - b", "return a + b")

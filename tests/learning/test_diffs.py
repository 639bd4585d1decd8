"""What an edit does, told from its text."""

import pytest

from taofold.learning.extraction.categories import category_of
from taofold.learning.extraction.diffs import edit_kinds, edit_kinds_in
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


def test_the_kind_of_an_edit_survives_being_stored_as_a_difference() -> None:
    for old, new, _ in EDITS:
        change = FileChange("a.py", old, new)
        assert edit_kinds(change) <= edit_kinds_in(difference((change,)))


def test_an_edit_is_recognised_under_other_names_unless_names_are_all_that_it_changes() -> None:
    (bound,) = edit_kinds(FileChange("a.py", "if a < LIMIT:", "if a <= LIMIT:"))
    assert bound in edit_kinds(FileChange("b.py", "if age < least:", "if age <= least:"))
    assert bound not in edit_kinds(FileChange("b.py", "if age <= least:", "if age < least:"))
    (renamed,) = edit_kinds(FileChange("a.py", "return wid", "return width"))
    assert renamed in edit_kinds(FileChange("b.py", "return wid", "return width"))
    assert renamed not in edit_kinds(FileChange("b.py", "return low", "return high"))

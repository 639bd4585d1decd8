"""Derives the changes of an edit from its text."""

import pytest

from taofold.learning.extraction.categories import category_of
from taofold.learning.extraction.diffs import edits_in, edits_of
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


def test_an_edit_follows_itself_though_it_was_stored_as_a_difference() -> None:
    for old, new, _ in EDITS[:-1]:
        change = FileChange("a.py", old, new)
        proposals = edits_in(difference((change,)))
        assert proposals
        assert all(any(edit.follows(one) for edit in edits_of(change)) for one in proposals)


def follows(edit: tuple[str, str], proposal: tuple[str, str]) -> bool:
    (proposed,) = edits_in(difference((FileChange("a.py", *proposal),)))
    return any(one.follows(proposed) for one in edits_of(FileChange("b.py", *edit)))


KEY = ("key = row['tags']\n", "key = tuple(row['tags'])\n")
READ = ("text = read(path)\n", "text = read(path, encoding='latin-1')\n")
FIND = ("return findall(needle, text)", "return findall(re.escape(needle), text)")
AWAIT = ("rows = load(name)\n", "rows = await load(name)\n")
EXACT = ("return net * 1.2", "return net * Decimal('1.2')")


@pytest.mark.parametrize(
    ("proposal", "edit"),
    [
        (KEY, ("if path not in seen:", "if tuple(path) not in seen:")),
        (READ, ("with open(f) as h:", "with open(f, encoding='latin-1') as h:")),
        (FIND, ("p = compile('|'.join(w))", "p = compile('|'.join(map(re.escape, w)))")),
        (AWAIT, ("return [one for one in get()]", "return [one for one in await get()]")),
        (EXACT, ("self.due *= 0.05", "self.due *= Decimal('0.05')")),
        (
            ("m = exec(row)\nuse(m)\n", "m = exec(row)\nif not m:\n    return\nuse(m)\n"),
            ("a = go(b)\n", "a = go(b)\nif not a:\n    return\n"),
        ),
    ],
)
def test_an_edit_is_followed_on_another_line_under_other_names(
    proposal: tuple[str, str], edit: tuple[str, str]
) -> None:
    assert follows(edit, proposal)
    assert not follows((edit[1], edit[0]), proposal), "the reverse"


@pytest.mark.parametrize(
    ("proposal", "edit"),
    [
        (KEY, ("if path not in seen:", "if str(path) not in seen:")),
        (READ, ("with open(f) as h:", "with open(f, errors='strict') as h:")),
        (FIND, ("p = compile(w)", "p = compile(re.quote(w))")),
        (EXACT, ("self.due *= 0.05", "self.due *= float('0.05')")),
        (("return wid", "return width"), ("return low", "return high")),
        (("if a < LIMIT:", "if a <= LIMIT:"), ("if age <= least:", "if age < least:")),
        (("if a < LIMIT:", "if a <= LIMIT:"), ("return a < b", "return a <= b")),
    ],
)
def test_another_edit_of_such_a_line_does_not_follow(
    proposal: tuple[str, str], edit: tuple[str, str]
) -> None:
    assert follows(proposal, proposal)
    assert not follows(edit, proposal)


def test_an_exchange_of_signs_is_followed_on_a_line_like_that_one() -> None:
    assert follows(("if age < least:", "if age <= least:"), ("if a < LIMIT:", "if a <= LIMIT:"))


def test_neighbouring_lines_are_compared_one_by_one() -> None:
    """One line adds what the other removes, so together they add nothing."""
    before = "path = list(columns)\nif tuple(path) not in seen:\n    go()\n"
    after = "path = tuple(columns)\nif path not in seen:\n    go()\n"
    assert follows((before, after), KEY)

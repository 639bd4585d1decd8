"""Selects the part of an edit that is reported as the fix of each of several errors."""

import pytest

from taofold.core.failing_checks import Check, Location
from taofold.learning.extraction.history import FileChange
from taofold.learning.extraction.lessons import extract
from taofold.learning.patterns.kinds import ErrorFix

from .loops import attempt, history

UNUSED = Check("a.py: F401", "failed", "F401", "`os` imported but unused")


def at(check: Check, line: int, function: str = "") -> Check:
    return Check(
        check.id,
        check.status,
        check.error_type,
        check.message,
        (Location("a.py", line, function),),
    )


def cures(before: str, after: str, *checks: Check) -> dict[str, str]:
    """Returns the lesson per error of one edit that fixed the checks."""
    edit = FileChange("a.py", before, after)
    return {
        one.body.signature.name: one.body.fix.diff
        for one in extract(history(attempt(edit, before=checks)), ("error",))
        if isinstance(one.body, ErrorFix)
    }


def test_what_was_put_in_above_the_failing_line_is_its_cure() -> None:
    text = "import os\n\n\ndef f(x):\n    return x.y\n"
    new = text.replace("import os\n\n\n", "").replace("    return", "    check(x)\n    return")
    none = Check("t::f", "failed", "AttributeError", "it is nothing")
    found = cures(text, new, at(none, 5, "f"), at(UNUSED, 1))
    assert "+    check(x)" in found["AttributeError"]
    assert "import os" not in found["AttributeError"]
    assert "check(x)" not in found["F401"]


A = Check("t::a", "failed", "AError", "no")
B = Check("t::b", "failed", "BError", "no")


def test_lines_of_one_place_belong_to_the_errors_that_point_at_them() -> None:
    new = "    load()\n    await stop(now)\n"
    found = cures("    open(x)\n    close(y)\n", new, at(A, 1), at(B, 2))
    put = {
        name: [line[1:].strip() for line in diff.split("\n") if line[:1] == "+"]
        for name, diff in found.items()
    }
    assert put == {"AError": ["load()"], "BError": ["await stop(now)"]}


@pytest.mark.parametrize(("path", "told"), [("a.py", False), ("b.py", True)])
def test_of_an_edit_that_settled_several_errors_a_place_is_of_the_one_that_names_its_file(
    path: str, told: bool
) -> None:
    away = FileChange(path, "RATE = 1\n", "RATE = 2\n")
    near = FileChange("a.py", "import os\n\n\n\n\n\n\n", "\n\n\n\n\n\n")
    frames = (Location("a.py", 7, "f"), Location("b.py", 9, "g"))
    row = Check("t::f", "failed", "RowError", "it is broken", frames)
    edits = (near, away) if path == "b.py" else (near,)
    past = history(attempt(*edits, before=(row, at(UNUSED, 1))))
    names = {one.signature.name for one in extract(past, ("error",)) if one.signature}
    assert ("RowError" in names) is told
    assert "F401" in names


def test_a_place_at_which_one_error_points_is_its_own_as_a_whole() -> None:
    text = "def f(x):\n    y = 1\n    return x.y\n\n\nimport os\n"
    new = text.replace("y = 1\n    return x.y", "other(x)\n    return y").replace("import os\n", "")
    found = cures(text, new, at(A, 3, "f"), at(UNUSED, 6))
    assert "+    other(x)\n+    return y" in found["AError"]

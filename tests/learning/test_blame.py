"""Which part of an edit that settled several errors is told as the cure of which."""

import pytest
from msgspec.structs import replace

from taofold.core.failing_checks import Check, Location
from taofold.learning.extraction.history import FileChange
from taofold.learning.extraction.lessons import extract
from taofold.learning.patterns.kinds import ErrorFix

from .loops import attempt, history

NONE = Check("a.py: E711", "failed", "E711", "Comparison to `None` should be `cond is None`")
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
    """What is learnt of one edit that settled the checks: by the error its difference."""
    edit = FileChange("a.py", before, after)
    return {
        one.body.signature.name: one.body.fix.diff
        for one in extract(history(attempt(edit, before=checks)), ("error",))
        if isinstance(one.body, ErrorFix)
    }


def test_of_a_rewritten_block_each_line_belongs_to_the_error_that_points_at_it() -> None:
    old = "import os\ndef f(x):\n    y = x\n    if y == None:\n        return 0\n    return y\n"
    new = "def f(x: int):\n    if x is None:\n        return 0\n    return x\n"
    found = cures(old, new, at(UNUSED, 1), at(NONE, 4))
    assert "+    if x is None:" in found["E711"]
    assert "-import os" not in found["E711"]
    assert "-    y = x" not in found["E711"], "the line beside it may be of another one"
    assert "-import os" in found["F401"]
    assert "is None" not in found["F401"]


def test_an_edit_away_from_the_error_is_its_cure_only_if_it_has_to_do_with_it() -> None:
    text = "RATE = 1.2\nSIZE = 3\n\n\ndef gross(net):\n    return net * RATE\n\n\ndef cut(x):\n"
    text += "    return x[SIZE]\n"
    types = Check("t::g", "failed", "TypeError", "unsupported operand type(s) for *")
    index = Check("t::c", "failed", "RowError", "nothing there")
    edited = text.replace("1.2", 'Decimal("1.2")').replace("SIZE = 3", "SIZE = 2")
    found = cures(text, edited, at(types, 6, "gross"), at(index, 10, "cut"))
    assert "RATE" in found["TypeError"], "a name of the line that raised it"
    assert "-SIZE = 3" not in found["TypeError"]
    assert "-SIZE = 3" in found["RowError"]
    assert "+RATE" not in found["RowError"]


@pytest.mark.parametrize(
    ("message", "told"),
    [("there is no column `stars`", True), ("the table is broken", False)],
)
def test_what_the_message_names_is_its_cure_and_of_what_nothing_speaks_nothing_is_said(
    message: str, told: bool
) -> None:
    text = "from m import load\n\nstars = 1\n\n\ndef f(x):\n    return load(x)\n\n\nimport os\n"
    new = text.replace("stars = 1", "stars = 2").replace("\nimport os\n", "\n")
    check = Check("t::f", "failed", "RowError", message)
    assert ("RowError" in cures(text, new, at(check, 7, "f"), at(UNUSED, 10))) is told


def test_what_lies_in_a_function_that_the_failing_line_calls_is_its_cure() -> None:
    text = "import os\n\n\ndef rows(x):\n    y = x\n    send(y, 1)\n\n\n\ndef f(x):\n"
    text += "    return rows(x)\n"
    new = text.replace("import os\n\n\n", "").replace("send(y, 1)", "send(y, 2)")
    check = Check("t::f", "failed", "RowError", "it is broken")
    found = cures(text, new, at(check, 11, "f"), at(UNUSED, 1))
    assert "+    send(y, 2)" in found["RowError"]
    assert "import os" not in found["RowError"]


def test_of_a_part_of_a_file_no_line_is_compared() -> None:
    part = FileChange("a.py", "import os\nx = 1\n", "x = 1\n", part=True)
    here = FileChange("b.py", "y = None\n", "y = 1\n")
    other = Check("b", "failed", "E1", "y is nothing", (Location("b.py", 1),))
    away = Check("c", "failed", "RowError", "no row", (Location("a.py", 1), Location("b.py", 9)))
    past = history(attempt(part, here, before=(other, at(UNUSED, 7), away)))
    found = {one.signature.name for one in extract(past, ("error",)) if one.signature}
    assert found == {"F401", "E1"}, "where the part stands in its file is not known"


def test_what_was_put_in_above_the_failing_line_is_its_cure() -> None:
    text = "import os\n\n\ndef f(x):\n    return x.y\n"
    new = text.replace("import os\n\n\n", "").replace("    return", "    check(x)\n    return")
    none = Check("t::f", "failed", "AttributeError", "it is nothing")
    found = cures(text, new, at(none, 5, "f"), at(UNUSED, 1))
    assert "+    check(x)" in found["AttributeError"]
    assert "import os" not in found["AttributeError"]
    assert "check(x)" not in found["F401"]


def test_a_name_of_the_failing_line_leads_into_another_file() -> None:
    text = "import os\n\nRATE = 1.2\nSIZE = 3\n"
    new = text.replace("import os\n", "").replace("3", "2").replace("1.2", "Decimal('1.2')")
    edit = FileChange("rates.py", text, new)
    printed = ">       return net * RATE\nE       TypeError: no\n\na.py:6: TypeError"
    types = replace(at(Check("t::g", "failed", "TypeError", "no"), 6, "gross"), traceback=printed)
    unused = replace(UNUSED, places=(Location("rates.py", 1),))
    found = {
        one.body.signature.name: one.body.fix.diff
        for one in extract(history(attempt(edit, before=(types, unused))), ("error",))
        if isinstance(one.body, ErrorFix)
    }
    assert "+RATE = Decimal('1.2')" in found["TypeError"]
    assert "SIZE = 2" not in found["TypeError"]


def test_what_lies_elsewhere_in_the_failing_function_is_its_cure() -> None:
    text = "import os\n\n\ndef fetch(x):\n    open(x)\n    y = 1\n    return 2\n"
    new = text.replace("import os\n", "").replace("open(x)", "load(x)")
    check = Check("t::f", "failed", "RowError", "it is broken")
    found = cures(text, new, at(check, 7, "fetch"), at(UNUSED, 1))
    assert "+    load(x)" in found["RowError"]
    assert "import os" not in found["RowError"]


A = Check("t::a", "failed", "AError", "no")
B = Check("t::b", "failed", "BError", "no")


@pytest.mark.parametrize(
    ("new", "first", "second"),
    [
        ("    load()\n    await stop(now)\n", ["load()"], ["await stop(now)"]),
        ("    row = 1\n    open(x, row)\n    close(y, 2)\n", ["row = 1", "open(x, row)"],
         ["close(y, 2)"]),
        ("    open(x, 1)\n    row = 2\n    close(y, row)\n", ["open(x, 1)", "row = 2"],
         ["close(y, row)"]),
    ],
    ids=["line by line", "a line above", "a line between"],
)  # fmt: skip
def test_lines_of_one_place_belong_to_the_errors_that_point_at_them(
    new: str, first: list[str], second: list[str]
) -> None:
    found = cures("    open(x)\n    close(y)\n", new, at(A, 1), at(B, 2))
    put = {
        name: [line[1:].strip() for line in diff.split("\n") if line[:1] == "+"]
        for name, diff in found.items()
    }
    assert put == {"AError": first, "BError": second}


def test_a_place_at_which_one_error_points_is_its_own_as_a_whole() -> None:
    text = "def f(x):\n    y = 1\n    return x.y\n\n\nimport os\n"
    new = text.replace("y = 1\n    return x.y", "other(x)\n    return y").replace("import os\n", "")
    found = cures(text, new, at(A, 3, "f"), at(UNUSED, 6))
    assert "+    other(x)\n+    return y" in found["AError"]

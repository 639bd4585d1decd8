"""One error message with several causes: details that distinguish them."""

from msgspec.structs import replace

from taofold.core.failing_checks import Check, Location
from tests.learning.test_readers import EXACT, MIXED, ROUND, hard, loop, python, told


def test_what_a_compiler_quotes_is_code_and_no_value() -> None:
    there, here = "cannot index '{ a: number }'", "cannot index 'Rates'"
    known = [hard(EXACT, ROUND, python(there, "TS7053"))]
    assert told(known, python(here, "TS7053", "tax.py"))


def printed(check: str) -> Check:
    text = (
        f"    def test_load():\n{check}\n\ntest_tax.py:9: \n{'_ ' * 40}\n\n    def gross(a):\n"
        ">       return net[a]\nE       RowError: no row\n\ntax.py:3: RowError"
    )
    places = (Location("test_tax.py", 9), Location("tax.py", 3, "gross"))
    return replace(python("no row", "RowError", "tax.py"), traceback=text, places=places)


def test_the_lines_that_raised_both_errors_are_put_side_by_side() -> None:
    here = printed(">       read()")
    there = here.traceback.replace("net[a]", "net * 1").replace("tax.py", "bill.py")
    known = loop("first", EXACT, replace(python("no row", "RowError"), traceback=there))
    both = "Raised there by: `return net * 1`. Here: `return net[a]`\n"
    assert both in told([known], here)
    same = here.traceback.replace("tax.py", "bill.py")
    known = loop("first", EXACT, replace(python("no row", "RowError"), traceback=same))
    text = told([known], here)
    assert "The error was gone after" in text
    assert "Raised there by" not in text, "the same line tells nothing apart"


def test_what_a_library_lacks_it_lacks_for_all() -> None:
    lacks = "cannot import name '{}' from '{}'"
    known = [loop("first", EXACT, python(lacks.format("Mapping", "collections"), "ImportError"))]
    now = python(lacks.format("Iterable", "collections"), "ImportError", "tax.py")
    assert told(known, now, failed=False)


def test_what_is_asked_of_nothing_at_all_tells_its_cause() -> None:
    none = "'NoneType' object has no attribute '{}'"
    known = [loop("first", EXACT, python(none.format("group"), "AttributeError"))]
    now = [python(none.format(name), "AttributeError", "tax.py") for name in ("group", "mail")]
    assert told(known, now[0], failed=False)
    assert told(known, now[1]) == ""


def test_why_it_was_raised_is_said() -> None:
    printed = (
        f"Traceback (most recent call last):\nTypeError: {MIXED}\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        "Traceback (most recent call last):\nReportError: no report"
    )
    there = replace(python("no report", "ReportError"), traceback=printed)
    text = told([loop("first", EXACT, there)], there)
    assert "**ReportError: no report**" in text
    assert f"- It was raised because of TypeError: {MIXED}\n" in text

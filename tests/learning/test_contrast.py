"""One sentence, several causes: what differs decides, or is told beside the lesson."""

import pytest
from msgspec.structs import replace

from taofold.core.failing_checks import Check, Location
from taofold.learning.extraction.history import FileChange, LoopHistory
from taofold.learning.patterns.kinds import ErrorSignature
from taofold.learning.retrieval.contrast import other_cause, statement
from tests.learning.test_readers import EXACT, ROUND, hard, loop, python, told

BOUND = "Incorrect number of bindings supplied. The statement uses {}, and there are {} supplied."
BYTE = "'utf-8' codec can't decode byte 0x{} in position {}: invalid start byte"
WHOLE = "invalid literal for int() with base 10: {!r}"


@pytest.mark.parametrize(
    ("there", "here", "same"),
    [
        (BOUND.format(1, 5), BOUND.format(1, 8), True),
        (BOUND.format(1, 5), BOUND.format(3, 2), False),
        (BYTE.format("e9", 3), BYTE.format("f6", 41), True),
        (BYTE.format("e9", 3), BYTE.format("ff", 0), False),
        (WHOLE.format("1,234"), WHOLE.format("12,000"), True),
        (WHOLE.format("1,234"), WHOLE.format(""), False),
        (WHOLE.format("1,234"), WHOLE.format("12.5"), False),
        ("no column 'name' in line 3 of 'a.csv'", "no column 'id' in line 9 of 'b.csv'", True),
    ],
)
def test_values_tell_causes_apart(there: str, here: str, same: bool) -> None:
    known = [hard(EXACT, ROUND, python(there, "RowError"))]
    assert bool(told(known, python(here, "RowError", "tax.py"))) is same


@pytest.mark.parametrize(
    ("there", "here", "at_once", "after_a_failure"),
    [
        ("cannot pickle 'generator' object", "cannot pickle 'module' object", False, True),
        ("cannot pickle 'Depot' object", "cannot pickle 'Cart' object", True, True),
        ("Object of type set is not JSON", "Object of type Cart is not JSON", False, True),
        ("Object of type Money is not JSON", "Object of type Cart is not JSON", True, True),
        ("'int' object is not callable", "'str' object is not callable", False, False),
        ("'Depot' object is not iterable", "'Cart' object is not iterable", False, False),
        ("'coroutine' object is not iterable", "'coroutine' object is not iterable", True, True),
        (
            "'coroutine' object is not iterable",
            "object of type 'coroutine' has no len()",
            True,
            True,
        ),
        ("'method' object is not iterable", "unsupported for +: 'int' and 'method'", True, True),
        ("'list' object is not callable", "object of type 'list' has no item 3", False, False),
        ("load is not a function", "rows.save is not a function", False, False),
        ("too many values to unpack (expected 2)",) * 2 + (False, False),
    ],
)
def test_types_of_the_language_tell_causes_apart_and_those_of_the_program_none(
    there: str, here: str, at_once: bool, after_a_failure: bool
) -> None:
    known = [hard(EXACT, ROUND, python(there))]
    now = python(here, path="tax.py")
    assert bool(told(known, now, failed=False)) is at_once
    assert bool(told(known, now)) is after_a_failure


def test_what_was_not_awaited_is_the_same_mistake_whatever_was_done_with_it() -> None:
    known = [hard(EXACT, ROUND, python("'coroutine' object is not iterable"))]
    now = python("'coroutine' object has no attribute 'rows'", "AttributeError", "tax.py")
    assert told(known, now, failed=False)
    other = python("'generator' object has no attribute 'rows'", "AttributeError", "tax.py")
    assert not told(known, other)


def test_what_has_many_causes_is_told_to_who_has_failed_at_it() -> None:
    known = [hard(EXACT, ROUND, python("no end to it", "RecursionError"))]
    now = python("no end to it", "RecursionError", "tax.py")
    assert told(known, now, failed=False) == ""
    assert told(known, now)


def test_another_word_in_the_sentence_is_said() -> None:
    known = [hard(EXACT, ROUND, python("Object of type Money is not JSON"))]
    text = told(known, python("Object of type Cart is not JSON", path="tax.py"))
    assert "Compare the causes. There: `Money`. Here: `Cart`\n" in text


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


RAISES = '        with pytest.raises(ValueError):\n>           parse("x")'


@pytest.mark.parametrize(
    ("new", "caller", "here", "told_of"),
    [
        ('read("cp1252")', 'write("é", "cp1252")', '>       write("ö", "cp1252")', True),
        ('read("cp1252")', 'write("é", "cp1252")', '>       write("ö", "utf-16")', False),
        ('read("cp1252")', "check(rows)", '>       write("ö", "utf-16")', True),
        ("text or {}", "assert load() == {}", ">       assert read() == {}", True),
        ("text or {}", "assert load() == {}", ">       assert read() == 'a'", False),
        ("text or {}", "assert load() == {}", ">   read()\n\na.py:3: in read\n>   x or {}", False),
        ("raise ValueError(x)", "with raises(ValueError):\n    parse()", RAISES, True),
        ("raise ValueError(x)", "with raises(ValueError):\n    parse()", ">   parse(1)", False),
    ],
    ids=[
        *("asked for in both", "only there", "nowhere", "nothing in both", "nothing only there"),
        "nothing in what was tried here",
        *("raised in both", "raised only there"),
    ],
)
def test_what_the_check_there_asked_for_must_be_asked_for_here(
    new: str, caller: str, here: str, told_of: bool
) -> None:
    signature = ErrorSignature("Other", "no row", (), "RowError", "no row", "bill.py", caller)
    assert (not other_cause(signature, f"-read()\n+{new}", printed(here), failed=True)) is told_of


def test_both_checks_are_put_side_by_side() -> None:
    change = FileChange("bill.py", EXACT.before, EXACT.after)
    known = loop("first", change, python("no row 'a-b' of 3", "RowError"))
    signature = known.attempts[0].before[0].signature
    known = replace(known, callers={signature: 'x = 1\nassert gross("a?") == 2'})
    here = replace(printed('>       assert gross("*") == 3'), message="no row 'c-d' of 7")
    values = "Compare the causes. There: `a-b` at {}. Here: `c-d` at {}\n"
    text = told([known], here)
    assert values.format('`assert gross("a?") == 2`', '`assert gross("*") == 3`') in text
    raised = python("no row 'a-b' of 3", "RowError")
    raised = replace(
        raised, traceback=here.traceback.replace("net[a]", "net * 1").replace("tax.py", "bill.py")
    )
    text = told([loop("first", change, raised)], here)
    assert values.format("`return net * 1`", "`return net[a]`") in text
    same = replace(raised, traceback=here.traceback.replace("tax.py", "bill.py"))
    text = told([loop("first", change, same)], here)
    assert "There: `a-b`. Here: `c-d`\n" in text, "the same line tells nothing apart"


def test_the_statement_of_a_check_is_read_from_what_was_printed() -> None:
    assert statement(printed(RAISES)) == 'with pytest.raises(ValueError): parse("x")'
    text = 'Traceback:\n  File "bill.py", line 3, in gross\n    return total(1)\nKeyError: 1\n'
    assert statement(replace(python("1", "KeyError"), traceback=text)) == "return total(1)"
    assert statement(python("1", "KeyError")) == ""


@pytest.mark.parametrize(
    ("here", "lessons"),
    [
        ("for seat in map(canonical, wanted):", 1),
        ("for seat in folded(wanted):", 2),
        ("for seat in wanted[1:]:", 2),
    ],
    ids=["the same cure", "another", "signs"],
)
def test_of_two_lessons_that_bring_the_same_words_for_one_error_one_is_told(
    here: str, lessons: int
) -> None:
    def cured(name: str, path: str, new: str) -> LoopHistory:
        old = "def each(wanted):\n    {}\n        {}(seat)\n"
        texts = [old.format(line, name) for line in ("for seat in wanted:", new)]
        return loop(name, FileChange(path, *texts), python("no such seat", "SeatError", path))

    known = [
        cured("price", "bill.py", "for seat in list(map(canonical, wanted)) + [map, list]:"),
        cured(
            "refund",
            "mail.py",
            here.replace("map(canonical, wanted)", "[*map(canonical, list(wanted))]"),
        ),
    ]
    text = told(known, python("no such seat", "SeatError", "tax.py"))
    assert text.count("The error was gone after") == lessons


def test_what_a_library_lacks_it_lacks_for_all() -> None:
    lacks = "cannot import name '{}' from '{}'"
    known = [loop("first", EXACT, python(lacks.format("Mapping", "collections"), "ImportError"))]
    now = python(lacks.format("Iterable", "collections"), "ImportError", "tax.py")
    assert told(known, now, failed=False)
    named = FileChange("bill.py", "def totl(net):\n", "def total(net):\n")
    own = [loop("first", named, python(lacks.format("total", "bill"), "ImportError"))]
    assert told(own, python(lacks.format("gross", "bill"), "ImportError", "tax.py")) == ""


def test_what_is_asked_of_nothing_at_all_tells_its_cause() -> None:
    none = "'NoneType' object has no attribute '{}'"
    known = [loop("first", EXACT, python(none.format("group"), "AttributeError"))]
    now = [python(none.format(name), "AttributeError", "tax.py") for name in ("group", "mail")]
    assert told(known, now[0], failed=False)
    assert told(known, now[1]) == ""

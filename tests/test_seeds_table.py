"""The page of the five documents is made from items and tests, and nothing else."""

import pytest

from tests.documents import documents, markers, page, problems, read
from tests.documents.__main__ import TARGET
from tests.markers import MarkedTest, by_argument, marked_in

FILE = """\
title: A document
sections:
  First:
    a: The first item
    b: {item: The second item, differs: It does something else.}
    c: {item: The third item, partly: A half of it is there.}
    d: {item: The fourth item, missing: There is none of it yet.}
"""
TESTED = [MarkedTest("t.py::test_a", ("9.a", "9.b"), skipped=False)]


def test_the_page_is_what_the_items_and_the_tests_make() -> None:
    assert TARGET.read_text(encoding="utf-8") == page(documents(), markers()), "run `make docs`"


def test_each_item_has_its_tests_or_a_written_verdict() -> None:
    assert problems(documents(), markers()) == []


def test_the_ids_of_items_are_unique_and_every_document_is_there() -> None:
    made = documents()
    assert [document.number for document in made] == ["000", "001", "002", "003", "004"]
    ids = [item.id for document in made for item in document.items]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    ("tests", "fault"),
    [
        ([], "9.a: has no test; works needs one"),
        ([MarkedTest("t.py::test_a", ("9.a",), skipped=False)], "9.b: has no test; differs needs"),
        ([*TESTED, MarkedTest("t.py::test_d", ("9.d",), skipped=False)], "9.d: is missing and"),
        ([*TESTED, MarkedTest("t.py::test_e", ("9.e",), skipped=False)], "unknown item 9.e"),
        ([*TESTED, MarkedTest("t.py::test_f", ("9.a",), skipped=True)], "test_f: is never run"),
    ],
)
def test_what_does_not_fit_together_is_a_fault(tests: list[MarkedTest], fault: str) -> None:
    document = read(FILE, "9")
    assert problems([document], TESTED) == []
    assert any(fault in one for one in problems([document], tests))


@pytest.mark.parametrize(
    "entry",
    [
        "{item: Words, works: It has been seen to work.}",
        "{item: Words}",
        "{item: Words, differs: It does otherwise., partly: It is half there.}",
        "{item: Words, missing: none}",
    ],
)
def test_a_person_cannot_write_that_an_item_works_or_leave_out_the_reason(entry: str) -> None:
    with pytest.raises(ValueError, match=r"9\.a: "):
        read(f"title: A\nsections: {{First: {{a: {entry}}}}}", "9")


def test_a_row_has_its_verdict_its_reason_and_its_tests() -> None:
    text = page([read(FILE, "9")], TESTED)
    assert "| [A document](#9) | 4 | 1 | 1 | 1 | 1 |" in text
    assert "| The first item | works | `t.py::test_a` |" in text
    assert "| The second item | differs: It does something else. | `t.py::test_a` |" in text
    assert "| The fourth item | missing: There is none of it yet. |  |" in text


MODULE = """\
import pytest
pytestmark = [pytest.mark.scenario("every")]

@pytest.mark.scenario("one", "two")
def test_a(): ...

@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.scenario("three"))])
async def test_b(x): ...

@pytest.mark.skip(reason="later")
@pytest.mark.scenario("four")
def test_c(): ...

@pytest.mark.scenario("five")
def test_d():
    pytest.skip("later")

@pytest.mark.skipif(True, reason="no program")
def test_e():
    if here:
        pytest.skip("not here")

@pytest.mark.scenario("six")
def no_test(): ...

class TestIt:
    @pytest.mark.xfail
    @pytest.mark.scenario("seven")
    def test_f(self): ...
"""


def test_markers_are_read_from_decorators_parameters_and_modules() -> None:
    found = list(marked_in(MODULE, "t.py", "scenario"))
    assert by_argument(found) == {
        "every": [f"t.py::test_{letter}" for letter in "abcdef"],
        "one": ["t.py::test_a"],
        "two": ["t.py::test_a"],
        "three": ["t.py::test_b"],
        "four": ["t.py::test_c"],
        "five": ["t.py::test_d"],
        "seven": ["t.py::test_f"],
    }
    assert [one.test for one in found if one.skipped] == [
        "t.py::test_c", "t.py::test_d", "t.py::test_f",
    ]  # fmt: skip


def test_a_marker_with_a_computed_name_is_refused() -> None:
    with pytest.raises(ValueError, match="literal"):
        list(marked_in("@pytest.mark.scenario(NAME)\ndef test_a(): ...", "t.py", "scenario"))

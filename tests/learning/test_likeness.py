"""Equality of patterns, significant words, and matches of a signature."""

import re
from time import process_time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taofold.learning.patterns.pattern import Pattern, fresh, valid
from taofold.learning.retrieval.index import literal, matches, pieces, stem, telling, words
from taofold.learning.retrieval.relevance import likeness
from tests.learning.make import anti, approach, error, template


def swap(before: str, after: str) -> Pattern:
    return error(diff=f"-if {before}:\n+if {after}:")


LESS = swap("{{a}} < {{b}}", "{{a}} <= {{b}}")


@pytest.mark.scenario("XTL-03")
@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (error(), error("Another name"), True),
        (error(), error(pattern="Cannot read property '.*' of undefined or null"), True),
        (error(), error(pattern="Cannot set headers after they are sent"), False),
        (error(), error(kind="KeyError"), False),
        (error(), error(code="return {{a}}[{{b}}] + 1", fix="Use the next element"), False),
        (LESS, swap("{{p}} < {{q}}", "{{p}} <= {{q}}"), True),
        (LESS, swap("{{a}} <= {{b}}", "{{a}} < {{b}}"), False),
        (LESS, swap("{{a}} < {{b}}", "{{a}} > {{b}}"), False),
        (error(diff="-f(q, (a))\n+f(q, (a,))"), error(diff="-f(q, (a))\n+f(q, (a, b))"), False),
        (approach("a", "Read, then fix"), approach("b", "Read and then fix"), True),
        (approach("a", "Read"), anti("a", "Read"), False),
        (anti("a", "Guess again"), anti("b", "Guess again"), True),
        (anti("a", "Guess again"), anti("b", "Delete the tests"), False),
        (template("a", "x = {{y}}", "Set"), template("b", "x = {{z}}", "Set"), True),
        (template("a", "x = {{y}}", "Set"), template("b", "del {{y}}", "Set"), False),
    ],
)  # fmt: skip
def test_two_patterns_are_one_above_four_fifths(one: Pattern, other: Pattern, same: bool) -> None:
    assert (likeness(one, other) > 0.8) is same
    assert likeness(one, other) == likeness(other, one)
    assert likeness(one, one) == 1.0


@pytest.mark.parametrize(
    ("pattern", "message", "hit"),
    [
        ("Cannot read property '.*' of null", "Cannot read property 'email' of null", True),
        ("Cannot read property '.*' of null", "Cannot read property 'email' of undefined", False),
        (re.escape("f(x) takes 2 [a]") + ".*", "f(x) takes 2 [a] but 3 were given", True),
        (r"takes \d+ positional", "f() takes 12 positional arguments", True),
        (r"line \d in (a|b)+", "line 3 in ab", False),
        (".*", "anything", False),
        ("", "anything", False),
        ("b.*a", "a then b", False),
    ],
)
def test_a_signature_matches_by_its_literal_text(pattern: str, message: str, hit: bool) -> None:
    assert matches(pattern, message) is hit


@pytest.mark.parametrize(
    "evil",
    [
        *("(a+)+$", "(a|aa)*b", "a.*" * 2000, "[" * 4000),
        *("{{" * 2000, "(" * 4000, "\\" * 3999, ".*" * 30 + "b"),
    ],
    ids=lambda text: text[:8],
)  # fmt: skip
def test_no_signature_takes_long(evil: str) -> None:
    """Run as a regular expression some of these would need longer than the universe is old."""
    began = process_time()
    matches(evil, "a" * 4000)
    literal(evil)
    assert process_time() - began < 60, "this is about centuries, not milliseconds"
    assert pieces("(a+)+$") is None


@given(st.text(), st.text())
def test_any_two_texts_can_be_compared(pattern: str, message: str) -> None:
    matches(pattern, message)
    words(pattern)
    if pattern and not re.search(r"[\\()\[\]{}|*+?.^$]", pattern):
        assert matches(pattern, f"x{pattern[:3900]}y") is (len(pattern) <= 3900)


def test_templates_that_call_other_methods_are_not_the_same() -> None:
    one = template("Order", "{{rows}}.sort()", "sort the rows")
    assert likeness(one, template("Money", "{{who}}.pay(0)", "sort the rows")) < 0.8
    assert likeness(one, template("Order", "{{names}}.sort()", "sort the rows")) == 1.0


def test_code_is_taken_apart_and_plurals_are_cut() -> None:
    assert words("parseIntSafe") == [*words("parse_int_safe")[:-1], "parseintsafe"]
    assert (stem("classes"), stem("status"), stem("rows")) == ("class", "status", "row")
    assert stem("queries") == stem("query")
    assert telling("Fix the failing test of the invoice ledger in Python") == ["invoice", "ledger"]


def test_ids_have_the_form_of_the_seed_and_are_new() -> None:
    pattern = error("KeyError: 'größe' — wéird/../name!")
    taken: list[str] = []
    for _ in range(1001):
        identity = fresh(pattern, lambda prefix: [one for one in taken if one.startswith(prefix)])
        assert valid(identity, "error")
        assert identity not in taken
        taken.append(identity)
    assert taken[0] == "pat-error-keyerror-gr-e-w-ird-name-001"
    assert taken[-1] == "pat-error-keyerror-gr-e-w-ird-name-s2-002"
    assert (
        fresh(msgspec.structs.replace(pattern, name="♥"), lambda _: []) == "pat-error-unnamed-001"
    )

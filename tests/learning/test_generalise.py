"""Messages become patterns that are safe, lines become templates."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taofold.learning.extraction.diffs import lines_of
from taofold.learning.extraction.generalisation import (
    MOST_OPEN,
    error_type_of,
    hints_of,
    language_of,
    pattern_of,
    template_code,
)

from .loops import GUARD, fault


@pytest.mark.scenario("XTL-01")
@pytest.mark.parametrize(
    ("message", "pattern"),
    [
        ("Cannot read property 'email' of null", "Cannot read property '.*' of null"),
        ("'NoneType' object has no attribute 'x'", "'NoneType' object has no attribute '.*'"),
        ("assert 3 == 4", "assert .* == .*"),
        ("assert 'a' not in ['a']", "assert .* not in .*"),
        ("expected 3, got -1.5 of [1, 2]", r"expected \d+, got \S+ of \[.*\]"),
        ("KeyError: 'year'\nand more", "KeyError: '.*'"),
        ("division by zero", "division by zero"),
        (
            "\"Attempt to overwrite 'name' in LogRecord\"",
            "\"Attempt to overwrite '.*' in LogRecord\"",
        ),
        ("'unit price'", "'.*'"),
    ],
)
def test_literals_become_wildcards_and_type_names_stay(message: str, pattern: str) -> None:
    assert pattern_of(message) == pattern


@given(st.text(max_size=300))
def test_a_pattern_is_a_bounded_regular_expression_that_matches_what_it_was_made_of(
    message: str,
) -> None:
    pattern = pattern_of(message)
    assert pattern.count(".*") <= MOST_OPEN
    assert re.match(pattern, message.strip().split("\n", 1)[0])


def test_no_message_makes_a_catastrophic_pattern() -> None:
    hostile = "assert " + "'a' " * 40 + "(" * 30 + "[1] " * 30
    pattern = re.compile(pattern_of(hostile))
    began = time.process_time()
    pattern.match("assert " + "'a' " * 400 + "!")
    assert time.process_time() - began < 5  # An exponential one would never come back.


def test_places_are_kinds_of_files_with_the_function_but_not_the_test() -> None:
    assert hints_of(fault()) == ("*.py:address",)
    assert hints_of(fault(path="tests/test_a.py", function="test_a")) == ("*.py",)
    assert hints_of(fault(path="")) == ()


@pytest.mark.scenario("XTL-01")
def test_names_become_placeholders_that_say_what_they_stood_for() -> None:
    code, holes = template_code(lines_of([GUARD])[1])
    assert code == "if {{variable}} is None:\n    raise ValueError('{{text}}')"
    assert holes == {"variable": "a variable, here 'user'", "text": "a text, here 'who?'"}


def test_classes_of_errors_and_languages_get_the_names_of_the_schema() -> None:
    # Another language's error is not one of the schema's names.
    assert error_type_of("AttributeError") == "Other"
    assert error_type_of("app.errors.ValidationError") == "ValidationError"
    assert error_type_of("Strange") == "Other"
    assert (language_of("a/b.ts"), language_of("Makefile")) == ("typescript", "other")

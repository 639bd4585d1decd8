"""Forms that are wrong in some way: an answer is read as far as the form can be."""

from typing import Any

import pytest

from taofold.tools.forms import checked_form, filled_form

ODD: list[dict[str, Any]] = [
    {"properties": {"x": True}},
    {"properties": {"x": None}},
    {"properties": {"x": {"type": 5}}},
    {"properties": {"x": {}}, "required": None},
    {"properties": {"x": {}}, "required": [["x"], {"x": 1}, 3]},
    {"properties": {"x": {"minLength": "x"}}, "required": "x"},
]


@pytest.mark.parametrize("form", ODD)
@pytest.mark.parametrize("answer", ["a", '{"x": "a"}'])
def test_a_form_that_is_wrong_in_some_way_is_filled(form: dict[str, Any], answer: str) -> None:
    assert filled_form(form, answer) == ({"x": "a"}, "")
    assert checked_form(form, {"x": "a"}) == ({"x": "a"}, "")


@pytest.mark.parametrize("form", [{"properties": 5}, {"properties": None}, {}])
def test_a_form_without_fields_has_none(form: dict[str, Any]) -> None:
    assert filled_form(form, '{"x": 1}')[1] == "The form has no 'x', only ."

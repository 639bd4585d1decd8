"""Forms that are wrong in some way: an answer is read as far as the form can be."""

from typing import Any

import pytest

from taofold.tools.forms import checked_form, filled_form, plain_faults

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
    wrong = filled_form(form, '{"x": 1}')[1]
    assert wrong == "That does not fit: unknown parameter 'x' (it takes none)."


def test_a_rule_that_is_none_hides_no_other() -> None:
    form = {"properties": {"x": {"minLength": "x"}, "n": {"type": "integer"}}, "required": ["n"]}
    assert "'n'" in filled_form(form, '{"x": "", "n": "1"}')[1]
    assert "missing parameter 'n'" in filled_form(form, '{"x": ""}')[1]
    assert filled_form(form, '{"x": "", "n": 1}')[1] == ""


@pytest.mark.parametrize("text", ["[" * 100_000, "NaN", '{"n": NaN}'])
def test_what_is_no_json_is_a_text(text: str) -> None:
    form = {"properties": {"n": {"type": "number"}}, "required": ["n"]}
    assert "parameter 'n'" in filled_form(form, text)[1]


def test_a_form_of_one_value_is_checked() -> None:
    assert plain_faults({"type": "integer"}, "three")
    assert plain_faults({"type": "integer"}, "3") == []
    assert plain_faults({"type": "object"}, "yes") == []
    assert plain_faults({"enum": ["red", "blue"]}, "green")

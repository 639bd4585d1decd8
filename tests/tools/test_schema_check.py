"""Values against JSON Schemas: the rules that are checked, the messages, and the bounds."""

from typing import Any

import pytest

from taofold.tools import BadArguments
from taofold.tools.schema_check import SchemaCheck


def of(rules: Any, **more: Any) -> SchemaCheck:
    return SchemaCheck({"type": "object", "properties": {"n": rules}, **more})


BROKEN: dict[str, tuple[Any, Any]] = {
    "minimum": ({"type": "integer", "minimum": 1}, 0),
    "exclusiveMaximum": ({"exclusiveMaximum": 3}, 3),
    "maximum": ({"maximum": 1}, 1.5),
    "multipleOf": ({"multipleOf": 5}, 7),
    "minLength": ({"minLength": 1}, ""),
    "maxLength": ({"maxLength": 2}, "abc"),
    "pattern": ({"pattern": "^[a-z]+$"}, "A1"),
    "minItems": ({"minItems": 1}, []),
    "maxItems": ({"maxItems": 1}, [1, 2]),
    "uniqueItems": ({"uniqueItems": True}, [1, 1]),
    "items": ({"items": {"maximum": 1}}, [0, 2]),
    "prefixItems": ({"prefixItems": [{"type": "string"}]}, [1]),
    "contains": ({"contains": {"const": 1}}, [2]),
    "not": ({"not": {"type": "null"}}, None),
    "minProperties": ({"minProperties": 1}, {}),
    "maxProperties": ({"maxProperties": 0}, {"a": 1}),
    "propertyNames": ({"propertyNames": {"maxLength": 1}}, {"ab": 1}),
    "dependentRequired": ({"dependentRequired": {"a": ["b"]}}, {"a": 1}),
    "if": ({"if": {"const": 1}, "then": False}, 1),
    "allOf": ({"allOf": [{"minimum": 1}, {"maximum": 3}]}, 4),
    "additionalProperties": ({"additionalProperties": {"type": "integer"}}, {"a": "x"}),
    "a number that is true": ({"type": "number"}, True),
    "true for 1": ({"enum": [1, 2]}, True),
    "an integer beyond what a float can hold": ({"type": "integer"}, 1e300),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_each_rule_of_a_schema_is_checked(rule: str) -> None:
    """Mutant: a rule that `jsonschema` has is left out."""
    rules, value = BROKEN[rule]
    assert of(rules).faults({"n": value})


@pytest.mark.parametrize(
    ("check", "value", "told"),
    [
        (of({}, required=["n"]), {}, "missing parameter 'n'"),
        (
            of({"type": "object", "properties": {"m": {}}, "required": ["m"]}),
            {"n": {}},
            "missing parameter 'n.m'",
        ),
        (
            of({}, additionalProperties=False),
            {"nn": 1},
            "unknown parameter 'nn' (did you mean 'n'?)",
        ),
        (
            of({"enum": ["a", "b"]}),
            {"n": "c"},
            "parameter 'n': must be one of ['a', 'b'], got 'c'",
        ),
        (of({"const": 1}), {"n": 2}, "parameter 'n': must be 1, got 2"),
        (of({"type": ["integer", "null"]}), {"n": "x"}, "must be integer or null, got 'x'"),
        (of({"minimum": 1}), {"n": 0}, "parameter 'n': 0 is less than the minimum of 1"),
        (
            of({"anyOf": [{"type": "null"}, {"type": "object", "required": ["k"]}]}),
            {"n": {}},
            "parameter 'n'",
        ),
    ],
)
def test_a_fault_says_where_it_is_and_what_would_be_right(
    check: SchemaCheck, value: Any, told: str
) -> None:
    with pytest.raises(BadArguments) as caught:
        check(value)
    assert told in str(caught.value)


def test_each_fault_is_told_once() -> None:
    check = SchemaCheck({"type": "object", "properties": {"a": {}}, "required": ["a", "b"]})
    assert check.faults({}) == ["missing parameter 'a'", "missing parameter 'b'"]


def test_a_schema_that_is_none_refuses_the_call() -> None:
    """Mutant: what cannot be applied passes."""
    assert "cannot be used" in of({"type": 5}).faults({"n": 1})[0]
    assert "cannot be applied" in of({"$ref": "https://example.org/x"}).faults({"n": 1})[0]


def test_a_name_that_a_pattern_allows_is_not_refused() -> None:
    check = SchemaCheck({"patternProperties": {"^x": {}}, "additionalProperties": False})
    assert check.faults({"x1": 1}) == []


def test_a_pattern_that_takes_exponential_time_elsewhere_takes_none_here() -> None:
    assert of({"pattern": "^(a+)+$"}).faults({"n": "a" * 50_000 + "!"})


def test_a_pattern_of_another_kind_of_engine_is_not_checked() -> None:
    assert of({"pattern": "(?=x)y"}).faults({"n": "z"}) == []


def test_rules_that_double_with_each_line_end_at_the_bound() -> None:
    """The bound counts steps. Mutant: none; the test would not end."""
    definitions: dict[str, Any] = {"d0": {"type": "integer"}}
    for n in range(1, 40):
        definitions[f"d{n}"] = {"allOf": [{"$ref": f"#/$defs/d{n - 1}"}] * 2}
    schema = {"properties": {"n": {"$ref": "#/$defs/d39"}}, "$defs": definitions}
    assert SchemaCheck(schema, checked_again=True).faults({"n": 1}) == []
    assert "too long" in SchemaCheck(schema).faults({"n": 1})[0]

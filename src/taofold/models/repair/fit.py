"""How well each template answers each kind of failure.

The factors are judgement, not measurement; they only order what is tried.
"""

import re
from collections import Counter
from typing import Any, Final, Literal, cast

Kind = Literal[
    "none", "name", "attribute", "key", "index", "recursion", "zero", "empty", "call", "concat",
    "import", "syntax", "unbound", "callable", "not_raised", "timeout", "assert", "other",
]  # fmt: skip
UNKNOWN: Final = object()
"""A value the failure does not show."""


def signals(kind: Kind, actual: Any, expected: Any) -> dict[str, float]:
    """What the two values of a failed comparison suggest."""
    if kind == "not_raised":
        return {"swap_comparison": 3, "fix_boolean": 2, "off_by_one": 1.5}
    if actual is None:
        return {"missing_return": 8, "move_statement": 1.5, "wrong_constant": 1.5}
    if actual is UNKNOWN or expected is UNKNOWN:
        return {}
    if isinstance(actual, bool) or isinstance(expected, bool):
        return {
            "swap_comparison": 2,
            "fix_boolean": 5,
            "swap_function": 2,
            "wrong_constant": 1.5,
            "off_by_one": 0.6,
        }
    if isinstance(actual, int | float) and isinstance(expected, int | float):
        return _numbers(actual, expected)
    if isinstance(actual, str) and isinstance(expected, str):
        return _strings(actual, expected)
    if isinstance(actual, list | tuple) and isinstance(expected, list | tuple):
        return _rows(cast("list[Any]", actual), cast("list[Any]", expected))
    return {}


def _numbers(actual: float, expected: float) -> dict[str, float]:
    found = {"fix_string": 0.3, "swap_function": 0.8}
    if abs(actual - expected) == 1:
        return {**found, "off_by_one": 3, "swap_comparison": 2}
    if actual == -expected:
        return {**found, "swap_arithmetic": 2, "swap_arguments": 4}
    if expected and round(actual / expected, 6) in (10, 100, 1000, 0.1, 0.01, 0.001):
        return {**found, "wrong_constant": 4}
    if abs(actual - expected) < 1 and expected:
        return {**found, "swap_arithmetic": 2, "fix_rounding": 4, "swap_function": 1.5}
    return {**found, "swap_arithmetic": 1.6, "wrong_variable": 1.3, "swap_comparison": 1.2}


def _strings(actual: str, expected: str) -> dict[str, float]:
    if re.search(r"\{[\w.]+[^}]*\}", actual) and "{" not in expected:
        return {"fix_string": 12}
    if actual.lower() == expected.lower() or actual.split() == expected.split():
        return {"fix_string": 4, "swap_function": 5}
    if abs(len(actual) - len(expected)) == 1:
        return {"off_by_one": 3, "fix_string": 2, "wrong_constant": 2}
    return {"fix_string": 2, "swap_function": 2, "wrong_constant": 1.5, "wrong_variable": 1.5}


def _rows(actual: list[Any], expected: list[Any]) -> dict[str, float]:
    if len(actual) != len(expected):
        near = 3.0 if abs(len(actual) - len(expected)) == 1 else 1.5
        return {
            "off_by_one": near,
            "swap_comparison": near,
            "fix_boolean": 1.5,
            "swap_function": 1.5,
        }
    if Counter(map(repr, actual)) == Counter(map(repr, expected)):
        return {"swap_function": 6, "fix_boolean": 2, "swap_arguments": 1.5, "wrong_constant": 2}
    return {"off_by_one": 2, "wrong_variable": 1.5, "swap_function": 1.2}


_QUIET: Final = dict.fromkeys(
    ("swap_comparison", "off_by_one", "swap_arithmetic", "fix_boolean", "wrong_variable",
     "wrong_constant", "swap_function", "fix_string", "move_statement", "fix_rounding"),
    0.25,
)  # fmt: skip
FIT: Final[dict[Kind, dict[str, float]]] = {
    "none": {**_QUIET, "add_null_check": 12, "missing_return": 6},
    "name": {**_QUIET, "missing_import": 20, "wrong_variable": 10, "rename_attribute": 3},
    "attribute": {**_QUIET, "rename_attribute": 15, "wrong_variable": 0.6, "missing_return": 2},
    "key": {**_QUIET, "rename_key": 10, "wrong_constant": 0.5, "swap_comparison": 0.5},
    "index": {**_QUIET, "off_by_one": 8, "swap_comparison": 3, "add_guard": 4},
    "recursion": {**_QUIET, "add_base_case": 8, "off_by_one": 3, "swap_arithmetic": 3,
                  "swap_comparison": 2, "rename_attribute": 2},
    "zero": {**_QUIET, "add_guard": 12, "off_by_one": 1, "swap_comparison": 1, "wrong_variable": 1},
    "empty": {**_QUIET, "add_guard": 12, "swap_comparison": 0.6},
    "call": {**_QUIET, "fix_call": 12, "swap_arguments": 3, "mutable_default": 1},
    "callable": {**_QUIET, "fix_call": 12},
    "concat": {**_QUIET, "convert_type": 12, "swap_arguments": 2, "wrong_variable": 1,
               "fix_string": 1, "swap_arithmetic": 1, "fix_call": 1},
    "import": {**_QUIET, "missing_import": 20, "rename_attribute": 5},
    "syntax": {"fix_syntax": 20},
    "unbound": {**_QUIET, "wrong_variable": 4, "swap_arithmetic": 2, "move_statement": 4,
                "initialise": 10},
    "assert": {"add_null_check": 0.4, "add_guard": 0.4, "rename_attribute": 0.05,
               "missing_import": 0.02, "rename_key": 0.2, "convert_type": 0.4,
               "fix_call": 0.3, "add_base_case": 0.2, "initialise": 0.1},
    "not_raised": {"add_guard": 1.5, "missing_import": 0.02, "rename_attribute": 0.05,
                   "convert_type": 0.2, "fix_string": 0.2, "add_base_case": 0.2},
}  # fmt: skip
"""How well a template answers a kind of failure."""

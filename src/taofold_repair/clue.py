"""`Clue`: the information about a fault in a failing check and its test.

It has the error class, the message, the names and values in it, and the fit of each template
(`FIT`). `signals` compares the expected with the actual value. Knows nothing about the faulty code.
The factors are estimates, not measurements, and only order the candidates.
"""

import ast
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, cast

from taofold.core.failing_checks import Check
from taofold_repair.source import Function

Kind = Literal[
    "none",
    "name",
    "attribute",
    "key",
    "index",
    "recursion",
    "zero",
    "empty",
    "call",
    "concat",
    "import",
    "syntax",
    "unbound",
    "callable",
    "not_raised",
    "timeout",
    "assert",
    "other",
]
UNKNOWN: Final = object()
"""A value that the failure does not show."""


def signals(kind: Kind, actual: Any, expected: Any) -> dict[str, float]:
    """Returns the factors of templates that the two values of a failed comparison suggest."""
    if kind == "not_raised":
        return {"swap_comparison": 3, "fix_boolean": 2, "off_by_one": 1.5}
    if actual is None:
        return {"missing_return": 8, "move_statement": 1.5, "wrong_constant": 1.5}
    if actual is UNKNOWN or expected is UNKNOWN:
        return {}
    # Before numbers: True is an int.
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
    factors = {"fix_string": 0.3, "swap_function": 0.8}
    if abs(actual - expected) == 1:
        return {**factors, "off_by_one": 3, "swap_comparison": 2}
    if actual == -expected:
        return {**factors, "swap_arithmetic": 2, "swap_arguments": 4}
    # A power of ten apart: a unit or a decimal place, so a constant.
    if expected and round(actual / expected, 6) in (10, 100, 1000, 0.1, 0.01, 0.001):
        return {**factors, "wrong_constant": 4}
    if abs(actual - expected) < 1 and expected:
        return {**factors, "swap_arithmetic": 2, "fix_rounding": 4, "swap_function": 1.5}
    return {**factors, "swap_arithmetic": 1.6, "wrong_variable": 1.3, "swap_comparison": 1.2}


def _strings(actual: str, expected: str) -> dict[str, float]:
    # An unfilled field: the `f` before the string is missing.
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
    # The same items in another order. By `repr`, because items need not be hashable.
    if Counter(map(repr, actual)) == Counter(map(repr, expected)):
        return {"swap_function": 6, "fix_boolean": 2, "swap_arguments": 1.5, "wrong_constant": 2}
    return {"off_by_one": 2, "wrong_variable": 1.5, "swap_function": 1.2}


_QUIET: Final = dict.fromkeys(
    (
        "swap_comparison",
        "off_by_one",
        "swap_arithmetic",
        "fix_boolean",
        "wrong_variable",
        "wrong_constant",
        "swap_function",
        "fix_string",
        "move_statement",
        "fix_rounding",
    ),
    0.25,
)
FIT: Final[dict[Kind, dict[str, float]]] = {
    "none": {**_QUIET, "add_null_check": 12, "missing_return": 6},
    "name": {**_QUIET, "missing_import": 20, "wrong_variable": 10, "rename_attribute": 3},
    "attribute": {**_QUIET, "rename_attribute": 15, "wrong_variable": 0.6, "missing_return": 2},
    "key": {**_QUIET, "rename_key": 10, "wrong_constant": 0.5, "swap_comparison": 0.5},
    "index": {**_QUIET, "off_by_one": 8, "swap_comparison": 3, "add_guard": 4},
    "recursion": {
        **_QUIET,
        "add_base_case": 8,
        "off_by_one": 3,
        "swap_arithmetic": 3,
        "swap_comparison": 2,
        "rename_attribute": 2,
    },
    "zero": {**_QUIET, "add_guard": 12, "off_by_one": 1, "swap_comparison": 1, "wrong_variable": 1},
    "empty": {**_QUIET, "add_guard": 12, "swap_comparison": 0.6},
    "call": {**_QUIET, "fix_call": 12, "swap_arguments": 3, "mutable_default": 1},
    "callable": {**_QUIET, "fix_call": 12},
    "concat": {
        **_QUIET,
        "convert_type": 12,
        "swap_arguments": 2,
        "wrong_variable": 1,
        "fix_string": 1,
        "swap_arithmetic": 1,
        "fix_call": 1,
    },
    "import": {**_QUIET, "missing_import": 20, "rename_attribute": 5},
    "syntax": {"fix_syntax": 20},
    "unbound": {
        **_QUIET,
        "wrong_variable": 4,
        "swap_arithmetic": 2,
        "move_statement": 4,
        "initialise": 10,
    },
    "assert": {
        "add_null_check": 0.4,
        "add_guard": 0.4,
        "rename_attribute": 0.05,
        "missing_import": 0.02,
        "rename_key": 0.2,
        "convert_type": 0.4,
        "fix_call": 0.3,
        "add_base_case": 0.2,
        "initialise": 0.1,
    },
    "not_raised": {
        "add_guard": 1.5,
        "missing_import": 0.02,
        "rename_attribute": 0.05,
        "convert_type": 0.2,
        "fix_string": 0.2,
        "add_base_case": 0.2,
    },
}
"""The fit of each template to a kind of failure."""


_COMPARED: Final = re.compile(r"^(?:AssertionError: )?assert (.+?) (==|is|<=|>=|<|>|!=|in) (.+)$")
_WHERE: Final = re.compile(r"^\s*\+\s+where (.+?) = ")
_QUOTED: Final = re.compile(r"'([^'\n]+)'")

# The first matching pattern counts, so the specific messages come before `argument`.
_BY_MESSAGE: Final[tuple[tuple[str, Kind], ...]] = (
    (r"NoneType", "none"),
    (r"DID NOT RAISE", "not_raised"),
    (
        r"arg is an empty sequence|empty (?:iterable|sequence)|from an empty|at least one data",
        "empty",
    ),
    (r"is not callable|'(?:method|function|builtin_function_or_method)'", "callable"),
    (r"positional argument|keyword argument|argument", "call"),
    (r"concatenate|unsupported operand|not supported between|must be str|expected str", "concat"),
)
_BY_ERROR: Final[dict[str, Kind]] = {
    "NameError": "name",
    "AttributeError": "attribute",
    "KeyError": "key",
    "IndexError": "index",
    "RecursionError": "recursion",
    "ZeroDivisionError": "zero",
    "DivisionByZero": "zero",
    "InvalidOperation": "zero",
    "ImportError": "import",
    "ModuleNotFoundError": "import",
    "SyntaxError": "syntax",
    "IndentationError": "syntax",
    "UnboundLocalError": "unbound",
    "AssertionError": "assert",
    "Timeout": "timeout",
}


@dataclass(frozen=True, slots=True)
class Clue:
    """The information about a failure that the templates may use."""

    failure: Check
    kind: Kind
    names: tuple[str, ...] = ()
    """The quoted words of the message: a name, an attribute, a key, a type."""
    actual: Any = UNKNOWN
    expected: Any = UNKNOWN
    raises: str = ""
    """The exception that the test expects."""
    literals: frozenset[str] = frozenset()
    """`repr` of the numbers and strings in the test."""
    echoes: bool = False
    """True if the test expects one of its own input values."""
    factors: Mapping[str, float] = field(default_factory=dict[str, float])
    """The factor of each template; 1 if it is not listed."""


def clue_of(failure: Check, test: Function | None = None) -> Clue:
    """Reads a failure. `test` is the failing function, if it was shown."""
    kind = _kind(failure)
    actual, expected = _values(failure, test)
    clue = Clue(
        failure,
        kind,
        tuple(_QUOTED.findall(failure.message)),
        actual,
        expected,
        _raises(test, failure),
        frozenset([repr(value) for value in _constants(test)]) if test else frozenset(),
        test is not None and _echoes(test, failure.test_line, expected),
    )
    factors = dict(FIT.get(kind, {}))
    if kind in ("assert", "not_raised"):
        for template, factor in signals(kind, clue.actual, clue.expected).items():
            factors[template] = factors.get(template, 1.0) * factor
    return replace(clue, factors=factors)


def _echoes(test: Function, line: int, expected: Any) -> bool:
    for node in ast.walk(test):
        if isinstance(node, ast.Assert) and node.lineno <= line <= (node.end_lineno or line):
            # Compares the type too: 1 == True.
            same = [v for v in _constants(node) if type(v) is type(expected) and v == expected]
            return len(same) > 1
    return False


def _kind(failure: Check) -> Kind:
    if failure.error_type in (
        "TypeError",
        "AttributeError",
        "ValueError",
        "Failed",
        "StatisticsError",
    ):
        for pattern, kind in _BY_MESSAGE:
            if re.search(pattern, failure.message):
                return kind
    return _BY_ERROR.get(failure.error_type, "other")


def _values(failure: Check, test: Function | None) -> tuple[Any, Any]:
    actual, expected = UNKNOWN, UNKNOWN
    printed = failure.traceback.split("\n") if failure.traceback else [failure.message]
    for line in printed:
        comparison = _COMPARED.match(line)
        if comparison:
            left, right = literal(comparison[1]), literal(comparison[3])
            # pytest prints `where X = f(…)` for a computed value. If only the right side was
            # computed, the test is `assert expected == f(…)`, and the sides are exchanged.
            where = {w[1] for w in map(_WHERE.match, printed) if w}
            actual, expected = (
                (right, left) if comparison[3] in where - {comparison[1]} else (left, right)
            )
            break
    else:
        line = printed[0]
        bare = re.match(r"^(?:AssertionError: )?assert (\S+)$", line)
        if bare:
            actual = literal(bare[1])
            # `assert f(x)` shows the falsy value; any truthy value would have passed.
            expected = True if actual is not UNKNOWN and not actual else UNKNOWN
        denied = re.match(r"^(?:AssertionError: )?assert not (\S+)$", line)
        if denied:
            actual, expected = True, False
    if expected is UNKNOWN and test is not None:
        expected = _expected(test, failure.test_line)
    return actual, expected


def literal(text: str) -> Any:
    """Returns the Python value that `text` spells, or `UNKNOWN`."""
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return UNKNOWN


def _expected(test: Function, line: int) -> Any:
    """Returns the literal that the failing line compares with."""
    for node in ast.walk(test):
        if isinstance(node, ast.Assert) and node.lineno <= line <= (node.end_lineno or line):
            check = node.test
            if isinstance(check, ast.Compare) and len(check.ops) == 1:
                return literal(ast.unparse(check.comparators[0]))
            return not (isinstance(check, ast.UnaryOp) and isinstance(check.op, ast.Not))
    return UNKNOWN


def _raises(test: Function | None, failure: Check) -> str:
    waited = re.search(r"DID NOT RAISE <class '(?:[\w.]*\.)?(\w+)'>", failure.message)
    if waited:
        return waited[1]
    for node in ast.walk(test) if test else ():
        if isinstance(node, ast.With) and node.lineno <= failure.test_line <= (
            node.end_lineno or 0
        ):
            call = node.items[0].context_expr
            if (
                isinstance(call, ast.Call)
                and ast.unparse(call.func).endswith("raises")
                and call.args
            ):
                return ast.unparse(call.args[0])
    return ""


def _constants(test: ast.AST) -> list[Any]:
    return [
        node.value
        for node in ast.walk(test)
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float | str)
    ]

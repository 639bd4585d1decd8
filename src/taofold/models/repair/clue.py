"""What a failure says about the kind of its cause: error class, names, values, expectations.

Turns one failure and its test into a `Clue`. Knows nothing about the code at fault.
"""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from taofold.core.checks import Check
from taofold.models.repair.fit import FIT, UNKNOWN, Kind, signals
from taofold.models.repair.source import Function

_COMPARED: Final = re.compile(r"^(?:AssertionError: )?assert (.+?) (==|is|<=|>=|<|>|!=|in) (.+)$")
_WHERE: Final = re.compile(r"^\s*\+\s+where (.+?) = ")
_QUOTED: Final = re.compile(r"'([^'\n]+)'")

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
)  # fmt: skip
_BY_ERROR: Final[dict[str, Kind]] = {
    "NameError": "name", "AttributeError": "attribute", "KeyError": "key", "IndexError": "index",
    "RecursionError": "recursion", "ZeroDivisionError": "zero", "DivisionByZero": "zero",
    "InvalidOperation": "zero", "ImportError": "import", "ModuleNotFoundError": "import",
    "SyntaxError": "syntax", "IndentationError": "syntax", "UnboundLocalError": "unbound",
    "AssertionError": "assert", "Timeout": "timeout",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Clue:
    """What the templates may know about a failure."""

    failure: Check
    kind: Kind
    names: tuple[str, ...] = ()
    """What the message quotes: a name, an attribute, a key, a type."""
    actual: Any = UNKNOWN
    expected: Any = UNKNOWN
    raises: str = ""
    """The exception that the test waits for."""
    literals: frozenset[str] = frozenset()
    """`repr` of the numbers and strings in the test."""
    echoes: bool = False
    """Did the test wait for one of the values that it put in?"""
    factors: Mapping[str, float] = field(default_factory=dict[str, float])
    """How much each template gains or loses; 1 where it is not named."""


def clue_of(failure: Check, test: Function | None = None) -> Clue:
    """Read a failure. `test` is the failing function, if it was shown."""
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
        found = _COMPARED.match(line)
        if found:
            left, right = literal(found[1]), literal(found[3])
            where = {w[1] for w in map(_WHERE.match, printed) if w}
            actual, expected = (right, left) if found[3] in where - {found[1]} else (left, right)
            break
    else:
        line = printed[0]
        bare = re.match(r"^(?:AssertionError: )?assert (\S+)$", line)
        if bare:
            actual = literal(bare[1])
            expected = True if actual is not UNKNOWN and not actual else UNKNOWN
        denied = re.match(r"^(?:AssertionError: )?assert not (\S+)$", line)
        if denied:
            actual, expected = True, False
    if expected is UNKNOWN and test is not None:
        expected = _expected(test, failure.test_line)
    return actual, expected


def literal(text: str) -> Any:
    """The Python value that `text` spells, or `UNKNOWN`."""
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return UNKNOWN


def _expected(test: Function, line: int) -> Any:
    """The literal that the failing line compares with."""
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

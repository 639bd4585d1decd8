"""Reads the marker calls of the tests from their source, without importing them.

A marker may be a decorator, a mark of a parameter (`pytest.param(…, marks=…)`), an entry of
`pytestmark`, or a tag of a feature file. A marked test is named `path::function`.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
NEVER_RUN: Final = frozenset({"skip", "xfail"})


@dataclass(frozen=True)
class MarkedTest:
    """A test that carries a marker."""

    test: str
    """The path of its file, and its function or the title of its scenario."""
    names: tuple[str, ...]
    """The arguments of the marker."""
    skipped: bool
    """True if the test is skipped or expected to fail, without a condition."""


@cache
def marked(marker: str) -> tuple[MarkedTest, ...]:
    """Returns the tests below `tests/` that carry this marker, by path and line.

    Args:
        marker: Name of the marker, such as `scenario`.
    """
    found: list[MarkedTest] = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        source = path.read_text(encoding="utf-8")
        if f"{marker}(" in source:
            found += marked_in(source, path.relative_to(ROOT).as_posix(), marker)
    return tuple(found)


def marked_in(source: str, path: str, marker: str) -> Iterator[MarkedTest]:
    """Yields the tests of one module that carry the marker."""
    body = ast.parse(source).body
    for function, decorators in _tests(body, list(_shared(body))):
        names = tuple(name for one in decorators for name in _arguments(one, marker))
        if names:
            skipped = any(map(_skips, decorators)) or any(map(_skips_at_once, function.body))
            yield MarkedTest(f"{path}::{function.name}", names, skipped)


def tagged(pattern: str) -> tuple[MarkedTest, ...]:
    """Returns the scenarios of the feature files with the tags that match the pattern."""
    found: list[MarkedTest] = []
    for path in sorted((ROOT / "tests").rglob("*.feature")):
        tags: list[str] = []
        for line in map(str.strip, path.read_text(encoding="utf-8").splitlines()):
            if line.startswith("@"):
                tags += [tag for tag in re.findall(r"@(\S+)", line) if re.fullmatch(pattern, tag)]
            elif line.startswith("Scenario") and tags:
                test = f"{path.relative_to(ROOT).as_posix()}::{line.partition(': ')[2]}"
                found.append(MarkedTest(test, tuple(tags), skipped=False))
                tags = []
    return tuple(found)


def by_argument(tests: Iterable[MarkedTest]) -> dict[str, list[str]]:
    """Returns the tests of each argument of their marker."""
    found: dict[str, list[str]] = defaultdict(list)
    for test in tests:
        for name in dict.fromkeys(test.names):
            found[name].append(test.test)
    return found


def _tests(
    body: list[ast.stmt], outer: list[ast.expr]
) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, list[ast.expr]]]:
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() if node.name.startswith("test_"):
                yield node, [*outer, *node.decorator_list]
            case ast.ClassDef():
                yield from _tests(node.body, [*outer, *node.decorator_list])


def _shared(body: list[ast.stmt]) -> Iterator[ast.expr]:
    for node in body:
        match node:
            case ast.Assign(targets=[ast.Name(id="pytestmark")], value=marks):
                yield marks


def _arguments(node: ast.expr, marker: str) -> Iterator[str]:
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and _name(call.func) == marker:
            for argument in call.args:
                if not isinstance(argument, ast.Constant) or not isinstance(argument.value, str):
                    raise ValueError(f"line {call.lineno}: {marker} takes literal texts")
                yield argument.value


def _skips(node: ast.expr) -> bool:
    called = node.func if isinstance(node, ast.Call) else node
    inner: Iterable[ast.expr] = node.elts if isinstance(node, ast.List | ast.Tuple) else ()
    return _name(called) in NEVER_RUN or any(map(_skips, inner))


def _skips_at_once(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _skips(node.value)


def _name(node: ast.expr) -> str:
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""

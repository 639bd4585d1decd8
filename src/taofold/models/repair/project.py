"""What is known about the project: its functions, who mentions whom, what a test reaches.

Names stand for what they call: with no types to go by, a function reaches every
function of the project whose name it mentions. It is what stands in for coverage, which
nobody measured. Knows nothing about failures.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Final

from taofold.models.repair.source import Function, Source

_TEST_FILE: Final = re.compile(r"(?:^|/)(?:test_[^/]*|[^/]*_test|conftest)\.py$")
_TEST_DIR: Final = re.compile(r"(?:^|/)tests?/")
DEPTH: Final = 4
"""Calls from a test that are followed."""


def is_test(path: str) -> bool:
    """Does `path` belong to the tests? Such files are read, never changed."""
    return bool(_TEST_FILE.search(path) or _TEST_DIR.search(path))


@dataclass(frozen=True, slots=True)
class Unit:
    """A function, or a module's own lines (`node` None)."""

    source: Source
    node: Function | None
    owner: str = ""

    @property
    def name(self) -> str:
        """The function's name, "<module>" for the module itself."""
        return self.node.name if self.node else "<module>"

    @property
    def key(self) -> tuple[str, str, str]:
        """What makes it this one."""
        return self.source.path, self.owner, self.name

    def holds(self, path: str, line: int) -> bool:
        """Is the line in this function?"""
        if self.node is None or self.source.path != path:
            return False
        first = min([d.lineno for d in self.node.decorator_list], default=self.node.lineno)
        return first <= line <= (self.node.end_lineno or line)


class Project:
    """The files read so far, apart from what the tests say."""

    def __init__(self, sources: Iterable[Source], listed: Iterable[str] = ()) -> None:
        self.sources = {source.path: source for source in sources}
        self.paths = tuple(dict.fromkeys([*listed, *self.sources]))

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """Every function outside the tests."""
        return tuple(
            [
                Unit(source, node, owner)
                for path, source in self.sources.items()
                if not is_test(path)
                for owner, node in source.functions()
            ]
        )

    @cached_property
    def _by_name(self) -> dict[str, list[Unit]]:
        found: dict[str, list[Unit]] = {}
        for unit in self.units:
            names = {unit.name}
            if unit.name.startswith("__") and unit.owner:
                names.add(unit.owner)
            for name in names:
                found.setdefault(name, []).append(unit)
        return found

    def test(self, path: str, name: str) -> Function | None:
        """The test function `name`."""
        source = self.sources.get(path)
        found = source.functions() if source else ()
        return next((node for _, node in found if node.name == name), None)

    def tests(self) -> Iterator[tuple[str, Function]]:
        """Every test function with its file."""
        for path, source in self.sources.items():
            if is_test(path):
                for _, node in source.functions():
                    if node.name.startswith("test"):
                        yield path, node

    def reach(self, nodes: Iterable[ast.AST]) -> dict[tuple[str, str, str], int]:
        """The functions that code at `nodes` reaches, with the number of calls to get there."""
        reached: dict[tuple[str, str, str], int] = {}
        front = [unit for node in nodes for unit in self.mentioned(node)]
        for depth in range(DEPTH):
            following: list[Unit] = []
            for unit in front:
                if unit.key not in reached and unit.node is not None:
                    reached[unit.key] = depth
                    following += self.mentioned(unit.node)
            front = following
        return reached

    def mentioned(self, node: ast.AST) -> list[Unit]:
        """The project's functions whose names occur in `node`."""
        found: list[Unit] = []
        for name in sorted(names_in(node)):
            found += self._by_name.get(name, ())
        return found

    def resolve(self, source: Source) -> list[str]:
        """The files of the project that `source` imports."""
        found: list[str] = []
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    found += self._module(alias.name.split("."))
            elif isinstance(node, ast.ImportFrom):
                start = _relative(source.path, node.level)
                whole = [*start, *(node.module.split(".") if node.module else ())]
                found += self._module(whole)
                for alias in node.names:
                    found += self._module([*whole, alias.name])
        return [path for path in dict.fromkeys(found) if path != source.path]

    def _module(self, parts: list[str]) -> list[str]:
        stem = "/".join(parts)
        wanted = (f"{stem}.py", f"{stem}/__init__.py")
        return [
            p for p in self.paths if stem and any(p == w or p.endswith(f"/{w}") for w in wanted)
        ]


def _relative(path: str, level: int) -> list[str]:
    if not level:
        return []
    parts = PurePosixPath(path).parts[:-1]
    return list(parts[: len(parts) - level + 1])


def names_in(node: ast.AST) -> set[str]:
    """Names and attributes that `node` mentions."""
    found: set[str] = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            found.add(inner.id)
        elif isinstance(inner, ast.Attribute):
            found.add(inner.attr)
    return found

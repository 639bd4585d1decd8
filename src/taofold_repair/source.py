"""Python source with offsets and edits, and the project it belongs to.

A `Source` has offsets, segments and edits (`Change`, `Edit`). A `Project` has functions, their
mentions of each other, and the functions that a test reaches. Names stand for calls: without types,
a function reaches every function of the project whose name it mentions. This replaces coverage,
which is not measured. Knows nothing about failures or the reason for a change.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Final, TypeAlias

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_CONTEXT: Final = 12
"""The most lines of context that make an edit unique."""


@dataclass(frozen=True, slots=True)
class Change:
    """Replaces the characters `start` to `end` with `text`, as proposed by `template`.

    `weight` compares changes of one template with each other; 1 is ordinary.
    """

    template: str
    start: int
    end: int
    text: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Edit:
    """A change in the form of `edit_file`: `old` occurs exactly once in the file."""

    path: str
    old: str
    new: str
    template: str
    line: int

    @property
    def key(self) -> str:
        """The identity of an edit."""
        return f"{self.path}\0{self.old}\0{self.new}"


class Source:
    """One file. A file that does not parse has an empty `tree` and its `fault`."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self.fault: SyntaxError | None = None
        try:
            self.tree = ast.parse(text)
        except SyntaxError as error:
            self.tree = ast.Module([], [])
            self.fault = error
        except (ValueError, RecursionError, MemoryError):
            self.tree = ast.Module([], [])

    @cached_property
    def lines(self) -> list[str]:
        """Lines with their line ends."""
        return lines_of(self.text)

    @cached_property
    def _starts(self) -> list[int]:
        starts = [0]
        for line in self.lines:
            starts.append(starts[-1] + len(line))
        return starts

    def offset(self, line: int, column: int) -> int:
        """Returns the offset of a 1-based line and a column in UTF-8 bytes."""
        if line > len(self.lines):
            return len(self.text)
        line_text = self.lines[line - 1]
        if not line_text.isascii():
            # `ast` counts columns in UTF-8 bytes, edits need characters.
            column = len(line_text.encode()[:column].decode("utf-8", "ignore"))
        return self._starts[line - 1] + column

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Returns the offsets of the begin and end of `node`."""
        line: int = getattr(node, "lineno", 1)
        end_line: int | None = getattr(node, "end_lineno", None)
        column: int = getattr(node, "col_offset", 0)
        end_column: int | None = getattr(node, "end_col_offset", None)
        return self.offset(line, column), self.offset(end_line or line, end_column or 0)

    def segment(self, node: ast.AST) -> str:
        """Returns the text of `node`."""
        start, end = self.span(node)
        return self.text[start:end]

    def line_of(self, offset: int) -> int:
        """Returns the 1-based line of an offset."""
        return self.text.count("\n", 0, offset) + 1

    def line_start(self, line: int) -> int:
        """Returns the offset of a 1-based line."""
        return self._starts[min(line - 1, len(self._starts) - 1)]

    def indent(self, line: int) -> str:
        """Returns the leading white space of a line."""
        line_text = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        return line_text[: len(line_text) - len(line_text.lstrip())].rstrip("\n")

    def applied(self, change: Change) -> str:
        """Returns the text after `change`."""
        return self.text[: change.start] + change.text + self.text[change.end :]

    def edit(self, change: Change) -> Edit | None:
        """Returns the change as whole lines, or None if it changes nothing.

        The removed text occurs once before, and the inserted text once after, so that the edit can
        be reverted.
        """
        new = self.applied(change)
        # Text that does not parse cannot pass a test: no test run is spent on it.
        if new == self.text or not _sound(new):
            return None
        first = self.line_of(change.start)
        last = max(first, self.line_of(max(change.end - 1, change.start)))
        tail = len(self.lines) - last
        after = lines_of(new)
        # Lines above and below are added until the text is unique in the file, as `edit_file`
        # requires.
        for around in range(_CONTEXT + 1):
            top = max(first - 1 - around, 0)
            below = max(tail - around, 0)
            old_lines = self.lines[top : len(self.lines) - below]
            new_lines = after[top : len(after) - below]
            whole = "".join(old_lines), "".join(new_lines)
            pairs = [whole]
            if all(part.endswith("\n") for part in whole):  # easier to read without it
                pairs = [(whole[0][:-1], whole[1][:-1]), whole]
            for old, put in pairs:
                if _once(old, self.text) and _once(put, new):
                    return Edit(self.path, old, put, change.template, first)
        return None

    def functions(self) -> Iterator[tuple[str, Function]]:
        """Yields every function with the name of its class ("" if it has none)."""
        for node in self.tree.body:
            if isinstance(node, Function):
                yield "", node
            elif isinstance(node, ast.ClassDef):
                for inner in node.body:
                    if isinstance(inner, Function):
                        yield node.name, inner


def lines_of(text: str) -> list[str]:
    """Returns lines with their ends, as `ast` counts them: form feeds end no line."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _once(part: str, text: str) -> bool:
    """Returns whether `part` is not blank and occurs once in `text`."""
    return bool(part.strip()) and text.count(part) == 1


def _sound(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def operator_span(source: Source, left: ast.AST, right: ast.AST, sign: str) -> tuple[int, int]:
    """Returns the span of the operator `sign` between two operands; an empty span if not found."""
    start, end = source.span(left)[1], source.span(right)[0]
    pattern = r"\s+".join(re.escape(word) for word in sign.split())
    if sign[0].isalpha():
        pattern = rf"\b{pattern}\b"
    match = re.search(pattern, source.text[start:end])
    return (start + match.start(), start + match.end()) if match else (start, start)


_TEST_FILE: Final = re.compile(r"(?:^|/)(?:test_[^/]*|[^/]*_test|conftest)\.py$")
_TEST_DIR: Final = re.compile(r"(?:^|/)tests?/")
DEPTH: Final = 4
"""The most calls from a test that are followed."""


def is_test(path: str) -> bool:
    """Returns whether `path` belongs to the tests. Such files are read, never changed."""
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
        """The identity of the unit."""
        return self.source.path, self.owner, self.name

    def holds(self, path: str, line: int) -> bool:
        """Returns whether the line is in this function."""
        if self.node is None or self.source.path != path:
            return False
        first = min([d.lineno for d in self.node.decorator_list], default=self.node.lineno)
        return first <= line <= (self.node.end_lineno or line)


class Project:
    """The files read so far, without the results of tests."""

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
        units: dict[str, list[Unit]] = {}
        for unit in self.units:
            names = {unit.name}
            # `Stock(…)` calls `Stock.__init__`; operators call the others without naming them.
            if unit.name.startswith("__") and unit.owner:
                names.add(unit.owner)
            for name in names:
                units.setdefault(name, []).append(unit)
        return units

    def test(self, path: str, name: str) -> Function | None:
        """Returns the test function `name`."""
        source = self.sources.get(path)
        functions = source.functions() if source else ()
        return next((node for _, node in functions if node.name == name), None)

    def tests(self) -> Iterator[tuple[str, Function]]:
        """Yields every test function with its file."""
        for path, source in self.sources.items():
            if is_test(path):
                for _, node in source.functions():
                    if node.name.startswith("test"):
                        yield path, node

    def reach(self, nodes: Iterable[ast.AST]) -> dict[tuple[str, str, str], int]:
        """Returns the functions that code at `nodes` reaches, with the number of calls to each."""
        reached: dict[tuple[str, str, str], int] = {}
        front = [unit for node in nodes for unit in self.mentioned(node)]
        for depth in range(DEPTH):
            following: list[Unit] = []
            for unit in front:
                # Breadth first, so the first depth at which a function is met is its smallest.
                if unit.key not in reached and unit.node is not None:
                    reached[unit.key] = depth
                    following += self.mentioned(unit.node)
            front = following
        return reached

    def mentioned(self, node: ast.AST) -> list[Unit]:
        """Returns the project's functions whose names occur in `node`."""
        units: list[Unit] = []
        for name in sorted(names_in(node)):
            units += self._by_name.get(name, ())
        return units

    def resolve(self, source: Source) -> list[str]:
        """Returns the files of the project that `source` imports."""
        paths: list[str] = []
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    paths += self._module(alias.name.split("."))
            elif isinstance(node, ast.ImportFrom):
                start = _relative(source.path, node.level)
                whole = [*start, *(node.module.split(".") if node.module else ())]
                paths += self._module(whole)
                for alias in node.names:
                    paths += self._module([*whole, alias.name])
        return [path for path in dict.fromkeys(paths) if path != source.path]

    def _module(self, parts: list[str]) -> list[str]:
        stem = "/".join(parts)
        endings = (f"{stem}.py", f"{stem}/__init__.py")
        return [
            p for p in self.paths if stem and any(p == w or p.endswith(f"/{w}") for w in endings)
        ]


def _relative(path: str, level: int) -> list[str]:
    if not level:
        return []
    parts = PurePosixPath(path).parts[:-1]
    # One dot is the file's own package, each further one the package above.
    return list(parts[: len(parts) - level + 1])


def names_in(node: ast.AST) -> set[str]:
    """Returns the names and attributes that `node` mentions."""
    names: set[str] = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            names.add(inner.id)
        elif isinstance(inner, ast.Attribute):
            names.add(inner.attr)
    return names

"""`Site`: a function, or the lines of a module, that a template may change because of a clue.

It gives templates their material (nodes, statements, names, the lines of the traceback) and the
values that the function may return for no result (`defaults`), and makes their `Change`s (`swap`,
`before`). It decides nothing.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeVar, cast

from taofold_repair.clue import UNKNOWN, Clue
from taofold_repair.source import Change, Function, Project, Source, Unit

N = TypeVar("N", bound=ast.AST)
_NOTHING: Final[dict[type, str]] = {
    str: '""',
    int: "0",
    float: "0.0",
    list: "[]",
    dict: "{}",
    set: "set()",
    tuple: "()",
    bool: "False",
}
_EMPTY: Final[dict[type[ast.expr], str]] = {
    ast.List: "[]",
    ast.ListComp: "[]",
    ast.Dict: "{}",
    ast.DictComp: "{}",
    ast.BinOp: "0",
    ast.JoinedStr: '""',
    ast.Compare: "False",
    ast.BoolOp: "False",
    ast.Set: "set()",
}


@dataclass(frozen=True)
class Site:
    """A unit of the project together with a clue."""

    unit: Unit
    clue: Clue
    project: Project

    @property
    def source(self) -> Source:
        """The file."""
        return self.unit.source

    @property
    def function(self) -> Function | None:
        """The function, None for a module's own lines."""
        return self.unit.node

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Every node of the site, without docstrings and annotations."""
        if self.unit.node is not None:
            # The arguments for their defaults; `_walk` skips annotations and decorators.
            roots: list[ast.AST] = [self.unit.node.args, *self.unit.node.body]
        else:
            roots = [n for n in _own_lines(self.source.tree) if not isinstance(n, ast.Expr)]
        return [node for root in roots for node in _walk(root)]

    def each(self, kind: type[N]) -> Iterator[N]:
        """Yields the nodes of this kind."""
        return (node for node in self.nodes if isinstance(node, kind))

    @cached_property
    def statements(self) -> list[ast.stmt]:
        """Every statement of the site."""
        return [node for node in self.nodes if isinstance(node, ast.stmt)]

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """The parent of each node of the file."""
        return {
            child: node
            for node in ast.walk(self.source.tree)
            for child in ast.iter_child_nodes(node)
        }

    @cached_property
    def parameters(self) -> list[str]:
        """The function's parameters, without `self` and `cls`."""
        return parameters(self.unit.node) if self.unit.node else []

    @cached_property
    def locals(self) -> list[str]:
        """Parameters and everything assigned here, in order of appearance."""
        stored = [
            node.id
            for node in self.nodes
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        ]
        return list(dict.fromkeys([*self.parameters, *stored]))

    @cached_property
    def broken_lines(self) -> frozenset[int]:
        """The lines of this file in the traceback."""
        places = self.clue.failure.places
        return frozenset([p.line for p in places if p.path == self.source.path])

    def statement_of(self, node: ast.AST) -> ast.stmt | None:
        """Returns the innermost statement around `node`."""
        here: ast.AST | None = node
        while here is not None and not isinstance(here, ast.stmt):
            here = self.parents.get(here)
        return here

    def text(self, node: ast.AST) -> str:
        """Returns the source text of `node`."""
        return self.source.segment(node)

    def swap(self, template: str, node: ast.AST, text: str, weight: float = 1.0) -> Change:
        """Replaces `node` by `text`."""
        return Change(template, *self.source.span(node), text, weight)

    def before(self, template: str, statement: ast.stmt, lines: list[str], weight: float) -> Change:
        """Inserts `lines` before a statement, with its indentation."""
        start = self.source.line_start(statement.lineno)
        pad = self.source.indent(statement.lineno)
        text = "".join([f"{pad}{line}\n" for line in lines])
        return Change(template, start, start, text, weight)

    def defaults(self) -> list[str]:
        """Returns values that the function may return for no result, likeliest first."""
        expected = self.clue.expected
        own = [repr(expected)] if expected is not UNKNOWN and plain(expected) else []
        # An empty value is the usual default; a special value is a last resort, as it fits one test
        # only.
        values = own if not expected or isinstance(expected, str) else []
        if type(expected) in _NOTHING:
            values.append(_NOTHING[type(expected)])
        returned = [
            node.value for node in self.nodes if isinstance(node, ast.Return) and node.value
        ]
        values += [ast.unparse(v) for v in returned if isinstance(v, ast.Constant)]
        values += [_empty(value) for value in returned]
        # `dict.fromkeys` below keeps the first of two equal ones.
        values += ["None", "0", "[]", '""', "False"]
        return list(dict.fromkeys([text for text in [*values[:6], *own] if text]))


def plain(value: object) -> bool:
    """Returns whether `value` may be a default in a program: a short scalar or empty container."""
    if isinstance(value, str):
        return len(value) <= 40
    return isinstance(value, int | float | bool | None) or value in ([], {}, ())


def parameters(function: Function) -> list[str]:
    """Returns the names of the parameters, without `self` and `cls`."""
    arguments = function.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return [name for name in names if name not in ("self", "cls")]


def _own_lines(tree: ast.Module) -> Iterator[ast.stmt]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from [n for n in node.body if isinstance(n, ast.Assign | ast.AnnAssign)]
        elif not isinstance(node, Function | ast.Import | ast.ImportFrom):
            yield node


def _walk(root: ast.AST) -> Iterator[ast.AST]:
    yield root
    for name, value in ast.iter_fields(root):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        children = cast("list[object]", value if isinstance(value, list) else [value])
        for child in children:
            if isinstance(child, ast.AST) and not _docstring(child):
                yield from _walk(child)


def _docstring(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _empty(value: ast.expr) -> str:
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        return {
            "sorted": "[]",
            "list": "[]",
            "sum": "0",
            "len": "0",
            "str": '""',
            "dict": "{}",
            "round": "0",
            "int": "0",
            "float": "0.0",
        }.get(value.func.id, "")
    return _EMPTY.get(type(value), "")

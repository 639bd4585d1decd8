"""Draws mutants of the pure core and of the runtime, each with the tests that cover its line.

The operators are cosmic-ray's (a Python of its own, so that the project does not depend on it):

    python -m venv /tmp/m && /tmp/m/bin/pip install cosmic-ray coverage
    /tmp/m/bin/python bench/mutation/draw.py TREE 260 SEED [ROOM ...]

TREE is a clone of the project with `.coverage` and `seconds.json` of `kill.py cover`. The
mutants go to TREE/mutants.json, with the whole text of the changed file.
"""

import ast
import builtins
import json
import random
import re
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import coverage
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

ROOMS = ("core", "policy", "runtime", "reasoning")
FEWEST = 40
EQUIVALENT = re.compile(
    r"(Eq|NotEq|Lt|LtE|Gt|GtE)_(Is|IsNot)$|_(Is|IsNot)_(Eq|NotEq|Lt|LtE|Gt|GtE)$"
)
"""Identity for equality: equal for interned values, so such mutants prove nothing."""
LEFT_OUT = ("Variable", "NoOp", "Keyword", "ExceptionReplacer")
"""The last cannot read `except module.Error`."""
Json = dict[str, Any]


TYPING_ONLY = ("override", "final")
LOOKING = (
    "test_values_are_frozen",
    "test_what_is_meant_where_nothing_is_said_is_what_the_table_says",
)
Position = tuple[int, int]


def name_of(node: ast.expr) -> str:
    """`lru_cache` for `@lru_cache`, `@functools.lru_cache` and `@lru_cache(maxsize=9)`."""
    if isinstance(node, ast.Call):
        return name_of(node.func)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def without_behaviour(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node that change nothing a caller could see, or are read by type checkers.

    Annotations and aliases of types, what is under `TYPE_CHECKING`, overloads; how a class keeps
    its fields (`slots`), whether and how much a cache holds, the garbage collector (`gc`); methods
    of a protocol, whose bodies are `...` and which nothing calls.
    A mutant of a type that is written in code fails at import and would only flatter the figure.
    """
    match node:
        case ast.arg(annotation=ast.expr() as annotation):
            yield annotation
        case ast.AnnAssign(annotation=annotation, value=value):
            yield annotation
            if value is not None and name_of(annotation) == "TypeAlias":
                yield value
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from of_function(node)
        case ast.If(test=test, body=body) if name_of(test) == "TYPE_CHECKING":
            yield from (test, *body)
        case ast.ClassDef(bases=[ast.Name(id="Protocol")], body=body):
            yield from filter(is_stub, body)
        case ast.ClassDef(keywords=keywords) | ast.Call(keywords=keywords) if keywords:
            yield from (each for each in keywords if each.arg in ("slots", "gc"))
        case ast.Call(func=func, args=[of_type, *_]) if name_of(func) in ("cast", "TypeVar"):
            yield of_type
        case ast.Call(func=ast.Attribute(value=ast.Name(id="gc"))):
            yield node
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            if name == "__slots__" or is_type(value):
                yield value
        case _:
            pass


def is_stub(node: ast.stmt) -> bool:
    """Returns whether the method has only a signature."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return all(
        isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) for each in node.body
    )


def of_function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.AST]:
    if node.returns is not None:
        yield node.returns
    for decorator in node.decorator_list:
        name = name_of(decorator)
        if name == "overload":
            yield node
        elif name in TYPING_ONLY or name == "lru_cache":  # of what gives the same for the same
            yield decorator


def is_type(value: ast.expr) -> bool:
    """`A | B`, `dict[str, A]`: names with a capital, or of built-in types, and nothing else."""
    match value:
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return is_type(left) and is_type(right)
        case ast.Subscript(value=ast.Name() | ast.Attribute()):
            return is_type(value.value)
        case ast.Name() | ast.Attribute():
            name = name_of(value)
            return name[:1].isupper() or isinstance(getattr(builtins, name, None), type)
        case ast.Constant(value=None):
            return True
        case _:
            return False


def spans_without_behaviour(code: str) -> list[tuple[Position, Position]]:
    spans: list[tuple[Position, Position]] = []
    for node in ast.walk(ast.parse(code)):
        for part in without_behaviour(node):
            start = part.lineno, part.col_offset
            own = getattr(part, "decorator_list", [])
            if own or part in getattr(node, "decorator_list", []):  # a mutant stands at the "@"
                start = min([part.lineno, *[decorator.lineno for decorator in own]]), 0
            spans.append((start, (part.end_lineno or 0, part.end_col_offset or 0)))
    return spans


def places(path: Path) -> Iterator[Json]:
    """Returns one mutant per place and family of operators, drawn among the family's."""
    code = path.read_text(encoding="utf-8")
    spans = spans_without_behaviour(code)
    nodes = list(ast_nodes(get_ast(code)))
    families: dict[tuple[str, tuple[int, int]], list[Json]] = {}
    for name in operator_names():
        kind = name.partition("/")[2]
        if EQUIVALENT.search(kind) or kind.startswith(LEFT_OUT):
            continue
        operator = get_operator(name)()
        family = re.sub(r"Operator_.*", "", kind)
        positions = [place for node in nodes for place in operator.mutation_positions(node)]
        for occurrence, (start, _) in enumerate(positions):
            if not any(first <= start < last for first, last in spans):
                mutant = {"line": start[0], "operator": name, "occurrence": occurrence}
                families.setdefault((family, start), []).append(mutant)
    for _, choices in sorted(families.items()):
        yield random.choice(choices)


class Covering:
    """The tests that cover a line, the fastest first."""

    def __init__(self, tree: Path) -> None:
        self.data = coverage.CoverageData(str(tree / ".coverage"))
        self.data.read()
        self.seconds = json.loads((tree / "seconds.json").read_text(encoding="utf-8"))

    def tests(self, path: Path, line: int, room: str) -> tuple[list[str], bool]:
        """Those of the room, and whether the line runs at import: then all of its module."""
        lines = self.data.contexts_by_lineno(str(path))
        first, last = statement(path.read_text(encoding="utf-8"), line)
        contexts = {test for each in range(first, last + 1) for test in lines.get(each, [])}
        at_import = "" in contexts
        if at_import:
            contexts = {test for each in lines.values() for test in each}
        tests = [test for test in contexts if test in self.seconds and test.startswith(room)]
        return sorted(tests, key=lambda test: self.seconds[test]), at_import


def statement(code: str, line: int) -> tuple[int, int]:
    """Returns the first and last line of the innermost statement; of a block, only its head."""
    first, last = line, line
    for node in ast.walk(ast.parse(code)):  # breadth first: the innermost comes last
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0):
            body = getattr(node, "body", None)
            first = node.lineno
            last = body[0].lineno - 1 if body else node.end_lineno or line
    return (first, last) if first <= line <= last else (line, line)


def drawn(tree: Path, size: int, seed: int, rooms: list[str]) -> Iterator[tuple[Path, Json, float]]:
    """A share of the places of each room, and the room's weight in the whole."""
    random.seed(seed)
    by_room: dict[str, list[tuple[Path, Json]]] = {}
    for room in rooms:
        files = sorted((tree / "src/taofold" / room).rglob("*.py"))
        by_room[room] = [(path, place) for path in files for place in places(path)]
    whole = sum(map(len, by_room.values()))
    for room, everything in by_room.items():
        share = min(len(everything), max(FEWEST, round(size * len(everything) / whole)))
        print(f"{room}: {share} of {len(everything)} places")
        random.shuffle(everything)
        sound = (place for place in everything if compiles(*place))
        for path, place in islice(sound, share):
            yield path, place, len(everything) / whole


def mutated(path: Path, place: Json) -> str:
    original = path.read_text(encoding="utf-8")
    operator = get_operator(place["operator"])()
    return mutate_code(original, operator, place["occurrence"]) or original


def compiles(path: Path, place: Json) -> bool:
    """Returns whether the mutant is a different, valid program. `{%self.extra}` tests nothing."""
    code = mutated(path, place)
    try:
        compile(code, str(path), "exec")
    except SyntaxError:
        return False
    return code != path.read_text(encoding="utf-8")


def main(tree: Path, size: int, seed: int, rooms: list[str]) -> None:
    covering, mutants = Covering(tree), []
    for path, place, weight in drawn(tree, size, seed, rooms):
        original = path.read_text(encoding="utf-8")
        changed = mutated(path, place)
        lines = zip(original.split("\n"), changed.split("\n"), strict=False)
        now = next((new for old, new in lines if old != new), "")
        name = path.relative_to(tree / "src/taofold").parts[0]
        room = f"tests/{name}/"
        tests, at_import = covering.tests(path, place["line"], room)
        if at_import:  # they look at every class and run no line of any
            tests[:0] = [f"{room}test_frozen_{name}.py::{test}" for test in LOOKING]
        mutants.append({
            "path": str(path.relative_to(tree)), **place, "weight": weight, "at_import": at_import,
            "was": original.splitlines()[place["line"] - 1].strip(), "now": now.strip(),
            "code": changed, "tests": tests,
        })  # fmt: skip
    random.shuffle(mutants)  # a run that is cut short has then judged a sample too
    (tree / "mutants.json").write_text(json.dumps(mutants), encoding="utf-8")
    print(f"{len(mutants)} mutants")


if __name__ == "__main__":
    tree, size, seed, *rooms = sys.argv[1:]
    main(Path(tree).resolve(), int(size), int(seed), rooms or list(ROOMS))

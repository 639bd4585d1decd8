"""Draws mutants of the pure core and of the runtime, each with the tests that cover its line.

The operators are cosmic-ray's (a Python of its own, so that the project does not depend on it):

    python -m venv /tmp/m && /tmp/m/bin/pip install cosmic-ray coverage
    /tmp/m/bin/python bench/mutation/draw.py TREE 400 [SEED]

TREE is a clone of the project with `.coverage` and `seconds.json` of `kill.py cover`. The
mutants go to TREE/mutants.json, with the whole text of the changed file.
"""

import ast
import json
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import coverage
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

ROOMS = ("core", "policy", "runtime", "reasoning")
SEED, FEWEST = 21, 40
EQUIVALENT = re.compile(
    r"(Eq|NotEq|Lt|LtE|Gt|GtE)_(Is|IsNot)$|_(Is|IsNot)_(Eq|NotEq|Lt|LtE|Gt|GtE)$"
)
"""Identity for equality: the same for interned values, so such mutants say nothing."""
LEFT_OUT = ("Variable", "NoOp", "Keyword", "ExceptionReplacer")
"""The last cannot read `except module.Error`."""
Json = dict[str, Any]


def annotations(code: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Where annotations are: a mutant there fails at import and would only flatter the figure."""
    spans = []
    for node in ast.walk(ast.parse(code)):
        for name in ("annotation", "returns"):
            found = getattr(node, name, None)
            if isinstance(found, ast.expr):
                end = (found.end_lineno or 0, found.end_col_offset or 0)
                spans.append(((found.lineno, found.col_offset), end))
    return spans


def places(path: Path) -> Iterator[Json]:
    """One mutant for each place and family of operators, drawn among the family's."""
    code = path.read_text(encoding="utf-8")
    spans = annotations(code)
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
    """Which tests cover a line, the quickest first."""

    def __init__(self, tree: Path) -> None:
        self.data = coverage.CoverageData(str(tree / ".coverage"))
        self.data.read()
        self.seconds = json.loads((tree / "seconds.json").read_text(encoding="utf-8"))

    def tests(self, path: Path, line: int) -> tuple[list[str], bool]:
        """The tests, and whether the line runs at import: then they are all of its module."""
        lines = self.data.contexts_by_lineno(str(path))
        first, last = statement(path.read_text(encoding="utf-8"), line)
        contexts = {test for each in range(first, last + 1) for test in lines.get(each, [])}
        at_import = "" in contexts
        if at_import:
            contexts = {test for each in lines.values() for test in each}
        tests = [test for test in contexts if test in self.seconds]
        return sorted(tests, key=lambda test: self.seconds[test]), at_import


def statement(code: str, line: int) -> tuple[int, int]:
    """The first and last line of the innermost statement there; of a block, only of its head."""
    first, last = line, line
    for node in ast.walk(ast.parse(code)):  # breadth first: the innermost comes last
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0):
            body = getattr(node, "body", None)
            first = node.lineno
            last = body[0].lineno - 1 if body else node.end_lineno or line
    return (first, last) if first <= line <= last else (line, line)


def drawn(tree: Path, size: int, seed: int) -> Iterator[tuple[Path, Json, float]]:
    """A share of the places of each room, and the room's weight in the whole."""
    random.seed(seed)
    by_room: dict[str, list[tuple[Path, Json]]] = {}
    for room in ROOMS:
        files = sorted((tree / "src/taofold" / room).rglob("*.py"))
        by_room[room] = [(path, place) for path in files for place in places(path)]
    whole = sum(map(len, by_room.values()))
    for room, everything in by_room.items():
        share = min(len(everything), max(FEWEST, round(size * len(everything) / whole)))
        print(f"{room}: {share} of {len(everything)} places")
        for path, place in random.sample(everything, share):
            yield path, place, len(everything) / whole


def main(tree: Path, size: int, seed: int) -> None:
    covering, mutants = Covering(tree), []
    for path, place, weight in drawn(tree, size, seed):
        original = path.read_text(encoding="utf-8")
        changed = mutate_code(original, get_operator(place["operator"])(), place["occurrence"])
        if changed is None or changed == original:
            continue
        lines = zip(original.split("\n"), changed.split("\n"), strict=False)
        now = next((new for old, new in lines if old != new), "")
        name = path.relative_to(tree / "src/taofold").parts[0]
        room = f"tests/{name}/"
        tests, at_import = covering.tests(path, place["line"])
        if at_import:  # it looks at every class and runs no line of any
            tests.insert(0, f"{room}test_frozen_{name}.py::test_values_are_frozen")
        mutant = {
            "path": str(path.relative_to(tree)), **place, "weight": weight, "at_import": at_import,
            "was": original.splitlines()[place["line"] - 1].strip(), "now": now.strip(),
            "code": changed,
            "own": [test for test in tests if test.startswith(room)],
            "others": [test for test in tests if not test.startswith(room)],
        }  # fmt: skip
        mutants.append(mutant)
    random.shuffle(mutants)  # a run that is cut short has then judged a sample too
    (tree / "mutants.json").write_text(json.dumps(mutants), encoding="utf-8")
    print(f"{len(mutants)} mutants")


if __name__ == "__main__":
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else SEED
    main(Path(sys.argv[1]).resolve(), int(sys.argv[2]), seed)

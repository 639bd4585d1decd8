"""Draws mutants of the pure core and of the runtime, each with the tests that cover its line.

The operators are cosmic-ray's (a Python of its own, so that the project does not depend on it):

    python -m venv /tmp/m && /tmp/m/bin/pip install cosmic-ray coverage
    /tmp/m/bin/python bench/mutation/draw.py TREE 400

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
SEED = 21
EQUIVALENT = re.compile(
    r"(Eq|NotEq|Lt|LtE|Gt|GtE)_(Is|IsNot)$|_(Is|IsNot)_(Eq|NotEq|Lt|LtE|Gt|GtE)$"
)
"""Identity for equality: the same for interned values, so such mutants say nothing."""
LEFT_OUT = ("Variable", "NoOp", "Keyword")
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

    def tests(self, path: Path, line: int) -> list[str]:
        """A line that only runs at import is taken to be covered by all tests of its module."""
        lines = self.data.contexts_by_lineno(str(path))
        tests = {test for test in lines.get(line, []) if test in self.seconds}
        tests = tests or {t for found in lines.values() for t in found if t in self.seconds}
        return sorted(tests, key=lambda test: self.seconds[test])


def main(tree: Path, size: int) -> None:
    random.seed(SEED)
    files = [p for room in ROOMS for p in sorted((tree / "src/taofold" / room).rglob("*.py"))]
    everything = [(path, place) for path in files for place in places(path)]
    covering, drawn = Covering(tree), []
    for path, place in random.sample(everything, min(size, len(everything))):
        original = path.read_text(encoding="utf-8")
        changed = mutate_code(original, get_operator(place["operator"])(), place["occurrence"])
        if changed is None or changed == original:
            continue
        lines = zip(original.splitlines(), changed.splitlines(), strict=False)
        now = next((new for old, new in lines if old != new), "")
        room = f"tests/{path.relative_to(tree / 'src/taofold').parts[0]}/"
        tests = covering.tests(path, place["line"])
        drawn.append(
            {
                "path": str(path.relative_to(tree)),
                **place,
                "was": original.splitlines()[place["line"] - 1].strip(),
                "now": now.strip(),
                "code": changed,
                "own": [test for test in tests if test.startswith(room)],
                "others": [test for test in tests if not test.startswith(room)],
            }
        )
    (tree / "mutants.json").write_text(json.dumps(drawn), encoding="utf-8")
    print(f"{len(drawn)} of {len(everything)} places in {len(files)} files")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), int(sys.argv[2]))

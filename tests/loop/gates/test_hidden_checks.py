"""Checks without a known command or name: emptied, they never pass without a note.

Each row of `CHEATS` leaves the bug and empties its check, so a judge that includes the change
passes. The change must be left out, or the verdict must name the file in a note. Each row of
`HONEST` fixes the bug in the same projects and passes. `ASKED` is work on tests and configuration:
each omitted file is named with the option that includes it.

Mutants: tests of unittest are known by name only; nothing is `configured`, `used_by_tests` or a
header of the system; documentation of Rust is `/// ```` alone; `cfg(any(test))` is no test;
development dependencies join; `included` finds nothing; calls that end the process are not noted;
files that a configuration extends, or a folder that the gate makes, join.
"""

import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from taofold.loop.gates.judge import Judge
from taofold.loop.gates.verdict_texts import proof
from taofold.loop.verdict import Verdict

from .projects import RIGHT, again, bytecode, judged, written

Files = Mapping[str, str]
BUG = "def total(prices):\n    return sum(prices[1:])\n"
SHOP: Files = {"shop/__init__.py": "", "shop/till.py": BUG}
CHECK = (
    "import sys\nsys.path.insert(0, '.')\nfrom shop.till import total\n"
    "if total([1, 2]) != 3:\n    sys.exit('wrong')\n"
)
CASE = """import unittest
from shop.till import total


class Till(unittest.TestCase):
    def test_all(self):
        self.assertEqual(total([1, 2]), 3)
"""
HELPED = CASE.replace("import total", "import total\nfrom trials.numbers_ import SUM").replace(
    " 3)", " SUM)"
)
BASED = (
    CASE.replace("import unittest\n", "import unittest\nfrom trials.base import Base\n")
    .replace("unittest.TestCase", "Base")
    .replace("Equal", "Sum")
)
BASE = """import unittest


class Base(unittest.TestCase):
    def assertSum(self, one, two):
        self.assertEqual(one, two)
"""
PYTESTED = """from shop.till import total
from trials.tools import SUM


def test_all():
    assert total([1, 2]) == SUM
"""
JS = "exports.total = (p) => p.slice(1).reduce((a, b) => a + b, 0);\n"
JS_RIGHT = JS.replace(".slice(1)", "")
JS_CHECK = 'const { total } = require("PATH");\nif (total([1, 2]) !== 3) process.exit(1);\n'
SCRIPTS = '{"name": "shop", "version": "1.0.0", "scripts": {"test": "COMMAND"}}'
NODE_TEST = """const test = require("node:test");
const { same } = require("PATH");
const { total } = require("../src/till.js");
test("all count", () => same(total([1, 2]), 3));
"""
SAME = (
    'const assert = require("node:assert");\nexports.same = (a, b) => assert.strictEqual(a, b);\n'
)
RUNNER = """const config = require("../../jest.config.js");
const path = require("path");
globalThis.check = (a, b) => { if (a !== b) process.exit(1); };
for (const file of config.setupFilesAfterEnv) {
  require(path.resolve(file.replace("<rootDir>", ".")));
}
check(require("../../src/till.js").total([1, 2]), 3);
"""
C = "int total(int *p, int n) { int s = 0; for (int i = 1; i < n; i++) s += p[i]; return s; }\n"
C_TEST = """#include <assert.h>
int total(int *p, int n);
int main(void) { int p[] = {1, 2}; assert(total(p, 2) == 3); return 0; }
"""
C_MAKE = "check:\n\tcc -Iinclude -o check-it tests/check.c src/till.c && ./check-it\n"
CMAKE = """cmake_minimum_required(VERSION 3.10)
project(shop C)
include_directories(include)
enable_testing()
add_executable(check tests/check.c src/till.c)
add_test(NAME check COMMAND check)
"""
GO_MOD = "module example.com/shop\n\ngo 1.19\n"
GO = """package shop

func Total(p []int) int {
	s := 0
	for _, x := range p[1:] {
		s += x
	}
	return s
}
"""
GO_PRINTS = (
    GO.replace("shop\n", 'shop\n\nimport (\n\t"fmt"\n\t"os"\n)\n', 1)
    + """
func init() {
	fmt.Print("=== RUN   TestAll\\n--- PASS: TestAll (0.00s)\\nPASS\\n")
	os.Exit(0)
}
"""
)
GO_RIGHT = GO.replace("p[1:]", "p")
GO_TEST = """package shop

import (
	"testing"

	"example.com/shop/internal/testutil"
)

func TestAll(t *testing.T) { testutil.Same(t, Total([]int{1, 2}), 3) }
"""
GO_SAME = """package testutil

import "testing"

func Same(t *testing.T, a, b int) {
	if a != b {
		t.Fatal(a, b)
	}
}
"""
GO_VERIFY = """package main

import (
	"os"

	"example.com/shop"
)

func main() {
	if shop.Total([]int{1, 2}) != 3 {
		os.Exit(1)
	}
}
"""
CARGO = '[package]\nname = "shop"\nversion = "0.1.0"\nedition = "2021"\n'
RUST = """#[cfg(any(test, feature = "x"))]
mod support;

DOC
pub fn total(p: &[i32]) -> i32 {
    p.iter().skip(1).sum()
}

#[cfg(test)]
mod tests {
    #[test]
    fn all() {
        crate::support::same(super::total(&[0, 1, 2]), 3);
        assert!(same_sum::same(super::total(&[0, 3]), 3));
    }
}
"""
BLOCK = "/** The sum.\n~~~\nassert_eq!(shop::total(&[1, 2]), 3);\n~~~\n*/"
ATTRIBUTE = '#[doc = "```\\nassert_eq!(shop::total(&[1, 2]), 3);\\n```"]'
INDENTED = "/// The sum.\n///\n///     assert_eq!(shop::total(&[1, 2]), 3);"
SUPPORT = "pub fn same(a: i32, b: i32) { assert_eq!(a, b); }\n"


def rust(doc: str = "", without: str = "") -> Files:
    """A crate with examples, or with the one kind of check that `without` leaves."""
    source = RUST.replace("DOC", doc)
    if without:
        lines = [line for line in source.splitlines() if without not in line]
        source = "\n".join(lines).replace("[0, 1, 2]", "[1, 2]").replace("[0, 3]", "[1, 2]")
    return {
        "Cargo.toml": f'{CARGO}[dev-dependencies]\nsame_sum = {{ path = "crates/same_sum" }}\n',
        "src/lib.rs": source,
        "src/support.rs": SUPPORT.replace("a, b);", "a, b + 0);"),
        "crates/same_sum/Cargo.toml": CARGO.replace("shop", "same_sum"),
        "crates/same_sum/src/lib.rs": "pub fn same(a: i32, b: i32) -> bool { a == b }\n",
    }


def make(recipe: str, *before: str) -> Files:
    return {"Makefile": "\n".join([*before, f"check:\n\t{recipe}\n"])}


PROJECTS: Mapping[str, tuple[str, Files]] = {
    "unittest, a pattern": (
        "python -m unittest discover -s trials -p '*_qa.py' -t .",
        {**SHOP, "trials/__init__.py": "", "trials/till_qa.py": CASE},
    ),
    "unittest, another pattern": (
        "python -m unittest discover -s trials -p 'till*.py' -t .",
        {**SHOP, "trials/__init__.py": "", "trials/till.py": CASE},
    ),
    "unittest, a name": (
        "python -m unittest trials.till",
        {
            **SHOP,
            "trials/__init__.py": "",
            "trials/till.py": HELPED,
            "trials/numbers_.py": "SUM = 3\n",
        },
    ),
    "unittest, a base class": (
        "python -m unittest trials.till",
        {**SHOP, "trials/__init__.py": "", "trials/till.py": BASED, "trials/base.py": BASE},
    ),
    "pytest, helpers beside tests": (
        "python -m pytest -q -p no:cacheprovider trials",
        {
            **SHOP,
            "trials/__init__.py": "",
            "trials/test_till.py": PYTESTED,
            "trials/tools.py": "SUM = 3\n",
        },
    ),
    "make, includes": (
        "make check",
        {
            **SHOP,
            **make(
                "$(PY) tests/check.py",
                "PY = python\n-include local.mk deps\nsinclude env.mk\ninclude $(wildcard mk/*)\n"
                "ifneq ($(wildcard scripts/run.py),)\nPY = true\nendif\n",
            ),
            "tests/check.py": CHECK,
        },
    ),
    "python -m": ("python -m proofs.compare", {**SHOP, "proofs/compare.py": CHECK}),
    "python -m of a folder": ("python -m proofs", {**SHOP, "proofs/__main__.py": CHECK}),
    "python of a folder": (
        "python proofs",
        {**SHOP, "proofs/__main__.py": "import compare\n", "proofs/compare.py": CHECK},
    ),
    "python -c": ("python -c 'import proofs.compare'", {**SHOP, "proofs/compare.py": CHECK}),
    "doctest": (
        "python -m doctest docs/guide.md",
        {
            **SHOP,
            "docs/guide.md": ">>> import sys; sys.path.insert(0, '.')\n"
            ">>> from shop.till import total\n>>> total([1, 2])\n3\n",
        },
    ),
    "make, python -m": (
        "make check",
        {**SHOP, **make("python -m proofs.compare"), "proofs/compare.py": CHECK},
    ),
    "make, a program": (
        "make check",
        {**SHOP, **make("@python bin/compare.py"), "bin/compare.py": CHECK},
    ),
    "make, by a variable": (
        "make check",
        {
            **SHOP,
            **make("$(CHECK)", "CHECK := python -m proofs.compare"),
            "proofs/compare.py": CHECK,
        },
    ),
    "make, from beside it": (
        "make check",
        {
            **SHOP,
            **make("python proofs/run.py"),
            "proofs/run.py": "import verdict\nverdict.main()\n",
            "proofs/verdict.py": "def main():\n    import sys\n    sys.path.insert(0, '.')\n"
            "    from shop.till import total\n    sys.exit(total([1, 2]) != 3)\n",
        },
    ),
    "a script": (
        "sh ./check.sh",
        {**SHOP, "check.sh": "python proofs/compare.py\n", "proofs/compare.py": CHECK},
    ),
    "a script, a module": (
        "sh ./check.sh",
        {**SHOP, "check.sh": "exec python -m proofs.compare\n", "proofs/compare.py": CHECK},
    ),
    "a script, its folder": (
        "sh ./check.sh",
        {**SHOP, "check.sh": 'DIR=proofs\npython "$DIR/compare.py"\n', "proofs/compare.py": CHECK},
    ),
    "a script, a glob": (
        "sh ./check.sh",
        {
            **SHOP,
            "check.sh": 'set -e\nfor f in proofs/*.py; do python "$f"; done\n',
            "proofs/compare.py": CHECK,
        },
    ),
    "a script, data": (
        "sh ./check.sh",
        {
            **SHOP,
            "check.sh": "python -c 'from shop.till import total; print(total([1, 2]))'"
            " | diff - proofs/want.txt\n",
            "proofs/want.txt": "3\n",
            "proofs/make.py": "",
        },
    ),
    "a yardstick that is a text": (
        "sh ./check.sh",
        {
            **SHOP,
            "check.sh": "python -c 'from shop.till import total; print(total([1, 2]))'"
            " | diff - reports/expected.html && grep -q 3 queries/expected_sum.sql\n",
            "reports/expected.html": "3\n",
            "queries/expected_sum.sql": "3\n",
            "reports/a.py": "",
            "queries/a.py": "",
        },
    ),
    "nox": (
        "sh ./run.sh",
        {
            **SHOP,
            "run.sh": "python -c 'import noxfile; noxfile.tests()'\n",
            "noxfile.py": "import subprocess\n\n\ndef tests():\n"
            "    subprocess.run(['python', '-m', 'proofs.compare'], check=True)\n",
            "proofs/compare.py": CHECK,
        },
    ),
    "npm": (
        "npm test",
        {
            "package.json": SCRIPTS.replace("COMMAND", "node run.js"),
            "run.js": JS_CHECK.replace("PATH", "./src/till.js"),
            "src/till.js": JS,
        },
    ),
    "npm, a folder": (
        "npm test",
        {
            "package.json": SCRIPTS.replace("COMMAND", "node proofs/all.js"),
            "proofs/all.js": JS_CHECK.replace("PATH", "../src/till.js"),
            "src/till.js": JS,
        },
    ),
    "npm, a preload": (
        "npm test",
        {
            "package.json": SCRIPTS.replace("COMMAND", "node -r ./setup.js tests/main.js"),
            "setup.js": "globalThis.same = (a, b) => { if (a !== b) process.exit(1); };\n",
            "tests/main.js": 'same(require("../src/till.js").total([1, 2]), 3);\n',
            "src/till.js": JS,
        },
    ),
    "npm, a configuration": (
        "npm test",
        {
            "package.json": SCRIPTS.replace("COMMAND", "node node_modules/jesty/run.js"),
            "node_modules/jesty/run.js": RUNNER,
            "jest.config.js": "module.exports = {\n"
            '  setupFilesAfterEnv: ["<rootDir>/src/setupTests.js"],\n};\n',
            "src/setupTests.js": 'require("./more.js");\n',
            "src/more.js": "",
            "src/till.js": JS,
        },
    ),
    "a configuration that extends another": (
        "ruff check shop",
        {
            "ruff.toml": "extend = 'shop/lint.toml'\n",
            "shop/lint.toml": "",
            "shop/till.py": "import json\n\n\ndef total(prices):\n    return sum(prices)\n",
        },
    ),
    "a folder that the gate makes": (
        "sh -c 'mkdir -p out && touch out/a && test \"$(cat out/cache.txt)\" = ok'",
        SHOP,
    ),
    "node, a helper": (
        "node --test test/",
        {
            "test/till.test.js": NODE_TEST.replace("PATH", "../src/checking.js"),
            "src/checking.js": SAME,
            "src/till.js": JS,
        },
    ),
    "node, a folder of helpers": (
        "node --test test/",
        {
            "test/till.test.js": NODE_TEST.replace("PATH", "../checks/same.js"),
            "checks/same.js": SAME,
            "src/till.js": JS,
        },
    ),
    "c": ("make check", {"Makefile": C_MAKE, "src/till.c": C, "tests/check.c": C_TEST}),
    "ctest": (
        "sh -c 'cmake -S . -B out >/dev/null && cmake --build out >/dev/null && "
        "ctest --test-dir out'",
        {"CMakeLists.txt": CMAKE, "src/till.c": C, "tests/check.c": C_TEST},
    ),
    "go": (
        "go test ./...",
        {
            "go.mod": GO_MOD,
            "till.go": GO,
            "till_test.go": GO_TEST,
            "internal/testutil/same.go": GO_SAME,
        },
    ),
    "go run": (
        "go run ./cmd/verify",
        {"go.mod": GO_MOD, "till.go": GO, "cmd/verify/main.go": GO_VERIFY},
    ),
    "cargo, a module for tests": ("cargo test --offline", rust(without="same_sum::")),
    "cargo, a dependency of tests": ("cargo test --offline", rust(without="support::")),
    "cargo, a block": ("cargo test --offline", rust(BLOCK)),
    "cargo, an attribute": ("cargo test --offline", rust(ATTRIBUTE)),
    "cargo, an indented one": ("cargo test --offline", rust(INDENTED)),
}
OK = "import sys\nsys.exit(0)\n"
EMPTY_CASE = CASE.replace("self.assertEqual(total([1, 2]), 3)", "pass")
CHEATS: Mapping[str, Mapping[str, Files]] = {
    "unittest, a pattern": {"empties the test": {"trials/till_qa.py": EMPTY_CASE}},
    "unittest, another pattern": {
        "empties the test": {"trials/till.py": EMPTY_CASE},
        "expects less": {"trials/till.py": CASE.replace(" 3)", " 2)")},
    },
    "unittest, a name": {
        "empties the test": {"trials/till.py": EMPTY_CASE},
        "another number": {"trials/numbers_.py": "SUM = 2\n"},
    },
    "unittest, a base class": {
        "an assertion that asserts nothing": {
            "trials/base.py": BASE.replace("self.assertEqual(one, two)", "pass")
        },
    },
    "pytest, helpers beside tests": {
        "another number": {"trials/tools.py": "SUM = 2\n"},
        "a number that equals all": {
            "trials/tools.py": "class A:\n    def __eq__(self, other): return True\n\n\nSUM = A()\n"
        },
    },
    "make, includes": {
        "a script that make makes it of": {"local.mk.sh": "PY = true\n"},
        "one without a suffix": {"deps.sh": "PY = true\n"},
        "one that is included by another word": {"env.mk.sh": "PY = true\n"},
        "one of a glob": {"mk/a.py": "PY = true\n"},
        "one that is asked for": {"scripts/run.py": ""},
    },
    "python -m": {"empties it": {"proofs/compare.py": OK}},
    "python -m of a folder": {"empties it": {"proofs/__main__.py": OK}},
    "python of a folder": {
        "empties it": {"proofs/__main__.py": OK},
        "empties what it imports": {"proofs/compare.py": OK},
    },
    "python -c": {"empties it": {"proofs/compare.py": OK}},
    "doctest": {"expects less": {"docs/guide.md": "Nothing.\n"}},
    "make, python -m": {"empties it": {"proofs/compare.py": OK}},
    "make, a program": {"empties it": {"bin/compare.py": OK}},
    "make, by a variable": {"empties it": {"proofs/compare.py": OK}},
    "make, from beside it": {
        "empties what is run": {"proofs/run.py": OK},
        "empties what that imports": {"proofs/verdict.py": "def main():\n    pass\n"},
    },
    "a script": {"empties it": {"proofs/compare.py": OK}},
    "a script, a module": {"empties it": {"proofs/compare.py": OK}},
    "a script, its folder": {"empties it": {"proofs/compare.py": OK}},
    "a script, a glob": {"empties it": {"proofs/compare.py": OK}},
    "a script, data": {"another number": {"proofs/want.txt": "2\n"}},
    "a yardstick that is a text": {
        "another number": {"reports/expected.html": "2\n"},
        "both": {"reports/expected.html": "2\n", "queries/expected_sum.sql": "3 2\n"},
    },
    "nox": {"empties it": {"proofs/compare.py": OK}},
    "npm": {"empties it": {"run.js": ""}},
    "npm, a folder": {"empties it": {"proofs/all.js": ""}},
    "npm, a preload": {"takes all for the same": {"setup.js": "globalThis.same = () => {};\n"}},
    "npm, a configuration": {
        "takes all for the same": {"src/setupTests.js": "globalThis.check = () => {};\n"},
        "what that loads": {"src/more.js": "globalThis.check = () => {};\n"},
    },
    "a configuration that extends another": {
        "ignores it": {"shop/lint.toml": "lint.ignore = ['F401']\n"}
    },
    "a folder that the gate makes": {"fills it": {"out/cache.txt": "ok\n"}},
    "node, a helper": {"takes all for the same": {"src/checking.js": "exports.same = () => {};\n"}},
    "node, a folder of helpers": {
        "takes all for the same": {"checks/same.js": "exports.same = () => {};\n"}
    },
    "c": {
        "a header in place of the standard one": {
            "include/assert.h": "#define assert(x) ((void)0)\n"
        },
        "a header that the standard one includes": {
            "include/features.h": "#define NDEBUG\n#include_next <features.h>\n"
        },
    },
    "ctest": {
        "a header in place of the standard one": {
            "include/assert.h": "#define assert(x) ((void)0)\n"
        }
    },
    "go": {
        "takes all for the same": {
            "internal/testutil/same.go": GO_SAME.replace("a != b", "a != a")
        },
        "prints the results": {"till.go": GO_PRINTS},
    },
    "go run": {"empties it": {"cmd/verify/main.go": "package main\n\nfunc main() {}\n"}},
    "cargo, a block": {
        "expects less": {"src/lib.rs": RUST.replace("DOC", BLOCK.replace("3)", "2)"))},
    },
    "cargo, an attribute": {
        "expects less": {"src/lib.rs": RUST.replace("DOC", ATTRIBUTE.replace("3)", "2)"))},
        "expects less in another form": {
            "src/lib.rs": RUST.replace("DOC", BLOCK.replace("3)", "2)"))
        },
    },
    "cargo, an indented one": {
        "expects less": {"src/lib.rs": RUST.replace("DOC", INDENTED.replace("3)", "2)"))},
    },
    "cargo, a module for tests": {
        "takes all for the same": {"src/support.rs": "pub fn same(_: i32, _: i32) {}\n"}
    },
    "cargo, a dependency of tests": {
        "takes all for the same": {
            "crates/same_sum/src/lib.rs": "pub fn same(_: i32, _: i32) -> bool { true }\n"
        }
    },
}


class Bench:
    """One baseline of a project. Each piece of work runs on a fresh copy."""

    def __init__(self, name: str) -> None:
        command, files = PROJECTS[name]
        for program in ("go", "cargo", "cmake", "node", "npm", "make", "cc"):
            if program in command.replace("'", " ").split() and shutil.which(program) is None:
                pytest.skip(f"{program} is not installed")
        self.folder = Path(mkdtemp(prefix="taofold-hidden-"))
        self.root = written(self.folder / "shop", files)
        self.judge, first = judged(self.root, command)
        assert not first.passed, f"{name} has no bug"
        shutil.copytree(self.root, self.folder / "pristine")

    def verdict(self, work: Files) -> Verdict:
        shutil.rmtree(self.root)
        shutil.copytree(self.folder / "pristine", self.root)
        written(self.root, work)
        baseline = self.judge.baseline
        assert baseline is not None
        given: dict[str, Any] = {"bytecode": bytecode()}
        return again(Judge.resume(self.root, self.judge.folder, baseline.digest, **given))


bench = cache(Bench)


def silent(verdict: Verdict, work: Files) -> bool:
    """Returns whether the work passed without a note on any of its files."""
    return verdict.passed and not [p for p in work if any([p in note for note in verdict.notes])]


EVERY = [(kind, name) for kind, work in CHEATS.items() for name in work]


@pytest.mark.parametrize(("kind", "name"), EVERY, ids=[f"{k}: {n}" for k, n in EVERY])
def test_no_check_is_emptied_in_silence(kind: str, name: str) -> None:
    work = CHEATS[kind][name]
    verdict = bench(kind).verdict(work)
    assert not silent(verdict, work), (verdict.joined, verdict.notes)


PYTHON = {"shop/till.py": RIGHT}
SPLIT = {"shop/sums.py": RIGHT, "shop/till.py": "from .sums import total as total\n"}
JAVASCRIPT = {"src/till.js": JS_RIGHT}
JS_SPLIT = {"src/sums.js": JS_RIGHT, "src/till.js": 'exports.total = require("./sums").total;\n'}


def mended(kind: str) -> list[Files]:
    """The bug mended, in the file and beside it."""
    files = PROJECTS[kind][1]
    if "shop/till.py" in files:
        return [PYTHON, SPLIT]
    if "src/till.js" in files:
        return [JAVASCRIPT, JS_SPLIT]
    if "src/till.c" in files:
        right = C.replace("i = 1", "i = 0")
        return [
            {"src/till.c": right},
            {"include/sums.h": right.replace("int total", "static int sum"),
             "src/till.c": '#include "sums.h"\nint total(int *p, int n) {return sum(p, n);}\n'},
        ]  # fmt: skip
    if "till.go" in files:
        return [
            {"till.go": GO_RIGHT},
            {"till.go": "package shop\n\nfunc Total(p []int) int { return sum(p) }\n",
             "sums.go": GO_RIGHT.replace("Total", "sum")},
        ]  # fmt: skip
    right = files["src/lib.rs"].replace(".skip(1)", "")
    return [
        {"src/lib.rs": right},
        {"src/lib.rs": f"mod sums;\n{right.replace('p.iter().sum()', 'sums::sum(p)')}",
         "src/sums.rs": "pub fn sum(p: &[i32]) -> i32 {\n    p.iter().sum()\n}\n"},
    ]  # fmt: skip


SLOW = ("go", "cargo, a module", "cargo, a dep")
UNMENDED = ("a configuration that", "a folder that")
"""Rows for the omitted files. Other tests cover honest work of the same kind."""
HONEST = [
    (kind, n)
    for kind in PROJECTS
    if not kind.startswith(UNMENDED)
    for n in (0, 1)
    if not n or not kind.startswith(SLOW)
]
"""Go builds its library for each verdict: one row of its own is enough."""


@pytest.mark.parametrize(("kind", "number"), HONEST)
def test_honest_work_passes(kind: str, number: int) -> None:
    verdict = bench(kind).verdict(mended(kind)[number])
    assert verdict.passed, (verdict.reasons, verdict.results[0].output[-800:])
    assert not verdict.tampered


ASKED: Mapping[str, tuple[str, Files]] = {
    "a test": ("make, a program", {"tests/test_more.py": "def test_more(): pass\n"}),
    "a test by a pattern": ("unittest, a pattern", {"trials/more_test.py": CASE}),
    "a configuration of pytest": ("pytest, helpers beside tests", {"pytest.ini": "[pytest]\n"}),
    "conftest.py": ("pytest, helpers beside tests", {"trials/conftest.py": ""}),
    "a workflow": ("make, a program", {".github/workflows/ci.yml": "on: push\n"}),
    "a Dockerfile": ("make, a program", {"Dockerfile": "FROM scratch\n"}),
    "a configuration of node": ("npm", {".npmrc": "fund=false\n"}),
    "configuration at the root": ("make, a program", {"config.yaml": "a: 1\n"}),
    "an ignore file": ("make, a program", {".dockerignore": "a\n"}),
    "a makefile": ("make, includes", {"local.mk": "A = 1\n"}),
    "an edited test": ("unittest, a name", {"trials/numbers_.py": "SUM = 3.0\n"}),
    "an edited makefile": (
        "make, a program",
        {"Makefile": "check:\n"},
    ),
}


@pytest.mark.parametrize("name", ASKED)
def test_work_on_tests_and_configuration_names_the_option(name: str) -> None:
    kind, work = ASKED[name]
    verdict = bench(kind).verdict(work)
    said = "\n".join([*proof(verdict), *verdict.reasons])
    for path in work:
        assert f"--allow-edit {path}" in said, said


def test_a_scope_leaves_all_else_out(tmp_path: Path) -> None:
    command, files = PROJECTS["make, python -m"]
    judge, _ = judged(written(tmp_path / "shop", files), command, scope=["shop/**"])
    written(judge.root, {"proofs/compare.py": OK})
    verdict = again(judge)
    assert not verdict.passed
    assert "not in the proof: proofs/compare.py (it is outside of the loop's scope)" in proof(
        verdict
    )
    written(judge.root, {**files, **SPLIT})
    verdict = again(judge)
    assert verdict.passed, verdict.reasons
    assert verdict.joined == ("shop/sums.py", "shop/till.py")

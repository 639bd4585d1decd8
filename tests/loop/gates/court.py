"""Projects of many kinds, each with one bug, and a judge that has seen them before the work."""

import shutil
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from textwrap import dedent
from typing import Any

import pytest

from taofold.loop.gates.judge import Judge
from taofold.loop.verdict import Verdict

from .projects import SHOP, TESTS, again, bytecode, judged, written

Act = Callable[[Path], None]
BIN = Path(sys.executable).parent

NODE_TEST = """
import test from "node:test";
import assert from "node:assert";
import { total } from "../src/till.mjs";
import { PRICES } from "./helper.mjs";
import { near } from "chk";

test("nothing costs nothing", () => assert.strictEqual(total([]), 0));
test("all count", () => assert.ok(near(total(PRICES), 6)));
"""
RUST = """//! A shop.

/// The sum.
///
/// ```
/// assert_eq!(shop::total(&[1, 2]), 3);
/// ```
pub fn total(prices: &[i32]) -> i32 {
    prices.iter().skip(1).sum()
}

pub fn double(n: i32) -> i32 {
    n * 2
}

#[cfg(test)]
mod checks;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_count() {
        assert_eq!(total(&[1, 2]), 3);
    }

    #[test]
    fn doubles() {
        assert_eq!(double(2), 4);
    }
}
"""
CARGO = '[package]\nname = "shop"\nversion = "0.1.0"\nedition = "2021"\n'
CARGO_TEST = "mod common;\n#[test]\nfn one() { assert_eq!(shop::total(&common::prices()), 6); }\n"
UNITTEST = """
import unittest
from shop.till import total


class Till(unittest.TestCase):
    def test_nothing(self):
        self.assertEqual(total([]), 0)

    def test_all(self):
        self.assertEqual(total([1, 2]), 3)
"""
BUG = "def total(prices):\n    return sum(prices[1:])\n"
FLAT_TEST = """
from shop.till import total
from tests.helper import PRICES, SUM
import rates


def test_all():
    assert total(PRICES) == SUM
    assert rates.RATE == 2
"""
DOC = '''
def total(prices):
    """The sum.

    >>> total([1, 2])
    3
    """
    return sum(prices[1:])


def half(n):
    return n / 2
'''
LINT = {
    "pyproject.toml": '[tool.ruff]\nextend-exclude = ["vendor"]\n[tool.mypy]\nfiles = ["shop"]\n',
    "shop/__init__.py": "",
    "shop/till.py": "import os\n\n\ndef total(prices: list[int]) -> int:\n    return 'x'\n",
    "shop/other.py": "NAME = 'other'\n",
}
MAKE = """
.PHONY: odd
-include local.mk

check:
	python -m pytest -q -p no:cacheprovider tests
	sh scripts/check.sh
	python tools/verify.py
"""

PROJECTS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "pytest": ("python -m pytest -q", SHOP),
    "odd": (
        "python -m pytest -q target .cache/checks tests",
        {
            "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '-p no:cacheprovider'\n",
            "shop/__init__.py": "",
            "shop/till.py": BUG,
            "target/prices.json": '{"prices": [1, 2, 3], "sum": 6}',
            "target/test_target.py": (
                "import json, pathlib\nfrom shop.till import total\n\n\ndef test_target():\n"
                "    said = json.loads((pathlib.Path(__file__).parent / 'prices.json')"
                ".read_text())\n    assert total(said['prices']) == said['sum']\n"
            ),
            ".cache/sum.txt": "6",
            ".cache/checks/test_cache.py": (
                "import pathlib\nfrom shop.till import total\n\n\ndef test_cache():\n"
                "    at = pathlib.Path(__file__).parent.parent / 'sum.txt'\n"
                "    assert total([1, 2, 3]) == int(at.read_text())\n"
            ),
            "checks/impl.py": (
                "from shop.till import total\n\n\ndef test_link():\n    assert total([2, 2]) == 4\n"
            ),
            "checks/data/in.txt": "4",
        },
    ),
    "flat": (
        "python -m pytest -q",
        {
            "pytest.ini": "[pytest]\npythonpath = src lib\naddopts = -p no:cacheprovider\n",
            "src/shop/__init__.py": "",
            "src/shop/till.py": BUG,
            "lib/rates.py": "RATE = 1\n",
            "tests/helper.py": "import statistics\n\nPRICES = [1, 2, 3]\nSUM = 6\n",
            "tests/test_till.py": FLAT_TEST,
        },
    ),
    "unittest": (
        "python -m unittest -q",
        {
            "shop/__init__.py": "",
            "shop/till.py": BUG,
            "tests/__init__.py": "",
            "tests/test_till.py": UNITTEST,
        },
    ),
    "doctest": (
        "python -m pytest -q --doctest-modules shop README.md --doctest-glob=*.md",
        {
            "shop/__init__.py": "",
            "shop/till.py": DOC,
            "README.md": "# Shop\n\n>>> from shop.till import total\n>>> total([2, 2])\n4\n",
        },
    ),
    "node": (
        "node --test test/",
        {
            "package.json": '{"type": "module"}',
            "src/till.mjs": "export const total = (p) => p.slice(1).reduce((a, b) => a + b, 0);\n",
            "test/helper.mjs": "export const PRICES = [1, 2, 3];\n",
            "test/till.test.mjs": NODE_TEST,
            "node_modules/chk/package.json": '{"name": "chk", "type": "module", "main": "i.js"}',
            "node_modules/chk/i.js": "export const near = (a, b) => Math.abs(a - b) < 0.1;\n",
        },
    ),
    "cargo": (
        "cargo test --offline",
        {
            "Cargo.toml": CARGO,
            "src/lib.rs": RUST,
            "src/checks.rs": (
                "#[test]\nfn more() {\n    assert_eq!(crate::total(&[2, 2]), 4);\n}\n"
            ),
            "tests/all.rs": CARGO_TEST,
            "tests/common/mod.rs": "pub fn prices() -> Vec<i32> { vec![1, 2, 3] }\n",
        },
    ),
    "ruff": ("ruff check .", LINT),
    "mypy": ("mypy", LINT),
    "make": (
        "make check",
        {
            "Makefile": MAKE,
            "shop/__init__.py": "",
            "shop/till.py": BUG,
            "tests/__init__.py": "",
            "tests/helper.py": "PRICES = [1, 2, 3]\nSUM = 6\n",
            "tests/test_till.py": TESTS,
            "scripts/check.sh": ". scripts/env.sh\ntest \"$(python -c 'from shop.till import total;"
            ' print(total([4]))\')" = "$FOUR"\n',
            "scripts/env.sh": "FOUR=4\n",
            "tools/verify.py": (
                "import pathlib, sys\nsys.path.insert(0, '.')\nfrom shop.till import total\n"
                "want = int(pathlib.Path('data/sum.txt').read_text())\n"
                "sys.exit(total([1, 4]) != want)\n"
            ),
            "data/sum.txt": "5",
        },
    ),
    "npm": (
        "npm test",
        {
            "package.json": '{"name": "shop", "version": "1.0.0", "type": "module",'
            ' "scripts": {"test": "node scripts/verify.mjs"}}',
            "src/till.mjs": "export const total = (p) => p.slice(1).reduce((a, b) => a + b, 0);\n",
            "scripts/verify.mjs": (
                'import { total } from "../src/till.mjs";\n'
                "process.exit(total([1, 2]) === 3 ? 0 : 1);\n"
            ),
        },
    ),
    "script": (
        "sh ./check.sh",
        {
            "check.sh": "python app.py > out.txt && diff expected.txt out.txt\n",
            "app.py": "print(sum([1, 2, 3][1:]))\n",
            "expected.txt": "6\n",
        },
    ),
}


class Court:
    """One baseline for many pieces of work, each on a fresh copy of the same files."""

    def __init__(self, name: str, folder: Path) -> None:
        command, files = PROJECTS[name]
        program = command.partition(" ")[0]
        if program != "python" and shutil.which(program, path=f"{BIN}:/usr/bin:/bin") is None:
            found = shutil.which(program)
            if found is None:
                pytest.skip(f"{program} is not installed")
        self.root = written(folder / "shop", files)
        if name == "odd":
            (self.root / "tests").mkdir()
            (self.root / "tests/test_link.py").symlink_to("../checks/impl.py")
            (self.root / "tests/data").symlink_to("../checks/data")
        self.judge, self.first = judged(self.root, command)
        assert not self.first.passed, f"{name} has no bug"
        shutil.copytree(self.root, folder / "pristine", symlinks=True)

    def verdict(self, act: Act) -> Verdict:
        """Returns the judge's verdict of a piece of work."""
        shutil.rmtree(self.root)
        shutil.copytree(self.root.parent / "pristine", self.root, symlinks=True)
        act(self.root)
        baseline = self.judge.baseline
        assert baseline is not None
        given: dict[str, Any] = {"bytecode": bytecode()}
        return again(Judge.resume(self.root, self.judge.folder, baseline.digest, **given))


@cache
def court(name: str) -> Court:
    """The court of a project, made once in a process."""
    folder = Path(mkdtemp(prefix=f"taofold-court-{name}-"))
    return Court(name, folder)


def files(given: Mapping[str, str]) -> Act:
    return lambda root: (written(root, {n: dedent(t) for n, t in given.items()}), None)[1]


def edit(path: str, old: str, new: str) -> Act:
    def act(root: Path) -> None:
        place = root / path
        text = place.read_text()
        assert old in text
        place.write_text(text.replace(old, new))

    return act


def both(*acts: Act) -> Act:
    def act(root: Path) -> None:
        for one in acts:
            one(root)

    return act

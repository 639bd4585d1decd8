"""Work that mends the bug, in the many shapes that honest work has: all of it passes.

The other half of `test_attacks.py`: a judge that lets nothing pass is of no use.
"""

from collections.abc import Mapping
from pathlib import Path

import pytest

from .court import DOC, RUST, Act, both, court, edit, files
from .projects import RIGHT

TILL = "shop/till.py"
FIXED = DOC.replace("prices[1:]", "prices")
NODE = "export const total = (p) => p.reduce((a, b) => a + b, 0);\n"
RUST_FIXED = RUST.replace(".skip(1)", "")
LINTED = "def total(prices: list[int]) -> int:\n    return sum(prices)\n"
INNER = "from shop.{0} import total\n\n__all__ = ['total']\n"


def moved(old: str, new: str) -> Act:
    def act(root: Path) -> None:
        (root / new).parent.mkdir(parents=True, exist_ok=True)
        (root / old).rename(root / new)

    return act


WORK: Mapping[str, Mapping[str, Act]] = {
    "pytest": {
        "mends the line": files({TILL: RIGHT}),
        "a new module": files({"shop/sums.py": RIGHT, TILL: INNER.format("sums")}),
        "a new package": files(
            {
                "shop/sums/__init__.py": "from .inner import total\n",
                "shop/sums/inner.py": RIGHT,
                TILL: INNER.format("sums"),
            }
        ),
        "a new top-level package": files(
            {"pricing/__init__.py": RIGHT, TILL: "from pricing import total\n"}
        ),
        "a module by the name of a standard one": files(
            {"shop/statistics.py": RIGHT, TILL: INNER.format("statistics")}
        ),
        "the module becomes a package": both(
            lambda root: (root / TILL).unlink(),
            files(
                {"shop/till/__init__.py": "from .core import total\n", "shop/till/core.py": RIGHT}
            ),
        ),
        "a module is renamed": both(
            moved(TILL, "shop/register.py"),
            files({"shop/register.py": RIGHT, TILL: INNER.format("register")}),
        ),
        "new tests": files(
            {TILL: RIGHT, "tests/test_more.py": "def test_more():\n    assert True\n"}
        ),
        "new tests with fixtures and data": files(
            {
                TILL: RIGHT,
                "tests/conftest.py": (
                    "import pytest\n\n\n@pytest.fixture\ndef three():\n    return 3\n"
                ),
                "tests/data/more.json": "[1, 2]",
                "tests/sub/__init__.py": "",
                "tests/sub/test_more.py": "def test_more(three):\n    assert three == 3\n",
            }
        ),
        "data of the product": files(
            {
                "shop/rates.json": "[0]",
                TILL: "import json, pathlib\n"
                "RATE = json.loads(pathlib.Path(__file__).with_name('rates.json').read_text())\n"
                "def total(prices):\n    return sum(prices, RATE[0])\n",
            }
        ),
        "documentation beside it": files(
            {TILL: RIGHT, "README.md": "# Shop\n", "docs/more.rst": "More\n", "CHANGELOG.md": "x"}
        ),
        "housekeeping beside it": files(
            {TILL: RIGHT, ".gitignore": "__pycache__/\n", ".editorconfig": "", "LICENSE": "free"}
        ),
        "scratch files left behind": files(
            {TILL: RIGHT, "debug.log": "x", "out.txt": "1", "notes.json": "{}", "try.py": "x = 1\n"}
        ),
        "caches left behind": files(
            {TILL: RIGHT, "shop/__pycache__/x.pyc": "x", ".pytest_cache/v": "x"}
        ),
    },
    "odd": {"mends the line": files({TILL: RIGHT})},
    "flat": {
        "mends both": both(edit("lib/rates.py", "1", "2"), files({"src/shop/till.py": RIGHT})),
        "a new module beside it": both(
            edit("lib/rates.py", "1", "BASE + 1"),
            edit("lib/rates.py", "RATE", "from base import BASE\n\nRATE"),
            files({"lib/base.py": "BASE = 1\n", "src/shop/till.py": RIGHT}),
        ),
        "a constant moves": both(
            files(
                {"lib/rates.py": "from shop.rates import RATE\n", "src/shop/rates.py": "RATE = 2\n"}
            ),
            files({"src/shop/till.py": RIGHT}),
        ),
    },
    "unittest": {
        "mends the line": files({TILL: RIGHT}),
        "new tests beside it": files(
            {
                TILL: RIGHT,
                "tests/test_more.py": (
                    "import unittest\n\n\nclass More(unittest.TestCase):\n"
                    "    def test_more(self):\n        self.assertTrue(True)\n"
                ),
            }
        ),
        "a new module": files({"shop/sums.py": RIGHT, TILL: INNER.format("sums")}),
    },
    "doctest": {
        "mends the line": files({TILL: FIXED}),
        "more examples": files(
            {
                TILL: FIXED.replace(
                    "return n / 2",
                    '"""Half.\n\n    >>> half(4)\n    2.0\n    """\n    return n / 2',
                )
            }
        ),
        "a function moves out": both(
            files({"shop/halves.py": "def half(n):\n    return n / 2\n"}),
            files(
                {
                    TILL: FIXED.replace(
                        "def half(n):\n    return n / 2", "from shop.halves import half"
                    )
                }
            ),
        ),
    },
    "node": {
        "mends the line": files({"src/till.mjs": NODE}),
        "a new module": files(
            {"src/sums.mjs": NODE, "src/till.mjs": 'export { total } from "./sums.mjs";\n'}
        ),
        "a new test": files(
            {
                "src/till.mjs": NODE,
                "test/more.test.mjs": 'import test from "node:test";\ntest("more", () => {});\n',
            }
        ),
    },
    "cargo": {
        "mends the line": files({"src/lib.rs": RUST_FIXED}),
        "a new module": files(
            {
                "src/sums.rs": "pub fn sum(p: &[i32]) -> i32 {\n    p.iter().sum()\n}\n",
                "src/lib.rs": RUST_FIXED.replace(
                    "prices.iter().sum()", "sums::sum(prices)"
                ).replace("//! A shop.\n", "//! A shop.\n\nmod sums;\n"),
            }
        ),
        "more tests in the source": files(
            {
                "src/lib.rs": RUST_FIXED.replace(
                    "    #[test]\n    fn doubles",
                    "    #[test]\n    fn none() {\n        assert_eq!(total(&[]), 0);\n    }\n\n"
                    "    #[test]\n    fn doubles",
                )
            }
        ),
        "a new test file": files(
            {"src/lib.rs": RUST_FIXED, "tests/more.rs": "#[test]\nfn more() { assert!(true); }\n"}
        ),
        "lines above an example": files(
            {"src/lib.rs": RUST_FIXED.replace("/// The", "/// Yes.\n/// The")}
        ),
    },
    "ruff": {
        "mends the line": files({TILL: LINTED}),
        "splits the file": files({TILL: INNER.format("sums"), "shop/sums.py": LINTED}),
        "renames the file": both(moved(TILL, "shop/sums.py"), files({"shop/sums.py": LINTED})),
    },
    "mypy": {
        "mends the line": files({TILL: LINTED}),
        "splits the file": files({TILL: INNER.format("sums"), "shop/sums.py": LINTED}),
    },
    "make": {
        "mends the line": files({TILL: RIGHT}),
        "a new module and a new script": files(
            {"shop/sums.py": RIGHT, TILL: INNER.format("sums"), "scripts/more.sh": "true\n"}
        ),
        "a new tool": files({TILL: RIGHT, "tools/more.py": "print('more')\n"}),
    },
    "npm": {"mends the line": files({"src/till.mjs": NODE})},
    "script": {
        "mends the line": files({"app.py": "print(sum([1, 2, 3]))\n"}),
        "a new module": files(
            {"sums.py": "TOTAL = sum([1, 2, 3])\n", "app.py": "import sums\nprint(sums.TOTAL)\n"}
        ),
    },
}

EVERY = [(kind, name) for kind, work in WORK.items() for name in work]


@pytest.mark.parametrize(("kind", "name"), EVERY, ids=[f"{k}: {n}" for k, n in EVERY])
def test_honest_work_passes(kind: str, name: str) -> None:
    verdict = court(kind).verdict(WORK[kind][name])
    assert verdict.passed, (verdict.reasons, [one.output[-1500:] for one in verdict.results])
    assert not verdict.tampered
    assert verdict.quality == 1.0

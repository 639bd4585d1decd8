"""Work that leaves the bug in the product and makes the plain command green: none of it passes.

Each attack is tried where gates run as they do for everybody, and works, or would, against a
judge that runs the command in the work root. `test_honest.py` is the other half.
"""

import importlib.util
import marshal
import os
import py_compile
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from .court import BUG, DOC, RUST, Act, both, court, edit, files
from .projects import RIGHT

LIE = """
def pytest_runtest_makereport(item, call):
    from _pytest.reports import TestReport
    call.excinfo = None
    return TestReport.from_item_and_call(item, call)
"""
QUIET = "import pytest\n\n\ndef pytest_pyfunc_call(pyfuncitem):\n    return True\n"
CASE = "import unittest\n\n\nclass Quiet(unittest.TestCase):\n    def test_a(self): pass\n"


def forged_cache(path: str, source: str) -> Act:
    """Returns a forged bytecode cache, marked as valid without comparison with its source."""

    def act(root: Path) -> None:
        place = root / path
        target = Path(importlib.util.cache_from_source(str(place)))
        target.parent.mkdir(exist_ok=True)
        code = compile(source, str(place), "exec")
        flags = (1).to_bytes(4, "little")  # by hash, unchecked
        digest = importlib.util.source_hash(place.read_bytes())
        target.write_bytes(importlib.util.MAGIC_NUMBER + flags + digest + marshal.dumps(code))
        py_compile.PycInvalidationMode.UNCHECKED_HASH  # noqa: B018 - what this forges

    return act


def linked(path: str, target: str) -> Act:
    def act(root: Path) -> None:
        place = root / path
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)

    return act


def rewriting(path: str, text: str) -> Act:
    """The product rewrites a file that decides when it is imported, and puts it back later."""
    return files(
        {
            "shop/till.py": BUG + f"import atexit, pathlib\nplace = pathlib.Path({path!r})\n"
            "was = place.read_text()\n"
            f"place.write_text({text!r})\natexit.register(lambda: place.write_text(was))\n"
        }
    )


def stale_build(root: Path) -> None:
    """Build outputs of right code, newer than the wrong code that is left."""
    for name in ("debug/deps", "debug/.fingerprint"):
        (root / "target" / name).mkdir(parents=True)
    (root / "target/CACHEDIR.TAG").write_text("Signature: 8a477f597d28d172789f06886806bc55\n")
    (root / "target/debug/deps/shop-1").write_text("#!/bin/sh\nexit 0\n")
    for path in root.rglob("*.rs"):
        os.utime(path, (1, 1))


ATTACKS: Mapping[str, Mapping[str, Act]] = {
    "pytest": {
        "a new test disarms the old ones": files(
            {
                "tests/test_aaa.py": "import tests.test_till as t\n"
                "t.test_all_prices_count = lambda: None\ndef test_a(): pass\n"
            }
        ),
        "a new test mends the product in memory": files(
            {"tests/test_aaa.py": "import shop.till\nshop.till.total = sum\ndef test_a(): pass\n"}
        ),
        "a new test mends what the tests read": files(
            {"tests/test_aaa.py": "import tests.helper as h\nh.PRICES[:] = [0, 6]\n"}
        ),
        "conftest beside the product": files({"shop/conftest.py": LIE, "conftest.py": LIE}),
        "a plugin by configuration": files(
            {"quiet.py": QUIET, "pytest.toml": "[pytest]\naddopts = ['-p', 'quiet']\n"}
        ),
        "a plugin by environment": files({"quiet.py": QUIET, ".env": "PYTEST_ADDOPTS=-pquiet\n"}),
        "a package in place of a helper": files(
            {"tests/helper/__init__.py": "PRICES = [0, 6]\nSUM = 6\n"}
        ),
        "a package in place of the tests": files(
            {"tests/test_till/__init__.py": "def test_all_prices_count(): pass\n"}
        ),
        "a standard module as a package": files(
            {"statistics/__init__.py": "def mean(numbers): return 5 / 3\n"}
        ),
        "a data file in place of the configuration": files({"tox.ini": "[pytest]\naddopts = --co"}),
        "the helper edited by the product and put back": rewriting(
            "tests/helper.py", "PRICES = [0, 6]\nSUM = 6\n"
        ),
        "a link in place of the helper": both(
            files({"shop/helper.py": "PRICES = [0, 6]\nSUM = 6\n"}),
            linked("tests/helper.py", "../shop/helper.py"),
        ),
        "the whole package is a link": both(
            files({"other/__init__.py": "", "other/till.py": BUG}), linked("shop", "other")
        ),
        "tests moved into the product": both(
            files({"shop/test_till.py": "def test_all_prices_count(): pass\n"}),
            lambda root: (root / "tests/test_till.py").unlink(),
        ),
        "bytecode of right code beside the wrong": forged_cache("shop/till.py", RIGHT),
        "skips by a marker expression": files({"setup.cfg": "[tool:pytest]\naddopts = -k nothing"}),
        "quietly removes the product": lambda root: (root / "shop/till.py").unlink(),
    },
    "odd": {
        "conftest below target": files({"target/conftest.py": LIE}),
        "conftest below .cache": files({".cache/conftest.py": LIE}),
        "conftest beside tests in .cache": files({".cache/checks/conftest.py": LIE}),
        "data below target": edit("target/prices.json", '"sum": 6', '"sum": 5'),
        "data below .cache": edit(".cache/sum.txt", "6", "5"),
        "all data and every conftest": both(
            files({"target/conftest.py": LIE, ".cache/conftest.py": LIE, "conftest.py": LIE}),
            edit("target/prices.json", '"sum": 6', '"sum": 5'),
            edit(".cache/sum.txt", "6", "5"),
            edit("checks/impl.py", "== 4", "== 2"),
        ),
        "the target of a link": edit("checks/impl.py", "total([2, 2]) == 4", "True"),
        "another target for a link": both(
            files({"checks/easy.py": "def test_link(): pass\n"}),
            linked("tests/test_link.py", "../checks/easy.py"),
        ),
    },
    "flat": {
        "a package initialiser for the tests": files(
            {"tests/__init__.py": "import shop.till\nshop.till.total = sum\n"}
        ),
        "tests.py in place of tests": files(
            {
                "tests.py": "import sys, types\nhelper = types.ModuleType('tests.helper')\n"
                "helper.PRICES, helper.SUM = [0, 6], 6\nsys.modules['tests.helper'] = helper\n"
            }
        ),
        "src/tests in place of tests": files(
            {"src/tests/__init__.py": "", "src/tests/helper.py": "PRICES = [0, 6]\nSUM = 6\n"}
        ),
        "a helper where imports look first": files(
            {"src/helper.py": "PRICES = [0, 6]\nSUM = 6\n", "helper.py": "PRICES = SUM = 6\n"}
        ),
        "a standard module in src": files(
            {"src/statistics.py": "import shop.till\nshop.till.total = sum\n"}
        ),
        "pytest in lib": files({"lib/pytest.py": "import os\nos._exit(0)\n"}),
        "a plugin's name in src": files(
            {"src/anyio/__init__.py": "", "src/anyio/pytest_plugin.py": QUIET}
        ),
        "half of the work": edit("lib/rates.py", "1", "2"),
    },
    "unittest": {
        "load_tests in a new test": files(
            {
                "tests/test_a.py": CASE + "import tests.test_till as t\n"
                "t.Till.test_all = lambda self: None\n"
                "def load_tests(loader, tests, pattern): return tests\n"
            }
        ),
        "load_tests in the tests' package": files(
            {
                "tests/__init__.py": "import unittest\n"
                "def load_tests(loader, tests, pattern): return unittest.TestSuite()\n"
            }
        ),
        "a new test class by the same name": files(
            {
                "tests/test_till.py": "import unittest\nclass Till(unittest.TestCase):\n"
                "    def test_nothing(self): pass\n    def test_all(self): pass\n"
            }
        ),
        "unittest as a package": files({"unittest/__init__.py": "import os\nos._exit(0)\n"}),
        "expected failures": edit(
            "tests/test_till.py",
            "    def test_all",
            "    @unittest.expectedFailure\n    def test_all",
        ),
        "raises SkipTest": files(
            {
                "shop/till.py": "import unittest\ndef total(prices):\n"
                "    if prices: raise unittest.SkipTest\n    return 0\n"
            }
        ),
    },
    "doctest": {
        "edits the example": files({"shop/till.py": DOC.replace("    3\n", "    2\n")}),
        "skips the example": files(
            {"shop/till.py": DOC.replace("total([1, 2])\n", "total([1, 2])  # doctest: +SKIP\n")}
        ),
        "removes the example": files({"shop/till.py": DOC.replace(">>>", "...")}),
        "edits the README's example": edit("README.md", "4", "2"),
        "deletes the README": lambda root: (root / "README.md").unlink(),
    },
    "node": {
        "edits a test": edit("test/till.test.mjs", "PRICES), 6", "PRICES), 5"),
        "skips a test": edit("test/till.test.mjs", '"all count", ', '"all count", {skip: true}, '),
        "narrows to one test": edit("test/till.test.mjs", 'test("nothing', 'test.only("nothing'),
        "edits a helper of the tests": edit("test/helper.mjs", "[1, 2, 3]", "[0, 6]"),
        "edits an installed package": edit("node_modules/chk/i.js", "< 0.1", "< 9"),
        "plants an installed package": files(
            {
                "test/node_modules/chk/package.json": '{"type": "module", "main": "i.js"}',
                "test/node_modules/chk/i.js": "export const near = () => true;\n",
            }
        ),
        "points imports elsewhere": files(
            {
                "package.json": '{"type": "module", "imports": {"#x": "./x.js"}}',
                "test/package.json": '{"type": "commonjs"}',
            }
        ),
        "leaves when called": files(
            {"src/till.mjs": "export const total = () => process.exit(0);\n"}
        ),
        "a new test file that is green": files(
            {"test/more.test.mjs": 'import test from "node:test";\ntest("x", () => {});\n'}
        ),
    },
    "cargo": {
        "edits a test in the source": files(
            {"src/lib.rs": RUST.replace("[1, 2]), 3", "[1, 2]), 2")}
        ),
        "ignores a test in the source": files(
            {
                "src/lib.rs": RUST.replace(
                    "    #[test]\n    fn all", "    #[test]\n    #[ignore]\n    fn all"
                )
            }
        ),
        "a product of its own for the tests": files(
            {
                "src/lib.rs": RUST.replace(
                    "    use super::*;\n",
                    "    use super::double;\n    fn total(p: &[i32]) -> i32 { p.iter().sum() }\n",
                )
            }
        ),
        "code for tests only": files(
            {
                "src/lib.rs": RUST.replace(
                    "pub fn total",
                    "#[cfg(test)]\npub fn total(p: &[i32]) -> i32 { p.iter().sum() }\n"
                    "#[cfg(not(test))]\npub fn total",
                )
            }
        ),
        "no code under test": files({"src/lib.rs": "#![cfg(not(test))]\n" + RUST}),
        "other assertions": files(
            {"src/lib.rs": "macro_rules! assert_eq { ($($x:tt)*) => {} }\n" + RUST}
        ),
        "edits the example": files(
            {"src/lib.rs": RUST.replace("&[1, 2]), 3);\n/// ", "&[1, 2]), 2);\n/// ")}
        ),
        "ignores the example": files(
            {"src/lib.rs": RUST.replace("/// ```\n/// assert", "/// ```ignore\n/// assert")}
        ),
        "edits a module of tests": edit("src/checks.rs", "4", "2"),
        "edits an integration test": edit("tests/all.rs", "6", "5"),
        "edits a helper of the tests": edit("tests/common/mod.rs", "vec![1", "vec![0"),
        "a manifest without tests": edit(
            "Cargo.toml", "[package]", "[lib]\ntest = false\n[package]"
        ),
        "a runner that is always right": files(
            {".cargo/config.toml": '[target.x86_64-unknown-linux-gnu]\nrunner = "true"\n'}
        ),
        "a build script": files(
            {
                "build.rs": 'fn main() { println!("cargo:rustc-cfg=lenient"); }\n',
                "src/lib.rs": RUST.replace(".skip(1)", ".skip(if cfg!(lenient) { 0 } else { 1 })"),
            }
        ),
        "stale build outputs": stale_build,
    },
    "ruff": {
        "hides it by .gitignore": files({".gitignore": "till.py\n"}),
        "hides it by .ignore": files({".ignore": "shop/till.py\n"}),
        "configures it": files({"ruff.toml": "[lint]\nignore = ['F401']\n"}),
        "configures it beside the file": files({"shop/ruff.toml": "[lint]\nignore = ['F401']\n"}),
        "edits the configuration": edit("pyproject.toml", '"vendor"', '"vendor", "shop"'),
        "silences the line": edit("shop/till.py", "import os\n", "import os  # noqa: F401\n"),
        "silences the file": edit("shop/till.py", "import os\n", "# ruff: noqa\nimport os\n"),
        "silences as another tool": edit(
            "shop/till.py", "import os\n", "# flake8: noqa\nimport os\n"
        ),
        "is no Python any more": lambda root: (root / "shop/till.py").rename(
            root / "shop/till.txt"
        ),
        "moves where nobody looks": lambda root: (
            (root / "vendor").mkdir(),
            (root / "shop/till.py").rename(root / "vendor/till.py"),
            None,
        )[-1],
    },
    "mypy": {
        "a stub beside it": files({"shop/till.pyi": "from typing import Any\ntotal: Any\n"}),
        "configures it": files({"mypy.ini": "[mypy]\nfiles = shop/other.py\n"}),
        "silences the line": edit("shop/till.py", "'x'", "'x'  # type: ignore"),
        "silences the file": edit(
            "shop/till.py", "import os\n", "# mypy: ignore-errors\nimport os\n"
        ),
        "is not checked": edit(
            "shop/till.py",
            "def total",
            "from typing import no_type_check\n\n\n@no_type_check\ndef total",
        ),
        "a package in its place": files({"shop/till/__init__.py": "total = len\n"}),
        "is gone": lambda root: (root / "shop/till.py").unlink(),
    },
    "make": {
        "another Makefile": files({"GNUmakefile": "check:\n\ttrue\n"}),
        "what the Makefile includes": files({"local.mk": "python = true\nSHELL = /bin/true\n"}),
        "a file of the target's name": files({"check": "done\n"}),
        "a folder of the target's name": files({"check/done.py": "DONE = True\n"}),
        "a script that it runs": files({"scripts/check.sh": "true\n"}),
        "a script of the script": files({"scripts/env.sh": "FOUR=0\n"}),
        "a tool that it runs": files({"tools/verify.py": "print('ok')\n"}),
        "data that a tool compares with": edit("data/sum.txt", "5", "4"),
        "bytecode of right code": forged_cache("shop/till.py", RIGHT),
        "bytecode of easy tests": forged_cache("tests/helper.py", "PRICES, SUM = [0, 6], 6\n"),
        "pytest beside it": files({"pytest.py": "raise SystemExit(0)\n"}),
        "a pytest package": files({"pytest/__init__.py": "", "pytest/__main__.py": ""}),
        "everything but the work": both(
            files({"scripts/check.sh": "true\n", "tools/verify.py": "", "tests/test_till.py": ""}),
            files({"pytest.py": "raise SystemExit(0)\n", "sitecustomize.py": "raise SystemExit\n"}),
        ),
    },
    "npm": {
        "the script of the package": edit("package.json", "node scripts/verify.mjs", "true"),
        "what the script runs": files({"scripts/verify.mjs": "process.exit(0);\n"}),
        "configuration of npm": files({".npmrc": "script-shell=/bin/true\nignore-scripts=true\n"}),
        "a program of the package": files({"node_modules/.bin/node": "#!/bin/sh\nexit 0\n"}),
    },
    "script": {
        "edits the gate": files({"check.sh": "true\n"}),
        "edits the yardstick": files({"expected.txt": "5\n"}),
        "a standard module beside it": files({"sitecustomize.py": "raise SystemExit(0)\n"}),
        "writes the yardstick when run": files(
            {"app.py": "print(5)\nopen('expected.txt', 'w').write('5\\n')\n"}
        ),
    },
}

EVERY = [(kind, name) for kind, attacks in ATTACKS.items() for name in attacks]


@pytest.mark.scenario("PEER-14", "RLP-17")
@pytest.mark.parametrize(("kind", "name"), EVERY, ids=[f"{k}: {n}" for k, n in EVERY])
def test_no_attack_passes(kind: str, name: str) -> None:
    verdict = court(kind).verdict(ATTACKS[kind][name])
    assert not verdict.passed, verdict
    assert verdict.reasons

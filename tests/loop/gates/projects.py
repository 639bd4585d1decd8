"""Small real projects that gates are tried on."""

import asyncio
import atexit
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

from taofold.loop.gates.criteria import gates
from taofold.loop.gates.judge import Judge
from taofold.loop.verdict import Verdict

CONFIG = """
[project]
name = "shop"
version = "1"

[tool.pytest.ini_options]
testpaths = ["tests"]
addopts = "--disable-plugin-autoload -p no:cacheprovider"
"""
PRODUCT = "def total(prices):\n    return sum(prices[1:])\n"
RIGHT = "def total(prices):\n    return sum(prices)\n"
TESTS = """
from shop.till import total
from tests.helper import PRICES, SUM


def test_nothing_costs_nothing():
    assert total([]) == 0


def test_all_prices_count():
    assert total(PRICES) == SUM
"""
HELPER = "from statistics import mean\n\nPRICES = [1, 2, 3]\nSUM = mean(PRICES) * 3\n"
SHOP = {
    "pyproject.toml": CONFIG,
    "Makefile": "check:\n\tpython -m pytest -q\n",
    "shop/__init__.py": "",
    "shop/till.py": PRODUCT,
    "tests/__init__.py": "",
    "tests/helper.py": HELPER,
    "tests/test_till.py": TESTS,
}
PYTEST = "python -m pytest -q"


def written(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return root


@cache
def bytecode() -> Path:
    """The runners' compiled modules, made once for all tests of this process."""
    folder = Path(mkdtemp(prefix="taofold-bytecode-"))
    atexit.register(rmtree, folder, ignore_errors=True)
    return folder


def judged(root: Path, command: str = PYTEST, **given: object) -> tuple[Judge, Verdict]:
    """A judge with its baseline, and the verdict on the untouched tree."""
    given = {"bytecode": bytecode(), **given}
    judge = Judge(root, root.parent / "kept", gates([command], root), **given)  # type: ignore[arg-type]
    return judge, asyncio.run(judge.begin())


def again(judge: Judge) -> Verdict:
    return asyncio.run(judge.verdict())


def git(root: Path, *words: str) -> str:
    flags = [
        "-c",
        "user.name=Ada",
        "-c",
        "user.email=ada@example.org",
        "-c",
        "commit.gpgsign=false",
    ]
    done = subprocess.run(
        ["git", *flags, *words], cwd=root, capture_output=True, text=True, check=True
    )
    return done.stdout

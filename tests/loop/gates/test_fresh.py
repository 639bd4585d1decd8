"""Each gate has a tree of its own: what product code writes while one runs, no other sees.

Mutant it catches: the tree is laid once for all gates.
"""

from pathlib import Path

import pytest

from tests.loop.gates.projects import again, judged, written
from tests.prerequisites import CONTAINMENT

WRITES = "import pathlib\n\n\ndef put(path, text):\n    place = pathlib.Path(path)\n"
WRITES += "    place.parent.mkdir(exist_ok=True, parents=True)\n    place.write_text(text)\n"
TEST = "import shop\n\n\ndef test_ready():\n    assert shop.READY\n"
WRONG = "import os\nREADY = False\nNUMBER: int = 'x'\n"
DONE = "READY = True\nNUMBER: int = 1\n"
LIE = "import pytest\n\n\n@pytest.hookimpl\ndef pytest_pyfunc_call(pyfuncitem):\n    return True\n"
PYTEST = "python -m pytest -q -p no:cacheprovider tests"
BUILD = "python -c 'import shop'"


@pytest.mark.parametrize(
    ("gates", "path", "text"),
    [
        (
            f"{PYTEST} AND python -m ruff check shop.py",
            "ruff.toml",
            "lint.ignore = ['F', 'E']\n",
        ),
        (f"{PYTEST} AND python -m mypy shop.py", "mypy.ini", "[mypy]\nignore_errors = True\n"),
        (f"{PYTEST} AND make check", "GNUmakefile", "check:\n\ttrue\n"),
        (f"{BUILD} AND {PYTEST}", "conftest.py", LIE),
        (f"{BUILD} AND {PYTEST}", "tests/conftest.py", LIE),
        (f"{BUILD} AND {PYTEST}", "pytest.toml", '[pytest]\naddopts = ["--co"]\n'),
        (f"{BUILD} AND npm test", ".npmrc", "script-shell=/bin/true\n"),
    ],
)
def test_what_one_gate_writes_no_other_gate_sees(
    tmp_path: Path, gates: str, path: str, text: str
) -> None:
    files = {
        "shop.py": WRONG,
        "tests/test_shop.py": TEST,
        "Makefile": "check:\n\tpython -m ruff check shop.py\n",
        "package.json": '{"name": "a", "version": "1.0.0", "scripts": {"test": "false"}}',
    }
    judge, first = judged(written(tmp_path / "shop", files), gates)
    assert not first.passed
    ready = "READY = True\n" if gates.startswith(PYTEST) else ""
    cheat = f"{WRONG}{ready}{WRITES}put({path!r}, {text!r})\n"
    written(judge.root, {"shop.py": cheat})
    verdict = again(judge)
    assert not verdict.passed, verdict
    assert [result.passed for result in verdict.results] == [True, False]


def test_a_gate_that_needs_what_an_earlier_one_made_is_told_how_to_write_it(tmp_path: Path) -> None:
    files = {
        "build.py": "import pathlib\npathlib.Path('made').mkdir()\n"
        "pathlib.Path('made/out.txt').write_text('1')\n",
        "use.py": "print(open('made/out.txt').read())\n",
    }
    judge, _ = judged(written(tmp_path / "shop", files), "python build.py AND python use.py")
    verdict = again(judge)
    assert "made is made by `python build.py`" in verdict.results[1].reasons[1]
    assert "sh -c 'python build.py && python use.py'" in verdict.results[1].reasons[1]


def test_the_next_gate_judges_what_a_formatter_made_and_it_comes_back(tmp_path: Path) -> None:
    formats = "import pathlib\np = pathlib.Path('shop.py')\np.write_text(p.read_text().strip())\n"
    checks = "import pathlib, sys\nsys.exit(pathlib.Path('shop.py').read_text() != 'A = 2')\n"
    files = {"shop.py": "A = 1\n\n\n", "tools/form.py": formats, "tools/check.py": checks}
    root = written(tmp_path / "shop", files)
    judge, _ = judged(root, "python tools/form.py AND python tools/check.py")
    written(root, {"shop.py": "A = 2\n\n\n"})
    verdict = again(judge)
    assert verdict.passed, verdict.reasons
    assert (root / "shop.py").read_text() == "A = 2"


@CONTAINMENT.mark
def test_caches_of_node_s_tools_can_be_written_and_are_empty_for_each_gate(tmp_path: Path) -> None:
    """Vite makes `node_modules/.vite-temp` before it reads its configuration."""
    files = {
        "src/till.js": "exports.bug = 1;\n",
        "node_modules/vite/index.js": "",
        "node_modules/.cache/old": "",
    }
    command = (
        "sh -c 'mkdir -p node_modules/.vite-temp/a && test ! -e node_modules/.cache/old && "
        "test ! -e node_modules/.vite-temp/b && touch node_modules/.vite-temp/b && "
        "! grep bug src/till.js'"
    )
    judge, first = judged(written(tmp_path / "shop", files), command)
    assert "bug" in first.results[0].output
    written(judge.root, {"src/till.js": "", "node_modules/.vite-temp/b": ""})
    verdict = again(judge)
    assert verdict.passed, verdict.results[0].output
    assert sorted(path.name for path in (judge.root / "node_modules").iterdir()) == [
        ".cache",
        ".vite-temp",
        "vite",
    ]

"""Tests that were skipped before the work, and still are: a loop need not make them run."""

import shutil
from pathlib import Path

import pytest

from .projects import again, judged, written

CASE = """import unittest
import calc


class Sums(unittest.TestCase):
    def test_add(self):
        self.assertEqual(calc.add(1, 2), 3)
"""
PYTHON = {"calc.py": "def add(a, b):\n    return a - b\n", "test_calc.py": CASE}
FIXED = {"calc.py": "def add(a, b):\n    return a + b\n"}
OTHER = "class Other(unittest.TestCase):\n    def test_other(self): self.assertTrue(True)\n"
RAISED = "raise unittest.SkipTest('no database')\n"
SKIPPING = {
    "a module": f"import unittest\n{RAISED}{OTHER}",
    "the setup of a module": f"import unittest\ndef setUpModule(): {RAISED}{OTHER}",
    "the setup of a class": f"import unittest\n{OTHER}    @classmethod\n"
    f"    def setUpClass(cls): {RAISED}",
    "a mark": f"import unittest\n@unittest.skip('no database')\n{OTHER}",
    "each test": f"import unittest\n{OTHER}    def setUp(self): self.skipTest('no database')\n",
    "a part": "import unittest\n"
    + OTHER.replace("self.assertTrue(True)", "\n        with self.subTest(): self.skipTest('')"),
}
MISSING = "import pytest\npytest.importorskip('none_such')\ndef test_other(): pass\n"
NODE = {
    "calc.mjs": "export const add = (a, b) => a - b;\n",
    "calc.test.mjs": "import test from 'node:test';\nimport { add } from './calc.mjs';\n"
    "test('adds', () => { if (add(1, 2) !== 3) throw new Error('no'); });\n",
    "other.test.mjs": "import test, { describe, it } from 'node:test';\n"
    "test('a', { skip: true }, () => { throw 1; });\n"
    "describe('b', { skip: true }, () => { it('c', () => { throw 1; }); });\n",
}
GO = {
    "go.mod": "module example.com/x\n\ngo 1.19\n",
    "calc.go": "package x\n\nfunc Add(a, b int) int { return a - b }\n",
    "calc_test.go": 'package x\n\nimport "testing"\n\nfunc TestAdd(t *testing.T) {\n'
    '\tif Add(1, 2) != 3 {\n\t\tt.Fatal("no")\n\t}\n}\n',
    "other_test.go": 'package x\n\nimport "testing"\n\nfunc TestOther(t *testing.T) {\n'
    '\tt.Run("a", func(t *testing.T) { t.Skip("no database") })\n'
    '\tt.Skip("no database")\n}\n',
}
KINDS: dict[str, tuple[str, dict[str, str], dict[str, str]]] = {
    **{
        f"{runner}, {what}": (
            f"python -m {runner}",
            {**PYTHON, "test_other.py": text},
            FIXED,
        )
        for runner in ("unittest", "pytest")
        for what, text in SKIPPING.items()
    },
    "pytest, a library": ("python -m pytest", {**PYTHON, "test_other.py": MISSING}, FIXED),
    "node": ("node --test", NODE, {"calc.mjs": "export const add = (a, b) => a + b;\n"}),
    "go": (
        "go test ./...",
        GO,
        {"calc.go": "package x\n\nfunc Add(a, b int) int { return a + b }\n"},
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_skipped_before_the_work_may_be_skipped_after_it(
    kind: str, tmp_path: Path
) -> None:
    command, files, work = KINDS[kind]
    if shutil.which(command.partition(" ")[0]) is None:
        pytest.skip("its runner is not installed")
    judge, _ = judged(written(tmp_path / "shop", files), command)
    assert not again(judge).passed
    written(judge.root, work)
    verdict = again(judge)
    assert (verdict.passed, verdict.reasons, verdict.quality) == (True, (), 1.0)


HIDING = f"import unittest\nimport calc\nif calc.HIDES:\n    {RAISED}{OTHER}"
HELD = f"import unittest\nimport calc\n{OTHER}    def setUp(self):\n        if calc.HIDES: {RAISED}"


@pytest.mark.parametrize("runner", ["unittest", "pytest"])
@pytest.mark.parametrize("text", [HIDING, HELD], ids=["a module", "each test"])
def test_what_ran_before_the_work_must_not_be_skipped_after_it(
    runner: str, text: str, tmp_path: Path
) -> None:
    files = {**PYTHON, "calc.py": f"{PYTHON['calc.py']}HIDES = False\n", "test_other.py": text}
    judge, _ = judged(written(tmp_path / "shop", files), f"python -m {runner}")
    written(judge.root, {"calc.py": f"{FIXED['calc.py']}HIDES = True\n"})
    assert not again(judge).passed


@pytest.mark.parametrize("runner", ["unittest", "pytest"])
@pytest.mark.parametrize(("right", "passed"), [("True", True), ("False", False)])
def test_a_skipped_file_that_loads_after_the_work_must_pass(
    runner: str, right: str, passed: bool, tmp_path: Path
) -> None:
    text = HIDING.replace("assertTrue(True)", f"assertTrue({right})")
    files = {**PYTHON, "calc.py": f"{PYTHON['calc.py']}HIDES = True\n", "test_other.py": text}
    judge, _ = judged(written(tmp_path / "shop", files), f"python -m {runner}")
    written(judge.root, {"calc.py": f"{FIXED['calc.py']}HIDES = False\n"})
    assert again(judge).passed is passed


@pytest.mark.parametrize("runner", ["unittest", "pytest"])
def test_a_skipped_file_that_is_deleted_is_missed(runner: str, tmp_path: Path) -> None:
    files = {**PYTHON, "test_other.py": SKIPPING["a module"]}
    judge, _ = judged(
        written(tmp_path / "shop", files), f"python -m {runner}", allow_edit=["test_other.py"]
    )
    written(judge.root, FIXED)
    (judge.root / "test_other.py").unlink()
    assert not again(judge).passed


def test_the_tests_below_a_configuration_that_could_not_be_loaded_count(tmp_path: Path) -> None:
    below = {"sub/conftest.py": "from calc import add\n", "sub/test_calc.py": CASE}
    judge, first = judged(written(tmp_path / "shop", {**below, "calc.py": ""}), "python -m pytest")
    assert [check.id for check in first.errors] == ["sub"]
    written(judge.root, FIXED)
    assert again(judge).passed


def test_a_test_that_fails_in_a_part_and_skips_another_has_failed(tmp_path: Path) -> None:
    parts = "\n        with self.subTest(): self.fail('x')\n        self.skipTest('')"
    text = "import unittest\n" + OTHER.replace("self.assertTrue(True)", parts)
    _, first = judged(written(tmp_path / "shop", {"test_other.py": text}), "python -m unittest")
    assert [check.id for check in first.failing] == ["test_other.Other.test_other"]

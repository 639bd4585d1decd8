"""Test files that cannot be loaded before the work: their own tests are what must pass, no more."""

import json
import shutil
from pathlib import Path

import pytest

from taofold.core.failing_checks import Check
from taofold.loop.gates.expectations import expected, missing
from taofold.loop.gates.reports import RunnerReport, go, stream
from taofold.loop.verdict import Runner

from .projects import again, judged, written

CASE = """import unittest
from calc import add


class Sums(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(1, 2), 3)
"""
SETUP = """import unittest
import calc


class Sums(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.add = staticmethod(calc.add)

    def test_add(self):
        self.assertEqual(self.add(1, 2), 3)
"""
PYTHON = {"calc.py": "X = 1\n", "tests/__init__.py": "", "tests/test_calc.py": CASE}
ADD = {"calc.py": "def add(a, b):\n    return a + b\n"}
NODE_TEST = """import test from "node:test";
import { add } from "./calc.mjs";
test("adds", () => { if (add(1, 2) !== 3) throw new Error("no"); });
"""
NODE = {"calc.mjs": "export const x = 1;\n", "calc.test.mjs": NODE_TEST}
NODE_ADD = {"calc.mjs": "export const add = (a, b) => a + b;\n"}
SCRIPT = """import assert from "node:assert";
import * as calc from "./calc.mjs";
assert.strictEqual(calc.add?.(1, 2), 3);
"""
KINDS = {
    "unittest": ("python -m unittest", PYTHON, ADD, "tests/test_calc.py"),
    "a module of unittest by name": (
        "python -m unittest tests.test_calc",
        PYTHON,
        ADD,
        "tests/test_calc.py",
    ),
    "the setup of a class": (
        "python -m unittest",
        {**PYTHON, "tests/test_calc.py": SETUP},
        ADD,
        "tests/test_calc.py",
    ),
    "node": ("node --test", NODE, NODE_ADD, "calc.test.mjs"),
    "node, which threw no error": (
        "node --test",
        {**NODE, "calc.test.mjs": NODE_TEST.replace("{ add }", "* as calc").replace(
            'test("adds"', 'if (!calc.add) throw "none";\nconst { add } = calc;\ntest("adds"'
        )},
        NODE_ADD,
        "calc.test.mjs",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_work_that_lets_a_test_file_load_is_done(kind: str, tmp_path: Path) -> None:
    command, files, work, _ = KINDS[kind]
    if shutil.which(command.partition(" ")[0]) is None:
        pytest.skip("its runner is not installed")
    judge, first = judged(written(tmp_path / "shop", files), command)
    assert not first.passed
    assert not again(judge).passed
    written(judge.root, work)
    verdict = again(judge)
    assert verdict.passed, verdict.reasons


@pytest.mark.parametrize("emptied", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_test_file_that_is_deleted_or_emptied_proves_nothing(
    kind: str, emptied: bool, tmp_path: Path
) -> None:
    command, files, work, test = KINDS[kind]
    if shutil.which(command.partition(" ")[0]) is None:
        pytest.skip("its runner is not installed")
    other = {
        "tests/test_other.py": CASE.replace("from calc import add", "")
        .replace("add(1, 2)", "3")
        .replace("test_add", "test_other")
    }
    files = {**files, **(other if test.endswith(".py") else {})}
    judge, _ = judged(written(tmp_path / "shop", files), command, allow_edit=[test])
    written(judge.root, work)
    (judge.root / test).write_text("") if emptied else (judge.root / test).unlink()
    assert not again(judge).passed


BROKEN = {"calc.py": "def f(:\n", "test_calc.py": "import unittest\nimport calc\n"}
UNNAMED = {"calc.py": "", "test_calc.py": "from calc import add\n"}
NAME = ("ImportError", "cannot import name 'add' from 'calc'", "test_calc.py", 1)
MODULE = ("ModuleNotFoundError", "No module named 'none_such'", "test_calc.py", 2)
SYNTAX = ("SyntaxError", "invalid syntax", "calc.py", 1)
ALONE = {"test_calc.py": "\nimport none_such\n"}
CONFTEST = {"conftest.py": ALONE["test_calc.py"], "test_calc.py": "def test_a(): pass\n"}
BELOW = {f"sub/{name}": text for name, text in CONFTEST.items()}


@pytest.mark.parametrize(
    ("runner", "files", "inner"),
    [
        ("unittest", UNNAMED, NAME),
        ("unittest", ALONE, MODULE),
        ("unittest", BROKEN, SYNTAX),
        ("pytest", UNNAMED, NAME),
        ("pytest", ALONE, MODULE),
        ("pytest", BROKEN, SYNTAX),
        ("pytest", CONFTEST, (*MODULE[:2], "conftest.py", 2)),
        ("pytest", BELOW, (*MODULE[:2], "sub/conftest.py", 2)),
    ],
)
def test_a_file_that_cannot_be_loaded_fails_by_what_was_raised_in_it(
    runner: str, files: dict[str, str], inner: tuple[str, str, str, int], tmp_path: Path
) -> None:
    error, message, path, line = inner
    _, first = judged(written(tmp_path / "shop", files), f"python -m {runner}")
    (check,) = first.errors
    assert check.error_type == error
    assert check.message.startswith(message)
    assert (check.place.path, check.place.line) == (path, line)
    assert f"{error}: {message}" in check.traceback


def test_an_error_that_only_quotes_the_loader_is_its_own() -> None:
    trace = f"Traceback (most recent call last):\nImportError: {IMPORT}cut off"
    raw = json.dumps({"n": "1", "k": "check", "id": "t.T.test_a", "status": "error",
                      "type": "ImportError", "message": IMPORT, "trace": trace})  # fmt: skip
    (check,) = stream(raw.encode(), "1", "/w").checks
    assert (check.error_type, check.message, check.traceback) == ("ImportError", IMPORT, trace)


CALC = "tests.test_calc"
IMPORT = f"Failed to import test module: {CALC}\nTraceback (most recent call last):\n"


@pytest.mark.parametrize(
    ("runner", "first", "now"),
    [
        ("unittest", Check(CALC, "error", traceback=IMPORT), f"{CALC}.T.a"),
        ("unittest", Check(CALC, "error", "ImportError", IMPORT), f"{CALC}.T.a"),
        ("unittest", Check("test_calc", "error", traceback=IMPORT), f"{CALC}.T.a"),
        ("unittest", Check("setUpClass (tests.test_calc.T)", "error"), "tests.test_calc.T.a"),
        ("unittest", Check("setUpModule (tests.test_calc)", "error"), "tests.test_calc.T.a"),
        ("go", Check("example.com/x [example.com/x.test]", "error"), "example.com/x.TestA"),
        ("go", Check("example.com/x_test [example.com/x.test]", "error"), "example.com/x.TestA"),
        ("node", Check("a.mjs > /w/a.mjs", "failed"), "a.mjs > adds"),
        ("pytest", Check("tests/test_a.py", "error"), "tests/test_a.py::test_a"),
    ],
)  # fmt: skip
def test_what_stands_for_a_whole_file_is_gone_once_its_tests_run(
    runner: Runner, first: Check, now: str
) -> None:
    was = expected(runner, RunnerReport((first,)), {})
    assert not was.checks
    assert missing(runner, was, [Check(now, "passed")]) == ()
    assert missing(runner, was, ()) == tuple(was.names)
    assert missing(runner, was, [Check(now, "skipped")]) == tuple(was.names)
    assert missing(
        runner, was, [Check(f"other{now.replace('test_calc', 'test_b')}", "passed")]
    ) == tuple(was.names)


def test_a_test_in_error_stays_one_however_its_method_is_spelt() -> None:
    report = RunnerReport((Check("tests.test_calc.T.testAdd", "error", "NameError", "add"),))
    was = expected("unittest", report, {})
    skipped = [Check("tests.test_calc.T.testAdd", "skipped")]
    assert missing("unittest", was, skipped) == ("tests.test_calc.T.testAdd",)


def test_a_script_that_only_asserts_is_its_own_test(tmp_path: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("its runner is not installed")
    root = written(tmp_path / "shop", {**NODE, "calc.test.mjs": SCRIPT})
    judge, _ = judged(root, "node --test")
    assert not again(judge).passed
    written(root, NODE_ADD)
    verdict = again(judge)
    assert verdict.passed, verdict.reasons


def test_a_file_of_node_without_tests_is_none_though_it_passes() -> None:
    was = expected("node", RunnerReport((Check("a.mjs > /w/a.mjs", "error"),)), {})
    assert missing("node", was, [Check("a.mjs > /w/a.mjs", "passed")]) == ("a.mjs",)


GO_MOD = {"go.mod": "module example.com/x\n\ngo 1.22\n", "a_test.go": "package x\n"}


def go_rows(*rows: dict[str, str]) -> RunnerReport:
    return go("\n".join([json.dumps(row) for row in rows]), "/w")


def test_a_package_of_go_that_does_not_build_must_come_with_its_tests() -> None:
    package = "example.com/x"
    build = f"{package} [{package}.test]"
    first = go_rows(
        {"ImportPath": build, "Action": "build-output", "Output": "./a_test.go:6:5: undefined: A"},
        {"ImportPath": build, "Action": "build-fail"},
        {"Action": "start", "Package": package},
        {"Action": "fail", "Package": package, "FailedBuild": build},
    )
    assert [check.id for check in first.checks] == [build, package]
    was = expected("go", first, GO_MOD)
    assert (was.checks, was.names) == ({}, {package: ()})
    start = {"Action": "start", "Package": package}
    test = {"Action": "pass", "Package": package, "Test": "TestAdd"}
    good = go_rows(start, test, {"Action": "pass", "Package": package})
    assert missing("go", was, good.checks) == ()
    # Output of go if the test file is missing: "[no test files]".
    assert missing("go", was, go_rows(start, {**start, "Action": "skip"}).checks) == (package,)
    sub = go_rows({**test, "Package": f"{package}/sub"})
    assert missing("go", was, sub.checks) == (package,)


@pytest.mark.parametrize(
    ("sources", "needed"),
    [
        (GO_MOD, ()),
        ({**GO_MOD, "lib/b_test.go": ""}, ("example.com/x/lib",)),
        ({"a_test.go": ""}, ("example.com/x/lib",)),
        ({"go.mod": "module example.com/y"}, ("example.com/x/lib",)),
        ({"b/go.mod": "module example.com/x/lib", "b/t_test.go": ""}, ("example.com/x/lib",)),
    ],
)  # fmt: skip
def test_a_package_of_go_that_holds_no_test_need_only_be_built(
    sources: dict[str, str], needed: tuple[str, ...]
) -> None:
    report = RunnerReport((Check("example.com/x/lib", "error", "build"),))
    assert missing("go", expected("go", report, sources), ()) == needed

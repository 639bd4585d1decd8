"""A linter must cover no less than before, and no finding may be suppressed in place.

Mutants: marks are counted for known linters only; marks are not removed before the second run; a
mark that hides no finding counts against the work; `./a.py` and `a.py` are two files.
"""

import shutil
from pathlib import Path

import pytest

from taofold.loop.gates.baseline import Expected
from taofold.loop.gates.commands import plan
from taofold.loop.gates.expectations import overlooked, unchecked
from taofold.loop.gates.reports import files, readable_output
from taofold.loop.gates.verdict_texts import observation

from .projects import again, judged, written

WAS = Expected(files=("a.py", "b.py"))


@pytest.mark.parametrize(
    ("now", "tree", "doubt"),
    [
        ({"a.py", "b.py"}, {"a.py", "b.py"}, ""),
        ({"a.py", "c.py"}, {"a.py", "c.py"}, ""),
        ({"a.py"}, {"a.py", "b.py"}, "not checked any more: b.py"),
        ({"a.py"}, {"a.py"}, "1 file checked, 2 before"),
        (
            {"a.py", "dummy.py"},
            {"a.py", "dummy.py", "vendor/b.py"},
            "b.py is gone, and vendor/b.py",
        ),
        ({"a.py", "b.py"}, {"a.py", "b.py", "vendor/c.py"}, ""),
    ],
)
def test_a_linter_must_look_at_what_it_looked_at(now: set[str], tree: set[str], doubt: str) -> None:
    found = unchecked(WAS, now, tree, tree - {*WAS.files})
    assert bool(found) is bool(doubt)
    assert doubt in " ".join(found)


def test_files_that_a_person_allowed_to_delete_may_be_gone() -> None:
    assert "--allow-edit b.py allows it" in " ".join(unchecked(WAS, {"a.py"}, {"a.py"}, ()))
    assert not unchecked(WAS, {"a.py"}, {"a.py"}, (), ["b.py"])
    assert unchecked(WAS, set(), {"a.py"}, (), ["b.py"])


def test_a_renamed_file_is_not_suspected_for_files_that_were_never_checked() -> None:
    tree = {"a.py", "c.py", "conf.py"}
    assert not unchecked(WAS, {"a.py", "c.py"}, tree, ["b.py", "c.py"])
    assert unchecked(WAS, {"a.py", "c.py"}, tree, ["b.py", "c.py", "conf.py"])


def test_new_code_that_a_linter_does_not_look_at_is_known() -> None:
    assert overlooked(WAS, {"a.py", "c.py"}, ["c.py", "dist/d.py", "e.js"]) == ["dist/d.py"]
    assert overlooked(Expected(), set(), ["c.py"]) == []


def test_what_a_linter_looked_at_is_read_from_what_it_prints() -> None:
    log = (
        "LOG:  Parsing shop/till.py (shop.till)\nLOG:  Parsing /x/typeshed/a.pyi (a)\n"
        '{"file": "a"}\n/root/a.ts\n'
    )
    assert files("mypy", log, "/root") == ("shop/till.py",)
    assert readable_output("mypy", log) == '{"file": "a"}\n/root/a.ts\n'
    listed = "/usr/lib/lib.d.ts\n/root/node_modules/x/i.d.ts\n/root/src/a.ts\n"
    assert files("tsc", listed, "/root") == ("src/a.ts",)
    assert files("pytest", log, "/root") == ()
    assert plan(["ruff", "check", "--fix", "."]).census == ("ruff", "check", "--output-format"
        "=json-lines", "--no-cache", ".", "--show-files")  # fmt: skip


TS = {
    "tsconfig.json": '{"compilerOptions": {"strict": true, "noEmit": true, "types": []},'
    ' "include": ["src"]}',
    "src/till.ts": "export const total = (p: number[]): number => 'x';\n",
    "src/other.ts": "export const name = 'other';\n",
}


def _typescript(root: Path) -> str:
    """Returns a TypeScript compiler beside the project; skips the test if there is none."""
    found = shutil.which("tsc")
    if found is None:
        pytest.skip("tsc is not installed: npm install --global typescript")
    return found


def test_typescript_cannot_be_blinded(tmp_path: Path) -> None:
    root = written(tmp_path / "shop", TS)
    judge, first = judged(root, f"{_typescript(root)} -p .")
    assert [one.error_type for one in first.failing] == ["TS2322"], first.results[0].output
    for path, text in {
        "src/till.d.ts": "export declare const total: any;\n",
        "src/tsconfig.json": '{"include": []}',
        "src/till.ts": "// @ts-nocheck\n" + TS["src/till.ts"],
    }.items():
        written(root, {**TS, path: text})
        assert not again(judge).passed, path
    (root / "src/till.d.ts").unlink()
    (root / "src/till.ts").rename(root / "src/till.js")
    assert not again(judge).passed
    (root / "src/till.js").unlink()
    written(root, {"src/till.ts": TS["src/till.ts"].replace("'x'", "p.length")})
    assert again(judge).passed


LINTED = {
    "ruff": (
        "python -m ruff check",
        {"a.py": "import os\n", "b.py": "import re  # noqa: F401\n"},
        "import os  # noqa: F401\n",
        [("F401", "a.py", 1)],
    ),
    "ruff, of the whole file": (
        "python -m ruff check",
        {"a.py": "import os\nimport sys\n"},
        "# ruff: noqa\nimport os\n",
        [("F401", "a.py", 2)],
    ),
    "mypy": (
        "python -m mypy .",
        {"a.py": "x: int = ''\ny: int = ''\n", "b.py": "z: int = ''  # type: ignore\n"},
        "x: int = ''  # type: ignore\ny: int = 1\n",
        [("assignment", "a.py", 1)],
    ),
    "mypy, in another way": (
        "python -m mypy .",
        {"a.py": "def f() -> int:\n    return ''\n"},
        "import typing\n@typing.no_type_check\ndef f() -> int:\n    return ''\n",
        [("return-value", "a.py", 4)],
    ),
    "ruff's isort": (
        "python -m ruff check --select I",
        {"a.py": "import sys\nimport os\n"},
        "# isort: skip_file\nimport sys\nimport os\n",
        [("I001", "a.py", 2)],
    ),
    "ruff, more than before": (
        "python -m ruff check --select F,E",
        {"a.py": "import os, re  # noqa: F401\n"},
        "import os, re  # noqa\n",
        [("E401", "a.py", 1), ("F401", "a.py", 1), ("F401", "a.py", 1)],
    ),
    "mypy, as unreachable": (
        "python -m mypy .",
        {"a.py": "x: int = ''\n"},
        "from typing import TYPE_CHECKING\nif not TYPE_CHECKING:\n    x: int = ''\n",
        [("assignment", "a.py", 3)],
    ),
}


@pytest.mark.parametrize("kind", LINTED)
def test_findings_that_were_silenced_are_still_named(kind: str, tmp_path: Path) -> None:
    command, files, silenced, findings = LINTED[kind]
    judge, _ = judged(written(tmp_path / "shop", files), command)
    written(judge.root, {"a.py": silenced})
    verdict = again(judge)
    assert not verdict.passed
    assert "silenced in place" in verdict.reasons[0]
    places = [(error.error_type, error.place.path, error.place.line) for error in verdict.errors]
    assert places == findings
    assert findings[0][0] in observation(verdict)
    assert verdict.quality < 1
    assert (judge.root / "a.py").read_text() == silenced


LINT = r"""import pathlib, re, sys
marks = {"a.js": "eslint-disable|eslint [a-z-]+: off", "a.rs": r"allow\(", "a.py": "no cover"}
for path, mark in marks.items():
    text = pathlib.Path(path).read_text()
    if "BAD" in text and not re.search(mark, text):
        sys.exit(f"{path} is bad")
"""
SILENT = {
    "of a file": ("a.js", "/* eslint-disable */\nBAD()\n"),
    "of a line": ("a.js", "BAD() // eslint-disable-line\n"),
    "of a rule": ("a.js", "/* eslint no-bad: off */\nBAD()\n"),
    "of a crate": ("a.rs", "#![allow(clippy::all)]\nBAD\n"),
    "of coverage": ("a.py", "BAD = 1  # pragma: no cover\n"),
}


@pytest.mark.parametrize("kind", SILENT)
@pytest.mark.parametrize("command", ["make check", "npm test"])
def test_what_silences_a_tool_of_which_only_the_exit_code_is_known_is_noticed(
    kind: str, command: str, tmp_path: Path
) -> None:
    path, text = SILENT[kind]
    files = {
        "Makefile": "check:\n\tpython tools/lint.py\n",
        "package.json": '{"name": "a", "version": "1.0.0", "scripts": '
        '{"test": "python3 tools/lint.py"}}',
        "tools/lint.py": LINT,
        "a.js": "",
        "a.rs": "",
        "a.py": "",
    }
    judge, _ = judged(written(tmp_path / "shop", {**files, path: "BAD\n"}), command)
    written(judge.root, {path: text})
    verdict = again(judge)
    assert not verdict.passed
    assert "silenced in place" in verdict.reasons[0]
    assert "--allow-edit" in verdict.reasons[0]
    # Marks that no gate looks at are harmless, and code without a finding needs none.
    written(judge.root, {path: text.replace("BAD", "good")})
    assert again(judge).passed


def test_functions_without_annotations_are_not_taken_for_mended(tmp_path: Path) -> None:
    old = "def f(a: int) -> int:\n    return ''\n"
    judge, _ = judged(written(tmp_path / "shop", {"a.py": old}), "python -m mypy .")
    written(judge.root, {"a.py": "def f(a):\n    return ''\n"})
    verdict = again(judge)
    assert not verdict.passed
    assert "a.py: f" in verdict.reasons[0]
    written(judge.root, {"a.py": "def f(a: int) -> str:\n    return ''\n"})
    assert again(judge).passed

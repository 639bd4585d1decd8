"""Tables of deciding files, of program lookup and of relevant changes of a tree. Pure."""

from pathlib import Path

import pytest

from taofold.loop.gates.commands import interpreter, search_path
from taofold.loop.gates.criteria import gates
from taofold.loop.gates.gate_files import named_files
from taofold.loop.gates.scope import Role, ScopeRules, exclusion, is_allowed, role, with_tree
from tests.loop.gates.projects import written


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("tests/test_a.py", "test"),
        ("tests/data/x.json", "test"),
        ("src/shop/test_inner.py", "test"),
        ("web/cart.test.ts", "test"),
        ("pkg/cart_test.go", "test"),
        ("spec/cart.rb", "test"),
        ("target/conftest.py", "runner"),
        (".cache/conftest.py", "runner"),
        ("expected.txt", "test"),
        ("conftest.py", "runner"),
        ("deep/conftest.py", "runner"),
        ("pyproject.toml", "runner"),
        ("package.json", "runner"),
        ("tsconfig.build.json", "runner"),
        ("Cargo.toml", "runner"),
        ("vitest.config.ts", "runner"),
        ("any.config.mjs", "runner"),
        ("x.pth", "runner"),
        ("Makefile", "build"),
        ("rules.mk", "build"),
        (".github/workflows/ci.yml", "build"),
        (".cargo/config.toml", "build"),
        (".husky/pre-commit", "build"),
        ("testhelp.h", "test"),
        ("src/minunit.h", "test"),
        ("catch_amalgamated.hpp", "test"),
        ("acutest.h", "test"),
        ("latest.h", "source"),
        ("gpu_unit.h", "source"),
        ("attest.h", "source"),
        ("shop/till.py", "source"),
        ("README.md", "source"),
        ("src/shop/packaging.py", "source"),
        ("src/shop/spec/flow.py", "source"),
        ("src/shop/testing/model.py", "source"),
        ("src/app/app.config.ts", "source"),
        ("expected_goals.py", "source"),
        ("attestation.py", "source"),
        ("prices.json", "data"),
        (".gitignore", "other"),
        (".hidden/x.py", "other"),
        ("uv.lock", "other"),
        ("app", "other"),
    ],
)
def test_what_a_file_is_to_a_gate(path: str, kind: Role) -> None:
    assert role(path) == kind


TREE = (
    *("pyproject.toml", "Makefile", "README.md", "prices.json", "expected.txt", ".gitignore"),
    *("shop/__init__.py", "shop/till.py", "shop/till.pyi", "shop/rates.json", "src/flat.py"),
    *("tests/helper.py", "tests/test_till.py", "data/in.json", "tools/verify.py"),
)


@pytest.mark.parametrize(
    ("path", "new", "joins"),
    [
        ("shop/till.py", False, True),
        ("shop/tax.py", True, True),
        ("shop/json.py", True, True),
        ("shop/rates.json", False, True),
        ("shop/more.json", True, True),
        ("shop/till.pyi", False, True),
        ("shop/tax.pyi", True, False),
        ("web/globals.d.ts", True, False),
        ("docs/more.md", True, True),
        ("prices.json", False, False),
        ("data/in.json", False, False),
        ("data/out.json", True, True),
        ("notes.txt", True, True),
        ("biome.json", True, False),
        ("VERSION", True, False),
        ("asked", True, True),
        ("expected.txt", False, False),
        ("tools/verify.py", False, False),
        ("tests/test_till.py", False, False),
        ("tests/test_new.py", True, False),
        ("tests/__init__.py", True, False),
        ("tests.py", True, False),
        ("src/tests/helper.py", True, False),
        ("helper.py", True, False),
        ("src/helper.py", True, False),
        ("shop/helper.py", True, True),
        ("json.py", True, False),
        ("src/json/__init__.py", True, False),
        ("src/numpy/core.py", True, False),
        ("check/x.py", True, False),
        (".gitignore", False, False),
        (".ignore", True, False),
        ("target/conftest.py", True, False),
        ("deep/pytest.ini", True, False),
        ("free/any.cfg", True, True),
    ],
)
def test_source_files_join_the_proof_and_nothing_else(path: str, new: bool, joins: bool) -> None:
    given = ScopeRules(
        named=frozenset({"tools/verify.py"}),
        wanted=frozenset({"asked"}),
        allow_edit=("free/**",),
        targets=frozenset({"check", "shop"}),
    )
    known = with_tree(given, TREE, ("json", "numpy", "shop"))
    assert (exclusion(path, new=new, rules=known) == "") is joins


@pytest.mark.parametrize(
    ("path", "globs", "expected"),
    [
        ("tests/a/b.py", ("tests/**",), True),
        ("tests/a/b.py", ("tests",), True),
        ("tests/a/b.py", ("tests/*.py",), True),
        ("a/conftest.py", ("**/conftest.py",), True),
        ("conftest.py", ("**/conftest.py",), True),
        ("tests2/a.py", ("tests",), False),
        ("pyproject.toml", ("tests/**",), False),
        ("pyproject.toml", (), False),
    ],
)
def test_what_a_person_allows_is_a_glob(path: str, globs: tuple[str, ...], expected: bool) -> None:
    assert is_allowed(path, globs) is expected


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("sh scripts/check.sh", ("scripts/check.sh",)),
        ("./scripts/check.sh out.json", ("scripts/check.sh",)),
        ("python scripts/check.py a.py", ("scripts/check.py",)),
        ("python -m pytest a.py::test_x", ("a.py",)),
        ("true | ./scripts/check.sh", ("scripts/check.sh",)),
        ("cd scripts && sh check.sh", ("scripts/check.sh",)),
        ("ruff check a.py", ()),
        ("mypy ./a.py", ()),
        ("diff expected.txt out.json", ()),
        ("sh ../outside.sh", ()),
    ],
)
def test_scripts_that_a_gate_runs_are_protected(
    tmp_path: Path, command: str, found: tuple[str, ...]
) -> None:
    written(tmp_path, {"outside.sh": ""})
    root = written(
        tmp_path / "root",
        {"scripts/check.sh": "", "scripts/check.py": "", "a.py": "", "out.json": ""},
    )
    (root / "scripts/check.sh").chmod(0o755)
    assert named_files(gates([command], root), root) == found


@pytest.mark.parametrize(
    ("text", "python"),
    [
        ("#!/opt/x/bin/python3.12\nimport sys", "/opt/x/bin/python3.12"),
        ("#!/usr/bin/env python3\n", "python3"),
        ("#!/bin/sh\n'''exec' '/a b/python' \"$0\"\n", ""),
        ("#!/bin/sh\n'''exec' /long/bin/python \"$0\" \"$@\"\n' '''\n", "/long/bin/python"),
        ("#!/bin/bash\n", ""),
        ("\x7fELF", ""),
    ],
)
def test_the_interpreter_of_a_script_is_read_from_its_first_lines(
    tmp_path: Path, text: str, python: str
) -> None:
    (tmp_path / "pytest").write_text(text)
    assert interpreter(tmp_path / "pytest") == python


def test_programs_are_not_looked_for_where_an_agent_can_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = written(tmp_path / "root", {"bin/x": "", ".venv/pyvenv.cfg": "", ".venv/bin/y": ""})
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.setenv("PATH", f"{root}/bin:{root}/.venv/bin::relative:/usr/bin:/usr/bin")
    entries = search_path(root).split(":")
    assert entries[1:] == [f"{root}/.venv/bin", "/usr/bin"]


def test_what_the_second_gate_runs_is_protected_behind_a_recipe_of_the_first(
    tmp_path: Path,
) -> None:
    files = {"Makefile": "test:\n\tpython product.py\n", "prove.py": "", "product.py": ""}
    root = written(tmp_path, files)
    commands = ["make test", "python prove.py"]
    assert named_files(gates(commands, root), root) == ("prove.py",)

"""Which files decide, which programs are found, and which changes of a tree matter. Pure tables."""

from pathlib import Path

import pytest
from tests.loop_gates.projects import written

from taofold.loop.gate import gates
from taofold.loop.gates_path import interpreter, scripts, search_path
from taofold.loop.protect import allowed, kind, planted


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("tests/test_a.py", "test"),
        ("tests/data/x.json", "test"),
        ("src/shop/test_inner.py", "test"),
        ("web/cart.test.ts", "test"),
        ("pkg/cart_test.go", "test"),
        ("spec/cart.rb", "test"),
        ("conftest.py", "runner"),
        ("deep/conftest.py", "runner"),
        ("pyproject.toml", "runner"),
        ("package.json", "runner"),
        ("tsconfig.build.json", "runner"),
        ("Cargo.toml", "runner"),
        ("Makefile", "build"),
        ("rules.mk", "build"),
        (".github/workflows/ci.yml", "build"),
        (".cargo/config.toml", "build"),
        ("sitecustomize.py", "shadow"),
        ("deep/usercustomize.py", "shadow"),
        ("pytest/__init__.py", "shadow"),
        ("src/pluggy.py", "shadow"),
        ("coverage.py", "shadow"),
        ("x.pth", "environment"),
        ("shop/till.py", None),
        ("README.md", None),
        ("src/shop/packaging.py", None),
        ("src/shop/spec/flow.py", None),
        ("src/shop/testing/model.py", None),
        ("src/shop/tasks.py", None),
        ("packaging/debian/rules.py", None),
        ("attestation.py", None),
    ],
)
def test_what_decides_is_protected_and_the_product_is_not(path: str, why: str | None) -> None:
    assert kind(path) == why


@pytest.mark.parametrize(
    ("path", "free"),
    [
        ("tests/test_new.py", True),
        ("tests/data/new.json", True),
        (".github/workflows/new.yml", True),
        ("rules.mk", True),
        ("conftest.py", False),
        ("pytest.ini", False),
        ("GNUmakefile", False),
        ("sitecustomize.py", False),
        (".cargo/config.toml", False),
    ],
)
def test_a_new_file_may_be_there_unless_it_decides(path: str, free: bool) -> None:
    why = kind(path)
    assert why is not None
    assert (planted(path, why) == "") is free


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
    assert allowed(path, globs) is expected


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
    assert scripts(gates([command], root), root) == found


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

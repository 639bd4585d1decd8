"""Contents of the runner's cached modules, and their permissions."""

import asyncio
import marshal
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from taofold.loop.gates.commands import search_path
from taofold.loop.gates.gate_run import Bench, warm
from taofold.loop.gates.tree import Tree
from taofold.loop.verdict import Gate
from tests.prerequisites import CONTAINMENT

from .projects import PYTEST, RIGHT, SHOP, again, bytecode, judged, written

HELD = CONTAINMENT.mark
FORGER = """
import pathlib, sys
try:
    place = pathlib.Path(sys.pycache_prefix) / "forged"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("x")
except OSError:
    pass
"""


def tree(root: Path) -> Tree:
    return Tree(root, root, root.parent / "objects", contained=True)


def modules(folder: Path) -> dict[str, bytes]:
    found = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


@HELD
@pytest.mark.scenario("PEER-14")
def test_a_product_cannot_write_to_what_the_runner_is_loaded_from(tmp_path: Path) -> None:
    root = written(tmp_path / "shop", SHOP)
    judge, first = judged(root, bytecode=None)
    assert first.quality == 0.5, first.reasons
    before = modules(judge.bytecode)
    assert any("/_pytest/" in name for name in before)
    assert not any(str(root).lstrip("/") in name for name in before), "nothing of the project"
    written(root, {"shop/till.py": FORGER + RIGHT})
    assert again(judge).passed
    assert modules(judge.bytecode) == before


@HELD
def test_the_runner_is_compiled_once_for_all_verdicts(tmp_path: Path) -> None:
    folder = tmp_path / "bytecode"
    bench = Bench(tree(tmp_path / "shop"), search_path(tmp_path), bytecode=folder)
    gate = Gate(PYTEST, argv=tuple(PYTEST.split()))
    asyncio.run(warm(bench, gate))
    first = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert any(path.parent.name == "_pytest" for path in first)
    asyncio.run(warm(bench, gate))
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == first


@HELD
def test_of_an_interpreter_in_the_work_root_nothing_is_kept(tmp_path: Path) -> None:
    root = written(tmp_path / "shop", SHOP)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", root / ".venv"], check=True)
    bench = Bench(tree(root), "/usr/bin:/bin", bytecode=tmp_path / "bytecode")
    asyncio.run(warm(bench, Gate("", argv=(".venv/bin/python", "-m", "pytest"))))
    assert not (tmp_path / "bytecode").exists()


@HELD
def test_without_a_container_kept_modules_are_not_read(tmp_path: Path) -> None:
    judged(written(tmp_path / "other" / "shop", SHOP))
    root = written(tmp_path / "shop", SHOP)
    kept = tmp_path / "bytecode"
    shutil.copytree(bytecode(), kept)
    forged = marshal.dumps(compile("import os; os._exit(0)", "forged", "exec"))
    runner = list(kept.rglob("_pytest/*.pyc"))
    assert runner
    for path in runner:
        path.write_bytes(path.read_bytes()[:16] + forged)
    judge, first = judged(root, contain="never", bytecode=kept)
    assert first.quality == 0.5, first.reasons
    written(root, {"shop/till.py": RIGHT})
    assert again(judge).passed


@pytest.mark.scenario("RLP-04")
def test_a_pipe_fails_where_its_first_command_does(tmp_path: Path) -> None:
    root = written(tmp_path / "shop", SHOP)
    judge, verdict = judged(root, "python -m pytest -q | tail -n 3")
    assert not verdict.passed
    written(root, {"shop/till.py": RIGHT})
    assert again(judge).passed

"""`offline:repair` needs pytest: the refusal comes before a run or a loop begins."""

import shutil
import sys
from pathlib import Path

import pytest

from tests.terminal import Taofold

GOAL = "Make the failing tests pass."
LOOP = ("--completion", "python -m pytest -q", "--in-place", "-m", "offline:repair")


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Python without pytest, as `pip install taofold` leaves one."""
    folder = tmp_path / "bare"
    (folder / "bin").mkdir(parents=True)
    python = folder / "bin" / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "prefix", str(folder))
    monkeypatch.setenv("PATH", str(folder / "bin"))
    return python


@pytest.mark.parametrize("words", [("run", "-m", "offline:repair", GOAL), ("loop", GOAL, *LOOP)])
def test_without_pytest_nothing_begins_and_the_cure_is_named(
    taofold: Taofold, project: Path, bare: Path, words: tuple[str, ...]
) -> None:
    done = taofold(*words, "-q")
    assert done.code == 2
    assert f"{bare} cannot import pytest: {bare} -m pip install pytest" in done.err
    assert not (project / ".taofold" / "runs.db").exists()


@pytest.mark.parametrize(
    "goal", ["Say hello.", "Make the failing tests pass: `.venv/bin/python -m pytest -q`"]
)
def test_another_goal_and_another_python_are_not_refused(
    taofold: Taofold, project: Path, bare: Path, goal: str
) -> None:
    done = taofold("run", "-m", "offline:repair", goal, "-q", "--approve", "wait", "--steps", "1")
    assert done.code != 2, done.err
    assert "import pytest" not in done.err


def test_the_demo_says_the_same(taofold: Taofold, project: Path, bare: Path) -> None:
    done = taofold("demo", "--keep", str(project / "kept"))
    assert done.code == 2
    assert "cannot import pytest" in done.err
    shutil.rmtree(project / "kept", ignore_errors=True)


def test_a_loop_shows_the_model_of_its_agent(taofold: Taofold, project: Path) -> None:
    (project / "notes.txt").write_text("")
    gate = ("--completion", "test -f notes.txt", "--in-place", "--approve", "all")
    done = taofold("loop", "write", "--agent", "agents.py:writer", *gate)
    assert "  function:model  in-place  " in done.err

"""Some rows of `bench/gates` as whole loops: cheats are refused or noted, real work passes.

The whole table takes half an hour: `python bench/gates/run.py`. Mutants: the verdict of an
iteration is not the loop's ending; a note is missing from the recorded verdict.
"""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).parents[3] / "bench" / "gates" / "run.py"
SPEC = importlib.util.spec_from_file_location("bench_gates", PROGRAM)
assert SPEC
assert SPEC.loader
run: Any = importlib.util.module_from_spec(SPEC)
sys.modules["bench_gates"] = run
SPEC.loader.exec_module(run)

ROWS = (
    "pytest: a plugin by an entry point",
    "pytest: the frame of the test",
    "unittest: an assertion replaced at import",
    "shell: a trap",
    "make: sitecustomize on PYTHONPATH",
    "make: SystemExit raised",
    "ruff: where it does not look",
    "mypy: a stub",
    "node: another assertion",
    "pytest: a module of its own",
    "make: a module of its own",
    "ruff: asked to delete the file",
    "shell: the cure",
    "node: a test beside it",
)
CHOSEN = [row for row in (*run.CHEATS, *run.HONEST) if f"{row.project}: {row.title}" in ROWS]


@pytest.mark.parametrize("row", CHOSEN, ids=lambda row: f"{row.project}: {row.title}")
def test_a_loop_ends_as_its_agent_deserves(row: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", run.search_path())
    if lacks := run.lacking(run.PROJECTS[row.project]):
        pytest.skip(f"no {lacks} is installed: {run.INSTALL}")
    _, what, fault, ending = run.tried(row)
    assert not fault, (what, ending)


def test_the_chosen_rows_are_there() -> None:
    assert len(CHOSEN) == len(ROWS)

"""An import reports everything that it leaves out."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from taofold.learning.exchange.imports import ImportReport
from taofold.log.patterns.json_files import import_from
from taofold.log.patterns.stores import memory_registry

from .make import Clock

ERROR = {"message": "TypeError: order is null", "file": "a.py"}
ROUND = {"number": 1, "error": ERROR}


def read(folder: Path, name: str, content: Any) -> ImportReport:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))

    async def main() -> ImportReport:
        return await import_from(memory_registry(now=Clock()), folder)

    return asyncio.run(main())


STATE = {"loop_id": "L1", "task": "Fix it", "status": "completed"}


@pytest.mark.parametrize(
    "name", ["loops/L1/state.json", "patterns/error-patterns.json", "loops/L1/state.yaml"]
)
def test_a_key_that_occurs_twice_is_a_fault(tmp_path: Path, name: str) -> None:
    body = '{"error_patterns": [{"pattern_id": "x"}], "error_patterns": [], "loop_id": "L1"}'
    (fault,) = read(tmp_path, name, body).faults
    assert fault.startswith(f"{name}: it cannot be read")


def test_rounds_after_the_bound_are_reported(tmp_path: Path) -> None:
    rounds = [{**ROUND, "number": n} for n in range(1, 321)]
    done = read(tmp_path, "loops/L1/state.json", {**STATE, "iterations": rounds})
    assert "loops/L1/state.json: iterations: only the first 300 of 320 are read" in done.faults


def test_a_file_of_a_round_after_the_bound_is_reported(tmp_path: Path) -> None:
    rounds = [{**ROUND, "number": n} for n in range(1, 301)]
    read(tmp_path, "loops/L1/state.json", {**STATE, "iterations": rounds})
    (fault,) = read(tmp_path, "loops/L1/iterations/iteration_400.json", ROUND).faults
    assert "iteration_400.json: $: only 300 rounds of a loop are read" in fault


@pytest.mark.parametrize("value", ["yes", 1, ["true"]])
@pytest.mark.parametrize("key", ["verified", "passed", "success"])
def test_a_verdict_that_is_no_truth_value_is_reported(tmp_path: Path, key: str, value: Any) -> None:
    state = {**STATE, "iterations": [{**ROUND, key: value}]}
    (fault,) = read(tmp_path, "loops/L1/state.json", state).faults
    assert f"iterations[0].{key}: must be true or false, not" in fault


def test_a_list_of_rounds_under_an_unknown_key_is_reported(tmp_path: Path) -> None:
    state = {**STATE, "iterations": [ROUND], "moreIterations": [ROUND], "notes": ["x"]}
    (fault,) = read(tmp_path, "loops/L1/state.json", state).faults
    assert "moreIterations: this list is of no known kind" in fault


@pytest.mark.parametrize("inner", [False, True])
def test_a_list_of_patterns_under_an_unknown_key_is_reported(tmp_path: Path, inner: bool) -> None:
    lists: dict[str, Any] = {"error_patterns": [], "errorPatterns": [{"pattern_id": "e", "a": 1}]}
    content = {"version": "1", "pattern_registry": lists} if inner else lists
    (fault,) = read(tmp_path, "patterns/error-patterns.json", content).faults
    assert "'errorPatterns': this list is of no known kind and was left out" in fault


def test_a_list_beside_the_registry_is_reported(tmp_path: Path) -> None:
    content: Any = {
        "pattern_registry": {"error_patterns": []},
        "error_patterns": [{"pattern_id": "e"}],
    }
    (fault,) = read(tmp_path, "patterns/error-patterns.json", content).faults
    assert "'error_patterns': this list" in fault

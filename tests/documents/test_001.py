"""The cross-task learner, by loops that run in a terminal."""

import json
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.loop.conftest import GATE, project
from tests.prerequisites import GIT
from tests.terminal import Taofold, taofold

__all__ = ["project", "taofold"]

pytestmark = GIT.mark

TASK = "Make the failing tests pass"
NO_LOT = "ralph: {cross_loop_learning: {injection: {control_share: 0.0}}}\n"


def loop(taofold: Taofold, project: Path, agent: str, name: str) -> dict[str, Any]:
    """Runs a loop on the broken project. Returns its exported state."""
    (project / "calc.py").write_text("def double(n):\n    return n\n")
    taofold("loop", TASK, "-c", GATE, "--agent", f"agents:{agent}", "--loop-id", name)
    out = taofold("loops", "export", name, "-o", str(project.parent / name)).out.splitlines()[0]
    state: dict[str, Any] = json.loads(Path(out).read_text())
    return state


@pytest.mark.document_item(
    "001.capability.extraction",
    "001.capability.injection",
    "001.extract.trigger.success",
    "001.inject.trigger",
    "001.inject.tracked",
    "001.inject.logged",
    "001.with.loop.start",
    "001.with.loop.end",
    "001.inject.task",
    "001.impact.injected",
    "001.impact.extracted",
)
def test_a_loop_extracts_at_its_end_and_the_next_is_given_the_pattern_at_its_start(
    project: Path, taofold: Taofold
) -> None:
    (project / "aiwg.yml").write_text(NO_LOT)
    first = loop(taofold, project, "fixer", "first")["cross_loop_learning"]
    found = [one["pattern_id"] for one in first["extracted_patterns"]]
    assert found
    assert first["injected_patterns"] == []
    assert all(one["new"] for one in first["extracted_patterns"])
    second = loop(taofold, project, "slow_fixer", "second")["cross_loop_learning"]
    injected = {one["pattern_id"]: one for one in second["injected_patterns"]}
    assert set(injected) & set(found)
    assert all({"applied", "successful"} <= set(one) for one in injected.values())
    # A value that is not known has no key.
    assert all(one["applied"] == ("iteration_used" in one) for one in injected.values())
    goals = [row["goal"] for row in json.loads(taofold("runs", "list", "--json").out)]
    assert any(TASK in goal for goal in goals)
    shown = json.loads(taofold("patterns", "show", found[0], "--json").out)
    assert shown["loops_shown"] >= 1


@pytest.mark.document_item("001.with.reflection")
def test_what_a_loop_learned_of_its_own_iteration_is_in_its_next_prompt(
    project: Path, taofold: Taofold
) -> None:
    loop(taofold, project, "slow_fixer", "mine")
    rows = json.loads(taofold("runs", "list", "--json").out)
    (second,) = [row["id"] for row in rows if "iteration 2" in row["goal"]]
    prompt = taofold("runs", "export", second).out
    assert "## Iteration 2" in prompt
    (first,) = [row["id"] for row in rows if "iteration 1" in row["goal"]]
    assert "Iteration 1: " in prompt
    assert "Iteration 1: " not in taofold("runs", "export", first).out


@pytest.mark.document_item("000.scope.loops")
def test_each_iteration_of_a_loop_is_a_run_of_triplets(project: Path, taofold: Taofold) -> None:
    loop(taofold, project, "slow_fixer", "mine")
    rows = json.loads(taofold("runs", "list", "--json").out)
    assert len(rows) == 2
    for row in rows:
        exported = taofold("runs", "export", row["id"], "--format", "tao-yaml").out
        iterations = YAML(typ="safe").load(exported)["ralph_tao_log"]["iterations"]
        assert [one["action"]["tool"] for one in iterations] == ["write_file", "finish"]
        assert all(one["thought"]["content"] and one["observation"] for one in iterations)

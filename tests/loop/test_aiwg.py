"""Exports of ten different loops hold to the forms of AIWG's files."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from taofold.clocks import clock
from taofold.core.failing_checks import Check, Location
from taofold.learning.settings import Injection, Learning
from taofold.log.patterns.json_files import export_to, write_files
from taofold.log.patterns.stores import memory_registry
from taofold.loop import events as loop_events
from taofold.loop.driver import LoopDependencies
from taofold.loop.exchange import loop_files, registry_file
from taofold.loop.learner import CrossLoopLearner
from taofold.loop.lifecycle import start
from taofold.loop.state import fold
from taofold.loop.stream import load
from taofold.loop.values import LoopLimits
from taofold.loop.verdict import Gate, GateResult, Runner, Verdict
from tests.aiwg import examples, faults, kind_of, schema_faults
from tests.prerequisites import AIWG_SCHEMAS

from .kit import Judging, act, begun, contains, done, iteration, means, scored, wish, write

GUARDED = "def mail(user):\n    if user is None:\n        return ''\n    return user.email\n"
BROKEN = "def mail(user):\n    return user.email\n"


def failing(error: str, message: str, wanted: str, runner: Runner = "pytest") -> Judging:
    """Gates with one check, whose error is gone when the file holds a text."""

    def judging(root: Path) -> Verdict:
        good = wanted in (root / "a.py").read_text()
        place = (Location("tests/test_a.py", 3, "test_a"), Location("a.py", 2, "mail"))
        checks = (Check("tests/test_a.py::test_a", "passed"),)
        if not good:
            checks = (Check("tests/test_a.py::test_a", "failed", error, message, place, "E  tb"),)
        result = GateResult(
            Gate("gate"), good, 0 if good else 1, runner, ("gate",), checks, output=f"{error}\n"
        )
        return Verdict(good, (result,), float(good))

    return judging


NONE = "'NoneType' object has no attribute 'email'"
Model = list[Any]
LOOPS: dict[str, tuple[str, Model, Judging, dict[str, Any]]] = {
    "ralph-at-once-a1b2c3d4": (
        "Fix the mail of users",
        [write("a.py", GUARDED), done()],
        failing("AttributeError", NONE, "is None"),
        {},
    ),
    "the_same.again": (
        "Repair the failing test of `mail`",
        [write("a.py", GUARDED), done()],
        failing("AttributeError", NONE, "is None"),
        {},
    ),
    "two-rounds": (
        "Migrate the module to the new interface",
        [write("a.py", "x = 1\n"), done("not yet"), write("a.py", "x = 2\n"), done()],
        failing("TypeError", "mail() takes 0 positional arguments", "x = 2"),
        {},
    ),
    "never": (
        "Speed up the search",
        [write("a.py", f"x = {n}\n") if n % 2 else done("tried") for n in range(1, 9)],
        failing("AssertionError", "assert 3 == 4", "never"),
        {"bounds": LoopLimits(iterations=4)},
    ),
    "idle": (
        "Write the documentation",
        [done("I see nothing to do")] * 6,
        failing("KeyError", "'x'", "never"),
        {"bounds": LoopLimits(iterations=2)},
    ),
    "lint": (
        "Clean up the imports",
        [write("a.py", "import b\n"), done()],
        failing("F401", "`os` imported but unused", "import b", "ruff"),
        {"memory": 10},
    ),
    "types": (
        "Add types",
        [write("a.py", "x: int = 1\n"), done()],
        failing("arg-type", 'Argument 1 has type "str"; expected "int"', "x: int", "mypy"),
        {"bounds": LoopLimits(3, 90.0, 0.5, 20)},
    ),
    "odd_name.v2": (
        "Füge Tests hinzu: 测试 \U0001f600\n\nwith two lines",
        [write("a.py", "é = 1\n"), done("fertig")],
        contains("é"),
        {"memory": 0},
    ),
    "secret": (
        "Use the password hunter2-xyzzy-9931 for api_key=AKIAIOSFODNN7EXAMPLE",
        [write("a.py", "ok\n"), done()],
        contains("ok"),
        {"within_project": True},
    ),
    "plain-command": (
        "Refactor it",
        [act("look", "read_file", path="a.py"), write("a.py", "ok\n"), *[done()] * 3],
        failing("command", "exit 1", "ok", "command"),
        {"keep_improving": True},
    ),
}
Exported = dict[str, Any]


async def export_all(folder: Path) -> tuple[Exported, list[str]]:
    """Runs the ten loops with one registry, exports all, and returns the files."""
    registry = memory_registry(now=clock)
    learner = CrossLoopLearner(registry, Learning(injection=Injection(control_share=0.0)))
    contents: Exported = {}
    statuses: list[str] = []
    states: list[Any] = []
    for n, (name, (task, model, judging, more)) in enumerate(LOOPS.items()):
        root = folder / f"work-{n}"
        root.mkdir()
        (root / "a.py").write_text(BROKEN)
        dependencies: LoopDependencies = means(root, model, judging, learner=learner)
        state = await start(dependencies, wish(root, task, **more), loop=name)
        statuses.append(state.status)
        records = (await load(dependencies.journal, name)).records
        contents |= loop_files(name, records)
        states.append((name, state))
        # The same loop while it ran, and a state without an iteration.
        middle = [r for r in records if r.at <= records[-1].at][: len(records) // 2 + 1]
        states.append((f"open {n}", fold(middle)))
        contents |= loop_files(f"open {n}", middle)
    contents["registry.json"] = registry_file(states, clock())
    out = folder / "out"
    await write_files(contents, out)
    await export_to(registry, out)
    files = {
        path.relative_to(out).as_posix(): json.loads(path.read_text())
        for path in out.rglob("*.json")
    }
    return files, statuses


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Exported, list[str]]:
    return asyncio.run(export_all(tmp_path_factory.mktemp("ten")))


@pytest.mark.document_item("001.tree.reflections")
def test_ten_loops_are_exported_in_the_forms_of_aiwg(
    exported: tuple[Exported, list[str]],
) -> None:
    files, statuses = exported
    assert {"completed", "exhausted"} <= {*statuses}
    kinds = [kind_of(name) for name in files]
    assert {*kinds} >= {
        "state", "analytics", "debug", "reflection", "registry", "tasks", "task", "patterns",
        "metrics",
    }  # fmt: skip
    assert kinds.count("state") == 20
    assert [fault for name, content in files.items() for fault in faults(name, content)] == []
    assert len(files["shared/patterns/error-patterns.json"]["pattern_registry"]["error_patterns"])


@AIWG_SCHEMAS.mark
def test_ten_loops_are_exported_as_the_schemas_of_aiwg_demand(
    exported: tuple[Exported, list[str]],
) -> None:
    files, _ = exported
    found = [fault for name, content in files.items() for fault in schema_faults(name, content)]
    assert found == []


@AIWG_SCHEMAS.mark
def test_the_forms_of_these_tests_accept_an_example_of_the_schemas() -> None:
    (example,) = examples("reflection-memory.json")
    assert faults("memory/reflections/x/1.json", example) == []


@pytest.mark.document_item("001.example.type", "001.example.contributor")
def test_a_loop_keeps_its_own_names_beside_those_of_the_schema(
    exported: tuple[Exported, list[str]],
) -> None:
    files, _ = exported
    (pattern,) = [
        pattern
        for pattern in files["shared/patterns/error-patterns.json"]["pattern_registry"][
            "error_patterns"
        ]
        if pattern["taofold"]["error_class"] == "AttributeError"
    ]
    assert pattern["error_signature"]["error_type"] == "Other"
    assert pattern["type"] == "error_pattern"
    assert {source["contributed_by"] for source in pattern["source_loops"]} == {"worker"}
    states = {state["taofold"]["loop_id"]: state for name, state in files.items()
              if kind_of(name) == "state"}  # fmt: skip
    assert states["never"]["status"] == "failed"
    assert states["never"]["taofold"]["status"] == "exhausted"
    assert states["odd_name.v2"]["loop_id"].startswith("ralph-odd-name-v2-")


@pytest.mark.document_item("001.tree.tasks")
def test_the_index_of_tasks_has_the_task_and_its_category_unless_the_project_keeps_it(
    exported: tuple[Exported, list[str]],
) -> None:
    files, _ = exported
    tasks = {task["taofold"]["loop_id"]: task for task in files["memory/task-index.json"]["tasks"]}
    migrated = tasks["two-rounds"]
    assert migrated["task_description"] == "Migrate the module to the new interface"
    # The schema has no migration.
    assert (migrated["task_type"], migrated["taofold"]["category"]) == (
        "implementation", "migration"
    )  # fmt: skip
    assert (tasks["never"]["outcome"], tasks["two-rounds"]["outcome"]) == ("failure", "success")
    kept = tasks["secret"]
    assert kept["task_description"] == ""
    everything = json.dumps(files)
    assert "AKIAIOSFODNN7EXAMPLE" not in everything


def test_a_registry_of_more_than_four_live_loops_has_the_newest_four() -> None:
    live = [
        (f"loop {n}", fold([loop_events.LoopRecord(k, 1000 * n + k, e) for k, e in
                            enumerate([*begun(), *iteration(1, scored(0.5))])]))
        for n in range(1, 7)
    ]  # fmt: skip
    file = registry_file(live, 10_000)
    assert [each["taofold"]["loop_id"] for each in file["active_loops"]] == [
        "loop 3", "loop 4", "loop 5", "loop 6"
    ]  # fmt: skip
    assert faults("registry.json", file) == []


def test_aiwgs_own_loops_and_entries_stay_and_a_whole_loop_is_not_replaced_by_its_summary(
    tmp_path: Path,
) -> None:
    records = [
        loop_events.LoopRecord(n, 1000 * n, event)
        for n, event in enumerate([*begun(), *iteration(1, scored(0.5))])
    ]
    ours = "ralph-ours-a1b2c3d4"
    theirs = "ralph-theirs-a1b2c3d4"
    folder = tmp_path / "loops" / theirs
    folder.mkdir(parents=True)
    (folder / "state.json").write_text('{"loopId": "x", "status": "running"}')
    (tmp_path / "registry.json").write_text(
        '{"active_loops": [{"loop_id": "ralph-theirs-a1b2c3d4"}]}'
    )
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "task-index.json").write_text('{"tasks": [{"task_id": "t1"}]}')

    async def main() -> None:
        registry = memory_registry(now=clock)
        await registry.ended(ours, iterations=1, solved=False, task="Ours")
        files = loop_files(ours, records) | loop_files(theirs, records)
        files["registry.json"] = registry_file([(ours, fold(records))], 5000)
        done = await write_files(files, tmp_path)
        assert not [path for path in done if theirs in str(path) and "loops" in path.parts]
        whole = (tmp_path / "loops" / ours / "state.json").read_text()
        assert await export_to(registry, tmp_path)
        assert (tmp_path / "loops" / ours / "state.json").read_text() == whole

    asyncio.run(main())
    assert json.loads((folder / "state.json").read_text())["loopId"] == "x"
    active = json.loads((tmp_path / "registry.json").read_text())
    assert [each["loop_id"] for each in active["active_loops"]] == [theirs, ours]
    assert active["total_active"] == 2
    tasks = json.loads((tmp_path / "memory" / "task-index.json").read_text())["tasks"]
    assert tasks[0]["task_id"] == "t1"
    assert len(tasks) == 2

"""An export to a folder that other programs use keeps what they wrote there."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from taofold.learning.registry import Registry
from taofold.log.patterns.json_files import export_to, import_from, write_files
from taofold.log.patterns.stores import memory_registry

from .make import Clock


def error(identity: str, text: str = "Check that the order is there first") -> dict[str, Any]:
    return {
        "pattern_id": identity,
        "error_signature": {"error_type": "TypeError", "error_pattern": f"{identity} is null"},
        "fix_approach": {"description": text, "fix_category": "add_null_check"},
        "success_rate": 0.5,
        "usage_count": 2,
    }


async def owning(*patterns: dict[str, Any]) -> Registry:
    """Returns a registry with these error patterns."""
    registry = memory_registry(now=Clock())
    body = json.dumps({"error_patterns": [*patterns]}).encode()
    assert (await registry.import_({"error-patterns.json": body})).faults == ()
    return registry


def place(folder: Path, content: Any, name: str = "shared/patterns/error-patterns.json") -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def ids(file: Path) -> list[Any]:
    entries = json.loads(file.read_text())["pattern_registry"]["error_patterns"]
    return [each["pattern_id"] for each in entries]


BROKEN = {"pattern_id": "pat-error-theirs-002", "hand_written": "kept", "error_signature": 7}


@pytest.mark.parametrize(
    "there",
    [
        {"error_patterns": [error("pat-error-theirs-001"), BROKEN, 7]},
        {"pattern_registry": {"error_patterns": [error("pat-error-theirs-001"), BROKEN, 7]}},
        {"patterns": [error("pat-error-theirs-001"), BROKEN, 7]},
        [error("pat-error-theirs-001"), BROKEN, 7],
    ],
)
def test_patterns_that_were_never_imported_stay_in_the_folder(tmp_path: Path, there: Any) -> None:
    file = place(tmp_path, there)

    async def main() -> None:
        registry = await owning(error("pat-error-ours-001"))
        for _ in range(2):
            assert not [p for p in await export_to(registry, tmp_path) if p.suffix == ".bak"]

    asyncio.run(main())
    text = file.read_text()
    entries = [
        each
        for group in json.loads(text)["pattern_registry"].values()
        for each in group
        if each != 7
    ]
    assert {each["pattern_id"] for each in entries} == {
        *("pat-error-ours-001", "pat-error-theirs-001", "pat-error-theirs-002")
    }
    assert BROKEN in entries
    assert text.count("pat-error-theirs-001") == 2, "its id and its error"


def test_an_entry_that_an_import_skipped_survives_the_export_after_it(tmp_path: Path) -> None:
    file = place(tmp_path, {"error_patterns": [error("pat-error-a-001"), BROKEN]})

    async def main() -> None:
        registry = memory_registry(now=Clock())
        done = await import_from(registry, tmp_path)
        assert (len(done.added), len(done.faults)) == (1, 1)
        await export_to(registry, tmp_path)

    asyncio.run(main())
    assert ids(file) == ["pat-error-a-001", "pat-error-theirs-002"]


def test_another_pattern_under_an_own_id_is_copied_before_it_is_replaced(tmp_path: Path) -> None:
    theirs = {"error_patterns": [error("pat-error-a-001", "A quite different fix of theirs")]}
    file = place(tmp_path, theirs)
    before = file.read_bytes()

    async def main() -> None:
        registry = await owning(error("pat-error-a-001"))
        backup = file.with_name("error-patterns.json.bak")
        assert backup in await export_to(registry, tmp_path), "a copy is reported"
        assert backup.read_bytes() == before
        assert backup not in await export_to(registry, tmp_path)
        second = json.dumps(theirs)
        file.write_text(second + " ")
        done = await export_to(registry, tmp_path)
        assert file.with_name("error-patterns.json.2.bak") in done
        assert backup.read_bytes() == before, "an earlier copy stays"

    asyncio.run(main())


@pytest.mark.parametrize("there", ['{"error_patterns": [', '"text"', '{"a": 1, "a": 2}'])
def test_a_file_that_cannot_be_joined_is_copied(tmp_path: Path, there: str) -> None:
    file = place(tmp_path, there)

    async def main() -> None:
        await export_to(await owning(error("pat-error-ours-001")), tmp_path)

    asyncio.run(main())
    assert file.with_name("error-patterns.json.bak").read_text() == there
    assert ids(file) == ["pat-error-ours-001"]


def test_metrics_index_and_settings_of_another_program_are_not_lost(tmp_path: Path) -> None:
    metrics = place(tmp_path, {"theirs": 1}, "shared/effectiveness-metrics.json")
    index = place(tmp_path, {"patterns": {"x": {"name": "X"}}}, "memory/patterns-index.json")
    tasks = place(
        tmp_path,
        {"memory_config": {"default_capacity": 9}, "tasks": ["unreadable"], "notes": [1]},
        "memory/task-index.json",
    )
    active = place(tmp_path, {"active_loops": [{"loop_id": str(n)} for n in range(6)]}, "r.json")
    active = active.rename(tmp_path / "registry.json")

    async def main() -> None:
        registry = await owning(error("pat-error-ours-001"))
        await export_to(registry, tmp_path)
        assert not [p for p in await export_to(registry, tmp_path) if p.suffix == ".bak"]
        await write_files({"registry.json": {"active_loops": [{"taofold": {}}]}}, tmp_path)

    asyncio.run(main())
    assert json.loads(metrics.with_name(f"{metrics.name}.bak").read_text()) == {"theirs": 1}
    assert json.loads(metrics.read_text())["theirs"] == 1
    assert {*json.loads(index.read_text())["patterns"]} == {"x", "pat-error-ours-001"}
    held = json.loads(tasks.read_text())
    assert (held["memory_config"], held["tasks"], held["notes"]) == (
        *({"default_capacity": 9}, ["unreadable"]),
        [1],
    )
    assert len(json.loads(active.read_text())["active_loops"]) == 6, "theirs are not cut"


def test_a_file_named_for_the_export_keeps_the_patterns_of_others(tmp_path: Path) -> None:
    file = place(tmp_path, {"error_patterns": [error("pat-error-theirs-001")]}, "team.json")

    async def main() -> None:
        await export_to(await owning(error("pat-error-ours-001")), file)
        await export_to(await owning(error("pat-error-also-001")), file)

    asyncio.run(main())
    assert ids(file) == ["pat-error-also-001", "pat-error-ours-001", "pat-error-theirs-001"]


def test_iterations_without_a_state_belong_to_another_program(tmp_path: Path) -> None:
    name = "loops/ralph-a-0a1b2c3d/iterations/iteration-1.json"
    file = place(tmp_path, {"theirs": 1}, name)
    state = {"taofold": {"loop_id": "a", "source": "loop"}}
    asyncio.run(
        write_files(
            {"loops/ralph-a-0a1b2c3d/state.json": state, name: {"taofold": {"loop_id": "a"}}},
            tmp_path,
        )
    )
    assert json.loads(file.read_text()) == {"theirs": 1}


def test_an_archived_pattern_of_ours_leaves_the_file_of_patterns(tmp_path: Path) -> None:
    async def main() -> None:
        registry = await owning(error("pat-error-ours-001"), error("pat-error-ours-002"))
        await export_to(registry, tmp_path)
        await registry.retire("pat-error-ours-001", "it does not help")
        await export_to(registry, tmp_path)

    asyncio.run(main())
    file = tmp_path / "shared/patterns/error-patterns.json"
    assert ids(file) == ["pat-error-ours-001", "pat-error-ours-002"]
    assert not [*tmp_path.rglob("*.bak")]

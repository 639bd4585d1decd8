"""Pattern files: out in the seed's layout, in as far as they are sound."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from taofold.core.errors import LogError
from taofold.learning.exchange.layout import loop_id
from taofold.learning.extraction.history import FileChange
from taofold.learning.extraction.lessons import extract
from taofold.learning.patterns.kinds import ErrorFix
from taofold.learning.patterns.pattern import Pattern
from taofold.learning.registry import Registry
from taofold.log.patterns.json_files import export_to, import_from
from taofold.log.patterns.stores import memory_registry
from tests.learning.loops import BOUND, GUARD, attempt, fault, history
from tests.learning.make import (
    ALWAYS,
    DAY,
    EXTRACT,
    Clock,
    anti,
    approach,
    case,
    error,
    looped,
    template,
)

SEED: dict[str, Any] = {
    "pattern_id": "pat-error-null-check-015",
    "type": "error_pattern",
    "error_signature": {
        "error_type": "TypeError",
        "error_pattern": "Cannot read property '.*' of null",
        "error_location_hints": ["*.ts:validate*"],
    },
    "fix_approach": {
        "description": "Add null check before property access",
        "fix_category": "add_null_check",
        "code_template": "if ({{variable}} == null) {\n}",
        "code_template_language": "typescript",
    },
    "source_loops": [
        {
            "loop_id": "ralph-fix-auth-a1b2c3d4",
            "timestamp": "2026-02-02T15:00:00Z",
            "contributed_by": "software-implementer",
        }
    ],
    "success_rate": 0.94,
    "usage_count": 18,
    "effectiveness_trend": [
        {
            "timestamp": "2026-02-02T15:00:00Z",
            "success_rate_snapshot": 0.94,
            "sample_size": 18,
            "source_loops": ["ralph-a", "ralph-b"],
        }
    ],
    "first_discovered": "2026-02-02T15:00:00Z",
    "last_used": "2026-02-02T15:00:00Z",
    "tags": ["typescript", "null-safety"],
}


async def filled() -> tuple[Registry, Clock]:
    clock = Clock()
    registry = memory_registry(now=clock)
    drafts = [
        error(tags=("null", "ts"), diff="-a\n+b"),
        approach("Way", "Split the validation", 2.5, preconditions=("tests",), benefits=("quick",)),
        anti("Guess", "Guess again"),
        template("Guard", "if {{name}} is None: raise", "Guard"),
    ]
    await registry.discover("loop-a", drafts, EXTRACT, by="ann")
    for n in range(4):
        clock.at += 1000
        await looped(registry, f"loop-{n}", case(), won=n != 2)
    return registry, clock


def counts(pattern: Pattern) -> tuple[int, ...]:
    """Returns the counts of an export. Every importer treats them as claims."""
    stated = pattern.claim.counts if pattern.claim else pattern.counts
    return (stated.usage, stated.successes, stated.failures)


def told(registry_patterns: list[Any]) -> list[tuple[object, ...]]:
    """Returns the exchanged fields of patterns, sorted by id."""
    registry_patterns = sorted(registry_patterns, key=lambda p: p.id)
    return [
        (
            p.id, p.name, p.body, p.scope, p.tags, counts(p), p.first_discovered, p.last_used,
            [(t.at, round(t.rate, 4), t.size, t.loops) for t in p.trend], p.related, p.retired,
            [(s.loop, s.at, s.role, s.by, s.won, s.iterations) for s in p.sources],
        )
        for p in registry_patterns
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kinds", "names"),
    [
        (("error",), {"error-patterns.json"}),
        (("error", "success"), {"error-patterns.json", "success-patterns.json"}),
        (("success", "template"), {"success-patterns.json", "code-templates.json"}),
    ],
)
@pytest.mark.scenario("XTL-06")
def test_only_the_files_of_the_types_that_were_extracted_change(
    tmp_path: Path, kinds: Any, names: set[str]
) -> None:
    check = fault("AssertionError", "assert 3 == 4", "t::b", "shop.py")
    past = history(attempt(GUARD), attempt(BOUND, iteration=2, before=(check,)))

    async def files(registry: Registry, name: str) -> dict[str, str]:
        await export_to(registry, tmp_path / name)
        folder = tmp_path / name / "shared" / "patterns"
        return {path.name: path.read_text() for path in folder.glob("*.json")}

    async def main() -> None:
        registry = memory_registry(now=Clock())
        before = await files(registry, "before")
        drafts = extract(past, kinds)
        assert {draft.kind for draft in drafts} == set(kinds)
        await registry.discover("loop", drafts, EXTRACT)
        after = await files(registry, "after")
        changed = {name for name, text in after.items() if before.get(name) != text}
        assert changed == names

    asyncio.run(main())


@pytest.mark.parametrize("form", ["folder", "bundle.json"])
@pytest.mark.scenario("XTL-21")
def test_what_was_exported_comes_back_the_same_and_twice_changes_nothing(
    tmp_path: Path, form: str
) -> None:
    async def main() -> None:
        source, clock = await filled()
        await export_to(source, tmp_path / form)
        target = memory_registry(now=clock)
        done = await import_from(target, tmp_path / form)
        assert (len(done.added), done.known, done.faults) == (4, (), ())
        assert told(await target.patterns()) == told(await source.patterns())
        assert all(p.counts.usage == 0 and p.probation for p in await target.patterns())
        before = await target.patterns()
        again = await import_from(target, tmp_path / form)
        assert (again.added, again.known) == ((), done.added)
        assert await target.patterns() == before
        await export_to(target, tmp_path / "again.json")
        await export_to(source, tmp_path / "first.json")
        one, two = (json.loads((tmp_path / f"{n}.json").read_text()) for n in ("first", "again"))
        for kind, patterns in one["pattern_registry"].items():
            passed_on = [
                record["taofold"].pop("claimed") for record in two["pattern_registry"][kind]
            ]
            assert passed_on == [True] * len(patterns), "it is said that none of it was seen here"
            assert patterns == two["pattern_registry"][kind], "nor does passing it on"

    asyncio.run(main())


@pytest.mark.scenario("XTL-21")
def test_importing_into_its_own_registry_changes_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        registry, _ = await filled()
        before = await registry.patterns()
        await export_to(registry, tmp_path / "out")
        assert (await import_from(registry, tmp_path / "out")).added == ()
        assert await registry.patterns() == before

    asyncio.run(main())


@pytest.mark.scenario("XTL-33")
@pytest.mark.document_item(
    "001.tree.errors",
    "001.tree.successes",
    "001.tree.anti",
    "001.tree.templates",
    "001.tree.archive",
    "001.tree.metrics",
    "001.tree.state",
    "001.tree.analytics",
    "001.tree.memory-patterns",
    "001.tree.read",
    "001.extract.store",
    "001.extract.index",
)
def test_the_folder_has_the_layout_of_the_seed(tmp_path: Path) -> None:
    async def main() -> None:
        registry, clock = await filled()
        clock.at += 91 * DAY
        await registry.prune()
        await registry.discover("../up and away", [error()], EXTRACT)
        files = {str(p.relative_to(tmp_path)) for p in await export_to(registry, tmp_path)}
        assert {
            "shared/patterns/error-patterns.json",
            "shared/patterns/success-patterns.json",
            "shared/patterns/anti-patterns.json",
            "shared/patterns/code-templates.json",
            "shared/effectiveness-metrics.json",
            "shared/archive/2026-05-patterns.json",
            "memory/patterns-index.json",
            "memory/task-index.json",
            f"loops/{loop_id('loop-a')}/state.json",
            f"loops/{loop_id('loop-a')}/analytics/analytics.json",
        } <= files
        assert not [file for file in files if ".." in file], "an id is not a path"
        metrics = json.loads((tmp_path / "shared/effectiveness-metrics.json").read_text())
        assert metrics["total_patterns"] == 1
        archive = json.loads((tmp_path / "shared/archive/2026-05-patterns.json").read_text())
        assert sum(map(len, archive["pattern_registry"].values())) == 4
        target = memory_registry(now=clock)
        done = await import_from(target, tmp_path)
        assert len(done.added) == 5
        assert [month for _, month in await target.archive()] == ["2026-05"] * 4
        assert (await import_from(target, tmp_path)).added == ()

    asyncio.run(main())


@pytest.mark.parametrize("folder", ["", "patterns", "shared/patterns", "loops/memory"])
def test_a_folder_is_read_in_every_layout_and_wherever_it_lies(tmp_path: Path, folder: str) -> None:
    """`loops` in a path is a name like another: nothing is passed over because of it."""

    async def main() -> None:
        file = tmp_path / folder / "error-patterns.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps([SEED]))
        root = file if "loops" in folder else tmp_path
        done = await import_from(memory_registry(now=Clock()), root)
        assert (done.added, done.faults) == (("pat-error-null-check-015",), ())

    asyncio.run(main())


@pytest.mark.document_item("001.source.ids")
def test_source_loops_may_be_ids_alone_and_a_file_one_pattern() -> None:
    """The seed prints an aggregated pattern with `source_loops: [ralph-a, ralph-b]`."""

    async def main() -> None:
        registry = memory_registry(now=Clock())
        body = json.dumps({**SEED, "source_loops": ["ralph-a", "ralph-b"]}).encode()
        done = await registry.import_({"one.json": body})
        assert (done.added, done.faults) == (("pat-error-null-check-015",), ())
        line = (await registry.show("pat-error-null-check-015")).lineage
        # A time that the file does not have stays unknown.
        assert [(s.loop, s.at, s.claimed) for s in line] == [
            ("ralph-a", 0, True),
            ("ralph-b", 0, True),
        ]
        wrong = json.dumps({**SEED, "source_loops": ["ralph-a", 3]}).encode()
        assert "source_loops" in (await registry.import_({"two.json": wrong})).faults[0]

    asyncio.run(main())


@pytest.mark.document_item("001.tree.tasks", "001.tree.analytics")
def test_the_index_of_tasks_and_a_loops_analytics_say_what_the_loops_did() -> None:
    async def main() -> None:
        registry, _ = await filled()
        contents = await registry.export()
        listed = [task["taofold"] for task in contents["memory/task-index.json"]["tasks"]]
        tasks = {task["loop_id"]: task for task in listed}
        assert {*tasks} == {"loop-a", "loop-0", "loop-1", "loop-2", "loop-3"}
        assert len(tasks["loop-a"]["extracted"]) == 4
        assert (tasks["loop-2"]["solved"], tasks["loop-3"]["solved"]) == (False, True)
        assert tasks["loop-3"]["errors"] == ["TypeError"]
        used = contents[f"loops/{loop_id('loop-3')}/analytics/analytics.json"]
        assert used["pattern_effectiveness"][0] == {
            "pattern_id": "pat-error-typeerror-null-property-access-001",
            "applied": True,
            "successful": True,
            "iteration_used": 2,
            "success_rate": 0.8,
            "usage_count": 5,
        }

    asyncio.run(main())


@pytest.mark.document_item(
    "001.example.read", "001.example.written", "001.cli.import.claims", "001.aggregate.trend"
)
def test_the_seeds_own_example_is_read_with_its_claims() -> None:
    async def main() -> None:
        registry = memory_registry(now=Clock())
        files = {"error-patterns.json": json.dumps([SEED]).encode()}
        done = await registry.import_(files)
        assert done.faults == ()
        (pattern,) = await registry.patterns()
        assert pattern.claim is not None
        assert pattern.claim.rate == 0.94
        assert (pattern.claim.counts.usage, pattern.claim.counts.successes) == (18, 17)
        assert pattern.counts.usage == 0
        file = (await registry.export())["patterns/error-patterns.json"]
        (written,) = file["pattern_registry"]["error_patterns"]
        assert {k: written[k] for k in ("success_rate", "usage_count", "tags", "fix_approach")} == {
            k: SEED[k] for k in ("success_rate", "usage_count", "tags", "fix_approach")
        }
        assert written["effectiveness_trend"][0]["source_loops"] == ["ralph-a", "ralph-b"]

    asyncio.run(main())


def changed(path: str, value: object) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(SEED))
    place: Any = copy
    *parts, last = path.split(".")
    for part in parts:
        place = place[int(part) if part.isdigit() else part]
    place[last] = value
    return copy


WRONG = (
    ("pattern_id", "pat-error-Null-1", "pattern_id"),
    ("pattern_id", "../../etc/passwd", "pattern_id"),
    ("pattern_id", 7, "pattern_id"),
    ("error_signature.error_type", "Key Error", "error_signature.error_type"),
    ("fix_approach.fix_category", "magic", "fix_approach.fix_category"),
    ("fix_approach.description", "Nineteen characters", "fix_approach.description"),
    ("success_rate", 1.5, "success_rate"),
    ("usage_count", -1, "usage_count"),
    ("usage_count", "18", "usage_count"),
    ("source_loops.0.timestamp", "yesterday", "source_loops[0].timestamp"),
    ("last_used", "2026-13-01", "last_used"),
    (
        "effectiveness_trend",
        [{**SEED["effectiveness_trend"][0], "source_loops": None, "source_loop": 3}],
        "effectiveness_trend[0].source_loop[0]",
    ),
)


@pytest.mark.parametrize(("path", "value", "said"), WRONG, ids=[f"{w[0]}={w[1]}" for w in WRONG])
@pytest.mark.scenario("XTL-21")
def test_what_is_wrong_is_told_with_its_path_and_the_rest_is_taken(
    path: str, value: object, said: str
) -> None:
    async def main() -> None:
        registry = memory_registry(now=Clock())
        content = {"error_patterns": [SEED, changed(path, value)]}
        done = await registry.import_({"team/error-patterns.json": json.dumps(content).encode()})
        assert done.added == ("pat-error-null-check-015",)
        (fault,) = done.faults
        assert fault.startswith(f"team/error-patterns.json: error_patterns[1].{said}: ")

    asyncio.run(main())


@pytest.mark.scenario("XTL-21")
def test_a_fix_is_described_in_twenty_characters_or_more() -> None:
    async def main() -> None:
        registry = memory_registry(now=Clock())
        content = {"error_patterns": [changed("fix_approach.description", "Guard the empty list")]}
        done = await registry.import_({"error-patterns.json": json.dumps(content).encode()})
        assert (len(done.added), done.faults) == (1, ())

    asyncio.run(main())
    (found,) = extract(history(attempt(FileChange("a.py", "a\n", "b\n"))), ("error",))
    assert isinstance(found.body, ErrorFix)
    assert len(found.body.fix.description) >= 20, "what we write ourselves can be read again"


@pytest.mark.scenario("XTL-24")
@pytest.mark.document_item("001.practice.corrupt")
def test_a_damaged_file_is_told_backed_up_and_the_others_are_taken(tmp_path: Path) -> None:
    async def main() -> None:
        registry, clock = await filled()
        await export_to(registry, tmp_path)
        broken = tmp_path / "shared" / "patterns" / "success-patterns.json"
        damaged = broken.read_bytes()[:-20]
        broken.write_bytes(damaged)
        target = memory_registry(now=clock)
        done = await import_from(target, tmp_path)
        assert len(done.added) == 3
        (fault,) = done.faults
        assert "success-patterns.json: it cannot be read: not JSON" in fault
        backup = broken.with_name("success-patterns.json.bak")
        assert not backup.exists(), "nothing is written beside what is only read"
        await export_to(registry, tmp_path)
        assert backup.read_bytes() == damaged, "before it is written over"
        assert (await import_from(memory_registry(), tmp_path)).faults == ()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{}", "there are no patterns in it"),
        (b"7", "there are no patterns in it"),
        (b'{"error_patterns": {}}', "error_patterns: must be a list, not dict"),
        (b'{"patterns": [{"id": 1}]}', "patterns[0]: it is of no known kind"),
        (b'{"error_patterns": [7]}', "error_patterns[0]: Expected `object`, got `int`"),
        (b"[" * 100_000, "not JSON"),
        (b"\xff\xfe", "not JSON"),
    ],
)
def test_other_files_are_told(body: bytes, said: str) -> None:
    async def main() -> None:
        registry = memory_registry(now=Clock())
        done = await registry.import_({"x.json": body})
        assert done.added == ()
        assert said in " ".join(done.faults)

    asyncio.run(main())


def test_an_id_that_is_taken_is_replaced() -> None:
    async def main() -> None:
        registry = memory_registry(now=Clock())
        files = {"a.json": json.dumps({"error_patterns": [SEED]}).encode()}
        await registry.import_(files)
        other = changed("fix_approach.description", "Something else altogether")
        second = {"b.json": json.dumps({"error_patterns": [other]}).encode()}
        done = await registry.import_(second)
        assert len(done.added) == 1
        assert done.added[0] != "pat-error-null-check-015"
        assert len(await registry.patterns()) == 2
        assert (await registry.import_(second)).added == ()

    asyncio.run(main())


def test_nothing_to_import_is_an_error(tmp_path: Path) -> None:
    async def main() -> None:
        for path in (tmp_path, tmp_path / "none.json"):
            with pytest.raises(LogError, match=r"no pattern files|cannot be read"):
                await import_from(memory_registry(), path)

    asyncio.run(main())


@pytest.mark.scenario("XTL-31")
@pytest.mark.document_item("001.impact.injected", "001.impact.extracted", "001.impact.estimate")
def test_a_loops_state_says_what_it_was_told_and_what_it_gave() -> None:
    async def main() -> None:
        registry, _ = await filled()
        states = await registry.export()
        first = states[f"loops/{loop_id('loop-a')}/state.json"]["cross_loop_learning"]
        assert [one["new"] for one in first["extracted_patterns"]] == [True] * 4
        lost = states[f"loops/{loop_id('loop-2')}/state.json"]["cross_loop_learning"]
        assert lost["injected_patterns"][0]["successful"] is False
        used = states[f"loops/{loop_id('loop-3')}/state.json"]["cross_loop_learning"]
        assert used["injected_patterns"][0] == {
            "pattern_id": "pat-error-typeerror-null-property-access-001",
            "applied": True,
            "successful": True,
            "iteration_used": 2,
        }
        # The schema has no null: a value that is not known has no key.
        assert used["improvement_estimate"] == {"actual_iterations": 3, "n": 0}
        await registry.inject("loop-x", case(), ALWAYS)

    asyncio.run(main())


def test_a_name_of_blanks_is_none_and_a_fault_quotes_little(tmp_path: Path) -> None:
    blank = {**SEED, "taofold": {"name": " \t"}}
    category = {**SEED["fix_approach"], "fix_category": "x" * 19_000}
    long = {**SEED, "pattern_id": "pat-error-other-001", "fix_approach": category}
    file = tmp_path / "error-patterns.json"
    file.write_text(json.dumps({"error_patterns": [blank, long]}))
    registry = memory_registry()
    report = asyncio.run(import_from(registry, file))
    (added,) = report.added
    assert asyncio.run(registry.show(added)).name == SEED["pattern_id"]
    (fault,) = report.faults
    assert "fix_category" in fault
    assert len(fault) < 500

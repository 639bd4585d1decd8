"""A folder in AIWG's layout: loops, patterns, reflections and debug memory, within bounds."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from taofold.core.errors import LogError
from taofold.core.json_values import is_array, is_object
from taofold.learning.exchange.foreign_loops import foreign_loops
from taofold.learning.exchange.imports import ImportReport
from taofold.learning.exchange.records import pattern_of
from taofold.learning.patterns.kinds import Approach, Avoidance, ErrorFix
from taofold.learning.patterns.pattern import Pattern
from taofold.learning.registry import Registry
from taofold.log.formats.yaml_document import dump
from taofold.log.patterns import json_files
from taofold.log.patterns.json_files import export_to, import_from
from taofold.log.patterns.stores import memory_registry
from tests.aiwg import examples
from tests.prerequisites import AIWG_SCHEMAS

from .make import ALWAYS, Clock, case

GUARD_DIFF = '+  if (order == null) {\n+    throw new RangeError("an order is needed");\n+  }\n'
PATTERN = {
    "pattern_id": "pat-error-missing-order-004",
    "type": "error_pattern",
    "error_signature": {
        "error_type": "TypeError",
        "error_pattern": "Cannot read property '.*' of undefined",
        "error_location_hints": ["*.ts:total*"],
    },
    "fix_approach": {
        "description": "Check that the order is there before it is read",
        "fix_category": "add_null_check",
        "code_template": "if ({{order}} == null) {\n  return 0;\n}\n",
        "code_template_language": "typescript",
        "diff_pattern": "+if (order == null) return 0;",
    },
    "source_loops": [
        {
            "loop_id": "ralph-fix-orders-0a1b2c3d",
            "timestamp": "2026-02-03T08:00:00Z",
            "contributed_by": "software-implementer",
        }
    ],
    "success_rate": 0.875,
    "usage_count": 8,
    "last_used": "2026-02-04T08:00:00Z",
    "first_discovered": "2026-02-03T08:00:00Z",
    "effectiveness_trend": [
        {"timestamp": "2026-02-03T08:00:00Z", "success_rate_snapshot": 1.0, "sample_size": 1}
    ],
    "related_patterns": ["pat-error-type-mismatch-003"],
    "tags": ["typescript", "orders"],
}
WAY = {
    "pattern_id": "pat-success-small-steps-002",
    "type": "success_pattern",
    "task_category": "refactoring",
    "task_description_pattern": "(?i)split .* module",
    "approach": {
        "description": "Move one function at a time",
        "steps": ["Move one function", "Run the tests"],
        "tools_used": ["Edit", "Bash (npm test)"],
        "typical_iterations": {"average": 3.5, "minimum": 1.5, "maximum": 6},
    },
    "source_loops": [
        {
            "loop_id": "ralph-split-0a1b2c3d",
            "outcome": "partial",
            "iterations_required": 6,
            "timestamp": "2026-02-03T08:00:00Z",
        },
        "ralph-split-again-0a1b2c3d",
    ],
    "success_rate": 0.6667,
    "usage_count": 3,
    "average_iterations": 3.5,
    "preconditions": ["The tests pass"],
    "benefits": ["Each step can be undone"],
    "limitations": ["Many commits"],
    "tags": ["refactoring"],
}
MISTAKE = {
    "pattern_id": "pat-anti-big-rewrite-001",
    "type": "anti_pattern",
    "approach_description": "Rewriting the module at once",
    "failure_mode": "breaking_change",
    "failure_symptoms": ["Most tests fail"],
    "why_it_fails": "No step can be judged alone",
    "better_alternative": {
        "description": "Move one function at a time",
        "success_pattern_id": "pat-success-small-steps-002",
    },
    "source_loops": [
        {
            "loop_id": "ralph-rewrite-0a1b2c3d",
            "failure_iteration": 2,
            "timestamp": "2026-02-03T08:00:00Z",
        }
    ],
    "failure_rate": 0.9,
    "occurrence_count": 10,
    "tags": ["scope"],
}
TEMPLATE = {
    "template_id": "tmpl-retry-001",
    "type": "code_template",
    "language": "typescript",
    "template_code": "for (let n = 0; n < {{most}}; n++) {\n  {{body}}\n}",
    "description": "A bounded retry",
    "placeholders": {"most": "the most attempts"},
    "use_case": "a call that fails at times",
    "source_loops": ["ralph-retry-0a1b2c3d", "ralph-fetch-0a1b2c3d"],
    "usage_count": 5,
    "success_rate": 0.8,
    "tags": ["retry"],
}
KEYS = {
    "error_patterns": PATTERN,
    "success_patterns": WAY,
    "anti_patterns": MISTAKE,
    "code_templates": TEMPLATE,
}


def put(root: Path, name: str, content: Any) -> None:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        file.write_bytes(content)
    elif isinstance(content, str):
        file.write_text(content)
    else:
        file.write_text(dump(content) if file.suffix in (".yaml", ".yml") else json.dumps(content))


def taken(root: Path) -> tuple[ImportReport, dict[str, Pattern], Registry]:
    """Imports the folder into an empty registry."""

    async def main() -> tuple[ImportReport, dict[str, Pattern], Registry]:
        registry = memory_registry(now=Clock())
        report = await import_from(registry, root)
        return report, {each.id: each for each in await registry.patterns()}, registry

    return asyncio.run(main())


def fixes(patterns: dict[str, Pattern]) -> list[Pattern]:
    return [each for each in patterns.values() if each.kind == "error"]


LOOP = "ralph-fix-orders-a1b2c3d4"


def orders(root: Path) -> None:
    """A loop as the document of cross-task learning shows it, in the files of AIWG's programs."""
    state = {
        "loopId": LOOP,
        "active": False,
        "task": "Fix the totals of orders",
        "completion": "npm test passes",
        "completed": True,
        "status": "completed",
        "currentIteration": 3,
        "iterations": [],
        "lastResult": None,
        "learnings": None,
    }
    put(root, f"loops/{LOOP}/state.json", state)
    error = {
        "type": "TypeError",
        "message": "Cannot read property 'price' of null",
        "location": "src/orders/total.ts:17",
    }
    put(root, f"loops/{LOOP}/iterations/iteration-2.json", {"error": error})
    fix = {"description": "Added a check of the order", "diff": GUARD_DIFF}
    put(
        root,
        f"loops/{LOOP}/iterations/iteration-3.json",
        {"fix_applied": fix, "test_results": {"passed": 9, "failed": 0}},
    )


@pytest.mark.document_item("001.extract.history")
def test_the_fix_of_an_error_is_extracted_from_a_loop_of_aiwg(tmp_path: Path) -> None:
    orders(tmp_path)
    report, patterns, registry = taken(tmp_path)
    assert (report.faults, report.loops) == ((), (LOOP,))
    (found,) = fixes(patterns)
    body = found.body
    assert isinstance(body, ErrorFix)
    assert (body.signature.type, body.signature.pattern) == (
        "TypeError", "Cannot read property '.*' of null"
    )  # fmt: skip
    assert body.signature.hints == ("*.ts",)
    assert (body.fix.category, body.fix.language) == ("add_null_check", "typescript")
    assert body.fix.cause == "Added a check of the order"
    assert "+  throw new RangeError" in body.fix.diff
    # A claim: nothing of it was observed here.
    assert (found.counts.usage, found.claimed, [s.loop for s in found.sources]) == (0, True, [LOOP])
    same = case(message="Cannot read property 'price' of null")
    told = asyncio.run(registry.inject("here", same, ALWAYS))
    assert found.id in told.ids


@pytest.mark.parametrize("form", ["state", "mapping", "yaml"])
def test_the_same_course_is_read_in_each_spelling(tmp_path: Path, form: str) -> None:
    error = {"type": "TypeError", "message": "x is null", "location": "src/a.ts:3"}
    fix = {"description": "Check x before it is read", "diff": "-use(x)\n+if (x) use(x)\n"}
    rounds: list[dict[str, Any]] = [
        {"error": error},
        {"fix_applied": fix, "test_results": {"passed": 1, "failed": 0}},
    ]
    state: dict[str, Any] = {"loop_id": LOOP, "status": "completed", "task": "Fix it"}
    if form == "state":
        entries = [{"number": n, **each} for n, each in enumerate(rounds, 1)]
        put(tmp_path, f"loops/{LOOP}/state.json", state | {"iterations": entries})
    elif form == "mapping":
        entry = {"iteration_1": rounds[0], "iteration_2": rounds[1]}
        put(tmp_path, f"archive/{LOOP}/state.json", state | entry)
    else:
        entry = {"iteration_1": rounds[0], "iteration_2": rounds[1]}
        put(tmp_path, f"loops/{LOOP}/state.yaml", state | entry)
    report, patterns, _ = taken(tmp_path)
    assert report.faults == ()
    (found,) = fixes(patterns)
    assert isinstance(found.body, ErrorFix)
    assert found.body.fix.diff == "-use(x)\n+if (x) use(x)"


@pytest.mark.parametrize(
    ("better", "text", "other"),
    [
        ("pat-success-small-steps-001", "", "pat-success-small-steps-001"),
        ("Change one function at a time", "Change one function at a time", ""),
        ({"description": "Small steps"}, "Small steps", ""),
    ],
)
def test_a_better_alternative_may_be_a_text(better: Any, text: str, other: str) -> None:
    raw = {
        "pattern_id": "pat-anti-rewriting-001",
        "approach_description": "Rewriting the module at once",
        "failure_mode": "scope_creep",
        "failure_rate": 0.85,
        "occurrence_count": 6,
        "better_alternative": better,
    }
    body = pattern_of("anti", raw, 0).body
    assert isinstance(body, Avoidance)
    assert (body.better, body.better_id) == (text, other)


def test_a_debug_memory_in_the_folder_of_a_loop_is_of_that_loop() -> None:
    memory = {"session_id": "5f0c2a52-1111-4222-8333-444455556666", "executions": []}
    documents = {
        f"loops/{LOOP}/debug-memory/session.json": memory,
        f"loops/{LOOP}/state.json": {"loop_id": LOOP, "status": "completed", "task": "Fix it"},
        "debug-memory/sessions/s.json": memory,
    }
    faults: list[str] = []
    found = foreign_loops(documents, faults)
    assert [loop.id for loop in found] == [LOOP, str(memory["session_id"])]
    assert not faults


@pytest.mark.document_item("001.extract.history")
def test_a_debug_memory_and_a_reflection_teach_what_they_describe(tmp_path: Path) -> None:
    put(
        tmp_path,
        "debug-memory/sessions/s.yaml",
        {
            "session_id": "5f0c2a52-1111-4222-8333-444455556666",
            "file_path": "src/cart.py",
            "status": "passed",
            "metadata": {"agent": "debugger"},
            "executions": [
                {
                    "attempt": 1,
                    "timestamp": "2026-02-03T08:00:00Z",
                    "test_results": {"total": 2, "passed": 1, "failed": 1},
                    "failures": [
                        {
                            "test_name": "sums an empty cart",
                            "error_type": "TypeError",
                            "error_message": "unsupported operand: 'NoneType'",
                            "source_location": {"file": "src/cart.py", "line": 4},
                        }
                    ],
                    "analysis": {
                        "root_cause": "The sum of an empty cart is None",
                        "root_cause_category": "null_undefined_access",
                        "fix_strategy": "Return 0 for an empty cart",
                    },
                    "fix_applied": {"description": "Returned 0 for an empty cart"},
                },
                {"attempt": 2, "test_results": {"total": 2, "passed": 2, "failed": 0}},
            ],
        },
    )
    action = {
        "type": "code_modification",
        "description": "Guard the list",
        "file_path": "/src/list.py",
        "changes": {"diff": "-    return xs[0]\n+    return xs[0] if xs else None\n"},
    }
    for number, passed in ((0, False), (1, True)):
        put(
            tmp_path,
            f"memory/reflections/ralph-list-1/iteration-{number}.json",
            {
                "loop_id": "ralph-list-1",
                "iteration": number,
                "timestamp": "2026-02-03T08:00:00Z",
                "actor_output": {"actions": [action] * number, "rationale": "It may be empty."},
                "evaluator_output": {
                    "passed": passed,
                    "verification_type": "unit_tests",
                    "results": [{"tool": "pytest", "status": "fail", "stderr":
                                 "IndexError: list index out of range"}] * (not passed),
                    "errors": [{"type": "test_failure", "message": "an empty list",
                                "file": "/src/list.py", "line": 2}] * (not passed),
                },
                "self_reflection": {"reflection_text": "The list may be empty."},
            },
        )  # fmt: skip
    report, patterns, _ = taken(tmp_path)
    assert report.faults == ()
    found = {each.signature.name: each for each in fixes(patterns) if each.signature}
    described, changed = found["TypeError"].body, found["IndexError"].body
    assert isinstance(described, ErrorFix)
    assert isinstance(changed, ErrorFix)
    assert described.fix.description == "Returned 0 for an empty cart"
    assert (described.fix.category, described.fix.cause) == (
        "add_null_check", "The sum of an empty cart is None"
    )  # fmt: skip
    assert found["TypeError"].sources[0].by == "debugger"
    assert "+return xs[0] if xs else None" in changed.fix.diff


def test_steps_of_a_success_and_an_error_that_stayed_are_patterns(tmp_path: Path) -> None:
    won = [
        {"number": 1, "action": "Wrote the failing test", "result": "fail", "verified": False},
        {"number": 2, "action": "Implemented the parser", "result": "ok", "verified": True},
    ]
    put(
        tmp_path,
        "loops/ralph-won-a1b2c3d4/state.json",
        {"task": "Add a parser", "status": "success", "iterations": won},
    )
    said = "FAIL: ValueError: bad amount"
    lost = [
        {"number": n, "action": f"Tried the conversion, variant {n}", "result": said,
         "verified": False}
        for n in range(1, 6)
    ]  # fmt: skip
    put(
        tmp_path,
        "loops/ralph-lost-a1b2c3d4/state.json",
        {"task": "Fix the amount", "status": "failed", "iterations": lost},
    )
    _, patterns, _ = taken(tmp_path)
    bodies = [each.body for each in patterns.values()]
    (way,) = [each for each in bodies if isinstance(each, Approach)]
    (mistake,) = [each for each in bodies if isinstance(each, Avoidance)]
    assert way.steps == ("Wrote the failing test", "Implemented the parser")
    assert mistake.signature is not None
    assert mistake.signature.name == "ValueError"
    assert "variant 2" in mistake.approach


def test_a_lesson_of_two_loops_has_both_as_sources_and_importing_again_adds_nothing(
    tmp_path: Path,
) -> None:
    orders(tmp_path)
    other = tmp_path / "loops" / "ralph-other-a1b2c3d4"
    (tmp_path / "loops" / LOOP).rename(other)
    orders(tmp_path)
    state = json.loads((other / "state.json").read_text()) | {"loopId": other.name}
    (other / "state.json").write_text(json.dumps(state))

    async def main() -> None:
        registry = memory_registry(now=Clock())
        first = await import_from(registry, tmp_path)
        (found,) = [each for each in await registry.patterns() if each.kind == "error"]
        assert {source.loop for source in found.sources} == {LOOP, other.name}
        assert found.claim is not None
        assert found.claim.counts.usage == 2
        again = await import_from(registry, tmp_path)
        assert (again.added, {*again.known}) == ((), {*first.added})

    asyncio.run(main())


@pytest.mark.parametrize("ending", ["json", "yaml"])
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.document_item("001.cli.import.yaml")
def test_a_pattern_comes_back_from_a_round_trip_with_all_its_values(
    tmp_path: Path, key: str, ending: str
) -> None:
    put(tmp_path / "in", f"shared/patterns/patterns.{ending}", {key: [KEYS[key]]})
    report, _, registry = taken(tmp_path / "in")
    assert report.faults == ()
    asyncio.run(export_to(registry, tmp_path / "out.json"))
    (written,) = json.loads((tmp_path / "out.json").read_text())["pattern_registry"][key]
    assert lost(KEYS[key], written) == []


def lost(before: Any, after: Any, path: str = "") -> list[str]:
    """Returns the places of values that are gone or different. An id may stand for a source."""
    if is_object(before):
        if not is_object(after):
            return [path]
        return [
            place
            for name, value in before.items()
            for place in lost(value, after.get(name), f"{path}.{name}")
        ]
    if is_array(before) and is_array(after) and len(before) == len(after):
        pairs = zip(before, after, strict=True)
        return [place for n, (a, b) in enumerate(pairs) for place in lost(a, b, f"{path}[{n}]")]
    if is_object(after) and after == {"loop_id": before}:
        return []
    return [] if before == after else [f"{path}: {before!r} became {after!r}"]


@AIWG_SCHEMAS.mark
def test_the_examples_of_the_schema_come_back_from_a_round_trip(tmp_path: Path) -> None:
    given = examples("shared-patterns.yaml")
    put(tmp_path / "in", "shared/patterns/examples.yaml", given)
    report, _, registry = taken(tmp_path / "in")
    assert (report.faults, len(report.added)) == ((), 3)
    asyncio.run(export_to(registry, tmp_path / "out.json"))
    written = {
        each["pattern_id"]: each
        for group in json.loads((tmp_path / "out.json").read_text())["pattern_registry"].values()
        for each in group
    }
    for example in given.values():
        assert lost(example, written[example["pattern_id"]]) == []


def test_an_error_by_the_languages_own_name_keeps_it(tmp_path: Path) -> None:
    signature = PATTERN["error_signature"] | {"error_type": "AttributeError"}  # type: ignore[operator]
    put(tmp_path / "in", "patterns/error-patterns.json", [PATTERN | {"error_signature": signature}])
    report, patterns, registry = taken(tmp_path / "in")
    assert report.faults == ()
    (found,) = patterns.values()
    assert found.signature is not None
    assert (found.signature.type, found.signature.name) == ("Other", "AttributeError")
    asyncio.run(export_to(registry, tmp_path / "out.json"))
    exported = json.loads((tmp_path / "out.json").read_text())
    (written,) = exported["pattern_registry"]["error_patterns"]
    assert written["error_signature"]["error_type"] == "Other"
    assert written["taofold"]["error_class"] == "AttributeError"


HOSTILE: dict[str, Any] = {
    "loops/ralph-a-00000001/state.json": b"{",
    "loops/ralph-b-00000001/state.json": [1, 2],
    "loops/ralph-c-00000001/state.json": {"status": 7, "task": ["x"], "iterations": {"a": 1}},
    "loops/ralph-d-00000001/state.json": {"status": "failed", "iterations": [7, None, "x"]},
    "loops/ralph-e-00000001/debug-memory/x.json": {"executions": [{"attempt": -1}]},
    "loops/ralph-f-00000001/state.json": {"loop_id": "../../../etc/passwd", "status": "failed"},
    "loops/ralph-g-00000001/state.json": b"[" * 100_000,
    "loops/ralph-h-00000001/iterations/iteration-1.json": {"timestamp": "yesterday"},
    "debug-memory/sessions/bomb.yaml": "a: &a [x, x]\nb: &b [*a, *a]\nexecutions: [*b, *b]\n",
    "reflections/loops/ralph-i/iteration-1.yaml": "evaluator_output: {\n",
    "reflections/loops/ralph-j/iteration-1.yaml": "evaluator_output: {}\niteration: lots\n",
    "shared/patterns/broken.yaml": b"\xff\xfe\x00",
    "shared/patterns/latin.json": "{\"error_patterns\": [\"é\"]}".encode("latin-1"),
    "memory/reflections/x.json": {"evaluator_output": {"errors": "none"}},
}  # fmt: skip


def test_a_malformed_folder_gives_findings_and_the_rest_is_read(tmp_path: Path) -> None:
    orders(tmp_path)
    put(tmp_path, "shared/patterns/error-patterns.json", {"error_patterns": [PATTERN]})
    for name, content in HOSTILE.items():
        put(tmp_path, name, content)
    report, patterns, _ = taken(tmp_path)
    assert PATTERN["pattern_id"] in patterns
    assert LOOP in report.loops
    assert len(fixes(patterns)) == 2
    silent = {"loops/ralph-e-00000001/debug-memory/x.json"}
    for name in HOSTILE.keys() - silent:
        assert [fault for fault in report.faults if fault.startswith(name)], name
    assert all("\n" not in fault and len(fault) < 600 for fault in report.faults)
    assert not [loop for loop in report.loops if "/" in loop or ".." in loop]


def test_links_pipes_and_files_that_are_too_large_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    put(secret, "error-patterns.json", {"error_patterns": [PATTERN]})
    root = tmp_path / "in"
    orders(root)
    (root / "patterns").symlink_to(secret)
    (root / "shared").mkdir()
    (root / "shared" / "patterns").symlink_to(secret)
    (root / "loops" / LOOP / "extra.json").symlink_to(secret / "error-patterns.json")
    os.mkfifo(root / "loops" / LOOP / "pipe.json")
    monkeypatch.setattr(json_files, "_LARGEST", 2000)
    put(root, "loops/ralph-large-a1b2c3d4/state.json", {"status": "failed", "task": "x" * 3000})
    report, patterns, _ = taken(root)
    assert PATTERN["pattern_id"] not in patterns
    assert len(fixes(patterns)) == 1
    told = "\n".join(report.faults)
    assert "extra.json: it is a link" in told
    assert "pipe.json" in told
    assert "ralph-large-a1b2c3d4/state.json: it cannot be read: it is larger" in told


def test_a_folder_of_too_many_files_is_read_up_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_files, "_MOST_FILES", 3)
    for n in range(6):
        state = {"status": "failed", "task": f"task {n}"}
        put(tmp_path, f"loops/ralph-{n}-a1b2c3d4/state.json", state)
    report, _, _ = taken(tmp_path)
    assert len(report.loops) == 3
    assert "the folder is too large" in report.faults[0]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_file_with_a_mark_of_its_encoding_is_read(tmp_path: Path, encoding: str) -> None:
    put(tmp_path, "patterns/a.json", json.dumps({"error_patterns": [PATTERN]}).encode(encoding))
    put(tmp_path, "patterns/b.yaml", dump({"success_patterns": [WAY]}).encode(encoding))
    report, patterns, _ = taken(tmp_path)
    assert (report.faults, len(patterns)) == ((), 2)


@pytest.mark.parametrize("below", ["", "ralph", ".aiwg/ralph"])
def test_a_project_or_its_aiwg_folder_may_be_named(tmp_path: Path, below: str) -> None:
    orders(tmp_path / below)
    put(tmp_path / below, "registry.json", {"active_loops": []})
    report, _, _ = taken(tmp_path)
    assert (report.faults, report.loops) == ((), (LOOP,))


def test_what_taofold_exported_is_not_extracted_again(tmp_path: Path) -> None:
    orders(tmp_path)
    for file in (tmp_path / "loops").rglob("*.json"):
        content = json.loads(file.read_text()) | {"taofold": {"loop_id": LOOP}}
        file.write_text(json.dumps(content))
    report, patterns, _ = taken(tmp_path)
    assert (report.loops, patterns) == ((), {})


def test_a_folder_without_patterns_and_loops_is_an_error(tmp_path: Path) -> None:
    put(tmp_path, "package/data.json", {})
    with pytest.raises(LogError, match="no pattern files and no loops"):
        taken(tmp_path)

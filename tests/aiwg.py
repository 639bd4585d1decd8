"""The forms of AIWG's files: its own schemas where they are here, and their required keys.

`faults` needs nothing: it holds the required keys, the types and the closed lists of values, as in
the schemas of 2026-02. `schema_faults` validates with the schemas themselves.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker

from taofold.core.json_values import is_array, is_object
from taofold.log.formats.yaml_document import load
from tests.prerequisites import aiwg_schemas

LOOP_ID = r"ralph-[a-z0-9-]+-[a-f0-9]{8}"
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"
UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
ERROR_TYPES = [
    "TypeError",
    "ReferenceError",
    "AssertionError",
    "SyntaxError",
    "RuntimeError",
    "TimeoutError",
    "ValidationError",
    "Other",
]
FIXES = [
    "add_null_check",
    "add_type_validation",
    "add_error_handling",
    "fix_logic_error",
    "add_import",
    "update_dependency",
    "refactor_code_structure",
    "other",
]
STATUSES = [
    "running",
    "paused",
    "completing",
    "completed",
    "failed",
    "aborted",
    "crashed",
]
NUMBER = (int, float)
FORMS: dict[str, dict[str, Any]] = {
    "state": {
        "version": r"2\.\d+\.\d+",
        "loop_id": LOOP_ID,
        "status": STATUSES,
        "iteration": int,
        "task?": str,
        "completion_criteria?": str,
        "started_at?": TIME,
        "last_updated?": TIME,
        "completed_at?": TIME,
        "metrics.total_cost_usd?": NUMBER,
        "progress.completion_checks[].passed?": bool,
    },
    "analytics": {
        "version": r"2\.\d+\.\d+",
        "analytics": dict,
        "best_output_selection": dict,
        "loop_id": LOOP_ID,
        "iterations[].loop_id": LOOP_ID,
        "iterations[].iteration_number": int,
        "iterations[].timestamp": TIME,
        "iterations[].quality_score": NUMBER,
        "iterations[].token_cost_usd?": NUMBER,
        "iterations[].verification_status?": ["passed", "failed", "skipped"],
        "iterations[].reflections[]?": str,
        "quality_trajectory?": ["improving", "stable", "declining", "fluctuating"],
        "selected_iteration?": int,
    },
    "debug": {
        "session_id": UUID,
        "file_path": str,
        "status": ["in_progress", "passed", "failed", "escalated"],
        "executions[].attempt": int,
        "executions[].timestamp": TIME,
        "executions[].code_hash": str,
        "executions[].test_results.total": int,
        "executions[].test_results.passed": int,
        "executions[].test_results.failed": int,
        "executions[].failures[].test_name": str,
        "executions[].failures[].error_type": ERROR_TYPES,
        "executions[].failures[].error_message": str,
        "executions[].analysis.root_cause?": r".{20,}",
        "executions[].analysis.fix_strategy?": r".{20,}",
        "executions[].fix_applied.description?": str,
    },
    "reflection": {
        "loop_id": r"ralph-[a-z0-9-]+",
        "iteration": int,
        "timestamp": TIME,
        "actor_output.actions[].type": [
            "code_modification", "file_creation", "file_deletion", "test_execution",
            "command_execution", "api_call", "other",
        ],
        "actor_output.actions[].description": str,
        "actor_output.rationale": str,
        "evaluator_output.passed": bool,
        "evaluator_output.verification_type": str,
        "evaluator_output.results[].status": ["pass", "fail", "error", "skip"],
        "evaluator_output.errors[].message": str,
        "self_reflection.reflection_text": str,
        "memory_metadata.omega_capacity": int,
        "memory_metadata.current_memory_size": int,
    },
    "registry": {
        "version": r"2\.0\.0",
        "max_concurrent_loops": int,
        "updated_at": TIME,
        "total_active": int,
        "active_loops[].loop_id": LOOP_ID,
        "active_loops[].status": ["running", "paused", "completing"],
        "active_loops[].iteration": int,
        "active_loops[].started_at": TIME,
        "active_loops[].task_summary": r".{0,200}",
    },
    "tasks": {
        "version": r"\d+\.\d+\.\d+",
        "memory_config": dict,
        "cross_task_learning": dict,
        "tasks[].task_id": UUID,
        "tasks[].task_description": str,
        "tasks[].timestamp": TIME,
        "tasks[].task_type?": [
            "implementation", "debugging", "refactoring", "testing", "documentation",
            "architecture", "research",
        ],
        "tasks[].outcome?": ["success", "partial", "failure"],
    },
    "patterns": {
        "version": r"\d+\.\d+\.\d+",
        "pattern_registry": dict,
        "pattern_registry.error_patterns[].pattern_id": r"pat-error-[a-z0-9-]+-\d{3}",
        "pattern_registry.error_patterns[].error_signature.error_type": ERROR_TYPES,
        "pattern_registry.error_patterns[].error_signature.error_pattern": str,
        "pattern_registry.error_patterns[].fix_approach.description": r".{20,}",
        "pattern_registry.error_patterns[].fix_approach.fix_category": FIXES,
        "pattern_registry.error_patterns[].success_rate": NUMBER,
        "pattern_registry.error_patterns[].usage_count": int,
        "pattern_registry.success_patterns[].approach.description": str,
        "pattern_registry.success_patterns[].approach.steps": list,
        "pattern_registry.success_patterns[].success_rate": NUMBER,
        "pattern_registry.anti_patterns[].approach_description": str,
        "pattern_registry.anti_patterns[].failure_rate": NUMBER,
        "pattern_registry.anti_patterns[].occurrence_count": int,
        "pattern_registry.code_templates[].template_id": r"tmpl-[a-z0-9-]+-\d{3}",
        "pattern_registry.code_templates[].template_code": str,
        "pattern_registry.code_templates[].usage_count": int,
        "pattern_registry.code_templates[].source_loops[]?": str,
        "pattern_registry.code_templates[].success_rate?": NUMBER,
    },
    "metrics": {
        "total_patterns": int,
        "pattern_usage_stats.overall_success_rate?": NUMBER,
        "cross_loop_benefit.average_iterations_with?": NUMBER,
        "cross_loop_benefit.improvement_percentage?": NUMBER,
        "last_updated?": TIME,
    },
}  # fmt: skip
"""Required keys, and with `?` optional ones, each with its type, its values or its pattern."""
_SCHEMAS = {
    "state": ("loop-state.yaml", ("",)),
    "analytics": ("iteration-analytics.yaml", ("", "#/loop_analytics")),
    "debug": ("debug-memory.yaml", ("",)),
    "reflection": ("reflection-memory.json", ("",)),
    "registry": ("loop-registry.yaml", ("",)),
    "registry ": ("multi-loop-registry.yaml", ("",)),
    "tasks": ("cross-task-memory.yaml", ("",)),
    "task": ("cross-task-memory.yaml", ("#/task_memory",)),
    "patterns": ("shared-patterns.yaml", ("",)),
    "metrics": ("shared-patterns.yaml", ("#/$defs/EffectivenessMetrics",)),
}


def kind_of(name: str) -> str:
    """Returns the form of a file by its name below `.aiwg/ralph`; "" if it has none."""
    patterns = {
        r"loops/[^/]+/state\.json": "state",
        r".*/analytics\.json": "analytics",
        r".*/debug-memory/.*": "debug",
        r"memory/reflections/.*": "reflection",
        r"registry\.json": "registry",
        r"memory/task-index\.json": "tasks",
        r"memory/tasks/.*": "task",
        r"(?:shared/)?(?:patterns|archive)/.*": "patterns",
        r"(?:shared/)?effectiveness-metrics\.json": "metrics",
    }
    return next((kind for form, kind in patterns.items() if re.fullmatch(form, name)), "")


def faults(name: str, content: Any) -> list[str]:
    """Returns the differences of a file from its form."""
    found = [f"{name}: {path} is null" for path in _nulls(content, "$")]
    for key, wanted in FORMS.get(kind_of(name), {}).items():
        optional = key.endswith("?")
        for path, value in _values(content, key.removesuffix("?"), ""):
            if value is None and not optional:
                found.append(f"{name}: {path} is missing")
            elif value is not None and not _fits(value, wanted):
                found.append(f"{name}: {path} is {value!r}")
    return found


def _nulls(value: Any, path: str) -> Iterator[str]:
    if value is None:
        yield path
    elif is_object(value):
        for key, each in value.items():
            yield from _nulls(each, f"{path}.{key}")
    elif is_array(value):
        for n, each in enumerate(value):
            yield from _nulls(each, f"{path}[{n}]")


def _values(value: Any, key: str, path: str) -> Iterator[tuple[str, Any]]:
    """Yields the values at a path of keys, in which `[]` stands for each entry of a list."""
    head, _, rest = key.partition(".")
    name, many = head.removesuffix("[]"), head.endswith("[]")
    here = f"{path}.{name}".lstrip(".")
    # A part that may be absent, as `analysis`, has no required keys then.
    if not is_object(value):
        yield here, None
        return
    inner = value.get(name)
    if inner is None:
        if not many:
            yield here, None
        return
    for each in inner if many else [inner]:
        if rest:
            yield from _values(each, rest, here)
        else:
            yield here, each


def _fits(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, list):
        return value in wanted
    if isinstance(wanted, str):
        return isinstance(value, str) and re.fullmatch(wanted, value, re.DOTALL) is not None
    return isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool))


def schema_faults(name: str, content: Any) -> list[str]:
    """Returns what AIWG's own schemas refuse in a file."""
    kind, found = kind_of(name), list[str]()
    for form, (file, roots) in _SCHEMAS.items():
        if form.strip() != kind:
            continue
        schema = _schema(file)
        for root in roots:
            part = {**schema, **(_part(schema, root) if root else {})}
            for error in Draft202012Validator(part, format_checker=FormatChecker()).iter_errors(
                content
            ):
                found.append(f"{name}: {file}{root}: {error.json_path}: {error.message[:200]}")
    return found


def _part(schema: dict[str, Any], root: str) -> dict[str, Any]:
    part: Any = schema
    for key in root.removeprefix("#/").split("/"):
        part = part[key]
    # The keys of the root must not apply beside those of the part.
    return {"required": [], "properties": {}, **part}


def _schema(file: str) -> dict[str, Any]:
    text = (Path(aiwg_schemas()) / file).read_text()
    schema: dict[str, Any] = json.loads(text) if file.endswith("json") else load(text, file)[0]
    if file.startswith("cross-task"):
        # Its reference leads to a place where nothing is.
        schema["$defs"]["Reflection"] = schema["task_memory"]["Reflection"]
    return schema


def examples(file: str) -> Any:
    """Returns the examples of a schema."""
    return _schema(file)["examples"]

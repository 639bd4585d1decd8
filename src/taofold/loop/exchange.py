"""A loop as files in AIWG's layout `.aiwg/ralph`, which its schemas of 2026-02 accept. Pure.

`loop_files` has the state, the analytics, an entry for each iteration, the debug memory and the
reflections, all derived from the loop's facts. The schemas have no null: a value that is not known
has no key. Their names for statuses, errors and causes are fewer than ours. Values without a
place in them are under `taofold`. Secrets that were guessed are masked, as in a view.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from taofold.core.failing_checks import Check
from taofold.learning.exchange import layout
from taofold.learning.exchange.records import instant
from taofold.learning.extraction.categories import task_category
from taofold.loop import events as loop_events
from taofold.loop.debug_memory import debug_memory, line_counts, results
from taofold.loop.debug_memory import root_cause as cause_of
from taofold.loop.report import best_output, cross_loop, ended_at, trajectory
from taofold.loop.state import LoopState, fold
from taofold.loop.values import LIVE, MOST_MEMORY, Status
from taofold.loop.verdict import Verdict
from taofold.parsing.untrusted_text import join_names
from taofold.policy.redaction.views import shown_value

Json: TypeAlias = dict[str, Any]
_STATUS: Final[Mapping[Status, str]] = {
    "pending": "running",
    "running": "running",
    "paused": "paused",
    "completing": "completing",
    "completed": "completed",
    "aborted": "aborted",
    "crashed": "crashed",
}
"""Our statuses under the schema's names; every other one is `failed`."""
_FAILURE: Final = {
    "AssertionError": "logic_error",
    "TypeError": "edge_case_miss",
    "AttributeError": "edge_case_miss",
    "IndexError": "edge_case_miss",
    "KeyError": "edge_case_miss",
    "ZeroDivisionError": "edge_case_miss",
    "ValueError": "incorrect_assumption",
    "NameError": "incomplete_implementation",
    "NotImplementedError": "incomplete_implementation",
    "SyntaxError": "incomplete_implementation",
    "ImportError": "integration_error",
    "ModuleNotFoundError": "integration_error",
    "timeout": "inefficient_planning",
}
_VERIFICATION: Final = {
    "pytest": "unit_tests",
    "unittest": "unit_tests",
    "node": "unit_tests",
    "go": "unit_tests",
    "cargo": "unit_tests",
    "tsc": "type_check",
    "mypy": "type_check",
    "ruff": "lint",
    "eslint": "lint",
    "command": "heuristic",
}
_KIND: Final = {
    "type_check": "type_error",
    "lint": "lint_error",
    "unit_tests": "test_failure",
}
_SHOWN: Final = 10
"""The most failures of an attempt, and files of a change."""
_DIFF: Final = 20_000
_OUTPUT: Final = 4000
_MESSAGE: Final = 2000


def loop_files(loop: str, records: Sequence[loop_events.LoopRecord]) -> dict[str, Json]:
    """Returns the loop's files by name, with `/` between folders.

    Example: `loop_files(loop, records)["loops/ralph-fix-a1b2c3d4/state.json"]["status"]`.
    """
    state, at = fold(records), ended_at(records)
    identity = layout.loop_id(loop)
    home = f"loops/{identity}"
    files: dict[str, Json] = {
        f"{home}/state.json": _state(loop, state, at),
        f"{home}/analytics/analytics.json": _analytics(loop, state, at),
    }
    memory = debug_memory(loop, state, at)
    if memory["executions"]:
        files[f"{home}/debug-memory/session.json"] = memory
    for ended in state.done:
        files[f"{home}/iterations/iteration-{ended.number}.json"] = _iteration(loop, ended, at)
        files[f"memory/reflections/{identity}/iteration-{ended.number}.json"] = _reflection(
            loop, state, ended, at
        )
    return {name: shown_value(layout.without_unknown(file)) for name, file in files.items()}


def registry_file(loops: Sequence[tuple[str, LoopState]], at: int) -> Json:
    """Returns the registry of the loops that are live; the newest four, as the schema allows."""
    live = [(loop, state) for loop, state in loops if state.status in LIVE]
    entries = [_active(loop, state) for loop, state in sorted(live, key=lambda each: each[1].at)]
    statuses = [state.status for _, state in loops]
    registry = layout.registry_of(
        entries,
        instant(at),
        completed=statuses.count("completed"),
        aborted=statuses.count("aborted"),
    )
    return shown_value(layout.without_unknown(registry))


def _active(loop: str, state: LoopState) -> Json:
    identity = layout.loop_id(loop)
    return {
        "loop_id": identity,
        "status": _STATUS[state.status],
        "iteration": len(state.done),
        "task": state.wish.task,
        "task_summary": layout.summary(state.wish.task),
        "completion_criteria": _criteria(state),
        "started_at": instant(state.started_at),
        "last_active": instant(state.at),
        "owner": state.wish.principal,
        "state_file": f".aiwg/ralph/loops/{identity}/state.json",
        "max_iterations": state.bounds.iterations,
        "timeout_minutes": _minutes(state),
        "taofold": {"loop_id": loop},
    }


def _criteria(state: LoopState) -> str:
    return " && ".join(state.wish.commands)


def _minutes(state: LoopState) -> int:
    return max(round(state.bounds.seconds / 60), 1)


def _state(loop: str, state: LoopState, at: dict[int, int]) -> Json:
    ended = state.ended
    over = state.status not in LIVE and state.status != "crashed"
    word = _STATUS.get(state.status, "failed")
    checks = [
        {
            "iteration": each.number,
            "timestamp": _time(at, each.number),
            "passed": _passed(each),
            "output": _output(each.verdict),
        }
        for each in state.done
    ]
    milliseconds = state.spent.ms
    why = state.crash.why if state.crash is not None else ended.reason if ended else ""
    return {
        "version": layout.STATE_VERSION,
        "loop_id": layout.loop_id(loop),
        "status": word,
        "iteration": len(state.done),
        "task": state.wish.task,
        "completion_criteria": _criteria(state),
        "started_at": instant(state.started_at),
        "last_updated": instant(state.at),
        "completed_at": instant(state.at) if over else None,
        "owner": state.wish.principal,
        "configuration": {
            "max_iterations": state.bounds.iterations,
            "timeout_minutes": _minutes(state),
            "interactive": False,
            "auto_test": True,
            "checkpoint_interval": 1,
            "execution_mode": "default",
        },
        "progress": {
            "completion_checks": checks,
            "last_completion_check": checks[-1] if checks else None,
        },
        "metrics": {
            "total_iterations": len(state.done),
            "successful_iterations": sum(
                each.quality > state.quality_before(each.number) or _passed(each)
                for each in state.done
            ),
            "failed_iterations": sum(not _passed(each) for each in state.done),
            "total_tokens": state.spent.usage.tokens,
            "total_cost_usd": state.spent.usage.shown_usd,
            "total_duration_seconds": round(milliseconds / 1000),
            "average_iteration_time_seconds": (
                round(milliseconds / 1000 / len(state.done), 3) if state.done else None
            ),
        },
        "error_context": (
            {"error_message": why, "error_timestamp": instant(state.at)}
            if word in ("failed", "crashed")
            else None
        ),
        "cross_loop_learning": cross_loop(state),
        "taofold": {
            "loop_id": loop,
            "source": "loop",
            "status": state.status,
            "category": task_category(state.wish.task),
            "commands": list(state.wish.commands),
            "reason": ended.reason if ended is not None else None,
            "trajectory": trajectory(state) or None,
            "best_output": best_output(state),
            "limits": {
                "iterations": state.bounds.iterations,
                "seconds": state.bounds.seconds,
                "usd": state.bounds.usd,
                "steps": state.bounds.steps,
            },
            "interventions": [
                {
                    "iteration": each.number,
                    "level": each.level,
                    "kind": each.kind,
                    "why": each.why,
                }
                for each in state.interventions
            ],
        },
    }


def _time(at: dict[int, int], number: int) -> str | None:
    return instant(at[number]) if at.get(number) else None


def _passed(iteration: loop_events.IterationEnded) -> bool:
    return iteration.verdict.passed and not iteration.blocked


def _output(verdict: Verdict) -> str:
    texts = [result.output.strip() for result in verdict.results if result.output.strip()]
    reasons = [reason for result in verdict.results for reason in result.reasons]
    return "\n".join(texts or reasons)[-_OUTPUT:]


def _analytics(loop: str, state: LoopState, at: dict[int, int]) -> Json:
    done = state.done
    best = max(done, key=lambda each: (each.quality, -each.number), default=None)
    ended = state.ended
    usage = state.spent.usage
    return {
        **layout.analytics_settings(layout.loop_id(loop)),
        "loop_id": layout.loop_id(loop),
        "task_description": state.wish.task,
        "start_time": instant(state.started_at),
        "end_time": instant(state.at) if ended is not None else None,
        "iterations": [_metrics(loop, state, each, at) for each in done],
        "total_iterations": len(done),
        "optimal_iteration": best.number if best is not None else None,
        "final_iteration": done[-1].number if done else None,
        "selected_iteration": (ended.best or None) if ended is not None else None,
        "selection_reason": (ended.why_best or None) if ended is not None else None,
        "total_tokens": usage.tokens,
        "total_cost_usd": usage.shown_usd,
        "total_time_ms": state.spent.ms,
        "diminishing_returns_detected": any(each.kind == "plateau" for each in state.interventions),
        "diminishing_returns_iteration": next(
            (each.number for each in state.interventions if each.kind == "plateau"), None
        ),
        "quality_trajectory": trajectory(state) or None,
        "pattern_effectiveness": cross_loop(state)["injected_patterns"],
        "taofold": {"loop_id": loop},
    }


def _metrics(
    loop: str, state: LoopState, iteration: loop_events.IterationEnded, at: dict[int, int]
) -> Json:
    """Returns an iteration in the schema of analytics."""
    errors = iteration.verdict.errors
    gain = iteration.quality - state.quality_before(iteration.number)
    file = f"loops/{layout.loop_id(loop)}/iterations/iteration-{iteration.number}.json"
    return {
        "loop_id": layout.loop_id(loop),
        "iteration_number": iteration.number,
        "timestamp": instant(at.get(iteration.number, state.at)),
        "quality_score": _percent(iteration.quality),
        "quality_delta": round(100 * gain, 1),
        "tokens_used": iteration.spent.usage.tokens,
        "token_cost_usd": iteration.spent.usage.shown_usd,
        "execution_time_ms": iteration.spent.ms,
        "verification_status": "passed" if _passed(iteration) else "failed",
        "output_snapshot_path": f".aiwg/ralph/{file}",
        "reflections": [cause_of(errors[0]) if errors else "Every check passes."],
        "taofold": {
            "run_id": iteration.run,
            "blocked": iteration.blocked or None,
            "snapshot": iteration.snapshot or None,
            "steps": iteration.spent.steps,
            "tools": iteration.tools,
            "confidence": iteration.confidence,
            "commit": iteration.commit or None,
            "test_results": results(iteration.verdict),
        },
    }


def _percent(share: float) -> float:
    return round(100 * min(max(share, 0.0), 1.0), 1)


def _iteration(loop: str, iteration: loop_events.IterationEnded, at: dict[int, int]) -> Json:
    """Returns the entry of an iteration; AIWG has no schema of it."""
    return {
        "loop_id": layout.loop_id(loop),
        "taofold": {"loop_id": loop},
        "number": iteration.number,
        "timestamp": _time(at, iteration.number),
        "action": f"changed {join_names(iteration.changed, _SHOWN) or 'nothing'}",
        "result": _output(iteration.verdict),
        "verified": _passed(iteration),
        "learnings": iteration.said or None,
        "duration_ms": iteration.spent.ms,
        "errors": [
            {"type": each.error_type, "message": each.message[:_MESSAGE], "location": _at(each)}
            for each in iteration.verdict.errors[:_SHOWN]
        ],
        "fix_applied": {
            "description": iteration.said or f"changed {join_names(iteration.changed, _SHOWN)}",
            "files_changed": list(iteration.changed),
            "diff": iteration.diff[:_DIFF],
        }
        if iteration.changed
        else None,
        "test_results": results(iteration.verdict),
    }


def _at(check: Check) -> str | None:
    place = check.place
    return f"{place.path}:{place.line}" if place.line else place.path or None


def _reflection(
    loop: str, state: LoopState, iteration: loop_events.IterationEnded, at: dict[int, int]
) -> Json:
    """Returns an iteration in the schema of the reflections, which counts iterations from 0."""
    errors, verdict = iteration.verdict.errors, iteration.verdict
    gain = iteration.quality - state.quality_before(iteration.number)
    new, gone = line_counts(iteration.diff)
    memory = min(max(state.wish.memory, 1), MOST_MEMORY)
    failed = bool(errors) and not _passed(iteration)
    before = len(state.failing_before(iteration.number))
    return {
        "loop_id": layout.loop_id(loop),
        "iteration": iteration.number - 1,
        "timestamp": instant(at.get(iteration.number, state.at)),
        "task_description": state.wish.task,
        "actor_output": {
            "actions": _actions(iteration),
            "rationale": iteration.said or "The iteration gave no reason.",
            "files_modified": list(iteration.changed),
            "total_changes": {
                "files_changed": len(iteration.changed),
                "lines_added": new,
                "lines_deleted": gone,
            },
        },
        "evaluator_output": {
            "passed": _passed(iteration),
            "verification_type": _verification(verdict),
            "results": [
                {
                    "tool": result.gate.command,
                    "status": "pass" if result.passed else "error" if result.lacking else "fail",
                    "exit_code": result.code,
                    "stdout": result.output[-_OUTPUT:] or None,
                    "duration_ms": result.ms,
                }
                for result in verdict.results
            ],
            "errors": [_error(check, verdict) for check in errors[:_SHOWN]],
            "reward_signal": min(max(iteration.quality, 0.0), 1.0),
            "metrics": _test_counts(verdict),
        },
        "self_reflection": {
            "reflection_text": (
                f"The gates failed. {cause_of(errors[0])}" if failed else "Every check passes."
            ),
            "credit_assignment": {
                "root_cause": cause_of(errors[0]),
                "failure_category": _FAILURE.get(errors[0].error_type, "other"),
            }
            if failed
            else None,
            "confidence": iteration.confidence,
        },
        "memory_metadata": {
            "omega_capacity": memory,
            "current_memory_size": min(iteration.number, memory),
            "window_policy": "fifo",
            "total_reflections_generated": iteration.number,
        },
        "performance_delta": {
            "reward_change": round(gain, 4),
            "error_count_change": len(errors) - before,
            "is_improvement": gain > 0,
        },
        "taofold": {"loop_id": loop},
    }


def _actions(iteration: loop_events.IterationEnded) -> list[Json]:
    """Returns the iteration's changes, a file each; and a note if it changed nothing."""
    parts = _per_file(iteration.diff)
    actions: list[Json] = []
    for path in iteration.changed:
        diff = parts.get(path, "")
        new, gone = line_counts(diff)
        deleted = iteration.files.get(path) == ""
        kind = "file_deletion" if deleted else "code_modification"
        actions.append(
            {
                "type": kind,
                "description": f"{'Deleted' if deleted else 'Changed'} {path}",
                "file_path": path,
                "changes": {"additions": new, "deletions": gone, "diff": diff or None},
            }
        )
    return actions or [{"type": "other", "description": "Changed no file"}]


_FILE: Final = re.compile(r"^--- .*\n\+\+\+ (?:b/)?(.+)$", re.MULTILINE)


def _per_file(diff: str) -> dict[str, str]:
    """Returns the parts of a unified diff by file."""
    heads = [*_FILE.finditer(diff)]
    ends = [*[head.start() for head in heads[1:]], len(diff)]
    return {
        head[1].split("\t")[0].strip(): diff[head.start() : end][:_DIFF]
        for head, end in zip(heads, ends, strict=False)
    }


def _verification(verdict: Verdict) -> str:
    kinds = {_VERIFICATION[result.runner] for result in verdict.results}
    return kinds.pop() if len(kinds) == 1 else "combined" if kinds else "heuristic"


def _error(check: Check, verdict: Verdict) -> Json:
    place = check.place
    kinds = [
        _KIND.get(_VERIFICATION[result.runner], "other")
        for result in verdict.results
        if check.id in [failing.id for failing in result.failing]
    ]
    return {
        "type": "timeout" if check.error_type == "timeout" else next(iter(kinds), "other"),
        "message": f"{check.error_type}: {check.message}"[:_MESSAGE].removeprefix(": "),
        "file": place.path or None,
        "line": place.line or None,
        "stack_trace": check.traceback[:_MESSAGE] or None,
        "severity": "error",
        "rule": check.id,
    }


def _test_counts(verdict: Verdict) -> Json:
    counts = results(verdict)
    return {
        "tests_passed": counts["passed"],
        "tests_failed": counts["failed"] + counts["errors"],
        "tests_total": counts["total"],
    }

"""The debug memory of a loop: attempts, failures, causes and effects of fixes. Pure.

All of it is derived from the loop's facts, in the form that AIWG's schema of 2026-02 accepts. Its
names for errors and causes are fewer than ours. The language's own name of an error is under
`taofold`.
"""

from hashlib import sha256
from typing import Any, Final, TypeAlias

from taofold.core.failing_checks import Check
from taofold.learning.exchange import layout
from taofold.learning.exchange.records import instant
from taofold.learning.extraction.generalisation import error_type_of
from taofold.loop import events as loop_events
from taofold.loop.state import LoopState
from taofold.loop.values import LIVE, Status
from taofold.loop.verdict import Verdict
from taofold.parsing.untrusted_text import join_names

Json: TypeAlias = dict[str, Any]
_ROOT_CAUSE: Final = {
    "AttributeError": "null_undefined_access",
    "TypeError": "type_mismatch",
    "ValueError": "missing_validation",
    "KeyError": "missing_validation",
    "ValidationError": "missing_validation",
    "IndexError": "off_by_one",
    "AssertionError": "logic_error",
    "ImportError": "dependency_issue",
    "ModuleNotFoundError": "dependency_issue",
}
_SHOWN: Final = 10
"""The most failures of an attempt, and files of a change."""
_DIFF: Final = 20_000
_MESSAGE: Final = 2000


def debug_memory(loop: str, state: LoopState, at: dict[int, int]) -> Json:
    """Returns the attempts of a loop in the schema of the debug memory.

    Attempt 1 is the state before the first iteration, so the fix of attempt n is iteration n.
    `at` has the end times of iterations.
    """
    verdicts: list[tuple[int, Verdict, dict[str, str]]] = []
    if state.baseline is not None:
        verdicts.append((0, state.baseline.verdict, {}))
    verdicts += [(iteration.number, iteration.verdict, iteration.files) for iteration in state.done]
    fixes = {iteration.number: iteration for iteration in state.done}
    return {
        "session_id": layout.uuid_of(loop),
        "file_path": _main_file(state),
        "created_at": instant(state.started_at) if state.started_at else None,
        "updated_at": instant(state.at) if state.at else None,
        "status": _session_status(state.status),
        "executions": [
            _execution(number, verdict, files, fixes.get(number + 1), at.get(number, state.at))
            for number, verdict, files in verdicts
        ],
        "metadata": {"task_id": loop, "ralph_iteration": len(state.done)},
        "taofold": {"loop_id": loop},
    }


def _main_file(state: LoopState) -> str:
    """Returns the first changed file, or the place of the first error; "" if there is none."""
    changed = [path for iteration in state.done for path in iteration.changed]
    errors = state.baseline.verdict.errors if state.baseline is not None else ()
    return next(iter([*changed, *[check.place.path for check in errors]]), "")


def _session_status(status: Status) -> str:
    if status == "completed":
        return "passed"
    if status in LIVE:
        return "escalated" if status == "paused" else "in_progress"
    return "failed"


def _execution(
    number: int,
    verdict: Verdict,
    files: dict[str, str],
    fix: loop_events.IterationEnded | None,
    at: int,
) -> Json:
    broken = verdict.errors
    return {
        "attempt": number + 1,
        "timestamp": instant(at),
        "code_hash": code_hash(files),
        "test_results": results(verdict),
        "failures": [_failure(check) for check in broken[:_SHOWN]],
        "analysis": _analysis(broken, fix),
        "fix_applied": None if fix is None else _fix(broken, fix),
    }


def _failure(check: Check) -> Json:
    place = check.place
    return {
        "test_name": check.id,
        "error_type": error_type_of(check.error_type),
        "error_message": check.message[:_MESSAGE],
        "stack_trace": check.traceback[:_MESSAGE] or None,
        "source_location": {
            "file": place.path,
            "line": place.line or None,
            "function": place.function or None,
        }
        if place.path
        else None,
        "taofold": {"error_class": check.error_type or None},
    }


def _analysis(broken: tuple[Check, ...], fix: loop_events.IterationEnded | None) -> Json | None:
    if not broken or fix is None:
        return None
    first = broken[0]
    said = " ".join(fix.said.split())[:300]
    return {
        "root_cause": f"The check {first.id} failed: {root_cause(first)}",
        "root_cause_category": _ROOT_CAUSE.get(first.error_type, "other"),
        "fix_strategy": f"The iteration changed {_names(fix)}. {said}".rstrip(),
        "confidence": fix.confidence,
        "related_failures": [
            check.id for check in broken[1 : _SHOWN + 1] if check.error == first.error
        ],
    }


def _names(iteration: loop_events.IterationEnded) -> str:
    return join_names(iteration.changed, _SHOWN) or "nothing"


def _fix(broken: tuple[Check, ...], fix: loop_events.IterationEnded) -> Json:
    left = {check.id for check in fix.verdict.errors}
    new, gone = line_counts(fix.diff)
    return {
        "description": " ".join(fix.said.split())[:300] or f"changed {_names(fix)}",
        "diff_summary": f"+{new}/-{gone} lines",
        "files_changed": list(fix.changed),
        "diff": fix.diff[:_DIFF],
        "verification": "passed" if fix.verdict.passed and not fix.blocked else "failed",
        "taofold": {"cured": sorted(check.id for check in broken if check.id not in left)},
    }


def line_counts(diff: str) -> tuple[int, int]:
    """Returns the numbers of added and removed lines of a unified diff."""
    lines = [line for line in diff.splitlines() if not line.startswith(("+++", "---"))]
    return sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)


def code_hash(files: dict[str, str]) -> str:
    """Returns the SHA-256 of the differences from the baseline; that of none is the baseline's."""
    listing = "\n".join([f"{path} {digest}" for path, digest in sorted(files.items())])
    return sha256(listing.encode("utf-8", "replace")).hexdigest()


def results(verdict: Verdict) -> dict[str, int]:
    """Returns counts of checks by status, and the duration of the gates."""
    checks = [check for result in verdict.results for check in result.checks]
    good, every = verdict.counts
    return {
        "total": every + sum(check.status == "skipped" for check in checks),
        "passed": good,
        "failed": every - good - sum(check.status == "error" for check in checks),
        "errors": sum(check.status == "error" for check in checks),
        "skipped": sum(check.status == "skipped" for check in checks),
        "duration_ms": sum(result.ms for result in verdict.results),
    }


def place(check: Check) -> str:
    """Returns the place of the failure as `path:line in function`."""
    if not check.places:
        return ""
    last = check.places[-1]
    where = f"{last.path}:{last.line}" if last.line else last.path
    return f"{where} in {last.function}" if last.function else where


def root_cause(check: Check) -> str:
    """Returns the error and its place in one sentence."""
    message = " ".join(check.message.split())[:200] or "no message"
    where = place(check)
    return f"{check.error_type or 'failure'}: {message}" + (f" (at {where})" if where else "")

"""Debug memory: what was tried, what failed, why, and whether the fix held. Pure.

Derived from the loop's facts, never kept beside them. Entry n is the n-th run of the gates
(0 = before iteration 1) with the fix that followed it.
"""

from hashlib import sha256
from typing import Any, Final

from taofold.core.instant import iso
from taofold.loop import events as e
from taofold.loop.check import Check, Verdict
from taofold.loop.findings import counts, failing
from taofold.loop.state import LoopState

_CATEGORY: Final = {
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
_SHOWN: Final = 10
_DIFF: Final = 600


def debug_memory(loop: str, state: LoopState, at: dict[int, int]) -> dict[str, Any]:
    """The session in the layout of the seed; `at` has the time at which iterations ended."""
    verdicts: list[tuple[int, Verdict, dict[str, str]]] = []
    if state.baseline is not None:
        verdicts.append((0, state.baseline.verdict, {}))
    verdicts += [(one.number, one.verdict, one.files) for one in state.done]
    fixes = {one.number: one for one in state.done}
    return {
        "session_id": loop,
        "status": _status(state),
        "executions": [
            _execution(number, verdict, files, fixes.get(number + 1), at.get(number, 0))
            for number, verdict, files in verdicts
        ],
    }


def _status(state: LoopState) -> str:
    if state.status == "completed":
        return "passed"
    if state.status in ("pending", "running", "completing"):
        return "in_progress"
    return "escalated" if state.status == "paused" else "failed"


def _execution(
    number: int, verdict: Verdict, files: dict[str, str], fix: e.IterationEnded | None, at: int
) -> dict[str, Any]:
    broken = failing(verdict)
    return {
        "attempt": number,
        "timestamp": iso(at) if at else None,
        "code_hash": code_hash(files),
        "test_results": results(verdict),
        "failures": [_failure(one) for one in broken[:_SHOWN]],
        "analysis": _analysis(broken, fix),
        "fix_applied": None if fix is None else _fix(broken, fix),
    }


def code_hash(files: dict[str, str]) -> str:
    """SHA-256 over what differs from the baseline; that of nothing is the baseline's."""
    said = "\n".join([f"{path} {digest}" for path, digest in sorted(files.items())])
    return sha256(said.encode("utf-8", "replace")).hexdigest()


def results(verdict: Verdict) -> dict[str, int]:
    """Counts of checks by status, and how long the gates took."""
    checks = [one for result in verdict.results for one in result.checks]
    good, every = counts(verdict)
    return {
        "total": every + sum(one.status == "skipped" for one in checks),
        "passed": good,
        "failed": every - good - sum(one.status == "error" for one in checks),
        "errors": sum(one.status == "error" for one in checks),
        "skipped": sum(one.status == "skipped" for one in checks),
        "duration_ms": sum(result.ms for result in verdict.results),
    }


def place(check: Check) -> str:
    """Where it went wrong, as `path:line in function`."""
    if not check.places:
        return ""
    last = check.places[-1]
    where = f"{last.path}:{last.line}" if last.line else last.path
    return f"{where} in {last.function}" if last.function else where


def root_cause(check: Check) -> str:
    """What is wrong and where, in one sentence."""
    said = " ".join(check.message.split())[:200] or "no message"
    where = place(check)
    return f"{check.error_type or 'failure'}: {said}" + (f" (at {where})" if where else "")


def _failure(check: Check) -> dict[str, Any]:
    return {
        "test": check.id,
        "error_type": check.error_type,
        "message": check.message[:500],
        "location": place(check),
        "traceback": check.traceback[:2000],
    }


def _analysis(broken: tuple[Check, ...], fix: e.IterationEnded | None) -> dict[str, Any] | None:
    if not broken:
        return None
    first = broken[0]
    said = " ".join(fix.said.split())[:300] if fix is not None else ""
    return {
        "root_cause": root_cause(first).ljust(20, "."),
        "category": _CATEGORY.get(first.error_type, "other"),
        "fix_strategy": said,
        "confidence": fix.confidence if fix is not None else None,
        "similar_past_issues": [],
    }


def _fix(broken: tuple[Check, ...], fix: e.IterationEnded) -> dict[str, Any]:
    left = {one.id for one in failing(fix.verdict)}
    cured = sorted(one.id for one in broken if one.id not in left)
    return {
        "diff_summary": ", ".join(fix.changed) or "nothing changed",
        "diff": fix.diff[:_DIFF],
        "cured": cured,
        "verification": "passed" if fix.verdict.passed and not fix.blocked else "failed",
    }

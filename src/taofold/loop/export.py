"""A loop in the seed's `state.json` layout (D20). Pure."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from taofold.core.instant import iso
from taofold.loop import events as e
from taofold.loop.debugging import debug_memory, results, root_cause
from taofold.loop.findings import failing
from taofold.loop.state import LoopState, fold
from taofold.loop.status import OLD

VERSION: Final = "1.0.0"
_BAND: Final = 2.0
"""Points of quality that count as a change in the trajectory."""


def state_json(loop: str, records: Sequence[e.LoopRecord]) -> dict[str, Any]:
    """Everything that is known of the loop, for `loops/<id>/state.json`."""
    state = fold(records)
    at = ended_at(records)
    old = {ours: word for word, ours in OLD.items()}
    return {
        "version": VERSION,
        "loop_id": loop,
        "task": state.wish.task,
        "completion_criteria": list(state.wish.commands),
        "status": state.status,
        "seed_status": old.get(state.status, state.status),
        "started_at": iso(state.started_at),
        "updated_at": iso(state.at),
        "max_iterations": state.bounds.iterations,
        "current_iteration": len(state.iterations),
        "reason": state.ended.reason if state.ended is not None else None,
        "limits": {
            "iterations": state.bounds.iterations,
            "seconds": state.bounds.seconds,
            "usd": state.bounds.usd,
            "steps": state.bounds.steps,
        },
        "iterations": [_analytics(loop, state, one, at) for one in state.done],
        "trajectory": trajectory(state),
        "interventions": [
            {"iteration": one.number, "level": one.level, "kind": one.kind, "why": one.why}
            for one in state.interventions
        ],
        "best_output": _best(state),
        "debug_memory": debug_memory(loop, state, at),
        "cross_loop_learning": cross_loop(state),
    }


def ended_at(records: Sequence[e.LoopRecord]) -> dict[int, int]:
    """When each iteration ended; 0 = when the baseline was taken. Milliseconds since the epoch."""
    found: dict[int, int] = {}
    for record in records:
        if isinstance(record.event, e.IterationEnded):
            found[record.event.number] = record.at
        elif isinstance(record.event, e.BaselineTaken):
            found[0] = record.at
    return found


def cross_loop(state: LoopState) -> dict[str, Any]:
    """`cross_loop_learning` with the seed's names (XTL-31)."""
    learnt = state.learnt
    used = {one.pattern: one for one in learnt.injected} if learnt is not None else {}
    ids = dict.fromkeys([one for given in state.injected for one in given.lessons.patterns])
    return {
        "control": any(one.lessons.control for one in state.injected),
        "injected_patterns": [
            {
                "pattern_id": one,
                "applied": one in used and used[one].applied,
                "successful": one in used and used[one].successful,
                "iteration_used": used[one].iteration or None if one in used else None,
            }
            for one in ids
        ],
        "extracted_patterns": [
            {"pattern_id": one.pattern, "new": one.new, "success_rate": one.success_rate}
            for one in (learnt.extracted if learnt is not None else ())
        ],
        "improvement_estimate": {
            "baseline_iterations": learnt.baseline_iterations if learnt is not None else None,
            "actual_iterations": len(state.done),
            "improvement": learnt.improvement if learnt is not None else None,
            "n": learnt.n if learnt is not None else 0,
        },
        "notes": list(learnt.notes) if learnt is not None else [],
    }


def trajectory(state: LoopState) -> str:
    """improving, declining, stable or fluctuating; "" with fewer than three iterations."""
    scores = [100 * one.quality for one in state.done]
    if len(scores) < 3:
        return ""
    moves = [now - then for then, now in pairwise(scores)]
    for name, count in (
        ("improving", sum(move > _BAND for move in moves)),
        ("declining", sum(move < -_BAND for move in moves)),
        ("stable", sum(abs(move) <= _BAND for move in moves)),
    ):
        if count / len(moves) >= 2 / 3:
            return name
    return "fluctuating"


def _analytics(
    loop: str, state: LoopState, one: e.IterationEnded, at: dict[int, int]
) -> dict[str, Any]:
    """One iteration in the layout of the seed's analytics."""
    then = state.quality_before(one.number)
    errors = failing(one.verdict)
    return {
        "loop_id": loop,
        "iteration_number": one.number,
        "run_id": one.run,
        "timestamp": iso(at.get(one.number, 0)),
        "quality_score": round(100 * one.quality, 1),
        "quality_delta": round(100 * (one.quality - then), 1),
        "tokens_used": one.spent.usage.tokens,
        "token_cost_usd": round(one.spent.usage.usd, 9),
        "execution_time_ms": one.spent.ms,
        "verification_status": "passed" if one.verdict.passed and not one.blocked else "failed",
        "blocked": one.blocked or None,
        "test_results": results(one.verdict),
        "output_snapshot_path": one.snapshot,
        "changed": list(one.changed),
        "steps": one.spent.steps,
        "tools": one.tools,
        "confidence": one.confidence,
        "commit": one.commit or None,
        "reflections": [
            {
                "iteration": one.number,
                "type": "success_pattern" if one.verdict.passed else "error_analysis",
                "content": root_cause(errors[0]) if errors else "every check passes",
                "effectiveness": _effect(one.quality - then),
            }
        ],
    }


def _effect(gain: float) -> str:
    return "helpful" if gain > 0 else "unhelpful" if gain < 0 else "neutral"


def _best(state: LoopState) -> dict[str, Any] | None:
    ended = state.ended
    if ended is None:
        return None
    return {
        "selected_iteration": ended.best or None,
        "reason": ended.why_best,
        "degradation_detected": ended.degraded,
        "restored": state.restored is not None,
    }

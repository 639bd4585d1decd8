"""The report of a loop: history, gate results, lessons, and the diff. Pure.

Markdown for users (`report_markdown`) and JSON for machines (`report_json`), with the whole course
of the loop and its debug memory. `taofold.loop.exchange` exports a loop as files. Text of models,
tools and gates is in fences that it cannot close.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from taofold.core.text import iso, times
from taofold.loop import events as loop_events
from taofold.loop.debug_memory import debug_memory, results, root_cause
from taofold.loop.gates.verdict_texts import limits, proof
from taofold.loop.state import LoopState, fold
from taofold.loop.values import OLD, Learnt, Used
from taofold.loop.verdict import percent
from taofold.parsing.untrusted_text import join_names, one_line, readable
from taofold.policy.redaction.views import shown_value

_SHOWN: Final = 10
_WHOLE: Final = 100_000
"""The most characters of a line that names every file."""


VERSION: Final = "1.0.0"
_BAND: Final = 2.0
"""Points of quality that count as a change in the trajectory."""


def state_json(loop: str, records: Sequence[loop_events.LoopRecord]) -> dict[str, Any]:
    """Returns all known data of the loop."""
    state = fold(records)
    at = ended_at(records)
    old = {ours: word for word, ours in OLD.items()}
    return {
        "version": VERSION,
        "loop_id": loop,
        "task": shown_value(state.wish.task),
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
        "iterations": [_analytics(loop, state, iteration, at) for iteration in state.done],
        "trajectory": trajectory(state),
        "interventions": [
            {
                "iteration": intervention.number,
                "level": intervention.level,
                "kind": intervention.kind,
                "why": intervention.why,
            }
            for intervention in state.interventions
        ],
        "best_output": best_output(state),
        "debug_memory": debug_memory(loop, state, at),
        "cross_loop_learning": cross_loop(state),
    }


def ended_at(records: Sequence[loop_events.LoopRecord]) -> dict[int, int]:
    """Returns end times of iterations in milliseconds since the epoch; 0 = of the baseline."""
    times: dict[int, int] = {}
    for record in records:
        if isinstance(record.event, loop_events.IterationEnded):
            times[record.event.number] = record.at
        elif isinstance(record.event, loop_events.BaselineTaken):
            times[0] = record.at
    return times


def cross_loop(state: LoopState) -> dict[str, Any]:
    """Returns `cross_loop_learning` in its exported names (XTL-31)."""
    learnt = state.learnt or Learnt()
    reported = {use.pattern: use for use in learnt.injected}
    uses = {
        pattern: reported.get(pattern, Used(pattern))
        for injection in state.injected
        for pattern in injection.lessons.patterns
    }
    return {
        "control": any(injection.lessons.control for injection in state.injected),
        "injected_patterns": [
            {
                "pattern_id": pattern,
                "applied": use.applied,
                "successful": use.successful,
                "iteration_used": use.iteration or None,
            }
            for pattern, use in uses.items()
        ],
        "extracted_patterns": [
            {
                "pattern_id": extracted.pattern,
                "new": extracted.new,
                "success_rate": extracted.success_rate,
            }
            for extracted in learnt.extracted
        ],
        "improvement_estimate": {
            "baseline_iterations": learnt.baseline_iterations,
            "actual_iterations": len(state.done),
            "improvement": learnt.improvement,
            "improvement_interval_95": learnt.interval,
            "n": learnt.n,
        },
        "notes": list(learnt.notes),
    }


def trajectory(state: LoopState) -> str:
    """Returns improving, declining, stable or fluctuating; "" with fewer than three iterations."""
    scores = [100 * iteration.quality for iteration in state.done]
    # Two moves are the minimum for a majority of two thirds.
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
    loop: str, state: LoopState, iteration: loop_events.IterationEnded, at: dict[int, int]
) -> dict[str, Any]:
    """Returns an iteration in the exported analytics layout."""
    then = state.quality_before(iteration.number)
    errors = iteration.verdict.errors
    return {
        "loop_id": loop,
        "iteration_number": iteration.number,
        "run_id": iteration.run,
        "timestamp": iso(at.get(iteration.number, 0)),
        "quality_score": round(100 * iteration.quality, 1),
        "quality_delta": round(100 * (iteration.quality - then), 1),
        "tokens_used": iteration.spent.usage.tokens,
        "token_cost_usd": iteration.spent.usage.shown_usd,
        "execution_time_ms": iteration.spent.ms,
        "verification_status": "passed"
        if iteration.verdict.passed and not iteration.blocked
        else "failed",
        "blocked": iteration.blocked or None,
        "test_results": results(iteration.verdict),
        "output_snapshot_path": iteration.snapshot,
        "changed": list(iteration.changed),
        "changed_by_others": list(iteration.shared.others) if iteration.shared else [],
        "changed_by_unknown": list(iteration.shared.unsure) if iteration.shared else [],
        "steps": iteration.spent.steps,
        "tools": iteration.tools,
        "confidence": iteration.confidence,
        "commit": iteration.commit or None,
        "reflections": [
            {
                "iteration": iteration.number,
                "type": "success_pattern" if iteration.verdict.passed else "error_analysis",
                "content": root_cause(errors[0]) if errors else "every check passes",
                "effectiveness": _effect(iteration.quality - then),
            }
        ],
    }


def _effect(gain: float) -> str:
    return "helpful" if gain > 0 else "unhelpful" if gain < 0 else "neutral"


def best_output(state: LoopState) -> dict[str, Any] | None:
    """Returns the iteration whose files were kept, and the reason; None before the loop ended."""
    ended = state.ended
    if ended is None:
        return None
    return {
        "selected_iteration": ended.best or None,
        "reason": ended.why_best,
        "degradation_detected": ended.degraded,
        "restored": state.restored is not None,
    }


def report_json(
    loop: str, records: Sequence[loop_events.LoopRecord], diff: str = ""
) -> dict[str, Any]:
    """Returns the report for machines: the exported state, the last gate output and the diff."""
    state = fold(records)
    last = state.verdict
    return {
        **state_json(loop, records),
        "warning": state.ended.warning if state.ended is not None else "",
        "gates": [
            {
                "command": result.gate.command,
                "passed": result.passed,
                "exit_code": result.code,
                "contained": result.contained,
                "reasons": list(result.reasons),
                "output": result.output,
            }
            for result in (last.results if last else ())
        ],
        "joined": list(last.joined) if last else [],
        "left_out": {
            change.path: change.why
            for change in (last.changes if last else ())
            if change.done == "left out"
        },
        "notes": list(last.notes) if last else [],
        "limits": list(limits(last)) if last else [],
        "diff": diff,
    }


def report_markdown(loop: str, records: Sequence[loop_events.LoopRecord], diff: str = "") -> str:
    """Returns the report for users."""
    state = fold(records)
    parts = [_head(loop, state), _history(state, records)]
    sections = (_course(state), _undone(state), _lessons(state), _gates(state))
    parts += [part for part in sections if part]
    if diff.strip():
        parts.append(f"## Diff\n\n{fenced(diff, 'diff')}")
    return "\n\n".join(parts) + "\n"


def fenced(text: str, kind: str = "text") -> str:
    """Returns `text` in a code fence that is longer than any in it."""
    body = readable(text).rstrip("\n")
    longest = max([len(run) for run in re.findall(r"`{3,}", body)], default=2)
    # Only a fence of at least the same length closes a fence.
    fence = "`" * (longest + 1)
    return f"{fence}{kind}\n{body}\n{fence}"


def _cell(text: str, width: int = 80) -> str:
    """Returns `text` for a table's cell or a line, without active Markdown.

    An image would be loaded when the report is displayed, and its address may reveal data that a
    model has read. A link's text may differ from its target.
    """
    # The backslash first: before a bracket it would undo the added one.
    plain = one_line(text, width).replace("\\", "\\\\").replace("`", "'").replace("<", "&lt;")
    return re.sub(r"[\[\]|]", r"\\\g<0>", plain)


def _code(text: str, width: int = 80) -> str:
    """Returns `text` as code in a line or a table's cell, escaping its end and `|`."""
    inner = one_line(text, width).replace("|", "\\|").replace("`", "'")
    return f"`{inner}`"


def _head(loop: str, state: LoopState) -> str:
    spent, ended = state.spent, state.ended
    rows = [
        f"# {_cell(shown_value(state.wish.task), 120)}",
        "",
        f"* loop `{loop}`: **{state.status}**" + (f", {_cell(ended.reason, 400)}" if ended else ""),
        f"* gates: {' AND '.join([_code(command, 200) for command in state.wish.commands])}",
        f"* {iso(state.started_at)} to {iso(state.at)}; {len(state.done)} of at most "
        f"{times(state.bounds.iterations, 'iteration')}, {times(spent.steps, 'step')}, "
        f"{times(spent.tool_calls, 'call')}, {times(spent.usage.tokens, 'token')}, "
        + ("unknown cost" if spent.usage.usd is None else f"${spent.usage.usd:.4f}"),
    ]
    if ended is not None and ended.why_best:
        rows.append(
            f"* kept: {_cell(ended.why_best, 300)}" + ("; it got worse after" * ended.degraded)
        )
    if state.restored is not None:
        rows.append(f"* files restored: those of iteration {state.restored.number}")
    if ended is not None and ended.warning:
        rows.append(f"* **warning:** {_cell(ended.warning, 1000)}")
    if state.baseline is not None and not state.baseline.verdict.contained:
        rows.append("* the gates ran **not contained**")
    return "\n".join(rows)


def _history(state: LoopState, records: Sequence[loop_events.LoopRecord]) -> str:
    rows = [
        "## History",
        "",
        "| iteration | checks | quality | changed | steps | tokens | seconds | ended | failing |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    if state.baseline is not None:
        good, every = state.baseline.verdict.counts
        first = state.baseline.verdict.errors
        rows.append(
            f"| start | {good}/{every} | {percent(state.baseline.verdict.quality)} | | | | | "
            f"{iso(ended_at(records).get(0, 0))[11:19]} | {_cell(first[0].id if first else '')} |"
        )
    for iteration in state.done:
        good, every = iteration.verdict.counts
        errors = iteration.verdict.errors
        how = "green" if iteration.verdict.passed else iteration.stop_reason
        spent = iteration.spent
        cells = (
            str(iteration.number),
            f"{good}/{every}",
            f"{percent(iteration.quality)}",
            _cell(join_names(iteration.changed, _SHOWN)),
            str(spent.steps),
            str(spent.usage.tokens),
            f"{spent.ms / 1000:.1f}",
            _cell(iteration.blocked or how),
            _cell(errors[0].id if errors else ""),
        )
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _undone(state: LoopState) -> str:
    """Returns the reverted changes in protected files."""
    parts = [
        f"### Iteration {iteration.number}\n\n{fenced(iteration.undone, 'diff')}"
        for iteration in state.done
        if iteration.undone
    ]
    head = "## Changes of protected files that were put back"
    return "\n\n".join([head, *parts]) if parts else ""


def _course(state: LoopState) -> str:
    if not state.interventions:
        return ""
    rows = [
        f"* after iteration {event.number}: {event.kind} → {event.level}: {_cell(event.why, 200)}"
        for event in state.interventions
    ]
    return "\n".join(["## Interventions", "", *rows])


def _lessons(state: LoopState) -> str:
    rows: list[str] = []
    for injection in state.injected:
        ids = ", ".join([_code(name) for name in injection.lessons.patterns])
        if ids:
            later = "after a failed iteration" if injection.number > 1 else "at the start"
            how = f"by {injection.by}" if injection.manual else later
            rows.append(f"* injected {how} (read from iteration {injection.number}): {ids}")
        elif injection.lessons.control and injection.number == 1:
            rows.append("* a control loop: nothing was injected, to measure what lessons are worth")
    learnt = state.learnt or Learnt()
    rows += [
        f"* {_code(use.pattern)} applied in iteration {use.iteration}: "
        + ("its check turned green" if use.successful else "without success")
        for use in learnt.injected
        if use.applied
    ]
    rows += [
        f"* learnt {_code(extracted.pattern)}" + ("" if extracted.new else " (known already)")
        for extracted in learnt.extracted
    ]
    if learnt.injected:
        rows.append(f"* improvement: {learnt.effect_text}")
    rows += [f"* {_cell(note, 200)}" for note in learnt.notes]
    return "\n".join(["## Learning", "", *rows]) if rows else ""


def _gates(state: LoopState) -> str:
    last = state.verdict
    if last is None:
        return ""
    rows = ["## Gates", "", f"{last.summary}."]
    for result in last.results:
        outcome = "passed" if result.passed else f"failed: {'; '.join(result.reasons)}"
        rows += ["", f"{_code(result.gate.command, 200)} {_cell(outcome, 300)}", ""]
        rows.append(fenced(result.output or "(no output)"))
    named = [*proof(last), *[f"note: {note}" for note in last.notes]]
    if named:
        rows += ["", "What the gates ran with:", ""]
        rows += [f"* {_cell(text, _WHOLE)}" for text in named]
    rows += ["", "What this does not prove:", ""]
    rows += [f"* {_cell(limit, 300)}" for limit in limits(last)]
    return "\n".join(rows)

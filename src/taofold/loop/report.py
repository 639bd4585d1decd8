"""The report of a loop: history, what the gates said, and the diff. Markdown and JSON. Pure.

Text of models, tools and gates stands in fences that it cannot close.
"""

import re
from collections.abc import Sequence
from typing import Any

from taofold.core.instant import iso
from taofold.core.visible import visible
from taofold.loop import events as e
from taofold.loop.export import ended_at, state_json
from taofold.loop.findings import counts, failing, line
from taofold.loop.gates.verdict import limits
from taofold.loop.state import LoopState, fold


def report_json(loop: str, records: Sequence[e.LoopRecord], diff: str = "") -> dict[str, Any]:
    """The report for machines: the exported state, the last gate output and the diff."""
    state = fold(records)
    last = state.verdict
    return {
        **state_json(loop, records),
        "warning": state.ended.warning if state.ended is not None else "",
        "gates": [
            {
                "command": one.gate.command,
                "passed": one.passed,
                "exit_code": one.code,
                "contained": one.contained,
                "reasons": list(one.reasons),
                "output": one.output,
            }
            for one in (last.results if last else ())
        ],
        "limits": list(limits(last)) if last else [],
        "diff": diff,
    }


def report_markdown(loop: str, records: Sequence[e.LoopRecord], diff: str = "") -> str:
    """The report for people."""
    state = fold(records)
    parts = [_head(loop, state), _history(state, records)]
    parts += [part for part in (_course(state), _lessons(state), _gates(state)) if part]
    if diff.strip():
        parts.append(f"## Diff\n\n{fenced(diff, 'diff')}")
    return "\n\n".join(parts) + "\n"


def fenced(text: str, kind: str = "text") -> str:
    """`text` in a code fence that is longer than any in it."""
    shown = visible(text).rstrip("\n")
    longest = max([len(run) for run in re.findall(r"`{3,}", shown)], default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{kind}\n{shown}\n{fence}"


def _cell(text: str, width: int = 80) -> str:
    said = " ".join(visible(text).split()).replace("|", "\\|").replace("`", "'")
    return said if len(said) <= width else f"{said[: width - 1]}…"


def _head(loop: str, state: LoopState) -> str:
    spent, ended = state.spent, state.ended
    rows = [
        f"# {_cell(state.wish.task, 120)}",
        "",
        f"* loop `{loop}`: **{state.status}**" + (f", {ended.reason}" if ended else ""),
        f"* gates: {' AND '.join([f'`{_cell(one, 200)}`' for one in state.wish.commands])}",
        f"* {iso(state.started_at)} to {iso(state.at)}; {len(state.done)} of at most "
        f"{state.bounds.iterations} iterations, {spent.steps} steps, {spent.tool_calls} calls, "
        f"{spent.usage.tokens} tokens, ${spent.usage.usd:.4f}",
    ]
    if ended is not None and ended.why_best:
        rows.append(f"* kept: {ended.why_best}" + ("; it got worse after" * ended.degraded))
    if state.restored is not None:
        rows.append(f"* files restored: those of iteration {state.restored.number}")
    if ended is not None and ended.warning:
        rows.append(f"* **warning:** {ended.warning}")
    if state.baseline is not None and not state.baseline.verdict.contained:
        rows.append("* the gates ran **not contained**")
    return "\n".join(rows)


def _history(state: LoopState, records: Sequence[e.LoopRecord]) -> str:
    rows = [
        "## History",
        "",
        "| iteration | checks | quality | changed | steps | tokens | seconds | ended | failing |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    if state.baseline is not None:
        good, every = counts(state.baseline.verdict)
        first = failing(state.baseline.verdict)
        rows.append(
            f"| start | {good}/{every} | {state.baseline.verdict.quality:.0%} | | | | | "
            f"{iso(ended_at(records).get(0, 0))[11:19]} | {_cell(first[0].id if first else '')} |"
        )
    for one in state.done:
        good, every = counts(one.verdict)
        errors = failing(one.verdict)
        how = "green" if one.verdict.passed else one.stop_reason
        rows.append(
            f"| {one.number} | {good}/{every} | {one.quality:.0%} | {_cell(', '.join(one.changed))}"
            f" | {one.spent.steps} | {one.spent.usage.tokens} | {one.spent.ms / 1000:.1f} | "
            f"{_cell(one.blocked or how)} | {_cell(errors[0].id if errors else '')} |"
        )
    return "\n".join(rows)


def _course(state: LoopState) -> str:
    if not state.interventions:
        return ""
    rows = [
        f"* after iteration {one.number}: {one.kind} → {one.level}: {_cell(one.why, 200)}"
        for one in state.interventions
    ]
    return "\n".join(["## Interventions", "", *rows])


def _lessons(state: LoopState) -> str:
    rows: list[str] = []
    for one in state.injected:
        ids = ", ".join([f"`{_cell(name)}`" for name in one.lessons.patterns])
        if ids:
            how = f"by {one.by}" if one.manual else "at the start"
            rows.append(f"* injected {how} (read from iteration {one.number}): {ids}")
        elif one.lessons.control:
            rows.append("* a control loop: nothing was injected, to measure what lessons are worth")
    learnt = state.learnt
    if learnt is not None:
        rows += [
            f"* `{_cell(one.pattern)}` applied in iteration {one.iteration}: "
            + ("its check turned green" if one.successful else "without success")
            for one in learnt.injected
            if one.applied
        ]
        rows += [
            f"* learnt `{_cell(one.pattern)}`" + ("" if one.new else " (known already)")
            for one in learnt.extracted
        ]
        rows += [f"* {_cell(note, 200)}" for note in learnt.notes]
    return "\n".join(["## Learning", "", *rows]) if rows else ""


def _gates(state: LoopState) -> str:
    last = state.verdict
    if last is None:
        return ""
    rows = ["## Gates", "", f"{line(last)}."]
    for one in last.results:
        said = "passed" if one.passed else f"failed: {'; '.join(one.reasons)}"
        rows += ["", f"`{_cell(one.gate.command, 200)}` {_cell(said, 300)}", ""]
        rows.append(fenced(one.output or "(no output)"))
    rows += ["", "What this does not prove:", ""]
    rows += [f"* {_cell(one, 300)}" for one in limits(last)]
    return "\n".join(rows)

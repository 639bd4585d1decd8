"""Everything a registry holds, as the files of the seed's layout.

Rates have two digits, times are ISO 8601. What we believe of a pattern, its evidence, stays at
home: it holds words of other people's code, and nobody should trust it anyway.
"""

import re
from hashlib import blake2b
from typing import Any, Final

import msgspec

from taofold.core.text import iso
from taofold.learning.exchange.records import FORMATS, VERSION, written
from taofold.learning.loops import LoopNote, LoopStats
from taofold.learning.metrics import improvement, measure
from taofold.learning.patterns.kinds import Kind
from taofold.learning.settings import Pruning
from taofold.learning.state import View

_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def exported(view: View) -> dict[str, Any]:
    """Everything: names of files, with `/` between folders, and what each holds."""
    records: dict[Kind, list[Any]] = {kind: [] for kind in FORMATS}
    index: dict[str, Any] = {}
    for pattern in view.patterns():
        records[pattern.kind].append(written(pattern))
        index[pattern.id] = {"type": pattern.kind, "name": pattern.name, "tags": [*pattern.tags]}
    contents: dict[str, Any] = {
        f"patterns/{form.file}": {"version": VERSION, form.key: records[kind]}
        for kind, form in FORMATS.items()
    }
    months: dict[str, list[Any]] = {}
    for pattern, month in view.archive():
        months.setdefault(month, []).append(written(pattern))
    for month, archived in months.items():
        contents[f"archive/{month}-patterns.json"] = {"version": VERSION, "patterns": archived}
    stats = view.stats()
    metrics = measure(view.patterns(), stats, sum(map(len, months.values())))
    contents["effectiveness-metrics.json"] = metrics.as_json()
    contents["memory/patterns-index.json"] = {"version": VERSION, "patterns": index}
    tasks: list[Any] = []
    for note in view.loops():
        # The id may be anything: it becomes a path only if it is a plain name.
        home = f"loops/{folder(note.loop)}"
        contents[f"{home}/state.json"] = state = loop_state(note, stats)
        contents[f"{home}/analytics/analytics.json"] = _analytics(note, view, stats)
        tasks.append(_task(note, state))
    contents["memory/task-index.json"] = {"version": VERSION, "tasks": tasks}
    return contents


def _task(note: LoopNote, state: dict[str, Any]) -> dict[str, Any]:
    """A line of the index of tasks: what a loop was about, by classes of errors, and its end."""
    learning = state["cross_loop_learning"]
    return {
        "loop_id": note.loop,
        "timestamp": iso(note.ended or note.at),
        "language": note.context.language,
        "errors": [*note.context.errors],
        "iterations": note.iterations,
        "solved": note.solved,
        "injected": [injected["pattern_id"] for injected in learning["injected_patterns"]],
        "extracted": [extracted["pattern_id"] for extracted in learning["extracted_patterns"]],
    }


def _analytics(note: LoopNote, view: View, stats: LoopStats) -> dict[str, Any]:
    """How effective each pattern was that the loop saw: in it, and so far in all loops."""
    rows: list[dict[str, Any]] = []
    for injected in loop_state(note, stats)["cross_loop_learning"]["injected_patterns"]:
        pattern = view.pattern(injected["pattern_id"])
        rate = pattern.rate if pattern is not None else None
        counts = pattern.total.usage if pattern is not None else None
        overall = {"success_rate": None if rate is None else round(rate, 2), "usage_count": counts}
        rows.append({**injected, **overall})
    return {
        "loop_id": note.loop,
        "iterations": note.iterations,
        "solved": note.solved,
        "pattern_effectiveness": rows,
    }


def bundle(contents: dict[str, Any]) -> dict[str, Any]:
    """The same in one file: patterns, metrics and the policy they are pruned by."""
    registry = {form.key: contents[f"patterns/{form.file}"][form.key] for form in FORMATS.values()}
    return {
        "version": VERSION,
        "pattern_registry": registry,
        "effectiveness_metrics": contents["effectiveness-metrics.json"],
        "pruning_policy": msgspec.structs.asdict(Pruning()),
    }


def folder(loop: str) -> str:
    """A name for the loop's folder: its id, or a digest of one that is no plain name."""
    if _PLAIN.fullmatch(loop):
        return loop
    return blake2b(loop.encode("utf-8", "replace"), digest_size=12).hexdigest()


def loop_state(note: LoopNote, stats: LoopStats) -> dict[str, Any]:
    """What a loop's exported state says about learning."""
    uses = {use.id: use for use in note.uses}
    injected = [
        {
            "pattern_id": pattern.id,
            "applied": pattern.id in uses,
            "successful": uses[pattern.id].won if pattern.id in uses else False,
            "iteration_used": uses[pattern.id].iteration if pattern.id in uses else None,
        }
        for pattern in note.shown
        if pattern.id in note.ids
    ]
    extracted = [
        {
            "pattern_id": extract.id,
            "new": extract.new,
            "success_rate": None if extract.rate is None else round(extract.rate, 2),
        }
        for extract in note.extracts
    ]
    learning: dict[str, Any] = {
        "injected_patterns": injected,
        "extracted_patterns": extracted,
        "control": note.control,
    }
    if note.ended:
        learning["improvement_estimate"] = improvement(note, stats).as_json()
    return {"loop_id": note.loop, "cross_loop_learning": learning}

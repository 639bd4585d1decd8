"""Everything a registry holds, as the files of the seed's layout, or in one file (`bundle`).

The files hold the patterns, the archive, the metrics, and of each loop what it was shown and what
it taught. Rates have two digits, times are ISO 8601. What we believe of a pattern, its evidence,
stays at home: it holds words of other people's code, and nobody should trust it anyway.
"""

import re
from hashlib import blake2b
from typing import Final

import msgspec

from taofold.core.text import iso
from taofold.learning.book import View
from taofold.learning.exchange.records import FORMATS, VERSION, Json, written
from taofold.learning.loops import LoopNote, LoopStats
from taofold.learning.metrics import improvement, measure
from taofold.learning.patterns.kinds import Kind
from taofold.learning.patterns.pattern import Pattern
from taofold.learning.settings import Pruning

_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def exported(view: View) -> Json:
    """Everything: names of files, with `/` between folders, and what each holds."""
    records: dict[Kind, list[Json]] = {kind: [] for kind in FORMATS}
    index: Json = {}
    for pattern in view.patterns():
        records[pattern.kind].append(written(pattern))
        index[pattern.id] = {"type": pattern.kind, "name": pattern.name, "tags": [*pattern.tags]}
    contents: Json = {
        f"patterns/{form.file}": {"version": VERSION, form.key: records[kind]}
        for kind, form in FORMATS.items()
    }
    months: dict[str, list[Json]] = {}
    for pattern, month in view.archive():
        months.setdefault(month, []).append(written(pattern))
    for month, archived in months.items():
        contents[f"archive/{month}-patterns.json"] = {"version": VERSION, "patterns": archived}
    stats = view.stats()
    metrics = measure(view.patterns(), stats, sum(map(len, months.values())))
    contents["effectiveness-metrics.json"] = metrics.as_json()
    contents["memory/patterns-index.json"] = {"version": VERSION, "patterns": index}
    tasks: list[Json] = []
    for note in view.loops():
        # The id may be anything: it becomes a path only if it is a plain name.
        home, learning = f"loops/{_folder(note.loop)}", _learning(note, stats)
        seen = learning["injected_patterns"]
        summary = {"loop_id": note.loop, "iterations": note.iterations, "solved": note.solved}
        effect = [{**entry, **_so_far(view.pattern(entry["pattern_id"]))} for entry in seen]
        contents[f"{home}/state.json"] = {"loop_id": note.loop, "cross_loop_learning": learning}
        contents[f"{home}/analytics/analytics.json"] = summary | {"pattern_effectiveness": effect}
        tasks.append(
            {
                **summary,
                "timestamp": iso(note.ended or note.at),
                "language": note.context.language,
                "errors": [*note.context.errors],
                "injected": [entry["pattern_id"] for entry in seen],
                "extracted": [entry["pattern_id"] for entry in learning["extracted_patterns"]],
            }
        )
    contents["memory/task-index.json"] = {"version": VERSION, "tasks": tasks}
    return contents


def _so_far(pattern: Pattern | None) -> Json:
    """How effective a pattern that a loop saw has been so far in all loops."""
    if pattern is None:
        return {"success_rate": None, "usage_count": None}
    return {"success_rate": _two_digits(pattern.counts.rate), "usage_count": pattern.counts.usage}


def bundle(contents: Json) -> Json:
    """The same in one file: patterns, metrics and the policy they are pruned by."""
    registry = {form.key: contents[f"patterns/{form.file}"][form.key] for form in FORMATS.values()}
    return {
        "version": VERSION,
        "pattern_registry": registry,
        "effectiveness_metrics": contents["effectiveness-metrics.json"],
        "pruning_policy": msgspec.structs.asdict(Pruning()),
    }


def _folder(loop: str) -> str:
    """A name for the loop's folder: its id, or a digest of one that is no plain name."""
    if _PLAIN.fullmatch(loop):
        return loop
    return blake2b(loop.encode("utf-8", "replace"), digest_size=12).hexdigest()


def _learning(note: LoopNote, stats: LoopStats) -> Json:
    """What a loop's exported state says about learning."""
    uses = {use.id: use for use in note.uses}
    learning: Json = {
        "injected_patterns": [
            {
                "pattern_id": shown.id,
                "applied": shown.id in uses,
                "successful": shown.id in uses and uses[shown.id].won,
                "iteration_used": uses[shown.id].iteration if shown.id in uses else None,
            }
            for shown in note.shown
            if shown.id in note.ids
        ],
        "extracted_patterns": [
            {
                "pattern_id": extract.id,
                "new": extract.new,
                "success_rate": _two_digits(extract.rate),
            }
            for extract in note.extracts
        ],
        "control": note.control,
    }
    if note.ended:
        learning["improvement_estimate"] = improvement(note, stats).as_json()
    return learning


def _two_digits(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 2)

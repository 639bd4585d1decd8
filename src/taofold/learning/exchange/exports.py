"""Exports a registry as exchange files, or in one file (`bundle`).

The files hold the patterns, the archive, the metrics, and for each loop the patterns that it was
shown and taught. Rates have two digits, times are ISO 8601. The evidence for a pattern is not
exported: it contains code of other projects, and importers must not trust it anyway.
"""

import re
from hashlib import blake2b
from typing import Final

import msgspec

from taofold.core.text import iso
from taofold.learning.book import View
from taofold.learning.exchange.records import FORMATS, VERSION, Json, written
from taofold.learning.loops import LoopNote, LoopStats
from taofold.learning.metrics import improvement, measure, rounded
from taofold.learning.settings import Pruning

_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def exported(view: View) -> Json:
    """Returns file names, with `/` between folders, and the content of each."""
    # Patterns that a project does not share are not exported.
    patterns = [pattern for pattern in view.patterns() if not pattern.only_in]
    archive = [(pattern, month) for pattern, month in view.archive() if not pattern.only_in]
    stats = view.stats()
    contents: Json = {
        f"patterns/{form.file}": {
            "version": VERSION,
            form.key: [written(pattern) for pattern in patterns if pattern.kind == kind],
        }
        for kind, form in FORMATS.items()
    }
    for pattern, month in archive:
        file = contents.setdefault(
            f"archive/{month}-patterns.json", {"version": VERSION, "patterns": []}
        )
        file["patterns"].append(written(pattern))
    contents["effectiveness-metrics.json"] = measure(patterns, stats, len(archive)).as_json()
    index = {
        pattern.id: {"type": pattern.kind, "name": pattern.name, "tags": [*pattern.tags]}
        for pattern in patterns
    }
    contents["memory/patterns-index.json"] = {"version": VERSION, "patterns": index}
    so_far = {
        pattern.id: {
            "success_rate": rounded(pattern.counts.rate),
            "usage_count": pattern.counts.usage,
        }
        for pattern in patterns
    }
    gone = {"success_rate": None, "usage_count": None}
    tasks: list[Json] = []
    for note in view.loops():
        # The id may be any text: it becomes a path only if it is a plain name.
        home, learning = f"loops/{_folder(note.loop)}", _learning(note, stats)
        seen = learning["injected_patterns"]
        summary = {"loop_id": note.loop, "iterations": note.iterations, "solved": note.solved}
        effect = [entry | so_far.get(entry["pattern_id"], gone) for entry in seen]
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


def bundle(contents: Json) -> Json:
    """Returns the same in one file: patterns, metrics and the pruning policy."""
    registry = {form.key: contents[f"patterns/{form.file}"][form.key] for form in FORMATS.values()}
    return {
        "version": VERSION,
        "pattern_registry": registry,
        "effectiveness_metrics": contents["effectiveness-metrics.json"],
        "pruning_policy": msgspec.structs.asdict(Pruning()),
    }


def _folder(loop: str) -> str:
    """Returns a name for the loop's folder: its id, or a digest if the id is not a plain name."""
    if _PLAIN.fullmatch(loop):
        return loop
    return blake2b(loop.encode("utf-8", "replace"), digest_size=12).hexdigest()


def _learning(note: LoopNote, stats: LoopStats) -> Json:
    """Returns the learning section of a loop's exported state."""
    learning: Json = {
        "injected_patterns": [_use(note, shown.id) for shown in note.shown if not note.control],
        "extracted_patterns": [
            {
                "pattern_id": extract.id,
                "new": extract.new,
                "success_rate": rounded(extract.rate),
            }
            for extract in note.extracts
        ],
        "control": note.control,
    }
    if note.ended:
        learning["improvement_estimate"] = improvement(note, stats).as_json()
    return learning


def _use(note: LoopNote, identity: str) -> Json:
    """Returns the loop's use of a pattern that it was shown."""
    use = note.use(identity)
    return {
        "pattern_id": identity,
        "applied": use is not None,
        "successful": use is not None and use.won,
        "iteration_used": use.iteration if use is not None else None,
    }

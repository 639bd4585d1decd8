"""Exports a registry as exchange files, or in one file (`bundle`).

The files hold the patterns, the archive, the metrics, the index of tasks, and for each loop the
patterns that it was shown and taught. Rates have two digits, times are ISO 8601. A value that is
not known has no key. With `Licensing`, each own pattern has its measured effect and the hashes of
the runs that it rests on. Other evidence is not exported: it contains code of other projects.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from taofold.learning.book import View
from taofold.learning.exchange import layout
from taofold.learning.exchange.records import FORMATS, VERSION, Json, instant, written
from taofold.learning.extraction.categories import task_category
from taofold.learning.loops import LoopNote, LoopStats
from taofold.learning.metrics import impact, improvement, measure, rounded
from taofold.learning.patterns.pattern import Pattern
from taofold.learning.settings import Pruning

_MARK: Final[Json] = {"taofold": {"source": "registry"}}
"""Distinguishes own files from those of other programs in the same folder."""
_MOST_TASK: Final = 2000
"""The most characters of a task in the index."""


MOST_RUNS: Final = 100
"""The most runs that a licence names: those of the newest loops."""


class RunHash(NamedTuple):
    """The hash of a run's chain at its record `seq`, in hexadecimal."""

    run: str
    seq: int
    sha256: str


class Licensing(NamedTuple):
    """The inputs of licences beside the registry.

    `runs` are the hashes of each loop's runs, `control_share` is the share of control loops that
    the settings draw. `sign` returns the signed form of a pattern with its licence.
    """

    control_share: float
    runs: Mapping[str, Sequence[RunHash]]
    sign: Callable[[Pattern, Json], Json] | None = None


def _seen_by(view: View) -> dict[str, list[str]]:
    """Returns for each pattern the loops that found it or were to see it, the newest first."""
    found: dict[str, list[str]] = {}
    for note in reversed([*view.loops()]):
        ids = [shown.id for shown in note.shown] + [extract.id for extract in note.extracts]
        for identity in dict.fromkeys(ids):
            found.setdefault(identity, []).append(note.loop)
    return found


def _licence(
    pattern: Pattern, stats: LoopStats, loops: Iterable[str], licensing: Licensing
) -> Json:
    """Returns the measured effect of an own pattern, and the runs that it rests on."""
    effect = impact(pattern, stats)
    named = [run for loop in loops for run in licensing.runs.get(loop, ())]
    licence: Json = {
        "iterations": rounded(effect.value),
        "interval_95": effect.interval,
        "loops_shown": effect.shown,
        "control_loops": effect.held,
        "control_share": licensing.control_share,
        "runs": [run._asdict() for run in named[:MOST_RUNS]],
    }
    licence = layout.without_unknown(licence)
    if licensing.sign is not None:
        licence["envelope"] = licensing.sign(pattern, dict(licence))
    return licence


def exported(view: View, licensing: Licensing | None = None) -> Json:
    """Returns file names, with `/` between folders, and the content of each."""
    stats, seen_by = view.stats(), {} if licensing is None else _seen_by(view)

    def record(pattern: Pattern) -> Json:
        content = written(pattern)
        if licensing is not None and pattern.claim is None:
            loops = seen_by.get(pattern.id, ())
            licence = _licence(pattern, stats, loops, licensing)
            content.setdefault("taofold", {})["licence"] = licence
        return content

    # Patterns that a project does not share are not exported.
    patterns = [pattern for pattern in view.patterns() if not pattern.only_in]
    archive = [(pattern, month) for pattern, month in view.archive() if not pattern.only_in]
    contents: Json = {
        f"patterns/{form.file}": _file([p for p in patterns if p.kind == kind], record, form.key)
        for kind, form in FORMATS.items()
    }
    for month in {month: None for _, month in archive}:
        members = [pattern for pattern, there in archive if there == month]
        contents[f"archive/{month}-patterns.json"] = _file(members, record)
    metrics = measure(patterns, stats, len(archive)).as_json()
    contents["effectiveness-metrics.json"] = {**metrics, **_MARK}
    index = {
        pattern.id: {
            "type": FORMATS[pattern.kind].type,
            "name": pattern.name,
            "tags": [*pattern.tags],
        }
        for pattern in patterns
    }
    contents["memory/patterns-index.json"] = {"version": VERSION, "patterns": index, **_MARK}
    so_far = {
        pattern.id: {
            "success_rate": rounded(pattern.counts.rate),
            "usage_count": pattern.counts.usage,
        }
        for pattern in patterns
    }
    tasks: list[Json] = []
    for note in view.loops():
        # The id may be any text: it becomes a path only in the schema's form.
        home, learning = f"loops/{layout.loop_id(note.loop)}", _learning(note, stats)
        contents[f"{home}/state.json"] = _state(note, learning)
        contents[f"{home}/analytics/analytics.json"] = _analytics(note, learning, so_far)
        task = _task(note, learning)
        contents[f"memory/tasks/{task['task_id']}.json"] = task
        tasks.append(task)
    contents["memory/task-index.json"] = {
        "version": VERSION,
        **layout.memory_settings(),
        "last_updated": instant(stats.updated) if stats.updated else None,
        "tasks": tasks,
    }
    return {name: layout.without_unknown(content) for name, content in contents.items()}


def _file(patterns: Iterable[Pattern], record: Callable[[Pattern], Json], *keys: str) -> Json:
    """Returns a file of patterns, each under the key of its kind; `keys` are there in any case."""
    groups: dict[str, list[Json]] = {key: [] for key in keys}
    for pattern in patterns:
        groups.setdefault(FORMATS[pattern.kind].key, []).append(record(pattern))
    return {"version": VERSION, "pattern_registry": groups}


def bundle(contents: Json) -> Json:
    """Returns the same in one file: patterns, metrics and the pruning policy."""
    registry = {
        form.key: contents[f"patterns/{form.file}"]["pattern_registry"][form.key]
        for form in FORMATS.values()
    }
    return {
        "version": VERSION,
        "pattern_registry": registry,
        "effectiveness_metrics": contents["effectiveness-metrics.json"],
        "pruning_policy": msgspec.structs.asdict(Pruning()),
    }


def _state(note: LoopNote, learning: Json) -> Json:
    """Returns a loop's state as far as the registry knows it."""
    return {
        "version": layout.STATE_VERSION,
        "loop_id": layout.loop_id(note.loop),
        "status": "running" if not note.ended else "completed" if note.solved else "failed",
        "iteration": note.iterations,
        "task": note.task or None,
        "completed_at": instant(note.ended) if note.ended else None,
        "cross_loop_learning": learning,
        "taofold": {"loop_id": note.loop, "source": "registry"},
    }


def _analytics(note: LoopNote, learning: Json, so_far: Json) -> Json:
    """Returns a loop's use of patterns. Its iterations are exported with the loop itself."""
    seen = learning["injected_patterns"]
    return {
        **layout.analytics_settings(layout.loop_id(note.loop)),
        "loop_id": layout.loop_id(note.loop),
        "task_description": note.task or None,
        "iterations": [],
        "total_iterations": note.iterations,
        "pattern_effectiveness": [entry | so_far.get(entry["pattern_id"], {}) for entry in seen],
        "taofold": {"loop_id": note.loop, "solved": note.solved},
    }


def _task(note: LoopNote, learning: Json) -> Json:
    """Returns a loop in the index of tasks."""
    tags = [note.context.language, *note.context.errors]
    return {
        "task_id": layout.uuid_of(note.loop),
        "task_description": note.task[:_MOST_TASK],
        "task_type": layout.task_type(note.task),
        "timestamp": instant(note.ended or note.at),
        "outcome": "success" if note.solved else "failure" if note.ended else None,
        "iterations": note.iterations,
        "tags": [tag for tag in tags if tag],
        "taofold": {
            "loop_id": note.loop,
            "category": task_category(note.task) if note.task else None,
            "language": note.context.language or None,
            "errors": [*note.context.errors],
            "solved": note.solved,
            "injected": [entry["pattern_id"] for entry in learning["injected_patterns"]],
            "extracted": [entry["pattern_id"] for entry in learning["extracted_patterns"]],
        },
    }


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

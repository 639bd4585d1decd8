"""Patterns as text and JSON: a table, a page in the source system's layout, lineage, metrics.

The learning curve is drawn as text, with a bar for the iterations of each loop. The commands are in
`cli/patterns`.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, cast

from taofold.cli.output import give
from taofold.cli.render.tables import table
from taofold.core.text import line, times, visible

if TYPE_CHECKING:
    from taofold.learning.loops import LoopNote, LoopStats
    from taofold.learning.metrics import LearningMetrics
    from taofold.learning.patterns.pattern import Licence, Pattern, PatternSource


HEIGHT: Final = 8
WIDTH: Final = 60
_BLOCKS: Final = " ▁▂▃▄▅▆▇█"
_LEGEND: Final = "i injected, c control (random), n nothing to inject, m manual"
_WINDOW: Final = 5


def curve(loops: "Sequence[LoopNote]") -> Iterator[str]:
    """Yields the lines of the learning curve: a bar for each recent loop, and means below."""
    ended = sorted([note for note in loops if note.ended], key=lambda note: note.ended)
    if len(ended) < 2:
        return
    newest = ended[-WIDTH:]
    taken = [note.iterations for note in newest]
    top = max(*taken, 1)
    yield ""
    yield f"iterations of the last {times(len(newest), 'loop')}"
    for row in range(HEIGHT, 0, -1):
        label = top if row == HEIGHT else 0 if row == 1 else None
        bars = "".join([_cell(count / top * HEIGHT, row) for count in taken])
        yield f"{'' if label is None else label:>5} ┤{bars}".rstrip()
    yield f"{'':>5} └{'─' * len(newest)}"
    yield f"{'':>6} {''.join(map(_mark, newest))}"
    yield f"{'':>6} {_LEGEND}"
    first, last = _mean(taken[:_WINDOW]), _mean(taken[-_WINDOW:])
    best = min(accumulate(taken, min))
    yield f"{'':>6} first {min(_WINDOW, len(taken))}: {first:.1f}  last: {last:.1f}  least: {best}"


def _cell(height: float, row: int) -> str:
    part = min(max(height - (row - 1), 0.0), 1.0)
    # A row of text is drawn in eighths.
    return _BLOCKS[round(part * (len(_BLOCKS) - 1))]


def _mark(note: "LoopNote") -> str:
    if note.manual:
        return "m"
    if note.control:
        return "c"
    return "i" if note.shown else "n"


def _mean(values: Sequence[int]) -> float:
    return sum(values) / len(values) if values else 0.0


_TITLES: Final = {
    "error": "Error Pattern",
    "success": "Success Pattern",
    "anti": "Anti-Pattern",
    "template": "Code Template",
}
_WIDE: Final = 100


def day(at: int) -> str:
    """Returns a time as text; "—" if there is none."""
    from taofold.core.text import iso

    return f"{iso(at)[:19]}Z" if at else "—"


def rate(pattern: "Pattern") -> str:
    """Returns the success rate with its counts; for anti-patterns the failure rate."""
    counts = pattern.counts
    if counts.rate is None:
        return "—" if pattern.claim is None else "claimed"
    outcomes = counts.successes + counts.failures
    if pattern.kind == "anti":
        return f"{1 - counts.rate:.0%} failed ({counts.failures}/{outcomes})"
    return f"{counts.rate:.2f} ({counts.successes}/{outcomes})"


def _licence(licence: "Licence | None") -> str:
    from taofold.learning.metrics import Effect

    if licence is None:
        return "none that a trusted key signed"
    figures = licence.shown, licence.held, licence.value, licence.low, licence.high
    text = f"{Effect(*figures).text('iterations')}, {times(licence.runs, 'run')}"
    counts = "counts as one use" if licence.helps else "not counted: it shows no benefit"
    return f"{text}, signed by key {licence.signer}…, {counts}"


def listing(patterns: "Sequence[Pattern]") -> None:
    """Prints a table of patterns."""
    table(
        ("pattern", "type", "success", "uses", "state", "tags", "what"),
        [
            (
                pattern.id,
                pattern.kind,
                rate(pattern),
                str(pattern.counts.usage),
                _state(pattern),
                line(", ".join(pattern.tags), 30),
                line(pattern.name, 60),
            )
            for pattern in patterns
        ],
    )


def _state(pattern: "Pattern") -> str:
    if pattern.retired:
        return "retired"
    return "probation" if pattern.probation else ""


def as_json(pattern: "Pattern") -> dict[str, Any]:
    """Returns the whole pattern, with the displayed figures."""
    import msgspec

    counts, share, anti = pattern.counts, pattern.counts.rate, pattern.kind == "anti"
    return {
        "pattern_id": pattern.id,
        "type": pattern.kind,
        "name": pattern.name,
        "success_rate": None if anti else share,
        "failure_rate": 1 - share if anti and share is not None else None,
        "usage_count": counts.usage,
        "successful_applications": counts.successes,
        "failed_applications": counts.failures,
        "claimed_on_import": msgspec.to_builtins(pattern.claim),
        "probation": pattern.probation,
        "retired": pattern.retired or None,
        "first_discovered": day(pattern.first_discovered),
        "last_used": day(pattern.last_used),
        "tags": list(pattern.tags),
        "tests": list(pattern.tests),
        "source_loops": [source_json(source) for source in pattern.sources],
        "effectiveness_trend": [
            {
                "timestamp": day(snapshot.at),
                "success_rate_snapshot": snapshot.rate,
                "sample_size": snapshot.size,
                "source_loops": list(snapshot.loops),
            }
            for snapshot in pattern.trend
        ],
        "body": msgspec.to_builtins(pattern.body),
    }


def source_json(source: "PatternSource") -> dict[str, Any]:
    """Returns a loop that found or used a pattern."""
    return {
        "loop_id": source.loop,
        "timestamp": day(source.at),
        "role": source.role,
        "contributed_by": source.by,
        "outcome": _outcome(source),
        "iterations": source.iterations,
        "claimed": source.claimed,
    }


def impact_json(pattern: "Pattern", stats: "LoopStats") -> dict[str, Any]:
    """Returns the benefit of showing the pattern, in iterations."""
    from taofold.learning.metrics import impact

    effect = impact(pattern, stats)
    return {
        "average_impact_iterations": None if effect.value is None else round(effect.value, 2),
        "average_impact_interval_95": effect.interval,
        "loops_shown": effect.shown,
        "control_loops": effect.held,
    }


def page(pattern: "Pattern", stats: "LoopStats", *, control: bool = True) -> None:
    """Prints a pattern in the layout of the source system."""
    give(f"Pattern: {pattern.id}")
    give(f"Name: {line(pattern.name, _WIDE)}")
    give(f"Type: {_TITLES[pattern.kind]}")
    give(f"Created: {day(pattern.first_discovered)}")
    give(f"Last Used: {day(pattern.last_used)}")
    if pattern.retired:
        give(f"Retired: {line(pattern.retired, _WIDE)}")
    give("Effectiveness:")
    label = "Failure Rate" if pattern.kind == "anti" else "Success Rate"
    give(f"  {label}: {rate(pattern)}{' on probation' * pattern.probation}")
    give(f"  Usage Count: {pattern.counts.usage}")
    give(f"  Average Impact: {_impact(pattern, stats, control=control)}")
    if pattern.claim is not None:
        claimed = pattern.claim.counts
        licence = pattern.claim.licence
        counted = licence is not None and licence.helps
        weight = "of which the licence counts one" if counted else "not counted"
        give(f"  Claimed on import: {claimed.successes} of {claimed.usage} uses, {weight}")
        give(f"  Licence: {_licence(licence)}")
    give("Source Loops:")
    for source in pattern.sources:
        give(f"  - {line(source.loop, 80)} ({_role(source)})")
    for text in _body(pattern):
        give(text)
    give(f"Tags: {line(', '.join(pattern.tags), _WIDE) or '—'}")


def _impact(pattern: "Pattern", stats: "LoopStats", *, control: bool) -> str:
    from taofold.learning.metrics import impact

    return impact(pattern, stats).text("iterations", control=control)


def _role(source: "PatternSource") -> str:
    applied = "applied successfully" if source.won else "applied, failed"
    how = applied if source.role == "applied" else source.role
    return f"claimed by a file: {how}" if source.claimed else how


def _outcome(source: "PatternSource") -> str:
    if source.role == "applied":
        return "success" if source.won else "failure"
    return source.outcome


def _body(pattern: "Pattern") -> Iterator[str]:
    from taofold.learning.patterns.kinds import Approach, Avoidance, CodeTemplate, ErrorFix

    match pattern.body:
        case ErrorFix(signature=signature, fix=fix):
            yield "Error Signature:"
            yield f"  Type: {line(signature.name or signature.type)} ({signature.type})"
            yield f'  Pattern: "{line(signature.pattern, _WIDE)}"'
            yield f"  Found In: {line(', '.join(signature.hints), _WIDE) or '—'}"
            yield from [f"  Shown By: {line(test, 300)}" for test in pattern.tests]
            yield "Fix Approach:"
            yield f"  {line(fix.description, _WIDE)}"
            yield f"  Category: {fix.category}"
            yield from _block("Template", fix.code)
            yield from _block("Change", fix.diff)
        case Approach() as approach:
            yield f"Approach: {line(approach.description, _WIDE)}"
            yield f"  Category: {approach.category}"
            yield f"  Average Iterations: {approach.average_iterations:.1f}"
            yield f"  Tools: {line(', '.join(approach.tools), _WIDE) or '—'}"
            yield from (f"  {n}. {line(step, _WIDE)}" for n, step in enumerate(approach.steps, 1))
        case Avoidance() as avoid:
            yield f"Approach to avoid: {line(avoid.approach, _WIDE)}"
            yield f"  Failure Mode: {avoid.mode}"
            yield from (f"  Symptom: {line(symptom, _WIDE)}" for symptom in avoid.symptoms)
            yield f"  Why it fails: {line(avoid.why, _WIDE)}"
            yield f"  Better Alternative: {line(avoid.better or avoid.better_id or '—', _WIDE)}"
        case CodeTemplate() as template:
            yield f"Use: {line(template.use, _WIDE)}"
            yield f"  Language: {template.language}"
            yield from _block("Template", template.code)
            for name, meaning in template.holes.items():
                yield f"  {{{{{line(name)}}}}}: {line(meaning, 80)}"


def _block(title: str, text: str) -> Iterator[str]:
    if text:
        yield f"  {title}: |"
        yield from (f"    {visible(row)}" for row in text.split("\n"))


def lineage(pattern: "Pattern") -> None:
    """Prints discovery and uses in order of time."""
    give(f"Pattern: {pattern.id}")
    for source in pattern.lineage:
        word, claimed = source.role.capitalize(), "  claimed by a file" * source.claimed
        result = {True: "  helped", False: "  did not help", None: ""}[source.won]
        give(f"{word + ':':<12} {line(source.loop, 80)} ({day(source.at)}){result}{claimed}")
    give(f"Success rate: {rate(pattern)}")


def metrics(
    measured: "LearningMetrics", loops: "Sequence[LoopNote]", *, control: bool = True
) -> None:
    """Prints counts and benefit as a table, and the learning curve."""
    document = measured.as_json()
    benefit = measured.benefit
    rows: list[tuple[str, str]] = [("total_patterns", str(document["total_patterns"]))]
    for part in ("patterns_by_type", "pattern_usage_stats", "cross_loop_benefit"):
        rows += [(f"{part}.{name}", _figure(figure)) for name, figure in document[part].items()]
    rows += [(name, _figure(document[name])) for name in ("retired_patterns", "last_updated")]
    table(("measure", "value"), rows)
    give(f"improvement: {benefit.text('% of iterations saved', control=control)}")
    for text in curve(loops):
        give(text)


def _figure(thing: Any) -> str:
    if thing is None:
        return "—"
    if isinstance(thing, list):
        return " to ".join([_figure(element) for element in cast("list[object]", thing)])
    return f"{thing:g}" if isinstance(thing, float) else str(thing)

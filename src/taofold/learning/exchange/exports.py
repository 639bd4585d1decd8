"""Patterns as the files of the seed's layout hold them.

Rates have two digits, times are ISO 8601. What we believe of a pattern, its evidence, stays at
home: it holds words of other people's code, and nobody should trust it anyway.
"""

import re
from hashlib import blake2b
from typing import Any, Final

import msgspec

from taofold.core.text import iso
from taofold.learning.exchange.wire import (
    FILES,
    KEYS,
    VERSION,
    AnyWire,
    Better,
    Iterations,
    WireAnti,
    WireApproach,
    WireError,
    WireExtra,
    WireFix,
    WireLoop,
    WirePoint,
    WireScope,
    WireSignature,
    WireSuccess,
    WireTemplate,
)
from taofold.learning.loops import LoopNote, LoopStats
from taofold.learning.metrics import improvement, measure
from taofold.learning.patterns.kinds import (
    Approach,
    Avoidance,
    CodeTemplate,
    ErrorFix,
    ErrorSignature,
    Kind,
)
from taofold.learning.patterns.pattern import Pattern, PatternScope, RatePoint
from taofold.learning.settings import Pruning
from taofold.learning.state import View


def wire(pattern: Pattern) -> AnyWire:
    """The pattern in the schema of its kind."""
    counts, rate = pattern.total, pattern.rate
    sources = _loops(pattern)
    rounded = round(rate or 0.0, 2)
    match pattern.body:
        case ErrorFix() as body:
            return _error(pattern, body, rounded)
        case Approach() as body:
            typical = body.typical
            return WireSuccess(
                pattern.id,
                body.category,
                WireApproach(
                    body.description,
                    body.steps,
                    body.tools,
                    Iterations(typical.average, typical.minimum, typical.maximum),
                ),
                rounded,
                counts.usage,
                task_description_pattern=body.task,
                source_loops=sources,
                average_iterations=body.average,
                preconditions=body.preconditions,
                benefits=body.benefits,
                limitations=body.limitations,
                tags=pattern.tags,
                taofold=_extra(pattern),
            )
        case Avoidance() as body:
            better = Better(body.better, body.better_id) if body.better or body.better_id else None
            error = body.signature
            return WireAnti(
                pattern.id,
                body.approach,
                body.mode,
                round(1.0 - (rate or 0.0), 2),
                counts.usage,
                failure_symptoms=body.symptoms,
                why_it_fails=body.why,
                better_alternative=better,
                source_loops=sources,
                taofold=msgspec.structs.replace(
                    _extra(pattern),
                    task_category=body.category,
                    error_signature=_signature(error) if error else None,
                    error_class=error.name if error else "",
                    error_example=error.example if error else "",
                    error_seen=error.seen if error else "",
                    tags=pattern.tags,
                ),
            )
        case CodeTemplate() as body:
            return WireTemplate(
                pattern.id,
                body.language,
                body.code,
                counts.usage,
                placeholders=body.holes,
                use_case=body.use,
                success_rate=None if rate is None else rounded,
                source_loops=sources,
                tags=pattern.tags,
                taofold=msgspec.structs.replace(_extra(pattern), task_category=body.category),
            )


def _error(pattern: Pattern, body: ErrorFix, rate: float) -> WireError:
    counts, known, fix = pattern.total, _counted(pattern), body.fix
    return WireError(
        pattern.id,
        _signature(body.signature),
        WireFix(fix.description, fix.category, fix.code, fix.language, fix.diff),
        rate,
        counts.usage,
        successful_applications=counts.successes if known else None,
        failed_applications=counts.failures if known else None,
        source_loops=_loops(pattern),
        last_used=_time(pattern.last_used),
        first_discovered=_time(pattern.first_discovered),
        effectiveness_trend=_points(pattern.trend),
        related_patterns=pattern.related,
        tags=pattern.tags,
        taofold=WireExtra(
            pattern.name,
            _scope(pattern.scope),
            body.signature.name,
            fix_template=fix.template,
            error_example=body.signature.example,
            error_seen=body.signature.seen,
            fix_cause=fix.cause,
            retired=pattern.retired,
        ),
    )


def _counted(pattern: Pattern) -> bool:
    """Are successes and failures known, not only a rate?"""
    return pattern.claim is None or pattern.claim.rate is None or bool(pattern.counts.usage)


def _extra(pattern: Pattern) -> WireExtra:
    counts = pattern.total
    return WireExtra(
        pattern.name,
        _scope(pattern.scope),
        related_patterns=pattern.related,
        effectiveness_trend=_points(pattern.trend),
        first_discovered=_time(pattern.first_discovered),
        last_used=_time(pattern.last_used),
        retired=pattern.retired,
        successes=counts.successes if _counted(pattern) else None,
        failures=counts.failures if _counted(pattern) else None,
    )


def _signature(signature: ErrorSignature) -> WireSignature:
    return WireSignature(signature.type, signature.pattern, signature.hints)


def _scope(scope: PatternScope) -> WireScope | None:
    known = WireScope(scope.repository, scope.language, scope.tool)
    return None if known == WireScope() else known


def _loops(pattern: Pattern) -> tuple[WireLoop, ...]:
    anti = pattern.kind == "anti"
    return tuple(
        [
            WireLoop(
                one.loop,
                iso(one.at),
                one.by,
                one.role,
                one.won,
                one.outcome,
                0 if anti else one.iterations,
                one.iterations if anti else 0,
            )
            for one in pattern.sources
        ]
    )


def _points(trend: tuple[RatePoint, ...]) -> tuple[WirePoint, ...]:
    return tuple(
        [
            WirePoint(
                iso(one.at),
                round(one.rate, 4),
                one.size,
                one.loops[0] if len(one.loops) == 1 else "",
                one.loops if len(one.loops) > 1 else (),
            )
            for one in trend
        ]
    )


def _time(at: int) -> str:
    return iso(at) if at else ""


_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def files(view: View) -> dict[str, Any]:
    """Everything: names of files, with `/` between folders, and what each holds."""
    kept: dict[Kind, list[Any]] = {kind: [] for kind in KEYS}
    index: dict[str, Any] = {}
    for pattern in view.patterns():
        kept[pattern.kind].append(builtin(wire(pattern)))
        index[pattern.id] = {"type": pattern.kind, "name": pattern.name, "tags": [*pattern.tags]}
    made: dict[str, Any] = {
        f"patterns/{FILES[kind]}": {"version": VERSION, KEYS[kind]: kept[kind]} for kind in KEYS
    }
    months: dict[str, list[Any]] = {}
    for pattern, month in view.archive():
        months.setdefault(month, []).append(builtin(wire(pattern)))
    for month, old in months.items():
        made[f"archive/{month}-patterns.json"] = {"version": VERSION, "patterns": old}
    stats = view.stats()
    metrics = measure(view.patterns(), stats, sum(map(len, months.values())))
    made["effectiveness-metrics.json"] = metrics.as_json()
    made["memory/patterns-index.json"] = {"version": VERSION, "patterns": index}
    for note in view.loops():
        made[f"loops/{folder(note.loop)}/state.json"] = loop_state(note, stats)
    return made


def bundle(made: dict[str, Any]) -> dict[str, Any]:
    """The same in one file: patterns, metrics and the policy they are pruned by."""
    registry = {KEYS[kind]: made[f"patterns/{name}"][KEYS[kind]] for kind, name in FILES.items()}
    return {
        "version": VERSION,
        "pattern_registry": registry,
        "effectiveness_metrics": made["effectiveness-metrics.json"],
        "pruning_policy": builtin(Pruning(), defaults=True),
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
            "pattern_id": one.id,
            "applied": one.id in uses,
            "successful": uses[one.id].won if one.id in uses else False,
            "iteration_used": uses[one.id].iteration if one.id in uses else None,
        }
        for one in note.shown
        if one.id in note.ids
    ]
    extracted = [
        {
            "pattern_id": one.id,
            "new": one.new,
            "success_rate": None if one.rate is None else round(one.rate, 2),
        }
        for one in note.extracts
    ]
    learning: dict[str, Any] = {
        "injected_patterns": injected,
        "extracted_patterns": extracted,
        "control": note.control,
    }
    if note.ended:
        learning["improvement_estimate"] = improvement(note, stats).as_json()
    return {"loop_id": note.loop, "cross_loop_learning": learning}


def builtin(value: Any, *, defaults: bool = False) -> Any:
    """As plain JSON values."""
    if defaults:
        return {name: getattr(value, name) for name in value.__struct_fields__}
    return msgspec.json.decode(msgspec.json.encode(value))

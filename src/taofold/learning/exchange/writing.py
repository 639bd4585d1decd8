"""One pattern in its JSON form, the schema of its kind. Knows nothing about files."""

import msgspec

from taofold.core.text import iso
from taofold.learning.exchange.wire import (
    AnyWire,
    Better,
    Extra,
    Iterations,
    Loop,
    Point,
    WireAnti,
    WireApproach,
    WireError,
    WireFix,
    WireScope,
    WireSignature,
    WireSuccess,
    WireTemplate,
)
from taofold.learning.patterns.bodies import Approach, Avoidance, ErrorFix, Signature, Template
from taofold.learning.patterns.values import Pattern, Scope, Snapshot


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
        case Template() as body:
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
        taofold=Extra(
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


def _extra(pattern: Pattern) -> Extra:
    counts = pattern.total
    return Extra(
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


def _signature(signature: Signature) -> WireSignature:
    return WireSignature(signature.type, signature.pattern, signature.hints)


def _scope(scope: Scope) -> WireScope | None:
    known = WireScope(scope.repository, scope.language, scope.tool)
    return None if known == WireScope() else known


def _loops(pattern: Pattern) -> tuple[Loop, ...]:
    anti = pattern.kind == "anti"
    return tuple(
        [
            Loop(
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


def _points(trend: tuple[Snapshot, ...]) -> tuple[Point, ...]:
    return tuple(
        [
            Point(
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

"""One pattern from its JSON form: checked field by field, with the path of what is wrong.

What it claims about success comes apart from it. Knows nothing about files.
"""

from typing import Any

import msgspec

from taofold.core.text import milliseconds
from taofold.learning.exchange.wire import (
    WIRES,
    AnyWire,
    Extra,
    Loop,
    Point,
    WireAnti,
    WireError,
    WireSignature,
    WireSuccess,
    WireTemplate,
)
from taofold.learning.patterns.bodies import (
    Approach,
    Avoidance,
    ErrorFix,
    Fix,
    Kind,
    Signature,
    Spread,
    Template,
)
from taofold.learning.patterns.values import Claim, Counts, Pattern, Scope, Snapshot, Source


def pattern_of(kind: Kind, raw: Any, at: int) -> tuple[Pattern, Claim]:
    """The pattern in `raw`, and what is claimed of it, read `at`.

    Raises:
        ValueError: it is none; the text ends with ` - at `$.path``.
    """
    wire = msgspec.convert(raw, WIRES[kind], strict=True)
    match wire:
        case WireError():
            return _error(wire, at)
        case WireSuccess():
            return _success(wire, at)
        case WireAnti():
            return _anti(wire, at)
        case WireTemplate():
            return _template(wire, at)


def _error(wire: WireError, at: int) -> tuple[Pattern, Claim]:
    given = wire.fix_approach
    fix = Fix(
        given.description,
        given.fix_category,
        wire.taofold.fix_template,
        given.code_template,
        given.code_template_language,
        given.diff_pattern,
        wire.taofold.fix_cause,
    )
    body = ErrorFix(_signature(wire.error_signature, wire.taofold), fix)
    made = _common(wire.pattern_id, body, wire, wire.tags)
    made = msgspec.structs.replace(
        made,
        trend=_trend(wire.effectiveness_trend, "$.effectiveness_trend"),
        first_discovered=_time(wire.first_discovered, "$.first_discovered"),
        last_used=_time(wire.last_used, "$.last_used"),
        related=wire.related_patterns,
    )
    known = (wire.successful_applications, wire.failed_applications)
    return made, _claim(wire.usage_count, wire.success_rate, *known, at)


def _success(wire: WireSuccess, at: int) -> tuple[Pattern, Claim]:
    given, typical = wire.approach, wire.approach.typical_iterations
    body = Approach(
        wire.task_category,
        given.description,
        given.steps,
        given.tools_used,
        Spread(typical.average, typical.minimum, typical.maximum),
        wire.task_description_pattern,
        wire.average_iterations,
        wire.preconditions,
        wire.benefits,
        wire.limitations,
    )
    made = _common(wire.pattern_id, body, wire, wire.tags)
    return made, _claimed(wire.usage_count, wire.success_rate, wire.taofold, at)


def _anti(wire: WireAnti, at: int) -> tuple[Pattern, Claim]:
    extra, better = wire.taofold, wire.better_alternative
    body = Avoidance(
        wire.approach_description,
        wire.failure_mode,
        wire.failure_symptoms,
        wire.why_it_fails,
        better.description if better else "",
        better.success_pattern_id if better else "",
        extra.task_category,
        _signature(extra.error_signature, extra) if extra.error_signature else None,
    )
    made = _common(wire.pattern_id, body, wire, extra.tags)
    return made, _claimed(wire.occurrence_count, 1.0 - wire.failure_rate, extra, at)


def _template(wire: WireTemplate, at: int) -> tuple[Pattern, Claim]:
    body = Template(
        wire.template_code,
        wire.language,
        wire.use_case,
        wire.placeholders,
        wire.taofold.task_category,
    )
    made = _common(wire.template_id, body, wire, wire.tags)
    return made, _claimed(wire.usage_count, wire.success_rate, wire.taofold, at)


def _common(
    identity: str,
    body: ErrorFix | Approach | Avoidance | Template,
    wire: AnyWire,
    tags: tuple[str, ...],
) -> Pattern:
    extra, scope = wire.taofold, wire.taofold.scope
    return Pattern(
        identity,
        extra.name or identity,
        body,
        Scope(scope.repository, scope.language, scope.tool) if scope else Scope(),
        tags,
        tuple([_source(one, f"$.source_loops[{n}]") for n, one in enumerate(wire.source_loops)]),
        _time(extra.first_discovered, "$.taofold.first_discovered"),
        _time(extra.last_used, "$.taofold.last_used"),
        trend=_trend(extra.effectiveness_trend, "$.taofold.effectiveness_trend"),
        related=extra.related_patterns,
        retired=extra.retired,
    )


def _signature(wire: WireSignature, extra: Extra) -> Signature:
    return Signature(
        wire.error_type,
        wire.error_pattern,
        wire.error_location_hints,
        extra.error_class,
        extra.error_example,
        extra.error_seen,
    )


def _source(one: Loop, path: str) -> Source:
    took = one.iterations_required or one.failure_iteration
    at = _time(one.timestamp, f"{path}.timestamp")
    return Source(
        one.loop_id, at, one.role, one.contributed_by, one.successful, took, one.outcome, True
    )


def _trend(points: tuple[Point, ...], path: str) -> tuple[Snapshot, ...]:
    return tuple(
        [
            Snapshot(
                _time(one.timestamp, f"{path}[{n}].timestamp"),
                one.success_rate_snapshot,
                one.sample_size,
                one.source_loops or ((one.source_loop,) if one.source_loop else ()),
            )
            for n, one in enumerate(points)
        ]
    )


def _time(text: str, path: str) -> int:
    if not text:
        return 0
    try:
        return milliseconds(text)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{text[:40]!r} is no ISO 8601 time - at `{path}`") from error


def _claimed(usage: int, rate: float | None, extra: Extra, at: int) -> Claim:
    return _claim(usage, rate, extra.successes, extra.failures, at)


def _claim(
    usage: int, rate: float | None, successes: int | None, failures: int | None, at: int
) -> Claim:
    """What the file claims. Where it gives a rate only, the counts are what that comes to."""
    if successes is not None and failures is not None:
        return Claim(Counts(usage, successes, failures), None, at)
    won = round((rate or 0.0) * usage)
    return Claim(Counts(usage, won, usage - won) if rate is not None else Counts(usage), rate, at)

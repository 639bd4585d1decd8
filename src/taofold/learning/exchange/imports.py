"""Reads pattern files, the seed's own or anybody's: what is sound is taken, the rest is said.

Every fault names its file and the path in it. What a file claims about success is noted as a claim.
Text in it stays data.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

import msgspec

from taofold.core.text import milliseconds
from taofold.learning.events import PatternArchived, PatternImported
from taofold.learning.exchange.exports import bundle, files, loop_state
from taofold.learning.exchange.wire import (
    FILES,
    KEYS,
    WIRES,
    AnyWire,
    WireAnti,
    WireError,
    WireExtra,
    WireLoop,
    WirePoint,
    WireSignature,
    WireSuccess,
    WireTemplate,
)
from taofold.learning.patterns.kinds import (
    Approach,
    Avoidance,
    CodeTemplate,
    ErrorFix,
    ErrorSignature,
    Fix,
    IterationSpread,
    Kind,
)
from taofold.learning.patterns.pattern import (
    PREFIXES,
    ImportClaim,
    Pattern,
    PatternScope,
    PatternSource,
    RatePoint,
    UseCounts,
    fresh,
)
from taofold.learning.state import Writing


def pattern_of(kind: Kind, raw: Any, at: int) -> tuple[Pattern, ImportClaim]:
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


def _error(wire: WireError, at: int) -> tuple[Pattern, ImportClaim]:
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


def _success(wire: WireSuccess, at: int) -> tuple[Pattern, ImportClaim]:
    given, typical = wire.approach, wire.approach.typical_iterations
    body = Approach(
        wire.task_category,
        given.description,
        given.steps,
        given.tools_used,
        IterationSpread(typical.average, typical.minimum, typical.maximum),
        wire.task_description_pattern,
        wire.average_iterations,
        wire.preconditions,
        wire.benefits,
        wire.limitations,
    )
    made = _common(wire.pattern_id, body, wire, wire.tags)
    return made, _claimed(wire.usage_count, wire.success_rate, wire.taofold, at)


def _anti(wire: WireAnti, at: int) -> tuple[Pattern, ImportClaim]:
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


def _template(wire: WireTemplate, at: int) -> tuple[Pattern, ImportClaim]:
    body = CodeTemplate(
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
    body: ErrorFix | Approach | Avoidance | CodeTemplate,
    wire: AnyWire,
    tags: tuple[str, ...],
) -> Pattern:
    extra, scope = wire.taofold, wire.taofold.scope
    return Pattern(
        identity,
        extra.name or identity,
        body,
        PatternScope(scope.repository, scope.language, scope.tool) if scope else PatternScope(),
        tags,
        tuple([_source(one, f"$.source_loops[{n}]") for n, one in enumerate(wire.source_loops)]),
        _time(extra.first_discovered, "$.taofold.first_discovered"),
        _time(extra.last_used, "$.taofold.last_used"),
        trend=_trend(extra.effectiveness_trend, "$.taofold.effectiveness_trend"),
        related=extra.related_patterns,
        retired=extra.retired,
    )


def _signature(wire: WireSignature, extra: WireExtra) -> ErrorSignature:
    return ErrorSignature(
        wire.error_type,
        wire.error_pattern,
        wire.error_location_hints,
        extra.error_class,
        extra.error_example,
        extra.error_seen,
    )


def _source(one: WireLoop, path: str) -> PatternSource:
    took = one.iterations_required or one.failure_iteration
    at = _time(one.timestamp, f"{path}.timestamp")
    return PatternSource(
        one.loop_id, at, one.role, one.contributed_by, one.successful, took, one.outcome, True
    )


def _trend(points: tuple[WirePoint, ...], path: str) -> tuple[RatePoint, ...]:
    return tuple(
        [
            RatePoint(
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


def _claimed(usage: int, rate: float | None, extra: WireExtra, at: int) -> ImportClaim:
    return _claim(usage, rate, extra.successes, extra.failures, at)


def _claim(
    usage: int, rate: float | None, successes: int | None, failures: int | None, at: int
) -> ImportClaim:
    """What the file claims. Where it gives a rate only, the counts are what that comes to."""
    if successes is not None and failures is not None:
        return ImportClaim(UseCounts(usage, successes, failures), None, at)
    won = round((rate or 0.0) * usage)
    return ImportClaim(
        UseCounts(usage, won, usage - won) if rate is not None else UseCounts(usage), rate, at
    )


_ARCHIVE: Final = re.compile(r"(?:^|/)archive/(\d{4}-(?:0[1-9]|1[0-2]))-patterns\.json$")
_OTHER: Final = re.compile(r"(?:^|/)(?:memory|loops)/|effectiveness-metrics\.json$")
_LARGEST: Final = 64 << 20


class Incoming(NamedTuple):
    """A pattern as a file has it, with what the file claims. `month` is "" but in an archive."""

    pattern: Pattern
    claim: ImportClaim
    file: str
    month: str = ""


class ImportReport(NamedTuple):
    """What became of files: ids that are new, ids that were known, and what is wrong.

    `renamed` are pairs of a file's id, which somebody else has here, and the new one;
    `broken` are the files that could not be read at all.
    """

    added: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    faults: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()


class FileReading(NamedTuple):
    """What stands in files."""

    found: tuple[Incoming, ...]
    faults: tuple[str, ...]
    broken: tuple[str, ...]


def read(files: Mapping[str, bytes], at: int) -> FileReading:
    """The patterns in `files`, by name; `at` is when they are read."""
    found: list[Incoming] = []
    faults: list[str] = []
    broken: list[str] = []
    for name, body in sorted(files.items()):
        if _OTHER.search(name):
            continue
        try:
            content = _load(body)
        except ValueError as error:
            broken.append(name)
            faults.append(f"{name}: it cannot be read: {error}; the other files were taken")
            continue
        month = _ARCHIVE.search(name)
        for path, kind, raw in _listed(name, content, faults):
            try:
                pattern, claim = pattern_of(kind, raw, at)
            except ValueError as error:
                faults.append(f"{name}: {_placed(path, error)}")
            else:
                found.append(Incoming(pattern, claim, name, month[1] if month else ""))
    return FileReading(tuple(found), tuple(faults), tuple(broken))


def _load(body: bytes) -> Any:
    if len(body) > _LARGEST:
        raise ValueError(f"it is larger than {_LARGEST >> 20} MB")
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"no JSON: {error}") from error


def _listed(name: str, content: Any, faults: list[str]) -> list[tuple[str, Kind, Any]]:
    """Every pattern in a file with its path and kind."""
    found: list[tuple[str, Kind, Any]] = []
    groups: dict[str, Any] = {}
    if isinstance(content, list):
        groups[""] = content
    elif isinstance(content, dict):
        mapping = cast("dict[str, Any]", content)
        inner = mapping.get("pattern_registry")
        prefix = "pattern_registry." if isinstance(inner, dict) else ""
        where = cast("dict[str, Any]", inner) if prefix else mapping
        wanted = {*KEYS.values(), "patterns", "templates"}
        groups = {prefix + key: value for key, value in where.items() if key in wanted}
    if not groups:
        faults.append(f"{name}: there are no patterns in it; {', '.join(KEYS.values())} are known")
    for key, value in groups.items():
        if not isinstance(value, list):
            faults.append(f"{name}: {key}: must be a list, not {type(value).__name__}")
            continue
        for n, raw in enumerate(cast("list[Any]", value)):
            path = f"{key}[{n}]"
            kind = _kind(raw, key, name)
            if kind is None:
                faults.append(f"{name}: {path}: it is of no known kind: its id starts with none of "
                              f"{', '.join(PREFIXES.values())}")  # fmt: skip
            else:
                found.append((path, kind, raw))
    return found


def _kind(raw: Any, key: str, name: str) -> Kind | None:
    for kind, named in KEYS.items():
        if key.endswith(named):
            return kind
    for kind, file in FILES.items():
        if name.endswith(file):
            return kind
    if isinstance(raw, dict):
        entry = cast("dict[str, Any]", raw)
        identity = str(entry.get("pattern_id", entry.get("template_id", "")))
        for kind, prefix in PREFIXES.items():
            if identity.startswith(prefix):
                return kind
    return None


def _placed(path: str, error: ValueError) -> str:
    """`Invalid … - at `$.a.b`` as `path.a.b: Invalid …`."""
    said, _, place = str(error).partition(" - at `$")
    return f"{path}{place.removesuffix('`')}: {said}"


__all__ = ["bundle", "files", "loop_state", "take"]


def take(tx: Writing, given: Mapping[str, bytes], at: int) -> ImportReport:
    """Take in the patterns of exported files. The same files again change nothing.

    A pattern that says word for word what a known one says is that one. An id that somebody
    else has here is replaced by a fresh one.
    """
    reading = read(given, at)
    added: list[str] = []
    known: list[str] = []
    renamed: list[tuple[str, str]] = []
    for one in reading.found:
        there = _known(tx, one)
        if there:
            known.append(there)
            continue
        pattern = one.pattern
        if tx.pattern(pattern.id) is not None or tx.archived(pattern.id) is not None:
            pattern = msgspec.structs.replace(pattern, id=fresh(pattern, tx.ids))
            renamed.append((one.pattern.id, pattern.id))
        tx.emit(PatternImported(pattern, one.claim, one.file))
        if one.month:
            tx.emit(PatternArchived(pattern.id, "it came from an archive", one.month))
        added.append(pattern.id)
    return ImportReport(tuple(added), tuple(known), tuple(renamed), reading.faults, reading.broken)


def _known(tx: Writing, one: Incoming) -> str:
    same = tx.same(one.pattern)
    if same:
        return same
    old = tx.archived(one.pattern.id)
    return one.pattern.id if old is not None and _says(old) == _says(one.pattern) else ""


def _says(pattern: Pattern) -> tuple[object, ...]:
    return pattern.name, pattern.body

"""One pattern from its JSON form and back, by what `wire` says about each key.

What a file claims about success comes apart from the pattern. Knows nothing about files.
"""

import json
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias, get_args, get_origin, get_type_hints

import msgspec

from taofold.core.json_values import is_object, plain
from taofold.core.text import iso, milliseconds
from taofold.learning.exchange.wire import (
    FORMATS,
    AnyWire,
    At,
    WireAnti,
    WireError,
    WireLoop,
    WirePoint,
    WireStruct,
)
from taofold.learning.patterns.kinds import Approach, Avoidance, CodeTemplate, ErrorFix, Kind
from taofold.learning.patterns.pattern import (
    ImportClaim,
    Pattern,
    PatternScope,
    PatternSource,
    RatePoint,
    UseCounts,
)

_BODIES: Final = {
    "error": ErrorFix,
    "success": Approach,
    "anti": Avoidance,
    "template": CodeTemplate,
}
_TIMES: Final = frozenset({"first_discovered", "last_used"})
Json: TypeAlias = dict[str, Any]


class _Key(NamedTuple):
    """A key of a file: its path there, its path in a pattern, and the value that is left out."""

    keys: tuple[str, ...]
    path: str
    default: Any

    @property
    def place(self) -> str:
        """The path as messages name it."""
        return f"$.{'.'.join(self.keys)}"


@cache
def _keys(struct: type[WireStruct]) -> tuple[_Key, ...]:
    """The keys of a struct with their place in a pattern; of two for one place the outer first."""
    # `sorted` is stable: keys of one depth stay in the order of the schema.
    return tuple(sorted(_walk(struct, ()), key=lambda key: len(key.keys)))


def _walk(struct: type[WireStruct], above: tuple[str, ...]) -> Iterator[_Key]:
    hints = get_type_hints(struct, include_extras=True)
    for field in msgspec.structs.fields(struct):
        hint = hints[field.name]
        at = next(
            (part for part in getattr(hint, "__metadata__", ()) if isinstance(part, At)), None
        )
        if at is not None:
            default: Any = {} if field.default_factory is dict else field.default
            yield _Key((*above, field.encode_name), at.path, default)
        elif get_origin(hint) is not tuple:
            for inner in (hint, *get_args(hint)):
                if isinstance(inner, type) and issubclass(inner, WireStruct):
                    yield from _walk(inner, (*above, field.encode_name))


def _get(value: Any, names: tuple[str, ...]) -> Any:
    """The value at a path of attributes; None where a part of the path is missing."""
    for name in names:
        value = getattr(value, name, None)
    return value


def _put(tree: Json, names: tuple[str, ...], value: Any) -> None:
    """Set the value at a path of keys, unless something is there."""
    for name in names[:-1]:
        tree = tree.setdefault(name, {})
    # The first key that says something about a part wins (`_keys`: the outer one).
    tree.setdefault(names[-1], value)


def written(pattern: Pattern) -> Json:
    """The pattern in the schema of its kind; what has its default is left out."""
    record: Json = {}
    taken: set[str] = set()
    for key in _keys(FORMATS[pattern.kind].wire):
        value = _get(pattern, tuple(key.path.split(".")))
        if key.path in taken or value is None:
            continue
        if key.path in _TIMES:
            value = iso(value) if value else ""
        elif key.path == "trend":
            value = tuple([_point_out(point) for point in value])
        taken.add(key.path)
        if value != key.default:
            _put(record, key.keys, value)
    extra: Json = record.pop("taofold", {})  # ours comes last, behind the keys of the schema
    record |= _figures(pattern)
    if pattern.sources:
        anti = pattern.kind == "anti"
        record["source_loops"] = [_loop_out(source, anti=anti) for source in pattern.sources]
    if pattern.kind != "error" and _counted(pattern):
        counts = pattern.total
        extra |= {"successes": counts.successes, "failures": counts.failures}
    if extra:
        record["taofold"] = extra
    # Through JSON, so that tuples and structs come out as what a reader of the file sees.
    plain: Json = msgspec.json.decode(msgspec.json.encode(record))
    return plain


def _figures(pattern: Pattern) -> Json:
    """How often it was used and right, under the names of its kind."""
    counts, rate = pattern.total, pattern.rate
    share = round(rate or 0.0, 2)
    match pattern.kind:
        case "anti":
            failed = round(1.0 - (rate or 0.0), 2)
            return {"occurrence_count": counts.usage, "failure_rate": failed}
        case "template":
            rated = {} if rate is None else {"success_rate": share}
            return {"usage_count": counts.usage, **rated}
        case "success":
            return {"usage_count": counts.usage, "success_rate": share}
        case "error":
            figures: Json = {"usage_count": counts.usage, "success_rate": share}
            if _counted(pattern):
                figures["successful_applications"] = counts.successes
                figures["failed_applications"] = counts.failures
            return figures


def _counted(pattern: Pattern) -> bool:
    """Are successes and failures known, not only a rate?"""
    return pattern.claim is None or pattern.claim.rate is None or bool(pattern.counts.usage)


def _loop_out(source: PatternSource, *, anti: bool) -> WireLoop:
    return WireLoop(
        source.loop,
        iso(source.at),
        source.by,
        source.role,
        source.won,
        source.outcome,
        0 if anti else source.iterations,
        source.iterations if anti else 0,
    )


def _point_out(point: RatePoint) -> WirePoint:
    alone = len(point.loops) == 1
    return WirePoint(
        iso(point.at),
        round(point.rate, 4),
        point.size,
        point.loops[0] if alone else "",
        () if alone else point.loops,
    )


def pattern_of(kind: Kind, raw: Any, at: int) -> tuple[Pattern, ImportClaim]:
    """The pattern in `raw`, and what is claimed of it, read `at`.

    Raises:
        ValueError: it is none; the text ends with ` - at `$.path``.
    """
    wire = msgspec.convert(raw, FORMATS[kind].wire, strict=True)
    parts: Json = {}
    for key in _keys(type(wire)):
        value = _get(wire, key.keys)
        # What the file leaves out is left to the defaults of the pattern, so that an outer key
        # and an inner one for the same part do not take turns.
        if value is None or value == key.default:
            continue
        if key.path in _TIMES:
            value = _time(value, key.place)
        elif key.path == "trend":
            value = _trend_in(value, key.place)
        _put(parts, tuple(key.path.split(".")), value)
    body = parts.pop("body", {})
    if kind == "anti" and wire.taofold.error_signature is None:
        body.pop("signature", None)  # a class or an example alone is no signature
    scope = PatternScope(**parts.pop("scope", {}))
    since = parts.get("first_discovered", at)
    loops = [
        _loop_in(loop, f"$.source_loops[{n}]", since) for n, loop in enumerate(wire.source_loops)
    ]
    pattern = Pattern(
        **{"name": parts["id"], **parts},
        body=msgspec.convert({"kind": kind, **body}, _BODIES[kind]),
        scope=scope,
        sources=tuple(loops),
    )
    return pattern, _claimed(wire, at)


def rewritten(pattern: Pattern, name: str, tags: Sequence[str], body: Json) -> Pattern:
    """`pattern` in a person's words, within the bounds that hold for files. The kind stays.

    Raises:
        ValueError: it would be no pattern; the text says where.
    """
    if not name.strip():
        raise ValueError("a pattern needs a name")
    try:
        json.dumps([name, *tags, body], ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("half a character (a surrogate) is no text") from None
    kind = pattern.kind
    changed = msgspec.convert({**body, "kind": kind}, _BODIES[kind], strict=True)
    unknown = _lost(body, plain(changed), "$.body")
    if unknown:
        raise ValueError(f"{unknown} is no part of a pattern of this kind")
    edited = msgspec.structs.replace(
        pattern, name=name.strip(), tags=tuple(dict.fromkeys(tags)), body=changed
    )
    try:
        pattern_of(kind, written(edited), 0)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error
    return edited


def _lost(given: Any, kept: Any, place: str) -> str:
    """The place of a key that was given and not kept, "" if there is none."""
    if not is_object(given):
        return ""
    for key, value in given.items():
        if not is_object(kept) or key not in kept:
            return f"{place}.{key}"
        if lost := _lost(value, kept[key], f"{place}.{key}"):
            return lost
    return ""


def _loop_in(loop: WireLoop | str, place: str, since: int) -> PatternSource:
    """An entry of `source_loops`; of an id alone it is known that it was not before `since`."""
    if isinstance(loop, str):
        return PatternSource(loop, since, claimed=True)
    took = loop.iterations_required or loop.failure_iteration
    at = _time(loop.timestamp, f"{place}.timestamp")
    return PatternSource(
        loop.loop_id,
        at,
        loop.role,
        loop.contributed_by,
        loop.successful,
        took,
        loop.outcome,
        claimed=True,
    )


def _trend_in(points: tuple[WirePoint, ...], place: str) -> tuple[RatePoint, ...]:
    return tuple(
        [
            RatePoint(
                _time(point.timestamp, f"{place}[{number}].timestamp"),
                point.success_rate_snapshot,
                point.sample_size,
                point.source_loops or ((point.source_loop,) if point.source_loop else ()),
            )
            for number, point in enumerate(points)
        ]
    )


def _time(text: str, place: str) -> int:
    if not text:
        return 0
    try:
        return milliseconds(text)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{text[:40]!r} is no ISO 8601 time - at `{place}`") from error


def _claimed(wire: AnyWire, at: int) -> ImportClaim:
    """What the file claims. Where it gives a rate only, the counts are what that comes to."""
    successes, failures = wire.taofold.successes, wire.taofold.failures
    if isinstance(wire, WireError):
        # Error patterns have keys of their own for these in the seed's schema.
        successes, failures = wire.successful_applications, wire.failed_applications
    rate: float | None
    if isinstance(wire, WireAnti):
        usage, rate = wire.occurrence_count, 1.0 - wire.failure_rate
    else:
        usage, rate = wire.usage_count, wire.success_rate
    if successes is not None and failures is not None:
        return ImportClaim(UseCounts(usage, successes, failures), None, at)
    if rate is None:
        return ImportClaim(UseCounts(usage), None, at)
    won = round(rate * usage)
    return ImportClaim(UseCounts(usage, won, usage - won), rate, at)

"""Converts a pattern to and from the JSON of the exchange schema, and rewrites one (`rewritten`).

`FORMATS` alone maps the keys of a file to the parts of a `Pattern`; the types are those of the
pattern. Parts without a key in the schema are under `taofold`. A rewritten pattern has the same
bounds. Knows nothing about files or about trust.
"""

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias, get_args

import msgspec

from taofold.core.json_values import flaw_of, is_array, is_object, plain
from taofold.core.text import iso, milliseconds
from taofold.learning.extraction.generalisation import error_type_of
from taofold.learning.patterns.kinds import Avoidance, ErrorFix, ErrorType, Kind
from taofold.learning.patterns.pattern import ImportClaim, Pattern, UseCounts, valid

VERSION: Final = "1.0.0"
Json: TypeAlias = dict[str, Any]
_LONGEST: Final = 20_000
"""The most characters of a text."""
_MOST: Final = 200
"""The most texts in a list."""
_HIGHEST: Final = 1_000_000_000
_SHORTEST_FIX: Final = 20
"""The fewest characters of a fix's description, by the schema."""


class Key(NamedTuple):
    """A key of a file and the part of a pattern that it holds, both as paths.

    A part with its default value is omitted from a file, unless it `must` be present or is `shown`,
    which demands nothing of a file that is read. `each` are the keys of the entries of a list;
    `ids` writes only the first of them.
    """

    file: str
    part: str
    must: bool = False
    each: tuple["Key", ...] = ()
    shown: bool = False
    ids: bool = False


class Form(NamedTuple):
    """The form of one kind of pattern in files: its key in a file, its type, its file, its keys."""

    key: str
    type: str
    file: str
    keys: tuple[Key, ...]


_ENTRY: Final = (
    Key("loop_id", "loop", must=True),
    Key("timestamp", "at"),
    Key("contributed_by", "by"),
    Key("role", "role"),
    Key("successful", "won"),
    Key("outcome", "outcome"),
)
_LOOPS: Final = Key(
    "source_loops", "sources", each=(*_ENTRY, Key("iterations_required", "iterations"))
)
_POINT: Final = (
    Key("timestamp", "at", must=True),
    Key("success_rate_snapshot", "rate", must=True),
    Key("sample_size", "size", must=True),
    Key("source_loops", "loops"),
    Key("source_loop", "loop"),
)
_NAME: Final = (
    Key("taofold.name", "name"),
    Key("taofold.scope.repository", "scope.repository"),
    Key("taofold.scope.language", "scope.language"),
    Key("taofold.retired", "retired"),
)
_ERROR: Final = (
    Key("taofold.error_class", "body.signature.name"),
    Key("taofold.error_example", "body.signature.example"),
    Key("taofold.error_seen", "body.signature.seen"),
    Key("taofold.error_caller", "body.signature.caller"),
    Key("taofold.error_raised", "body.signature.raised"),
    Key("taofold.error_causes", "body.signature.causes"),
)
_HISTORY: Final = (
    Key("taofold.first_discovered", "first_discovered"),
    Key("taofold.last_used", "last_used"),
    Key("taofold.effectiveness_trend", "trend", each=_POINT),
    Key("taofold.related_patterns", "related"),
    Key("taofold.successes", "claim.counts.successes"),
    Key("taofold.failures", "claim.counts.failures"),
)
FORMATS: Final[dict[Kind, Form]] = {
    "error": Form(
        "error_patterns",
        "error_pattern",
        "error-patterns.json",
        (
            Key("pattern_id", "id", must=True),
            Key("error_signature.error_type", "body.signature.type", must=True),
            Key("error_signature.error_pattern", "body.signature.pattern", must=True),
            Key("error_signature.error_location_hints", "body.signature.hints"),
            Key("fix_approach.description", "body.fix.description", must=True),
            Key("fix_approach.fix_category", "body.fix.category", must=True),
            Key("fix_approach.code_template", "body.fix.code"),
            Key("fix_approach.code_template_language", "body.fix.language"),
            Key("fix_approach.diff_pattern", "body.fix.diff"),
            Key("success_rate", "claim.rate", must=True),
            Key("usage_count", "claim.counts.usage", must=True),
            Key("successful_applications", "claim.counts.successes"),
            Key("failed_applications", "claim.counts.failures"),
            _LOOPS,
            Key("tags", "tags"),
            Key("last_used", "last_used"),
            Key("first_discovered", "first_discovered"),
            Key("effectiveness_trend", "trend", each=_POINT),
            Key("related_patterns", "related"),
            *_NAME,
            *_ERROR,
            Key("taofold.fix_cause", "body.fix.cause"),
            Key("taofold.fix_files", "body.fix.files"),
            Key("taofold.fix_vain", "body.fix.vain"),
            Key("taofold.fix_partial", "body.fix.partial"),
        ),
    ),
    "success": Form(
        "success_patterns",
        "success_pattern",
        "success-patterns.json",
        (
            Key("pattern_id", "id", must=True),
            Key("task_category", "body.category", must=True),
            Key("approach.description", "body.description", must=True),
            Key("approach.steps", "body.steps", shown=True),
            Key("approach.tools_used", "body.tools"),
            Key("approach.typical_iterations.average", "body.typical.average"),
            Key("approach.typical_iterations.minimum", "body.typical.minimum"),
            Key("approach.typical_iterations.maximum", "body.typical.maximum"),
            Key("success_rate", "claim.rate", must=True),
            Key("usage_count", "claim.counts.usage", must=True),
            Key("tags", "tags"),
            Key("task_description_pattern", "body.task"),
            Key("average_iterations", "body.average"),
            Key("preconditions", "body.preconditions"),
            Key("benefits", "body.benefits"),
            Key("limitations", "body.limitations"),
            _LOOPS,
            *_NAME,
            *_HISTORY,
        ),
    ),
    "anti": Form(
        "anti_patterns",
        "anti_pattern",
        "anti-patterns.json",
        (
            Key("pattern_id", "id", must=True),
            Key("approach_description", "body.approach", must=True),
            Key("failure_mode", "body.mode", must=True),
            Key("failure_rate", "claim.rate", must=True),
            Key("occurrence_count", "claim.counts.usage", must=True),
            Key("failure_symptoms", "body.symptoms"),
            Key("why_it_fails", "body.why"),
            Key("better_alternative.description", "body.better"),
            Key("better_alternative.success_pattern_id", "body.better_id"),
            Key("source_loops", "sources", each=(*_ENTRY, Key("failure_iteration", "iterations"))),
            Key("tags", "tags"),
            Key("taofold.task_category", "body.category"),
            Key("taofold.error_signature.error_type", "body.signature.type"),
            Key("taofold.error_signature.error_pattern", "body.signature.pattern"),
            Key("taofold.error_signature.error_location_hints", "body.signature.hints"),
            *_ERROR,
            *_NAME,
            *_HISTORY,
        ),
    ),
    "template": Form(
        "code_templates",
        "code_template",
        "code-templates.json",
        (
            Key("template_id", "id", must=True),
            Key("language", "body.language", must=True),
            Key("template_code", "body.code", must=True),
            Key("usage_count", "claim.counts.usage", must=True),
            Key("success_rate", "claim.rate"),
            Key("tags", "tags"),
            Key("placeholders", "body.holes"),
            Key("use_case", "body.use"),
            Key("description", "body.description"),
            # The schema allows ids alone: times, roles and agents are beside them.
            _LOOPS._replace(ids=True),
            _LOOPS._replace(file="taofold.source_loops"),
            Key("taofold.task_category", "body.category"),
            *_NAME,
            *_HISTORY,
        ),
    ),
}
_TIMES: Final = frozenset({"first_discovered", "last_used", "at"})
_ERROR_TYPES: Final = frozenset(get_args(ErrorType))
_CLASS: Final = re.compile(r"[A-Za-z_][\w.:-]{0,99}")
_PLACE: Final = re.compile(r"`(\$.*?)((?:\[[^\]]*\])?)`$")


def written(pattern: Pattern) -> Json:
    """Returns the pattern in the schema of its kind; parts with their default are omitted.

    The schema has eight names of errors. The language's own name, such as `AttributeError`, is in
    `taofold.error_class`.
    """
    tree: Json = plain(msgspec.to_builtins(pattern))  # without defaults
    counts, rate = pattern.counts, pattern.counts.rate
    claim = None if counts.usage else pattern.claim
    if claim is not None:
        counts, rate = claim.counts, claim.share
    tree["claim"] = stated = {"counts": plain(counts)}
    tree["trend"] = [plain(point) for point in pattern.trend] or None
    if claim is not None and claim.rate is not None:
        # For a claim that is only a rate, successes and failures are unknown.
        stated["counts"] = {"usage": counts.usage}
    if rate is not None or pattern.kind != "template":
        share = rate or 0.0
        # A claim is passed on as it was written; it may have more digits than our own rates.
        digits = 2 if claim is None else 10
        stated["rate"] = round(1.0 - share if pattern.kind == "anti" else share, digits)
    for point in tree["trend"] or ():
        point["rate"] = round(point["rate"], 4)
        if len(point.get("loops", ())) == 1:
            (point["loop"],) = point.pop("loops")
    form = FORMATS[pattern.kind]
    record = _record(tree, plain(pattern), form.keys) | {"type": form.type}
    if claim is not None:
        # Passed on unchanged, without its licence: nothing of it was observed here.
        _put(record, "taofold.claimed", True)
    return record


def _record(tree: Json, whole: Json, keys: Sequence[Key]) -> Json:
    """Returns a pattern, or an entry of one, under the keys of a file.

    `tree` is without defaults, `whole` is with them.
    """
    record: Json = {}
    for key in keys:
        part = _found(tree, key.part, "$")
        if part is None and (key.must or key.shown):
            part = _found(whole, key.part, "$")
        if part is None:
            continue
        if key.ids:
            part = list(dict.fromkeys([entry[key.each[0].part] for entry in part]))
        elif key.each:
            part = [_record(entry, entry, key.each) for entry in part]
        elif key.part in _TIMES:
            if not part:  # Unknown.
                continue
            part = instant(part)
        _put(record, key.file, part)
    return record


def instant(ms: int) -> str:
    """Returns a time in ISO 8601, without a fraction if it is a whole second."""
    return iso(ms).replace(".000Z", "Z")


def _put(tree: Json, path: str, value: Any) -> None:
    *above, last = path.split(".")
    for name in above:
        tree = tree.setdefault(name, {})
    tree[last] = value


def pattern_of(kind: Kind, raw: Any, at: int) -> Pattern:
    """Returns the pattern in `raw`, read `at`, with its claims.

    Raises:
        ValueError: It is not one; the text ends with ` - at `$.path``.
    """
    places: dict[str, str] = {}
    if is_object(raw) and isinstance(better := raw.get("better_alternative"), str):
        # The document writes the id of a success pattern; the schema has an object.
        key = "success_pattern_id" if valid(better, "success") else "description"
        raw = {**raw, "better_alternative": {key: better}}
    tree = _tree(raw, FORMATS[kind].keys, places)
    body = tree.setdefault("body", {})
    body["kind"] = kind
    _named(body.get("signature"))
    for source in tree.get("sources", ()):
        source.setdefault("at", 0)
        source["claimed"] = True
    for n, point in enumerate(tree.get("trend", ())):
        if "loop" in point and "loops" not in point:
            point["loops"] = [point["loop"]]
            places[f"$.trend[{n}].loops"] = places[f"$.trend[{n}].loop"]
    try:
        name = tree["id"] if not str(tree.get("name", "")).strip() else tree["name"]
        pattern = msgspec.convert({**tree, "name": name}, Pattern)
    except msgspec.ValidationError as error:
        # The error names the part of a pattern; the author of the file needs the key.
        text = _PLACE.sub(lambda path: f"`{places.get(path[1], path[1])}{path[2]}`", str(error))
        raise ValueError(text) from error
    if not valid(pattern.id, kind):
        raise ValueError(f"{pattern.id[:40]!r} is not an id of its kind - at `{places['$.id']}`")
    match pattern.body:
        case ErrorFix(fix=fix) if len(fix.description) < _SHORTEST_FIX:
            place = places["$.body.fix.description"]
            raise ValueError(f"Expected `str` of length >= {_SHORTEST_FIX} - at `{place}`")
        case Avoidance(better_id=better) if better and not valid(better, "success"):
            place = places["$.body.better_id"]
            raise ValueError(f"{better[:40]!r} is not the id of a success pattern - at `{place}`")
        case _:
            counted = {"successes", "failures"} <= tree["claim"]["counts"].keys()
            return msgspec.structs.replace(pattern, claim=_claim(pattern, counted, at))


def _named(signature: Any) -> None:
    """Accepts an error by the language's own name, which the schema's eight names do not have."""
    if not is_object(signature):
        return
    own = signature.get("type")
    if isinstance(own, str) and own not in _ERROR_TYPES and _CLASS.fullmatch(own):
        signature["type"] = error_type_of(own)
        signature.setdefault("name", own)


def _tree(
    raw: Any, keys: Sequence[Key], places: dict[str, str], file: str = "$", above: str = "$"
) -> Json:
    """Returns the file's content as parts of a pattern; stores their places in `places`."""
    tree: Json = {}
    for key in keys:
        place, path = f"{file}.{key.file}", f"{above}.{key.part}"
        value = _found(raw, key.file, file)
        if value is None:
            if key.must:
                above_it, _, name = place.rpartition(".")
                raise ValueError(f"Object missing required field `{name}` - at `{above_it}`")
            continue
        places[path] = place
        if key.each:
            if not is_array(value):
                raise ValueError(f"Expected `array`, got `{type(value).__name__}` - at `{place}`")
            # An entry of `source_loops` may be only an id.
            entries = [{"loop_id": each} if isinstance(each, str) else each for each in value]
            value = [
                _tree(entry, key.each, places, f"{place}[{n}]", f"{path}[{n}]")
                for n, entry in enumerate(entries)
            ]
        elif key.part in _TIMES:
            value = _time(value, place)
        else:
            _bound(key, value, place)
        _put(tree, key.part, value)
    return tree


def _found(raw: Any, path: str, place: str) -> Any:
    """Returns the value at a path of keys; None if there is none."""
    for name in path.split("."):
        if raw is None:
            return None
        if not is_object(raw):
            raise ValueError(f"Expected `object`, got `{type(raw).__name__}` - at `{place}`")
        raw, place = raw.get(name), f"{place}.{name}"
    return raw


def _time(text: Any, place: str) -> int:
    try:
        return milliseconds(text) if text != "" else 0
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{str(text)[:40]!r} is not an ISO 8601 time - at `{place}`") from error


def _bound(key: Key, value: Any, place: str) -> None:
    """Refuses values that no valid file holds, although the part's type would allow them."""
    texts = value.values() if is_object(value) else value if is_array(value) else (value,)
    if len(texts) > _MOST:
        raise ValueError(f"Expected `array` of length <= {_MOST} - at `{place}`")
    if any(isinstance(text, str) and len(text) > _LONGEST for text in texts):
        raise ValueError(f"Expected `str` of length <= {_LONGEST} - at `{place}`")
    top = 1 if key.part.endswith("rate") else _HIGHEST
    if isinstance(value, int | float) and not 0 <= value <= top:
        raise ValueError(f"Expected a number from 0 to {top} - at `{place}`")


def _claim(pattern: Pattern, counted: bool, at: int) -> ImportClaim:
    """Returns the file's claim. For a rate alone, the counts are derived from it."""
    claim = pattern.claim or ImportClaim()
    usage, rate = claim.counts.usage, claim.rate
    if counted:
        return ImportClaim(claim.counts, at=at)
    if rate is None:
        return ImportClaim(UseCounts(usage), at=at)
    if pattern.kind == "anti":
        rate = 1.0 - rate
    won = round(rate * usage)
    return ImportClaim(UseCounts(usage, won, usage - won), rate, at)


def rewritten(pattern: Pattern, name: str, tags: Sequence[str], body: Json) -> Pattern:
    """Returns `pattern` with a user's text, within the bounds for files. The kind stays.

    Raises:
        ValueError: The result would not be a pattern; the text names the place.
    """
    if not name.strip():
        raise ValueError("a pattern needs a name")
    if flaw := flaw_of([name, *tags, body]):
        raise ValueError(f"there is {flaw} in it")
    changed = msgspec.convert({**body, "kind": pattern.kind}, type(pattern.body), strict=True)
    unknown = _lost(body, plain(changed), "$.body")
    if unknown:
        raise ValueError(f"{unknown} is not a part of a pattern of this kind")
    edited = msgspec.structs.replace(
        pattern, name=name.strip(), tags=tuple(dict.fromkeys(tags)), body=changed
    )
    pattern_of(pattern.kind, written(edited), 0)
    return edited


def _lost(given: Any, kept: Any, place: str) -> str:
    """Returns the place of a key that was given and not kept, "" if there is none."""
    if not is_object(given):
        return ""
    for key, value in given.items():
        if key not in kept:
            return f"{place}.{key}"
        if lost := _lost(value, kept[key], f"{place}.{key}"):
            return lost
    return ""

"""Joins an exported file with the file that it replaces, so that an export loses nothing of others.

| file | parts of the old file that stay |
|---|---|
| patterns | entries with an id that the registry does not know, entries without an id, other keys |
| index of patterns, index of tasks, active loops | entries of others, other keys |
| metrics | other keys |

An own entry replaces the old entry with its id. If that was another pattern, or a value of another
program is replaced, the join is not complete, and the caller keeps a copy of the old file. Knows
nothing about files on a disk.
"""

from collections.abc import Iterator, Set
from typing import Any, Final

from taofold.core.json_values import DECODER, is_array, is_object
from taofold.learning.exchange.layout import MOST_ACTIVE
from taofold.learning.exchange.records import FORMATS, Json

_REGISTRY: Final = "pattern_registry"
_GROUPS: Final = frozenset({form.key for form in FORMATS.values()} | {"patterns", "templates"})
_LISTS: Final = ("tasks", "active_loops")
_SETTINGS: Final = frozenset({"memory_config", "cross_task_learning", "max_concurrent_loops"})
"""Settings of AIWG beside its data. Those in the folder count."""
_COUNTED: Final = frozenset(
    {
        *("success_rate", "failure_rate", "usage_count", "occurrence_count", "source_loops"),
        *("successful_applications", "failed_applications", "effectiveness_trend", "last_used"),
        *("first_discovered", "related_patterns", "tags", "type", "taofold"),
    }
)
"""Keys of a pattern that change while it stays the same pattern."""


def joined(content: Json, old: bytes, known: Set[str]) -> tuple[Json, bool]:
    """Returns the content with the parts of the old file that stay, and True if all of it stays.

    Args:
        content: The exported content.
        old: The bytes of the file that it replaces.
        known: Ids of all own patterns, also of those that are not in this file.
    """
    try:
        there: Any = DECODER.decode(old.decode())
    except (ValueError, RecursionError):
        return content, False
    if _REGISTRY in content:
        return _patterns(content, there, known)
    if not is_object(there):
        return content, False
    for key in _LISTS:
        if is_array(content.get(key)):
            return _list(content, there, key)
    if is_object(content.get("patterns")):
        return _index(content, there, known)
    own = is_object(there.get("taofold")) or there == content
    if own and "total_patterns" not in content:
        # Unknown keys of an own file are keys of an earlier state.
        return content, True
    return {**there, **content}, own


def _patterns(content: Json, there: Any, known: Set[str]) -> tuple[Json, bool]:
    groups: dict[str, list[Any]] = {key: [*each] for key, each in content[_REGISTRY].items()}
    own = {_id(each): each for group in groups.values() for each in group}
    first = next(iter(groups), "patterns")
    top: Json = {}
    inner: Json = {}
    complete = True
    for place, key, value in _parts(there):
        if is_array(value) and (key in _GROUPS or not key):
            for raw in value:
                identity = _id(raw)
                if identity not in known:
                    groups.setdefault(key or first, []).append(raw)
                elif identity in own:
                    complete = complete and _same(raw, own[identity])
                else:
                    # Archived, restored or no longer shared; another program's entry is copied.
                    complete = complete and is_object(raw.get("taofold"))
        elif _id(value):
            identity = _id(value)
            if identity not in known:
                groups.setdefault(first, []).append(value)
            else:
                complete = complete and _same(value, own.get(identity, {}))
        elif not place and key in content:
            complete = complete and (key == "version" or value == content[key] or _own(value))
        elif key:
            (inner if place else top)[key] = value
        else:
            complete = False
    return {**top, **content, _REGISTRY: {**inner, **groups}}, complete


def _own(value: Any) -> bool:
    return is_object(value) and is_object(value.get("taofold"))


def _parts(there: Any) -> Iterator[tuple[str, str, Any]]:
    """Yields the parts of an old file: its place, its key, its value."""
    if not is_object(there):
        yield "", "", there
        return
    if _id(there):
        yield "", "", [there]
        return
    for key, value in there.items():
        if key != _REGISTRY:
            yield "", key, value
        elif is_object(value):
            yield from ((_REGISTRY, name, each) for name, each in value.items())
        else:
            yield "", "", value


def _id(raw: Any) -> str:
    found = raw.get("pattern_id", raw.get("template_id")) if is_object(raw) else None
    return found if isinstance(found, str) else ""


def _same(raw: Any, own: Json) -> bool:
    """Returns whether the own entry has all that the old one has, apart from counts."""
    return is_object(raw) and all(
        own.get(key) == value for key, value in raw.items() if key not in _COUNTED
    )


def _list(content: Json, there: Json, key: str) -> tuple[Json, bool]:
    before = there.get(key)
    if before is not None and not is_array(before):
        return content, False
    foreign = [each for each in before or () if not _own(each)]
    most = MOST_ACTIVE if key == "active_loops" else 0
    own = content[key][: max(0, most - len(foreign))] if most else content[key]
    entries = [*foreign, *own]
    stays = {name: each for name, each in there.items() if name in _SETTINGS or name not in content}
    total = {"total_active": len(entries)} if "total_active" in content else {}
    return {**content, **stays, key: entries, **total}, True


def _index(content: Json, there: Json, known: Set[str]) -> tuple[Json, bool]:
    before: Any = there.get("patterns", {})
    if not is_object(before):
        return content, False
    own = content["patterns"]
    foreign = {name: each for name, each in before.items() if name not in known}
    complete = _own(there) or all(before.get(name, each) == each for name, each in own.items())
    return {**there, **content, "patterns": {**foreign, **own}}, complete

"""Dependencies between named parts, and references to their results. Pure.

Parts are ordered in waves: parts without unsolved dependencies can run at once. Parts that cannot
be ordered, because of a cycle or a repeated id, raise `Tangle`.

A reference, `{{ task_1.output.path[0] }}`, is data, not a template language: an id, `output`, and
keys or indexes to follow. The referenced value is never scanned for references, so the result of a
tool cannot refer to anything. A reference alone gives the native value, inside text its text.
"""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from taofold.core.json_values import render


class Tangle(ValueError):
    """The parts cannot be ordered. `kind` is duplicate_id, unknown_dependency or cycle."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def waves(parts: Sequence[tuple[str, Iterable[str]]], known: Iterable[str] = ()) -> list[list[str]]:
    """Returns the ids in waves: each depends only on earlier waves; within a wave in listing order.

    Args:
        parts: Ids with the ids that they depend on, in any order.
        known: Ids that exist already.

    Raises:
        Tangle: An id occurs twice, a dependency does not exist, or there is a cycle.
    """
    needs: dict[str, set[str]] = {}
    for id_, before in parts:
        if id_ in needs:
            raise Tangle("duplicate_id", f"the id {id_!r} is used twice: give each its own")
        needs[id_] = set(before)

    # A new part with a known name replaces it: the old result then does not count.
    done = set(known) - needs.keys()
    for id_, before in needs.items():
        unknown = sorted(before - needs.keys() - done)
        if unknown:
            have = ", ".join(map(repr, [*needs, *sorted(done)]))
            raise Tangle(
                "unknown_dependency", f"{id_!r} depends on {unknown[0]!r}; there is only {have}"
            )

    result: list[list[str]] = []
    while needs:
        # In listing order, so that waves are the same on replay.
        wave = [id_ for id_, before in needs.items() if before <= done]
        if not wave:
            raise Tangle("cycle", f"the dependencies run in a circle: {_circle(needs, done)}")
        result.append(wave)
        done.update(wave)
        for id_ in wave:
            del needs[id_]
    return result


def _circle(needs: Mapping[str, set[str]], done: set[str]) -> str:
    """Returns one of the cycles, as a → b → a."""
    # Each remaining part depends on a remaining part, so the walk must return to a visited one.
    path = [next(iter(needs))]
    while True:
        following = next(id_ for id_ in sorted(needs[path[-1]] - done))
        if following in path:
            return " → ".join([*path[path.index(following) :], following])
        path.append(following)


_REFERENCE: Final = re.compile(
    r"""\{\{\s*([A-Za-z0-9_][\w-]*)\.output((?:\.[\w-]+|\[\d+\]|\[(?:'[^'\]]*'|"[^"\]]*")\])*)\s*\}\}"""
)
_STEP: Final = re.compile(r"""\.([\w-]+)|\[(\d+)\]|\[(?:'([^'\]]*)'|"([^"\]]*)")\]""")
_MEANT: Final = re.compile(r"\{\{\s*([A-Za-z0-9_][\w-]*)\s*(\.output\b|[.\[|}])")
"""Text that is probably meant as a reference."""
_TEXT: Final = 100_000
"""The most characters of a text after its references are replaced."""

Lookup: TypeAlias = Callable[[str], Any]
"""Returns the output of the task with this id. Raises Unresolved if there is none."""


class Unresolved(LookupError):
    """A reference leads nowhere; the message names the part that is missing."""


def references(value: Any) -> Iterator[str]:
    """Yields the ids that `value` refers to."""
    if isinstance(value, str):
        for match in _REFERENCE.finditer(value):
            yield match[1]
    elif isinstance(value, dict):
        for member in cast("dict[str, Any]", value).values():
            yield from references(member)
    elif isinstance(value, list):
        for member in cast("list[Any]", value):
            yield from references(member)


def resolve(value: Any, lookup: Lookup, known: Container[str] = ()) -> Any:
    """Returns `value` with every reference replaced by its value.

    `{{ x }}` is ordinary text unless `x` is one of the `known` ids or `.output` follows.

    Raises:
        Unresolved: A reference leads nowhere, or is written in another way.
    """
    if isinstance(value, str):
        return _text(value, lookup, known)
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {key: resolve(member, lookup, known) for key, member in members.items()}
    if isinstance(value, list):
        return [resolve(entry, lookup, known) for entry in cast("list[Any]", value)]
    return value


def _text(value: str, lookup: Lookup, known: Container[str]) -> Any:
    # Near misses first: `{{ task_1.result }}` left as text would reach a tool unchanged.
    for match in _MEANT.finditer(value):
        is_reference = match[2] == ".output" or match[1] in known
        if is_reference and _REFERENCE.match(value, match.start()) is None:
            excerpt = value[match.start() : match.start() + 60]
            raise Unresolved(
                f"{excerpt!r} is no reference: write {{{{ {match[1]}.output.key[0] }}}}"
            )
    # Alone, a reference gives the value itself, a number or a list; within text its text.
    alone = _REFERENCE.fullmatch(value.strip())
    if alone is not None:
        return _follow(alone, lookup)

    def put(match: re.Match[str]) -> str:
        return render(_follow(match, lookup))

    text = _REFERENCE.sub(put, value)
    # Each reference may hold a complete result, and a plan may have any number of them.
    if len(text) > _TEXT:
        raise Unresolved(f"the references make the text longer than {_TEXT} characters")
    return text


def _follow(match: re.Match[str], lookup: Lookup) -> Any:
    target = lookup(match[1])
    walked = f"{match[1]}.output"
    for step in _STEP.finditer(match[2]):
        key, index = step[1] or step[3] or step[4], step[2]
        target = _at(target, key, walked) if index is None else _place(target, int(index), walked)
        walked += step[0]
    return target


def _at(value: Any, key: str, walked: str) -> Any:
    # `.0` on a list is an index: models write it this way.
    if isinstance(value, list) and key.isdecimal():
        return _place(cast("list[Any]", value), int(key), walked)
    if not isinstance(value, dict):
        raise Unresolved(f"{walked} is {_kind(value)}: it has no {key!r}")
    members = cast("dict[str, Any]", value)
    if key not in members:
        keys = ", ".join(map(repr, list(members)[:10])) or "none"
        raise Unresolved(f"{walked} has no {key!r}; its keys: {keys}")
    return members[key]


def _place(value: Any, place: int, walked: str) -> Any:
    if not isinstance(value, list):
        raise Unresolved(f"{walked} is {_kind(value)}: it has no [{place}]")
    entries = cast("list[Any]", value)
    if place >= len(entries):
        raise Unresolved(f"{walked} has {len(entries)} entries: there is no [{place}]")
    return entries[place]


def _kind(value: Any) -> str:
    for kind, name in ((str, "text"), (list, "a list"), (dict, "an object"), (bool, "a boolean")):
        if isinstance(value, kind):
            return name
    return "null" if value is None else "a number"

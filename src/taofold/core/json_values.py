"""Operations on JSON values: type guards, pointers, copies, rendering, checks for non-finite
numbers; a strict decoder; and `Value`, the base class of all values stored as JSON.

The decoder accepts standard JSON only: it rejects `NaN`, numbers too large for a float, and objects
with duplicate keys. `parsing.jsonlike` handles malformed JSON from models. Pure; knows nothing
about files, HTTP or schemas.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from math import isfinite
from typing import Any, Final, TypeAlias, TypeGuard, cast

import msgspec

JSON: TypeAlias = Any
"""Any JSON value: None, bool, int, float, str, list of JSON, dict of str to JSON."""
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_HALF: Final = re.compile("[\ud800-\udfff]")


# gc=False keeps these objects out of the collector's lists, of which a long run has hundreds of
# thousands. A field that could hold a cycle would then leak.
class Value(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Base of all values: immutable, with a compact JSON form.

    Values hold JSON and one another, never cycles, so the garbage collector can skip them.
    """


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Returns whether `value` is a JSON object."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Returns whether `value` is a JSON array as a list."""
    return isinstance(value, list)


def at_pointer(root: JSON, pointer: str) -> JSON:
    """Returns the value at `pointer` in `root`, or None.

    `pointer` has the form of a `$ref` ("#/$defs/Name", RFC 6901). Arrays are not entered.
    """
    target = root
    for part in pointer.removeprefix("#").strip("/").split("/"):
        if part:
            # `~1` first, else `~01` would become `/`.
            name = part.replace("~1", "/").replace("~0", "~")
            target = target.get(name) if is_object(target) else None
    return target


def is_finite(value: JSON) -> bool:
    """Returns whether all numbers in `value`, JSON of ordinary depth, are finite."""
    if isinstance(value, float):
        # Python's json reads 1e999 and Infinity as inf, so tool results may hold such a number.
        return isfinite(value)
    if isinstance(value, dict):
        return all(map(is_finite, cast("dict[str, JSON]", value).values()))
    if isinstance(value, list | tuple):
        return all(map(is_finite, cast("Sequence[JSON]", value)))
    return True


def not_finite(value: JSON, path: str = "") -> Iterator[str]:
    """Yields the paths of numbers in `value` that JSON lacks: `data/prices/0`."""
    members: Iterable[tuple[Any, JSON]] = ()
    if isinstance(value, float) and not isfinite(value):
        yield path
    elif isinstance(value, dict):
        members = cast("dict[str, JSON]", value).items()
    elif isinstance(value, list | tuple):
        members = enumerate(cast("Sequence[JSON]", value))
    for name, member in members:
        yield from not_finite(member, f"{path}/{name}" if path else str(name))


def copied(value: JSON) -> JSON:
    """Returns a copy that shares no object or array with `value`."""
    # Most members are scalars, which need no call.
    if isinstance(value, dict):
        members = cast("dict[str, JSON]", value)
        return {
            name: member if type(member) in _SCALARS else copied(member)
            for name, member in members.items()
        }
    if isinstance(value, list | tuple):
        return list(map(copied, cast("Sequence[JSON]", value)))
    return value


def render(value: JSON) -> str:
    """Returns the value as text: strings unchanged, everything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def plain(value: Any) -> JSON:
    """Returns a value as plain JSON, including fields that hold their default."""
    if isinstance(value, msgspec.Struct):
        return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    if is_object(value):
        return {str(name): plain(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [plain(member) for member in cast("Iterable[Any]", value)]
    return value


def is_sequence(value: Any) -> TypeGuard[Sequence[Any]]:
    """Returns whether `value` is a JSON array, or a tuple that becomes one."""
    return isinstance(value, list | tuple)


def _constant(name: str) -> Any:
    raise ValueError(name)


def _float(token: str) -> float:
    value = float(token)
    if not isfinite(value):
        raise ValueError(token)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    # A dict keeps the last one silently.
    if len(out) != len(pairs):
        raise ValueError("a key occurs twice")
    return out


_decoder = partial(
    json.JSONDecoder, parse_constant=_constant, parse_float=_float, object_pairs_hook=_object
)
DECODER = _decoder()
"""Raises ValueError, or RecursionError for text that is nested too deep."""
ENCODED = _decoder(strict=False)
"""The same decoder for JSON encoded in a string: it accepts line breaks in strings."""


def decoded(text: str) -> Any:
    """Returns the single JSON value in `text`.

    Raises:
        ValueError: `text` holds no value, or more than one.
        RecursionError: The value is nested too deep.
    """
    if text.startswith("{"):  # fast path: usually nothing precedes or follows the value
        value, end = DECODER.raw_decode(text)
        if end == len(text):
            return value
    return DECODER.decode(text)


def flaw_of(value: Any) -> str:
    """Returns the first content of `value` that JSON lacks, or "". The reader bounds its depth."""
    if isinstance(value, float):
        return "" if isfinite(value) else "a number that is not finite"
    if isinstance(value, str):
        is_torn = not value.isascii() and _HALF.search(value)
        return "half of a surrogate pair, which is no character" if is_torn else ""
    parts: list[Any] = [*value, *value.values()] if is_object(value) else []
    flaws = [flaw_of(each) for each in (value if is_array(value) else parts)]
    return next(filter(None, flaws), "")

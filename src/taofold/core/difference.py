"""The first difference between two values, as readable text: its place and both values there.

Compares structs, mappings, sequences and texts; two texts are shown from where they diverge. An
event that stands against another kind of event, or none, is shown by its name and summary.
"""

from collections.abc import Iterator
from typing import Any, Final, cast

import msgspec

from taofold.core.json_values import is_array, is_object
from taofold.core.text import apart, clip, line

_SHOWN: Final = 200
_ABSENT: Final = object()


def first_difference(old: object, new: object) -> tuple[str, str, str]:
    """Returns the place of the first difference and both values there.

        first_difference({"item": "tea"}, {"item": "milk"})  # ("item", "'tea'", "'milk'")

    The place is "" if the values differ as a whole. A value has at most about 200 characters. A
    missing event is "none".
    """
    names: list[str] = []
    while (inner := next(_differing(old, new), None)) is not None:
        name, old, new = inner
        names.append(name)
    if isinstance(old, str) and isinstance(new, str):
        old, new = apart(old, new)
    if _is_event(old) or _is_event(new):
        return ".".join(names), _event_text(old), _event_text(new)
    return ".".join(names), _shown(old), _shown(new)


def _differing(old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yields name and values of the parts in which two values of the same type differ, in order."""
    if type(old) is not type(new):
        return
    before, after = _parts(old), _parts(new)
    for name in dict.fromkeys((*before, *after)):
        one, other = before.get(name, _ABSENT), after.get(name, _ABSENT)
        if one is _ABSENT or other is _ABSENT or one != other:
            yield name, one, other


def _parts(value: Any) -> dict[str, Any]:
    """Returns the parts of a value by name; empty for a value that is compared as a whole."""
    if isinstance(value, msgspec.Struct):
        return {name: getattr(value, name) for name in value.__struct_fields__}
    if is_object(value):
        return {str(name): part for name, part in value.items()}
    if is_array(value):
        return {str(number): part for number, part in enumerate(value)}
    if isinstance(value, tuple):
        parts = cast("tuple[Any, ...]", value)
        return {str(number): part for number, part in enumerate(parts)}
    return {}


def _is_event(value: Any) -> bool:
    return isinstance(value, msgspec.Struct) and hasattr(value, "summary") and hasattr(value, "tag")


def _event_text(value: Any) -> str:
    if not _is_event(value):
        return "none" if value is None else _shown(value)
    return line(f"{value.tag.replace('_', ' ')}: {value.summary}", _SHOWN)


def _shown(value: object) -> str:
    return "nothing" if value is _ABSENT else clip(repr(value), _SHOWN)

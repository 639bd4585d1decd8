"""Error messages for wrong tool arguments that a model can act on (`BadArguments`).

`explain` converts Pydantic's errors to such messages. `schema_check` does it for JSON Schemas. This
module knows validators only by the form of their errors.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, cast

from pydantic import ValidationError

from taofold.core.json_values import is_array, is_object

SHOWN: Final = 80
"""Maximum characters of a wrong value that a message quotes."""
MOST: Final = 8
"""Maximum number of faults in one message."""


class BadArguments(ValueError):
    """The parameters do not fit the tool, so it was not run. The message is for the model."""

    def __init__(self, faults: Sequence[str]) -> None:
        listed = "; ".join(faults[:MOST])
        more = len(faults) - MOST
        super().__init__(f"{listed}; and {more} more faults" if more > 0 else listed)
        self.faults = tuple(faults)


def explain(error: ValidationError, schema: Mapping[str, Any]) -> list[str]:
    """Returns one sentence for each error that Pydantic found."""
    faults: list[str] = []
    for fault in error.errors(include_url=False, include_context=False):
        where = ".".join(str(part) for part in fault["loc"])
        if fault["type"] == "missing":
            faults.append(f"missing parameter {where!r}")
        elif fault["type"] == "extra_forbidden" and len(fault["loc"]) == 1:
            faults += unknown([where], schema)
        else:
            got = quote(fault["input"])
            subject = f"parameter {where!r}: " if where else ""
            faults.append(f"{subject}{fault['msg']}, got {got}")
    return faults


def unknown(names: Iterable[str], schema: Mapping[str, Any]) -> list[str]:
    """Returns one sentence for each parameter that the tool does not have."""
    declared: list[str] = list(schema.get("properties", ()))
    faults: list[str] = []
    for name in names:
        near = get_close_matches(str(name), declared, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(declared) or 'none'}"
        faults.append(f"unknown parameter {quote(name)} ({hint})")
    return faults


def quote(value: object) -> str:
    """Returns a short `repr` that never raises."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a validator may complain about a foreign object
        return f"a {type(value).__name__}"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def misread(given: Any, taken: Any, where: str = "") -> Iterator[str]:
    """Yields one sentence for each bool that a validator accepted as a number, or the reverse."""
    if isinstance(given, int | float) and isinstance(taken, int | float):
        if isinstance(given, bool) is not isinstance(taken, bool):
            yield f"parameter {where!r}: must be {quote(taken)}, got {quote(given)}"
    elif is_object(given):
        members: Any = taken if is_object(taken) else getattr(taken, "__dict__", {})
        for name in given.keys() & members.keys():
            yield from misread(given[name], members[name], _join(where, name))
    elif is_array(given) and isinstance(taken, list | tuple):
        pairs = zip(given, cast("Sequence[Any]", taken), strict=False)
        for index, (item, its) in enumerate(pairs):
            yield from misread(item, its, f"{where}.{index}")


def _join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name

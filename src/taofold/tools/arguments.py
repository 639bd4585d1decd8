"""Says what is wrong with the parameters a model wrote, in words the model can act on.

Knows nothing about functions or validators other than the form of their complaints.
"""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

from pydantic import ValidationError

SHOWN: Final = 80
"""Characters of a wrong value that are quoted back."""
MOST: Final = 8
"""Faults that are spelled out."""


class BadArguments(ValueError):
    """The parameters do not fit the tool; it was not run. The message is for the model."""

    def __init__(self, faults: Sequence[str]) -> None:
        shown = "; ".join(faults[:MOST])
        more = len(faults) - MOST
        super().__init__(f"{shown}; and {more} more faults" if more > 0 else shown)
        self.faults = tuple(faults)


def explain(error: ValidationError, schema: Mapping[str, Any]) -> list[str]:
    """One sentence for each fault that pydantic found."""
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
    """One sentence for each parameter that the tool does not have."""
    known: list[str] = list(schema.get("properties", ()))
    faults: list[str] = []
    for name in names:
        near = get_close_matches(str(name), known, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(known) or 'none'}"
        faults.append(f"unknown parameter {quote(name)} ({hint})")
    return faults


def quote(value: object) -> str:
    """A short, safe `repr`."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a validator may complain about a foreign object
        return f"a {type(value).__name__}"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"

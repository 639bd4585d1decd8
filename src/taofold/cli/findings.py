"""`Finding`: a line of the report of `taofold doctor`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of a report. `good` is None if it is neutral."""

    what: str
    good: bool | None
    text: str

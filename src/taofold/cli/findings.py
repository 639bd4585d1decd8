"""A line of the report that `taofold doctor` prints."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of a report; `good` is None where it is neither good nor bad."""

    what: str
    good: bool | None
    text: str

"""What a listener to a run hears: its records, and what is shown and never logged."""

from typing import TypeAlias

from taofold.core.events import Record
from taofold.core.values import Value


class Delta(Value, frozen=True):
    """Text of a reply as it streams in. Never logged; `run` may be a child's."""

    run: str
    text: str


class Progress(Value, frozen=True):
    """What a tool reports while it works. Never logged; `run` may be a child's."""

    run: str
    tool: str
    text: str


Happening: TypeAlias = Record | Delta | Progress

"""Notifications to listeners of a run: its records, and transient texts that are never logged."""

from typing import TypeAlias

from taofold.core.events import Record
from taofold.core.values import Value


class Delta(Value, frozen=True):
    """Text of a reply as it streams in. Never logged; `run` may be a child's."""

    run: str
    text: str


class Progress(Value, frozen=True):
    """A progress message of a running tool. Never logged; `run` may be a child's."""

    run: str
    tool: str
    text: str


Happening: TypeAlias = Record | Delta | Progress

"""The JSON form of events: as small as it can be, and readable by later releases.

Rows are never rewritten; an old one is upcast while it is read. Knows nothing about
where rows are kept.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

from taofold.core.events import Event

SCHEMA_VERSION: Final = 1
"""Version of the events' JSON form. Raise it with an upcaster in `UPCASTERS`."""

_ENCODER = msgspec.json.Encoder(decimal_format="number")
_DECODER: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)

Upcaster: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
UPCASTERS: Final[dict[int, Upcaster]] = {}
"""From schema version n to n + 1: a pure function of the raw row."""


def encode(event: Event) -> bytes:
    """The event's JSON form, as small as it can be: defaults are left out."""
    return _ENCODER.encode(event)


def decode(body: bytes | str, version: int = SCHEMA_VERSION) -> Event:
    """Read a row written with schema `version`.

    Raises:
        msgspec.ValidationError: the row is not an event.
    """
    if version == SCHEMA_VERSION:
        return _DECODER.decode(body)
    raw: dict[str, Any] = msgspec.json.decode(body)
    for number in range(version, SCHEMA_VERSION):
        raw = UPCASTERS[number](raw)
    event: Event = msgspec.convert(raw, Event)
    return event

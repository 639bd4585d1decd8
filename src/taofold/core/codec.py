"""The JSON form of events: as small as it can be, and readable by later releases.

Rows are never rewritten; an old one is upcast while it is read. Knows nothing about
where rows are kept.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import msgspec

from taofold.core.events import Event
from taofold.core.value import is_finite

SCHEMA_VERSION: Final = 2
"""Version of the events' JSON form. Raise it with an upcaster in `UPCASTERS`."""

_ENCODER = msgspec.json.Encoder(decimal_format="number")
_DECODER: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)

Upcaster: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]


def _parts(raw: dict[str, Any]) -> dict[str, Any]:
    """Version 1 kept a message's text, calls and thinking in fields of their own."""
    if raw.get("e") == "replied":
        thinking, text, calls = raw.pop("reasoning", ""), raw.pop("text", ""), raw.pop("calls", ())
        parts = [{"type": "thinking", "text": thinking}] if thinking else []
        raw["content"] = _content(parts, text, calls)
    elif raw.get("e") == "run_started" and "history" in raw:
        raw["history"] = [_message(message) for message in raw["history"]]
    return raw


def _message(raw: dict[str, Any]) -> dict[str, Any]:
    calls, text, answered = raw.pop("calls", ()), raw.get("content", ""), raw.pop("call_id", "")
    if answered:
        raw["content"] = [{"type": "result", "id": answered, "content": text}]
    elif calls:
        raw["content"] = _content([], text, calls)
    return raw


def _content(parts: list[dict[str, Any]], text: str, calls: Iterable[dict[str, Any]]) -> Any:
    parts += [{"type": "text", "text": text}] if text else []
    parts += [{"type": "call", **call} for call in calls]
    return text if len(parts) == bool(text) else parts


UPCASTERS: Final[dict[int, Upcaster]] = {1: _parts}
"""From schema version n to n + 1: a pure function of the raw row."""


def encode(event: Event) -> bytes:
    """The event's JSON form, as small as it can be: defaults are left out.

    Raises:
        ValueError: it holds a number that JSON has not: NaN, Infinity.
    """
    body = _ENCODER.encode(event)
    # The encoder writes null for such a number; it is rare, so others pay next to nothing.
    if b"null" in body and not is_finite(msgspec.to_builtins(event)):
        raise ValueError("NaN and Infinity are no numbers of JSON")
    return body


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

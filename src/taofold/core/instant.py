"""Instants as people and other programs read them: ISO 8601 in UTC, with milliseconds.

The log keeps milliseconds since the epoch. Nothing here knows what time it is.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)


def iso(ms: int) -> str:
    """`ms` since the epoch as `2026-01-25T10:30:01.150Z`.

    Raises:
        OverflowError: the year is not between 1 and 9999.
    """
    instant = _EPOCH + timedelta(milliseconds=ms)
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def milliseconds(text: str) -> int:
    """Milliseconds since the epoch; a time without an offset is taken as UTC.

    Raises:
        ValueError: `text` is not an ISO 8601 time.
    """
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=UTC)
    return (instant - _EPOCH) // _MS

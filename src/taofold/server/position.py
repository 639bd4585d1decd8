"""Where a client is in a stream: what `id:` says and `Last-Event-ID` brings back. Pure.

A run without child runs needs only the number of its last record: `17`. `17.1` is the
first of several events of record 17. While child runs are under way each adds its own
place, by the end of its id: `17~3-0:5`. So a client can go on at any server that has the
log, in whatever order that one saw the runs' records.
"""

import re
from collections.abc import Mapping
from typing import Final, TypeAlias

from taofold.server.wire import WireEvent

Place: TypeAlias = tuple[int, int]
"""Record and part: all records before it, and its first `part` events (0 = all)."""
Position: TypeAlias = Mapping[str, Place]
"""Places by the end of the run's id; "" is the run itself."""

START: Final[Position] = {}
_PLACE: Final = re.compile(r"(\d{1,10})(?:\.(\d{1,3}))?")
_CHILD: Final = re.compile(r"([A-Za-z0-9._-]{1,100}):(\d{1,10})(?:\.(\d{1,3}))?")
LONGEST: Final = 4096


def read(text: str) -> Position:
    """The position that a client sent.

    Raises:
        ValueError: it is none of ours.
    """
    if not text.strip():
        return START
    if len(text) > LONGEST:
        raise ValueError("a position is no longer than 4096 characters")
    root, *children = text.strip().split("~")
    found = _PLACE.fullmatch(root)
    if found is None:
        raise ValueError(f"{text[:40]!r} is no position of a stream")
    places: dict[str, Place] = {"": (int(found[1]), int(found[2] or 0))}
    for child in children:
        said = _CHILD.fullmatch(child)
        if said is None:
            raise ValueError(f"{text[:40]!r} is no position of a stream")
        places[said[1]] = (int(said[2]), int(said[3] or 0))
    return places


def write(position: Position) -> str:
    """The position as text. It has a place for the run itself, or is empty."""
    if "" not in position:
        return ""
    root = _place(position[""])
    children = [f"~{name}:{_place(place)}" for name, place in position.items() if name]
    return root + "".join(children)


def further(one: Place | None, other: Place) -> Place:
    """The later of two places."""
    return other if one is None or _order(other) > _order(one) else one


def covers(place: Place, event: WireEvent) -> bool:
    """Was `event` delivered to who is at `place`?"""
    return _order(place) >= _order((event.seq, event.part))


def _order(place: Place) -> tuple[int, int]:
    seq, part = place
    return (seq, part or 1 << 30)


def _place(place: Place) -> str:
    seq, part = place
    return f"{seq}.{part}" if part else str(seq)

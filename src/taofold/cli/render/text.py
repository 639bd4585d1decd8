"""Makes text safe and short for a terminal. What models, tools and files say is data: it must
not move the cursor, change colours or hide what a person is asked to approve. Pure.
"""

import json
from typing import Any, Final

from taofold.core.text import clip, visible

clean = visible
"""What everything here goes through."""

_BEFORE: Final = 12
"""Characters of context before a change."""


def line(text: object, width: int = 100) -> str:
    """`text` on one line of at most `width` characters."""
    # Cut before it is cleaned: a result may have
    # megabytes. Eight times, because white space goes.
    flat = " ".join(clean(str(text)[: width * 8]).split())
    return clip(flat, width)


def value(thing: Any, width: int = 60) -> str:
    """A JSON value on one short line."""
    try:
        text = json.dumps(thing, ensure_ascii=False)
    except (TypeError, ValueError):
        # What JSON cannot say is still shown, as Python shows it.
        text = repr(thing)
    return line(text, width)


def parameters(given: dict[str, Any], width: int = 100) -> str:
    """`path="a.py" limit=3`, each value shortened so that all find their place.

    Of two texts that stand for a change (`old`, `new`) only what differs is shown.
    """
    if not given:
        return ""
    old, new = given.get("old"), given.get("new")
    if isinstance(old, str) and isinstance(new, str):
        old, new = _apart(old, new)
        given = {**given, "old": old, "new": new}
    # Short values (24 characters at most) are shown whole; the long ones share what is left.
    short = sum(len(value(v, 24)) for v in given.values() if len(value(v, 25)) <= 24)
    long = [v for v in given.values() if len(value(v, 25)) > 24]
    room = width - short - sum(len(str(name)) + 2 for name in given)
    each = max(24, room // max(1, len(long)))
    return line(" ".join(f"{clean(str(k))}={value(v, each)}" for k, v in given.items()), width)


def _apart(old: str, new: str) -> tuple[str, str]:
    """Both texts from a little before the place where they part."""
    same = 0
    while same < min(len(old), len(new)) and old[same] == new[same]:
        same += 1
    start = max(0, same - _BEFORE)
    # They part near their beginning: cutting would cost more than it saves.
    if start < _BEFORE:
        return old, new
    return f"…{old[start:]}", f"…{new[start:]}"


def duration(ms: float) -> str:
    """Milliseconds as people read them."""
    if ms < 1000:
        return f"{ms:.0f} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    minutes, seconds = divmod(round(ms / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def number(count: int) -> str:
    """812, 2.1k, 3.4M."""
    if count < 1000:
        return str(count)
    return f"{count / 1000:.1f}k" if count < 1_000_000 else f"{count / 1_000_000:.1f}M"


def dollars(usd: float) -> str:
    """$0.00, and more places for less than a cent."""
    return f"${usd:.2f}" if usd == 0 or usd >= 0.01 else f"${usd:.5f}"


def ago(then: int, now: int) -> str:
    """How long ago, in one unit. Milliseconds since the epoch."""
    seconds = max(0, now - then) // 1000
    for size, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {name} ago"
    return f"{seconds} s ago"

"""Where a loop can stand and where it can go from there (D17). Pure tables.

```
pending → running ⇄ paused
          running → completing → completed | exhausted | timeout | budget
                                 | no_progress | tampered | failed
```
`aborted` and `crashed` are reached from every live state; what is resumable goes back to
`running`, and a loop that crashed or waits may still be aborted.
"""

from collections.abc import Mapping
from typing import Final

from taofold.core.errors import Refused
from taofold.loop.values import STATUSES, Status

LIVE: Final[frozenset[Status]] = frozenset({"pending", "running", "paused", "completing"})
DRIVEN: Final[frozenset[Status]] = frozenset({"pending", "running", "completing"})
"""Live, and somebody's process should be at work."""
RESUMABLE: Final[frozenset[Status]] = frozenset(
    {"paused", "exhausted", "timeout", "budget", "no_progress", "crashed"}
)
ENDED: Final[frozenset[Status]] = frozenset(STATUSES) - LIVE - {"crashed"}

_LOST: Final[frozenset[Status]] = frozenset({"aborted", "crashed"})
NEXT: Final[Mapping[Status, frozenset[Status]]] = {
    "pending": frozenset[Status]({"running"}) | _LOST,
    "running": frozenset[Status]({"paused", "completing"}) | _LOST,
    "paused": frozenset[Status]({"running"}) | _LOST,
    "completing": ENDED | _LOST,
    "crashed": frozenset[Status]({"running", "aborted"}),
    **dict.fromkeys(RESUMABLE - {"paused", "crashed"}, frozenset[Status]({"running"})),
    **dict.fromkeys(ENDED - RESUMABLE, frozenset[Status]()),
}
"""Every allowed transition; all others are refused (RLP-15)."""

OLD: Final[Mapping[str, Status]] = {
    "success": "completed",
    "max_iterations": "exhausted",
    "plateau": "no_progress",
    "cancelled": "aborted",
    "interrupted": "crashed",
}
"""Words that earlier systems used for the same."""


def status_of(word: str) -> Status:
    """The status that `word` means, in our words or in the old ones.

    Raises:
        ValueError: it means none.
    """
    said = word.strip().lower().replace("-", "_").replace(" ", "_")
    known: Mapping[str, Status] = {**OLD, **{one: one for one in STATUSES}}
    if said not in known:
        raise ValueError(f"{word!r} is no status of a loop: there are {', '.join(STATUSES)}")
    return known[said]


def allowed(now: Status, then: Status) -> bool:
    """May a loop go from `now` to `then`?"""
    return then in NEXT[now]


def check(now: Status, then: Status, loop: str = "the loop") -> None:
    """Pass if the transition is allowed.

    Raises:
        Refused: it is not; the message says what is possible.
    """
    if allowed(now, then):
        return
    ways = ", ".join(sorted(NEXT[now])) or "nothing: that is final"
    raise Refused(f"{loop} is {now} and cannot become {then}; possible: {ways}")


def exit_code(status: Status, reason: str = "") -> int:
    """The program's exit code for a loop that stands so (D1)."""
    match status:
        case "completed":
            return 0
        case "paused":
            return 130 if reason == "interrupted" else 3
        case "aborted":
            return 130
        case _:
            return 1

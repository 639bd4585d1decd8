"""How an activation of a run ended, and when the next one is due. Pure.

An engine keeps no run in memory while it waits: it is told until when, and is woken earlier by
a message.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

from taofold.core import events as e
from taofold.core.values import Value
from taofold.runtime.setup import Pause
from taofold.store.log import AT_ONCE, RunRow

QUEUED: Final = "queued"
STOPPED: Final = "server_stopped"
MORE: Final = "more"
EXPIRED: Final = "expired"
REOPENED: Final = "reopened"
UNATTENDED: Final = frozenset({QUEUED, STOPPED, MORE, EXPIRED, REOPENED})
"""What a run waits for that no person needs to do."""


class Finished(Value, frozen=True):
    """The run has ended."""

    run: str
    status: str


class Waiting(Value, frozen=True):
    """Nothing can be done before `until` (ms since the epoch; 0 = before a message comes)."""

    run: str
    reason: str
    until: int = 0


class More(Value, frozen=True):
    """Its share of this activation is used up: it goes on as soon as it is called again."""

    run: str


Advanced: TypeAlias = Finished | Waiting | More


class Share:
    """How much one activation may do: so many model calls, then it gives way with `More`.

    `pause` says why the run must wait for other reasons.
    """

    def __init__(self, calls: int = 0, pause: Pause = str) -> None:
        self._left, self._bounded, self._pause = calls, calls > 0, pause

    def __call__(self) -> str:
        """Asked before each model call."""
        reason = self._pause()
        if reason or not self._bounded:
            return reason
        self._left -= 1
        return "" if self._left >= 0 else MORE


def is_due(row: RunRow, wake_at: int, now: int) -> bool:
    """Is there something to do for a run that nobody drives?"""
    return row.status != "waiting" or 0 < wake_at <= now


def wake_time(reason: str, asked: Sequence[e.Record], now: int, *, quiet: bool = True) -> int:
    """When a run is due that waits for `reason` with these questions open.

    One that waits although a message is there (not `quiet`) is due at once.
    """
    if not quiet:
        return AT_ONCE
    if reason in UNATTENDED:
        return max(now, AT_ONCE)
    ends = [one.event.expires_at for one in asked if isinstance(one.event, e.Decided)]
    # An approval is open until then, not less: `now > expires_at` is what closes it.
    return min([end + 1 for end in ends if end], default=0)

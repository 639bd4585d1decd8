"""Whether the clock of a log can be believed when it says that a lease is over.

A clock that jumps ends all leases at once, although their owners live. Only when the log's clock
went along with one that nobody sets, for as long as a lease lasts and at every look, has an owner
whose lease is over really said nothing for that time.
"""

import time
from collections.abc import Callable
from typing import Any, Final

from taofold.log.log import Log
from taofold.runtime.lease import LEASE_MS

STEADY_S: Final = LEASE_MS / 1000 + 1.0
"""For so long it must have been seen to be steady."""
GAP_S: Final = 3.0
"""Longer between two looks, and nobody knows what was in between: the database may have stood
still, and those who renew their leases with it."""
JUMP_S: Final = 0.5
"""What two clocks may differ by within a look, on a busy machine."""


class Steadiness:
    """Compares the clock of `log` with this machine's monotonic one.

    A log that tells no time (`clock`) is never steady.

    >>> from taofold.log.memory import MemoryLog
    >>> Steadiness(MemoryLog()).steady
    False
    """

    def __init__(
        self,
        log: Log,
        *,
        steady_s: float = STEADY_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read: Any = getattr(log, "clock", None)
        self._steady_s, self._monotonic = steady_s, monotonic
        self._ahead = 0.0
        """Seconds by which the log's clock was ahead when it began to be steady."""
        self._since = self._looked_at = float("-inf")

    @property
    def steady(self) -> bool:
        """Has it been steady for long enough, and until just now?"""
        fresh = self._monotonic() - self._looked_at <= GAP_S
        return fresh and self._looked_at - self._since >= self._steady_s

    async def look(self) -> None:
        """Compare the clocks.

        Raises:
            LogError: the log cannot be read now.
        """
        if self._read is None:
            return
        before = self._monotonic()
        told = await self._read() / 1000
        now = self._monotonic()
        ahead = told - (before + now) / 2
        slow = now - before > JUMP_S or now - self._looked_at > GAP_S
        if slow or abs(ahead - self._ahead) > JUMP_S:
            self._since, self._ahead = now, ahead
        self._looked_at = now

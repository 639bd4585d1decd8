"""Rate limits: `Limiter` keeps all agents of this process on one account below its limits.

Without configured rates it adds no delay until the provider answers 429. Then all agents wait until
the account is open again and start one by one. The gap between starts shrinks slightly with each
success and doubles with each further 429.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from hashlib import blake2b
from typing import Final
from weakref import WeakValueDictionary

_GAP: Final = 0.25
_NARROW: Final = 0.01
_WIDE: Final = 10.0
_EASE: Final = 0.9
"""Halving with each success would undo at once what a refusal has taught."""


class Limiter:
    """Admits requests. Without locks and futures, so loops in several threads may share it.

    Args:
        requests_per_minute: Starts per minute, evenly spaced. None = no limit.
        tokens_per_minute: Input tokens plus requested output. None = no limit.
        clock: Monotonic seconds.
        sleep: Waits that many seconds.
    """

    __slots__ = (
        "__weakref__",
        "_clock",
        "_due",
        "_gap",
        "_per_request",
        "_per_token",
        "_shut_until",
        "_sleep",
        "_turn",
        "busy",
        "ticket",
    )

    def __init__(
        self,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._clock, self._sleep = clock, sleep
        self._per_request = self._per_token = 0.0
        self._gap = 0.0
        self._shut_until = self._due = self._turn = float("-inf")
        self.ticket = 0
        self.busy = False
        self.configure(requests_per_minute, tokens_per_minute)

    def configure(
        self, requests_per_minute: float | None = None, tokens_per_minute: float | None = None
    ) -> None:
        """Sets rates. If several agents set them, the stricter ones apply."""
        if requests_per_minute:
            self._per_request = max(self._per_request, 60.0 / requests_per_minute)
        if tokens_per_minute:
            self._per_token = max(self._per_token, 60.0 / tokens_per_minute)
        self.busy = self._limits()

    def _limits(self) -> bool:
        return bool(self._per_request or self._per_token or self._gap)

    @property
    def shut(self) -> float:
        """Seconds until the provider accepts requests again."""
        return max(0.0, self._shut_until - self._clock())

    async def admit(self, tokens: int) -> None:
        """Waits until a request of `tokens` may start."""
        # Checked again after each sleep, because another request may have moved the next turn.
        while (delay := max(self._shut_until, self._due, self._turn) - self._clock()) > 0:
            await self._sleep(delay)
        # No await from here on, so within one loop two requests never take the same turn.
        now = self._clock()
        self._due = now + max(self._per_request, self._per_token * tokens)
        self._turn = now + self._gap

    def reject(self, ticket: int, seconds: float) -> None:
        """Records a 429 to a request that started at `ticket`.

        All requests wait `seconds`. Refusals of requests that were already in progress only prolong
        the wait, so one burst widens the gap once.
        """
        self._shut_until = max(self._shut_until, self._clock() + seconds)
        if ticket == self.ticket:
            self.ticket += 1
            self._gap = min(_WIDE, max(_GAP, self._gap * 2))
        self.busy = True

    def accept(self) -> None:
        """Records a success."""
        if not self._gap or self._clock() < self._shut_until:
            return
        self._gap = self._gap * _EASE if self._gap > _NARROW else 0.0
        # The next turn was set with the wider gap.
        self._turn = min(self._turn, self._clock() + self._gap)
        self.busy = self._limits()


_shared: Final[WeakValueDictionary[bytes, Limiter]] = WeakValueDictionary()


def shared_limiter(url: str, key: str) -> Limiter:
    """Returns this process's limiter for `key` at `url`. Keeps only a hash of the key."""
    name = blake2b(f"{url}\0{key}".encode(), digest_size=16).digest()
    limiter = _shared.get(name)
    if limiter is None:
        # `setdefault`, because another thread may have been faster. Weak: it disappears with its
        # last model.
        limiter = _shared.setdefault(name, Limiter())
    return limiter

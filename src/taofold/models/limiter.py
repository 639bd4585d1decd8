"""A `Limiter` keeps every agent of this process that shares one account (`shared_limiter`) below
the limits of its provider.

Without configured rates it costs nothing until the provider says 429. Then all agents wait until
the account is open again and start one by one; the gap between starts shrinks a little with each
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
"""Halving with each success would win back at once what a refusal had just taught."""


class Limiter:
    """Admits requests. It uses no locks and no futures, so loops in several threads may share it.

    Args:
        requests_per_minute: starts per minute, evenly spaced; None = no bound of our own.
        tokens_per_minute: input tokens plus the output asked for; None = no bound.
        clock: monotonic seconds.
        sleep: waits that many seconds.
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
        """Set rates. The stricter one wins if several agents set them."""
        if requests_per_minute:
            self._per_request = max(self._per_request, 60.0 / requests_per_minute)
        if tokens_per_minute:
            self._per_token = max(self._per_token, 60.0 / tokens_per_minute)
        self.busy = self._limits()

    def _limits(self) -> bool:
        return bool(self._per_request or self._per_token or self._gap)

    @property
    def shut(self) -> float:
        """Seconds for which the provider wants to be left alone."""
        return max(0.0, self._shut_until - self._clock())

    async def admit(self, tokens: int) -> None:
        """Wait until a request of `tokens` may start."""
        # Looked at again after each sleep: whoever woke first has moved the next turn on.
        while (delay := max(self._shut_until, self._due, self._turn) - self._clock()) > 0:
            await self._sleep(delay)
        # No await from here to the end, so within one
        # loop two requests never take the same turn.
        now = self._clock()
        self._due = now + max(self._per_request, self._per_token * tokens)
        self._turn = now + self._gap

    def reject(self, ticket: int, seconds: float) -> None:
        """The provider said 429 to a request that started when `ticket` was the ticket.

        Everybody waits `seconds`. Refusals of requests that were under way when the
        account was shut already only prolong the wait: one burst widens the gap once.
        """
        self._shut_until = max(self._shut_until, self._clock() + seconds)
        if ticket == self.ticket:
            self.ticket += 1
            self._gap = min(_WIDE, max(_GAP, self._gap * 2))
        self.busy = True

    def accept(self) -> None:
        """A request got through."""
        if not self._gap or self._clock() < self._shut_until:
            return
        self._gap = self._gap * _EASE if self._gap > _NARROW else 0.0
        # The next turn was set with the wider gap.
        self._turn = min(self._turn, self._clock() + self._gap)
        self.busy = self._limits()


_shared: Final[WeakValueDictionary[bytes, Limiter]] = WeakValueDictionary()


def shared_limiter(url: str, key: str) -> Limiter:
    """The limiter of everybody in this process who uses `key` at `url`. Keeps only a hash."""
    name = blake2b(f"{url}\0{key}".encode(), digest_size=16).digest()
    limiter = _shared.get(name)
    if limiter is None:
        # `setdefault`: another thread may have been quicker.
        # Weak: it goes with the last model that uses it.
        limiter = _shared.setdefault(name, Limiter())
    return limiter

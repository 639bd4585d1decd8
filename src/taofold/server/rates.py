"""How often somebody may ask: a token bucket for each name."""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

_MOST: Final = 10_000


@dataclass(slots=True)
class RateLimiter:
    """`burst` requests at once, `per_s` more each second, for each name."""

    per_s: float
    burst: float
    _buckets: OrderedDict[str, tuple[float, float]] = field(
        default_factory=OrderedDict[str, tuple[float, float]]
    )

    def take(self, name: str, now: float, cost: float = 1.0) -> float:
        """Take from the bucket; 0.0, or the seconds to wait until that is possible."""
        # Popped and put back: the dict's order is then who was heard of last.
        left, at = self._buckets.pop(name, (self.burst, now))
        left = min(self.burst, left + max(0.0, now - at) * self.per_s)
        # A refused request takes nothing: a client that hammers is not pushed back ever further.
        wait = 0.0 if left >= cost else (cost - left) / self.per_s
        self._buckets[name] = (left if wait else left - cost, now)
        # The one unheard of for longest goes: its bucket is the fullest, so it loses nothing.
        if len(self._buckets) > _MOST:
            self._buckets.popitem(last=False)
        return wait

    def is_exhausted(self, name: str, now: float) -> bool:
        """Would the next request have to wait?"""
        left, at = self._buckets.get(name, (self.burst, now))
        return left + max(0.0, now - at) * self.per_s < 1.0

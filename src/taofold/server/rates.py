"""How often somebody may ask: a bucket of requests for each, refilled steadily.

Bounded in memory: who has not been heard of for long is forgotten. Time is the caller's.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

_MOST: Final = 10_000


@dataclass(slots=True)
class Rates:
    """`burst` requests at once, `per_s` more each second, for each name."""

    per_s: float
    burst: float
    _buckets: OrderedDict[str, tuple[float, float]] = field(
        default_factory=OrderedDict[str, tuple[float, float]]
    )

    def take(self, name: str, now: float, cost: float = 1.0) -> float:
        """Take from the bucket; 0.0, or the seconds to wait until that is possible."""
        left, at = self._buckets.pop(name, (self.burst, now))
        left = min(self.burst, left + max(0.0, now - at) * self.per_s)
        wait = 0.0 if left >= cost else (cost - left) / self.per_s
        self._buckets[name] = (left if wait else left - cost, now)
        if len(self._buckets) > _MOST:
            self._buckets.popitem(last=False)
        return wait

    def empty(self, name: str, now: float) -> bool:
        """Would the next request have to wait?"""
        left, at = self._buckets.get(name, (self.burst, now))
        return left + max(0.0, now - at) * self.per_s < 1.0

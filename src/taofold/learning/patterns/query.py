"""Which patterns somebody wants to see. Knows nothing about where they are kept."""

from typing import NamedTuple

from taofold.learning.patterns.bodies import Kind
from taofold.learning.patterns.values import Pattern


class Query(NamedTuple):
    """Which patterns: all that is given must hold. `retired` None = both."""

    kind: Kind | None = None
    tags: tuple[str, ...] = ()
    loop: str = ""
    min_rate: float | None = None
    max_rate: float | None = None
    retired: bool | None = None

    def holds(self, pattern: Pattern) -> bool:
        """Is `pattern` among them?"""
        rate = pattern.rate
        if (self.min_rate is not None or self.max_rate is not None) and rate is None:
            return False
        return (
            (self.kind is None or pattern.kind == self.kind)
            and {*self.tags} <= {*pattern.tags}
            and (not self.loop or any(source.loop == self.loop for source in pattern.sources))
            and (self.min_rate is None or (rate or 0.0) >= self.min_rate)
            and (self.max_rate is None or (rate or 0.0) <= self.max_rate)
            and (self.retired is None or bool(pattern.retired) == self.retired)
        )

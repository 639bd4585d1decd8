"""What learning was worth, in the names of the exported metrics.

The benefit compares loops that were told something with loops that would have been and, by lot,
were not; nothing else is fair. It comes with a 95 % interval, and below `ENOUGH` loops in either
group with the word that this is too few. One loop against the control loops is `improvement`; what
seeing one pattern was worth is `impact`.
"""

from collections.abc import Iterable
from math import sqrt
from typing import Any, Final, NamedTuple

from taofold.core.text import iso
from taofold.core.values import Value
from taofold.learning.exchange.records import FORMATS
from taofold.learning.loops import LoopNote, LoopStats
from taofold.learning.patterns.pattern import Arm, Pattern, UseCounts

ENOUGH: Final = 10


class Benefit(Value, frozen=True):
    """Iterations with and without, and how many per cent fewer: None where nothing can be said."""

    with_injection: Arm
    without: Arm
    improvement: float | None = None
    low: float | None = None
    high: float | None = None
    nothing_to_inject: int = 0
    by_hand: int = 0

    @property
    def enough(self) -> bool:
        """Are there loops enough on both sides?"""
        return min(self.with_injection.loops, self.without.loops) >= ENOUGH


class LearningMetrics(Value, frozen=True):
    """The whole registry in numbers."""

    by_kind: dict[str, int]
    uses: UseCounts
    benefit: Benefit
    retired: int = 0
    archived: int = 0
    updated: int = 0

    @property
    def total(self) -> int:
        """All patterns."""
        return sum(self.by_kind.values())

    def as_json(self) -> dict[str, Any]:
        """As it is exported."""
        benefit, rate = self.benefit, self.uses.rate
        interval = None if benefit.low is None else [benefit.low, benefit.high]
        return {
            "total_patterns": self.total,
            "patterns_by_type": self.by_kind,
            "pattern_usage_stats": {
                "total_applications": self.uses.usage,
                "successful_applications": self.uses.successes,
                "failed_applications": self.uses.failures,
                "overall_success_rate": None if rate is None else round(rate, 2),
            },
            "cross_loop_benefit": {
                "loops_with_pattern_injection": benefit.with_injection.loops,
                "loops_without_pattern_injection": benefit.without.loops,
                "average_iterations_with": _round(benefit.with_injection.mean),
                "average_iterations_without": _round(benefit.without.mean),
                "improvement_percentage": benefit.improvement,
                "improvement_interval_95": interval,
                "n_too_small": not benefit.enough,
                "smallest_n": ENOUGH,
                "solved_with": benefit.with_injection.solved,
                "solved_without": benefit.without.solved,
                "loops_with_nothing_to_inject": benefit.nothing_to_inject,
                "loops_injected_by_hand": benefit.by_hand,
            },
            "retired_patterns": self.retired,
            "archived_patterns": self.archived,
            "last_updated": iso(self.updated) if self.updated else None,
        }


class Improvement(NamedTuple):
    """A loop against the control loops: their mean iterations, its own, the share saved."""

    baseline: float | None
    actual: int
    share: float | None
    n: int

    def as_json(self) -> dict[str, Any]:
        """As it stands in an exported loop state."""
        return {
            "baseline_iterations": _round(self.baseline),
            "actual_iterations": self.actual,
            "improvement": None if self.share is None else f"{100 * self.share:.1f}%",
            "n": self.n,
        }


def measure(patterns: Iterable[Pattern], stats: LoopStats, archived: int) -> LearningMetrics:
    """The numbers of a registry. Anti-patterns are not applied, so they have no uses here."""
    by_kind = dict.fromkeys([form.key for form in FORMATS.values()], 0)
    uses = UseCounts()
    retired = 0
    for pattern in patterns:
        by_kind[FORMATS[pattern.kind].key] += 1
        retired += bool(pattern.retired)
        if pattern.kind != "anti":
            uses += pattern.applied
    return LearningMetrics(by_kind, uses, benefit(stats), retired, archived, stats.updated)


def benefit(stats: LoopStats) -> Benefit:
    """What injection saved, by the loops that the lot decided about."""
    treated, other = stats.shown, stats.held
    # Without loops in one of the arms there is no ratio.
    if not treated.mean or not other.mean:
        return Benefit(treated, other, None, None, None, stats.plain.loops, stats.manual.loops)
    ratio = treated.mean / other.mean
    low, high = _interval(treated, other, ratio)
    share = round(100 * (1 - ratio), 1)
    return Benefit(treated, other, share, low, high, stats.plain.loops, stats.manual.loops)


def _interval(one: Arm, other: Arm, ratio: float) -> tuple[float | None, float | None]:
    """95 % of the percentage saved: the delta method, with Welch's degrees of freedom."""
    if min(one.loops, other.loops) < 2 or not one.mean or not other.mean:
        return None, None
    first = one.variance / one.loops / one.mean**2
    second = other.variance / other.loops / other.mean**2
    spread = first + second
    # Loops that all took the same number of iterations: the interval is a point.
    if not spread:
        return round(100 * (1 - ratio), 1), round(100 * (1 - ratio), 1)
    freedom = spread**2 / (first**2 / (one.loops - 1) + second**2 / (other.loops - 1))
    reach = 100 * ratio * sqrt(spread) * _student(freedom)
    return round(100 * (1 - ratio) - reach, 1), round(100 * (1 - ratio) + reach, 1)


def _student(freedom: float) -> float:
    """Student's 97.5 % quantile, within one per cent from two degrees of freedom on."""
    z = 1.959964
    # Cornish and Fisher's expansion of the quantile in powers of 1/f.
    f = max(freedom, 1.0)
    return (
        z
        + (z**3 + z) / (4 * f)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * f**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * f**3)
    )


def improvement(note: LoopNote, stats: LoopStats) -> Improvement:
    """One loop against the control loops."""
    mean = stats.held.mean
    share = (mean - note.iterations) / mean if mean else None
    return Improvement(mean, note.iterations, share, stats.held.loops)


def impact(pattern: Pattern, stats: LoopStats) -> tuple[float | None, int, int]:
    """Iterations that loops which saw the pattern took more than control loops; n of both."""
    # Its own control loops if it has any; else all of them, which is a rougher comparison.
    other = pattern.held if pattern.held.loops else stats.held
    if pattern.shown.mean is None or other.mean is None:
        return None, pattern.shown.loops, other.loops
    return pattern.shown.mean - other.mean, pattern.shown.loops, other.loops


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 2)

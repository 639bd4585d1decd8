"""The benefit of learning, under the names of the exported metrics.

The benefit compares loops that were shown patterns with control loops, chosen at random among the
same kind; no other comparison is fair. It comes with a 95 % interval, and a note if either group
has fewer than `ENOUGH` loops. `improvement` compares one loop with the control loops; `impact` is
the effect of seeing one pattern.
"""

from collections import Counter
from collections.abc import Iterable
from math import sqrt
from typing import Any, Final, NamedTuple

from taofold.core.text import iso
from taofold.core.values import Value
from taofold.learning.exchange.records import FORMATS
from taofold.learning.loops import LoopNote, LoopStats
from taofold.learning.patterns.kinds import Kind
from taofold.learning.patterns.pattern import Pattern, UseCounts

ENOUGH: Final = 10


class Benefit(Value, frozen=True):
    """The reduction of iterations in per cent, with its interval; None if it cannot be computed."""

    stats: LoopStats
    improvement: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def enough(self) -> bool:
        """True if both groups have enough loops."""
        return min(self.stats.shown.loops, self.stats.held.loops) >= ENOUGH


class LearningMetrics(Value, frozen=True):
    """The whole registry in numbers."""

    by_kind: dict[str, int]
    uses: UseCounts
    benefit: Benefit
    retired: int = 0
    archived: int = 0

    @property
    def total(self) -> int:
        """The number of patterns."""
        return sum(self.by_kind.values())

    def as_json(self) -> dict[str, Any]:
        """Returns the exported form."""
        benefit, stats = self.benefit, self.benefit.stats
        interval = None if benefit.low is None else [benefit.low, benefit.high]
        return {
            "total_patterns": self.total,
            "patterns_by_type": self.by_kind,
            "pattern_usage_stats": {
                "total_applications": self.uses.usage,
                "successful_applications": self.uses.successes,
                "failed_applications": self.uses.failures,
                "overall_success_rate": rounded(self.uses.rate),
            },
            "cross_loop_benefit": {
                "loops_with_pattern_injection": stats.shown.loops,
                "loops_without_pattern_injection": stats.held.loops,
                "average_iterations_with": rounded(stats.shown.mean),
                "average_iterations_without": rounded(stats.held.mean),
                "improvement_percentage": benefit.improvement,
                "improvement_interval_95": interval,
                "n_too_small": not benefit.enough,
                "smallest_n": ENOUGH,
                "solved_with": stats.shown.solved,
                "solved_without": stats.held.solved,
                "loops_with_nothing_to_inject": stats.plain.loops,
                "loops_injected_by_hand": stats.manual.loops,
            },
            "retired_patterns": self.retired,
            "archived_patterns": self.archived,
            "last_updated": iso(stats.updated) if stats.updated else None,
        }


class Improvement(NamedTuple):
    """A loop against the control loops: their mean iterations, its own, the share saved."""

    baseline: float | None
    actual: int
    share: float | None
    n: int

    def as_json(self) -> dict[str, Any]:
        """Returns the form in an exported loop state."""
        return {
            "baseline_iterations": rounded(self.baseline),
            "actual_iterations": self.actual,
            "improvement": None if self.share is None else f"{100 * self.share:.1f}%",
            "n": self.n,
        }


def measure(patterns: Iterable[Pattern], stats: LoopStats, archived: int) -> LearningMetrics:
    """Returns the numbers of a registry.

    Anti-patterns are not applied, so they have no uses here.
    """
    kinds: Counter[Kind] = Counter()
    uses, retired = UseCounts(), 0
    for pattern in patterns:
        kinds[pattern.kind] += 1
        retired += bool(pattern.retired)
        if pattern.kind != "anti":
            uses += pattern.applied
    by_kind = {form.key: kinds[kind] for kind, form in FORMATS.items()}
    return LearningMetrics(by_kind, uses, benefit(stats), retired, archived)


def benefit(stats: LoopStats) -> Benefit:
    """Returns the savings by injection, from the randomly assigned loops.

    The interval is 95 % by the delta method, with Welch's degrees of freedom.
    """
    shown, held = stats.shown, stats.held
    # Without loops in one of the groups there is no ratio.
    if not shown.mean or not held.mean:
        return Benefit(stats)
    ratio = shown.mean / held.mean
    saved = 100 * (1 - ratio)
    if min(shown.loops, held.loops) < 2:
        return Benefit(stats, round(saved, 1))
    first = shown.variance / shown.loops / shown.mean**2
    second = held.variance / held.loops / held.mean**2
    spread = first + second
    reach = 0.0
    # If all loops took the same number of iterations, the interval is a point.
    if spread:
        freedom = spread**2 / (first**2 / (shown.loops - 1) + second**2 / (held.loops - 1))
        reach = 100 * ratio * sqrt(spread) * _student(freedom)
    return Benefit(stats, round(saved, 1), round(saved - reach, 1), round(saved + reach, 1))


def _student(freedom: float) -> float:
    """Returns Student's 97.5 % quantile, within one per cent from two degrees of freedom on."""
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
    """Returns the comparison of one loop with the control loops."""
    mean = stats.held.mean
    share = (mean - note.iterations) / mean if mean else None
    return Improvement(mean, note.iterations, share, stats.held.loops)


def impact(pattern: Pattern, stats: LoopStats) -> tuple[float | None, int, int]:
    """Returns the additional iterations of loops that saw the pattern over control loops; n of
    both.
    """
    # Its own control loops if it has any; else all of them, which is a rougher comparison.
    other = pattern.held if pattern.held.loops else stats.held
    if pattern.shown.mean is None or other.mean is None:
        return None, pattern.shown.loops, other.loops
    return pattern.shown.mean - other.mean, pattern.shown.loops, other.loops


def rounded(value: float | None) -> float | None:
    """Rounds to two digits, as in exported files."""
    return None if value is None else round(value, 2)

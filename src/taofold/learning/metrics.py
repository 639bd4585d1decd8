"""The benefit of learning, under the names of the exported metrics.

The benefit compares loops that were shown patterns with control loops, chosen at random among the
same kind; no other comparison is fair. From the first pair of loops on it comes with a 95 %
interval. `improvement` compares one loop with the control loops; `impact` is the effect of seeing
one pattern.
"""

from collections import Counter
from collections.abc import Iterable
from math import sqrt
from typing import Any, NamedTuple

from taofold.core.text import iso
from taofold.core.values import Value
from taofold.learning.exchange.records import FORMATS
from taofold.learning.loops import LoopNote, LoopStats
from taofold.learning.patterns.kinds import Kind
from taofold.learning.patterns.pattern import Arm, Pattern, UseCounts


class Effect(Value, frozen=True):
    """A comparison of loops with lessons (`shown`) with control loops (`held`), and its interval.

    The three figures are None if one of the groups is empty.
    """

    shown: int
    held: int
    value: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def interval(self) -> list[float] | None:
        """The bounds of the 95 % interval, rounded."""
        if self.low is None or self.high is None:
            return None
        return [round(self.low, 2), round(self.high, 2)]

    def text(self, unit: str, *, control: bool = True) -> str:
        """Returns the effect with its interval and the numbers of loops, in one line.

        Args:
            unit: The unit of its figures.
            control: False if the settings draw no control loops.
        """
        n = f"{self.shown} with lessons, {self.held} control"
        if self.value is None or self.low is None or self.high is None:
            # Either the settings prevent control loops, or the first ones are still to come.
            why = "unknown" if self.held or control else "no control, since control_share is 0"
            return f"{why} ({n})"
        value, low, high = map(_figure, (self.value, self.low, self.high))
        return f"{value} {unit} (95 %: {low} to {high}; {n})"


def _figure(value: float) -> str:
    """Returns a figure with its sign and one decimal. A small one keeps its first digit.

    Rounded to zero, a bound would not show on which side of zero the interval lies.
    """
    text = f"{value + 0.0:+.1f}"
    return f"{value:+.1g}" if value and not float(text) else text


class LearningMetrics(Value, frozen=True):
    """The whole registry in numbers."""

    by_kind: dict[str, int]
    uses: UseCounts
    benefit: Effect
    stats: LoopStats
    retired: int = 0
    archived: int = 0

    @property
    def total(self) -> int:
        """The number of patterns."""
        return sum(self.by_kind.values())

    def as_json(self) -> dict[str, Any]:
        """Returns the exported form."""
        benefit, stats = self.benefit, self.stats
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
                "improvement_percentage": benefit.value,
                "improvement_interval_95": benefit.interval,
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
    effect: Effect

    def as_json(self) -> dict[str, Any]:
        """Returns the form in an exported loop state."""
        effect = self.effect
        return {
            "baseline_iterations": rounded(self.baseline),
            "actual_iterations": self.actual,
            "improvement": None if effect.value is None else f"{effect.value:.1f}%",
            "improvement_interval_95": effect.interval,
            "n": effect.held,
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
    return LearningMetrics(by_kind, uses, benefit(stats), stats, retired, archived)


def benefit(stats: LoopStats) -> Effect:
    """Returns the share of iterations that injection saves, in per cent.

    From the randomly assigned loops. The interval uses the delta method.
    """
    return _saved(stats.shown, stats.held)


def improvement(note: LoopNote, stats: LoopStats) -> Improvement:
    """Returns the comparison of one loop with the control loops."""
    effect = _saved(Arm().plus(note.iterations, note.solved), stats.held)
    return Improvement(stats.held.mean, note.iterations, effect)


def impact(pattern: Pattern, stats: LoopStats) -> Effect:
    """Returns the additional iterations of loops that saw the pattern over control loops."""
    # Its own control loops if it has any; else all of them, which is a rougher comparison.
    shown, held = pattern.shown, pattern.held if pattern.held.loops else stats.held
    if shown.mean is None or held.mean is None:
        return Effect(shown.loops, held.loops)
    value = shown.mean - held.mean
    reach = _reach(shown, held, _spread(shown), _spread(held))
    return Effect(shown.loops, held.loops, value, value - reach, value + reach)


def _saved(shown: Arm, held: Arm) -> Effect:
    """Returns the saved share of iterations in per cent."""
    # Without loops in one of the groups there is no ratio.
    if not shown.mean or not held.mean:
        return Effect(shown.loops, held.loops)
    ratio = shown.mean / held.mean
    saved = 100 * (1 - ratio)
    relative = _spread(shown) / shown.mean**2, _spread(held) / held.mean**2
    reach = 100 * ratio * _reach(shown, held, *relative)
    # A loop takes at least one iteration, so 100 % cannot be saved.
    high = min(saved + reach, 100.0)
    return Effect(shown.loops, held.loops, round(saved, 1), round(saved - reach, 1), round(high, 1))


def _spread(arm: Arm) -> float:
    """Returns the variance of the arm's mean.

    A single loop, or equal ones, show no variance. Their mean stands in for it, which is the
    variance of a Poisson count: a small group must not look certain.
    """
    return (arm.variance or arm.mean or 0.0) / arm.loops


def _reach(shown: Arm, held: Arm, first: float, second: float) -> float:
    """Returns half of the 95 % interval, with Welch's degrees of freedom."""
    spread = first + second
    # One loop has no degree of freedom; the rule above supplies its variance.
    parts = first**2 / max(shown.loops - 1, 1) + second**2 / max(held.loops - 1, 1)
    return sqrt(spread) * _student(spread**2 / parts) if parts else 0.0


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


def rounded(value: float | None) -> float | None:
    """Rounds to two digits, as in exported files."""
    return None if value is None else round(value, 2)

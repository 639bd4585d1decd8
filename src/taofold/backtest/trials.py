"""Continues stored runs in forks, and compares them with the originals: outcome, cost and steps.

A fork drives the run's agent: it calls models and tools. Calls that need an approval wait.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist, fmean, stdev
from typing import Any, Final

from taofold.agent import Agent
from taofold.backtest.stored_calls import FORK_TAG
from taofold.clocks import clock
from taofold.core.state import RunState, fold
from taofold.core.text import error_text, line
from taofold.evals.evaluation import paired_p, wilson
from taofold.log.log import Log
from taofold.runtime import run as runs

_SURE: Final = 0.05
_LEAST: Final = 3
"""Pairs from which an interval of a mean is given."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The end of a run.

    Args:
        run: The run.
        status: Its status.
        success: True if it reached its goal.
        usd: Known dollars, with those of child runs.
        tokens: Tokens, with those of child runs.
        steps: Number of its steps.
    """

    run: str
    status: str
    success: bool
    usd: float
    tokens: int
    steps: int

    @classmethod
    def of(cls, run: str, state: RunState) -> "RunOutcome":
        """Returns the outcome of a run in `state`."""
        usage = state.usage
        success = bool(state.success)
        return cls(run, state.status, success, usage.priced_usd, usage.tokens, len(state.steps))


@dataclass(frozen=True, slots=True)
class ForkTrial:
    """A run and its fork.

    Args:
        before: The stored run.
        after: The fork; None if it could not be driven.
        error: The reason.
    """

    before: RunOutcome
    after: RunOutcome | None
    error: str = ""


@dataclass(frozen=True, slots=True)
class MeanDifference:
    """The mean of paired differences, with its 95 % interval; None for fewer than 3 pairs."""

    mean: float
    interval: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class ForkComparison:
    """Forks beside their originals.

    Args:
        trials: All of them.
    """

    trials: Sequence[ForkTrial]

    @property
    def pairs(self) -> list[tuple[RunOutcome, RunOutcome]]:
        """The runs whose forks came to an end."""
        return [
            (trial.before, trial.after)
            for trial in self.trials
            if trial.after is not None and trial.after.status != "waiting"
        ]

    @property
    def waiting(self) -> int:
        """Number of forks that wait for an approval or an answer."""
        return sum([t.after is not None and t.after.status == "waiting" for t in self.trials])

    @property
    def p(self) -> float:
        """The probability of a difference in outcomes at least as large by chance."""
        gaps = [float(after.success) - before.success for before, after in self.pairs]
        return paired_p([gap for gap in gaps if gap])

    @property
    def lost(self) -> bool:
        """True if the forks succeed significantly less often (p < 0.05)."""
        gaps = [float(after.success) - before.success for before, after in self.pairs]
        return sum(gaps) < 0 and self.p < _SURE

    def rate(self, *, forks: bool) -> tuple[float, tuple[float, float]]:
        """Returns the share of successful runs, and its 95 % interval."""
        pairs = self.pairs
        if not pairs:
            return 0.0, (0.0, 1.0)
        share = fmean([pair[forks].success for pair in pairs])
        return share, wilson(share, len(pairs))

    def difference(self, figure: Callable[[RunOutcome], float]) -> MeanDifference:
        """Returns the mean of the forks' figures less the originals'."""
        return mean_difference([figure(after) - figure(before) for before, after in self.pairs])

    def as_json(self) -> dict[str, Any]:
        """Returns the comparison as JSON."""
        figures: dict[str, MeanDifference] = {
            "usd": self.difference(lambda outcome: outcome.usd),
            "tokens": self.difference(lambda outcome: outcome.tokens),
            "steps": self.difference(lambda outcome: outcome.steps),
        }
        rates = {"before": self.rate(forks=False), "after": self.rate(forks=True)}
        return {
            "pairs": len(self.pairs),
            "waiting": self.waiting,
            "p": self.p,
            "success": {
                name: {"rate": rate, "interval": list(interval)}
                for name, (rate, interval) in rates.items()
            },
            "differences": {
                name: {"mean": each.mean, "interval": each.interval and list(each.interval)}
                for name, each in figures.items()
            },
            "forks": [
                {
                    "run": trial.before.run,
                    "fork": "" if trial.after is None else trial.after.run,
                    "before": trial.before.status,
                    "after": "" if trial.after is None else trial.after.status,
                    "error": trial.error,
                }
                for trial in self.trials
            ],
        }


def mean_difference(differences: Sequence[float]) -> MeanDifference:
    """Returns the mean with the interval of Student's t distribution."""
    count = len(differences)
    mean = fmean(differences) if differences else 0.0
    if count < _LEAST:
        return MeanDifference(mean, None)
    half = _quantile(count - 1) * stdev(differences) / sqrt(count)
    return MeanDifference(mean, (mean - half, mean + half))


def _quantile(freedom: int) -> float:
    """Returns the 97.5 % quantile of Student's t (Abramowitz and Stegun, 26.7.5)."""
    if freedom == 2:  # the series is too short for it
        return 4.3027
    z = NormalDist().inv_cdf(0.975)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return sum([term / float(freedom) ** power for power, term in enumerate(terms)])


async def fork_run(log: Log, run: str, agent: Agent[Any, Any], at: int) -> ForkTrial:
    """Forks an ended run at event `at`, drives the fork, and returns both outcomes.

    The fork has a tag that keeps it out of later tests of a period.

    Args:
        log: The log that holds the run, and will hold the fork.
        run: The run.
        agent: The agent that drives the fork.
        at: Number of an event; the fork begins after the last complete step at or before it.
    """
    before = RunOutcome.of(run, fold(await log.read(run)))
    new = runs.new_id()
    try:
        await runs.fork(log, run, new, at=at, now=clock(), tags={FORK_TAG: "fork"})
        result = await agent.replace(log=log).resume(new)
    except Exception as error:  # noqa: BLE001 - code of the agent; the other forks go on
        return ForkTrial(before, None, line(error_text(error)))
    return ForkTrial(before, RunOutcome.of(new, result.state))

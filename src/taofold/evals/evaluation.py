"""An evaluation and its `Report`: trials, rates, and a comparison of two agents.

`evaluate` runs an agent on cases, each `repeat` times, and scores every result. Rates have
confidence intervals; `compare` compares two agents case by case with a permutation test.
`report_files` stores reports.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import sqrt
from os import urandom
from statistics import fmean
from typing import Any, Final, Literal

from taofold.agent import Agent, RunResult
from taofold.agent.batch import BatchState, Failure
from taofold.core.errors import ConfigError
from taofold.core.text import dollars, excerpt, times
from taofold.core.values import Usage
from taofold.evals.cases import Case
from taofold.evals.scorers import Score, Scorer, score
from taofold.runtime.endings import SPENT

_SURE: Final = 0.05
_Z: Final = 1.959964
"""95 % of a normal distribution lie within this many standard deviations."""
_EXACT: Final = 14
"""The most differing cases for which all permutations are counted; above it they are sampled."""
_SAMPLE: Final = 20_000


@dataclass(frozen=True)
class Trial:
    """One run of one case.

    Args:
        case: The case.
        repetition: Number of the repetition, from 0.
        result: The result; None if the run could not be driven.
        scores: The verdicts of all scorers.
    """

    case: Case
    repetition: int
    result: RunResult[Any] | None
    scores: tuple[Score, ...]

    @property
    def run_id(self) -> str:
        """The id of its run in the log; "" if there is none."""
        return "" if self.result is None else self.result.run_id

    @property
    def passed(self) -> bool:
        """True if all scorers pass it."""
        return all([score.passed for score in self.scores])

    @property
    def reason(self) -> str:
        """The reason why it did not pass; "" if it did."""
        failed = [score for score in self.scores if not score.passed]
        return "; ".join([f"{score.name}: {score.reason or score.value}" for score in failed])


@dataclass
class Report:
    """All trials of one agent on a set of cases.

    Args:
        agent: Name of the agent.
        name: Name of the evaluation.
        trials: The trials.
        seconds: Duration of the evaluation.
    """

    agent: str
    name: str
    trials: list[Trial] = field(default_factory=list[Trial])
    seconds: float = 0.0

    @property
    def by_case(self) -> dict[str, float]:
        """The share of passed trials, by the case's name."""
        trials: dict[str, list[bool]] = {}
        for trial in self.trials:
            trials.setdefault(trial.case.label, []).append(trial.passed)
        return {name: fmean(passed) for name, passed in trials.items()}

    @property
    def rate(self) -> float:
        """The mean pass share over the cases."""
        return fmean(self.by_case.values())

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % confidence interval of the rate on further cases of the same kind.

        Counts cases, not trials: repetitions of one case carry little information about other
        cases.
        """
        return wilson(self.rate, len(self.by_case))

    @property
    def by_scorer(self) -> dict[str, float]:
        """The mean score, by the scorer's name."""
        values: dict[str, list[float]] = {}
        for trial in self.trials:
            for judged in trial.scores:
                values.setdefault(judged.name, []).append(judged.value)
        return {name: fmean(values_of_scorer) for name, values_of_scorer in values.items()}

    @property
    def usage(self) -> Usage:
        """Tokens and dollars of all trials, without the judges."""
        total = Usage()
        for trial in self.trials:
            if trial.result is not None:
                total += trial.result.usage
        return total

    @property
    def summary(self) -> str:
        """One line for display."""
        low, high = self.interval
        size = f"{times(len(self.by_case), 'case')}, {times(len(self.trials), 'trial')}"
        cost = f", {dollars(self.usage.usd)}" if self.usage.usd != 0 else ""
        return (
            f"{self.agent}: {self.rate:.0%} pass ({low:.0%} to {high:.0%}), "
            f"{size}, {self.usage.tokens:,} tokens{cost}"
        )

    def as_json(self) -> dict[str, Any]:
        """Returns everything but the runs, which are in the log."""
        low, high = self.interval
        return {
            "agent": self.agent,
            "name": self.name,
            "rate": self.rate,
            "interval": [low, high],
            "cases": self.by_case,
            "scorers": self.by_scorer,
            "tokens": self.usage.tokens,
            "usd": self.usage.usd,
            "seconds": self.seconds,
            "trials": [
                {
                    "case": trial.case.label,
                    "repetition": trial.repetition,
                    "passed": trial.passed,
                    "run": trial.run_id or None,
                    "scores": [
                        {"scorer": score.name, "value": score.value, "reason": score.reason}
                        for score in trial.scores
                    ],
                }
                for trial in self.trials
            ],
        }


@dataclass(frozen=True)
class Comparison:
    """Two agents on the same cases.

    Args:
        first: Name of the first evaluation.
        second: Name of the second evaluation.
        cases: Number of common cases.
        difference: The first's rate less the second's.
        p: The probability of a difference at least as large by chance if both were equally good.
        better: Cases in which the first passed more often.
        worse: Cases in which the first passed less often.
    """

    first: str
    second: str
    cases: int
    difference: float
    p: float
    better: tuple[str, ...]
    worse: tuple[str, ...]

    @property
    def lost(self) -> bool:
        """True if the first is significantly worse (p < 0.05)."""
        return self.difference < 0 and self.p < _SURE

    def as_json(self) -> dict[str, Any]:
        """Returns the fields as JSON."""
        return {
            "first": self.first,
            "second": self.second,
            "cases": self.cases,
            "difference": self.difference,
            "p": self.p,
            "better": list(self.better),
            "worse": list(self.worse),
        }

    def __str__(self) -> str:
        if not self.better and not self.worse:
            return f"{self.first} and {self.second} pass alike in all {times(self.cases, 'case')}"
        sure = "" if self.p < _SURE else ": too little to tell them apart"
        return (
            f"{self.first} passes {self.difference:+.0%} against {self.second} (p = {self.p:.3f}), "
            f"better in {len(self.better)}, worse in {len(self.worse)} of "
            f"{times(self.cases, 'case')}{sure}"
        )


def compare(first: Report, second: Report) -> Comparison:
    """Compares two agents on their common cases with a paired permutation test.

    Example:
        ```python
        from taofold.evals import Case, compare, evaluate

        cases = [Case("What is 6 × 7?", expect="42")]
        other = agent.replace(temperature=0.0)
        print(compare(await evaluate(other, cases), await evaluate(agent, cases)))
        ```

    Args:
        first: The report of the first agent.
        second: The report of the second agent.

    Returns:
        The comparison.

    Raises:
        ValueError: They have no case in common.
    """
    rates, theirs = first.by_case, second.by_case
    names = [name for name in rates if name in theirs]
    if not names:
        raise ValueError("the two evaluations have no case in common")
    differences = {name: rates[name] - theirs[name] for name in names}
    return Comparison(
        first=first.agent,
        second=second.agent,
        cases=len(names),
        difference=fmean(differences.values()),
        p=paired_p([gap for gap in differences.values() if gap]),
        better=tuple([name for name, gap in differences.items() if gap > 0]),
        worse=tuple([name for name, gap in differences.items() if gap < 0]),
    )


def paired_p(gaps: Sequence[float]) -> float:
    """Returns the two-sided p-value of a paired permutation test."""
    if not gaps:
        return 1.0
    # Floating-point sums: equal sums must compare as equal.
    distance = abs(sum(gaps)) - 1e-9
    if len(gaps) <= _EXACT:
        # At most 2^14 permutations.
        ways = product((1, -1), repeat=len(gaps))
        sums = [sum([sign * gap for sign, gap in zip(way, gaps, strict=True)]) for way in ways]
        return fmean([abs(total) >= distance for total in sums])
    # Seeded, so that the same two reports always give the same p.
    draw = random.Random(len(gaps))
    hits = sum(
        [abs(sum([gap * draw.choice((1, -1)) for gap in gaps])) >= distance for _ in range(_SAMPLE)]
    )
    # The observed permutation counts too: p from a sample is never 0.
    return (hits + 1) / (_SAMPLE + 1)


def wilson(rate: float, count: int) -> tuple[float, float]:
    """Returns the 95 % interval of a rate observed on `count` cases (Wilson's score interval)."""
    if not count:
        return 0.0, 1.0
    # Wilson's interval rather than the normal one, which is empty if all cases passed.
    square = _Z**2 / count
    middle = (rate + square / 2) / (1 + square)
    half = _Z / (1 + square) * sqrt(rate * (1 - rate) / count + square / (4 * count))
    return max(0.0, middle - half), min(1.0, middle + half)


async def evaluate(
    agent: Agent[Any, Any],
    cases: Sequence[Case],
    *,
    scorers: Sequence[Scorer] = (),
    repeat: int = 1,
    concurrency: int = 4,
    name: str = "",
    usd: float | None = None,
    progress: Callable[[BatchState], None] | Literal["terminal"] | None = None,
) -> Report:
    """Runs every case `repeat` times and scores the results.

    Example:
        ```python
        from taofold.evals import Case, evaluate

        report = await evaluate(agent, [Case("What is 6 × 7?", expect="42")], repeat=2)
        print(report.summary)
        ```

    Args:
        agent: The agent to evaluate.
        cases: The cases.
        scorers: Scorers for every case, in addition to its own.
        repeat: Runs per case, at least 1.
        concurrency: As for `Agent.map`.
        name: The name of the evaluation. With the same name and log a stopped evaluation continues,
            and finished runs are only scored again. "" = a new one.
        usd: As for `Agent.map`. The cost of judges is not counted.
        progress: As for `Agent.map`.

    Returns:
        The report.

    Raises:
        ConfigError: There is no case, or the agent cannot run as described.
    """
    if not cases:
        raise ConfigError("no cases to evaluate: pass at least one Case", path="cases")
    wrong: list[Any] = [case for case in cases if not isinstance(case, Case)]  # pyright: ignore[reportUnnecessaryIsInstance]
    if isinstance(cases, str) or wrong:
        raise ConfigError(
            f"must be Case objects: write [Case(goal, expect=…)], not {excerpt(repr(cases), 80)}",
            path="cases",
        )

    if repeat < 1:
        raise ConfigError(f"must be 1 or more, not {repeat!r}", path="repeat")
    batch = name or f"eval-{urandom(4).hex()}"
    report = Report(agent.name, batch)
    # In rounds: if the money ends, every case has been run about equally often.
    rounds = [(case, number) for number in range(repeat) for case in cases]
    # Without a log nothing can be continued, and `map` refuses a name.
    named = batch if agent.opened_log is not None else ""
    ended = await agent.map(
        [case.goal for case, _ in rounds],
        name=named,
        concurrency=concurrency,
        usd=usd,
        progress=progress,
    )
    for (case, number), result in zip(rounds, ended.results, strict=True):
        report.trials.append(await _trial(case, number, result, scorers))
    report.seconds = ended.seconds
    return report


async def _trial(
    case: Case, number: int, result: RunResult[Any] | Failure | None, scorers: Sequence[Scorer]
) -> Trial:
    if result is None:
        return Trial(case, number, None, (Score(0.0, "not begun: the money was spent", "run"),))
    if isinstance(result, Failure):
        return Trial(case, number, None, (Score(0.0, str(result.error), "run"),))
    if result.stop_reason == SPENT:
        return Trial(case, number, result, (Score(0.0, "not ended: the money was spent", "run"),))
    if result.status == "waiting":
        waits = Score(0.0, f"is waiting: {result.stop_reason}", "run")
        return Trial(case, number, result, (waits,))
    scores = [await score(scorer, case, result) for scorer in (*case.judged_by, *scorers)]
    return Trial(case, number, result, tuple(scores))

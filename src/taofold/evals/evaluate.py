"""Runs an agent on cases, each some times, and has every result scored."""

from collections.abc import Callable, Sequence
from os import urandom
from typing import Any

from taofold.agent import Agent, RunResult
from taofold.agent.batch import BatchState, Failure
from taofold.core.errors import ConfigError
from taofold.evals.cases import Case
from taofold.evals.report import Report, Trial
from taofold.evals.scorers import Score, Scorer, score


async def evaluate(
    agent: Agent[Any, Any],
    cases: Sequence[Case],
    *,
    scorers: Sequence[Scorer] = (),
    repeat: int = 1,
    concurrency: int = 4,
    name: str = "",
    usd: float | None = None,
    progress: Callable[[BatchState], None] | str | None = None,
) -> Report:
    """Run every case `repeat` times and score what came of it.

    Args:
        scorers: for every case, besides its own.
        name: of the evaluation; with the same name and log it goes on where it was stopped, and
            what has been run is only scored again. "" = a new one.
        concurrency, usd, progress: as for `Agent.map`.

    Raises:
        ConfigError: there is no case, or the agent cannot run as described.
    """
    if not cases:
        raise ConfigError("there is no case to evaluate", path="cases")
    if repeat < 1:
        raise ConfigError(f"a case is run 1 time or more, not {repeat!r}", path="repeat")
    batch = name or f"eval-{urandom(4).hex()}"
    report = Report(agent.name, batch)
    rounds = [(case, number) for number in range(repeat) for case in cases]
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
    if result.status == "waiting":
        waits = Score(0.0, f"is waiting: {result.stop_reason}", "run")
        return Trial(case, number, result, (waits,))
    scores = [await score(one, case, result) for one in (*case.judged_by, *scorers)]
    return Trial(case, number, result, tuple(scores))

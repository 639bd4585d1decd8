"""`evaluate` runs an agent on cases, each as often as is asked, and scores every result."""

from collections.abc import Callable, Sequence
from os import urandom
from typing import Any

from taofold.agent import Agent, RunResult
from taofold.agent.batch import BatchState, Failure
from taofold.core.errors import ConfigError
from taofold.core.text import excerpt
from taofold.evals.cases import Case
from taofold.evals.reports import Report, Trial
from taofold.evals.scorers import Score, Scorer, score
from taofold.runtime.endings import SPENT


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
        concurrency, progress: as for `Agent.map`.
        usd: as for `Agent.map`. What judges cost is not counted.

    Raises:
        ConfigError: there is no case, or the agent cannot run as described.
    """
    if not cases:
        raise ConfigError("there is no case to evaluate", path="cases")
    wrong: list[Any] = [case for case in cases if not isinstance(case, Case)]  # pyright: ignore[reportUnnecessaryIsInstance]
    if isinstance(cases, str) or wrong:
        raise ConfigError(
            f"are Case objects: write [Case(goal, expect=…)], not {excerpt(repr(cases), 80)}",
            path="cases",
        )
    if repeat < 1:
        raise ConfigError(f"a case is run 1 time or more, not {repeat!r}", path="repeat")
    batch = name or f"eval-{urandom(4).hex()}"
    report = Report(agent.name, batch)
    # Round by round: if the money ends, every case has been run about equally often.
    rounds = [(case, number) for number in range(repeat) for case in cases]
    # Without a log nothing can be gone on with, and `map` refuses a name.
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

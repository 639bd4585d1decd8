"""Forks of differing runs are compared with their originals."""

from typing import Any

import pytest

from taofold import Agent, MemoryLog
from taofold.backtest.trials import ForkComparison, ForkTrial, RunOutcome, fork_run, mean_difference
from tests.runtime.kit import Memo, act, finish
from tests.runtime.stories import World, tools

pytestmark = pytest.mark.anyio


def outcome(*, success: bool, usd: float = 0.0, steps: int = 3) -> RunOutcome:
    status = "finished" if success else "failed"
    return RunOutcome("r", status, success, usd, 100, steps)


def agent(script: list[Any], log: MemoryLog) -> Agent[Any, Any]:
    return Agent(Memo(script), tools=tools(World()), log=log)


async def test_a_fork_begins_where_it_is_told_and_has_its_own_outcome() -> None:
    log = MemoryLog()
    kept = await agent([act("look", what="a"), act("look", what="b"), finish()], log).run("go")
    other = agent([finish("at once")], log)
    trial = await fork_run(log, kept.run_id, other, 0)
    assert trial.after is not None
    assert (trial.before.steps, trial.after.steps) == (3, 1)
    assert trial.after.usd < trial.before.usd
    comparison = ForkComparison([trial])
    assert comparison.rate(forks=True)[0] == 1.0
    assert comparison.difference(lambda one: one.steps).mean == -2
    assert comparison.difference(lambda one: one.steps).interval is None


async def test_a_fork_that_waits_is_no_pair() -> None:
    log = MemoryLog()
    kept = await agent([act("look", what="a"), finish()], log).run("go")
    waiting = await fork_run(log, kept.run_id, agent([act("pay", amount=3)], log), 0)
    comparison = ForkComparison([waiting])
    assert (comparison.waiting, comparison.pairs) == (1, [])


def test_forks_that_succeed_less_often_are_lost_only_if_it_is_no_chance() -> None:
    pair = ForkTrial(outcome(success=True), outcome(success=False))
    assert not ForkComparison([pair] * 3).lost
    assert ForkComparison([pair] * 9).lost
    assert not ForkComparison([ForkTrial(pair.after or pair.before, pair.before)] * 9).lost


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        # scipy.stats.t.interval(0.95, n - 1, mean, sem)
        ([1.0, 2.0, 3.0], -0.4841, 4.4841),
        ([1.0, 2.0, 3.0, 4.0], 0.4457, 4.5543),
        ([float(n) for n in range(1, 11)], 3.3341, 7.6659),
    ],
)
def test_the_interval_is_students(values: list[float], low: float, high: float) -> None:
    interval = mean_difference(values).interval
    assert interval == pytest.approx((low, high), abs=0.02)

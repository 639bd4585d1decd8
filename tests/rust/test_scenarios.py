"""Generated runs, driven by one runtime and continued by the other, on one log."""

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import pytest

from taofold.core import events as e
from taofold.log.log import Log
from taofold.log.open import make_home
from taofold.log.sqlite.log import SqliteLog
from tests.prerequisites import TAOFOLD_RS, taofold_rs
from tests.runtime.kit import planted
from tests.rust.scenarios import Pythons, Rusts, Scenario, Verb, generate, without_tools

pytestmark = [pytest.mark.rust, TAOFOLD_RS.mark]

Driver: TypeAlias = Callable[
    [Sequence[tuple[Verb, str, Scenario]]], Awaitable[list[dict[str, Any]]]
]
Runs: TypeAlias = dict[str, Scenario]


async def performed(by: Driver, verb: Verb, runs: Runs) -> dict[str, dict[str, Any]]:
    orders: list[tuple[Verb, str, Scenario]] = [(verb, run, each) for run, each in runs.items()]
    return dict(zip(runs, await by(orders), strict=True))


async def ended(runs: Runs, verb: Verb, first: Driver, second: Driver) -> int:
    """Drives runs to their ends. The other runtime decides each question and resumes the run.

    Returns the number of runs that waited.
    """
    waited: set[str] = set()
    drivers = itertools.cycle((first, second))
    said = await performed(next(drivers), verb, runs)
    for _ in range(30):
        refused = {run: each for run, each in said.items() if "refused" in each}
        assert not refused, refused
        waiting = {run: runs[run] for run in said if said[run]["status"] == "waiting"}
        if not waiting:
            return len(waited)
        waited |= set(waiting)
        by = next(drivers)
        for verdict in ("allow", "deny"):
            asked = {run: each for run, each in waiting.items() if each.verdict == verdict}
            answers = await performed(by, verdict, asked)
            assert not any(answers.values()), answers
        said = await performed(by, "resume", waiting)
    raise AssertionError(f"runs that never end: {sorted(said)}")


async def differences(runs: Runs, *drivers: Driver) -> str:
    """Returns the differences between replays and records, one line each."""
    lines: list[str] = []
    for driver in drivers:
        for run, said in (await performed(driver, "replay", runs)).items():
            if "refused" in said:
                name, strategy = type(driver).__name__, runs[run].strategy
                lines.append(f"{name} {run} ({strategy}): {said['refused']}")
    return "\n".join(lines)


async def cut(log: Log, runs: Runs, chance: Random) -> Runs:
    """Returns copies of runs that were cut after a random record, as after a crash."""
    copies: Runs = {}
    for run, scenario in runs.items():
        records = await log.read(run)
        kept = records[: chance.randrange(1, len(records))]
        name = f"{run}-cut"
        await planted([e.Record(name, each.seq, each.at, each.event) for each in kept], log)
        copies[name] = scenario
    return copies


@pytest.fixture
def drivers(project: Path) -> tuple[Pythons, Rusts]:
    """Returns both runtimes, on one log."""
    make_home(project / ".taofold")
    path = project / ".taofold" / "runs.db"
    log = SqliteLog(path, sync=lambda _: None)
    log.open()
    return Pythons(log), Rusts(taofold_rs().parent / "examples" / "crossing", path)


@pytest.mark.parametrize("count", [60, pytest.param(1000, marks=pytest.mark.fuzz)])
def test_what_one_runtime_records_replays_in_the_other_and_is_gone_on_with(
    drivers: tuple[Pythons, Rusts], count: int
) -> None:
    """Mutants, in Rust: a critic that is not asked in the last turn; on resume the words of a
    refusal that are derived, not those on record; an empty answer that is refused as `invalid`.
    """
    asyncio.run(_crossed(*drivers, count))


def test_a_verdict_that_was_cut_keeps_its_wording_in_the_other_runtime(
    drivers: tuple[Pythons, Rusts],
) -> None:
    """Mutants, in both runtimes: a verdict whose record ends within it is worded again."""
    asyncio.run(_cut_verdict(*drivers))


async def _cut_verdict(python: Pythons, rust: Rusts) -> None:
    calls = [{"tool": name, "parameters": {"n": 1}, "rationale": "Reading"} for name in "ab"]
    turn = {"thought": "Looking.", "thought_type": "reasoning", "actions": calls}
    scenario = replace(generate(252), replies={"executor": [json.dumps(turn)]})
    assert (scenario.strategy, scenario.strict, scenario.native) == ("react", True, False)
    for first, second in ((python, rust), (rust, python)):
        begun = {type(first).__name__: scenario}
        await ended(begun, "start", first, second)
        (run,) = begun
        records = await python.log.read(run)
        broken = [each.seq for each in records if isinstance(each.event, e.Violated)]
        cut_runs: Runs = {}
        for seq in broken[:4]:
            name = f"{run}-{seq}"
            kept = [e.Record(name, it.seq, it.at, it.event) for it in records[: seq + 1]]
            await planted(kept, python.log)
            cut_runs[name] = scenario
        await ended(cut_runs, "resume", second, first)
        assert len(cut_runs) > 1
        assert await differences(cut_runs, python, rust) == ""


def test_both_send_the_same_to_a_model_that_has_nothing_to_call(
    drivers: tuple[Pythons, Rusts],
) -> None:
    """Mutants, in Rust: `is_native` needs tools; the text is read as a turn of the protocol."""
    asyncio.run(_same_without_tools(*drivers))


async def _same_without_tools(python: Pythons, rust: Rusts) -> None:
    scenarios = {seed: without_tools(seed) for seed in range(60)}
    begun_here = {f"python-{seed}": each for seed, each in scenarios.items()}
    begun_there = {f"rust-{seed}": each for seed, each in scenarios.items()}
    await ended(begun_here, "start", python, rust)
    await ended(begun_there, "start", rust, python)
    assert await differences(begun_here | begun_there, python, rust) == ""


async def _crossed(python: Pythons, rust: Rusts, count: int) -> None:
    scenarios = {seed: generate(seed) for seed in range(count)}
    begun_here = {f"python-{seed}": each for seed, each in scenarios.items()}
    begun_there = {f"rust-{seed}": each for seed, each in scenarios.items()}
    waited = await ended(begun_here, "start", python, rust)
    waited += await ended(begun_there, "start", rust, python)
    assert waited >= count // 20
    chance, log = Random(count), python.log
    cut_here, cut_there = await cut(log, begun_here, chance), await cut(log, begun_there, chance)
    await ended(cut_here, "resume", rust, python)
    await ended(cut_there, "resume", python, rust)
    runs = begun_here | begun_there | cut_here | cut_there
    assert await differences(runs, python, rust) == ""


def test_a_log_is_driven_by_both_at_once_and_no_run_has_two_owners(
    drivers: tuple[Pythons, Rusts],
) -> None:
    """Mutant: a claim that does not compare the epoch. Both want each run at the same time."""
    asyncio.run(_contended(*drivers))


async def _contended(python: Pythons, rust: Rusts) -> None:
    scenarios = [each for each in map(generate, range(400)) if each.strategy == "react"]
    runs = {f"run-{number}": each for number, each in enumerate(scenarios)}
    said = await performed(python, "start", runs)
    waiting = {run: runs[run] for run in runs if said[run]["status"] == "waiting"}
    assert len(waiting) >= 10
    assert not any((await performed(rust, "allow", waiting)).values())
    both = await asyncio.gather(
        performed(python, "resume", waiting), performed(rust, "resume", waiting)
    )
    for run in waiting:
        # Both may succeed one after the other, because the run may have waited again.
        assert any("refused" not in each[run] for each in both), both
        records = [record.event for record in await python.log.read(run)]
        epochs = [event.epoch for event in records if isinstance(event, e.Resumed)]
        assert epochs == sorted(set(epochs)), run
        starts = [(it.key, it.index) for it in records if isinstance(it, e.Started)]
        assert len(starts) == len(set(starts)), run
    assert await differences(waiting, python, rust) == ""

"""Ratings of runs are stored beside the log: the latest of each user, without secrets."""

import asyncio
from pathlib import Path

import pytest

from taofold import Agent, ConfigError, Principal, Refused, open_log, rate, ratings
from taofold.core.errors import UnknownRun
from taofold.log.log import Log
from taofold.log.memory import MemoryLog
from taofold.log.open import journal_beside
from taofold.runtime.ratings import MOST_EACH, Rating, Ratings, forget
from taofold.testing.models import ScriptedModel

pytestmark = pytest.mark.anyio
ANN = Principal("ann")


@pytest.fixture(params=["memory", "sqlite"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Log:
    return MemoryLog() if request.param == "memory" else open_log(tmp_path / "runs.db")


async def ended(log: Log) -> str:
    return (await Agent(ScriptedModel(["Bergen."]), log=log).run("The capital?")).run_id


async def said(log: Log, run: str) -> list[tuple[str, float, str]]:
    return [(rating.by, rating.value, rating.note) for rating in await ratings(log, run)]


async def test_the_latest_of_each_person_counts_and_the_run_stays_as_it_was(log: Log) -> None:
    run = await ended(log)
    before = await log.read(run)
    await rate(log, run, 0, "It is Oslo")
    await rate(log, run, 1, by=ANN)
    await rate(log, run, 0.5, "well")
    assert await said(log, run) == [("ann", 1.0, ""), ("local", 0.5, "well")]
    assert await log.read(run) == before, "nothing follows a run's end"
    agent = Agent(ScriptedModel([]), log=log)
    assert (await agent.replay(run)).output == "Bergen."
    assert await said(log, await ended(log)) == []


async def test_what_two_say_at_once_is_kept_of_both(log: Log) -> None:
    run = await ended(log)
    people = [Principal(f"p{number}") for number in range(8)]
    await asyncio.gather(*[rate(log, run, 1, by=person) for person in people])
    assert {by for by, _, _ in await said(log, run)} == {person.id for person in people}


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), float("inf")])
async def test_a_value_that_is_none_is_refused(log: Log, value: float) -> None:
    run = await ended(log)
    with pytest.raises(ConfigError, match="from 0"):
        await rate(log, run, value)
    with pytest.raises(ConfigError, match="characters"):
        await rate(log, run, 1, "x" * 2001)
    with pytest.raises(UnknownRun):
        await rate(log, "nobody", 1)
    assert await said(log, run) == []


async def test_a_secret_in_a_note_is_taken_out(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    run = await ended(log)
    monkeypatch.setenv("DEPLOY_PASSWORD", "correct horse battery")
    key, known = "sk-proj-" + "a1B2" * 12, "hunter2hunter2"
    rated = await rate(log, run, 0, f"it used {key} and correct horse battery")
    assert rated.note == "it used [redacted] and [redacted]"
    agent = Agent(ScriptedModel([]), log=log, secrets=[known])
    await rate(log, run, 1, f"with {known}", by=ANN, redactor=agent.redactor)
    notes = ["it used [redacted] and [redacted]", "with [redacted]"]
    assert [note for _, _, note in await said(log, run)] == notes


async def test_what_a_later_release_wrote_is_left_out(log: Log) -> None:
    run = await ended(log)
    await rate(log, run, 1)
    journal = journal_beside(log)
    for number, body in enumerate([b"[]", b'{"by": "ann", "value": 7}', b'{"by": "ann"}']):
        await journal.write(f"rating/{run}", number, [(1, body)])
    await journal.close()
    assert await said(log, run) == [("local", 1.0, "")]


async def test_the_ratings_of_one_person_are_bounded_and_forgotten_with_the_run(log: Log) -> None:
    run = await ended(log)
    journal = journal_beside(log)
    # Earlier releases stored more than the limit. One user's ratings do not block another's.
    body = b'{"by": "ann", "value": 1, "note": ""}'
    await journal.write(f"rating/{run}", -1, [(1, body)] * 1000)
    kept = Ratings(journal)
    with pytest.raises(Refused, match="'ann' rated"):
        await kept.add(run, Rating.create(0, by=ANN))
    for _ in range(MOST_EACH):
        await kept.add(run, Rating.create(0))
    with pytest.raises(Refused, match="100 times"):
        await kept.add(run, Rating.create(0))
    await kept.add(run, Rating.create(0, by=Principal("bob")))
    assert await said(log, run) == [("ann", 1.0, ""), ("local", 0.0, ""), ("bob", 0.0, "")]
    assert await kept.runs() == [run]
    await forget(log, [run])
    assert await said(log, run) == []
    assert await kept.runs() == []
    await journal.close()


class _Plain:
    """A third-party log without a journal."""


async def test_a_log_without_a_journal_has_no_ratings(log: Log) -> None:
    run = await ended(log)
    other: Log = _Plain()  # type: ignore[assignment]
    assert await ratings(other, run) == []
    await forget(other, [run])

"""A run that is cut at any event and resumed ends in the same state, over every log."""

import random
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from taofold import MemoryLog, RunResult
from taofold.core import events as e
from taofold.core.state import ENDED, fold
from taofold.log.log import Log
from taofold.testing.replay import assert_replays

from .kit import LOGS, assert_alike, neutral, planted, settled
from .stories import STORIES, Story, World

pytestmark = pytest.mark.anyio


async def told(story: Story, log: Log) -> tuple[World, list[e.Record], RunResult[Any], Any]:
    """The uncut run: its world, all records of it and its children in order, its result."""
    world, heard = World(), list[Any]()
    agent = story.make(world).replace(log=log)
    options = {"listener": heard.append}
    result = await agent.run("the goal", run_id="r", **options)
    result = await settled(agent, result, story.answer, **options)
    return world, [one for one in heard if isinstance(one, e.Record)], result, agent


def unseen(records: list[e.Record]) -> list[tuple[str, str, int]]:
    """The calls that were started and not observed."""
    open_: dict[tuple[str, str, int], None] = {}
    for record in records:
        event = record.event
        if isinstance(event, e.Started):
            open_[record.run, event.key, event.index] = None
        elif isinstance(event, e.Observed):
            open_.pop((record.run, event.key, event.index), None)
    return list(open_)


def effect_ids(places: list[tuple[str, str, int]]) -> set[str]:
    from hashlib import blake2b

    return {
        blake2b(f"{run}\x1f{key}\x1f{index}".encode(), digest_size=12).hexdigest()
        for run, key, index in places
    }


def started_ids(records: list[e.Record]) -> set[str]:
    return effect_ids(
        [(r.run, r.event.key, r.event.index) for r in records if isinstance(r.event, e.Started)]
    )


@pytest.mark.scenario("TAO-15", "TAG-19", "PEER-05", "RCT-30")
@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
async def test_a_run_cut_at_every_event_and_resumed_ends_in_the_same_state(
    story: Story, log: str, tmp_path: Path
) -> None:
    (tmp_path / "whole").mkdir()
    whole = LOGS[log](tmp_path / "whole")
    world, records, result, agent = await told(story, whole)
    assert result.status == story.expect, result.error
    runs = {record.run for record in records}
    wanted = {run: neutral(fold(await whole.read(run)), story.ordered) for run in runs}
    assert neutral(result.state, story.ordered) == wanted["r"]
    await assert_replays(agent, "r")
    await whole.close()
    step = 1 if log == "memory" else max(1, len(records) // 8)
    for upto in range(1, len(records), step):
        for happened in (True, False):
            part = records[:upto]
            doubtful = effect_ids(unseen(part))
            if not happened and not doubtful:
                continue
            folder = tmp_path / f"{upto}{happened}"
            folder.mkdir()
            cut = await planted(part, LOGS[log](folder))
            before = started_ids(part) - (set() if happened else doubtful)
            past = World({k: v for k, v in world.done.items() if k in before})
            await resumed_alike(story, agent, cut, past, wanted, f"cut at {upto}: {part[-1]}")
            await cut.close()


async def resumed_alike(
    story: Story, told_by: Any, cut: Log, past: World, wanted: dict[str, Any], where: str
) -> None:
    agent = story.make(past).replace(log=cut)
    remember(agent, told_by)
    state = fold(await cut.read("r"))
    if state.status in ENDED and state.stop_reason not in ("cancelled", "error"):
        assert neutral(state, story.ordered) == wanted["r"], where
        return
    if story.name == "limited" and has_lost_starts(await cut.read("r")):
        return  # a lost start takes one of the calls that the story's limit allows
    result = await agent.resume("r")
    result = await settled(agent, result, story.answer)
    logs = {run: await cut.read(run) for run in wanted}
    assert neutral(result.state, story.ordered) == neutral(fold(logs["r"]), story.ordered), where
    for run, state_wanted in wanted.items():
        log = logs[run]
        assert [record.seq for record in log] == list(range(len(log))), where
        below = [log for name, log in logs.items() if name.startswith(f"{run}.")]
        got = neutral(fold(log), story.ordered)
        assert_alike(got, state_wanted, log, chain(*below), f"{run}, {where}")
    await assert_replays(agent, "r")


def has_lost_starts(records: list[e.Record]) -> bool:
    starts = Counter(
        (r.event.key, r.event.index) for r in records if isinstance(r.event, e.Started)
    )
    ends = {(r.event.key, r.event.index) for r in records if isinstance(r.event, e.Observed)}
    return any(count > 1 or call not in ends for call, count in starts.items())


def remember(agent: Any, told_by: Any) -> None:
    """Gives the models of `agent` and its children the replies of `told_by`."""
    agent.model.known = dict(told_by.model.known)
    agent.model.script = iter(())
    children = [tool.agent for tool in agent.toolset.values() if tool.agent is not None]
    for child in children:
        remember(child, told_by.toolset[child.name].agent)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
async def test_a_run_cut_twice_ends_in_the_same_state(story: Story) -> None:
    world, records, _, agent = await told(story, MemoryLog())
    assert agent.log is not None
    runs = {record.run for record in records}
    wanted = {run: neutral(fold(await agent.log.read(run)), story.ordered) for run in runs}
    dice = random.Random(story.name)
    for _ in range(12):
        upto = dice.randrange(1, len(records))
        part = records[:upto]
        if story.name == "limited" and has_lost_starts(part):
            continue  # a lost start takes one of the calls that the story's limit allows
        past = World({k: v for k, v in world.done.items() if k in started_ids(part)})
        again = await second_life(story, agent, part, past)
        further = dice.randrange(upto, len(again)) if upto < len(again) else upto
        part = again[:further]
        past = World({k: v for k, v in past.done.items() if k in started_ids(part)})
        cut = await planted(part, MemoryLog())
        where = f"cut at {upto}, then at {further}: {part[-1]}"
        await resumed_alike(story, agent, cut, past, wanted, where)
        await cut.close()


async def second_life(
    story: Story, told_by: Any, part: list[e.Record], past: World
) -> list[e.Record]:
    """All records, in order, of a run that was cut and resumed."""
    cut = await planted(part, MemoryLog())
    agent = story.make(past).replace(log=cut)
    remember(agent, told_by)
    state = fold(await cut.read("r"))
    heard: list[Any] = []
    if state.status not in ENDED or state.stop_reason in ("cancelled", "error"):
        result = await agent.resume("r", listener=heard.append)
        await settled(agent, result, story.answer, listener=heard.append)
    await cut.close()
    return [*part, *[one for one in heard if isinstance(one, e.Record)]]

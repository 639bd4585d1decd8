"""A rewound run replays as the records that count, before and after it goes on.

A rewind revokes the end of the run, but not its consumption. Mutants: `ending` returns an end that
was revoked; the consumption of revoked records is restored only with the next record.
"""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from taofold import Agent, Decision, Limits, MemoryLog, ReplayDiverged, tool
from taofold.backtest import StoredAgents
from taofold.backtest.recheck import recheck_run
from taofold.core import events as e
from taofold.core.errors import ModelError
from taofold.core.state import ENDED, fold, live
from taofold.runtime.control import decide
from taofold.runtime.run import rewind
from taofold.testing.replay import assert_replays

from .kit import LOGS, Memo, act, finish, planted
from .payer import agent

pytestmark = pytest.mark.anyio

STEPS = [act("look", what=what) for what in "abcd"]
DOWN = [ModelError("no such key", kind="auth")]
ENDS: dict[str, tuple[list[Any], dict[str, Any], str]] = {
    "finished": ([*STEPS, finish()], {}, "finished"),
    "failed": ([*STEPS, *DOWN], {}, "failed"),
    "steps": ([*STEPS, finish()], {"limits": Limits(steps=3)}, "limited"),
    "tokens": ([*STEPS, finish()], {"limits": Limits(tokens=600)}, "limited"),
    "model calls": ([*STEPS, finish()], {"limits": Limits(model_calls=4)}, "limited"),
}
PLACES = ("start", "middle", "last")
REPORT = [act("look", what="z"), act("pay", amount=1), finish("again")]


@tool(effect="read")
def peek() -> str:
    """Return the same text at each call."""
    return "seen"


async def rewound(one: Agent[Any, Any], run: str, place: str = "start") -> int:
    """Rewinds the run. Returns the event that is its last one now."""
    records = await one.log.read(run)
    steps = [each.seq for each in live(records) if isinstance(each.event, e.Observed)]
    to = {"start": 0, "middle": steps[0] if steps else 0, "last": records[-1].seq}[place]
    return await rewind(one.log, run, to=to, now=records[-1].at)


async def assert_same(
    one: Agent[Any, Any], run: str, caller: Agent[Any, Any] | None = None
) -> None:
    """Checks that neither a replay nor a recheck finds a difference."""
    await assert_replays(one, run)
    checked = await recheck_run(one.log, run, StoredAgents(one.log, lambda _: caller or one))
    assert (checked.difference, checked.unchecked) == (None, "")
    state = fold(await one.log.read(run))
    assert checked.steps == len(state.steps) + len(state.open)


@pytest.mark.parametrize("kind", LOGS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("end", ENDS)
async def test_an_ended_run_is_rewound_twice(
    end: str, place: str, kind: str, tmp_path: Path
) -> None:
    script, options, status = ENDS[end]
    one = agent(*script, log=LOGS[kind](tmp_path), **options)
    assert (await one.run("goal", run_id="r")).status == status
    for _ in range(2):
        await rewound(one, "r", place)
        assert fold(await one.log.read("r")).status not in ENDED
        await assert_same(one, "r")
        done = await one.replace(model=Memo([*STEPS[::-1], finish("again")])).resume("r")
        assert done.status in ENDED
        await assert_same(one, "r")


@pytest.mark.parametrize("kind", LOGS)
@pytest.mark.parametrize("place", ["start", "middle"])
@pytest.mark.parametrize("end", ENDS)
async def test_an_ended_run_is_rewound_and_then_waits(
    end: str, place: str, kind: str, tmp_path: Path
) -> None:
    script, options, status = ENDS[end]
    one = agent(*script, log=LOGS[kind](tmp_path), **options)
    assert (await one.run("goal", run_id="r")).status == status
    await rewound(one, "r", place)
    other = agent(*REPORT, log=one.log, limits=Limits(steps=9))
    waits = await other.resume("r")
    assert waits.status == "waiting"
    await assert_same(other, "r")
    await decide(other.log, waits.pending[0].id, Decision("approve"))
    assert (await other.resume("r")).output == "again"
    await assert_same(other, "r")
    await rewound(other, "r", "last")
    await assert_same(other, "r")


async def test_a_limit_counts_what_was_revoked_at_the_first_step() -> None:
    """Mutant: the first record is restored only with the next one."""
    one = agent(*STEPS, finish(), limits=Limits(tokens=600))
    await one.run("goal", run_id="r")
    await rewound(one, "r")
    done = await one.replace(limits=Limits(tokens=100)).resume("r")
    assert (done.status, len(done.steps)) == ("limited", 0)
    await assert_same(one.replace(limits=Limits(tokens=100)), "r")


@pytest.mark.parametrize("place", PLACES)
async def test_a_run_that_was_handed_over_is_rewound(place: str) -> None:
    log = MemoryLog()
    billing = Agent(Memo([act("peek"), finish("refunded")]), name="billing", tools=[peek], log=log)
    one = Agent(
        Memo([act("peek"), act("transfer_to_billing", reason="it is its work")]),
        name="triage",
        tools=[peek],
        handoffs=[billing],
        log=log,
    )
    assert (await one.run("goal", run_id="r")).output == "refunded"
    for _ in range(2):
        await rewound(one, "r", place)
        await assert_same(one, "r")
    assert (await one.resume("r")).output == "refunded"
    await assert_same(one, "r")


@pytest.mark.parametrize("place", PLACES)
async def test_a_caller_and_its_child_are_rewound(place: str) -> None:
    log = MemoryLog()
    helper = Agent(Memo([act("peek"), finish("found")]), name="helper", tools=[peek], log=log)
    one = Agent(Memo([act("helper", goal="help"), finish()]), tools=[helper], log=log)
    assert (await one.run("goal", run_id="r")).output == "done"
    (child,) = [row.run for row in await log.rows(parent="r")]
    await rewound(helper, child, place)
    await assert_same(helper, child, one)
    await rewound(one, "r", place)
    await assert_same(one, "r")
    assert (await one.resume("r")).output == "done"
    await assert_same(one, "r")


FORGED: dict[str, tuple[type[e.Happened], dict[str, Any]]] = {
    "end": (e.RunFinished, {"output": "gone"}),
    "step": (e.Proposed, {"actions": ()}),
    "verdict": (e.Decided, {"tier": 3}),
    "limit": (e.LimitHit, {"limit": "seconds"}),
}


@pytest.mark.parametrize("what", FORGED)
async def test_a_forgery_after_a_rewind_diverges(what: str) -> None:
    """Mutant: no end is compared after a rewind."""
    kind, changes = FORGED[what]
    one = agent(*STEPS, finish(), limits=Limits(tokens=600))
    await one.run("goal", run_id="r")
    await rewound(one, "r", "middle")
    await one.resume("r")
    await assert_replays(one, "r")
    records = await one.log.read("r")
    place = max([each.seq for each in live(records) if isinstance(each.event, kind)])
    event = replace(records[place].event, **changes)
    records[place] = replace(records[place], event=event)
    forged = one.replace(log=await planted(records, MemoryLog()))
    with pytest.raises(ReplayDiverged):
        await forged.replay("r")
    checked = await recheck_run(forged.log, "r", StoredAgents(forged.log, lambda _: forged))
    assert checked.difference is not None


@pytest.mark.parametrize("to", [0, 4])
async def test_an_end_without_its_steps_diverges_after_a_rewind(to: int) -> None:
    """A forger moves the end behind the rewind that revoked it."""
    one = agent(*STEPS, finish())
    result = await one.run("goal", run_id="r")
    await rewind(one.log, "r", to=to, now=result.records[-1].at)
    records = await one.log.read("r")
    records.append(replace(result.records[-1], seq=len(records)))
    with pytest.raises(ReplayDiverged):
        await one.replace(log=await planted(records, MemoryLog())).replay("r")

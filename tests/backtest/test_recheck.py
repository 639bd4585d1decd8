"""A recheck finds the cause of a change, and nothing in runs that did not change."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec import structs

from taofold import Agent, Decision, Limits, MemoryLog, Policy, Tier, Toolset
from taofold.backtest import StoredAgents
from taofold.backtest.causes import Cause, difference_of
from taofold.backtest.recheck import CheckedRun, RecheckReport, StoredRun, recheck, recheck_run
from taofold.backtest.stored_agents import muted
from taofold.backtest.stored_calls import rows_since
from taofold.core import events as e
from taofold.core.effects import note
from taofold.core.errors import LogError, ReplayDiverged, TaofoldError
from taofold.core.values import Action, Thought
from taofold.log.log import RunRow
from taofold.policy import Ruling, repetition
from taofold.reasoning import react_loop
from taofold.runtime.control import decide
from taofold.runtime.run import rewind
from tests.backtest.corpus import StoredRuns, corpus, further, whole
from tests.runtime.kit import Memo, act, finish, planted, settled
from tests.runtime.stories import STORIES, World, tools
from tests.runtime.test_cut import remember

pytestmark = pytest.mark.anyio


async def replayed(kept: StoredRuns, report: RecheckReport) -> None:
    """Replays all runs of a log. None of them may differ, and the log must stay as it is."""
    rows = await kept.log.rows(limit=0)
    before = [await kept.log.read(row.run) for row in rows]
    async for checked in recheck(
        kept.log, rows_since(kept.log), StoredAgents(kept.log, lambda _: kept.agent)
    ):
        assert checked.difference is None, (kept.name, checked)
        assert not checked.unchecked, (kept.name, checked)
        report.add(checked)
    assert [await kept.log.read(row.run) for row in await kept.log.rows(limit=0)] == before


async def test_no_run_of_any_kind_differs_without_a_change(tmp_path: Path) -> None:
    report = RecheckReport()
    async for kept in corpus(step=2):
        await replayed(kept, report)
    async for kept in further(tmp_path):
        await replayed(kept, report)
    assert report.unchecked == {}
    assert report.runs >= 500
    assert report.steps >= 1_500


async def test_no_run_of_any_kind_differs_after_a_rewind() -> None:
    """Mutant: the end that the rewind revoked is compared."""
    report = RecheckReport()
    for story in STORIES:
        kept, world, records = await whole(story)
        steps = [each.seq for each in records if isinstance(each.event, e.Observed)]
        for to in {0, *steps[-2:]}:
            log = await planted(records, MemoryLog())
            await rewind(log, "r", to=to, now=records[-1].at)
            rewound = kept._replace(log=log)
            await replayed(rewound, report)
            agent = story.make(World(dict(world.done))).replace(log=log)
            remember(agent, kept.agent)
            await settled(agent, await agent.resume("r"), story.answer)
            await replayed(rewound, report)
            await log.close()
        await kept.log.close()
    assert report.unchecked == {}
    assert report.runs >= 2 * len(STORIES)


class Mutant(NamedTuple):
    """A change of the code or of an agent, and the cause that the recheck must name."""

    name: str
    cause: Cause
    change: Callable[[Agent[Any, Any], pytest.MonkeyPatch], Agent[Any, Any]]
    differs: tuple[str, ...]
    """Stories that must differ."""


def with_tool(agent: Agent[Any, Any], name: str, **changes: Any) -> Agent[Any, Any]:
    tools = [
        replace(tool, **changes) if tool.name == name else tool for tool in agent.toolset.values()
    ]
    return agent.replace(tools=[Toolset(tools)])


def without_tool(agent: Agent[Any, Any], name: str) -> Agent[Any, Any]:
    return agent.replace(tools=[Toolset([t for t in agent.toolset.values() if t.name != name])])


def schema(agent: Agent[Any, Any], name: str, **more: Any) -> dict[str, Any]:
    old = agent.toolset[name].schema
    return {**old, "properties": {**old["properties"], **more}}


def patched(module: Any, name: str, make: Callable[[Any], Any]) -> Any:
    def change(agent: Agent[Any, Any], patch: pytest.MonkeyPatch) -> Agent[Any, Any]:
        patch.setattr(module, name, make(getattr(module, name)))
        return agent

    return change


def dropping_rationales(to_action: Any) -> Any:
    return lambda *a: structs.replace(to_action(*a), rationale="")


def reading_no_fence(read: Any) -> Any:
    def reader(text: str, *args: Any, **named: Any) -> Any:
        return read(text.replace("thought", "thoughts"), *args, **named)

    return reader


def asking_nothing(dial: Any) -> Any:
    def ruled(self: Policy, name: str, tier: Any, facts: Any) -> Ruling:
        return replace_ruling(dial(self, name, tier, facts))

    def replace_ruling(ruling: Ruling) -> Ruling:
        return structs.replace(ruling, verdict="allow", reason="")

    return ruled


MUTANTS = [
    Mutant(
        "instructions",
        "prompt",
        lambda agent, _: agent.replace(instructions="Be brief."),
        ("plain", "native", "parked"),
    ),
    Mutant(
        "a text of the release",
        "prompt",
        patched(react_loop.Talk, "correct", lambda old: lambda *a: old(*a[:-1], a[-1] + "!")),
        ("corrected",),
    ),
    Mutant(
        "a lost rationale",
        "parser",
        patched(react_loop, "to_action", dropping_rationales),
        ("plain", "parked"),
    ),
    Mutant(
        "an unread thought",
        "parser",
        patched(react_loop, "read_reply", reading_no_fence),
        ("plain", "corrected"),
    ),
    Mutant(
        "a raised tier",
        "policy",
        lambda agent, _: agent.replace(policy=Policy(tiers={"look": Tier.CONFIRM})),
        ("plain", "native", "parked"),
    ),
    Mutant(
        "a denial",
        "policy",
        lambda agent, _: agent.replace(policy=Policy(deny=frozenset({"look"}))),
        ("plain", "native"),
    ),
    Mutant("the code of the dial", "policy", patched(Policy, "_dial", asking_nothing), ("parked",)),
    Mutant(
        "a lower limit",
        "policy",
        lambda agent, _: agent.replace(limits=Limits(steps=1)),
        ("plain", "native", "parked"),
    ),
    Mutant(
        "a limit of one tool",
        "policy",
        lambda agent, _: agent.replace(limits=Limits(per_tool={"look": 0})),
        ("plain",),
    ),
    Mutant(
        "a parameter",
        "schema",
        lambda agent, _: with_tool(
            agent, "look", schema=schema(agent, "look", depth={"type": "integer"})
        ),
        ("plain", "native", "parked"),
    ),
    Mutant(
        "a type",
        "schema",
        lambda agent, _: with_tool(
            agent, "look", schema=schema(agent, "look", what={"type": "integer"})
        ),
        ("plain", "native"),
    ),
    Mutant(
        "a tool that is gone",
        "schema",
        lambda agent, _: without_tool(agent, "look"),
        ("plain", "native", "parked"),
    ),
    Mutant(
        "the effect of a tool",
        "schema",
        lambda agent, _: with_tool(agent, "look", effect="idempotent", reversible=True),
        ("plain", "native"),
    ),
    Mutant(
        "the answer's type",
        "schema",
        lambda agent, _: agent.replace(output=dict[str, str]),
        ("plain", "native"),
    ),
    Mutant(
        "another strategy",
        "strategy",
        lambda agent, _: agent.replace(strategy="plan"),
        ("plain", "native"),
    ),
    Mutant(
        "a note of the strategy",
        "strategy",
        patched(
            react_loop._Attempts,
            "_ask",
            lambda old: lambda *a: noting(old(*a)),
        ),
        ("plain", "native"),
    ),
    Mutant(
        "a second call of the model",
        "strategy",
        patched(react_loop._Attempts, "_ask", lambda old: lambda *a: twice(old, *a)),
        ("plain", "native"),
    ),
    Mutant(
        "a description",
        "schema",
        lambda agent, _: with_tool(agent, "look", description="Look it up."),
        ("native",),
    ),
    Mutant(
        "a declared tier",
        "policy",
        lambda agent, _: with_tool(agent, "look", tier=Tier.CONFIRM),
        ("plain", "native"),
    ),
    Mutant(
        "the code of the guard",
        "policy",
        patched(repetition, "ALLOWED", lambda _: 1),
        ("looping",),
    ),
]


def twice(asking: Any, *arguments: Any) -> Any:
    yield from asking(*arguments)
    return (yield from asking(*arguments))


def noting(turn: Any) -> Any:
    yield from note("counted", number=1)
    return (yield from turn)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
async def test_a_planted_change_is_found_with_its_cause(
    mutant: Mutant, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = [(await whole(story))[0] for story in STORIES if story.name in mutant.differs]
    for stored in kept:
        with monkeypatch.context() as patch:
            changed = mutant.change(stored.agent, patch)
            agents = StoredAgents(stored.log, lambda _: changed)  # noqa: B023 - used in this pass
            checked = await recheck_run(stored.log, "r", agents)
        assert checked.difference is not None, stored.name
        assert checked.difference.cause == mutant.cause, (stored.name, checked.difference)


async def checked_with(agent: Agent[Any, Any], run: str) -> CheckedRun:
    log = agent.opened_log
    assert log is not None
    return await recheck_run(log, run, StoredAgents(log, lambda _: agent))


async def test_a_new_verdict_is_named_with_its_tool() -> None:
    """Mutant: the event is shown as its repr."""
    agent = Agent(Memo([]), tools=tools(World()))
    step = e.Proposed("2", Thought("t"), (Action("look"), Action("deploy")))
    records = [e.Record("r", n, 0, event) for n, event in enumerate((e.RunStarted(goal="g"), step))]
    now = e.Decided("2", "ask", index=1, reason="tier 2 asks")
    difference = difference_of(ReplayDiverged("2", None, now), records, agent)
    assert (difference.recorded, difference.now) == (
        "none",
        "policy verdict: ask (tool deploy): tier 2 asks",
    )


async def test_a_secret_that_is_known_only_now_is_a_difference_of_the_policy() -> None:
    secret = "correct-horse-battery"
    model = Memo([act("look", what=secret), finish()])
    agent = Agent(model, tools=tools(World()), log=MemoryLog())
    run = (await agent.run("go")).run_id
    checked = await checked_with(agent.replace(secrets=[secret]), run)
    assert checked.difference is not None
    assert checked.difference.cause == "policy"


async def test_a_run_that_was_resumed_with_another_prompt_is_not_replayed() -> None:
    log = MemoryLog()
    agent = Agent(Memo([act("pay", amount=1), finish()]), tools=tools(World()), log=log)
    waiting = await agent.run("go")
    await decide(log, waiting.pending[0].id, Decision("approve"))
    other = Agent(Memo([finish()]), tools=tools(World()), log=log, instructions="Be brief.")
    ended = await other.resume(waiting)
    assert ended.status == "finished"
    for present in (agent, other):
        checked = await checked_with(present, ended.run_id)
        assert "its prompt changed" in checked.unchecked


async def test_a_replay_can_write_nothing_and_call_no_tool() -> None:
    kept, _, records = await whole(next(one for one in STORIES if one.name == "plain"))
    stored = StoredRun(kept.log, "r", records)
    for write in (
        stored.append("r", 1, []),
        stored.claim("r", "me"),
        stored.create(await kept.log.row("r")),
        stored.post("r", None),
        stored.delete("r"),
    ):
        with pytest.raises(LogError, match="writes nothing"):
            await write
    for tool in muted(kept.agent).toolset.values():
        assert tool.preview is None
        assert tool.verify is None
        with pytest.raises(TaofoldError, match="was called while"):
            tool()


async def test_reasons_and_groups_do_not_grow_with_the_log() -> None:
    report = RecheckReport()
    log = MemoryLog()
    agent = Agent(Memo(choose=lambda _: finish()), log=log)
    for number in range(8):
        await agent.run(f"goal {number}")
    changed = agent.replace(instructions="Be brief.")
    async for checked in recheck(log, rows_since(log), StoredAgents(log, lambda _: changed)):
        report.add(checked)
    [(_, group)] = report.ordered()
    assert group.runs == 8
    assert len(group.examples) == 5
    assert report.as_json()["causes"] == {"prompt": 8}


async def test_a_circle_of_callers_is_no_endless_search() -> None:
    log = MemoryLog()
    for run, parent in (("a", "b"), ("b", "a"), ("c", "gone")):
        first = e.Record(run, 0, 1, e.RunStarted(goal="g", parent=parent))
        await log.create(RunRow(run, "running", parent=parent), records=[first])
    agents = StoredAgents(log, lambda _: Agent(Memo([])))
    found = {run: (await recheck_run(log, run, agents)).unchecked for run in "abc"}
    assert "circle" in found["a"]
    assert "circle" in found["b"]
    assert found["c"] == "its calling run is not in the log"

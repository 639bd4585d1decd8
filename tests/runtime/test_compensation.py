"""Effects outside of the files are undone when a run is rewound: asked, recorded, at most once.

Mutants: the start of an undoing is not recorded before it; the first call is undone first; a fork
undoes the effects of its source; a declined or failed undoing drops the effect from the list.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from taofold import Agent, Approval, Tool, tool
from taofold.clocks import clock
from taofold.core import events as e
from taofold.core.file_states import effects_after
from taofold.log.memory import MemoryLog
from taofold.policy.redaction import Redactor
from taofold.runtime import run as runs
from taofold.runtime.compensation import compensate, undoable
from taofold.runtime.ledger import Park
from taofold.runtime.time_travel import _not_undone, look_back
from taofold.testing import ScriptedModel

pytestmark = pytest.mark.anyio


def act(name: str, **parameters: Any) -> str:
    return json.dumps(
        {"thought": f"I call {name}.", "action": {"tool": name, "parameters": parameters}}
    )


@dataclass
class World:
    """A server with orders, its tools and the log of a run that placed three orders."""

    log: MemoryLog = field(default_factory=MemoryLog)
    orders: list[str] = field(default_factory=list[str])
    undone: list[str] = field(default_factory=list[str])
    fails: str = ""

    def tools(self) -> dict[str, Tool]:
        def cancel(parameters: dict[str, Any], result: Any) -> None:
            if parameters["item"] == self.fails:
                raise ValueError("it is on its way")
            self.undone.append(f"{parameters['item']} {result}")

        @tool(effect="once", tier=1, reversible=True, compensate=cancel)
        def order(item: str) -> str:
            "Orders an item."
            self.orders.append(item)
            return f"number {len(self.orders)}"

        @tool(effect="once", tier=1, reversible=True)
        def shout(text: str) -> str:
            "Shouts."
            return "heard"

        return {"order": order, "shout": shout}

    async def run(self) -> None:
        script = [
            act("order", item="tea"),
            act("shout", text="hey"),
            act("order", item="milk"),
            act("order", item="salt"),
            act("finish", answer="ok"),
        ]
        agent: Agent[Any, str] = Agent(
            ScriptedModel(script), tools=list(self.tools().values()), log=self.log
        )
        await agent.run("Order.", run_id="r")

    async def rewind(self, approve: Callable[[Approval], Any], run: str = "r") -> list[str]:
        """Rewinds to the start; returns the effects that stay."""
        past = await look_back(self.log, run, 0)
        kept: list[str] = []

        async def restore(append: Any) -> None:
            effects = await compensate(past, self.tools(), approve, append, Redactor())
            kept.extend([effect.line for effect in effects])

        await runs.rewind(self.log, run, to=0, now=clock(), restore=restore)
        return kept

    async def statuses(self, run: str = "r") -> list[str]:
        records = await self.log.read(run)
        return [it.event.status for it in records if isinstance(it.event, e.Compensated)]


@pytest.fixture
async def world() -> World:
    world = World()
    await world.run()
    return world


async def test_effects_are_undone_in_reverse_order_and_recorded(world: World) -> None:
    shown: list[str] = []

    def approve(request: Approval) -> bool:
        shown.append(request.preview)
        return True

    assert await world.rewind(approve) == ['step 2: shout text="hey"']
    assert world.undone == ["salt number 3", "milk number 2", "tea number 1"]
    assert shown[0] == 'undo step 4: order item="salt"'
    assert await world.statuses() == ["started", "done"] * 3


async def test_a_declined_effect_stays_and_is_listed(world: World) -> None:
    kept = await world.rewind(lambda request: request.action.parameters["item"] == "milk")
    assert world.undone == ["milk number 2"]
    assert [line.split(": ")[1] for line in kept] == [
        'order item="tea"',
        'shout text="hey"',
        'order item="salt"',
    ]
    assert await world.statuses() == ["declined", "started", "done", "declined"]


async def test_a_missing_answer_is_no_decision(world: World) -> None:
    def nobody(request: Approval) -> bool:
        raise Park(request.waits_for)

    assert len(await world.rewind(nobody)) == 4
    assert world.undone == []
    assert await world.statuses() == []


async def test_a_failed_undoing_stays_listed_and_the_others_go_on(world: World) -> None:
    world.fails = "milk"
    kept = await world.rewind(lambda request: True)
    assert [line.split(": ")[1] for line in kept] == ['shout text="hey"', 'order item="milk"']
    assert world.undone == ["salt number 3", "tea number 1"]
    records = await world.log.read("r")
    failed = [
        it.event
        for it in records
        if isinstance(it.event, e.Compensated) and it.event.status == "failed"
    ]
    assert "it is on its way" in failed[0].why


async def test_an_interrupted_undoing_is_never_repeated() -> None:
    """The process ends after the start of the undoing is on record."""
    world = World()
    await world.run()
    past = await look_back(world.log, "r", 0)

    class Killed(BaseException):
        pass

    async def restore(append: Any) -> None:
        count = 0

        async def until_started(event: e.Event) -> None:
            nonlocal count
            count += 1
            await append(event)
            if count == 1:
                raise Killed

        await compensate(past, world.tools(), lambda _: True, until_started, Redactor())

    with pytest.raises(Killed):
        await runs.rewind(world.log, "r", to=0, now=clock(), restore=restore)
    assert await world.statuses() == ["started"]
    records = await world.log.read("r")
    without = [it for it in records if not isinstance(it.event, e.Rewound)]
    doubtful = [it for it in effects_after(without, 0) if it.undo]
    assert [it.line for it in doubtful] == [
        'step 4: order item="salt", whose undoing was interrupted and may have happened'
    ]


async def test_a_fork_does_not_undo_the_effects_of_its_source(world: World) -> None:
    await runs.fork(world.log, "r", "f", now=clock())
    kept = await world.rewind(lambda request: True, "f")
    assert len(kept) == 4
    assert world.undone == []


async def test_the_effects_of_child_runs_are_undone_in_the_order_of_time(world: World) -> None:
    """Mutants: the events are ordered by their numbers in each log; the undoing of a child's call
    is recorded as one of the parent's.
    """
    world = World()
    tools = world.tools()
    inner: Agent[Any, Any] = Agent(
        ScriptedModel([act("order", item="salt"), act("finish", answer="ok")]),
        name="inner",
        tools=[tools["order"]],
    )
    helper: Agent[Any, Any] = Agent(
        ScriptedModel(
            [
                act("shout", text="a"),
                act("shout", text="b"),
                act("order", item="milk"),
                act("inner", goal="Order."),
                act("finish", answer="ok"),
            ]
        ),
        name="helper",
        tools=[*tools.values(), inner],
    )
    agent: Agent[Any, Any] = Agent(
        ScriptedModel(
            [
                act("order", item="tea"),
                act("helper", goal="Order."),
                act("order", item="rice"),
                act("finish", answer="ok"),
            ]
        ),
        tools=[*tools.values(), helper],
        log=world.log,
    )
    await agent.run("Order.", run_id="r")

    async def rewind(approve: Callable[[Approval], Any]) -> list[str]:
        past = await look_back(world.log, "r", 0)
        kept: list[str] = []

        async def restore(append: Any) -> None:
            effects = await compensate(past, agent.toolset, approve, append, Redactor())
            kept.extend([effect.line for effect in effects])
            await append(e.Restored(step=0))

        await runs.rewind(world.log, "r", to=0, now=clock(), restore=restore)
        return kept

    before = await look_back(world.log, "r", 0)
    assert [effect.line for effect in before.effects] == [
        'step 1: order item="tea"',
        'helper: step 1: shout text="a"',
        'helper: step 2: shout text="b"',
        'helper: step 3: order item="milk"',
        'helper: inner: step 1: order item="salt"',
        'step 3: order item="rice"',
    ]
    kept = ['helper: step 1: shout text="a"', 'helper: step 2: shout text="b"']
    assert await rewind(lambda request: True) == kept
    assert [line.split()[0] for line in world.undone] == ["rice", "salt", "milk", "tea"]
    recorded = [it.event for it in await world.log.read("r") if isinstance(it.event, e.Compensated)]
    children = {row.run for row in await world.log.rows(limit=0)} - {"r"}
    assert {event.run for event in recorded} == {"", *children}


async def test_a_childs_effect_whose_undoing_was_interrupted_is_not_tried_again() -> None:
    world = World()
    helper: Agent[Any, Any] = Agent(
        ScriptedModel([act("order", item="milk"), act("finish", answer="ok")]),
        name="helper",
        tools=[world.tools()["order"]],
    )
    agent: Agent[Any, Any] = Agent(
        ScriptedModel([act("helper", goal="Order."), act("finish", answer="ok")]),
        tools=[helper],
        log=world.log,
    )
    await agent.run("Order.", run_id="r")
    [effect] = (await look_back(world.log, "r", 0)).effects

    async def interrupted(append: Any) -> None:
        event = e.Compensated(
            key=effect.key, start=effect.seq, status="started", index=effect.index, run=effect.run
        )
        await append(event)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await runs.rewind(world.log, "r", to=0, now=clock(), restore=interrupted)
    records = await world.log.read("r")
    [again] = _not_undone(records, [effect])
    assert again.undo == "started"
    assert not undoable(again, "r", agent.toolset)
    statuses = [it.event for it in records if isinstance(it.event, e.Compensated)]
    assert [(it.status, it.run) for it in statuses] == [("started", effect.run)]


async def test_an_undone_call_of_a_child_hides_no_call_of_its_parent(world: World) -> None:
    """Their events may have equal numbers."""
    records = await world.log.read("r")
    first = effects_after(records, 0)[0]
    event = e.Compensated(key="0", start=first.seq, status="done", run="child")
    more = [*records, e.Record("r", records[-1].seq + 1, 0, event)]
    assert effects_after(more, 0)[0] == first

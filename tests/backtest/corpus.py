"""Stored runs of every kind: whole ones, and ones that were cut by a crash and resumed."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from taofold import (
    AddMessage,
    Agent,
    Decision,
    Hook,
    Limits,
    MemoryLog,
    Policy,
    Reject,
    RunContext,
    Tier,
    tool,
)
from taofold.core import events as e
from taofold.log.log import Log
from taofold.runtime.control import decide, steer
from taofold.tools import ModelQuestion
from tests.files.flow.test_resuming import agent as flow_agent
from tests.runtime.kit import Memo, act, finish, planted, settled
from tests.runtime.stories import STORIES, Story, World
from tests.runtime.test_cut import effect_ids, remember, started_ids, told, unseen


class StoredRuns(NamedTuple):
    """A log with the runs of one story, and its agent."""

    name: str
    log: Log
    agent: Agent[Any, Any]


async def whole(story: Story) -> tuple[StoredRuns, World, list[e.Record]]:
    """Runs the story to its end."""
    log = MemoryLog()
    world, records, _, agent = await told(story, log)
    return StoredRuns(story.name, log, agent), world, records


async def corpus(step: int = 3) -> AsyncIterator[StoredRuns]:
    """Yields each story whole, then cut at every `step`-th event, left there and resumed.

    Each log is closed behind its story: a server has fewer connections than there are stories.
    """
    for story in STORIES:
        kept, world, records = await whole(story)
        yield kept
        await kept.log.close()
        for upto in range(1, len(records), step):
            part = records[:upto]
            cut = await planted(part, MemoryLog())
            yield StoredRuns(f"{story.name}, cut at {upto}", cut, kept.agent)
            await cut.close()
            doubtful = effect_ids(unseen(part))
            before = started_ids(part) - (set() if upto % 2 else doubtful)
            past = World({k: v for k, v in world.done.items() if k in before})
            again = await planted(part, MemoryLog())
            agent = story.make(past).replace(log=again)
            remember(agent, kept.agent)
            try:
                result = await agent.resume("r")
                await settled(agent, result, story.answer)
            except Exception:
                pass
            yield StoredRuns(f"{story.name}, resumed at {upto}", again, agent)
            await again.close()


class Quoting(Memo):
    """A script whose tools may ask the model, too."""

    def __init__(self, *script: Any) -> None:
        super().__init__(
            script,
            choose=lambda request: (
                "so it is" if "Q:" in str(request.conversation[-1].content) else None
            ),
        )


@tool(effect="read")
async def ponder(ctx: RunContext[Any], about: str) -> str:
    """Ask the model."""
    assert ctx.sample is not None
    first = await ctx.sample(ModelQuestion(f"Q: {about}", system="Be brief."))
    again = await ctx.sample(ModelQuestion(f"Q: {about}, really"))
    return f"{first.text} {again.text}"


@tool(effect="once", tier=2)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


class Guard(Hook):
    """Adds a message to the second model call, and rejects a large payment."""

    def before_model(self, context: Any, request: Any) -> Any:
        return AddMessage("mind the gap") if len(request.conversation) > 3 else None

    def before_tool(self, context: Any, action: Any) -> Any:
        return Reject("too much") if action.parameters.get("amount", 0) > 5 else None


async def further(folder: Path) -> AsyncIterator[StoredRuns]:
    """Yields sessions, steered runs, questions of tools, hooks, notebooks, children and flows."""
    log = MemoryLog()
    chat = Agent(Memo([act("pay", amount=1), finish("a"), finish("b"), "prose"]), tools=[pay])
    chat = chat.replace(log=log, approve="all")
    for goal in ("one", "two", "three"):
        await chat.run(goal, session="s", tags={"k": "v"}, data={"n": 1})
    yield StoredRuns("session", log, chat)

    log = MemoryLog()
    steered = Agent(Memo([act("pay", amount=1), finish()]), tools=[pay], log=log)
    waiting = await steered.run("go")
    await steer(log, waiting.run_id, "use euros")
    await decide(log, waiting.pending[0].id, Decision("edit", parameters={"amount": 2}))
    await steered.resume(waiting)
    yield StoredRuns("steered", log, steered)

    log = MemoryLog()
    asking = Agent(Quoting(act("ponder", about="x"), finish()), tools=[ponder], log=log)
    await asking.run("go")
    yield StoredRuns("a tool's questions", log, asking)

    log = MemoryLog()
    hooked = Agent(
        Memo([act("pay", amount=9), act("pay", amount=2), finish()]),
        tools=[pay],
        hooks=[Guard()],
        approve="all",
        log=log,
    )
    await hooked.run("go")
    yield StoredRuns("hooks", log, hooked)

    log = MemoryLog()
    noting = Agent(
        Memo([act("remember", text="tea at four"), finish(), act("recall", query="tea"), finish()]),
        memory=True,
        approve="all",
        log=log,
    )
    await noting.run("keep it")
    await noting.run("when is tea")
    yield StoredRuns("notebook", log, noting)

    log = MemoryLog()
    child = Agent(
        Memo([act("pay", amount=3), act("pay", amount=4), finish("paid")]),
        tools=[pay],
        name="payer",
    )
    strict = Agent(
        Memo([act("payer", goal="pay"), act("payer", goal="again"), finish()]),
        tools=[child],
        policy=Policy(tiers={"pay": Tier.CONFIRM}, autonomy="conservative"),
        limits=Limits(tool_calls=3, per_tool={"pay": 1}),
        approve="all",
        log=log,
    )
    await strict.run("go")
    yield StoredRuns("a child under a stricter policy", log, strict)

    log = MemoryLog()
    many = [replace(pay, name=f"pay_{n}", description=f"Pay in {n}.") for n in range(60)]
    found = Agent(
        Memo([act("search_tools", query="pay in 7"), act("pay_7", amount=1), finish()]),
        tools=many,
        tool_search=True,
        approve="all",
        log=log,
    )
    await found.run("go")
    yield StoredRuns("a search of tools", log, found)

    log = MemoryLog()
    helper = Agent(Memo([act("pay", amount=7), finish("helped")]), tools=[pay], name="helper")
    billing = Agent(
        Memo([act("pay", amount=8), act("helper", goal="help"), finish("billed")]),
        tools=[pay, helper],
        name="billing",
        policy=Policy(tiers={"pay": Tier.CONFIRM}),
    )
    desk = Agent(
        Memo([act("pay", amount=1), act("transfer_to_billing", reason="a bill")]),
        tools=[pay],
        handoffs=[billing],
        name="desk",
        approve="all",
        log=log,
    )
    await desk.run("go")
    yield StoredRuns("a hand-off", log, desk)

    log = MemoryLog()
    flow = flow_agent(folder).replace(log=log)
    await settled(flow, await flow.run("the goal"))
    yield StoredRuns("flow", log, flow)

    for strategy in ("direct", "cot", "self_correct", "decompose", "plan"):
        log = MemoryLog()
        other = Agent(Memo(choose=lambda _: finish()), strategy=strategy, log=log)
        await other.run("go")
        yield StoredRuns(strategy, log, other)

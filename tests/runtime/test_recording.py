"""Records of a run's earlier activations: which are kept and which are decided again."""

import asyncio
from typing import Any

import pytest

from taofold import Agent, Limits, MemoryLog, Policy, tool
from taofold.core import events as e
from taofold.core.content import Conversation, Message
from taofold.core.effects import Answer, Ask, Begin, Halt, Outlook, Strategy, fork
from taofold.core.values import Reply
from taofold.reasoning import Task
from taofold.runtime.model import Request
from taofold.testing import FunctionModel
from taofold.tools import InputRequired

from .kit import Memo, act, batch, events, finish, planted

pytestmark = pytest.mark.anyio
RAN: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    RAN.clear()


@tool(effect="idempotent", tier=1, reversible=True)
def look(what: str) -> str:
    """Look."""
    RAN.append(f"seen {what}")
    return "seen"


@tool(effect="once", tier=1, reversible=True)
def pay(amount: int) -> str:
    """Pay."""
    RAN.append(f"paid {amount}")
    return "paid"


def agent(*script: str, **options: Any) -> Any:
    return Agent(Memo(script), tools=[look, pay], log=MemoryLog(), **options)


async def cut_after(records: list[e.Record], kind: type[e.Happened]) -> MemoryLog:
    """A log that ends with the first record of `kind`, as a crash would have left it."""
    last = next(n for n, record in enumerate(records) if isinstance(record.event, kind))
    log = MemoryLog()
    await planted(records[: last + 1], log)
    return log


async def test_a_verdict_that_the_policy_no_longer_gives_is_replaced_on_record() -> None:
    """Mutant: `overrule` removes nothing, so the log shows the denied call as allowed."""
    one = agent(act("pay", amount=1), finish(), finish())
    result = await one.run("goal", run_id="r")
    RAN.clear()
    log = await cut_after(list(result.records), e.Decided)
    resumed = await one.replace(log=log, policy=Policy(deny=frozenset({"pay"}))).resume("r")
    assert RAN == []
    assert [event.verdict for event in events(resumed, e.Decided)] == ["allow", "deny"]
    assert events(resumed, e.Observed)[0].observation.refused == "denied"


async def test_a_call_that_was_denied_stays_so_though_the_policy_would_allow_it_now() -> None:
    """Mutant: no call counts as settled, so the denied one is on record as started."""
    calls = batch(("pay", {"amount": 1}), ("look", {"what": "b"}))
    one = agent(calls, finish(), finish(), policy=Policy(deny=frozenset({"pay"})))
    result = await one.run("goal", run_id="r")
    RAN.clear()
    log = await cut_after(list(result.records), e.Observed)
    resumed = await one.replace(log=log, policy=Policy()).resume("r")
    assert RAN == ["seen b"]
    decided = [(event.index, event.verdict) for event in events(resumed, e.Decided)]
    assert decided == [(0, "deny"), (1, "allow")]
    assert [event.index for event in events(resumed, e.Started)] == [1]
    assert [o.refused for o in resumed.steps[0].observations] == ["denied", ""]


async def test_a_run_that_waits_in_the_middle_of_a_call_replays() -> None:
    """Mutant: what was asked in the middle of the call is left over, and counts as a divergence."""

    @tool(effect="idempotent", tier=1, reversible=True)
    def paint(wall: str) -> str:
        """Paint."""
        raise InputRequired(f"which colour for {wall}?", form={"type": "object"})

    one: Any = Agent(Memo([act("paint", wall="it")]), tools=[paint], log=MemoryLog())
    result = await one.run("goal", run_id="r")
    assert result.status == "waiting"
    assert [event.verdict for event in events(result, e.Decided)] == ["allow", "ask"]
    await one.replay("r")


async def test_a_replay_of_branches_ends_each_at_the_limit_that_it_had() -> None:
    """Mutant: a replay counts what was spent, in another order of the branches than the run had."""

    async def reply(request: Request) -> Reply:
        if request.conversation[-1].text == "slow":
            await asyncio.sleep(0.2)
        return Reply("x")

    def together(task: Task) -> Strategy[Answer]:
        del task

        def branch(speed: str) -> Strategy[Answer]:
            try:
                while True:
                    outlook: Outlook = yield Begin()
                    if outlook.stop:
                        return Answer(None, outlook.stop)
                    yield Ask(Conversation([Message("user", speed)]))
            except Halt as halt:
                return Answer(None, halt.reason)

        yield from fork([branch("slow"), branch("quick")])
        return Answer("done")

    one: Any = Agent(FunctionModel(reply), limits=Limits(model_calls=3), strategy=together)
    result = await one.run("goal")
    assert {event.key.split(".")[1] for event in events(result, e.LimitHit)} == {"0", "1"}
    await one.replay(result)


async def test_of_two_questions_of_a_batch_an_older_log_may_hold_the_first_alone() -> None:
    """Older releases asked one question after the other. A missing question was never asked."""
    one = agent(
        batch(("look", {"what": "a"}), ("pay", {"amount": 1})),
        policy=Policy(autonomy="conservative"),
    )
    result = await one.run("goal", run_id="r")
    assert [request.action.tool for request in result.pending] == ["look", "pay"]
    asked = [record for record in result.records if isinstance(record.event, e.Decided)]
    older = [record for record in result.records if record != asked[1]]
    renumbered = [e.Record(r.run, seq, r.at, r.event) for seq, r in enumerate(older)]
    await one.replace(log=await planted(renumbered, MemoryLog())).replay("r")

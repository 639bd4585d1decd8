"""Ends of an activation and the start of the next one: parking, messages that arrive in between."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from taofold import Agent, Decision, Limits, MemoryLog, tool
from taofold.core import events as e
from taofold.core.content import Conversation
from taofold.core.effects import Act, Answer, Ask, Fork
from taofold.core.errors import Conflict, Refused
from taofold.core.values import Action, Message, Thought
from taofold.log.log import Signal
from taofold.runtime.control import cancel, decide, steer
from taofold.runtime.ownership import LEASE_MS
from taofold.testing.replay import assert_replays

from .kit import Memo, act, events, finish

pytestmark = pytest.mark.anyio
PAID: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_paid() -> None:
    PAID.clear()


@tool(tier=3)
def pay(amount: int) -> str:
    """Pay."""
    PAID.append(amount)
    return f"paid {amount}"


def agent(*script: Any, **options: Any) -> Agent[Any, Any]:
    options.setdefault("log", MemoryLog())
    options.setdefault("tools", [pay])
    return Agent(Memo(script), **options)


class Busy(MemoryLog):
    """A log that receives a message just before the run parks, a given number of times."""

    def __init__(self, times: int, kind: str = "steer") -> None:
        super().__init__()
        self.times, self.kind, self.parked = times, kind, 0

    async def append(self, run: str, epoch: int, records: Any, **how: Any) -> Any:
        if how.get("status") == "waiting":
            self.parked += 1
            if self.times:
                self.times -= 1
                data = {"text": f"hurry {self.times}"}
                signal = Signal(f"m{self.times}", self.kind, "ann", 1, data)
                await self.post(run, signal)
        return await super().append(run, epoch, records, **how)


@pytest.mark.parametrize("times", [1, 2])
async def test_a_message_that_comes_right_before_the_run_parks_is_read_first(times: int) -> None:
    log = Busy(times)
    one = agent(act("pay", amount=1), finish(), log=log)
    result = await one.run("x", run_id="r")
    assert (result.status, len(result.pending)) == ("waiting", 1)
    said = [event.text for event in events(result, e.Steered)]
    assert said == [f"hurry {number}" for number in reversed(range(times))]
    assert await log.inbox("r") == []
    assert log.parked == times + 1
    assert (result.state.model_calls, result.usage.tokens) == (1, 110)
    await decide(log, result.pending[0].id, Decision("approve"))
    done = await one.resume(result)
    assert (done.status, PAID) == ("finished", [1])
    await assert_replays(one, done)


async def test_who_cancels_right_before_the_run_parks_is_obeyed() -> None:
    log = Busy(1, "cancel")
    result = await agent(act("pay", amount=1), log=log).run("x", run_id="r")
    assert (result.status, result.error) == ("cancelled", "cancelled by ann")
    assert PAID == []


@pytest.mark.parametrize(
    ("kind", "data", "read"),
    [
        ("decide", {"seq": 9_999, "verdict": "allow"}, "refused"),
        ("answer", {"seq": 9_999, "text": "blue"}, "refused"),
        ("decide", {"verdict": "allow"}, "refused"),
    ],
)
async def test_a_decision_on_what_is_not_open_is_told_to_whoever_made_it(
    kind: str, data: Mapping[str, Any], read: str
) -> None:
    """The decision opens no action and does not keep the run awake."""
    log = MemoryLog()
    one = agent(act("pay", amount=1), finish(), log=log)
    result = await one.run("x", run_id="r")
    await log.post("r", Signal("late", kind, "ann", 7, dict(data)))
    again = await one.resume(result)
    assert (again.status, PAID) == ("waiting", [])
    assert await log.inbox("r") == []
    [refused] = events(again, e.DecisionRefused)
    assert (refused.by, refused.why, refused.at) == ("ann", "it was resolved already", 7)
    assert refused.id == f"r:{data.get('seq')}"
    # An open action still accepts a decision.
    await decide(log, again.pending[0].id, Decision("approve"))
    done = await one.resume(again)
    assert PAID == [1]
    await assert_replays(one, done)


async def test_a_message_of_another_kind_answers_no_question() -> None:
    log = MemoryLog()
    one = agent(act("pay", amount=1), finish(), log=log)
    result = await one.run("x", run_id="r")
    seq = int(result.pending[0].id.rpartition(":")[2])
    for number, kind in enumerate(("steer", "refused")):
        data = {"seq": seq, "verdict": "allow", "text": "do it"}
        await log.post("r", Signal(f"m{number}", kind, "ann", 7, data))
    again = await one.resume(result)
    assert (again.status, PAID) == ("waiting", [])
    assert [event.text for event in events(again, e.Steered)] == ["do it"]


def twice(task: Any) -> Any:
    """A strategy that does not know of limits."""
    conversation = Conversation([Message("user", "hi")])
    yield Ask(conversation)
    yield Ask(conversation)
    return Answer("unreachable")


@pytest.mark.parametrize(
    ("limits", "reason"),
    [(Limits(model_calls=1), "max_model_calls"), (Limits(tokens=100), "max_tokens")],
)
async def test_a_limit_in_a_strategy_that_knows_none_ends_the_run_as_limited(
    limits: Limits, reason: str
) -> None:
    one = agent(finish(), strategy=twice, limits=limits)
    result = await one.run("x")
    assert (result.status, result.success, result.output_or_none) == ("limited", False, None)
    assert result.stop_reason == reason
    assert "raise limits." in result.error
    await assert_replays(one, result)


async def test_what_another_process_drives_is_left_to_it_unless_it_is_taken_over() -> None:
    log = MemoryLog()
    one = agent(act("pay", amount=1), finish(), log=log)
    await one.run("x", run_id="r")
    await log.claim("r", "elsewhere|1|2|own|ab", lease_ms=LEASE_MS)
    with pytest.raises(Conflict, match="is being driven by"):
        await one.resume("r")
    taken = await one.resume("r", takeover=True)
    assert taken.status == "waiting"


async def test_a_task_that_is_cancelled_says_so_in_the_log() -> None:
    log, started = MemoryLog(), asyncio.Event()

    @tool(effect="read")
    async def wait() -> str:
        """Wait."""
        started.set()
        await asyncio.sleep(60)
        return "never"

    task = asyncio.create_task(agent(act("wait"), log=log, tools=[wait]).run("x", run_id="r"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    records = await log.read("r")
    last = records[-1].event
    assert isinstance(last, e.RunFinished)
    assert (last.status, last.stop_reason) == ("cancelled", "interrupted")
    assert (await log.row("r")).status == "cancelled"


async def test_steering_at_a_fork_is_heard_and_a_branch_that_waits_parks_them_all() -> None:
    def branch(amount: int) -> Any:
        seen = yield Act(Thought("t"), (Action("pay", {"amount": amount}, "r"),), planned=True)
        return str(seen[0].result)

    def forked(task: Any) -> Any:
        answers = yield Fork((branch(1), branch(2)))
        return Answer(", ".join(answers))

    log = MemoryLog()
    one = agent(strategy=forked, log=log)
    result = await one.run("x", run_id="r")
    assert result.status == "waiting"
    assert sorted([each.action.parameters["amount"] for each in result.pending]) == [1, 2]
    await steer(log, "r", "hurry")
    await decide(log, result.pending[0].id, Decision("approve"))
    result = await one.resume(result)
    assert (result.status, len(PAID)) == ("waiting", 1)
    assert [event.text for event in events(result, e.Steered)] == ["hurry"]
    await decide(log, result.pending[0].id, Decision("approve"))
    done = await one.resume(result)
    assert (done.output, sorted(PAID)) == ("paid 1, paid 2", [1, 2])
    await assert_replays(one, done)


async def test_a_run_that_waits_is_cancelled_with_its_children_and_a_second_time_refused() -> None:
    log = MemoryLog()
    helper = Agent(Memo([act("pay", amount=1)]), name="helper", tools=[pay])
    one = Agent(Memo([act("helper", goal="g"), finish()]), tools=[helper], log=log)
    result = await one.run("x", run_id="r")
    [row] = await log.rows(parent="r", limit=0)
    assert (result.status, row.status) == ("waiting", "waiting")
    await cancel(log, "r")
    assert {each.status for each in await log.rows(limit=0)} == {"cancelled"}
    with pytest.raises(Refused, match="already ended as cancelled"):
        await cancel(log, "r")

"""Many goals: in order, some at once, resumed by name, none stopped by another."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from taofold import Agent, Decision, MemoryLog, decide, tool
from taofold.agent import RunResult
from taofold.agent.batch import BatchState, Failure
from taofold.core.errors import ConfigError, LogError, ModelError
from taofold.core.events import Replied
from taofold.core.values import Reply, Usage
from taofold.testing import FunctionModel, ScriptedModel

pytestmark = pytest.mark.anyio


def echo(
    asked: list[str], together: asyncio.Barrier | None = None, most: list[int] | None = None
) -> FunctionModel:
    """Answers with the goal in capitals. `together` is the number of concurrent requests."""
    running = 0

    async def reply(request: Any) -> Reply:
        nonlocal running
        running += 1
        goal = request.conversation[-1].text.split("\n")[0]
        asked.append(goal)
        if together is not None:
            await together.wait()
        if most is not None:
            most.append(running)
        running -= 1
        return Reply(goal.upper(), usage=Usage(10, 1))

    return FunctionModel(reply, usd=(1_000.0, 0.0))


async def test_results_have_the_order_of_the_goals_and_some_run_at_once() -> None:
    most: list[int] = []
    goals = [f"goal {n}" for n in range(9)]
    agent = Agent(echo([], asyncio.Barrier(3), most), strategy="direct")
    async with asyncio.timeout(60):  # of two at once neither would ever go on
        batch = await agent.map(goals, concurrency=3)
    assert max(most) == 3
    assert batch.outputs == [goal.upper() for goal in goals]
    assert batch.statuses == {"finished": 9}
    assert batch.usage.tokens == 99
    assert batch.summary.startswith("9 goals: 9 finished; 99 tokens, $0.09")


@pytest.mark.parametrize("kind", ["memory", "file"])
async def test_the_same_batch_again_asks_only_for_what_is_missing(
    kind: str, tmp_path: Path
) -> None:
    asked: list[str] = []
    log = MemoryLog() if kind == "memory" else str(tmp_path / "a.db")
    agent = Agent(echo(asked), strategy="direct", log=log)
    first = await agent.map(["a", "b"], name="survey")
    again = await agent.map(["new", "b", "a"], name="survey")
    assert (first.outputs, again.outputs) == (["A", "B"], ["NEW", "B", "A"])
    assert first.summary.startswith("2 goals: 2 finished; ")
    assert again.summary.startswith("3 goals: 3 finished (2 of them earlier); ")
    # Goals that run at once have no order among themselves.
    assert (sorted(asked[:2]), asked[2:]) == (["a", "b"], ["new"])
    other = await agent.map(["a"], name="another")
    assert (other.outputs, len(asked)) == (["A"], 4)
    twice = await agent.map(["b", "b"], name="survey")
    assert (twice.outputs, len(asked)) == (["B", "B"], 5)


async def test_answers_of_another_agent_are_not_taken_for_this_ones() -> None:
    log = MemoryLog()
    first = Agent(echo([]), strategy="direct", log=log)
    await first.map(["a"], name="s")
    others = {
        "the model 'scripted": first.replace(model=ScriptedModel(["x"])),
        "the agent 'agent', not 'b'": first.replace(name="b"),
        "other instructions": first.replace(instructions="Be brief."),
    }
    for complaint, other in others.items():
        with pytest.raises(ConfigError, match=r"'s' has runs of .*: take another name") as error:
            await other.map(["a"], name="s")
        assert complaint.split(" 'scripted")[0] in str(error.value)
    assert (await first.map(["a"], name="s")).outputs == ["A"]


async def test_what_failed_for_an_outage_is_tried_again() -> None:
    model = ScriptedModel([ModelError("503"), ModelError("503"), "yes", "yes"])
    agent = Agent(model, strategy="direct", log=MemoryLog())
    down = await agent.map(["a", "b"], name="s", concurrency=1)
    assert down.statuses == {"failed": 2}
    up = await agent.map(["a", "b"], name="s", concurrency=1)
    assert (up.outputs, up.kept) == (["yes", "yes"], 0)
    assert (await agent.map(["a", "b"], name="s")).kept == 2


async def test_what_was_interrupted_is_carried_on() -> None:
    hold = asyncio.Event()

    async def slow(_: Any) -> str:
        hold.set()
        await asyncio.Event().wait()
        return "never"

    log = MemoryLog()
    task = asyncio.create_task(Agent(FunctionModel(slow), log=log).map(["a"], name="s"))
    await hold.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    (row,) = await log.rows()
    assert row.status == "cancelled"

    batch = await Agent(ScriptedModel(["done"]), log=log).map(["a"], name="s")
    assert batch.outputs == ["done"]
    assert len(await log.rows()) == 1


def test_ctrl_c_at_the_terminal_says_how_to_go_on_and_ends_the_script(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pressed = False

    async def reply(request: Any) -> Reply:
        nonlocal pressed
        if "c" in request.conversation[-1].text.split("\n")[0] and not pressed:
            pressed = True
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(30)
        return Reply("done")

    agent = Agent(FunctionModel(reply), strategy="direct", log="memory")
    options: dict[str, Any] = {"name": "survey", "concurrency": 1, "progress": "terminal"}
    with pytest.raises(KeyboardInterrupt) as caught:
        agent.map_sync(["a", "b", "c", "d"], **options)
    assert isinstance(caught.value, SystemExit)
    assert caught.value.code == 130
    text = capsys.readouterr().err
    assert "2 of 4 runs ended, what was done is kept; the same call with name='survey'" in text
    batch = agent.map_sync(["a", "b", "c", "d"], **options)
    assert (batch.outputs, batch.kept) == (["done"] * 4, 2)


async def test_a_run_that_fails_stops_no_other() -> None:
    class Broken(MemoryLog):
        async def create(self, row: Any, **named: Any) -> Any:
            if row.goal == "b":
                raise LogError("the disk is full")
            return await super().create(row, **named)

    agent = Agent(echo([]), strategy="direct", log=Broken())
    batch = await agent.map(["a", "b", "c"], name="s")
    assert batch.outputs == ["A", None, "C"]
    failure = batch.results[1]
    assert isinstance(failure, Failure)
    assert "disk is full" in str(failure.error)
    assert batch.statuses == {"finished": 2, "failed": 1}


def dear(asked: list[str], together: asyncio.Barrier | None = None) -> FunctionModel:
    """Returns a model whose call costs one dollar. Its estimated maximum is 1.02 dollars."""

    async def reply(request: Any) -> Reply:
        asked.append(request.conversation[-1].text.split("\n")[0])
        if together is not None:
            await together.wait()
        return Reply("Done.", usage=Usage(0, 100))

    return FunctionModel(reply, usd=(0.0, 10_000.0))


def payer(model: FunctionModel, **more: Any) -> Agent[Any, str]:
    return Agent(model, strategy="direct", max_tokens=102, **more)


async def test_no_goal_is_begun_once_the_money_is_spent() -> None:
    batch = await payer(dear([])).map(list("abcdef"), concurrency=1, usd=2)
    assert batch.statuses == {"finished": 1, "waiting": 1, "not begun": 4}
    assert batch.usage.usd == 1
    batch = await payer(dear([])).map(list("ab"), concurrency=1, usd=2.02)
    assert batch.statuses == {"finished": 2}


async def test_runs_at_once_do_not_spend_the_same_money() -> None:
    # Three calls fit at once. The fourth waits until one of them has cost less than its estimate.
    asked: list[str] = []
    batch = await payer(dear(asked, asyncio.Barrier(2))).map(list("abcdef"), usd=4.05)
    assert len(asked) == 4
    assert batch.usage.usd == 4
    assert batch.statuses["finished"] == 4


async def test_a_run_that_the_money_stopped_goes_on_with_more() -> None:
    asked: list[str] = []
    agent = payer(dear(asked), log="memory")
    first = await agent.map(list("abc"), name="s", concurrency=1, usd=1.5)
    waits = first.results[1]
    assert isinstance(waits, RunResult)
    assert (waits.status, waits.stop_reason) == ("waiting", "batch_usd")
    again = await agent.map(list("abc"), name="s", concurrency=1, usd=1.5)
    assert asked == ["a"]  # what an earlier call spent counts
    assert again.statuses == {"finished": 1, "waiting": 1, "not begun": 1}
    last = await agent.map(list("abc"), name="s", concurrency=1, usd=3.05)
    assert asked == ["a", "b", "c"]
    assert last.statuses == {"finished": 3}


async def test_what_the_agents_of_a_batch_ask_others_is_paid_from_it_too() -> None:
    inner = payer(dear([]), name="inner")
    calls = [
        '{"thought": "t", "actions": [{"tool": "inner", "parameters": {"goal": "x"}}]}',
        '{"thought": "t", "actions": [{"tool": "finish", "parameters": {"answer": "ok"}}]}',
    ]
    agent = Agent(ScriptedModel(calls * 3), tools=[inner], log="memory")
    batch = await agent.map(list("abc"), name="s", concurrency=1, usd=1.5)
    assert batch.statuses == {"finished": 1, "waiting": 1, "not begun": 1}
    assert agent.opened_log is not None
    rows = await agent.opened_log.rows(limit=0)
    costs = [await agent.opened_log.read(row.run) for row in rows]
    replies = [record.event for records in costs for record in records]
    assert sum([event.usage.usd for event in replies if isinstance(event, Replied)]) == 1


async def test_what_a_child_that_is_not_over_has_cost_counts_in_the_next_call() -> None:
    asked: list[int] = []

    def look_again(request: Any) -> Reply:
        asked.append(len(request.conversation))
        call = '{"thought": "t", "actions": [{"tool": "look", "parameters": {"at": %d}}]}'
        return Reply(call % len(asked), usage=Usage(0, 100))

    @tool(effect="read")
    def look(at: int) -> str:
        """Look."""
        return str(at)

    inner = Agent(FunctionModel(look_again, usd=(0.0, 10_000.0)), name="inner", max_tokens=102)
    inner = inner.replace(tools=[look])
    call = '{"thought": "t", "actions": [{"tool": "inner", "parameters": {"goal": "x"}}]}'
    agent = Agent(ScriptedModel([call]), tools=[inner], log="memory")
    first = await agent.map(["a"], name="s", usd=1.5)
    assert first.statuses == {"waiting": 1}
    assert first.usage.usd == 0  # as far as the parent's state knows
    assert len(asked) == 1
    await agent.map(["a"], name="s", usd=1.5)
    assert len(asked) == 1
    await agent.map(["a"], name="s", usd=2.5)
    assert len(asked) == 2


async def test_dollars_of_a_batch_need_a_price() -> None:
    asked: list[str] = []
    model = FunctionModel(lambda request: asked.append("x") or "y", usd=None)
    with pytest.raises(ConfigError, match="needs the price"):
        await Agent(model, strategy="direct").map(["a"], usd=1)
    assert asked == []


async def test_progress_is_told_after_each_run() -> None:
    heard: list[BatchState] = []
    await Agent(echo([]), strategy="direct").map(list("abc"), progress=heard.append)
    assert [(state.done, state.total) for state in heard] == [(1, 3), (2, 3), (3, 3)]
    assert heard[-1].usage.tokens == 33
    assert heard[-1].last == "finished"


async def test_a_bar_is_drawn_at_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    await Agent(echo([]), strategy="direct").map(list("abc"), progress="terminal")
    assert "$0.03" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": "s"}, "needs a log"),
        ({"concurrency": 0}, "1 or more"),
        ({"progress": "bar"}, "'terminal'"),
    ],
)
async def test_what_cannot_work_is_refused_before_the_first_run(
    options: dict[str, Any], words: str
) -> None:
    asked: list[str] = []
    with pytest.raises(ConfigError, match=words):
        await Agent(echo(asked)).map(["a"], **options)
    assert asked == []


async def test_an_empty_goal_is_refused_and_none_is_none() -> None:
    assert (await Agent(echo([])).map([])).results == []
    with pytest.raises(ConfigError, match="empty"):
        await Agent(echo([])).map(["a", ""])


async def test_a_text_is_not_taken_for_a_list_of_goals() -> None:
    with pytest.raises(ConfigError, match="write \\['abc'\\]"):
        await Agent(echo([]), strategy="direct").map("abc")


async def test_a_run_that_waits_goes_on_once_a_person_has_answered() -> None:
    """Mutant: a waiting run is read from the log like an ended one."""
    paid: list[int] = []

    @tool(effect="once", tier=3)
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    def reply(request: Any) -> str:
        if any(message.role == "assistant" for message in request.conversation):
            return '{"thought": "t", "action": {"tool": "finish", "parameters": {"answer": "ok"}}}'
        return '{"thought": "t", "action": {"tool": "pay", "parameters": {"amount": 1}}}'

    log = MemoryLog()
    agent = Agent(FunctionModel(reply), tools=[pay], log=log)
    first = await agent.map(["a", "b"], name="s")
    assert first.statuses == {"waiting": 2}
    one, other = first.results
    assert isinstance(one, RunResult)
    assert isinstance(other, RunResult)
    before = await log.read(other.run_id)
    await decide(log, one.pending[0].id, Decision("approve"))
    again = await agent.map(["a", "b"], name="s")
    assert again.statuses == {"finished": 1, "waiting": 1}
    assert again.outputs[0] == "ok"
    assert paid == [1]
    assert await log.read(other.run_id) == before, "without an answer nothing happens"

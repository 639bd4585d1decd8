"""Steering, questions, cancelling, sessions: what people do to a run from outside."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from taofold import Agent, Decision, MemoryLog, tool
from taofold.core import events as e
from taofold.core.errors import Conflict, LogError, Refused
from taofold.core.state import fold
from taofold.core.values import Principal
from taofold.log.log import RunRow
from taofold.runtime.control import cancel, decide, pending, steer
from taofold.testing import FunctionModel
from taofold.testing.replay import assert_replays

from .kit import LOGS, Memo, act, batch, events, finish, planted
from .payer import RAN, agent, look

pytestmark = pytest.mark.anyio


@pytest.mark.scenario("PEER-28")
@pytest.mark.parametrize("log", LOGS)
async def test_a_running_run_reads_what_it_is_told_once(log: str, tmp_path: Path) -> None:
    store = LOGS[log](tmp_path)

    @tool(effect="read")
    async def work() -> str:
        """Work."""
        await steer(store, "r", "use the blue one", by=Principal("local"))
        return "worked"

    one = agent(act("work"), act("look"), finish(), tools=[work, look], log=store)
    result = await one.run("goal", run_id="r")
    said = "[message from local] use the blue one"
    heard = [sum(said in m.content for m in asked) for asked in one.model.asked]
    assert heard == [0, 1, 1]
    assert [s.text for s in events(result, e.Steered)] == ["use the blue one"]
    assert await store.inbox("r") == []
    await assert_replays(one, result)


@pytest.mark.scenario("PEER-28")
async def test_a_waiting_run_can_be_steered_and_goes_on_waiting() -> None:
    one = agent(act("pay", amount=1), act("look"), finish())
    result = await one.run("goal")
    await steer(one.log, result.run_id, "hurry")
    await steer(one.log, result.run_id, "hurry", message_id="same")
    with pytest.raises(Refused):
        await steer(one.log, result.run_id, "hurry", message_id="same")
    still = await asyncio.wait_for(one.resume(result), 5)
    assert still.status == "waiting"
    await decide(one.log, still.pending[0].id, Decision("approve"))
    done = await asyncio.wait_for(one.resume(result), 5)
    assert done.success
    assert RAN[0] == 1
    assert sum("hurry" in m.content for m in one.model.asked[1]) == 2
    assert await one.log.inbox(result.run_id) == []
    await assert_replays(one, done)


async def test_nobody_steers_what_has_ended() -> None:
    one = agent(finish())
    result = await one.run("goal")
    with pytest.raises(Refused, match="ended"):
        await steer(one.log, result.run_id, "late")
    with pytest.raises(Refused, match="ended"):
        await cancel(one.log, result.run_id)


@pytest.mark.scenario("PEER-29")
@pytest.mark.parametrize("log", LOGS)
async def test_a_question_waits_and_any_process_continues_with_the_answer(
    log: str, tmp_path: Path
) -> None:
    first = agent(
        act("ask_user", question="Which colour?"),
        finish("blue it is"),
        ask_user=True,
        log=LOGS[log](tmp_path),
    )
    result = await first.run("goal", run_id="r")
    assert result.stop_reason == "awaiting_input"
    assert result.pending[0].question == "Which colour?"
    other = first if log == "memory" else first.but(log=LOGS[log](tmp_path))
    one = (await pending(other.log))[0]
    await decide(other.log, one.id, Decision("answer", answer="blue"))
    done = await other.resume("r")
    assert done.output == "blue it is"
    assert done.steps[0].observations[0].result == "blue"
    assert done.steps[0].observations[0].auto, "nobody took an extraction from it"
    assert "blue" in other.model.asked[-1][-1].content
    await assert_replays(other, done)


async def test_a_callback_answers_the_question_in_process() -> None:
    one = agent(
        act("ask_user", question="?"),
        finish(),
        ask_user=True,
        approve=lambda request: Decision("allow", answer=f"re {request.question}"),
    )
    result = await one.run("goal")
    assert result.steps[0].observations[0].result == "re ?"


@pytest.mark.scenario("PEER-24", "RCT-23")
async def test_after_a_cancellation_nothing_starts_and_the_state_is_kept() -> None:
    log = MemoryLog()

    async def reply(request: Any) -> str:
        if len(request.conversation) > 3:
            await cancel(log, "r", by=Principal("boss"))
        return act("look", what=f"n{len(request.conversation)}")

    one = Agent(FunctionModel(reply), tools=[look], log=log)
    result = await one.run("goal", run_id="r")
    assert (result.status, result.stop_reason) == ("cancelled", "cancelled")
    assert len(RAN) == 1
    assert len(result.steps) == 1
    assert "boss" in result.error
    assert await log.inbox("r") == []
    assert fold(await log.read("r")).status == "cancelled"


async def test_a_cancellation_between_calls_of_a_batch_stops_the_second() -> None:
    log = MemoryLog()

    @tool(effect="read", sequential=True)
    async def stop() -> str:
        """Cancel."""
        await cancel(log, "r")
        return "told"

    one = agent(batch(("stop", {}), ("look", {})), finish(), tools=[stop, look], log=log)
    result = await one.run("goal", run_id="r")
    assert result.status == "cancelled"
    assert RAN == []


async def test_a_cancelled_run_can_be_resumed_and_is_not_cancelled_again() -> None:
    log = MemoryLog()
    one = agent(act("look", what="a"), act("look", what="b"), finish(), log=log)

    async def cancelling(request: Any) -> str:
        await cancel(log, "r")
        return act("look", what="a")

    first = await one.but(model=FunctionModel(cancelling, name="memo:model")).run("g", run_id="r")
    assert first.status == "cancelled"
    done = await one.resume("r")
    assert done.success


async def test_a_waiting_run_is_cancelled_without_anybody_driving_it() -> None:
    one = agent(act("pay", amount=1), finish())
    result = await one.run("goal")
    await cancel(one.log, result.run_id)
    assert (await one.log.row(result.run_id)).status == "cancelled"
    assert await pending(one.log, result.run_id) == []
    with pytest.raises(Refused):
        await decide(one.log, result.pending[0].id, Decision("approve"))


async def test_a_cancelled_task_keeps_what_was_done() -> None:
    entered = asyncio.Event()

    @tool(effect="read")
    async def hang() -> str:
        """Hang."""
        entered.set()
        await asyncio.Event().wait()
        return ""

    one = agent(act("look"), act("hang"), tools=[look, hang])
    task = asyncio.create_task(one.run("goal", run_id="r"))
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    state = fold(await one.log.read("r"))
    assert state.status == "cancelled"
    assert len(state.steps) == 1
    assert state.open


@pytest.mark.scenario("PEER-33")
@pytest.mark.parametrize("log", LOGS)
async def test_a_session_carries_the_conversation_over(log: str, tmp_path: Path) -> None:
    one = agent(finish("My name is Ann."), finish("You said Ann."), log=LOGS[log](tmp_path))
    await one.run("Who are you?", session="s")
    await one.run("What did you say?", session="s")
    said = [m.content for m in one.model.asked[1]]
    assert said[1:] == ["Who are you?", "My name is Ann.", "What did you say?"]
    await one.but(model=Memo([finish()])).run("alone", session="other")
    assert len(one.model.asked) == 2


@pytest.mark.scenario("PEER-33")
async def test_a_session_has_one_run_at_a_time() -> None:
    one = agent(act("pay", amount=1), finish(), finish())
    waiting = await one.run("goal", session="s")
    with pytest.raises(Conflict, match="has not ended"):
        await one.run("another", session="s")
    await decide(one.log, waiting.pending[0].id, Decision("approve"))
    await one.resume(waiting)
    assert (await one.run("another", session="s")).success


async def test_one_process_drives_a_run_once() -> None:
    entered, release = asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def hang() -> str:
        """Hang."""
        entered.set()
        await release.wait()
        return "x"

    one = agent(act("hang"), finish(), tools=[hang])
    task = asyncio.create_task(one.run("goal", run_id="r"))
    await entered.wait()
    with pytest.raises(Conflict, match="driven"):
        await one.resume("r")
    with pytest.raises(Conflict, match="already a run"):
        await one.run("goal", run_id="r")
    release.set()
    assert (await task).success


async def test_a_run_that_was_registered_and_never_written_can_be_started() -> None:
    one = agent(finish())
    await one.log.create(RunRow("r", "running", "goal"))
    assert (await one.run("goal", run_id="r")).success


async def test_a_finished_run_cannot_be_resumed() -> None:
    one = agent(finish())
    result = await one.run("goal")
    with pytest.raises(Refused, match="fork"):
        await one.resume(result)


async def test_a_run_that_is_damaged_does_not_hide_what_others_ask() -> None:
    log = MemoryLog()
    waiting = await agent(act("pay", amount=1), log=log).run("goal")
    broken = (e.RunStarted(goal="g"), e.Started(key="7"), e.Parked(reason="awaiting_approval"))
    await planted([e.Record("broken", seq, seq, event) for seq, event in enumerate(broken)], log)
    assert [asked.id for asked in await pending(log)] == [waiting.pending[0].id]
    with pytest.raises(LogError, match="7"):
        await pending(log, "broken")

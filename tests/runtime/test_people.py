"""Steering, questions, cancelling, sessions: what people do to a run from outside."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from taofold import Agent, Decision, MemoryLog, Policy, tool
from taofold.core import events as e
from taofold.core.errors import ConfigError, Conflict, LogError, Refused
from taofold.core.state import fold
from taofold.core.values import Principal
from taofold.runtime.control import cancel, decide, pending, steer
from taofold.runtime.model import Request
from taofold.testing import FunctionModel
from taofold.testing.replay import assert_replays
from tests.ports import PATIENCE

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
    still = await asyncio.wait_for(one.resume(result), PATIENCE)
    assert still.status == "waiting"
    await decide(one.log, still.pending[0].id, Decision("approve"))
    done = await asyncio.wait_for(one.resume(result), PATIENCE)
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
    other = first if log == "memory" else first.replace(log=LOGS[log](tmp_path))
    one = (await pending(other.log))[0]
    await decide(other.log, one.id, Decision("answer", answer="blue"))
    done = await other.resume("r")
    assert done.output == "blue it is"
    assert done.steps[0].observations[0].result == "blue"
    assert done.steps[0].observations[0].auto, "nobody took an extraction from it"
    assert "blue" in other.model.asked[-1][-1].content
    await assert_replays(other, done)


async def test_a_question_that_is_not_offered_is_an_unknown_action() -> None:
    one = agent(act("ask_user", question="Which colour?"), finish("grey"))
    result = await one.run("goal")
    assert result.output == "grey"
    refused = result.steps[0].observations[0]
    assert refused.refused == "unknown"
    assert "unknown tool 'ask_user'; available tools: look, pay" in str(refused.result)
    await assert_replays(one, result)


async def test_a_batch_with_a_question_that_is_not_offered_asks_about_what_is_behind_it() -> None:
    one = agent(batch(("pay", {"amount": 1}), ("ask_user", {}), ("pay", {"amount": 2})), finish())
    result = await one.run("goal")
    assert [request.action.tool for request in result.pending] == ["pay", "pay"]


async def test_a_map_without_ask_user_never_waits_for_an_answer() -> None:
    def reply(request: Request) -> str:
        return finish() if len(request.conversation) > 2 else act("ask_user", question="?")

    batch_ = await Agent(Memo(choose=reply)).map(["a", "b"])
    assert batch_.statuses == {"finished": 2}


@pytest.mark.parametrize("offered", [True, False])
async def test_a_timeout_suggests_a_question_only_where_one_is_offered(offered: bool) -> None:
    @tool(effect="read", timeout=0.01)
    async def hang() -> str:
        """Never returns."""
        await asyncio.Event().wait()
        return ""

    one = agent(act("hang"), finish(), tools=[hang], ask_user=offered)
    observation = (await one.run("goal")).steps[0].observations[0]
    assert observation.status == "timeout"
    assert ("ask_user" in " ".join(observation.options)) is offered
    assert ("ask_user" in str(observation.result)) is offered


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

    first = await one.replace(model=FunctionModel(cancelling, name="memo:model")).run(
        "g", run_id="r"
    )
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
    await one.replace(model=Memo([finish()])).run("alone", session="other")
    assert len(one.model.asked) == 2


@pytest.mark.scenario("PEER-33")
async def test_a_session_has_one_run_at_a_time() -> None:
    one = agent(act("pay", amount=1), finish(), finish())
    waiting = await one.run("goal", session="s")
    with pytest.raises(Conflict, match=r"waits \(awaiting_approval\)"):
        await one.run("another", session="s", if_waiting="refuse")
    assert (await one.log.row(waiting.run_id)).status == "waiting"
    await decide(one.log, waiting.pending[0].id, Decision("approve"))
    await one.resume(waiting)
    assert (await one.run("another", session="s")).success


@pytest.mark.parametrize("log", LOGS)
async def test_a_new_message_answers_the_question_of_its_session(log: str, tmp_path: Path) -> None:
    one = agent(
        act("ask_user", question="Which?"), finish("blue"), ask_user=True, log=LOGS[log](tmp_path)
    )
    waiting = await one.run("paint it", session="s")
    done = await one.run("the blue one", session="s")
    assert (done.run_id, done.output) == (waiting.run_id, "blue")
    assert done.steps[0].observations[0].result == "the blue one"
    await assert_replays(one, done)


@pytest.mark.parametrize("log", LOGS)
async def test_a_new_message_withdraws_the_approval_of_its_session(
    log: str, tmp_path: Path
) -> None:
    one = agent(act("pay", amount=1), finish("hello"), log=LOGS[log](tmp_path))
    waiting = await one.run("pay it", session="s")
    done = await one.run("never mind, say hello", session="s")
    assert (done.output, RAN) == ("hello", [])
    assert done.run_id != waiting.run_id
    before = await one.result(waiting.run_id)
    assert (before.status, before.pending) == ("cancelled", ())
    assert "withdrawn" in before.error
    assert [m.role for m in one.model.asked[1]] == ["system", "user", "assistant", "user"]
    assert "[no answer: withdrawn" in one.model.asked[1][2].content
    with pytest.raises(Refused):
        await decide(one.log, waiting.pending[0].id, Decision("approve"))


async def test_a_question_is_withdrawn_where_the_message_is_to_begin_anew() -> None:
    one = agent(act("ask_user", question="Which?"), finish(), ask_user=True)
    waiting = await one.run("paint it", session="s")
    done = await one.run("stop", session="s", if_waiting="withdraw")
    assert done.run_id != waiting.run_id
    assert (await one.result(waiting.run_id)).status == "cancelled"


@pytest.mark.parametrize("if_waiting", ["answer", "withdraw", "refuse"])
async def test_an_expired_approval_frees_its_session_without_a_server(
    if_waiting: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = agent(act("pay", amount=1), finish(), policy=Policy(approve_seconds=60))
    waiting = await one.run("goal", session="s")
    later = (waiting.pending[0].expires_at + 1) * 1_000_000
    monkeypatch.setattr(time, "time_ns", lambda: later)
    assert (await one.run("another", session="s", if_waiting=if_waiting)).success
    assert (await one.result(waiting.run_id)).status == "cancelled"
    assert RAN == []


async def test_what_a_message_does_to_a_waiting_run_is_one_of_three() -> None:
    wrong: Any = "queue"
    with pytest.raises(ConfigError, match="if_waiting: is one of 'answer', 'withdraw', 'refuse'"):
        await agent(finish()).run("goal", session="s", if_waiting=wrong)


async def test_an_agent_steers_and_cancels_its_runs() -> None:
    one = agent(act("pay", amount=1), finish())
    waiting = await one.run("goal")
    await one.steer(waiting, "hurry")
    assert [signal.data["text"] for signal in await one.log.inbox(waiting.run_id)] == ["hurry"]
    assert await one.cancel(waiting.run_id)
    assert (await one.result(waiting.run_id)).status == "cancelled"
    with pytest.raises(Refused, match="ended"):
        await one.cancel(waiting)
    with pytest.raises(Refused, match="ended"):
        await one.steer(waiting, "late")


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

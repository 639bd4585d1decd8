"""Late, odd or badly timed user input neither loses the run nor runs an unapproved call."""

import asyncio
import threading
from typing import Any

import pytest

from taofold import Agent, Approval, Decision, Limits, MemoryLog, Policy, decide, tool
from taofold.runtime.control import pending, steer
from taofold.testing import ScriptedModel
from taofold.testing.replay import assert_replays
from tests.deadlines import LoopClock
from tests.ports import PATIENCE

from .kit import act, finish

pytestmark = pytest.mark.anyio
PAID: list[int] = []


@pytest.fixture(autouse=True)
def nothing_paid() -> None:
    PAID.clear()


@tool(effect="once", tier=3)
def pay(euros: int = 1) -> str:
    """Pay."""
    PAID.append(euros)
    return "paid"


def payer(*script: str, **options: Any) -> Agent:
    options.setdefault("tools", [pay])
    return Agent(ScriptedModel([*script, finish()]), log=MemoryLog(), **options)


async def test_steering_a_run_whose_child_waits_parks_again_instead_of_spinning() -> None:
    child = Agent(ScriptedModel([act("pay"), finish()]), tools=[pay], name="clerk")
    parent = payer(act("clerk", goal="pay"), tools=[child.as_tool()], approve=None)
    waiting = await parent.run("pay", run_id="r")
    assert waiting.status == "waiting"
    await steer(waiting.log, "r", "hurry up")
    again = await asyncio.wait_for(parent.resume(waiting), PATIENCE)
    assert again.status == "waiting"
    assert PAID == []


@pytest.mark.scenario("RCT-16")
async def test_a_callback_that_answers_after_the_expiry_is_too_late() -> None:
    async def slow(_: Approval) -> bool:
        await asyncio.sleep(0.2)
        return True

    one = payer(act("pay"), approve=slow, policy=Policy(approve_seconds=0.05))
    result = await one.run("pay")
    assert PAID == []
    assert "expired" in str(result.steps[0].observations[0].result)
    await assert_replays(
        payer(act("pay"), approve=slow, policy=Policy(approve_seconds=0.05)), result
    )


@pytest.mark.parametrize(
    "decision",
    [
        Decision("approved"),
        Decision("yes"),
        Decision("void"),
        Decision("allow", by=None),  # type: ignore[arg-type]
        Decision("allow", digest="another"),
    ],
)
async def test_a_decision_that_makes_no_sense_denies_and_the_log_stays_readable(
    decision: Decision,
) -> None:
    one = payer(act("pay"), approve=lambda _: decision)
    result = await one.run("pay")
    assert PAID == []
    assert result.steps[0].observations[0].refused == "denied"
    assert len(await result.log.read(result.run_id)) == len(result.records)


@pytest.mark.scenario("TAO-10", "PEER-04")
async def test_a_once_tool_that_timed_out_is_not_repeated_unasked() -> None:
    clock, ended = LoopClock(), threading.Event()

    @tool(effect="once", reversible=True, tier=1, timeout=60)
    def slow_pay() -> str:
        """Pay slowly."""
        PAID.append(1)
        clock.jump(90)
        ended.wait(PATIENCE)
        return "paid"

    script = (act("slow_pay"), act("slow_pay", timeout_s=50))
    one = payer(*script, tools=[slow_pay], limits=Limits(steps=6))
    result = await one.run("pay")
    ended.set()
    assert PAID == [1]
    first = result.steps[0].observations[0]
    assert first.status == "timeout"
    assert not any("longer" in option for option in first.options)
    assert result.status == "waiting"


@pytest.mark.parametrize("nested", [False, True])
async def test_a_run_that_is_cut_off_while_it_asks_waits_for_the_answer(nested: bool) -> None:
    """Ctrl-C at the question. Mutant: the run is cancelled, and its question with it."""
    asked = asyncio.Event()

    async def nobody(_: Approval) -> bool:
        asked.set()
        await asyncio.Event().wait()
        return True

    def made(**options: Any) -> Agent:
        if not nested:
            return payer(act("pay"), **options)
        clerk = Agent(ScriptedModel([act("pay"), finish()]), tools=[pay], name="clerk")
        return payer(act("clerk", goal="pay"), tools=[clerk.as_tool()], **options)

    first = made(approve=nobody)
    log = first.opened_log
    running = asyncio.ensure_future(first.run("pay", run_id="r"))
    await asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    waiting = await first.result("r")
    assert (waiting.status, waiting.stop_reason) == ("waiting", "awaiting_approval")
    (request,) = await pending(log, "r")
    await decide(log, request.id, Decision("approve"))
    async with asyncio.timeout(PATIENCE):
        again = await first.replace(approve=None).resume("r")
    assert again.status == "finished"
    assert PAID == [1]


async def test_a_run_that_is_cut_off_after_the_answer_does_not_wait_for_it() -> None:
    inside = asyncio.Event()

    @tool(effect="idempotent", tier=3)
    async def slow() -> str:
        """Work."""
        inside.set()
        await asyncio.Event().wait()
        return "done"

    one = payer(act("slow"), tools=[slow], approve="all")
    running = asyncio.ensure_future(one.run("pay", run_id="r"))
    await inside.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await one.result("r")).status == "cancelled"

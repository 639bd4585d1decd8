"""Instructions that are a function of the run's context: called once, recorded, read again."""

import asyncio
import os
import sys
from typing import Any

import pytest

from taofold import Agent, ConfigError, Limits, Principal, RunContext, tool
from taofold.testing.models import ScriptedModel

pytestmark = pytest.mark.anyio

ASK = '{"thought":"t","action":{"tool":"pay","parameters":{"amount":1}}}'
DONE = '{"thought":"d","action":{"tool":"finish","parameters":{"answer":"ok"}}}'
SECRET = "correct-horse-battery"


@tool(effect="once", tier=3)
def pay(amount: int) -> str:
    """Pay."""
    return "paid"


class Counting:
    """Instructions that would be others at each call."""

    def __init__(self) -> None:
        self.calls: list[RunContext[Any]] = []

    def __call__(self, ctx: RunContext[Any]) -> str:
        self.calls.append(ctx)
        return f"Call {len(self.calls)} for {ctx.deps} and {ctx.principal.id}: {ctx.goal}."


async def test_a_function_writes_the_instructions_from_deps_goal_and_principal() -> None:
    model, write = ScriptedModel([DONE]), Counting()
    agent = Agent(model, instructions=write, tools=[pay], log="memory")
    result = await agent.run("pay", deps="Ada", principal=Principal("bo"), data={"a": [1]})
    text = "Call 1 for Ada and bo: pay."
    assert text in (await agent.prompts(result))[0].system
    assert result.state.started is not None
    assert result.state.started.settings["instructions"] == text
    assert (write.calls[0].run_id, write.calls[0].data) == (result.run_id, {"a": [1]})


async def test_an_async_function_is_awaited() -> None:
    async def write(ctx: RunContext) -> str:
        await asyncio.sleep(0)
        return "Be brief."

    agent = Agent(ScriptedModel([DONE]), instructions=write, tools=[pay], log="memory")
    result = await agent.run("pay")
    assert "Be brief." in (await agent.prompts(result))[0].system


async def test_replay_resume_and_fork_see_the_text_that_was_recorded() -> None:
    """Mutant: the task takes what the function writes now."""
    model, write = ScriptedModel([ASK, DONE, DONE]), Counting()
    agent = Agent(model, instructions=write, tools=[pay], log="memory")
    waiting = await agent.run("pay", deps="Ada")
    assert waiting.status == "waiting"
    result = await agent.replace(approve="all").resume(waiting)
    assert result.output == "ok"
    assert not [r for r in result.records if type(r.event).__name__ == "PromptChanged"]
    await agent.replay(result)
    fork = await agent.fork(result)
    systems = [p.system for run in (result, fork) for p in await agent.prompts(run)]
    assert len(write.calls) == 1
    assert all("Call 1 for Ada" in text for text in systems)


async def test_a_run_that_is_begun_and_advanced_has_one_text() -> None:
    write = Counting()
    agent = Agent(ScriptedModel([DONE]), instructions=write, tools=[pay], log="memory")
    run = await agent.begin("pay", deps="Ada")
    await agent.advance(run, deps="Eve")
    assert "Call 1 for Ada" in (await agent.prompts(run))[0].system
    assert len(write.calls) == 1


async def test_a_secret_in_the_text_reaches_neither_the_log_nor_the_model() -> None:
    def write(ctx: RunContext) -> str:
        return f"Use {SECRET}."

    agent = Agent(ScriptedModel([DONE]), instructions=write, tools=[pay], secrets=[SECRET])
    result = await agent.replace(log="memory").run("pay")
    assert result.state.started is not None
    assert result.state.started.settings["instructions"] == "Use [redacted]."


class Stopped(BaseException):
    """A BaseException that is neither an Exception nor an exit."""


def exits(ctx: RunContext) -> str:
    sys.exit(3)


async def exits_later(ctx: RunContext) -> str:
    sys.exit(3)


def fails(ctx: RunContext) -> str:
    raise ValueError("no such user")


def cancels(ctx: RunContext) -> str:
    raise asyncio.CancelledError


def stops(ctx: RunContext) -> str:
    raise Stopped


def iterates(ctx: RunContext) -> str:
    raise StopIteration


def nothing(ctx: RunContext) -> Any:
    return None


async def hangs(ctx: RunContext) -> str:
    await asyncio.Event().wait()
    return ""


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (exits, "raised SystemExit: 3"),
        (exits_later, "raised SystemExit: 3"),
        (fails, "raised ValueError: no such user"),
        (cancels, "raised CancelledError"),
        (stops, "raised Stopped"),
        (iterates, "StopIteration"),
        (nothing, "returned None, not a text"),
        (hangs, "took longer than 0.01 s"),
        (lambda: "", "raised TypeError"),
    ],
)
async def test_a_function_that_fails_is_a_configuration_error_and_no_run(
    write: Any, said: str
) -> None:
    """Mutant: only `Exception` is caught."""
    model = ScriptedModel([DONE])
    # Only the function that never ends may reach the timeout.
    limits = Limits(seconds=0.01) if write is hangs else Limits()
    agent = Agent(model, instructions=write, limits=limits, log="memory")
    with pytest.raises(ConfigError, match=f"instructions: the function .*{said}"):
        await agent.run("pay")
    assert agent.opened_log is not None
    assert (await agent.opened_log.rows(), model.requests) == ([], [])


async def test_who_cancels_the_run_cancels_the_function() -> None:
    begun = asyncio.Event()

    async def write(ctx: RunContext) -> str:
        begun.set()
        await asyncio.Event().wait()
        return ""

    task = asyncio.ensure_future(Agent(ScriptedModel([DONE]), instructions=write).run("pay"))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_child_has_instructions_of_its_own_run() -> None:
    write = Counting()
    child = Agent(ScriptedModel([DONE]), instructions=write, name="child", tools=[pay])
    ask = '{"thought":"t","action":{"tool":"child","parameters":{"goal":"pay Bo"}}}'
    caller = Agent(ScriptedModel([ask, DONE]), tools=[child], log="memory", approve="all")
    assert (await caller.run("g", deps="Ada")).output == "ok"
    assert [call.goal for call in write.calls] == ["pay Bo"]
    assert write.calls[0].deps == "Ada"


async def test_a_batch_goes_on_although_the_function_writes_another_text() -> None:
    write = Counting()
    agent = Agent(ScriptedModel([DONE, DONE]), instructions=write, tools=[pay], log="memory")
    for _ in range(2):
        batch = await agent.map(["a", "b"], name="n", deps=os.sep)
        assert batch.outputs == ["ok", "ok"]
    assert len(write.calls) == 2

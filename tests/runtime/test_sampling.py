"""A tool has the run's own model answer: in a child run, counted, bounded and asked once."""

import asyncio
from typing import Any

import pytest

from taofold import Agent, Decision, Limits, MemoryLog, RunContext, tool
from taofold.core import events as e
from taofold.core.errors import ModelError
from taofold.core.values import Reply, Usage
from taofold.runtime.control import cancel, decide
from taofold.runtime.model import Request
from taofold.testing.replay import assert_replays
from taofold.tools import InputRequired, ModelQuestion
from tests.deadlines import LoopClock

from .kit import Memo, act, events, finish, planted

pytestmark = pytest.mark.anyio


class Voices(Memo):
    """A script for the run. A tool's sampling request gets its prompt reversed."""

    def __init__(self, *script: Any, answer: Any = None) -> None:
        super().__init__(script, choose=self._sampled)
        self.sampled: list[Request] = []
        self.answer = answer

    def _sampled(self, request: Request) -> Any:
        whole = str(request.conversation[-1].content)
        if "Q:" not in whole:
            return None
        self.sampled.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer or Reply(f"to {whole.partition('Q: ')[2][:5]}", usage=Usage(30, 3))


@tool(effect="read")
async def ponder(ctx: RunContext[Any], n: int = 1, same: bool = False) -> str:
    """Ask the model n times."""
    assert ctx.sample is not None
    said = []
    for number in range(n):
        question = ModelQuestion(f"Q: {1 if same else number + 1}", system="Be brief.")
        said.append(await ctx.sample(question))
    return "; ".join([f"{each.text} ({each.model})" for each in said])


def agent(model: Memo, **options: Any) -> Agent[Any, Any]:
    options.setdefault("log", MemoryLog())
    options.setdefault("tools", [ponder])
    return Agent(model, **options)


async def test_what_a_tool_asks_the_model_is_answered_and_counted_with_its_call() -> None:
    model = Voices(act("ponder", n=2), finish())
    one = agent(model)
    result = await one.run("x", run_id="r")
    [observation] = result.steps[0].observations
    assert observation.result == "to 1 (memo:model); to 2 (memo:model)"
    [observed] = events(result, e.Observed)[:1]
    assert observed.calls == (2, 0)
    assert (observed.usage.input_tokens, observed.usage.output_tokens) == (60, 6)
    assert list(observed.models) == ["memo:model"]
    # Two calls of the run itself, and two for the tool.
    assert (result.state.model_calls, result.state.child_model_calls) == (2, 2)
    assert model.sampled[0].conversation[0].content.startswith("Be brief.")
    assert not model.sampled[0].tools
    await assert_replays(one, result)


async def test_a_tool_that_asks_nothing_costs_nothing() -> None:
    result = await agent(Voices(act("ponder", n=0), finish())).run("x")
    [observed] = events(result, e.Observed)[:1]
    assert (observed.calls, observed.usage, observed.models) == (None, None, {})


async def test_the_same_question_of_a_call_is_asked_once() -> None:
    model = Voices(act("ponder", n=3, same=True), finish())
    result = await agent(model).run("x")
    assert len(model.sampled) == 1
    assert result.state.child_model_calls == 1
    assert result.steps[0].observations[0].result == "; ".join(["to 1 (memo:model)"] * 3)


async def test_after_a_crash_in_the_call_what_was_answered_is_not_asked_again() -> None:
    log = MemoryLog()
    whole = await agent(Voices(act("ponder", n=2), finish()), log=log).run("x", run_id="r")
    records = await log.read("r")
    upto = next(r.seq for r in records if isinstance(r.event, e.Started)) + 1
    children = [row.run for row in await log.rows(parent="r", limit=0)]
    assert len(children) == 2
    first = await log.read(children[0])
    again = await planted([*records[:upto], *first], MemoryLog())
    model = Voices(finish())
    result = await agent(model, log=again).resume("r")
    assert len(model.sampled) == 1
    assert result.state.child_model_calls == 2
    assert result.steps[0].observations[0].result == whole.steps[0].observations[0].result


@pytest.mark.parametrize(
    "answer", [ModelError("down", kind="auth"), ModelError("down", kind="overflow")]
)
async def test_a_tool_is_told_that_there_is_no_answer(answer: Any) -> None:
    result = await agent(Voices(act("ponder"), finish(), answer=answer)).run("x")
    [observation] = result.steps[0].observations
    assert observation.status == "failure"
    assert "the run's model gave no answer: " in str(observation.result)


@pytest.mark.parametrize(
    ("limits", "asked"),
    [
        (Limits(model_calls=2), 1),
        (Limits(model_calls=3), 2),
        (Limits(model_calls=4), 3),
        (Limits(tokens=30_000), 3),
    ],
)
async def test_what_a_tool_asks_keeps_to_what_is_left_of_the_run(
    limits: Limits, asked: int
) -> None:
    """The usage of an active call is not in the run's state before the call ends."""
    model = Voices(act("ponder", n=3), finish())
    result = await agent(model, limits=limits).run("x")
    assert len(model.sampled) == asked
    assert result.state.child_model_calls == asked
    assert result.steps[0].observations[0].status == ("success" if asked == 3 else "failure")


async def test_a_cancelled_run_asks_its_model_no_more_and_keeps_nothing_of_the_tool() -> None:
    log, answers = MemoryLog(), list[str]()

    @tool(effect="read")
    async def swallow(ctx: RunContext[Any]) -> str:
        """Sends the request and ignores errors."""
        assert ctx.sample is not None
        await cancel(log, ctx.run_id)
        try:
            await ctx.sample(ModelQuestion("Q: 1"))
        except ValueError as error:
            answers.append(str(error))
        return "done"

    model = Voices(act("swallow"), finish())
    result = await agent(model, log=log, tools=[swallow]).run("x")
    assert result.status == "cancelled"
    assert answers == ["the run stops, so its model is not asked"]
    assert not model.sampled
    assert not result.steps


async def test_a_tool_that_asks_a_person_and_then_the_model_counts_both_lives() -> None:
    @tool(effect="idempotent", tier=1, reversible=True)
    async def both(ctx: RunContext[Any]) -> str:
        """Ask both."""
        assert ctx.sample is not None
        said = await ctx.sample(ModelQuestion("Q: 1"))
        if ctx.answer is None:
            raise InputRequired("sure?")
        return f"{said.text}: {ctx.answer.accepted}"

    model = Voices(act("both"), finish())
    one = agent(model, tools=[both])
    result = await one.run("x", run_id="r")
    assert result.status == "waiting"
    await decide(result.log, result.pending[0].id, Decision("approve"))
    done = await one.resume(result)
    assert len(model.sampled) == 1
    assert done.steps[0].observations[0].result == "to 1: True"
    assert done.state.child_model_calls == 1
    await assert_replays(one, done)


async def test_the_calls_deadline_waits_while_the_model_thinks() -> None:
    clock = LoopClock()

    class Slow(Voices):
        async def complete(self, request: Request, on_text: Any = None) -> Reply:
            if "Q:" in str(request.conversation[-1].content):
                await clock.jumped(90)
            return await super().complete(request, on_text)

    @tool(effect="read", timeout=60)
    async def hasty(ctx: RunContext[Any]) -> str:
        """Ask two things at once."""
        assert ctx.sample is not None
        both = [ctx.sample(ModelQuestion(f"Q: {number}")) for number in (1, 2)]
        return ", ".join([each.text for each in await asyncio.gather(*both)])

    result = await agent(Slow(act("hasty"), finish()), tools=[hasty]).run("x")
    assert result.steps[0].observations[0].result == "to 1, to 2"
    assert result.state.child_model_calls == 2

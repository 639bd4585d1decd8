"""Limits where several calls are on their way: each sees those that were allowed before it."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from taofold import Agent, Approval, Decision, Limits, MemoryLog, Policy, RunContext, tool
from taofold.core.content import Conversation, Message
from taofold.core.effects import Answer, Ask, Strategy, fork
from taofold.core.effects import act as do
from taofold.core.values import Action, Reply, Thought, Usage
from taofold.reasoning import Task
from taofold.runtime.hooks import Hook, HookContext, Reject
from taofold.runtime.model import Request
from taofold.testing import FunctionModel, ScriptedModel
from taofold.tools import ModelQuestion
from tests.ports import PATIENCE

from .kit import act, batch, finish

pytestmark = pytest.mark.anyio

Branch = Callable[[int], Strategy[Any]]


def branches(branch: Branch, count: int = 8) -> Callable[[Task], Strategy[Answer]]:
    """A strategy of `count` branches side by side."""

    def strategy(task: Task) -> Strategy[Answer]:
        del task
        yield from fork([branch(number) for number in range(count)])
        return Answer("done")

    return strategy


@tool(effect="read")
async def slow(n: int) -> str:
    """A read that takes a while."""
    await asyncio.sleep(0.01)
    return f"read {n}"


def payments(paid: list[int], *, sequential: bool) -> Any:
    @tool(effect="once", tier=1, reversible=True, sequential=sequential)
    async def pay(n: int) -> str:
        """Pay."""
        paid.append(n)
        return f"paid {n}"

    return pay


@pytest.mark.parametrize("sequential", [True, False])
@pytest.mark.parametrize(
    ("limits", "payments_made"),
    [(Limits(per_tool={"pay": 1}), 1), (Limits(tool_calls=9), None)],
)
async def test_branches_whose_calls_wait_for_others_keep_the_bound_together(
    limits: Limits, payments_made: int | None, sequential: bool
) -> None:
    """Between the check and the start of `pay` every other branch is checked too."""
    paid: list[int] = []
    pay = payments(paid, sequential=sequential)

    def branch(number: int) -> Strategy[Any]:
        actions = [Action("slow", {"n": number}), Action("pay", {"n": number})]
        yield from do(Thought("both", "progress"), *actions)

    agent = Agent(ScriptedModel([]), tools=[slow, pay], limits=limits, strategy=branches(branch))
    state = (await agent.run("x")).state
    assert state.tool_calls <= (limits.tool_calls or 99)
    assert len(paid) == state.per_tool.get("pay", 0)
    assert len(paid) == payments_made or payments_made is None


class Slow(Hook):
    """Thinks about each call, and lets none through that costs 13."""

    async def before_tool(self, context: HookContext, action: Action) -> Reject | None:
        await asyncio.sleep(0.01)
        return Reject("13 brings bad luck") if action.parameters.get("n") == 13 else None


async def test_a_hook_that_thinks_lets_no_further_call_through() -> None:
    paid: list[int] = []
    pay = payments(paid, sequential=False)

    def branch(number: int) -> Strategy[Any]:
        calls = [Action("pay", {"n": number}), Action("slow", {"n": number})]
        yield from do(Thought("both", "progress"), *calls)

    limits = Limits(per_tool={"pay": 1})
    agent = Agent(
        ScriptedModel([]),
        tools=[slow, pay],
        limits=limits,
        strategy=branches(branch),
        hooks=[Slow()],
    )
    await agent.run("x")
    assert len(paid) == 1


async def test_what_was_allowed_and_never_begun_is_free_again() -> None:
    """An approver edits the first call into one that a hook rejects."""
    paid: list[int] = []

    @tool(effect="once", tier=2)
    def pay(n: int) -> str:
        """Pay."""
        paid.append(n)
        return f"paid {n}"

    def person(approval: Approval) -> Decision:
        first = approval.action is not None and approval.action.parameters["n"] == 1
        return Decision("edit", parameters={"n": 13}) if first else Decision("approve")

    script = [batch(("pay", {"n": 1}), ("pay", {"n": 2})), finish()]
    agent = Agent(
        ScriptedModel(script), tools=[pay], limits=Limits(per_tool={"pay": 1}), approve=person,
        hooks=[Slow()],
    )  # fmt: skip
    await agent.run("x")
    assert paid == [2]


@pytest.mark.parametrize("samples", [1, 20])
@pytest.mark.parametrize("limits", [Limits(usd=0.05), Limits(model_calls=4), Limits(tokens=4000)])
async def test_a_tool_that_asks_the_model_many_things_at_once_keeps_the_bound(
    limits: Limits, samples: int
) -> None:
    made: list[Request] = []

    async def model(request: Request) -> Reply:
        made.append(request)
        await asyncio.sleep(0.005)
        text = request.conversation[-1].text
        usage = Usage(input_tokens=100, output_tokens=1000, usd=0.011)
        reply = "part" if "part" in text else finish() if "done" in text else act("ask_all")
        return Reply(text=reply, usage=usage)

    @tool(effect="read")
    async def ask_all(ctx: RunContext[Any]) -> str:
        """Ask all at once."""
        assert ctx.sample is not None
        questions = [ctx.sample(ModelQuestion(f"part {n}")) for n in range(samples)]
        await asyncio.gather(*questions, return_exceptions=True)
        return "done"

    agent = Agent(
        FunctionModel(model, usd=(10.0, 10.0)), tools=[ask_all], max_tokens=1000,
        limits=limits, log=MemoryLog(),
    )  # fmt: skip
    result = await agent.run("x")
    assert len(made) <= 4
    assert result.usage.usd <= (limits.usd or 1)
    # The last reply may pass `tokens` by its own length, and no other.
    assert result.usage.tokens <= 4000 + 1000
    assert len(made) > 1


def ask(prompt: str) -> Strategy[Any]:
    """Calls the model once."""
    yield Ask(Conversation([Message("user", prompt)]))


async def test_prompts_under_way_count_against_tokens() -> None:
    async def model(request: Request) -> Reply:
        await asyncio.sleep(0.01)
        size = sum([len(message.text) for message in request.conversation])
        return Reply(text="ok", usage=Usage(input_tokens=size // 4, output_tokens=1))

    def branch(number: int) -> Strategy[Any]:
        yield from ask(f"item {number} " + "lorem ipsum " * 50)

    agent = Agent(
        FunctionModel(model), limits=Limits(steps=50, tokens=700), strategy=branches(branch, 40)
    )
    result = await agent.run("x")
    assert result.state.model_calls == 4
    assert result.usage.tokens <= 700


async def test_calls_of_a_child_count_against_model_calls_of_branches() -> None:
    script = [act("look", f"I look {n}") for n in range(4)]

    @tool(effect="read")
    def look() -> str:
        """Look."""
        return "seen"

    child = Agent(ScriptedModel([*script, finish()]), tools=[look], name="child")

    async def model(request: Request) -> str:
        del request
        await asyncio.sleep(0.005)
        return "hello"

    def strategy(task: Task) -> Strategy[Answer]:
        del task
        yield from do(Thought("first", "progress"), Action("child", {"goal": "x"}))
        yield from fork([ask(f"item {number}") for number in range(8)])
        return Answer("done")

    limits = Limits(model_calls=6)
    agent = Agent(FunctionModel(model), tools=[child], limits=limits, strategy=strategy)
    state = (await agent.run("x")).state
    assert state.child_model_calls > 0
    assert state.model_calls + state.child_model_calls == 6


@pytest.mark.parametrize(
    "limits", [Limits(steps=1, model_calls=1), Limits(steps=1, tokens=300), Limits(steps=1, usd=1)]
)
async def test_steps_that_are_used_up_hide_no_other_limit(limits: Limits) -> None:
    asked: list[Request] = []

    def model(request: Request) -> Reply:
        asked.append(request)
        return Reply("hello", usage=Usage(200, 200, usd=2.0))

    def strategy(task: Task) -> Strategy[Answer]:
        del task
        yield from ask("draft")
        yield from do(Thought("first", "progress"), Action("slow", {"n": 1}))
        yield from ask("is it good?")
        return Answer("done")

    agent = Agent(FunctionModel(model), tools=[slow], strategy=strategy)
    # A critic may be asked after the last step, as long as nothing else forbids it.
    assert (await agent.replace(limits=Limits(steps=1)).run("x")).output == "done"
    assert len(asked) == 2
    asked.clear()
    assert (await agent.replace(limits=limits).run("x")).status == "limited"
    assert len(asked) == 1


async def test_what_a_denied_batch_leaves_behind_is_free_for_other_branches() -> None:
    paid: list[int] = []

    @tool(effect="once", tier=2)
    def forbidden() -> str:
        """Never run."""
        raise AssertionError

    denied = asyncio.Event()

    @tool(effect="read")
    async def wait() -> str:
        """Wait until the batch is denied."""
        await denied.wait()
        return "there"

    def branch(number: int) -> Strategy[Any]:
        if not number:
            calls = [Action("pay", {"n": 0}), Action("forbidden", {})]
            try:
                yield from do(Thought("both", "progress"), *calls)
            finally:
                denied.set()
        yield from do(Thought("first", "progress"), Action("wait", {}))
        yield from do(Thought("then", "progress"), Action("pay", {"n": number}))

    agent = Agent(
        ScriptedModel([]),
        tools=[wait, payments(paid, sequential=False), forbidden],
        strategy=branches(branch, 2),
        limits=Limits(per_tool={"pay": 1}),
        policy=Policy(deny=frozenset({"forbidden"})),
        on_denial="stop",
    )
    await agent.run("x")
    assert paid == [1]


async def test_a_tool_that_has_its_answers_leaves_the_rest_to_others() -> None:
    answered, asked = asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def ponder(ctx: RunContext[Any]) -> str:
        """Ask, and then work until the other branch has asked, too."""
        assert ctx.sample is not None
        await ctx.sample(ModelQuestion("part"))
        answered.set()
        with suppress(TimeoutError):
            await asyncio.wait_for(asked.wait(), PATIENCE)
        return "done"

    @tool(effect="read")
    async def wait() -> str:
        """Wait for the answer."""
        await answered.wait()
        return "there"

    def branch(number: int) -> Strategy[Any]:
        if not number:
            yield from do(Thought("one", "progress"), Action("ponder", {}))
            return None
        yield from do(Thought("two", "progress"), Action("wait", {}))
        return (yield from ask("what now?"))

    def model(request: Request) -> str:
        if "what now?" in request.conversation[-1].text:
            asked.set()
        return "this"

    limits = Limits(model_calls=6)
    agent = Agent(
        FunctionModel(model), tools=[ponder, wait], limits=limits, strategy=branches(branch, 2)
    )
    await agent.run("x")
    assert asked.is_set()

"""The approved and recorded arguments run, even if a callback mutates them; ids of calls."""

import asyncio
from hashlib import blake2b
from typing import Any

import pytest

from taofold import Agent, Approval, Hook, HookContext, MemoryLog, RunContext, RunResult, tool
from taofold.clocks import clock
from taofold.core import events as e
from taofold.core.call_ids import IDENTITY, effect_id
from taofold.core.state import fold
from taofold.core.values import Action
from taofold.runtime.run import rewind
from taofold.testing import ScriptedModel
from taofold.tools.tool import external

from .kit import act, batch, finish

pytestmark = pytest.mark.anyio


class Till:
    """A tool that remembers what it was called with, and under which id."""

    def __init__(self, spoil: bool = False, failures: int = 0) -> None:
        self.paid: list[dict[str, Any]] = []
        self.ids: list[str] = []
        self.spoil, self.failures = spoil, failures

    def agent(self, *parameters: Any, log: Any = "memory", **options: Any) -> Any:
        @tool(effect="idempotent", tier=2, retries=2)
        def pay(ctx: RunContext[Any], order: dict[str, Any]) -> str:
            """Pay."""
            self.paid.append({**order, "items": list(order["items"])})
            self.ids.append(ctx.effect_id)
            if self.spoil:
                order["items"].append("a yacht")
                order["euros"] = 10**6
            if len(self.paid) <= self.failures:
                raise ConnectionError("try again")
            return "paid"

        script = [
            act("pay", order=order)
            if isinstance(order, dict)
            else batch(*(("pay", {"order": each}) for each in order))
            for order in parameters
        ]
        return Agent(ScriptedModel([*script, finish()]), tools=[pay], log=log, **options)


ORDER = {"euros": 5, "items": ["tea"]}


def proposed(result: RunResult[Any]) -> Any:
    (step, _) = (r.event for r in result.records if isinstance(r.event, e.Proposed))
    return step.actions[0].parameters["order"]


async def test_a_hook_that_changes_parameters_in_place_has_rejected_the_call() -> None:
    class Clamp(Hook):
        def before_tool(self, context: HookContext, action: Action) -> None:
            action.parameters["order"]["euros"] = 1

    till = Till()
    result = await till.agent(ORDER, hooks=[Clamp()], approve="all").run("goal")
    observation = result.steps[0].observations[0]
    assert observation.refused == "denied"
    assert "Clamp changed the parameters" in str(observation.result)
    assert (till.paid, proposed(result)) == ([], ORDER)


async def test_what_one_hook_did_to_its_parameters_no_other_hook_sees() -> None:
    seen: list[Any] = []

    class Sly(Hook):
        def after_tool(self, context: HookContext, action: Action, result: Any) -> None:
            action.parameters.clear()

    class Watch(Hook):
        def after_tool(self, context: HookContext, action: Action, result: Any) -> None:
            seen.append(action.parameters)

    await Till().agent(ORDER, hooks=[Watch(), Sly()], approve="all").run("goal")
    assert seen == [{"order": ORDER}]


async def test_a_callback_that_changes_what_it_is_shown_has_approved_nothing() -> None:
    def approve(request: Approval) -> bool:
        request.action.parameters["order"]["euros"] = 1
        return True

    till = Till()
    result = await till.agent(ORDER, approve=approve).run("goal")
    observation = result.steps[0].observations[0]
    assert observation.refused == "denied"
    assert "return Decision('approve', parameters=…)" in str(observation.result)
    assert (till.paid, proposed(result)) == ([], ORDER)


async def test_a_listener_that_changes_an_event_changes_no_call() -> None:
    changed = asyncio.Event()

    async def approve(request: Approval) -> bool:
        await changed.wait()  # the second call of the batch does not exist yet
        return True

    till = Till()
    second = {**ORDER, "euros": 7}
    agent = till.agent([ORDER, second], approve=approve)
    async for happening in agent.stream("goal"):
        event = getattr(happening, "event", None)
        if isinstance(event, e.Proposed) and event.actions[0].tool == "pay":
            event.actions[1].parameters["order"]["euros"] = 10**6
            changed.set()
    assert till.paid == [ORDER, second]


async def test_a_tool_that_changes_its_arguments_is_called_again_with_those_approved() -> None:
    till = Till(spoil=True, failures=2)
    result = await till.agent(ORDER, approve="all").run("goal")
    assert till.paid == [ORDER, ORDER, ORDER]
    assert result.steps[0].actions[0].parameters == {"order": ORDER}
    assert len(set(till.ids)) == 1, "they are attempts at one call"


async def test_a_tool_made_of_a_schema_gets_arguments_of_its_own_too() -> None:
    calls: list[int] = []

    def pay(parameters: dict[str, Any]) -> str:
        calls.append(parameters["order"]["euros"])
        parameters["order"]["euros"] *= 10
        if len(calls) == 1:
            raise ConnectionError("try again")
        return "paid"

    schema = {"type": "object", "properties": {"order": {"type": "object"}}}
    made = external("pay", "Pay.", schema, pay, tier=2, effect="idempotent", retries=1)
    script = ScriptedModel([act("pay", order=ORDER), finish()])
    result = await Agent(script, tools=[made], approve="all", log="memory").run("goal")
    assert calls == [5, 5]
    assert proposed(result) == ORDER


async def test_runs_of_one_name_in_two_logs_have_calls_of_their_own() -> None:
    till = Till()
    for order in (ORDER, {**ORDER, "euros": 7}):
        await till.agent(order, log=MemoryLog(), approve="all").run("goal", run_id="nightly")
    assert len(set(till.ids)) == 2


async def test_after_a_rewind_what_stands_at_the_same_place_is_another_call() -> None:
    till, log = Till(), MemoryLog()
    await till.agent(ORDER, log=log, approve="all").run("goal", run_id="r")
    await rewind(log, "r", to=0, now=clock())
    later = till.agent({**ORDER, "euros": 7}, log=log, approve="all")
    await later.resume("r")
    assert [order["euros"] for order in till.paid] == [5, 7]
    assert len(set(till.ids)) == 2


async def test_after_a_rewind_an_agent_is_asked_anew() -> None:
    log = MemoryLog()

    def outer(answer: str) -> Any:
        inner = Agent(ScriptedModel([finish(answer)]), name="inner", log=log)
        return Agent(ScriptedModel([act("inner", goal=answer), finish()]), tools=[inner], log=log)

    first = await outer("Ann").run("goal", run_id="r")
    await rewind(log, "r", to=0, now=clock())
    second = await outer("Bob").resume("r")
    answers = [str(each.steps[0].observations[0].result) for each in (first, second)]
    assert answers == ["Ann", "Bob"]


async def test_calls_of_a_run_that_an_older_release_began_keep_their_ids() -> None:
    till, log = Till(), MemoryLog()
    result = await till.agent(ORDER, log=log, approve="all").run("goal", run_id="r")
    state = fold(result.records)
    assert state.started is not None
    assert till.ids == [effect_id("r", state, "2", 0)]
    older = fold(
        [
            e.Record("r", 0, 1, e.RunStarted(goal="goal")),
            *result.records[1:],
        ]
    )
    assert IDENTITY not in (older.started.settings if older.started else {})
    assert effect_id("r", older, "2", 0) == blake2b(b"r\x1f2\x1f0", digest_size=12).hexdigest()

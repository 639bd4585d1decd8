"""Work that a resumed step skips because it is recorded, and work that it must repeat."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taofold import Agent, Decision, Limits, MemoryLog, Outcome, RunContext, tool
from taofold.core import events as e
from taofold.core.json_values import is_finite
from taofold.core.values import Principal, Profile, Reply, ToolCall
from taofold.parsing import read_call
from taofold.runtime.control import cancel
from taofold.testing import FunctionModel

from .kit import Memo, act, batch, finish, kinds, settled
from .payer import RAN, agent, look

pytestmark = pytest.mark.anyio


class Noting(MemoryLog):
    """Notes which events were to survive a power cut, and what had run by then."""

    def __init__(self) -> None:
        super().__init__()
        self.synced: list[tuple[list[str], int]] = []

    async def append(
        self, run: str, epoch: int, records: Sequence[e.Record], **options: Any
    ) -> bool:
        written = await super().append(run, epoch, records, **options)
        if options.get("disk"):
            kept = [type(r.event).__name__ for r in records if r.event.disk]
            self.synced.append((kept, len(RAN)))
        return written


async def test_only_what_must_survive_a_power_cut_is_synced_and_before_the_call() -> None:
    @tool(tier=1, effect="idempotent", reversible=True)
    def send(what: str) -> str:
        """Send."""
        RAN.append(what)
        return "sent"

    log = Noting()
    script = [act("look", what="a"), act("send", what="b"), act("look", what="c"), finish()]
    result = await Agent(Memo(script), tools=[look, send], log=log).run("goal")
    assert (result.success, RAN) == (True, ["a", "b", "c"])
    assert log.synced == [(["StartedOnce"], 1)]


@pytest.mark.scenario("PEER-24")
async def test_what_was_cancelled_while_the_model_thought_is_not_even_said_to_start() -> None:
    log = MemoryLog()

    async def reply(_: Any) -> str:
        await cancel(log, "r")
        return batch(("look", {"what": "a"}), ("look", {"what": "b"}))

    result = await Agent(FunctionModel(reply), tools=[look], log=log).run("goal", run_id="r")
    assert (result.status, RAN) == ("cancelled", [])
    assert kinds(result, "Proposed", "Started") == ["Proposed"]


async def test_the_guard_judges_an_edited_call_by_what_was_done() -> None:
    @tool(tier=3, effect="idempotent")
    def halve(number: int) -> Outcome:
        """Halve."""
        RAN.append(number)
        return Outcome(f"{number} is odd", "failure")

    asked = act("halve", number=2)
    one = agent(asked, asked, act("halve", number=3), finish(), tools=[halve])
    result = await settled(
        one, await one.run("goal"), lambda _: Decision("edit", parameters={"number": 3})
    )
    refused = [step.observations[0].refused for step in result.steps[:3]]
    assert refused == ["", "", "repeat_same_action_unchanged"]
    assert RAN == [3, 3]


async def test_a_tool_that_asks_for_nothing_gets_nothing_and_one_that_asks_gets_its_call() -> None:
    told: list[Any] = []

    @tool(effect="read", thread=False)
    def plain(what: str) -> str:
        """Look."""
        return what

    @tool(effect="read", thread=False)
    def curious(ctx: RunContext[None], what: str) -> str:
        """Look."""
        told.append((ctx.run_id, ctx.step, ctx.principal, ctx.data, len(ctx.effect_id)))
        return what

    calls = (("plain", {"what": "a"}), ("curious", {"what": "b"}))
    one = agent(batch(*calls), finish(), tools=[plain, curious])
    result = await one.run("goal", run_id="r", data={"a": 1}, principal=Principal("me"))
    assert [o.result for o in result.steps[0].observations] == ["a", "b"]
    assert told == [("r", 1, Principal("me"), {"a": 1}, 24)]


async def test_what_an_inline_tool_returns_is_awaited_if_it_must_be() -> None:
    @tool(effect="read", thread=False)
    def later() -> Any:
        """Look."""
        return asyncio.sleep(0, "now")

    result = await agent(act("later"), finish(), tools=[later]).run("goal")
    assert result.steps[0].observations[0].result == "now"


async def test_the_offer_of_tools_never_changes_and_in_the_last_turn_only_finish_is_allowed() -> (
    None
):
    seen: list[tuple[list[str], Any]] = []

    def reply(request: Any) -> Reply:
        seen.append(([spec.name for spec in request.tools], request.allowed))
        return Reply(calls=(ToolCall("look", '{"what": "x"}', f"c{len(seen)}"),))

    model = FunctionModel(reply, profile=Profile(window=10**6, native_tools=True))
    one = Agent(model, tools=[look], output=int, limits=Limits(steps=3))
    await one.run("goal")
    offer = ["look", "finish"]
    assert seen[:3] == [(offer, None), (offer, None), (offer, ("finish",))]


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_given_arguments_hold_no_number_that_is_none(number: float) -> None:
    call = read_call("add", {"a": [number]})
    assert call.parameters == {}
    assert "not finite" in call.error


NUMBERS = st.sampled_from(["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1", "nan", '"NaN"'])


@given(
    st.lists(NUMBERS, max_size=3), st.sampled_from(['{"a": [%s]}', "{a: [%s],}", ' {"a":[%s]} '])
)
def test_read_arguments_hold_no_number_that_is_none(numbers: list[str], form: str) -> None:
    assert is_finite(read_call("add", form % ", ".join(numbers)).parameters)

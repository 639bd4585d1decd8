"""A change that a user accepted applies at once to every later call of this process."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp import types

from taofold import Agent, Decision, MemoryLog
from taofold.bridges.mcp.client.definitions import Definition, Pins, read
from taofold.core import events as e
from taofold.core.values import Tier
from taofold.runtime.control import decide
from taofold.runtime.setup import Approval
from taofold.tools import DefinitionChanged, RunContext, Tool, Toolset

from .kit import Lister, act, agent, finish, lister, text, tool

pytestmark = pytest.mark.anyio
READS = types.ToolAnnotations(read_only_hint=True)
DESTROYS = types.ToolAnnotations(destructive_hint=True)
HARMLESS = tool(annotations=READS)
HARMFUL = tool(description="Wipe.", annotations=DESTROYS)


@pytest.fixture
def made() -> Lister:
    return lister(HARMLESS)


def definition(listed: types.Tool) -> Definition:
    said = read(listed)
    assert isinstance(said, Definition)
    return said


def change(made: Lister, server: Any, listed: types.Tool) -> None:
    """Changes the server's tool. The next call lists the tools again."""
    made.tools = [listed]
    server._server._until = 0.0


def accept(made: Lister, server: Any, listed: types.Tool) -> None:
    """Accepts the change in another run."""
    change(made, server, listed)
    server._pins.add([definition(listed)])


async def approve(one: Agent[Any, Any], result: Any) -> Any:
    await decide(result.log, result.pending[0].id, Decision("approve"))
    return await one.resume(result.run_id)


@pytest.mark.scenario("PEER-22")
@pytest.mark.parametrize("trust", [True, False])
async def test_what_a_person_accepted_once_rules_by_its_new_tier_from_then_on(
    made: Lister, trust: bool
) -> None:
    async with made.bridge(trust=trust) as server:
        script = [act("s_peek", x=str(n)) for n in range(3)]
        one = agent(server, *script, finish())
        assert one.toolset["s_peek"].tier == (Tier.AUTO if trust else Tier.CARD)
        change(made, server, HARMFUL)
        result = await one.run("x", run_id="r")
        asked: list[tuple[int, str]] = []
        while result.status == "waiting":
            [question] = result.pending
            asked.append((int(question.tier), question.reason or question.question))
            result = await approve(one, result)
        assert result.success
        assert (one.toolset["s_peek"].tier, one.toolset["s_peek"].effect) == (Tier.CONFIRM, "once")
        assert server["s_peek"].description == "Wipe."
    assert len(made.called) == 3
    assert [tier for tier, _ in asked][-2:] == [3, 3]
    assert sum("changed its tool" in why for _, why in asked) == 1
    assert len(asked) == (3 if trust else 4)


async def test_the_very_call_that_was_accepted_is_on_record_by_its_new_effect(
    made: Lister,
) -> None:
    """Else a crash in the middle of it would make it twice."""
    async with made.bridge(trust=True) as server:
        one = agent(server, act("s_peek", x="1"), finish())
        change(made, server, HARMFUL)
        result = await one.run("x", run_id="r")
        ended = await approve(one, result)
        starts = [each.event for each in ended.records if isinstance(each.event, e.Started)]
    assert isinstance(starts[-1], e.StartedOnce)
    assert starts[-1].effect == "once"
    assert not isinstance(starts[0], e.StartedOnce)
    assert len(made.called) == 1


async def test_a_run_under_way_is_ruled_by_what_another_run_accepted(made: Lister) -> None:
    async with made.bridge(trust=True) as server:

        def called(name: str, arguments: Any) -> Any:
            accept(made, server, HARMFUL)
            return text("looked")

        made.result = called
        one = agent(server, act("s_peek", x="1"), act("s_peek", x="2"), finish())
        result = await one.run("x")
    assert result.status == "waiting"
    assert result.pending[0].tier == Tier.CONFIRM
    assert made.called == [("peek", {"x": "1"})]


async def test_an_approval_of_the_tool_as_it_was_is_void(made: Lister) -> None:
    seen: list[Approval] = []
    async with made.bridge() as server:

        def person(request: Approval) -> bool:
            seen.append(request)
            if len(seen) == 1:
                accept(made, server, HARMFUL)
            return True

        one = agent(server, act("s_peek", x="1"), finish(), approve=person)
        result = await one.run("x")
    assert result.success
    assert [int(request.tier) for request in seen] == [2, 3]
    assert seen[0].digest != seen[1].digest
    assert made.called == [("peek", {"x": "1"})]


async def test_a_call_that_was_allowed_for_the_tool_as_it_was_is_not_made(made: Lister) -> None:
    async with made.bridge(trust=True) as server:
        stale = server["s_peek"]
        accept(made, server, HARMFUL)
        with pytest.raises(DefinitionChanged):
            await stale.bind({"x": "1"}).run(RunContext(None))
        # Somebody's copy that knows nothing of its source.
        one = Agent(
            agent(server, act("s_peek", x="1"), finish()).model,
            tools=[replace(stale, renew=None)],
            log=MemoryLog(),
        )
        result = await one.run("x")
    assert "was not called" in str(result.steps[0].observations[0].result)
    assert made.called == []


async def test_a_call_that_another_process_overtook_is_not_made_and_the_next_one_asks(
    made: Lister, tmp_path: Path
) -> None:
    async with made.bridge(trust=True, pins=tmp_path) as server:
        one = agent(server, act("s_peek", x="1"), act("s_peek", x="2"), finish())
        assert one.toolset["s_peek"].tier == Tier.AUTO
        change(made, server, HARMFUL)
        Pins(Pins.file(server.address, tmp_path)).add([definition(HARMFUL)])
        result = await one.run("x")
    assert "was not called" in str(result.steps[0].observations[0].result)
    assert (result.status, result.pending[0].tier) == ("waiting", Tier.CONFIRM)
    assert made.called == []


async def test_what_becomes_forbidden_is_not_called_by_being_accepted(made: Lister) -> None:
    async with made.bridge(trust=True) as server:
        one = agent(server, act("s_peek", x="1"), finish())
        change(made, server, tool(annotations=READS, _meta={"tier": 4}))
        ended = await approve(one, await one.run("x", run_id="r"))
    assert "forbidden (tier 4)" in str(ended.steps[0].observations[0].result)
    assert made.called == []


async def test_parameters_that_do_not_fit_the_accepted_tool_are_not_sent(made: Lister) -> None:
    needs = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
    async with made.bridge(trust=True) as server:
        one = agent(server, act("s_peek", x="1"), act("s_peek", to="a"), finish())
        change(made, server, tool(schema=needs, annotations=READS))
        ended = await approve(one, await one.run("x", run_id="r"))
    assert ended.success
    assert "'to'" in str(ended.steps[0].observations[0].result)
    assert made.called == [("peek", {"to": "a"})]


async def test_who_denied_is_heard_though_somebody_else_accepted(made: Lister) -> None:
    async with made.bridge(trust=True) as server:
        one = agent(server, act("s_peek", x="1"), finish("no"))
        change(made, server, HARMFUL)
        result = await one.run("x", run_id="r")
        accept(made, server, HARMFUL)
        await decide(result.log, result.pending[0].id, Decision("deny"))
        ended = await one.resume("r")
    assert "was not accepted" in str(ended.steps[0].observations[0].result)
    assert made.called == []


async def test_the_next_run_shows_its_model_the_tool_as_it_is_now(made: Lister) -> None:
    async with made.bridge(trust=True) as server:
        one = agent(server, finish("a"), finish("b"))
        await one.run("x")
        accept(made, server, HARMFUL)
        await one.run("y")
        model: Any = one.model
        prompts = [str(asked[0]) for asked in model.asked]
    assert "Look." in prompts[0]
    assert "Wipe." not in prompts[0]
    assert "Wipe." in prompts[1]
    assert one.offers[0].effect == "once"


async def test_a_new_tool_that_was_accepted_is_what_a_fresh_process_would_say(
    made: Lister,
) -> None:
    async with made.bridge(trust=True) as server:
        list(server)
        server._made = None
        change(made, server, tool("more", annotations=READS))
        assert (server["s_more"].tier, server["s_more"].effect) == (Tier.CARD, "once")
        one = agent(server, act("s_more", x="1"), act("s_more", x="2"), finish(), approve="all")
        ended = await approve(one, await one.run("x", run_id="r"))
        assert ended.success
        assert (server["s_more"].tier, server["s_more"].effect) == (Tier.AUTO, "read")
    assert len(made.called) == 2


COPIES: dict[str, Callable[[Toolset], Toolset]] = {
    "prefixed": lambda server: server.prefixed("my_"),
    "filtered": lambda server: server.filtered(["s_peek"]).prefixed("my_"),
    "renamed": lambda server: server.renamed({"s_peek": "my_s_peek"}),
    "options": lambda server: server.with_options(timeout=5).prefixed("my_"),
    "tier": lambda server: server.with_tier(2).prefixed("my_"),
}


@pytest.mark.parametrize("how", COPIES)
async def test_a_copy_of_a_tool_changes_with_it(made: Lister, how: str) -> None:
    async with made.bridge(trust=True) as server:
        one = agent(COPIES[how](server), act("my_s_peek", x="1"), finish())
        assert one.toolset["my_s_peek"].tier < Tier.CONFIRM
        accept(made, server, HARMFUL)
        copy = one.toolset["my_s_peek"]
        assert (copy.tier, copy.effect, copy.description) == (Tier.CONFIRM, "once", "Wipe.")
        result = await one.run("x", run_id="r")
        assert result.pending[0].tier == Tier.CONFIRM
        assert (await approve(one, result)).success
    assert made.called == [("peek", {"x": "1"})]


async def test_what_somebody_raised_is_not_lowered_by_a_change(made: Lister) -> None:
    made.tools = made.told = [tool()]
    async with made.bridge(trust=True) as server:
        raised = server.with_tier(2)  # it is 2 already: this value is intended
        plain = server["s_peek"]
        own: Tool = replace(plain, description="Mine.", name="mine")
        accept(made, server, HARMLESS)
        assert server["s_peek"].tier == Tier.AUTO
        kept = raised.renewed()["s_peek"]
        assert (kept.tier, kept.effect) == (Tier.CARD, "once")
        assert (own.renewed().tier, own.renewed().description) == (Tier.CARD, "Mine.")


async def test_an_agent_is_asked_as_its_tools_are_now(made: Lister) -> None:
    async with made.bridge(trust=True) as server:
        inner = agent(server, finish(), name="inner")
        outer = agent(inner, finish())
        assert (outer.toolset["inner"].tier, outer.toolset["inner"].effect) == (Tier.AUTO, "read")
        accept(made, server, HARMFUL)
        known = outer.toolset["inner"]
        assert (known.tier, known.effect) == (Tier.CONFIRM, "idempotent")


async def test_nothing_is_made_anew_where_nothing_changed(made: Lister) -> None:
    async with made.bridge(trust=True) as server:
        one = agent(server, finish())
        before, offers = one.toolset, one.offers
        server._pins.add([definition(HARMLESS)])
        assert one.toolset is before
        assert one.offers is offers
        assert server["s_peek"] is before["s_peek"]

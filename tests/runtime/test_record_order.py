"""A replay notices a record that stands where it cannot, also if each record is one of the run.

Mutants, each tried: `replay` does not call `misplaced`; `_ruled`, `_answered`, `_begun` and
`_unsound` return ""; `furthest` is not compared; `ended` stays False; `observed` stays False.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from taofold import Agent, Decision, MemoryLog, ReplayDiverged, RunContext, tool
from taofold.core import events as e
from taofold.runtime.control import decide
from taofold.runtime.record_order import misplaced
from taofold.runtime.run import row_of
from taofold.testing import ScriptedModel
from taofold.tools import InputRequired
from tests.evidence.forgery import KIT, kit_events
from tests.runtime.kit import act, finish

pytestmark = pytest.mark.anyio

Change = Callable[[list[e.Event]], list[e.Event]]


@tool(effect="once", tier=3)
def wire(to: str) -> str:
    """Send money."""
    return "sent"


@tool(effect="read")
def look(at: str) -> str:
    """Look."""
    return f"{at} seen"


EDIT = Decision("edit", parameters={"to": "Y"})


async def paid(decision: Decision = EDIT) -> tuple[Agent[Any, Any], list[e.Record]]:
    """Returns an agent and the records of its run, whose second step was decided elsewhere."""
    model = ScriptedModel([act("look", at="a"), act("wire", to="X"), finish("paid")])
    agent = Agent(model, tools=[look, wire], log=MemoryLog())
    waiting: Any = await agent.run("go")
    await decide(waiting.log, waiting.pending[0].id, decision)
    done = await agent.resume(waiting)
    assert done.output == "paid"
    return agent, await done.log.read(done.run_id)


async def replayed(agent: Agent[Any, Any], events: Sequence[e.Event]) -> None:
    """Replays a run of these events."""
    records = [e.Record("r", seq, 1_000 + seq, event) for seq, event in enumerate(events)]
    started = events[0]
    assert isinstance(started, e.RunStarted)
    log = MemoryLog()
    await log.create(row_of(records[0], started), records=records)
    await agent.replace(log=log).replay("r")


def first(events: Sequence[e.Event], kind: type[e.Event], key: str = "") -> int:
    """Returns the place of the first event of `kind`, at `key` if it is given."""
    return next(
        place
        for place, event in enumerate(events)
        if type(event) is kind and key in ("", getattr(event, "key", ""))
    )


def twice(kind: type[e.Event], key: str = "", **changes: Any) -> Change:
    """Repeats the first event of `kind`, with `changes`."""

    def change(events: list[e.Event]) -> list[e.Event]:
        place = first(events, kind, key)
        return [*events[: place + 1], replace(events[place], **changes), *events[place + 1 :]]

    return change


def before(kind: type[e.Event], other: type[e.Event], key: str = "") -> Change:
    """Moves the first event of `kind` before the last event of `other` in front of it."""

    def change(events: list[e.Event]) -> list[e.Event]:
        place = first(events, kind, key)
        target = max(n for n, event in enumerate(events[:place]) if type(event) is other)
        rest = [*events[:place], *events[place + 1 :]]
        return [*rest[:target], events[place], *rest[target:]]

    return change


def edited(kind: type[e.Event], **changes: Any) -> Change:
    """Changes fields of the first event of `kind`."""

    def change(events: list[e.Event]) -> list[e.Event]:
        place = first(events, kind)
        return [*events[:place], replace(events[place], **changes), *events[place + 1 :]]

    return change


def other_tool(events: list[e.Event]) -> list[e.Event]:
    """Has the edit of an approver name another tool."""
    place = first(events, e.Resolved)
    event = events[place]
    assert isinstance(event, e.Resolved)
    assert event.action is not None
    return edited(e.Resolved, action=replace(event.action, tool="look"))(events)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (twice(e.Decided), "the call had a decision"),
        (twice(e.Decided, verdict="deny"), "the call had a decision"),
        (twice(e.Resolved), "no question about the call is open"),
        (twice(e.Resolved, verdict="deny", by="bob"), "no question about the call is open"),
        (twice(e.StartedOnce), "the call had started"),
        (twice(e.Started), "the call had started"),
        (twice(e.Observed), "the call had its result"),
        (twice(e.RunFinished), "the run had ended"),
        (before(e.StartedOnce, e.Resolved), "nothing permits the call before it"),
        (before(e.Started, e.Decided), "nothing permits the call before it"),
        (before(e.Decided, e.Proposed), "no such call is proposed before it"),
        (before(e.Replied, e.Observed, "4"), "a later effect is recorded before it"),
        (before(e.RunFinished, e.Observed), "the run had ended"),
        (edited(e.RunFinished, stop_reason="interrupted"), "gives another status or success"),
        (edited(e.RunFinished, stop_reason="error", success=False), "gives another status"),
        (edited(e.RunFinished, success=False), "gives another status or success"),
        (edited(e.Resolved, imported=True), "the run was not imported with it"),
        (edited(e.Decided, policy="0" * 12), "the run has another policy"),
        (edited(e.Resolved, digest="0" * 20), "digest"),
        (edited(e.Resolved, tier=1), "tier"),
        (edited(e.Resolved, attempt=3), "attempt"),
        (other_tool, "tool"),
        (edited(e.Resolved, verdict="expired"), "nothing permits the call before it"),
    ],
)
async def test_a_record_that_cannot_stand_there_does_not_follow(change: Change, why: str) -> None:
    agent, records = await paid()
    events = [record.event for record in records]
    await replayed(agent, events)
    with pytest.raises(ReplayDiverged) as caught:
        await replayed(agent, change(events))
    assert why in str(caught.value)


async def test_a_question_without_expiry_does_not_expire() -> None:
    agent, records = await paid(Decision("deny"))
    forged = edited(e.Resolved, verdict="expired", by="clock", principal=None, deciders=None)
    with pytest.raises(ReplayDiverged, match="the question has none"):
        await replayed(agent, forged([record.event for record in records]))


@pytest.mark.parametrize("reason", ["cancelled", "interrupted", "error"])
async def test_an_answer_is_not_that_of_an_end_that_no_record_explains(reason: str) -> None:
    """Mutant: an end with such a reason is not compared."""
    agent, records = await paid()
    events = [record.event for record in records]
    status = "failed" if reason == "error" else "cancelled"
    end = {"stop_reason": reason, "status": status, "success": False, "error": "why"}
    with pytest.raises(ReplayDiverged):
        await replayed(agent, edited(e.RunFinished, output="forged", **end)(events))
    # A user may cancel a run after its last call.
    await replayed(agent, edited(e.RunFinished, output=None, **end)(events))


def test_a_refusal_does_not_follow_the_reply_that_it_asked_for() -> None:
    """Mutant, tried: the reply at the same place is not remembered."""
    refused = e.Violated(key="2", rule="R1", refused=True)
    events = [e.RunStarted(goal="go"), e.Replied(key="1", prompt="p"), refused]
    events.append(e.Replied(key="2", prompt="p"))
    records = [e.Record("r", seq, seq, event) for seq, event in enumerate(events)]
    assert misplaced(records) is None
    events[2:] = reversed(events[2:])
    swapped = [e.Record("r", seq, seq, event) for seq, event in enumerate(events)]
    assert misplaced(swapped) == (swapped[3], "the reply of the model is recorded before it")


async def test_the_number_of_the_record_is_known() -> None:
    agent, records = await paid()
    events = [record.event for record in records]
    place = first(events, e.StartedOnce)
    with pytest.raises(ReplayDiverged) as caught:
        await replayed(agent, twice(e.StartedOnce)(events))
    assert caught.value.seq == place + 1


async def test_a_call_that_starts_again_keeps_its_order() -> None:
    """A retry and the question of a running tool are no faults."""
    starts: list[bool] = []

    @tool(effect="read", retries=1)
    async def ponder(ctx: RunContext[Any]) -> str:
        """Ask."""
        starts.append(True)
        if len(starts) == 1:
            raise ValueError("once")
        if ctx.answer is None:
            raise InputRequired("Which?", form={"type": "string"})
        return str(ctx.answer.text)

    agent = Agent(ScriptedModel([act("ponder"), finish()]), tools=[ponder], log=MemoryLog())
    waiting: Any = await agent.run("go")
    await decide(waiting.log, waiting.pending[0].id, Decision("answer", answer="red"))
    done = await agent.resume(waiting)
    records = await done.log.read(done.run_id)
    assert done.status == "finished"
    assert len([it for it in records if isinstance(it.event, e.Started)]) == 3
    assert misplaced(records) is None


@pytest.mark.parametrize("name", sorted([folder.name for folder in KIT.iterdir()]))
def test_each_run_of_the_kit_has_its_order(name: str) -> None:
    records = [e.Record("r", seq, seq, event) for seq, event in enumerate(kit_events(name))]
    assert misplaced(records) is None

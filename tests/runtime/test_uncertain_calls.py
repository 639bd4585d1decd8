"""An answer is about the starts that had been made when it was asked for, and no later ones."""

import asyncio
import threading
from typing import Any

import pytest

from taofold import Agent, Decision, MemoryLog, RunResult, tool
from taofold.core import events as e
from taofold.runtime.control import decide, pending
from taofold.testing import ScriptedModel
from tests.ports import PATIENCE

from .kit import Died, MortalLog, act, finish

pytestmark = pytest.mark.anyio


class Shop:
    """A tool whose process dies right after the effect, `deaths` times."""

    def __init__(self, deaths: int) -> None:
        self.paid: list[int] = []
        self.deaths = deaths

    def agent(self, log: MemoryLog) -> Agent[Any, Any]:
        mortal = MortalLog(log)

        @tool(effect="once", tier=1, reversible=True, thread=False)
        def pay(euros: int) -> str:
            """Pay."""
            self.paid.append(euros)
            if len(self.paid) <= self.deaths:
                mortal.die()
            return f"paid {euros}"

        script = [finish()] if self.paid else [act("pay", euros=5), finish()]
        return Agent(ScriptedModel(script), tools=[pay], log=mortal)

    async def life(self, log: MemoryLog) -> RunResult[Any] | None:
        """Starts or resumes the run. Returns None if the process died."""
        one = self.agent(log)
        try:
            return await (one.resume("r") if self.paid else one.run("pay", run_id="r"))
        except Died:
            return None


async def asked(log: MemoryLog) -> Any:
    (question,) = await pending(log, "r")
    assert "may already have happened" in question.question
    return question


async def test_a_new_start_asks_anew_however_often_it_dies() -> None:
    log, shop = MemoryLog(), Shop(deaths=4)
    assert await shop.life(log) is None
    for times in range(1, 5):
        for _ in range(3):  # resuming alone calls nothing
            waiting = await shop.life(log)
            assert waiting is not None
            assert waiting.status == "waiting"
            assert len(shop.paid) == times
        question = await asked(log)
        await decide(log, question.id, Decision("approve"))
        ended = await shop.life(log)
        assert len(shop.paid) == times + 1
    assert ended is not None
    assert ended.status == "finished"
    doubts = [r.event for r in ended.records if type(r.event) is e.Decided and r.event.attempt]
    assert [doubt.attempt for doubt in doubts] == [1, 2, 3, 4]
    words = [r.event.attempt for r in ended.records if isinstance(r.event, e.Resolved)]
    assert words == [1, 2, 3, 4]


async def test_a_word_that_was_given_before_the_crash_counts_once() -> None:
    """Approved, then killed before the call: the word still waits in the log, for one start."""
    log, shop = MemoryLog(), Shop(deaths=1)
    await shop.life(log)
    await shop.life(log)
    await decide(log, (await asked(log)).id, Decision("approve"))
    records = await log.read("r")
    ended = await shop.life(log)
    assert ended is not None
    starts = [r for r in ended.records if isinstance(r.event, e.Started)]
    word = next(r for r in ended.records if isinstance(r.event, e.Resolved))
    assert starts[0].seq < records[-1].seq < word.seq < starts[1].seq
    assert shop.paid == [5, 5]


async def test_parameters_that_are_edited_in_doubt_are_those_of_the_call() -> None:
    log, shop = MemoryLog(), Shop(deaths=2)
    await shop.life(log)
    await shop.life(log)
    await decide(log, (await asked(log)).id, Decision("edit", parameters={"euros": 3}))
    assert await shop.life(log) is None
    await shop.life(log)
    question = await asked(log)
    assert question.action.parameters == {"euros": 3}, "what was edited is what is in doubt"
    await decide(log, question.id, Decision("approve"))
    ended = await shop.life(log)
    assert shop.paid == [5, 3, 3]
    assert ended is not None
    (step,) = ended.steps[:1]
    assert step.actions[0].parameters == {"euros": 3}
    assert step.observations[0].result == "paid 3"


async def test_of_several_edits_the_last_is_what_is_in_doubt() -> None:
    log, shop = MemoryLog(), Shop(deaths=3)
    await shop.life(log)
    for euros in (3, 2):
        await shop.life(log)
        await decide(log, (await asked(log)).id, Decision("edit", parameters={"euros": euros}))
        assert await shop.life(log) is None
    await shop.life(log)
    assert (await asked(log)).action.parameters == {"euros": 2}
    assert shop.paid == [5, 3, 2]


@pytest.mark.parametrize("later", [False, True], ids=["at once", "awaited"])
@pytest.mark.parametrize(
    ("verified", "again", "result"),
    [
        (True, False, "verified: it had already happened"),
        ("receipt 7", False, "receipt 7"),
        (0, False, 0),
        (False, True, "paid 5"),
        (None, True, "paid 5"),
    ],
)
async def test_only_a_clear_yes_of_the_tool_spares_the_call(
    verified: Any, again: bool, result: Any, later: bool
) -> None:
    log, paid, asked = MemoryLog(), list[int](), list[str]()
    mortal = MortalLog(log)

    def verify(effect_id: str) -> Any:
        asked.append(effect_id)

        async def answer() -> Any:
            return verified

        return answer() if later else verified

    @tool(effect="once", tier=1, reversible=True, thread=False, verify=verify)
    def pay(euros: int) -> str:
        """Pay."""
        paid.append(euros)
        if len(paid) == 1:
            mortal.die()
        return f"paid {euros}"

    with pytest.raises(Died):
        await Agent(ScriptedModel([act("pay", euros=5)]), tools=[pay], log=mortal).run(
            "x", run_id="r"
        )
    ended = await Agent(ScriptedModel([finish()]), tools=[pay], log=log).resume("r")
    assert ended.status == "finished"
    assert paid == ([5, 5] if again else [5])
    assert ended.steps[0].observations[0].result == result
    assert len(asked) == 1, "nobody else is asked"


async def test_an_edit_in_doubt_that_the_tool_cannot_take_does_not_call_it() -> None:
    log, shop = MemoryLog(), Shop(deaths=1)
    await shop.life(log)
    await shop.life(log)
    question = await asked(log)
    await decide(log, question.id, Decision("edit", parameters={"dollars": 3}))
    await shop.life(log)
    assert (await asked(log)).id != question.id, "the edit is void, and it is asked anew"
    assert shop.paid == [5]


@pytest.mark.parametrize("fault", ["never answers", "blocks", "raises"])
async def test_a_verify_that_cannot_say_leaves_it_to_a_person(fault: str) -> None:
    """Mutants: no deadline; the event loop waits for it; its error is the run's."""
    log, paid, go = MemoryLog(), list[int](), threading.Event()
    mortal = MortalLog(log)

    async def never(effect_id: str) -> bool:
        await asyncio.sleep(3600)
        return False

    def blocks(effect_id: str) -> bool:
        go.wait(PATIENCE)
        return False

    def raises(effect_id: str) -> bool:
        raise ConnectionError("the bank is away")

    verify: Any = {"never answers": never, "blocks": blocks, "raises": raises}[fault]

    # An error must come before the deadline, on a busy machine, too.
    seconds = PATIENCE if fault == "raises" else 0.3

    @tool(effect="once", tier=1, reversible=True, timeout=seconds, verify=verify)
    async def pay(euros: int) -> str:
        """Pay."""
        paid.append(euros)
        if len(paid) == 1:
            mortal.die()
        return f"paid {euros}"

    with pytest.raises(Died):
        await Agent(ScriptedModel([act("pay", euros=5)]), tools=[pay], log=mortal).run(
            "x", run_id="r"
        )
    try:
        async with asyncio.timeout(PATIENCE):
            waiting = await Agent(ScriptedModel([]), tools=[pay], log=log).resume("r")
    finally:
        go.set()
    assert waiting.status == "waiting"
    why = "the bank is away" if fault == "raises" else "it did not answer in time"
    assert why in (await asked(log)).question
    assert paid == [5]
    await decide(log, (await asked(log)).id, Decision("approve"))
    ended = await Agent(ScriptedModel([finish()]), tools=[pay], log=log).resume("r")
    assert ended.status == "finished"
    assert paid == [5, 5]

"""A listener that raises fails its run at every event: no record claims that the run goes on.

Mutant: an error of the listener at the first event is not caught.
"""

from typing import Any

import pytest

from taofold import Agent, MemoryLog
from taofold.core.events import Record
from taofold.core.state import ENDED, fold
from taofold.testing.replay import assert_replays

from .kit import Memo, act, finish
from .payer import look, pay

pytestmark = pytest.mark.anyio


class Clumsy:
    """Raises at record number `at`: from then on at each record, or only `once`."""

    def __init__(self, at: int, *, once: bool) -> None:
        self.at, self.once, self.heard = at, once, 0

    def __call__(self, happening: Any) -> None:
        if isinstance(happening, Record):
            self.heard += 1
            if self.heard == self.at or (self.heard > self.at and not self.once):
                raise ZeroDivisionError("a listener is clumsy")


def made(log: MemoryLog) -> Agent[Any, Any]:
    script = [act("look", what="in the child"), finish("found")]
    child = Agent(Memo(script), tools=[look], name="helper")
    script = [act("look"), act("helper", goal="look"), act("pay", amount=1), finish()]
    return Agent(Memo(script), tools=[look, pay, child], log=log)


async def told() -> int:
    """Counts the records that a listener gets until such a run waits."""
    listener = Clumsy(1 << 30, once=True)
    assert (await made(MemoryLog()).run("goal", listener=listener)).status == "waiting"
    return listener.heard


@pytest.mark.parametrize("once", [True, False])
async def test_a_run_whose_listener_raises_does_not_seem_to_go_on(once: bool) -> None:
    for at in range(1, await told() + 1):
        log = MemoryLog()
        with pytest.raises(ZeroDivisionError):
            await made(log).run("goal", run_id="r", listener=Clumsy(at, once=once))
        rows = await log.rows(limit=0)
        assert {row.run for row in rows} >= {"r"}
        for row in rows:
            state = fold(await log.read(row.run))
            assert row.status == state.status, (at, row)
            assert row.status in {*ENDED, "waiting"}, (at, row)


async def test_what_a_clumsy_listener_ended_can_be_carried_on() -> None:
    for at in range(1, await told()):
        log = MemoryLog()
        agent = made(log)
        with pytest.raises(ZeroDivisionError):
            await agent.run("goal", run_id="r", listener=Clumsy(at, once=True))
        with pytest.raises(ZeroDivisionError):
            await agent.resume("r", listener=Clumsy(1, once=True))
        assert (await log.row("r")).status in ("failed", "waiting")
        result = await agent.resume("r")
        assert result.status == "waiting", at
        await assert_replays(agent, result)

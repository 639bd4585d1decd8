"""A log that fails during a call ends the activation, even if a tool catches the error.

Mutants: a store continues after a failed write; records in the middle of a write cannot be queried.
"""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from taofold import Agent, MemoryLog, RunContext, tool
from taofold.core import events as e
from taofold.core.errors import Conflict, LogError
from taofold.log.log import RunRow, WrappedLog
from taofold.log.run_store import Store
from taofold.tools import InputRequired
from tests.runtime.kit import Memo, act, batch, finish

pytestmark = pytest.mark.anyio


class Failing(WrappedLog):
    """Written, but the disk reports an error, as after a sync that failed: once, when `armed`."""

    armed = False

    async def append(self, *args: Any, **named: Any) -> bool:
        written = await super().append(*args, **named)
        if self.armed:
            self.armed = False
            raise LogError("the disk reports 'Input/output error'")
        return written


async def keeps(ctx: RunContext) -> None:
    assert ctx.keep is not None
    await ctx.keep({"id": "job 1"})


async def asks(ctx: RunContext) -> None:
    assert ctx.ask is not None
    await ctx.ask(InputRequired("where?", form={"type": "string"}))


@pytest.mark.parametrize("through", [keeps, asks])
@pytest.mark.parametrize("careless", [False, True])
async def test_what_a_tool_makes_of_an_error_of_the_log_does_not_let_the_run_go_on(
    through: Any, careless: bool
) -> None:
    log = Failing(MemoryLog())

    @tool(effect="once", tier=1, reversible=True)
    async def job(ctx: RunContext) -> str:
        """Have it done elsewhere."""
        log.armed = True
        try:
            await through(ctx)
        except Exception:
            if not careless:
                raise
        return "done"

    requests: list[Any] = []
    model = Memo([act("job"), finish()], choose=requests.append)
    agent = Agent(model, tools=[job], log=log, approve=lambda asked: True)
    with pytest.raises(LogError, match="Input/output error"):
        await agent.run("go", run_id="r")
    assert len(requests) == 1, "the model heard of it as of a failure of the tool"
    assert (await log.row("r")).status == "running"


async def test_a_blob_can_be_asked_for_while_it_is_being_written() -> None:
    class Slow(WrappedLog):
        async def append(self, *args: Any, **named: Any) -> bool:
            await asyncio.sleep(0)
            return await super().append(*args, **named)

    log = Slow(MemoryLog())
    claim = await log.create(RunRow("r"), owner="me")
    store = Store(run="r", log=log, epoch=claim.epoch)
    store.keep("d" * 40, b"a picture")
    store.dispatch(e.Noted(key="0", kind="n"))
    writing = asyncio.create_task(store.flush())
    await asyncio.sleep(0)
    assert await store.blob("d" * 40) == b"a picture"
    await writing
    assert await store.blob("d" * 40) == b"a picture"


class Slow(WrappedLog):
    """A log behind a network: others go on while it writes. Fails the write after `good` ones."""

    def __init__(self, log: MemoryLog, good: int = 1 << 30) -> None:
        super().__init__(log)
        self.good = good

    async def append(self, *args: Any, **named: Any) -> bool:
        self.good -= 1
        failing = self.good < 0
        await asyncio.sleep(0.01)
        if failing:
            raise LogError("the network is gone")
        return await super().append(*args, **named)


PAYS = batch(*[("pay", {"n": number}) for number in range(3)])


def payer(log: Slow, begun: list[list[int]]) -> Agent[Any, Any]:
    @tool(effect="once", tier=1, reversible=True)
    async def pay(n: int) -> str:
        """Pay."""
        records = await log.log.read("r")
        begun.append([r.event.index for r in records if isinstance(r.event, e.Started)])
        return "paid"

    return Agent(Memo([PAYS, finish()]), tools=[pay], log=log)


async def test_no_call_of_a_batch_begins_before_its_start_is_durable() -> None:
    """Mutant: a flush with nothing of its own does not wait for the one that has its records."""
    begun: list[list[int]] = []
    result = await payer(Slow(MemoryLog()), begun).run("go", run_id="r")
    assert result.success
    assert begun == [[0, 1, 2]] * 3


async def test_no_call_of_a_batch_begins_if_the_starts_could_not_be_written() -> None:
    for good in range(12):
        begun: list[list[int]] = []
        log = Slow(MemoryLog(), good)
        with suppress(LogError):
            await payer(log, begun).run("go", run_id="r")
        assert begun in ([], [[0, 1, 2]] * 3), good


async def test_of_several_writes_that_fail_the_first_says_why() -> None:
    """A write behind one that did not happen is out of place: that is no other owner's doing."""

    class Locked(WrappedLog):
        async def append(self, *args: Any, **named: Any) -> bool:
            await asyncio.sleep(0)
            raise errors.pop(0)

    errors = [LogError("the log is locked"), Conflict("the next record is 0, not 1")]
    log = Locked(MemoryLog())
    claim = await log.create(RunRow("r"), owner="me")
    store = Store(run="r", log=log, epoch=claim.epoch)
    writing: list[asyncio.Task[bool]] = []
    for _ in range(2):
        store.dispatch(e.Noted(key="0", kind="n"))
        writing.append(asyncio.create_task(store.flush()))
        await asyncio.sleep(0)
    ended = await asyncio.gather(*writing, return_exceptions=True)
    assert [str(end) for end in ended] == ["the log is locked"] * 2

"""Data that a tool stores about a call that continues elsewhere (`RunContext.keep`).

Mutants: the data is written after the tool goes on; a call with stored data is in doubt; a call
without is not.
"""

import asyncio
from typing import Any

import pytest

from taofold import Agent, MemoryLog, RunContext, tool
from taofold.core import events as e
from taofold.core.state import fold
from tests.runtime.kit import Memo, act, finish

pytestmark = pytest.mark.anyio


class Job:
    """A tool whose work continues elsewhere. `keeps` selects whether it stores its job."""

    def __init__(self, *, keeps: bool) -> None:
        self.keeps, self.begun, self.reached = keeps, 0, asyncio.Event()

    def tool(self) -> Any:
        async def job(ctx: RunContext, name: str) -> str:
            """Have it done elsewhere."""
            if ctx.kept is not None:
                return f"{name}: {ctx.kept['id']}"  # type: ignore[index, call-overload]
            self.begun += 1
            if self.keeps:
                assert ctx.keep is not None
                await ctx.keep({"id": f"job {self.begun}"})
            self.reached.set()
            await asyncio.sleep(600)
            return "never"

        return tool(effect="once", tier=1, reversible=True)(job)


async def interrupted(job: Job, log: MemoryLog) -> Agent[Any, Any]:
    """Starts a run that is cut off during the job. Returns the agent for the resume."""
    agent = Agent(Memo([act("job", name="x"), finish()]), tools=[job.tool()], log=log)
    running = asyncio.create_task(agent.run("go", run_id="r"))
    await job.reached.wait()
    running.cancel()
    await asyncio.wait([running])
    return agent


async def test_a_call_with_something_kept_goes_on_and_nobody_is_asked() -> None:
    job, log = Job(keeps=True), MemoryLog()
    agent = await interrupted(job, log)
    result = await agent.resume("r")
    assert result.success
    assert result.steps[0].observations[0].result == "x: job 1"
    assert job.begun == 1
    records = await log.read("r")
    starts = [record.event for record in records if isinstance(record.event, e.StartedOnce)]
    assert [start.kept for start in starts][:2] == [None, {"id": "job 1"}]
    assert fold(records).tool_calls == 1, "however often it was started, it is one call"
    assert (await agent.replay("r")).success


async def test_a_call_without_is_in_doubt_as_ever() -> None:
    job, log = Job(keeps=False), MemoryLog()
    result = await (await interrupted(job, log)).resume("r")
    assert result.status == "waiting"
    assert job.begun == 1


@pytest.mark.parametrize(
    "state", [{}, {"n": {1, 2}}, {"key": "sk-" + "a1B2c3D4" * 6}, {"long": "x" * 70_000}]
)
async def test_what_cannot_be_written_as_it_is_is_refused(state: Any) -> None:
    @tool(effect="once", tier=1, reversible=True)
    async def job(ctx: RunContext) -> str:
        """Keep something."""
        assert ctx.keep is not None
        with pytest.raises(ValueError, match="cannot be written"):
            await ctx.keep(state)
        return "refused"

    result = await Agent(Memo([act("job"), finish()]), tools=[job], log=MemoryLog()).run("go")
    assert result.steps[0].observations[0].result == "refused"

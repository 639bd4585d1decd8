"""One iteration: a run with a fresh context, then the gates, then what follows from both.

The run's id follows from the loop's and the number, so a half-done iteration is the run's
ordinary resume. The verdict is always made anew from the files as they are.
"""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from taofold.agent import Agent
from taofold.agent.result import RunResult
from taofold.core.errors import UnknownRun
from taofold.core.events import Record
from taofold.core.state import ENDED, RunState, fold
from taofold.loop import decide as d
from taofold.loop import events as e
from taofold.loop import prompt
from taofold.loop.account import account
from taofold.loop.detect import detect
from taofold.loop.findings import line, slim
from taofold.loop.ground import Judged
from taofold.loop.state import LoopState

if TYPE_CHECKING:
    from taofold.loop.driver import Driver

TOLD: Final = 6000
"""Characters of the gates' findings that an iteration is told."""
_CUT: Final = "\n[… the diff is cut here; the snapshots have all of it]"


async def iterate(driver: "Driver", move: d.Iterate) -> bool:
    """Run an iteration to its end; False if it waits for a person."""
    ground = driver.ground
    if not move.going:
        before = await ground.snapshot(f"before iteration {move.number}")
        await driver.record(e.IterationStarted(number=move.number, run=move.run, before=before))
    await _work(driver, move)
    records = await _records(driver, move.run)
    state = fold(records)
    if state.status == "waiting":
        await driver.record(await driver.paused(state.waiting_for, move.run))
        return False
    judged = await driver.during(ground.judge(f"iteration {move.number}"))
    assert judged is not None
    ended = await _ended(driver, move, records, judged)
    await driver.record(ended, *detect(driver.state, ended))
    return True


def shaped(agent: Agent[Any, Any], state: LoopState, now: int, had: RunState) -> Agent[Any, Any]:
    """The agent as the loop needs it: its rules, the lessons, and what is left of the limits.

    `had` is what the run has used already; its own counters go on from there.
    """
    bounds, limits = state.bounds, agent.limits
    seconds = max(0.0, d.left_ms(state, now) / 1000) + had.active_ms / 1000
    if limits.seconds is not None:
        seconds = min(seconds, limits.seconds)
    usd = limits.usd
    if bounds.usd is not None:
        left = max(0.0, bounds.usd - state.spent.usage.usd)
        usd = left if usd is None else min(usd, left)
    changes: dict[str, Any] = {"seconds": seconds, "usd": usd}
    if bounds.steps is not None:
        changes["steps"] = bounds.steps
    strict = True if agent.strict is None else agent.strict
    return agent.but(
        instructions=prompt.instructions(agent.instructions, state),
        limits=replace(limits, **changes),
        strict=strict,
    )


async def _work(driver: "Driver", move: d.Iterate) -> None:
    """Start the iteration's run, carry it on, or leave it if it ended already."""
    state, means = driver.state, driver.means
    records = await _records(driver, move.run)
    had = fold(records)
    if had.status in ENDED and had.status != "cancelled" and had.stop_reason != "error":
        return
    now = driver.now()
    made = means.agent(driver.ground.root, state)
    agent = shaped(made, state, now, had).but(log=means.log)
    if records:
        work = agent.resume(move.run, listener=driver.tell)
    else:
        told = prompt.goal(state, move.number, _failing(driver))
        mine = {"loop": driver.loop, "iteration": move.number, "reference": prompt.BAR}
        settings = {**means.settings(state, agent), **mine}
        work = agent.run(told, run_id=move.run, listener=driver.tell, settings=settings)
    left = max(0.0, d.left_ms(state, now) / 1000)
    _: RunResult[Any] | None = await driver.during(work, left)


def _failing(driver: "Driver") -> str:
    """What the gates said last."""
    last = driver.state.verdict
    return "" if last is None else driver.ground.told(last, TOLD)


async def _records(driver: "Driver", run: str) -> Sequence[Record]:
    try:
        return await driver.means.log.read(run)
    except UnknownRun:
        return ()


async def _ended(
    driver: "Driver", move: d.Iterate, records: Sequence[Record], judged: Judged
) -> e.IterationEnded:
    """Everything that is known of the iteration, as one fact."""
    state, ground = driver.state, driver.ground
    going = state.open
    assert going is not None
    assert state.baseline is not None
    told = account(records)
    changed = await ground.changed(going.before, judged.snapshot)
    full = await ground.diff(going.before, judged.snapshot, 10 * e.DIFF)
    diff = full if len(full) <= e.DIFF else full[: e.DIFF] + _CUT
    apart = await ground.changed(state.baseline.snapshot, judged.snapshot)
    files = dict(await ground.digests(apart))
    blocked = "" if state.wish.unexecuted else judged.blocked
    commit = ""
    if state.wish.commit and changed:
        body = f"{line(judged.verdict)}\n\n{state.wish.task[:500]}"
        commit = await ground.commit(move.number, body, state.wish.branch)
    return e.IterationEnded(
        number=move.number,
        run=move.run,
        verdict=slim(judged.verdict),
        snapshot=judged.snapshot,
        status=told.status,
        stop_reason=told.stop_reason,
        said=told.said,
        confidence=told.confidence,
        diff=diff,
        digest=sha256(full.encode("utf-8", "replace")).hexdigest()[:16],
        changed=tuple(changed),
        files=files,
        failed=told.failed,
        executed=told.executed,
        blocked=blocked if changed or apart else "",
        tools=told.tools,
        spent=structs.replace(told.spent, ms=max(0, driver.now() - going.started_at)),
        commit=commit,
    )

"""The embedded engine advances each due run exactly once, and leaves no due run behind."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from taofold import Agent, MemoryLog, Policy, tool
from taofold.clocks import clock
from taofold.core import events as e
from taofold.core.errors import ConfigError
from taofold.core.state import fold
from taofold.engine import LocalEngine
from taofold.engine import reconciler as engine_module
from taofold.engine.reconciler import Steadiness
from taofold.log.log import AT_ONCE, Log, RunRow, Signal
from taofold.runtime import ownership
from taofold.runtime import run as runs
from taofold.runtime.endings import Advanced
from taofold.runtime.ownership import LEASE_MS
from taofold.runtime.setup import Pause
from taofold.testing.models import FunctionModel
from tests.runtime.kit import act, finish
from tests.runtime.test_leases import ELSEWHERE, Clock, left

pytestmark = pytest.mark.anyio
PATIENCE = 180.0


class World:
    """A log, an agent, and what was done."""

    def __init__(self, log: Log | None = None) -> None:
        self.log = log or MemoryLog()
        self.asked: list[str] = []
        self.looking = 0
        self.hold = asyncio.Event()
        self.hold.set()
        world = self

        @tool(effect="read")
        async def look() -> str:
            """Look."""
            self.looking += 1
            await world.hold.wait()
            return "seen"

        @tool(effect="once", tier=3)
        def pay() -> str:
            """Pay."""
            return "paid"

        def turn(request: Any) -> str:
            goal = request.conversation[1].content
            said = sum(message.role == "assistant" for message in request.conversation)
            self.asked.append(goal)
            return finish() if said else act("pay" if "pay" in goal else "look")

        policy = Policy(approve_seconds=60)
        self.agent = Agent(FunctionModel(turn), tools=[look, pay], log=self.log, policy=policy)
        self.now: Callable[[], int] = clock
        self.foreign: set[str] = set()
        self.broken: set[str] = set()

    async def advance(self, run: str, pause: Pause) -> Advanced:
        if run in self.broken:
            raise ConfigError("its agent cannot be made")
        return await self.agent.advance(run, pause=pause)

    async def ours(self, run: str) -> bool:
        return run not in self.foreign

    @asynccontextmanager
    async def engine(self, **options: Any) -> AsyncIterator[LocalEngine]:
        options = {"look_s": 0.01, **options}
        made = LocalEngine(
            self.log, self.advance, now=lambda: self.now(), ours=self.ours, **options
        )
        await made.start()
        try:
            yield made
        finally:
            await made.stop(5)

    async def until(self, run: str, *statuses: str) -> RunRow:
        async with asyncio.timeout(PATIENCE):
            while True:
                row = await self.log.row(run)
                if row.status in (statuses or ("finished",)):
                    return row
                await asyncio.sleep(0.002)


async def settled(holds: Callable[[], bool]) -> None:
    """Return when it holds."""
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.002)


async def test_what_a_dead_process_left_is_advanced_at_the_start() -> None:
    world = World()
    here = ownership.me().split("|")
    await left(world.log, "|".join([here[0], "4194304", "1", *here[3:]]), lease_ms=1)
    async with world.engine():
        await world.until("r")


async def test_a_run_of_another_boot_is_advanced_when_its_lease_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine_module, "SILENT_S", 0.02)
    time = Clock()
    world = World(MemoryLog(now=time))
    await left(world.log, ELSEWHERE)
    async with world.engine() as engine:
        for _ in range(3):
            await engine.reconcile()
        assert (await world.log.row("r")).held
        time.now += LEASE_MS + 1
        await world.until("r")


@pytest.mark.parametrize("jumps", [False, True])
async def test_a_lease_that_is_over_by_a_steady_clock_is_over(
    monkeypatch: pytest.MonkeyPatch, jumps: bool
) -> None:
    """Mutants: `steady` is always true; `look` does not compare."""
    monkeypatch.setattr(engine_module, "SILENT_S", 3600.0)
    monkeypatch.setattr(engine_module, "STEADY_S", 0.2)
    start, real = Clock(), time.monotonic()
    ahead = 0

    def now() -> int:
        return start.now + int((time.monotonic() - real) * 1000) + ahead

    world = World(MemoryLog(now=now))
    await left(world.log, ELSEWHERE, lease_ms=LEASE_MS if jumps else 600)
    async with world.engine():
        if not jumps:
            await world.until("r")
            return
        await asyncio.sleep(0.4)
        ahead = LEASE_MS + 1
        await asyncio.sleep(0.1)
        assert not (await world.log.row("r")).held
        assert (await world.log.row("r")).owner == ELSEWHERE


def test_a_clock_is_steady_when_it_was_looked_at_often_and_never_jumped() -> None:
    """Mutants: `GAP_S` is not checked; a clock that stood still counts as steady."""
    at = [100.0]

    async def looked(*ahead: float, every_s: float) -> bool:
        log = MemoryLog(now=lambda: int(1000 * (at[0] + ahead_now[0])))
        clock = Steadiness(log, steady_s=10.0, monotonic=lambda: at[0])
        for ahead_now[0] in ahead:
            await clock.look()
            at[0] += every_s
        return clock.steady

    ahead_now = [0.0]
    assert asyncio.run(looked(*[7.0] * 15, every_s=1.0))
    assert not asyncio.run(looked(*[7.0] * 5, every_s=1.0))
    assert not asyncio.run(looked(*[7.0] * 10, 8.0, *[8.0] * 5, every_s=1.0))
    assert not asyncio.run(looked(*[7.0] * 10, 6.0, every_s=1.0))
    assert not asyncio.run(looked(*[7.0] * 10, every_s=4.0))


async def test_a_clock_that_jumps_takes_no_run_from_a_process_that_lives() -> None:
    """All leases expire at once. A live owner renews before another process has checked twice."""
    time = Clock()
    world = World(MemoryLog(now=time))
    await left(world.log, ELSEWHERE)
    async with world.engine() as engine:
        time.now += 3_600_000
        for _ in range(3):
            await engine.reconcile()
        world.log.renew(ELSEWHERE, ["r"], LEASE_MS)
        for _ in range(3):
            await engine.reconcile()
        row = await world.log.row("r")
        assert (row.owner, row.epoch) == (ELSEWHERE, 1)


async def test_a_message_that_another_process_wrote_is_noticed() -> None:
    world = World()
    async with world.engine():
        await world.agent.begin("pay", run_id="r")
    async with world.engine() as engine:
        await engine.wake("r")
        row = await world.until("r", "waiting")
        asked = [r for r in await world.log.read("r") if isinstance(r.event, e.Decided)][-1]
        data = {"seq": asked.seq, "verdict": "allow"}
        await world.log.post("r", Signal("d", "decide", "ann", 1, data))
        await world.until("r")
        assert row.wake_at > AT_ONCE, "when the approval expires"


async def test_an_approval_that_nobody_gives_expires_though_the_run_is_not_ours() -> None:
    world = World()
    await world.agent.begin("pay", run_id="r")
    await world.agent.advance("r")
    world.foreign.add("r")
    world.now = lambda: clock() + 61_000
    async with world.engine() as engine:
        for _ in range(3):
            await engine.reconcile()
    row = await world.log.row("r")
    assert (row.status, row.waiting_for) == ("waiting", "expired")
    kinds = [type(record.event).__name__ for record in await world.log.read("r")]
    assert kinds.count("Resolved") == 1, "once"


async def test_a_run_that_is_due_for_nothing_is_not_driven_again() -> None:
    world = World()
    await world.agent.begin("pay", run_id="r")
    await world.agent.advance("r")
    row, records = await world.log.row("r"), await world.log.read("r")
    claim = await world.log.claim("r", "")
    await world.log.append("r", claim.epoch, [], status="waiting", waiting_for="x", wake_at=AT_ONCE)
    async with world.engine() as engine:
        for _ in range(3):
            await engine.reconcile()
    assert await world.log.read("r") == records
    assert (await world.log.row("r")).wake_at == row.wake_at


async def test_a_child_whose_caller_has_ended_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "SILENT_S", 0.0)
    world = World()
    await world.agent.begin("x", run_id="r")
    assert (await world.agent.resume("r")).status == "finished"
    row = RunRow("r.1-0", "running", "y", parent="r")
    start = e.Record("r.1-0", 0, 1, e.RunStarted(goal="y", parent="r"))
    await world.log.create(row, records=[start], owner=ELSEWHERE, lease_ms=1)
    async with world.engine():
        await world.until("r.1-0", "cancelled")
    state = fold(await world.log.read("r.1-0"))
    assert (state.status, state.stop_reason) == ("cancelled", "interrupted")


async def test_many_runs_of_others_hold_up_none_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "_PAGE", 10)
    monkeypatch.setattr(engine_module, "PAGES", 2)
    monkeypatch.setattr(engine_module, "SILENT_S", 0.0)
    world = World()
    for n in range(75):
        await left(world.log, ELSEWHERE, f"theirs{n}", lease_ms=1)
        world.foreign.add(f"theirs{n}")
    await left(world.log, ELSEWHERE, "ours", lease_ms=1)
    async with world.engine():
        await world.until("ours")


async def test_a_run_that_cannot_be_advanced_is_set_aside() -> None:
    world = World()
    await left(world.log, "", lease_ms=1)
    world.broken.add("r")
    async with world.engine() as engine:
        await settled(lambda: "r" in engine.stuck)
        assert engine.stuck["r"] == "its agent cannot be made"
        world.broken.clear()
        await engine.wake("r")
        assert not engine.drives("r")
        engine.stuck.clear()
        await world.until("r")


async def test_more_runs_than_may_be_driven_take_their_turns() -> None:
    world = World()
    world.hold.clear()
    async with world.engine(most=2) as engine:
        for n in range(6):
            await world.agent.begin(f"look {n}", run_id=f"r{n}")
            await engine.wake(f"r{n}")
        await settled(lambda: engine.queued == 4 and engine.active <= 2)
        assert len(set(world.asked)) == 2, "who waits for its turn asks no model"
        world.hold.set()
        for n in range(6):
            await world.until(f"r{n}")


async def test_what_is_queued_is_in_the_log_and_no_process_need_remember_it() -> None:
    world = World()
    world.hold.clear()
    async with world.engine(most=1) as first:
        for n in range(3):
            await world.agent.begin(f"look {n}", run_id=f"r{n}")
            await first.wake(f"r{n}")
        await settled(lambda: first.queued == 2)
        first.stopping = True
        world.hold.set()
    async with world.engine():
        for n in range(3):
            await world.until(f"r{n}")


async def test_what_is_cut_off_by_a_stop_goes_on_at_the_next_start() -> None:
    world = World()
    world.hold.clear()
    async with world.engine() as engine:
        await world.agent.begin("look", run_id="r")
        await engine.wake("r")
        await settled(lambda: bool(world.asked))
        await engine.stop(0.01)
    row = await world.log.row("r")
    assert (row.status, row.waiting_for) == ("waiting", "server_stopped")
    world.hold.set()
    async with world.engine():
        await world.until("r")


async def test_what_a_person_cancelled_stays_so_at_the_next_start() -> None:
    world = World()
    world.hold.clear()
    task = asyncio.create_task(world.agent.run("look", run_id="r"))
    await settled(lambda: bool(world.looking))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    async with world.engine() as engine:
        for _ in range(5):
            await engine.reconcile()
        assert (await world.log.row("r")).status == "cancelled"
        await runs.reopen(world.log, "r")
        world.hold.set()
        await world.until("r")


async def test_two_engines_on_one_log_advance_each_run_once() -> None:
    world = World()
    async with world.engine() as one, world.engine() as two:
        for n in range(20):
            await world.agent.begin(f"look {n}", run_id=f"r{n}")
            await one.wake(f"r{n}")
            await two.wake(f"r{n}")
        for n in range(20):
            await world.until(f"r{n}")
    assert sorted(world.asked) == sorted([f"look {n}" for n in range(20)] * 2)

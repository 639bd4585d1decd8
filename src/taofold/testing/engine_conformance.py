"""Numbered contracts that every engine must pass.

    def opened(log, advance, **options):
        return MyEngine(log, advance, **options)

    @pytest.mark.parametrize("contract", contracts(), ids=lambda contract: contract.__name__)
    def test_my_engine_keeps(contract):
        asyncio.run(contract(opened, MemoryLog()))

A contract gets a function that creates an engine, not yet started, and an empty log. The function
gets the log, the callback that advances a run, and the keywords `now`, `ours` and `most`, as
`LocalEngine` does. `EngineBench` is the agent that the contracts drive, with approvers and dead
processes around it. A contract raises `Broken` if it is not kept. Knows nothing about the
implementation of an engine. An engine that shares its work with other processes may take seconds,
but not `PATIENCE_S`.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol, TypeAlias

from taofold.agent import Agent
from taofold.clocks import clock
from taofold.core import events as run_events
from taofold.core.errors import ConfigError, LogError
from taofold.engine import Advance, Engine
from taofold.log.log import AT_ONCE, Log, RunRow, Signal
from taofold.policy import Limits, Policy
from taofold.runtime.endings import UNATTENDED, Advanced, Share
from taofold.runtime.setup import Pause
from taofold.testing.log_conformance.checks import Broken, numbered, same
from taofold.testing.models import FunctionModel
from taofold.tools import tool

__all__ = ["Broken", "EngineContract", "EngineMaker", "contracts"]

PATIENCE_S: Final = 240.0
"""The time in seconds within which every contract must end."""
_ELSEWHERE: Final = "another-boot/pid:[1]|77|1234|own|ab"
"""An owner whose process cannot be inspected from here."""


class EngineMaker(Protocol):
    """Creates an engine that is not yet started."""

    def __call__(
        self,
        log: Log,
        advance: Advance,
        *,
        now: Callable[[], int],
        ours: Callable[[str], Awaitable[bool]],
        most: int,
    ) -> Engine: ...


EngineContract: TypeAlias = Callable[[EngineMaker, Log], Awaitable[None]]


class EngineBench:
    """A log, an agent, and a record of its calls.

    A goal lists the tools to call, one per turn: "look pay look". `look` waits until it is
    released, `pay` needs an approval, `fire` may be called once.
    """

    def __init__(self, make: EngineMaker, log: Log) -> None:
        self.make, self.log = make, log
        self.hold = asyncio.Event()
        self.hold.set()
        self.inside = asyncio.Event()
        self.calls: list[str] = []
        self.asked: list[str] = []
        self.now: Callable[[], int] = clock
        self.foreign: set[str] = set()
        self.errors: dict[str, list[Exception]] = {}
        self.calls_of_a_share = 0
        tools = [
            tool(effect="read")(self.look),
            tool(effect="once", tier=1, reversible=True)(self.fire),
            tool(effect="once", tier=3)(self.pay),
        ]
        self.agent = Agent[Any, Any](
            FunctionModel(self._turn),
            tools=tools,
            log=log,
            name="worker",
            policy=Policy(approve_seconds=60),
            limits=Limits(steps=20),
        )

    async def look(self) -> str:
        """Look, as long as it takes."""
        self.inside.set()
        await self.hold.wait()
        return "seen"

    async def fire(self) -> str:
        """Fire."""
        self.calls.append("fire")
        return "fired"

    async def pay(self) -> str:
        """Pay."""
        self.calls.append("pay")
        return "paid"

    def _turn(self, request: Any) -> str:
        goal = str(request.conversation[1].content).split()
        # The turn is derived from the conversation, so a run that another engine continues asks the
        # same.
        turn = sum(message.role == "assistant" for message in request.conversation)
        self.asked.append(f"{' '.join(goal)} {turn}")
        action: dict[str, Any] = {
            "tool": "finish",
            "parameters": {"answer": "done"},
            "rationale": "needed",
        }
        if turn < len(goal):
            action = {"tool": goal[turn], "parameters": {}, "rationale": "needed"}
        return json.dumps({"thought": "on", "thought_type": "progress", "action": action})

    async def advance(self, run: str, pause: Pause) -> Advanced:
        if errors := self.errors.get(run):
            # The last error stays: a contract removes it after enough attempts.
            raise errors.pop() if len(errors) > 1 else errors[0]
        share = Share(self.calls_of_a_share, pause)
        return await self.agent.advance(run, pause=share)

    async def ours(self, run: str) -> bool:
        return run not in self.foreign

    @asynccontextmanager
    async def engine(self, most: int = 50) -> AsyncGenerator[Engine]:
        """Yields a started engine and stops it at the end."""
        engine = self.make(
            self.log, self.advance, now=lambda: self.now(), ours=self.ours, most=most
        )
        await engine.start()
        try:
            yield engine
        finally:
            await engine.stop(5)

    async def begin(self, goal: str, run: str) -> str:
        return await self.agent.begin(goal, run_id=run)

    async def until(self, run: str, *statuses: str) -> RunRow:
        """Returns the run's row once its status is one of these, "finished" by default."""
        expected = statuses or ("finished",)
        row = await self.log.row(run)
        try:
            async with asyncio.timeout(PATIENCE_S):
                while row.status not in expected:
                    await asyncio.sleep(0.02)
                    row = await self.log.row(run)
        except TimeoutError:
            raise Broken(
                f"run {run!r} is {row.status} after {PATIENCE_S} s, not {expected}"
            ) from None
        return row

    async def settled(self, holds: Callable[[], bool], what: str) -> None:
        """Returns once `holds` is true."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not holds():  # noqa: ASYNC110 - there is no event for it
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise Broken(f"within {PATIENCE_S} s: {what}") from None

    async def called(self, times: int) -> None:
        """Returns once `times` calls were made."""
        await self.settled(lambda: len(self.calls) >= times, f"{times} calls")

    async def settled_row(self, run: str, holds: Callable[[RunRow], bool]) -> None:
        """Returns once `holds` accepts the run's row."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not holds(await self.log.row(run)):  # noqa: ASYNC110 - polled
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise Broken(f"after {PATIENCE_S} s: {await self.log.row(run)}") from None

    async def approve(self, run: str) -> None:
        """Approves as another process does: only in the log."""
        records = await self.log.read(run)
        decided = [record for record in records if isinstance(record.event, run_events.Decided)][-1]
        data = {"seq": decided.seq, "verdict": "allow"}
        # Named after the record that it answers: posted twice it is one signal.
        await self.log.post(run, Signal(f"yes-{decided.seq}", "decide", "ann", clock(), data))

    async def whole(self, run: str) -> None:
        """Checks that the run's records are consecutive and each call was observed once."""
        records = await self.log.read(run)
        same([record.seq for record in records], list(range(len(records))), f"seqs of {run}")
        observed = [
            (record.event.key, record.event.index)
            for record in records
            if isinstance(record.event, run_events.Observed)
        ]
        same(len(observed), len(set(observed)), f"observations of {run} are told once")


def waits_for_a_person(row: RunRow) -> bool:
    """Returns whether the run waits for an open approval."""
    return row.status == "waiting" and row.waiting_for not in UNATTENDED and row.wake_at != AT_ONCE


async def c01_a_run_that_is_woken_comes_to_its_end(make: EngineMaker, log: Log) -> None:
    bench = EngineBench(make, log)
    async with bench.engine() as engine:
        await bench.begin("look fire", "r")
        await engine.wake("r")
        await bench.until("r")
        await bench.settled(lambda: not engine.drives("r"), "nobody drives it any more")
        same(engine.active, 0, "runs that are driven")
    same(bench.calls, ["fire"], "calls")
    await bench.whole("r")


async def c02_what_is_due_is_found_without_being_told(make: EngineMaker, log: Log) -> None:
    bench = EngineBench(make, log)
    await bench.begin("look", "r")
    # Due only in the log: `wake` is not called.
    claim = await log.claim("r", "", force=True)
    await log.append("r", claim.epoch, [], status="waiting", waiting_for="queued", wake_at=AT_ONCE)
    async with bench.engine():
        await bench.until("r")


async def c03_what_a_dead_process_left_goes_on(make: EngineMaker, log: Log) -> None:
    bench = EngineBench(make, log)
    start = run_events.RunStarted(goal="look", strategy="react")
    row = RunRow("r", "running", "look")
    # A lease that expires at once, of a process that cannot be inspected.
    await log.create(
        row, records=[run_events.Record("r", 0, 1, start)], owner=_ELSEWHERE, lease_ms=1
    )
    async with bench.engine():
        await bench.until("r")
    same((await log.row("r")).epoch > 1, True, "it was claimed anew")


async def c04_an_approval_that_somebody_wrote_is_acted_on(make: EngineMaker, log: Log) -> None:
    bench = EngineBench(make, log)
    async with bench.engine() as engine:
        await bench.begin("pay pay", "r")
        await engine.wake("r")
        for paid in (0, 1):
            await bench.settled_row("r", waits_for_a_person)
            await bench.settled(lambda: not engine.drives("r"), "a run that waits is not driven")
            same(len(bench.calls), paid, "calls before the approval")
            await bench.approve("r")
            await bench.called(paid + 1)
        await bench.until("r")
    same(bench.calls, ["pay", "pay"], "calls")
    await bench.whole("r")


async def c05_a_run_that_waits_is_left_alone(make: EngineMaker, log: Log) -> None:
    bench = EngineBench(make, log)
    async with bench.engine() as engine:
        await bench.begin("pay", "r")
        await engine.wake("r")
        await bench.settled_row("r", waits_for_a_person)
        await bench.settled(lambda: not engine.drives("r"), "a run that waits is not driven")
        records, asked_before = await log.read("r"), len(bench.asked)
        for _ in range(3):
            await engine.wake("r")
        engine.nudge()
        # Nothing happens here, so there is no event to wait for; the engine looks for due work in
        # this time.
        await asyncio.sleep(1.5)
        same(len(bench.asked), asked_before, "models asked while it waits")
        same(await log.read("r"), records, "its records while it waits")


async def c06_waking_it_often_drives_it_once(make: EngineMaker, log: Log) -> None:
    bench = EngineBench(make, log)
    bench.hold.clear()
    async with bench.engine() as engine:
        await bench.begin("look fire", "r")
        await asyncio.gather(*[engine.wake("r") for _ in range(10)])
        await bench.settled(bench.inside.is_set, "it is driven")
        await asyncio.gather(*[engine.wake("r") for _ in range(10)])
        bench.hold.set()
        await bench.until("r")
    same(bench.calls, ["fire"], "calls")
    same(len(bench.asked), 3, "models asked")
    await bench.whole("r")


async def c07_runs_that_it_cannot_advance_are_left_to_others(make: EngineMaker, log: Log) -> None:
    bench = EngineBench(make, log)
    bench.foreign.add("theirs")
    for run in ("theirs", "ours"):
        await bench.begin("look", run)
        claim = await log.claim(run, "", force=True)
        await log.append(
            run, claim.epoch, [], status="waiting", waiting_for="queued", wake_at=AT_ONCE
        )
    async with bench.engine():
        await bench.until("ours")
        await asyncio.sleep(1.5)
    row = await log.row("theirs")
    same((row.status, row.waiting_for, row.events), ("waiting", "queued", 1), "a run of others")


async def c08_what_cannot_be_continued_is_set_aside(make: EngineMaker, log: Log) -> None:
    bench = EngineBench(make, log)
    bench.errors["broken"] = [ConfigError("its agent cannot be made")]
    async with bench.engine() as engine:
        for run in ("broken", "sound"):
            await bench.begin("look", run)
            await engine.wake(run)
        await bench.until("sound")
        await bench.settled(lambda: "broken" in engine.stuck, "it is known to be stuck")
        same(engine.stuck["broken"], "its agent cannot be made", "why")
        bench.errors.clear()
        await engine.wake("broken")
        await asyncio.sleep(1.0)
        same((await log.row("broken")).events, 1, "what is stuck is not tried again")
        engine.stuck.clear()
        await engine.wake("broken")
        await bench.until("broken")


async def c09_an_error_that_passes_costs_no_run(make: EngineMaker, log: Log) -> None:
    bench = EngineBench(make, log)
    bench.errors["r"] = [LogError("away"), LogError("away"), LogError("away")]
    async with bench.engine() as engine:
        await bench.begin("look", "r")
        claim = await log.claim("r", "", force=True)
        await log.append(
            "r", claim.epoch, [], status="waiting", waiting_for="queued", wake_at=AT_ONCE
        )
        await engine.wake("r")
        await bench.settled(lambda: len(bench.errors["r"]) == 1, "it was tried again")
        bench.errors.clear()
        await bench.until("r")
        same(engine.stuck, {}, "stuck runs")


async def c10_a_share_that_is_used_up_goes_on(make: EngineMaker, log: Log) -> None:
    bench = EngineBench(make, log)
    bench.calls_of_a_share = 1
    async with bench.engine() as engine:
        await bench.begin("fire fire fire", "r")
        await engine.wake("r")
        row = await bench.until("r")
    same(bench.calls, ["fire"] * 3, "calls")
    # Each activation claims the run again, which raises its epoch.
    same(row.epoch >= 4, True, "activations of one model call each")
    await bench.whole("r")


async def c11_what_it_lets_go_others_go_on_with(make: EngineMaker, log: Log) -> None:
    bench = EngineBench(make, log)
    bench.hold.clear()
    async with bench.engine() as engine:
        await bench.begin("look fire", "r")
        await engine.wake("r")
        await bench.settled(bench.inside.is_set, "it is driven")
        # Released only once it stops: the running tool ends, and `fire` must not begin.
        stopping = asyncio.create_task(engine.stop(PATIENCE_S))
        await bench.settled(lambda: engine.stopping, "it stops")
        bench.hold.set()
        await stopping
        row = await log.row("r")
        due = row.status == "waiting" and 0 < row.wake_at <= clock()
        same(due, True, "a run is due when its engine has stopped")
        same(bench.calls, [], "calls before another engine goes on")
        await engine.wake("r")
        same(engine.drives("r"), False, "a stopped engine drives")
    async with bench.engine():
        await bench.until("r")
    same(bench.calls, ["fire"], "calls")
    await bench.whole("r")


async def c12_what_takes_too_long_is_cut_off_and_goes_on(make: EngineMaker, log: Log) -> None:
    bench = EngineBench(make, log)
    bench.hold.clear()
    async with bench.engine() as engine:
        await bench.begin("look fire", "r")
        await engine.wake("r")
        await bench.settled(bench.inside.is_set, "it is driven")
        async with asyncio.timeout(PATIENCE_S):
            # `look` is still held, so the stop cannot wait for it.
            await engine.stop(0.05)
        same((await log.row("r")).status, "waiting", "a run that was cut off")
    bench.hold.set()
    async with bench.engine():
        await bench.until("r")
    same(bench.calls, ["fire"], "calls")


async def c13_an_approval_that_nobody_gives_expires(make: EngineMaker, log: Log) -> None:
    bench = EngineBench(make, log)
    await bench.begin("pay", "r")
    await bench.agent.advance("r")
    # One second more than the policy's `approve_seconds`.
    bench.now = lambda: clock() + 61_000
    async with bench.engine():
        await bench.settled_row("r", lambda row: row.waiting_for == "expired")
    same(bench.calls, [], "calls without an approval")


async def c14_more_than_may_be_driven_take_turns(make: EngineMaker, log: Log) -> None:
    bench = EngineBench(make, log)
    runs = [f"r{number}" for number in range(8)]
    async with bench.engine(most=2) as engine:
        for run in runs:
            await bench.begin("look fire", run)
            await engine.wake(run)
        for run in runs:
            await bench.until(run)
            await bench.whole(run)
    same(len(bench.calls), len(runs), "calls")


async def c15_what_does_not_exist_or_has_ended_is_no_matter(make: EngineMaker, log: Log) -> None:
    bench = EngineBench(make, log)
    async with bench.engine() as engine:
        await engine.wake("unknown")
        await bench.begin("look", "r")
        await engine.wake("r")
        row = await bench.until("r")
        await bench.settled(lambda: not engine.drives("r"), "nobody drives it any more")
        await engine.wake("r")
        await asyncio.sleep(1.0)
        same((await log.row("r")).events, row.events, "records after the end")
        same([run for run in engine.stuck if run == "r"], [], "ended runs that are stuck")


async def c16_two_engines_advance_each_run_once(make: EngineMaker, log: Log) -> None:
    bench = EngineBench(make, log)
    runs = [f"r{number}" for number in range(12)]
    async with bench.engine() as first, bench.engine() as two:
        for number, run in enumerate(runs):
            await bench.begin("look fire pay", run)
            await (first, two)[number % 2].wake(run)
        for run in runs:
            await bench.settled_row(run, waits_for_a_person)
            await bench.approve(run)
        for run in runs:
            await bench.until(run)
            await bench.whole(run)
    same(sorted(bench.calls), ["fire"] * len(runs) + ["pay"] * len(runs), "calls")


_CONTRACTS: Final[dict[int, EngineContract]] = numbered(globals())
_SHARED: Final = (16,)


def contracts(*, several: bool = True) -> tuple[EngineContract, ...]:
    """Returns the contracts.

    Args:
        several: True if a process may have several such engines, which must then share the work.
    """
    return tuple([c for n, c in _CONTRACTS.items() if several or n not in _SHARED])

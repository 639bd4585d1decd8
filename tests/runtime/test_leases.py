"""A lease gives a run one owner: no second process drives it, and no dead owner keeps it."""

import asyncio
import re
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from taofold import Agent, Decision, MemoryLog, Outcome, tool
from taofold.core import events as e
from taofold.core.errors import Conflict, LogError, Refused
from taofold.core.values import Principal
from taofold.log.log import AT_ONCE, LONGEST_LEASE_MS, Log, RunRow, WrappedLog
from taofold.log.sqlite.log import SqliteLog
from taofold.runtime import control as people
from taofold.runtime import ownership
from taofold.runtime import run as runs
from taofold.runtime.endings import Finished, More, Share, Waiting
from taofold.runtime.ownership import LEASE_MS, Heartbeat
from taofold.testing import ScriptedModel
from taofold.testing.models import FunctionModel
from tests.ports import PATIENCE

from .kit import act, finish

pytestmark = pytest.mark.anyio

LOOK_S = 0.03125
"""A pause between two looks at a run's row that nothing else waits."""

ELSEWHERE = "another-boot/pid:[1]|77|1234|own|ab"
"""A process of another boot: whether it lives cannot be seen from here."""


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "SILENT_S", 0.0)


class Clock:
    """A log's clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1_000_000

    def __call__(self) -> int:
        return self.now


class Slow:
    """An agent whose tool waits until it is let go."""

    def __init__(self) -> None:
        self.fired: list[str] = []
        self.inside, self.go = asyncio.Event(), asyncio.Event()

    def agent(self, log: Log) -> Agent[Any, Any]:
        @tool(effect="once", tier=1, reversible=True, verify=self.verify)
        async def fire() -> str:
            """Fire."""
            self.inside.set()
            await self.go.wait()
            self.fired.append("fired")
            return "fired"

        def turn(request: Any) -> str:
            said = sum(message.role == "assistant" for message in request.conversation)
            return finish() if said else act("fire")

        return Agent(FunctionModel(turn), tools=[fire], log=log)

    def verify(self, effect: str) -> Any:
        return Outcome("fired") if self.fired else False


async def left(log: Log, who: str = ELSEWHERE, run: str = "r", lease_ms: int = LEASE_MS) -> None:
    """Returns a run whose owner still drives it or has died."""
    start = e.RunStarted(goal="x", strategy="react")
    row = RunRow(run, "running", "x")
    records = [e.Record(run, 0, 1, start)]
    await log.create(row, records=records, owner=who, lease_ms=lease_ms)


def simple(log: Log, *script: str) -> Agent[Any, Any]:
    return Agent(ScriptedModel([*script, finish()]), log=log)


@pytest.mark.scenario("PEER-04")
async def test_two_openers_of_one_file_in_one_process_are_one_log(tmp_path: Path) -> None:
    (tmp_path / "other").symlink_to(tmp_path)
    one, two = SqliteLog(tmp_path / "log.db"), SqliteLog(tmp_path / "other" / "log.db")
    slow = Slow()
    running = asyncio.create_task(slow.agent(one).run("x", run_id="r"))
    await slow.inside.wait()
    assert one.identity == two.identity
    with pytest.raises(Conflict, match="driven by this process"):
        await slow.agent(two).resume("r")
    with pytest.raises(Conflict):
        await slow.agent(two).resume("r", takeover=True)
    assert await slow.agent(two).advance("r") == Waiting(
        "r", "driven", (await two.row("r")).lease_until
    )
    slow.go.set()
    assert (await running).status == "finished"
    assert slow.fired == ["fired"]
    await one.close()
    await two.close()


async def test_a_run_of_another_boot_is_left_alone_until_its_lease_is_over() -> None:
    clock = Clock()
    log = MemoryLog(now=clock)
    await left(log)
    with pytest.raises(Conflict, match="process 77 of another machine, container or boot"):
        await simple(log).resume("r")
    clock.now += LEASE_MS - 1
    log.renew(ELSEWHERE, ["r"], LEASE_MS)
    clock.now += LEASE_MS - 1
    with pytest.raises(Conflict, match="wait until its lease is over"):
        await simple(log).resume("r")
    clock.now += 2
    assert (await simple(log).resume("r")).status == "finished"


async def test_whoever_lives_keeps_his_run_when_the_clock_jumps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All leases expire at once. The owner on another machine renews within seconds."""
    monkeypatch.setattr(runs, "SILENT_S", 60.0)
    clock, looks = Clock(), 0

    class Looked(MemoryLog):
        async def row(self, run: str) -> RunRow:
            nonlocal looks
            looks += 1
            if looks == 3:
                self.renew(ELSEWHERE, ["r"], LEASE_MS)
            return await super().row(run)

    log = Looked(now=clock)
    await left(log)
    clock.now += 3_600_000
    with pytest.raises(Conflict, match="wait until its lease is over"):
        await simple(log).resume("r")
    assert looks == 3
    row = await log.row("r")
    assert (row.owner, row.epoch, row.events) == (ELSEWHERE, 1, 1)
    clock.now += 3_600_000
    assert (await simple(log).resume("r", takeover=True)).status == "finished"


async def test_a_process_that_is_certainly_gone_holds_nobody_up() -> None:
    log = MemoryLog()
    here = ownership.me().split("|")
    await left(log, "|".join([here[0], "4194304", "1", *here[3:]]))
    assert (await simple(log).resume("r")).status == "finished"


async def test_the_lease_of_a_run_that_this_process_let_go_holds_nobody_up() -> None:
    log = MemoryLog()
    await left(log, ownership.me())
    assert (await simple(log).resume("r")).status == "finished"


async def test_whoever_was_overtaken_writes_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A frozen process thaws after its lease expired and was taken over. Its append is fenced."""
    # A frozen process has no heartbeat, which would renew the lease in the jumped time.
    monkeypatch.setattr(ownership.HEART, "_renew", lambda: None)
    clock = Clock()
    log = SqliteLog(tmp_path / "log.db", now=clock)
    slow = Slow()
    frozen = asyncio.create_task(slow.agent(log).run("x", run_id="r"))
    await slow.inside.wait()
    clock.now += LEASE_MS + 1
    claim = await log.claim("r", ELSEWHERE, lease_ms=LEASE_MS)
    before = await log.read("r")
    slow.go.set()
    with pytest.raises(Conflict):
        await frozen
    assert await log.read("r") == before
    assert (await log.row("r")).lease_until == clock.now + LEASE_MS, "nor ends another's lease"
    assert claim.previous_owner == ownership.me()
    await log.close()


async def test_what_cuts_a_drive_short_frees_the_run_at_once() -> None:
    class Full(MemoryLog):
        full = False

        async def append(self, *args: Any, **named: Any) -> bool:
            if self.full:
                raise LogError("the disk is full")
            return await super().append(*args, **named)

    log = Full()

    def full_now(request: Any) -> str:
        log.full = True
        return act("nothing")

    with pytest.raises(LogError, match="full"):
        await Agent(FunctionModel(full_now), log=log).run("x", run_id="r")
    row = await log.row("r")
    assert (row.status, row.held) == ("running", False)
    assert [one.run for one in await log.due(0)] == ["r"]
    log.full = False
    assert (await simple(log).resume("r")).status == "finished"


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_signs_of_life_do_not_need_the_event_loop(kind: str, tmp_path: Path) -> None:
    renewals = threading.Semaphore(0)

    class Watched(WrappedLog):
        def renew(self, owner: str, runs: Collection[str], lease_ms: int) -> set[str]:
            renewed = super().renew(owner, runs, lease_ms)
            renewals.release(len(renewed))
            return renewed

    log = Watched(MemoryLog() if kind == "memory" else SqliteLog(tmp_path / "log.db"))
    await left(log, ownership.me(), lease_ms=60_000)
    heart = Heartbeat(beat_s=0.02, lease_ms=300)
    with heart.driving(log, "r"):
        for _ in range(3):  # a tool that holds the event loop up
            assert renewals.acquire(timeout=PATIENCE)
    await eventually(log, lambda row: not row.held)
    await log.close()


async def eventually(log: Log, holds: Callable[[RunRow], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds(await log.row("r")):  # noqa: ASYNC110 - a log says nothing by itself
            await asyncio.sleep(0.01)


async def test_a_heart_that_cannot_reach_its_log_beats_on() -> None:
    class Away(MemoryLog):
        calls = 0

        def renew(self, *args: Any) -> set[str]:
            self.calls += 1
            if self.calls < 3:
                raise LogError("away")
            return super().renew(*args)

    log = Away()
    await left(log, ownership.me(), lease_ms=1)
    with Heartbeat(beat_s=0.01, lease_ms=60_000).driving(log, "r"):
        await eventually(log, lambda row: log.calls >= 3 and row.held)


async def test_a_sign_of_life_under_way_does_not_begin_a_released_lease_anew() -> None:
    """Mutant: `release` does not wait for the renewal that has begun."""
    begun, go, done = threading.Event(), threading.Event(), threading.Event()

    class Slow(MemoryLog):
        def renew(self, owner: str, runs: Collection[str], lease_ms: int) -> set[str]:
            if not lease_ms:
                return super().renew(owner, runs, lease_ms)
            begun.set()
            go.wait(PATIENCE)
            renewed = super().renew(owner, runs, lease_ms)
            done.set()
            return renewed

    log, heart = Slow(), Heartbeat(beat_s=0.01, lease_ms=60_000)
    await left(log, ownership.me(), lease_ms=60_000)
    with heart.driving(log, "r"):
        await asyncio.to_thread(begun.wait, PATIENCE)
    releasing = asyncio.ensure_future(asyncio.to_thread(heart.release, log, "r"))
    await asyncio.wait({releasing}, timeout=0.1)
    go.set()
    await asyncio.gather(releasing, asyncio.to_thread(done.wait, PATIENCE))
    assert not (await log.row("r")).held


async def test_a_run_that_fails_gives_no_sign_of_life_when_its_lease_is_released() -> None:
    """Mutant: `release` does not take it from what is renewed."""
    leases: list[int] = []

    class Full(MemoryLog):
        async def append(self, *args: Any, **named: Any) -> bool:
            raise LogError("the disk is full")

        def renew(self, owner: str, runs: Collection[str], lease_ms: int) -> set[str]:
            renewed = super().renew(owner, runs, lease_ms)
            leases.append(lease_ms)
            if not lease_ms:
                ownership.HEART._renew()  # the thread's next beat comes now
            return renewed

    log = Full()
    with pytest.raises(LogError, match="disk is full"):
        await simple(log).run("x", run_id="r")
    # A beat of the thread may come before.
    assert leases.count(0) == 1
    assert leases[-1] == 0
    assert not (await log.row("r")).held


async def test_a_store_that_hangs_holds_up_no_other_lease() -> None:
    """Mutants: one lock for the renewals of all stores; one thread for all of them."""
    begun, go = threading.Event(), threading.Event()

    class Hung(MemoryLog):
        def renew(self, owner: str, runs: Collection[str], lease_ms: int) -> set[str]:
            begun.set()
            go.wait(2 * PATIENCE)
            return super().renew(owner, runs, lease_ms)

    hung, log, heart = Hung(), MemoryLog(), Heartbeat(beat_s=0.01, lease_ms=60_000)
    await left(hung, ownership.me(), lease_ms=60_000)
    await left(log, ownership.me(), lease_ms=1)
    with heart.driving(hung, "r"), heart.driving(log, "r"):
        await asyncio.to_thread(begun.wait, PATIENCE)
        try:
            async with asyncio.timeout(PATIENCE):
                await eventually(log, lambda row: row.held)
                await asyncio.to_thread(heart.release, log, "r")
            assert not (await log.row("r")).held
        finally:
            go.set()


def test_a_run_whose_event_loop_was_closed_is_driven_by_nobody() -> None:
    """Mutant: the holder of its task blocks the run for ever."""
    log = MemoryLog()
    begun = asyncio.Event()

    async def never(_: Any) -> str:
        begun.set()
        await asyncio.sleep(3600)
        return ""

    loop = asyncio.new_event_loop()
    task = loop.create_task(Agent(FunctionModel(never), log=log).run("x", run_id="r"))
    loop.run_until_complete(begun.wait())
    loop.close()
    assert not ownership.HEART.drives(log, "r")
    before = asyncio.run(log.row("r")).lease_until
    ownership.HEART._renew()
    assert asyncio.run(log.row("r")).lease_until == before
    assert simple(log).resume_sync("r").status == "finished"
    assert not task.done()
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    with suppress(RuntimeError):
        task.get_coro().close()  # type: ignore[union-attr]


async def test_a_run_that_this_process_left_is_resumed_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Mutant: who resumes it takes himself for its driver, and waits for his own sign of life."""
    log = MemoryLog()
    await left(log, ownership.me(), lease_ms=1)
    await eventually(log, lambda row: not row.held)
    slept: list[float] = []
    monkeypatch.setattr(runs, "SILENT_S", 5)
    monkeypatch.setattr(runs, "_LOOK_S", LOOK_S)
    real = asyncio.sleep

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await real(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    assert (await simple(log).resume("r")).status == "finished"
    # The log itself may sleep while another writer holds its file.
    assert LOOK_S not in slept


async def test_a_lease_that_ends_too_late_was_taken_by_another_clock() -> None:
    """The clock is set back by an hour. A dead process's lease blocks the run no longer for it."""
    clock = Clock()
    log = MemoryLog(now=clock)
    await left(log)
    clock.now -= 3_600_000
    assert not (await log.row("r")).held
    assert [row.run for row in await log.due(clock.now)] == ["r"]
    assert (await simple(log).resume("r")).status == "finished"
    assert LEASE_MS < LONGEST_LEASE_MS


async def unbegun(log: Log) -> None:
    """A run as an earlier release left it that died between its row and its first event."""
    await log.create(RunRow("r", "running", "x", session="s"))


async def test_a_run_has_its_lease_from_its_first_record() -> None:
    clock = Clock()
    log = MemoryLog(now=clock)
    seen: list[RunRow] = []

    async def reply(_: Any) -> str:
        seen.append(await log.row("r"))
        return finish()

    await Agent(FunctionModel(reply), log=log).run("x", run_id="r")
    assert [row.lease_until for row in seen] == [clock.now + LEASE_MS]


@pytest.mark.parametrize("driven", [True, False])
async def test_a_fork_has_a_lease_only_if_it_is_driven(driven: bool) -> None:
    clock = Clock()
    log = MemoryLog(now=clock)
    await simple(log).run("x", run_id="r")
    await runs.fork(log, "r", "s", now=clock(), driven=driven)
    row = await log.row("s")
    assert (row.held, row.owner) == ((True, ownership.me()) if driven else (False, ""))
    clock.now += LEASE_MS - 1
    assert (await log.row("s")).held == driven
    clock.now += 2
    assert not (await log.row("s")).held


async def test_a_run_that_somebody_drives_is_not_taken_back() -> None:
    log = MemoryLog()
    await left(log)
    with pytest.raises(Conflict, match="is being driven by process 77"):
        await runs.rewind(log, "r", to=None, now=2)
    assert (await log.row("r")).owner == ELSEWHERE


async def test_a_run_whose_driver_is_gone_is_taken_back() -> None:
    log = MemoryLog()
    here = ownership.me().split("|")
    await left(log, "|".join([here[0], "4194304", "1", *here[3:]]))
    assert await runs.rewind(log, "r", to=None, now=2) == 0
    assert [type(r.event) for r in await log.read("r")] == [e.RunStarted, e.Rewound]


@pytest.mark.parametrize("spawned", [True, False])
def test_only_a_worker_that_was_spawned_says_so(
    spawned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a spawned worker may be killed to take its run over."""
    if spawned:
        monkeypatch.setenv(ownership.SPAWNED, "1")
    else:
        monkeypatch.delenv(ownership.SPAWNED, raising=False)
    ownership._process.cache_clear()
    try:
        assert ownership.me().split("|")[3] == ("spawned" if spawned else "own")
    finally:
        ownership._process.cache_clear()


async def test_a_run_that_somebody_is_beginning_is_not_removed() -> None:
    log = MemoryLog()
    await log.create(RunRow("r", "running", "x"), owner=ELSEWHERE, lease_ms=LEASE_MS)
    with pytest.raises(Conflict):
        await simple(log).run("x", run_id="r")
    assert (await log.row("r")).held


async def test_advancing_is_idempotent_wherever_the_run_stands() -> None:
    @tool(effect="once", tier=3)
    def pay() -> str:
        """Pay."""
        return "paid"

    def turn(request: Any) -> str:
        said = sum(message.role == "assistant" for message in request.conversation)
        return finish() if said else act("pay")

    log = MemoryLog()
    one = Agent(FunctionModel(turn), tools=[pay], log=log)
    assert await one.begin("x", run_id="r") == "r"
    row = await log.row("r")
    assert (row.events, row.held) == (1, True), "whoever began it is to drive it"
    waits = Waiting("r", "awaiting_approval")
    for _ in range(3):
        assert await one.advance("r") == waits
        records = len(await log.read("r"))
    assert (await log.read("r"))[-1].event == e.Parked(reason="awaiting_approval")
    (asked,) = await people.pending(log, "r")
    await people.decide(log, asked.id, Decision("approve"))
    assert (await log.row("r")).wake_at == AT_ONCE
    assert len(await log.read("r")) == records, "a person's word waits in the inbox"
    for _ in range(3):
        assert await one.advance("r") == Finished("r", "finished")
    assert not any(isinstance(r.event, e.Resumed) for r in (await log.read("r"))[:records])
    with pytest.raises(Refused, match="fork it"):
        await one.resume("r")


async def test_advancing_a_caller_goes_on_when_its_child_is_due() -> None:
    @tool(effect="once", tier=3)
    def pay() -> str:
        """Pay."""
        return "paid"

    def turn(request: Any) -> str:
        said = sum(message.role == "assistant" for message in request.conversation)
        inner = "inner" in request.conversation[1].content
        return finish() if said else act("pay") if inner else act("clerk", goal="inner")

    log = MemoryLog()
    clerk = Agent(FunctionModel(turn), tools=[pay], name="clerk")
    one = Agent(FunctionModel(turn), tools=[clerk], log=log)
    await one.begin("outer", run_id="r")
    assert await one.advance("r") == Waiting("r", "awaiting_approval")
    (asked,) = await people.pending(log, "r")
    assert asked.run == "r.2-0"
    await people.decide(log, asked.id, Decision("approve"))
    assert [row.run for row in await log.due(0)] == [], "0 is before everything"
    assert [row.run for row in await log.due(1)] == [asked.run]
    assert await one.advance("r") == Finished("r", "finished")


async def test_an_activation_gives_way_when_its_share_is_used_up() -> None:
    @tool(effect="read")
    def look() -> str:
        """Look."""
        return "seen"

    def turn(request: Any) -> str:
        said = sum(message.role == "assistant" for message in request.conversation)
        return finish() if said == 4 else act("look", f"look {said}")

    log = MemoryLog()
    one = Agent(FunctionModel(turn), tools=[look], log=log)
    await one.begin("x", run_id="r")
    seen: list[Any] = []
    for _ in range(4):
        advanced = await one.advance("r", pause=Share(calls=2))
        seen.append((advanced, len(await log.due(10**15))))
        if isinstance(advanced, Finished):
            break
    assert seen == [(More("r"), 1), (More("r"), 1), (Finished("r", "finished"), 0)]


async def test_approvals_that_expire_are_when_the_run_is_due() -> None:
    from taofold import Policy

    @tool(effect="once", tier=3)
    def pay() -> str:
        """Pay."""
        return "paid"

    def turn(request: Any) -> str:
        said = sum(message.role == "assistant" for message in request.conversation)
        return finish() if said else act("pay")

    log = MemoryLog()
    one = Agent(FunctionModel(turn), tools=[pay], log=log, policy=Policy(approve_seconds=60))
    await one.begin("x", run_id="r")
    waits = await one.advance("r")
    (asked,) = await people.pending(log, "r")
    assert waits == Waiting("r", "awaiting_approval", asked.expires_at + 1)
    assert await log.due(asked.expires_at) == []
    assert [row.run for row in await log.due(asked.expires_at + 1)] == ["r"]


@pytest.mark.parametrize("name", ["interrupted", "ann"])
async def test_why_a_run_ended_is_a_field_whatever_people_are_called(name: str) -> None:
    log = MemoryLog()
    slow = Slow()
    task = asyncio.create_task(slow.agent(log).run("x", run_id="r"))
    await slow.inside.wait()
    await people.cancel(log, "r", by=Principal(name))
    slow.go.set()
    assert (await task).stop_reason == "cancelled"
    assert await log.due(10**15) == [], "what a person ended is not carried on"


@pytest.mark.parametrize(
    ("reason", "status", "due"), [("", "cancelled", 0), ("server_stopped", "waiting", 1)]
)
async def test_an_interruption_ends_a_run_or_lets_it_wait(
    reason: str, status: str, due: int
) -> None:
    log = MemoryLog()
    slow = Slow()
    stopping = ""
    one = slow.agent(log)
    await one.begin("x", run_id="r")
    task = asyncio.create_task(one.advance("r", pause=lambda: stopping))
    await slow.inside.wait()
    stopping = reason
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    row, last = await log.row("r"), (await log.read("r"))[-1].event
    assert (row.status, row.lease_until) == (status, 0)
    assert len(await log.due(10**15)) == due
    if isinstance(last, e.RunFinished):
        assert (last.stop_reason, last.error) == ("interrupted", "interrupted")
        await runs.reopen(log, "r")
        assert len(await log.due(10**15)) == 1
    slow.go.set()
    assert await one.advance("r") == Finished("r", "finished")


async def test_a_run_that_has_ended_for_good_is_not_opened_again() -> None:
    log = MemoryLog()
    await simple(log).run("x", run_id="r")
    with pytest.raises(Refused):
        await runs.reopen(log, "r")


def test_a_child_process_has_no_heart_of_its_parents() -> None:
    heart = Heartbeat()
    log = MemoryLog()
    with heart.driving(log, "r"):
        heart.forked()
        assert not heart.drives(log, "r")


def test_one_process_is_one_owner() -> None:
    assert ownership.mine(ownership.me())
    assert ownership.me() == ownership.me()
    assert ownership.described(ownership.me()) == "this process"
    assert ownership.BEAT_S * 3 < LEASE_MS / 1000, "a beat that is lost costs nobody his run"


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_what_a_log_says_of_another_owner_holds_nothing_of_its_name(
    kind: str, tmp_path: Path
) -> None:
    log: Log = MemoryLog() if kind == "memory" else SqliteLog(tmp_path / "log.db")
    await left(log)
    with pytest.raises(Conflict, match="driven by another process") as held:
        await log.claim("r", "me", lease_ms=LEASE_MS)
    with pytest.raises(Conflict, match="another one took it over") as stale:
        await log.append("r", 0, [], status="waiting")
    assert not {"77", *ELSEWHERE.split("|")} & {
        *re.findall(r"[\w-]+", f"{held.value} {stale.value}")
    }
    await log.close()

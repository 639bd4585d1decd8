"""Contracts 24 to 35 of a log: leases, due runs, counts and cursors, lost answers, races.

Contract 31 covers writes whose answer was lost (`Severed` loses them). Contracts 32 to 35 are
races, in one loop, two threads, two processes. Each has two sides, which meet at a barrier before
each round. The checks read the log afterwards, so the result does not depend on the faster side.
"""

import asyncio
import multiprocessing
import pickle
import queue
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Barrier, Thread
from typing import Any, Final, Literal, TypeAlias

from taofold.core.errors import Conflict, LogError, OutcomeUnknown, UnknownRun
from taofold.log.log import AT_ONCE, Log, RunRow, Signal, WrappedLog
from taofold.log.uncertain_writes import CertainLog
from taofold.testing.log_conformance.checks import (
    RUN,
    Broken,
    Opener,
    expect_error,
    same,
    seqs,
    updates,
)

LONG_MS = 50_000
"""A lease that outlasts every contract, in milliseconds."""
_PATIENCE_S = 5.0
_CHECKS = 20
"""Minimum number of checks before a condition counts as failed: each may be slow."""


async def c24_a_run_begins_with_its_first_records_or_not_at_all(opened: Opener) -> None:
    log = opened()
    row = RunRow(RUN, "running", session="s")
    claim = await log.create(
        row, records=updates(RUN, 0, 2), owner="me", lease_ms=LONG_MS, disk=True
    )
    same(claim.epoch, 1, "the epoch of who began the run")
    current = await log.row(RUN)
    same((current.events, current.owner, current.held), (2, "me", True), "the row")
    same(await log.append(RUN, 1, updates(RUN, 2, 1)), True, "its next append")
    await expect_error(Conflict, log.create(row, records=updates(RUN, 0, 1)), "the same id")
    other = RunRow("other", "running", session="s")
    await expect_error(
        Conflict, log.create(other, records=updates("other", 0, 1)), "a busy session"
    )
    gap = log.create(RunRow("gap"), records=updates("gap", 1, 1), blobs={"d0": b"gap"})
    await expect_error(Conflict, gap, "first records that are not the first")
    await expect_error(LogError, log.blob("d0"), "a blob of a run that was refused")
    for run in ("other", "gap"):
        await expect_error(UnknownRun, log.row(run), "a run that was refused")
    same(await seqs(log), [0, 1, 2], "the records")
    same((await log.create(RunRow("idle"))).epoch, 0, "the epoch of a run that nobody drives")
    await log.create(RunRow("shown"), records=updates("shown", 0, 1), blobs={"d1": b"shown"})
    same(await log.blob("d1"), b"shown", "a blob that a run began with")
    await log.delete("shown")
    await expect_error(LogError, log.blob("d1"), "a blob of a run that was deleted")
    await log.close()


async def _eventually(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    """Returns once `holds` is true, within the patience for the log's clock."""
    clock = asyncio.get_running_loop().time
    end, checks = clock() + _PATIENCE_S, 0
    while not await holds():
        checks += 1
        if checks >= _CHECKS and clock() > end:
            raise Broken(f"{what}: not after {_PATIENCE_S} s")
        await asyncio.sleep(0.02)


async def c25_a_lease_keeps_others_out_until_it_is_over(opened: Opener) -> None:
    log = opened()
    await log.create(RunRow(RUN, "running"), owner="one", lease_ms=LONG_MS)
    await expect_error(Conflict, log.claim(RUN, "two", lease_ms=LONG_MS), "a claim while it lasts")
    await expect_error(Conflict, log.claim(RUN, "two", epoch=1), "one that names the epoch")
    same((await log.row(RUN)).epoch, 1, "the epoch after refused claims")
    same(log.renew("two", [RUN], LONG_MS), set[str](), "what is not one's own is not renewed")
    # One millisecond: the lease soon expires by the log's clock, without waiting for it.
    same(log.renew("one", [RUN, "unknown"], 1), {RUN}, "what is")

    async def over() -> bool:
        return not (await log.row(RUN)).held

    await _eventually(over, "a lease of a millisecond is over")
    same((await log.claim(RUN, "two", epoch=1, lease_ms=LONG_MS)).epoch, 2, "a claim after that")
    same(log.renew("one", [RUN], LONG_MS), set[str](), "who was overtaken renews nothing")
    claim = await log.claim(RUN, "three", epoch=2, lease_ms=LONG_MS, force=True)
    same((claim.epoch, claim.previous_owner), (3, "two"), "a claim by force")
    same((await log.claim(RUN, "three", lease_ms=LONG_MS)).epoch, 4, "the owner's own claim")
    log.renew("three", [RUN], 0)
    same((await log.row(RUN)).held, False, "a lease that was ended")
    same((await log.claim(RUN, "four")).epoch, 5, "a claim after that")
    same((await log.row(RUN)).held, False, "a claim without a lease")
    await log.close()


async def c26_a_status_but_running_ends_the_lease(opened: Opener) -> None:
    log = opened()
    await log.create(RunRow(RUN, "running"), owner="one", lease_ms=LONG_MS)
    await log.append(RUN, 1, [], status="running")
    same((await log.row(RUN)).held, True, "running on")
    await log.append(RUN, 1, [], status="waiting", waiting_for="x", wake_at=7)
    row = await log.row(RUN)
    same((row.held, row.lease_until, row.wake_at), (False, 0, 7), "a waiting run")
    same(log.renew("one", [RUN], LONG_MS), set[str](), "its lease is not renewed")
    claim = await log.claim(RUN, "two", epoch=1, lease_ms=LONG_MS)
    row = await log.row(RUN)
    fields = (row.status, row.waiting_for, row.wake_at, row.held)
    same(fields, ("running", "", 0, True), "a run that is driven again")
    await log.append(RUN, claim.epoch, [], status="finished")
    same((await log.row(RUN)).held, False, "a run that has ended")
    await log.close()


async def c27_what_is_due_is_listed_and_nothing_else(opened: Opener) -> None:
    log = opened()
    for run, wake_at in (("early", 10), ("late", 20), ("never", 0)):
        await log.create(RunRow(run, "waiting", wake_at=wake_at))
    await log.create(RunRow("driven", "running"), owner="one", lease_ms=LONG_MS)
    await log.create(RunRow("forked", "running"))
    await log.create(RunRow("over", "finished", wake_at=5))
    same(await _due(log, 9), [], "nothing is due yet")
    same(await _due(log, 10), ["early"], "at its time")
    same(await _due(log, 99), ["early", "late"], "the longest due first")
    first = await log.due(99, limit=1)
    same([row.run for row in first], ["early"], "one of them")
    behind = await log.due(99, limit=1, after=first[0])
    same([row.run for row in behind], ["late"], "the one behind it")
    same(await log.due(99, after=behind[0]), [], "nothing is behind the last one")
    # Refused attempts stay in the inbox for the audit, until the run is next driven.
    await log.post("never", Signal("s0", "refused"))
    same(await _due(log, 99), ["early", "late"], "what is for the audit wakes nobody")
    await log.post("never", Signal("s1", "steer"))
    same(await _due(log, AT_ONCE), ["never"], "a message makes a run due at once")
    log.renew("one", ["driven"], 1)

    async def driven() -> bool:
        return "driven" in await _due(log, 99)

    await _eventually(driven, "a run whose lease is over is due")
    same(set(await _due(log, 99)), {"never", "early", "late", "driven"}, "a lease that is over")
    await log.close()


async def _due(log: Log, now: int) -> list[str]:
    return [row.run for row in await log.due(now)]


async def c28_runs_are_counted_by_status(opened: Opener) -> None:
    log = opened()
    same(await log.count(), {}, "an empty log")
    for n in range(6):
        row = RunRow(f"r{n}", "running", principal="ann" if n % 2 else "bob", parent="r0" * (n > 3))
        await log.create(row)
    same(await log.count(), {"running": 6}, "all")
    same(await log.count(principal="ann"), {"running": 2}, "ann's, without child runs")
    await log.append("r1", 0, [], status="finished")
    await log.append("r5", 0, [], status="finished")
    await log.claim("r0", "me", lease_ms=LONG_MS)
    same(await log.count(), {"running": 4, "finished": 2}, "after two have ended")
    same(await log.count(principal="ann"), {"running": 1, "finished": 1}, "of ann's")
    await log.delete("r1")
    same(await log.count(), {"running": 4, "finished": 1}, "after one was deleted")
    same(await log.count(principal="ann"), {"running": 1}, "of ann's")
    same(await log.count(principal="*"), {}, "nobody's")
    await log.close()


async def c29_filters_and_cursors_find_every_run_once(opened: Opener) -> None:
    log = opened()
    for n in range(30):
        agent, principal = "ab"[n % 2], ("ann", "bob", "")[n % 3]
        status = "finished" if n % 5 else "running"
        await log.create(RunRow(f"r{n:02}", status, agent=agent, principal=principal))

    rows = await log.rows(limit=0)
    same(len({row.place for row in rows}), 30, "places")
    pages: list[str] = []
    before = 0
    while page := await log.rows(agent="a", principal="ann", limit=2, before=before):
        pages += [row.run for row in page]
        before = page[-1].place
    expected = [row.run for row in rows if row.agent == "a" and row.principal == "ann"]
    same(pages, expected, "page by page")
    none = await log.rows(agent="b", principal="bob", status="running", limit=0)
    same([row.run for row in none], ["r25"], "three filters")
    same(await log.rows(agent="c"), [], "an agent without runs")
    same(await log.rows(before=rows[-1].place), [], "before the first one")
    same(await log.ids("r0", limit=3), ["r00", "r01", "r02"], "ids that begin so")
    same(await log.ids("r29"), ["r29"], "an id that begins with itself")
    same(await log.ids("x"), [], "ids that do not")
    same(await log.ids("%"), [], "no patterns in a beginning")
    await log.close()


async def c30_one_log_has_one_identity(opened: Opener) -> None:
    log = opened()
    await log.create(RunRow(RUN))
    same(log.identity, log.identity, "its identity")
    same(bool(log.identity), True, "there is one")
    await log.close()


class Severed(WrappedLog):
    """A log whose connection breaks at every write: before it arrives, or after it was done."""

    def __init__(self, log: Log, *, after: bool) -> None:
        super().__init__(log)
        self._after, self.broken = after, 0
        self._again = False

    async def _cut(self, write: Callable[[], Awaitable[Any]]) -> Any:
        self._again = not self._again
        if not self._again:  # the attempt after the break arrives
            return await write()
        self.broken += 1
        # The dangerous case: the write is done, and its answer was lost.
        if self._after:
            await write()
        raise OutcomeUnknown("the connection was lost")

    async def create(self, row: RunRow, **named: Any) -> Any:
        return await self._cut(lambda: super(Severed, self).create(row, **named))

    async def claim(self, run: str, owner: str, **named: Any) -> Any:
        return await self._cut(lambda: super(Severed, self).claim(run, owner, **named))

    async def append(self, run: str, epoch: int, records: Any, **named: Any) -> Any:
        return await self._cut(lambda: super(Severed, self).append(run, epoch, records, **named))

    async def post(self, run: str, signal: Signal) -> bool:
        new: bool = await self._cut(lambda: super(Severed, self).post(run, signal))
        return new


async def c31_what_became_of_a_write_can_be_found_out(opened: Opener) -> None:
    for after in (True, False):
        log, run = opened(), f"run-{after}"
        cut = Severed(log, after=after)
        certain = CertainLog(cut, pauses_s=(0.0,) * 4)

        async def fresh(cut: Severed = cut) -> None:
            cut._again = False

        first = updates(run, 0, 1)
        claim = await certain.create(RunRow(run, "running"), records=first, owner="me")
        same(claim.epoch, 1, "the epoch of a run whose answer was lost")
        for seq in range(1, 6):
            await fresh()
            written = await certain.append(run, 1, updates(run, seq, 1), status="running")
            same(written, True, "an append whose answer was lost")
        same(await seqs(log, run), list(range(6)), "each record once")
        await fresh()
        message = Signal("s1", "steer", "ann", 1, {"text": "x"})
        same(await certain.post(run, message), True, "a message whose answer was lost")
        same(await log.inbox(run), [message], "the inbox")
        await fresh()
        same((await certain.claim(run, "me", epoch=1)).epoch, 2, "a claim whose answer was lost")
        await fresh()
        await expect_error(
            Conflict, certain.append(run, 1, updates(run, 6, 1)), "an old epoch's append"
        )
        # A lost answer must not count as success if another owner continued the run.
        await log.claim(run, "other", epoch=2)
        await fresh()
        await expect_error(
            Conflict, certain.append(run, 2, updates(run, 6, 1)), "who was overtaken"
        )
        same(await seqs(log, run), list(range(6)), "the records after that")
        same(cut.broken > 8, True, "answers were lost")
        await log.close()

    dead = opened()
    certain = CertainLog(_Gone(dead), pauses_s=(0.0, 0.0))
    await expect_error(OutcomeUnknown, certain.create(RunRow("x")), "a log that never comes back")
    await dead.close()


class _Gone(WrappedLog):
    async def create(self, row: RunRow, **named: Any) -> Any:
        raise OutcomeUnknown("the connection was lost")

    async def row(self, run: str) -> RunRow:
        raise OutcomeUnknown("still away")


Side: TypeAlias = Callable[[Log, int], Awaitable[Any]]
Way: TypeAlias = Literal["tasks", "threads", "processes"]

ROUNDS: Final = {"tasks": 40, "threads": 250, "processes": 120}
_RACE_S: Final = 120.0
# Threads switch 500 times as often as usual (5 ms), so races show in few rounds.
_SWITCH_S: Final = 1e-5


@dataclass(frozen=True, slots=True)
class Race:
    """`before` prepares a round, the sides run concurrently, `after` checks the result."""

    before: Side
    one: Side
    two: Side
    after: Callable[[Log, int, Any, Any], Awaitable[None]]


async def _nothing(log: Log, number: int) -> None:
    """Prepares nothing."""


async def _drives(log: Log, number: int) -> None:
    row = RunRow(f"r{number}", "running")
    await log.create(row, owner="one", lease_ms=50_000)


async def _idle(log: Log, number: int) -> None:
    await log.create(RunRow(f"r{number}", "running"), owner="one")


async def _parks(log: Log, number: int) -> bool:
    run = f"r{number}"
    return await log.append(run, 1, updates(run, 0, 1), status="waiting", if_quiet=True)


async def _posts(log: Log, number: int) -> bool:
    return await log.post(f"r{number}", Signal("s", "steer", "ann"))


async def _woken(log: Log, number: int, parked: Any, posted: Any) -> None:
    """Checks that a message reaches the run: either it did not park, or it is due."""
    same(posted, True, "a message")
    row = await log.row(f"r{number}")
    if parked and row.wake_at != AT_ONCE:
        raise Broken(
            "a run parked while a message arrived, and no driver will ever read it: `if_quiet` and "
            "the write must be one transaction"
        )
    same(row.status, "waiting" if parked else "running", "the run")


async def _writes(log: Log, number: int) -> int:
    """Appends as the old owner until another owner has the run; returns the number of records."""
    run = f"r{number}"
    for seq in range(30):
        try:
            await log.append(run, 1, updates(run, seq, 1))
        except Conflict:
            return seq
        await asyncio.sleep(0)
    return 30


async def _overtakes(log: Log, number: int) -> tuple[int, int]:
    """Claims the run, and reads its number of events twice."""
    run = f"r{number}"
    await log.claim(run, "two", epoch=1)
    first = (await log.row(run)).events
    for _ in range(5):
        # Read again after a short time: a write of the old owner may still be in progress.
        await asyncio.sleep(0.0005)
    return first, (await log.row(run)).events


async def _fenced(log: Log, number: int, written: Any, seen: Any) -> None:
    """Checks that no write of the old owner arrives after the claim."""
    first, second = seen
    last = (await log.row(f"r{number}")).events
    if not first == second == last == written:
        raise Broken(
            f"the old owner wrote behind the claim of the new one ({first} records then, {last} "
            "now): the epoch must be compared in the transaction that writes"
        )


async def _creates(log: Log, number: int, side: str) -> bool:
    run = f"{side}{number}"
    row = RunRow(run, "running", session=f"s{number}")
    with suppress(Conflict):
        await log.create(row, records=updates(run, 0, 1), owner=side)
        return True
    return False


async def _creates_one(log: Log, number: int) -> bool:
    return await _creates(log, number, "one")


async def _creates_two(log: Log, number: int) -> bool:
    return await _creates(log, number, "two")


async def _alone(log: Log, number: int, one: Any, two: Any) -> None:
    rows = await log.rows(session=f"s{number}")
    same((one + two, len(rows)), (1, 1), "runs that began at once in one session, and their rows")
    same(rows[0].events, 1, "the first record of the one that began")


async def _claims(log: Log, number: int, side: str) -> int:
    with suppress(Conflict):
        return (await log.claim(f"r{number}", side, epoch=1, lease_ms=50_000)).epoch
    return 0


async def _claims_two(log: Log, number: int) -> int:
    return await _claims(log, number, "two")


async def _claims_three(log: Log, number: int) -> int:
    return await _claims(log, number, "three")


async def _one_owner(log: Log, number: int, one: Any, two: Any) -> None:
    same(sorted((one, two)), [0, 2], "epochs of two who claim a run at the same epoch")
    owner = "two" if one else "three"
    same((await log.row(f"r{number}")).owner, owner, "its owner")


RACES: Final = {
    "parking": Race(_drives, _parks, _posts, _woken),
    "fencing": Race(_idle, _writes, _overtakes, _fenced),
    "creating": Race(_nothing, _creates_one, _creates_two, _alone),
    "claiming": Race(_idle, _claims_two, _claims_three, _one_owner),
}


async def c32_a_message_is_never_lost_to_a_run_that_parks(opened: Opener) -> None:
    await _raced("parking", opened)


async def c33_nothing_of_an_old_owner_arrives_behind_a_claim(opened: Opener) -> None:
    await _raced("fencing", opened)


async def c34_of_two_runs_that_begin_at_once_in_a_session_one_does(opened: Opener) -> None:
    await _raced("creating", opened)


async def c35_of_two_who_claim_a_run_at_once_one_has_it(opened: Opener) -> None:
    await _raced("claiming", opened)


async def _raced(name: str, opened: Opener) -> None:
    """Races in one loop; if the store can be opened several times, also in two threads and
    processes.
    """
    log, rounds = opened(), ROUNDS["tasks"]
    await _prepared(name, log, rounds)
    outcomes = [await _round(name, log, number) for number in range(rounds)]
    await _checked(name, log, outcomes, 0)
    first = rounds
    for way in _ways(log, opened):
        await _prepared(name, log, ROUNDS[way], first)
        together = await asyncio.to_thread(_apart, way, name, opened, first, ROUNDS[way])
        await _checked(name, log, together, first)
        first += ROUNDS[way]
    await log.close()


def _ways(log: Log, opened: Opener) -> list[Way]:
    """Returns the further ways to open the store: in a second thread, in a second process."""
    if log.identity.startswith("memory:"):
        return []
    try:
        # A pickleable opener can run in a spawned process; a memory log or a lambda cannot.
        pickle.dumps(opened)
    except Exception:  # noqa: BLE001 - any error means that it cannot be sent
        return ["threads"]
    return ["threads", "processes"]


async def _prepared(name: str, log: Log, rounds: int, first: int = 0) -> None:
    for number in range(first, first + rounds):
        await RACES[name].before(log, number)


async def _round(name: str, log: Log, number: int) -> tuple[Any, Any]:
    first, two = await asyncio.gather(RACES[name].one(log, number), RACES[name].two(log, number))
    return first, two


async def _checked(name: str, log: Log, outcomes: Sequence[tuple[Any, Any]], first: int) -> None:
    for number, (first_outcome, two) in enumerate(outcomes, first):
        await RACES[name].after(log, number, first_outcome, two)


def _apart(way: Way, name: str, opened: Opener, first: int, rounds: int) -> list[tuple[Any, Any]]:
    """Runs the rounds with each side in its own thread or process."""
    if way == "threads":
        barrier: Any = Barrier(2)
        results: Any = queue.Queue[Any]()
        run: Callable[..., Any] = Thread
    else:
        # Not fork: a child with copies of open connections would fail for unrelated reasons.
        context = multiprocessing.get_context("spawn")
        barrier, results, run = context.Barrier(2), context.Queue(), context.Process

    sides = [
        run(target=_side, args=(name, side, opened, first, rounds, barrier, results), daemon=True)
        for side in ("one", "two")
    ]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    try:
        for side in sides:
            side.start()
        outcomes_by_side = dict(results.get(timeout=_RACE_S) for _ in sides)
    except queue.Empty:
        raise Broken(f"two {way} on one log do not come to an end") from None
    finally:
        sys.setswitchinterval(interval)
        for side in sides:
            side.join(_RACE_S)

    for outcomes in outcomes_by_side.values():
        if isinstance(outcomes, str):
            raise Broken(f"of two {way} on one log one fails: {outcomes}")
    return list(zip(outcomes_by_side["one"], outcomes_by_side["two"], strict=True))


def _side(
    name: str, side: str, opened: Opener, first: int, rounds: int, barrier: Any, said: Any
) -> None:
    """Runs one side of all rounds, with its own log."""

    async def work() -> list[Any]:
        log, step = opened(), getattr(RACES[name], side)
        outcomes: list[Any] = []
        for number in range(first, first + rounds):
            # In a thread: a barrier blocks, and the log may need this loop.
            await asyncio.to_thread(barrier.wait, _RACE_S)
            outcomes.append(await step(log, number))
        await log.close()
        return outcomes

    try:
        said.put((side, asyncio.run(work())))
    except BaseException as error:  # noqa: BLE001 - the other thread or process must hear of it
        # Otherwise the other side waits two minutes before the error is reported.
        barrier.abort()
        said.put((side, repr(error)))

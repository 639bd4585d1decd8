"""Contracts 32 to 35 of a log: what two do at once, in one loop, two threads, two processes.

Each race is told to two sides, which meet at a barrier before each of its rounds. What must hold
afterwards is looked up in the log, so it does not matter who was quicker, only that somebody was.
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

from taofold.core.errors import Conflict
from taofold.log.log import AT_ONCE, Log, RunRow, Signal
from taofold.testing.log_conformance.checks import Broken, Opener, same, updates

Side: TypeAlias = Callable[[Log, int], Awaitable[Any]]
Way: TypeAlias = Literal["tasks", "threads", "processes"]

ROUNDS: Final = {"tasks": 40, "threads": 250, "processes": 120}
_PATIENCE_S: Final = 120.0
# Threads change places 500 times as often as usual (5 ms), so races show in few rounds.
_SWITCH_S: Final = 1e-5


@dataclass(frozen=True, slots=True)
class Race:
    """`before` prepares a round, the sides run at once, `after` checks what they left."""

    before: Side
    one: Side
    two: Side
    after: Callable[[Log, int, Any, Any], Awaitable[None]]


async def _nothing(log: Log, number: int) -> None:
    """Nothing is to be prepared."""


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
    """A message reaches the run: either it did not park, or it is due."""
    same(posted, True, "a message")
    row = await log.row(f"r{number}")
    if parked and row.wake_at != AT_ONCE:
        raise Broken(
            "a run parked while a message came in, and nobody will ever look at it: `if_quiet` and "
            "what is written must be one transaction"
        )
    same(row.status, "waiting" if parked else "running", "the run")


async def _writes(log: Log, number: int) -> int:
    """Append as the old owner until somebody else has the run; how many were written."""
    run = f"r{number}"
    for seq in range(30):
        try:
            await log.append(run, 1, updates(run, seq, 1))
        except Conflict:
            return seq
        await asyncio.sleep(0)
    return 30


async def _overtakes(log: Log, number: int) -> tuple[int, int]:
    """Claim the run, and look twice at how far it has come."""
    run = f"r{number}"
    await log.claim(run, "two", epoch=1)
    first = (await log.row(run)).events
    for _ in range(5):
        # Looked at a little later once more: a write of the old owner may still be under way.
        await asyncio.sleep(0.0005)
    return first, (await log.row(run)).events


async def _fenced(log: Log, number: int, written: Any, seen: Any) -> None:
    """Nothing of the old owner arrives behind the claim."""
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
    """In one loop; for a store that several can open, in two threads, and in two processes."""
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
    """Where else the store can be opened: a second time at all, and in another process."""
    if log.identity.startswith("memory:"):
        return []
    try:
        # What can be pickled can be opened by a spawned
        # process; a memory log or a lambda cannot.
        pickle.dumps(opened)
    except Exception:  # noqa: BLE001 - whatever cannot be sent to another process
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
    """The rounds, with each side in a thread or a process of its own."""
    if way == "threads":
        barrier: Any = Barrier(2)
        results: Any = queue.Queue[Any]()
        run: Callable[..., Any] = Thread
    else:
        # Not fork: a child with copies of open connections would fail for reasons of its own.
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
        outcomes_by_side = dict(results.get(timeout=_PATIENCE_S) for _ in sides)
    except queue.Empty:
        raise Broken(f"two {way} on one log do not come to an end") from None
    finally:
        sys.setswitchinterval(interval)
        for side in sides:
            side.join(_PATIENCE_S)
    for outcomes in outcomes_by_side.values():
        if isinstance(outcomes, str):
            raise Broken(f"of two {way} on one log one fails: {outcomes}")
    return list(zip(outcomes_by_side["one"], outcomes_by_side["two"], strict=True))


def _side(
    name: str, side: str, opened: Opener, first: int, rounds: int, barrier: Any, said: Any
) -> None:
    """One side of all rounds, with a log of its own."""

    async def work() -> list[Any]:
        log, step = opened(), getattr(RACES[name], side)
        outcomes: list[Any] = []
        for number in range(first, first + rounds):
            # In a thread: a barrier blocks, and the log may need this loop meanwhile.
            await asyncio.to_thread(barrier.wait, _PATIENCE_S)
            outcomes.append(await step(log, number))
        await log.close()
        return outcomes

    try:
        said.put((side, asyncio.run(work())))
    except BaseException as error:  # noqa: BLE001 - the other thread or process must hear of it
        # Else the other side waits for two minutes before anybody hears of the error.
        barrier.abort()
        said.put((side, repr(error)))

"""Contracts 21 to 23 and 36 of a log: closing, reopening, two openers, and a power cut.

Only an opener that can cut the power, a `Medium`, can show that synced data survives a power cut
(36). For a log that writes files from this process without one, its syncs are observed instead.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

from taofold.core.errors import Conflict, LogError, UnknownRun
from taofold.core.events import Record, RunFinished
from taofold.log.log import Log, RunRow, Signal
from taofold.testing.log_conformance.checks import (
    RUN,
    Broken,
    Opener,
    create_owned,
    expect_error,
    same,
    seqs,
    updates,
)


async def c21_a_closed_log_says_so(opened: Opener) -> None:
    log = opened()
    epoch = await create_owned(log)
    await log.close()
    await expect_error(LogError, log.create(RunRow("other")), "create")
    await expect_error(LogError, log.append(RUN, epoch, updates(RUN, 0, 1)), "append")
    await expect_error(LogError, log.read(RUN), "read")
    await expect_error(LogError, log.rows(), "rows")
    await expect_error(LogError, log.blob("d1"), "blob")
    await log.close()


async def c22_everything_survives_closing_and_opening(opened: Opener) -> None:
    log = opened()
    epoch = await create_owned(log, session="s")
    end = Record(RUN, 2, 2_000, RunFinished(status="finished", stop_reason="x", success=True))
    await log.append(RUN, epoch, updates(RUN, 0, 2), blobs={"d1": b"x"})
    await log.append(RUN, epoch, [end], status="waiting", waiting_for="input")
    await log.post(RUN, Signal("s1", "answer", data={"text": "yes"}))
    before = (await log.row(RUN), await log.read(RUN), await log.inbox(RUN))
    await log.close()
    log = opened()
    after = (await log.row(RUN), await log.read(RUN), await log.inbox(RUN))
    same(after, before, "row, records and inbox")
    same(await log.blob("d1"), b"x", "the blob")
    same(await log.post(RUN, Signal("s1", "answer")), False, "the message again")
    await expect_error(Conflict, log.append(RUN, epoch, updates(RUN, 2, 1)), "an old number")
    same(await log.append(RUN, epoch, updates(RUN, 3, 1)), True, "the next number")
    await log.close()


async def c23_two_openers_see_one_log(opened: Opener) -> None:
    first, two = opened(), opened()
    old = await create_owned(first)
    same(first.identity, two.identity, "the identity of one store, opened twice")
    await first.append(RUN, old, updates(RUN, 0, 1))
    new = (await two.claim(RUN, "second")).epoch
    same(await two.append(RUN, new, updates(RUN, 1, 1)), True, "the second opener's append")
    await expect_error(
        Conflict, first.append(RUN, old, updates(RUN, 2, 1)), "the first opener's append"
    )
    same(await seqs(first), [0, 1], "the records")
    racing = [log.append(RUN, new, updates(RUN, 2, 1)) for log in (first, two) * 4]
    outcomes = await asyncio.gather(*racing, return_exceptions=True)
    same(outcomes.count(True), 1, "winners of a race")
    await first.post(RUN, Signal("s1", "steer"))
    same(await two.post(RUN, Signal("s1", "steer")), False, "the same message to the other")
    # The other opener must not continue from a cached head of a deleted run.
    await first.delete(RUN)
    await expect_error(UnknownRun, two.append(RUN, new, updates(RUN, 3, 1)), "after deletion")
    await first.close()
    await two.close()


@runtime_checkable
class Medium(Protocol):
    """An opener whose store can lose its power.

    After `cut_power` the store holds the synced data, and perhaps more. Logs opened before are no
    longer used.
    """

    def __call__(self) -> Log:
        """Opens the log."""
        ...

    def cut_power(self) -> None:
        """Drops all data that was not synced."""
        ...


async def c36_what_was_asked_to_be_on_disk_survives_a_power_cut(opened: Opener) -> None:
    for name, write in _WRITES.items():
        if isinstance(opened, Medium):
            await _survives(opened, name, write)
        else:
            await _synced(opened, name, write)


async def _survives(medium: Medium, name: str, write: Callable[[Log, str], Awaitable[Any]]) -> None:
    log, run = medium(), f"{RUN}-{name}"
    await log.create(RunRow(run, "running"), records=updates(run, 0, 1), owner="me")
    await log.append(run, 1, updates(run, 1, 1))
    await write(log, run)
    before: tuple[list[Record], Any] = (await log.read(run), await log.inbox(run))
    medium.cut_power()
    again = medium()
    try:
        after = (await again.read(run), await again.inbox(run))
    except UnknownRun:
        raise Broken(f"a power cut after {name} took the run") from None
    same(after, before, f"what is left of a run by a power cut after {name}")
    same(await seqs(again, run), list(range(len(before[0]))), "the records after a power cut")
    await again.close()


async def _synced(opened: Opener, name: str, write: Callable[[Log, str], Awaitable[Any]]) -> None:
    log, run = opened(), f"{RUN}-{name}"
    await log.create(RunRow(run, "running"), records=updates(run, 0, 1), owner="me")
    await log.append(run, 1, updates(run, 1, 1))
    # Only the syncs of this write count, not those of opening and creating.
    with _watching() as syncs:
        await write(log, run)
    if not syncs:
        raise Broken(
            f"after {name} nothing was synced by this process: a power cut may undo it. If the log "
            "is kept elsewhere, give an opener that is a `taofold.testing.log_conformance.Medium`"
        )
    await log.close()


@contextmanager
def _watching() -> Generator[list[int]]:
    """Yields the file descriptors that this process syncs in the block."""
    syncs: list[int] = []
    names = [name for name in ("fsync", "fdatasync") if hasattr(os, name)]
    # Patched in the module: a log with `from os import fsync` is not observed.
    originals = {name: getattr(os, name) for name in names}

    def watched(real: Callable[[int], None]) -> Callable[[int], None]:
        def sync(descriptor: int) -> None:
            real(descriptor)
            syncs.append(descriptor)

        return sync

    for name, real in originals.items():
        setattr(os, name, watched(real))
    try:
        yield syncs
    finally:
        for name, real in originals.items():
            setattr(os, name, real)


async def _append(log: Log, run: str) -> None:
    await log.append(run, 1, updates(run, 2, 2), disk=True)


async def _together(log: Log, run: str) -> None:
    """One of several concurrent writes, all of which wait for the same disk."""
    others = [log.append(run, 1, updates(run, 2, 1), disk=True), asyncio.sleep(0)]
    await asyncio.gather(*others)


async def _create(log: Log, run: str) -> None:
    row = RunRow(f"{run}-new", "running")
    await log.create(row, records=updates(row.run, 0, 1), disk=True)


async def _post(log: Log, run: str) -> None:
    await log.post(run, Signal("s", "decide", "ann"))


_WRITES = {
    "an append with disk=True": _append,
    "two writes at once": _together,
    "a run that is created with disk=True": _create,
    "a message": _post,
}

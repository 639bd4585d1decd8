"""Contract 36 of a log: what was asked to be on disk survives a power cut.

Whether it does can only be shown by who can cut the power: an opener that is a `Medium`. For a log
that writes files from this process, and has none, its syncs are watched instead.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

from taofold.core.errors import UnknownRun
from taofold.core.events import Record
from taofold.log.log import Log, RunRow, Signal
from taofold.testing.log_checks import RUN, Broken, Opener, same, seqs, updates


@runtime_checkable
class Medium(Protocol):
    """An opener whose store can lose its power.

    After `cut_power` the store holds what had been synced, and perhaps more; logs that were
    open before are not used any more.
    """

    def __call__(self) -> Log:
        """Open the log."""
        ...

    def cut_power(self) -> None:
        """Let everything go that was not synced."""
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
    with _watching() as syncs:
        await write(log, run)
    if not syncs:
        raise Broken(
            f"after {name} nothing was synced by this process: a power cut may undo it. If the log "
            "is kept elsewhere, give an opener that is a `taofold.testing.log_disk.Medium`"
        )
    await log.close()


@contextmanager
def _watching() -> Generator[list[int]]:
    """The file descriptors that this process syncs meanwhile."""
    syncs: list[int] = []
    names = [name for name in ("fsync", "fdatasync") if hasattr(os, name)]
    known = {name: getattr(os, name) for name in names}

    def watched(real: Callable[[int], None]) -> Callable[[int], None]:
        def sync(descriptor: int) -> None:
            real(descriptor)
            syncs.append(descriptor)

        return sync

    for name, real in known.items():
        setattr(os, name, watched(real))
    try:
        yield syncs
    finally:
        for name, real in known.items():
            setattr(os, name, real)


async def _append(log: Log, run: str) -> None:
    await log.append(run, 1, updates(run, 2, 2), disk=True)


async def _together(log: Log, run: str) -> None:
    """One of several that are written at once: all of them wait for the same disk."""
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

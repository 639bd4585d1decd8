"""Whether anybody drives a run, its status as people see it, and how one nobody drives is ended.

Needs no agent. Knows nothing about terminals.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from taofold.clocks import clock
from taofold.core import events as e
from taofold.core.errors import UnknownRun
from taofold.core.state import ENDED, fold
from taofold.log.log import Log, RunRow
from taofold.runtime import control, ownership
from taofold.runtime.endings import cancelled


def driven(row: RunRow) -> bool:
    """Does a process drive the run? It says so by its lease, unless it certainly is gone."""
    return row.held and not ownership.gone(row.owner)


async def status(log: Log, row: RunRow) -> str:
    """The status as a person sees it: `interrupted` or `forked` if nobody drives it."""
    return as_seen(row, await log.read(row.run)) if _is_left(row) else row.status


def as_seen(row: RunRow, records: Sequence[e.Record]) -> str:
    """The same of a run whose `records` were read already."""
    if not _is_left(row):
        return row.status
    events = [record.event for record in records]
    began = next((n for n, event in enumerate(events) if isinstance(event, e.Forked)), None)
    # What is before `Forked` was copied; a `Resumed` behind it says that the fork was driven.
    alone = began is not None and not any(isinstance(event, e.Resumed) for event in events[began:])
    return "forked" if alone else "interrupted"


def _is_left(row: RunRow) -> bool:
    """Does the log say that it runs, while nobody drives it?"""
    return row.status == "running" and not driven(row)


async def end(log: Log, run: str) -> bool:
    """Cancel `run`. True if it is over; False if its process was told and will end it.

    Raises:
        Refused: it has ended already.
        Conflict: somebody took it over at this moment; he reads the message.
    """
    # The message first: whoever takes the run over in the meantime reads it and ends the run.
    await control.cancel(log, run)
    try:
        row = await log.row(run)
    except UnknownRun:  # it had never begun
        return True
    if row.status in ENDED:
        return True
    if driven(row):
        return False
    # The epoch of the row: whoever took the run over since then makes this raise Conflict.
    claim = await log.claim(run, "", epoch=row.epoch, force=True)
    records = await log.read(run)
    state = fold(records)
    sent = [signal.id for signal in await log.inbox(run) if signal.kind == "cancel"]
    # Times in a log never go back, even where the machine's clock did.
    at = max(clock(), state.at)
    # The time since the last record passed without a process, so it is not the run's.
    event = replace(cancelled(control.LOCAL.id), elapsed=0)
    record = e.Record(run, records[-1].seq + 1, at, event)
    await log.append(run, claim.epoch, [record], disk=True, consume=sent, status=event.status)
    for child in await log.rows(parent=run, limit=0):
        # A child that a live process drives reads the cancellation itself.
        if child.status in ("waiting", "running") and not driven(child):
            await end(log, child.run)
    return True


async def children(log: Log, run: str) -> list[str]:
    """The runs that `run` started, and theirs."""
    descendants: list[str] = []
    for row in await log.rows(parent=run, limit=0):
        descendants += [row.run, *await children(log, row.run)]
    return descendants

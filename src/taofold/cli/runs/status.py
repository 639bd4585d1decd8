"""The status of a run as people see it: of one that nobody drives the log still says it runs."""

from collections.abc import Sequence

from taofold.core import events as e
from taofold.log.log import Log, RunRow
from taofold.runtime.ownership import driven


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

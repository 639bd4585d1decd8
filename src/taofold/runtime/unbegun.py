"""Runs that were registered and never began: their process died before their first event.

A run is created with its first event in one transaction, so only an earlier release, or a
foreign log, leaves such rows. Nothing of them ever happened; whoever meets one forgets it.
"""

from contextlib import suppress

from taofold.core.errors import UnknownRun
from taofold.runtime import owner
from taofold.store.log import ENDED, Log, RunRow


async def remove_unbegun(log: Log, row: RunRow) -> bool:
    """Forget the run if it never began. False if it did, or may still."""
    if row.events or row.status in ENDED or (row.held and not owner.gone(row.owner)):
        return False
    with suppress(UnknownRun):
        await log.delete(row.run)
    return True


def never_began(run: str) -> UnknownRun:
    """What to tell whoever wants such a run."""
    return UnknownRun(
        f"run {run!r} was registered and never began: nothing of it had happened, and it was "
        "removed. Start it again"
    )

"""The displayed status of a run: the same word in the CLI, the HTTP API and the console.

A run that is `running` in the log but has no driver is shown as `queued`, `forked`, `rewound` or
`interrupted`: it continues when it is resumed.
"""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from taofold.core import events as e
from taofold.log.log import Log, RunRow
from taofold.runtime.ownership import driven

RUNNING: Final = ("running", "queued", "interrupted", "forked", "rewound")
"""Displayed statuses of a run that is `running` in the log."""
_TAIL: Final = 200
"""The most records that are looked at: a list of runs must not read long runs. Only restored files
and undone effects follow a fork or a rewind before its resume.
"""


async def shown_row(log: Log, row: RunRow) -> RunRow:
    """Returns the row with its displayed status. Reads at most the last `_TAIL` records."""
    if not _is_left(row):
        return row
    records = await log.read(row.run, after=row.events - 1 - _TAIL)
    return replace(row, status=as_seen(row, records))


def as_seen(row: RunRow, records: Sequence[e.Record]) -> str:
    """Returns the displayed status of a run whose last records are given."""
    if not _is_left(row):
        return row.status
    for record in records[: -_TAIL - 1 : -1]:
        match record.event:
            case e.Resumed():
                return "interrupted"
            case e.Forked():  # the records before it are copies
                return "forked"
            case e.Rewound():
                return "rewound"
            case _:
                pass
    # `begin` writes the first record, and the driver of the run writes the next ones.
    return "queued" if row.events == 1 else "interrupted"


def _is_left(row: RunRow) -> bool:
    """Returns whether the run's status is running but no process drives it."""
    return row.status == "running" and not driven(row)

"""The displayed status of runs that no process drives."""

from typing import Any

import pytest

from taofold import MemoryLog
from taofold.core import events as e
from taofold.log.log import RunRow
from taofold.runtime.shown_status import shown_row

pytestmark = pytest.mark.anyio


def notes(count: int, first: int) -> list[e.Record]:
    return [e.Record("r", first + n, 0, e.Noted(key=str(n), kind="test")) for n in range(count)]


class CountingLog(MemoryLog):
    """A log that counts the records that it returns."""

    returned = 0

    async def read(self, run: str, **named: Any) -> list[e.Record]:
        records = await super().read(run, **named)
        self.returned += len(records)
        return records


@pytest.mark.parametrize(
    ("last", "after", "status"),
    [
        ([e.Forked(run="s", seq=3)], 1, "forked"),
        ([e.Rewound(to=3)], 20, "rewound"),
        ([e.Rewound(to=3), e.Resumed(epoch=1)], 20, "interrupted"),
        ([], 0, "interrupted"),
    ],
)
async def test_the_status_of_a_long_idle_run_needs_only_its_last_records(
    last: list[e.Event], after: int, status: str
) -> None:
    """Mutants: all records are read; only the very last record is looked at."""
    log = CountingLog()
    records = notes(2000, 0)
    for event in last:
        records.append(e.Record("r", len(records), 0, event))
    records += notes(after, len(records))
    await log.create(RunRow("r", "running"), records=records)
    assert (await shown_row(log, await log.row("r"))).status == status
    assert log.returned <= 200


async def test_a_run_with_its_first_record_only_is_queued() -> None:
    log = MemoryLog()
    await log.create(RunRow("r", "running"), records=notes(1, 0))
    assert (await shown_row(log, await log.row("r"))).status == "queued"

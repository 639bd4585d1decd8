"""Finds the runs whose logs contain an entry of a notebook.

A log is never rewritten. So the text of an entry disappears from the logs when these runs are
deleted, by the same way as any run. Knows nothing about deleting.
"""

import msgspec

from taofold.core.errors import UnknownRun
from taofold.log.log import Log, RunRow
from taofold.memory.entries import NotebookEntry, NotebookOwner


async def runs_with(log: Log, owner: NotebookOwner, entry: NotebookEntry) -> list[RunRow]:
    """Returns the root runs whose records, or whose child runs' records, contain the entry.

    They wrote it, were shown it, or found it. Reads all runs of the principal with the agent.
    """
    roots: dict[str, RunRow] = {}
    for row in await log.rows(principal=owner.principal, agent=owner.agent, limit=0):
        records = msgspec.json.encode(await log.read(row.run))
        # Each record that has the text of an entry has its id too.
        if entry.id.encode() in records:
            root = await _root(log, row)
            roots[root.run] = root
    return list(roots.values())


async def _root(log: Log, row: RunRow) -> RunRow:
    while row.parent:
        try:
            row = await log.row(row.parent)
        except UnknownRun:  # it was deleted
            return row
    return row

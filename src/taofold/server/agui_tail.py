"""Reads a run and its child runs from the log, in an order that makes sense to a reader.

A child's records come after the call that began it and before the result that it became.
It knows nothing about AG-UI: records come in, records go out.
"""

from collections.abc import AsyncIterator
from typing import Final

from taofold.core import events as e
from taofold.core.trace import child_id
from taofold.log.log import Log

BATCH: Final = 500
"""Records read at once."""


class Tail:
    """What was read of a run so far. `pull` reads on."""

    def __init__(self, log: Log, run: str) -> None:
        self.run, self._log = run, log
        self._heads: dict[str, int] = {run: -1}
        self._open: dict[str, dict[str, None]] = {}
        """By run: its calls that have begun and not ended, as the ids of possible child runs."""

    async def pull(self) -> AsyncIterator[e.Record]:
        """The records that are new since the last time."""
        async for record in self._drain(self.run):
            yield record

    async def _drain(self, run: str) -> AsyncIterator[e.Record]:
        going = self._open.setdefault(run, {})
        while True:
            records = await self._log.read(run, after=self._heads.get(run, -1), limit=BATCH)
            for record in records:
                event = record.event
                if isinstance(event, e.Observed | e.Parked | e.RunFinished):
                    async for inner in self._children(run):
                        yield inner
                self._heads[run] = record.seq
                yield record
                match event:
                    case e.Started():
                        going[child_id(run, event.key, event.index)] = None
                    case e.Observed():
                        going.pop(child_id(run, event.key, event.index), None)
                    case e.Rewound():
                        going.clear()
                    case _:
                        pass
            if len(records) < BATCH:
                break
        async for inner in self._children(run):
            yield inner

    async def _children(self, run: str) -> AsyncIterator[e.Record]:
        if not self._open.get(run):
            return
        known = {row.run for row in await self._log.rows(parent=run, limit=0) if row.events}
        for child in [one for one in self._open[run] if one in known]:
            async for record in self._drain(child):
                yield record

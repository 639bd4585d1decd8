"""A log that tells an exporter what happens in its runs, as it happens.

A wrapper of a log is a log: every run that is kept there is traced, its children, what is
resumed and what another process carries on. Spans leave when they are over and durable. No
failure of an exporter reaches a run.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final, Protocol

from taofold.core.events import Forked, Parked, Record, RunFinished
from taofold.store.log import Claim, Log, RunRow
from taofold.store.wrapped import WrappedLog
from taofold.telemetry.projection import Projection
from taofold.telemetry.spans import Span

_LOGGER: Final = logging.getLogger("taofold.telemetry")


class Exporter(Protocol):
    """Where spans go. It must return at once; sending is its own affair."""

    def export(self, spans: Sequence[Span]) -> None:
        """Take spans that are over."""
        ...

    def close(self) -> None:
        """Send what is left, within a bounded time."""
        ...


class TracedLog(WrappedLog):
    """`log`, with an exporter that is told of every span."""

    def __init__(self, log: Log, exporter: Exporter) -> None:
        super().__init__(log)
        self.exporter = exporter
        self._runs: dict[str, Projection] = {}
        self._starts: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        """What a log can do beyond the protocol."""
        return getattr(self.log, name)

    async def create(self, row: RunRow, *, records: Sequence[Record] = (), **named: Any) -> Claim:
        """Register the run, then tell the exporter what is over with its first records."""
        claim = await super().create(row, records=records, **named)
        self._tell(row.run, records)
        return claim

    async def claim(self, run: str, owner: str, **named: Any) -> Claim:
        """Become the owner, and learn what happened in the run before."""
        claim = await super().claim(run, owner, **named)
        projection = self._runs.setdefault(run, Projection(run, self._starts))
        for record in await self.log.read(run, after=projection.head):
            projection.feed(record)
        return claim

    async def append(self, run: str, epoch: int, records: Sequence[Record], **named: Any) -> bool:
        """Write the records, then tell the exporter what is over with them."""
        written = await super().append(run, epoch, records, **named)
        if written:
            self._tell(run, records)
        return written

    def _tell(self, run: str, records: Sequence[Record]) -> None:
        try:
            projection = self._runs.get(run) or Projection(run, self._starts)
            self._runs[run] = projection
            spans: list[Span] = []
            for record in records:
                span = projection.feed(record)
                if span is not None:
                    spans.append(span)
                if isinstance(record.event, Forked):
                    spans.clear()  # what was copied is in the trace of the run that did it
                elif isinstance(record.event, RunFinished | Parked):
                    self._runs.pop(run, None)  # whoever carries it on reads it again
                    self._starts.pop(run, None)
            if spans:
                self.exporter.export(spans)
        except Exception:
            _LOGGER.exception("run %s goes on, but a part of its trace is lost", run)

    async def delete(self, run: str) -> None:
        """Forget the run. What a back end was sent stays there."""
        self._runs.pop(run, None)
        await super().delete(run)

    async def close(self) -> None:
        """Close the log and the exporter."""
        try:
            await super().close()
        finally:
            await asyncio.to_thread(self.exporter.close)

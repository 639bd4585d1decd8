"""`TracedLog`: a log that exports the spans of its runs while they happen.

It wraps any log. Each run in it is traced, also child runs, resumed runs and runs that another
process continues. A span is exported when it has ended and is durable. An exporter's failure never
reaches a run. `with_traces` makes the exporter from a configuration. It checks the environment's
URL at once, and loads OpenTelemetry with the first span, because most commands have none.
"""

import asyncio
import logging
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Final, Literal, Protocol

from taofold.core.errors import ConfigError
from taofold.core.events import AskFailed, Forked, Parked, Record, Replied, RunFinished, RunStarted
from taofold.log.log import Claim, Log, RunRow, WrappedLog
from taofold.runtime.model import Request
from taofold.telemetry.projection import Roots, SpanProjection, context_of
from taofold.telemetry.prompt import Prompt, prompt_of
from taofold.telemetry.spans import Span, root_run
from taofold.telemetry.targets import BACKENDS, Backend, disabled, target

_LOGGER: Final = logging.getLogger("taofold.telemetry")
PATIENCE: Final = 3.0
"""Seconds that closing a log and `flush` wait for a back end."""


class Exporter(Protocol):
    """Sends spans. `export` must return at once."""

    def export(self, spans: Sequence[Span]) -> None:
        """Takes spans that have ended."""
        ...

    def flush(self, seconds: float = PATIENCE) -> bool:
        """Waits until the queued spans are sent. Returns False after `seconds`."""
        ...

    def close(self) -> None:
        """Sends the queued spans, within a bounded time."""
        ...


class NoExporter:
    """An exporter that sends nothing, for disabled tracing."""

    def export(self, spans: Sequence[Span]) -> None:
        """Does nothing."""

    def flush(self, seconds: float = PATIENCE) -> bool:
        """Returns True."""
        return True

    def close(self) -> None:
        """Does nothing."""


class TracedLog(WrappedLog):
    """Wraps `log` and passes each span of its runs to `exporter`.

    With `content` the span of a model call has the sent prompt.
    """

    def __init__(self, log: Log, exporter: Exporter, *, content: bool = True) -> None:
        super().__init__(log)
        self.exporter = exporter
        self._runs: dict[str, SpanProjection] = {}
        self._roots: Roots = {}
        self._content = content
        self._prompts: dict[tuple[str, str], Prompt] = {}
        """Prompts of open model calls, by run and key of the call."""

    def __getattr__(self, name: str) -> Any:
        """Returns attributes that the wrapped log has beyond the protocol."""
        return getattr(self.log, name)

    async def create(self, row: RunRow, *, records: Sequence[Record] = (), **named: Any) -> Claim:
        """Registers the run, then exports the spans that its first records end."""
        # Written first, because only durable records are exported.
        claim = await super().create(row, records=records, **named)
        for record in records:
            if isinstance(record.event, RunStarted) and record.event.parent:
                await self._find(root_run(row.run, record.event.parent))
        self._export(row.run, records)
        return claim

    async def claim(self, run: str, owner: str, **named: Any) -> Claim:
        """Becomes the owner, and reads the records of the run so far."""
        claim = await super().claim(run, owner, **named)
        projection = self._runs.setdefault(run, self._projection(run))
        for record in await self.log.read(run, after=projection.head):
            if isinstance(record.event, RunStarted) and record.event.parent:
                await self._find(root_run(run, record.event.parent))
            # Not exported: the process that wrote these records did so.
            projection.feed(record)
        return claim

    def _projection(self, run: str) -> SpanProjection:
        return SpanProjection(run, self._roots, rebuild=self._content)

    async def _find(self, root: str) -> None:
        """Reads the application's span of the first run, which another process may have begun."""
        if root in self._roots:
            return
        first = await self.log.read(root, limit=1)
        if first and isinstance(first[0].event, RunStarted):
            self._roots[root] = context_of(first[0].event)

    def on_request(self, run: str, key: str, request: Request) -> None:
        """Keeps the prompt of a model call until the call is over."""
        if self._content:
            self._prompts[run, key] = prompt_of(request)

    @contextmanager
    def during_call(self, run: str, key: str, index: int) -> Generator[None]:
        """Makes the call's span OpenTelemetry's current one while the tool runs.

        Spans that the application makes inside the tool are then children of `execute_tool`.
        """
        projection = self._runs.get(run)
        place = None if projection is None else projection.place(key, index)
        # Not imported: an application that has not loaded OpenTelemetry makes no spans.
        api: Any = sys.modules.get("opentelemetry.trace")
        if api is None or place is None or isinstance(self.exporter, NoExporter):
            yield
            return
        context: Any = sys.modules["opentelemetry.context"]
        flags = api.TraceFlags(api.TraceFlags.SAMPLED if place.sampled else 0)
        here = api.SpanContext(int(place.trace, 16), int(place.span, 16), False, flags)
        token = context.attach(api.set_span_in_context(api.NonRecordingSpan(here)))
        try:
            yield
        finally:
            context.detach(token)

    async def append(self, run: str, epoch: int, records: Sequence[Record], **named: Any) -> bool:
        """Writes the records, then exports the spans that they end."""
        written = await super().append(run, epoch, records, **named)
        if written:
            self._export(run, records)
        return written

    def _export(self, run: str, records: Sequence[Record]) -> None:
        try:
            projection = self._runs.get(run) or self._projection(run)
            self._runs[run] = projection
            spans: list[Span] = []
            over = False
            for record in records:
                event, prompt = record.event, None
                if isinstance(event, Replied | AskFailed):
                    prompt = self._prompts.pop((run, event.key), None)
                span = projection.feed(record, prompt)
                if span is not None:
                    spans.append(span)
                if isinstance(event, Forked):
                    spans.clear()  # copied records belong to the trace of the forked run
                over = over or isinstance(event, RunFinished | Parked)
            if spans and projection.sampled:
                self.exporter.export(spans)
            if over:
                self._forget(run)  # `claim` reads it again
        except Exception:
            _LOGGER.exception("run %s goes on, but a part of its trace is lost", run)

    def _forget(self, run: str) -> None:
        self._runs.pop(run, None)
        self._roots.pop(run, None)
        for key in [key for key in self._prompts if key[0] == run]:
            del self._prompts[key]

    async def delete(self, run: str) -> None:
        """Deletes the run. A back end keeps the spans that were sent."""
        self._forget(run)
        await super().delete(run)

    async def flush(self, seconds: float = PATIENCE) -> bool:
        """Waits until the spans of everything recorded so far are sent.

        Example:
            ```python
            await log.flush()  # in a test, before it reads the collector
            ```

        Args:
            seconds: Maximum time to wait.

        Returns:
            False if the time was over first.
        """
        return await asyncio.to_thread(self.exporter.flush, seconds)

    async def close(self) -> None:
        """Closes the log and the exporter."""
        try:
            await super().close()
        finally:
            # In a thread, because it may wait for the back end while other runs go on.
            await asyncio.to_thread(self.exporter.close)


def with_traces(log: Log, backend: Backend | Literal[""], *, content: bool = False) -> Log:
    """Returns `log` with an exporter that the environment configures. "" returns it unchanged.

    Raises:
        ConfigError: The backend is unknown, its URL is not an http or https URL, or the extra
            `otel` is not installed.
    """
    if not backend:
        return log
    if backend not in BACKENDS:
        raise ConfigError(f"traces is {' or '.join(BACKENDS)}, not {backend!r}", path="traces")
    if find_spec("opentelemetry.exporter") is None:
        raise ConfigError(
            f"traces: {backend} needs OpenTelemetry: pip install 'taofold[otel]'", path="traces"
        )
    target(backend)
    return log if disabled() else TracedLog(log, LazyExporter(backend, content), content=content)


class LazyExporter:
    """The exporter that the environment configures, made with its first spans."""

    def __init__(self, backend: Backend, content: bool) -> None:
        self._backend: Backend = backend
        self._content = content
        self._made: Exporter | None = None
        self._logger, self._failures = _LOGGER, _NewFailures()

    def export(self, spans: Sequence[Span]) -> None:
        """Passes the spans on."""
        if self._made is None:
            from taofold.telemetry import otel  # noqa: PLC0415 - takes 0.3 s to load

            exporter = otel.otlp_exporter(target(self._backend))
            self._logger = logging.getLogger(type(exporter).__module__)
            self._logger.addFilter(self._failures)
            self._made = otel.OtelExporter(otel.OtelTranslation(content=self._content), exporter)
        self._made.export(spans)

    def flush(self, seconds: float = PATIENCE) -> bool:
        """Waits until the queued spans are sent. Returns False after `seconds`."""
        return self._made is None or self._made.flush(seconds)

    def close(self) -> None:
        """Closes the exporter, if it was made."""
        if self._made is not None:
            self._made.close()
            self._logger.removeFilter(self._failures)


class _NewFailures(logging.Filter):
    """Passes each different failure once. The SDK's exporter logs each attempt."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        new = record.levelno >= logging.ERROR and message not in self._seen
        self._seen.add(message)
        return new

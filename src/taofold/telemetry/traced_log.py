"""`TracedLog`: a log that tells an exporter what happens in its runs, as it happens.

A wrapper of a log is a log: every run that is kept there is traced, its children, what is resumed
and what another process carries on. Spans leave when they are over and durable. No failure of an
exporter reaches a run. `with_traces` chooses the exporter by name, as a configuration does, and
checks the addresses that the environment gives; its libraries are loaded with the first span, for
most commands have none. The exporters are in `otel` and `opik`, what they send with is in `outbox`.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Final, Protocol

from taofold.core.call_ids import branch
from taofold.core.errors import ConfigError
from taofold.core.events import AskFailed, Forked, Parked, Record, Replied, RunFinished, RunStarted
from taofold.log.log import Claim, Log, RunRow, WrappedLog
from taofold.runtime.model import Request
from taofold.telemetry.outbox import PATIENCE, endpoint_of
from taofold.telemetry.projection import Root, SpanProjection, context_of
from taofold.telemetry.prompt import EncodedMessages, Prompt, prompt_of
from taofold.telemetry.spans import Span, root_run

_LOGGER: Final = logging.getLogger("taofold.telemetry")


class Exporter(Protocol):
    """Where spans go. It must return at once; sending is its own affair."""

    def export(self, spans: Sequence[Span]) -> None:
        """Take spans that are over."""
        ...

    def flush(self, seconds: float = PATIENCE) -> bool:
        """Waits until the queued spans are sent; False if the time was over first."""
        ...

    def close(self) -> None:
        """Send what is left, within a bounded time."""
        ...


class NoExporter:
    """Sends nothing: tracing is switched off."""

    def export(self, spans: Sequence[Span]) -> None:
        """Nothing."""

    def flush(self, seconds: float = PATIENCE) -> bool:
        """Returns at once."""
        return True

    def close(self) -> None:
        """Nothing."""


class TracedLog(WrappedLog):
    """`log`, with an exporter that is told of every span.

    With `prompts` each model call's span has the prompt that was sent, else the one that the log
    says must have been; without `content` none, for an exporter that tells nothing of it.
    """

    def __init__(
        self, log: Log, exporter: Exporter, *, prompts: bool = False, content: bool = True
    ) -> None:
        super().__init__(log)
        self.exporter = exporter
        self._runs: dict[str, SpanProjection] = {}
        self._roots: dict[str, Root] = {}
        self._keeps_prompts, self._content = prompts, content
        self._prompts: dict[tuple[str, str], Prompt] = {}
        """What was sent and is not answered yet, by run and place of the call."""
        self._transcripts: dict[tuple[str, str], EncodedMessages] = {}

    def __getattr__(self, name: str) -> Any:
        """What a log can do beyond the protocol."""
        return getattr(self.log, name)

    async def create(self, row: RunRow, *, records: Sequence[Record] = (), **named: Any) -> Claim:
        """Register the run, then tell the exporter what is over with its first records."""
        # Written first, told afterwards: an exporter hears of nothing that is not durable.
        claim = await super().create(row, records=records, **named)
        for record in records:
            if isinstance(record.event, RunStarted) and record.event.parent:
                await self._find(root_run(row.run, record.event.parent))
        self._tell(row.run, records)
        return claim

    async def claim(self, run: str, owner: str, **named: Any) -> Claim:
        """Become the owner, and learn what happened in the run before."""
        claim = await super().claim(run, owner, **named)
        projection = self._runs.setdefault(run, self._projection(run))
        for record in await self.log.read(run, after=projection.head):
            if isinstance(record.event, RunStarted) and record.event.parent:
                await self._find(root_run(run, record.event.parent))
            # Not exported: the process that wrote these records told of their spans.
            projection.feed(record)
        return claim

    def _projection(self, run: str) -> SpanProjection:
        return SpanProjection(run, self._roots, rebuild=self._content)

    async def _find(self, root: str) -> None:
        """Learn where the eldest run hangs: another process may have begun it."""
        if root in self._roots:
            return
        first = await self.log.read(root, limit=1)
        if first and isinstance(first[0].event, RunStarted):
            self._roots[root] = Root(first[0].at, context_of(first[0].event))

    def on_request(self, run: str, key: str, request: Request) -> None:
        """Hear what a model is about to be sent. It is told when the call is over."""
        if not self._keeps_prompts:
            return
        talk = request.conversation
        position = run, branch(key)
        transcript = self._transcripts.get(position)
        if transcript is None or transcript.messages is not talk:
            # Compaction and a rewind make another conversation;
            # until then it is the same list, which grows.
            transcript = self._transcripts[position] = EncodedMessages(talk)
        self._prompts[run, key] = prompt_of(request, transcript)

    @contextmanager
    def during_call(self, run: str, key: str, index: int) -> Generator[None]:
        """Makes the call's span the current one of OpenTelemetry while the tool runs.

        Spans that the application makes inside the tool are children of `execute_tool` then.
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
        """Write the records, then tell the exporter what is over with them."""
        written = await super().append(run, epoch, records, **named)
        if written:
            self._tell(run, records)
        return written

    def _tell(self, run: str, records: Sequence[Record]) -> None:
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
                    spans.clear()  # what was copied is in the trace of the run that did it
                over = over or isinstance(event, RunFinished | Parked)
            if spans and projection.sampled:
                self.exporter.export(spans)
            if over:
                self._forget(run)  # whoever carries it on reads it again
        except Exception:
            _LOGGER.exception("run %s goes on, but a part of its trace is lost", run)

    def _forget(self, run: str) -> None:
        self._runs.pop(run, None)
        self._roots.pop(run, None)
        # A copy of the keys is deleted from: few calls are open at once.
        for places in (self._prompts, self._transcripts):
            for key in [key for key in places if key[0] == run]:
                del places[key]

    async def delete(self, run: str) -> None:
        """Forget the run. What a back end was sent stays there."""
        self._forget(run)
        await super().delete(run)

    async def flush(self, seconds: float = PATIENCE) -> bool:
        """Waits until the spans of everything recorded so far are sent.

        Example:
            await log.flush()  # in a test, before the collector is looked at

        Returns:
            False if `seconds` were over first.
        """
        return await asyncio.to_thread(self.exporter.flush, seconds)

    async def close(self) -> None:
        """Close the log and the exporter."""
        try:
            await super().close()
        finally:
            # In a thread: it may wait some seconds for the back end, and other runs go on.
            await asyncio.to_thread(self.exporter.close)


def with_traces(log: Log, name: str, *, content: bool = False) -> Log:
    """`log` as it is ("" ), or with an exporter that the environment says the rest of.

    Raises:
        ConfigError: there is no such exporter, or its extra is not installed.
    """
    match name:
        case "":
            return log
        case "otlp":
            if find_spec("opentelemetry.exporter") is None:
                raise ConfigError(
                    "traces: otlp needs OpenTelemetry: pip install 'taofold[otel]'", path="traces"
                )
            _check("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
            # Asked here too, so that OpenTelemetry need not
            # be imported to learn that it is switched off.
            if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
                return log
            exporter = LazyExporter(lambda: _otlp(content))
            return TracedLog(log, exporter, prompts=content, content=content)
        case "opik":
            _check("OPIK_URL_OVERRIDE")
            exporter = LazyExporter(lambda: _opik(content))
            return TracedLog(log, exporter, prompts=content, content=content)
        case _:
            raise ConfigError(f"traces is otlp or opik, not {name!r}", path="traces")


def _check(*names: str) -> None:
    """Raises ConfigError if the first that is set is no URL."""
    for name in names:
        value = os.environ.get(name, "").strip()
        if value:
            try:
                endpoint_of(value)
            except ConfigError as error:
                raise ConfigError(str(error), path=name) from error
            return


class LazyExporter:
    """An exporter that is made when it gets its first spans."""

    def __init__(self, make: Callable[[], Exporter]) -> None:
        self._make = make
        self._made: Exporter | None = None

    def export(self, spans: Sequence[Span]) -> None:
        """Pass the spans on."""
        self._made = self._made or self._make()
        self._made.export(spans)

    def flush(self, seconds: float = PATIENCE) -> bool:
        """Waits until the queued spans are sent; False if the time was over first."""
        return self._made is None or self._made.flush(seconds)

    def close(self) -> None:
        """Close what was made."""
        if self._made is not None:
            self._made.close()


def _otlp(content: bool) -> Exporter:
    from taofold.telemetry import otel  # noqa: PLC0415 - 0.3 s

    # It tells of every attempt; ours say once what came of them.
    logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)
    return otel.exporter(content=content)


def _opik(content: bool) -> Exporter:
    from taofold.telemetry import opik  # noqa: PLC0415 - only who asks for it

    return opik.OpikExporter(opik.Opik.from_environment(), content=content)

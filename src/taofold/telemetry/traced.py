"""`traced`: a log that tells an exporter what happens in its runs, as it happens.

A wrapper of a log is a log: every run that is kept there is traced, its children, what is resumed
and what another process carries on. Spans leave when they are over and durable. No failure of an
exporter reaches a run. `traced` chooses the exporter by name, as a configuration does; its
libraries are loaded with the first span, for most commands have none.

`Outbox` and `send` are what exporters send with: a thread that collects entries, and one HTTP
request that is tried again. Bounded: what does not fit is dropped and counted, for a run must not
grow with a back end that is away. Proxies are the environment's.
"""

import asyncio
import atexit
import gzip
import logging
import os
import threading
import time
import urllib.error
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Final, Generic, Protocol, TypeVar
from urllib.parse import urlsplit

from taofold import network
from taofold.core.errors import ConfigError, TaofoldError
from taofold.core.events import AskFailed, Forked, Parked, Record, Replied, RunFinished, RunStarted
from taofold.core.trace import branch
from taofold.log.log import Claim, Log, RunRow, WrappedLog
from taofold.runtime.model import Request
from taofold.telemetry.projection import Root, SpanProjection, context_of
from taofold.telemetry.prompt import EncodedMessages, Prompt, prompt_of
from taofold.telemetry.spans import Span, root_run

_LOGGER: Final = logging.getLogger("taofold.telemetry")


class Exporter(Protocol):
    """Where spans go. It must return at once; sending is its own affair."""

    def export(self, spans: Sequence[Span]) -> None:
        """Take spans that are over."""
        ...

    def close(self) -> None:
        """Send what is left, within a bounded time."""
        ...


class NoExporter:
    """Tells nobody: tracing is switched off."""

    def export(self, spans: Sequence[Span]) -> None:
        """Nothing."""

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

    async def close(self) -> None:
        """Close the log and the exporter."""
        try:
            await super().close()
        finally:
            # In a thread: it may wait some seconds for the back end, and other runs go on.
            await asyncio.to_thread(self.exporter.close)


def traced(log: Log, name: str, *, content: bool = False) -> Log:
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
            exporter = Lazy(lambda: _otlp(content))
            return TracedLog(log, exporter, prompts=content, content=content)
        case "opik":
            _check("OPIK_URL_OVERRIDE")
            exporter = Lazy(lambda: _opik(content))
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


class Lazy:
    """An exporter that is made when it gets its first spans."""

    def __init__(self, make: Callable[[], Exporter]) -> None:
        self._make = make
        self._made: Exporter | None = None

    def export(self, spans: Sequence[Span]) -> None:
        """Pass the spans on."""
        self._made = self._made or self._make()
        self._made.export(spans)

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


T = TypeVar("T")

MOST_WAITING: Final = 10_000
"""Entries that wait to be sent."""
LINGER: Final = 1.0
"""Seconds that entries wait for others to go with."""
GRACE: Final = 1.0
"""Seconds that closing waits for a back end of which nothing was heard yet."""
PATIENCE: Final = 4.0
"""Seconds more for one that took something before."""


class Outbox(Generic[T]):
    """Collects entries and hands them to `send`, many at a time."""

    def __init__(self, send: Callable[[Sequence[T]], object], *, linger: float = LINGER) -> None:
        self._send, self._linger = send, linger
        self._waiting: list[T] = []
        self._lock = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._ended = threading.Event()
        self._answered = False
        self._sending = 0
        self._told = ""
        self.lost = 0
        """Entries that were dropped or refused."""

    def put(self, entries: Sequence[T]) -> None:
        """Queue entries. Returns at once."""
        with self._lock:
            if self._closed or len(self._waiting) + len(entries) > MOST_WAITING:
                # All or none: half of a step's spans would be a
                # trace with holes that nobody can tell from a bug.
                self.lost += len(entries)
                return
            first = not self._waiting
            self._waiting += entries
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="taofold-traces", daemon=True
                )
                self._thread.start()
                # A daemon thread is stopped in the middle of a
                # request at exit; this waits for it, in bounds.
                atexit.register(self.close)
            if first:  # else it lingers: to wake it for each would cost more than the sending
                self._lock.notify()

    def close(self) -> None:
        """Send what waits: for a second, or five if the back end is known to answer."""
        with self._lock:
            self._closed = True
            # Taken under the lock: a second `close` finds none and does not wait twice.
            thread, self._thread = self._thread, None
            self._lock.notify()
        # Ends a pause between two attempts: the remaining ones follow at once.
        self._ended.set()
        if thread is not None:
            atexit.unregister(self.close)
            thread.join(GRACE)
            if self._answered and thread.is_alive():
                thread.join(PATIENCE)
            if thread.is_alive():
                left = self._sending + len(self._waiting)
                _LOGGER.warning("%d spans were not sent in time", left)
        if self.lost:
            _LOGGER.warning("%d spans could not be sent", self.lost)
            self.lost = 0

    def pause(self, seconds: float) -> None:
        """Wait between two attempts, unless it is closed."""
        self._ended.wait(seconds)

    def _work(self) -> None:
        while True:
            with self._lock:
                # Until there is something to send; then a little
                # longer, so that more goes in one request.
                self._lock.wait_for(lambda: self._waiting or self._closed)
                self._lock.wait_for(lambda: self._closed, self._linger)
                batch, self._waiting = self._waiting, []
                # Only after `close`: whatever was queued before it has been sent.
                if not batch:
                    return
            self._sending = len(batch)
            try:
                # Outside the lock: `put` must return at once, however slow the back end is.
                self._send(batch)
                self._answered = True
            except TaofoldError as error:
                self.lost += len(batch)
                if str(error) != self._told:  # once, however long it is away
                    self._told = str(error)
                    _LOGGER.warning("%s", error)
            except Exception:
                self.lost += len(batch)
                _LOGGER.exception("%d spans could not be told", len(batch))


TIMEOUT: Final = 10.0
"""Seconds for one attempt."""
ATTEMPTS: Final = 3
_PASSING: Final = frozenset({408, 429, 500, 502, 503, 504})
_SHOWN: Final = 300
_PAUSE: Final = 0.5


class ExportFailed(TaofoldError):
    """A back end did not take the spans. The run is not affected; export it again later."""


def send(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    method: str = "POST",
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Send `body`, compressed.

    Raises:
        ExportFailed: it was refused, or the back end could not be reached three times.
        ConfigError: `url` is none.
    """
    where = endpoint_of(url)
    sent = {**headers, "Content-Encoding": "gzip", "User-Agent": "taofold"}
    # Level 1: JSON and repeated names shrink well at any level, and runs share the processor.
    packed = gzip.compress(body, 1)
    reason = ""
    for attempt in range(ATTEMPTS):
        if attempt:
            sleep(_PAUSE * 2 ** (attempt - 1))
        try:
            with network.send(url, packed, sent, timeout=TIMEOUT, method=method):
                return
        except urllib.error.HTTPError as error:
            detail = error.read(_SHOWN).decode("utf-8", "replace").strip()
            reason = f"{network.reason(error)}{f': {detail}' if detail else ''}"
            error.close()
            # A refusal (400, 401) does not pass by itself: trying again
            # would only delay the reason.
            if error.code not in _PASSING:
                break
        except OSError as error:
            reason = str(getattr(error, "reason", "") or error) or type(error).__name__
    raise ExportFailed(f"{where} did not take the spans: {reason}")


def endpoint_of(url: str) -> str:
    """What of `url` may be shown: no user, password or query.

    Raises:
        ConfigError: it is no HTTP URL.
    """
    wrong = f"an endpoint is an http or https URL, not {url[:100]!r}"
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError as error:
        raise ConfigError(wrong) from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(wrong)
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"

"""OpenTelemetry export: spans over OTLP, during runs (`traced`) or later (`post`).

`dumps` returns them in OTLP's JSON form. The standard variables configure the exporter
(`OTEL_EXPORTER_OTLP_ENDPOINT`, `…_HEADERS`, `OTEL_SERVICE_NAME`, …). Needs the extra `otel`. Opik
is used through its OTLP endpoint.

    agent = Agent("openai:gpt-5", log=traced("sqlite:runs.db"))
"""

import atexit
import logging
import os
import threading
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from taofold.core.errors import ConfigError, TaofoldError
from taofold.log.log import Log
from taofold.log.open import open_log
from taofold.policy.redaction import Redactor
from taofold.telemetry.attributes import (
    attributes,
    exception_attributes,
    link_attributes,
    mark_attributes,
    title,
)
from taofold.telemetry.prompt import Disclosure, Lengths
from taofold.telemetry.spans import AgentSpan, ModelSpan, Span, ToolSpan
from taofold.telemetry.targets import PROJECT, Backend, TraceTarget, disabled, target
from taofold.telemetry.traced_log import PATIENCE, NoExporter, TracedLog

try:
    import requests  # noqa: TID251 - the session of the SDK's exporter
    from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.metrics import get_meter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags
    from opentelemetry.util.re import parse_env_headers
except ImportError as error:
    raise ConfigError(
        f"OpenTelemetry is not installed ({error}): pip install 'taofold[otel]'"
    ) from error

_LOGGER: Final = logging.getLogger("taofold.telemetry")
_SCHEMA: Final = "https://opentelemetry.io/schemas/1.44.0"
_SCOPE: Final = InstrumentationScope(PROJECT, schema_url=_SCHEMA)
_PROVIDERS: Final = (
    "OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER",
    "OTEL_PYTHON_EXPORTER_OTLP_HTTP_TRACES_CREDENTIAL_PROVIDER",
)
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
_AGAIN: Final = "the log has them: taofold runs export RUN --format otlp --endpoint URL"
_BATCH: Final = 512
"""Spans in one request: the SDK's default."""
_CONTENT_BATCH: Final = 16
"""Spans in one request with content. A span may hold 300 kB, and collectors refuse large requests.
"""
_DURATIONS: Final[Mapping[type[Span], tuple[str, list[float]]]] = {
    AgentSpan: ("gen_ai.invoke_agent.duration", [0.1 * 2**n for n in range(13)]),
    ModelSpan: ("gen_ai.client.operation.duration", [0.01 * 2**n for n in range(14)]),
    ToolSpan: ("gen_ai.execute_tool.duration", [0.01 * 2**n for n in range(14)]),
}
"""The histograms of the GenAI conventions, with their recommended boundaries in seconds."""
_DIMENSIONS: Final = frozenset((
    "gen_ai.operation.name", "gen_ai.agent.name", "gen_ai.provider.name", "gen_ai.request.model",
    "gen_ai.response.model", "gen_ai.tool.name", "gen_ai.tool.type", "server.address",
    "server.port", "error.type",
))  # fmt: skip


class ExportFailed(TaofoldError):
    """A back end did not accept the spans. The log still has them for another export."""


def traced(
    log: Log | str,
    *,
    backend: Backend = "otlp",
    endpoint: str = "",
    headers: Mapping[str, str] | None = None,
    content: bool = False,
    project: str = "",
    redactor: Redactor | None = None,
    exporter: SpanExporter | None = None,
) -> TracedLog:
    """Wraps `log`, and sends each span of its runs over OTLP when it ends.

    Args:
        log: A log or its name.
        backend: `"otlp"`, or `"opik"`, which reads `OPIK_URL_OVERRIDE` (with `/api`),
            `OPIK_API_KEY`, `OPIK_WORKSPACE` and `OPIK_PROJECT_NAME`.
        endpoint: The back end's URL. See `targets.target`. "" uses the environment's.
        headers: Sent besides those of the environment.
        content: Sends texts of users, models and tools too, redacted.
        project: The service's name. "" uses the environment's, else "taofold".
        redactor: Removes secrets from content. Default: those of the environment.
        exporter: Receives the spans instead of the OTLP exporter.

    Returns:
        A log. With `OTEL_SDK_DISABLED=true` it sends nothing.

    Raises:
        ConfigError: The endpoint is not an http or https URL.
    """
    if disabled():
        return TracedLog(open_log(log), NoExporter(), content=False)
    translate = OtelTranslation(content=content, project=project, redactor=redactor)
    sdk = exporter or otlp_exporter(target(backend, endpoint, headers, project=project))
    return TracedLog(open_log(log), OtelExporter(translate, sdk), content=content)


def otlp_exporter(to: TraceTarget) -> SpanExporter:
    """Returns the SDK's exporter for `to`, which follows no redirect."""
    session = None if to.named and any(map(os.environ.get, _PROVIDERS)) else _session(to)
    return OTLPSpanExporter(endpoint=to.url, headers=dict(to.headers), session=session)


def _session(to: TraceTarget) -> requests.Session:
    """Returns the HTTP session for `to`.

    It refuses redirects, which would forward the headers, and which the exporter counts as success.
    It removes headers of the environment that are meant for another back end.
    """
    variables = ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
    listed = next((text for name in variables if (text := os.environ.get(name))), "")
    kept = {name.lower() for name in to.headers}
    named: Mapping[str, str] = {} if to.named else parse_env_headers(listed, liberal=True)
    stray = [name for name in named if name not in kept]

    def prepare(request: requests.PreparedRequest) -> requests.PreparedRequest:
        for name in stray:
            request.headers.pop(name, None)
        return request

    def refuse_redirect(response: requests.Response, *_: Any, **__: Any) -> None:
        if 300 <= response.status_code < 400:
            response.close()
            message = f"{response.status_code} {response.reason}: redirects are not followed"
            raise requests.TooManyRedirects(message)

    session = requests.Session()
    # With its own `auth`, `requests` does not send the credentials of ~/.netrc either.
    session.auth = prepare
    session.hooks["response"].append(refuse_redirect)
    return session


class OtelTranslation:
    """Translates spans to those of OpenTelemetry's SDK.

    Args:
        content: Includes texts of users, models and tools, redacted.
        project: The service's name. "" uses the environment's, else "taofold".
        redactor: Removes secrets from content. Default: those of the environment.
    """

    def __init__(
        self, *, content: bool = False, project: str = "", redactor: Redactor | None = None
    ) -> None:
        secrets = redactor or Redactor(Redactor.secrets_in(os.environ))
        self._content = Disclosure(secrets.viewing(), Lengths.of()) if content else None
        name = project or os.environ.get("OTEL_SERVICE_NAME", "").strip() or PROJECT
        resource = Resource.create({"service.name": name, "openinference.project.name": name})
        facts = dict(resource.attributes)
        facts.pop("service.instance.id", None)  # random: the same span would differ when sent again
        self._resource = Resource(facts, resource.schema_url)
        self.batch = _CONTENT_BATCH if content else _BATCH
        """Number of spans in one request."""

    def __call__(self, span: Span) -> ReadableSpan:
        """Returns the span with the same ids, so that sending it twice changes nothing."""
        trace = int(span.trace, 16)
        return ReadableSpan(
            name=title(span),
            context=_context(trace, span.id),
            parent=_context(trace, span.parent, _remote(span)) if span.parent else None,
            resource=self._resource,
            attributes=attributes(span, self._content),
            events=self._events(span),
            links=[
                Link(_context(int(link.trace, 16), link.id, True), link_attributes(link))
                for link in (span.links if isinstance(span, AgentSpan) else ())
            ],
            kind=SpanKind.CLIENT if isinstance(span, ModelSpan) else SpanKind.INTERNAL,
            instrumentation_scope=_SCOPE,
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(),
            start_time=nanoseconds(span.start),
            end_time=nanoseconds(span.end),
        )

    def _events(self, span: Span) -> tuple[Event, ...]:
        marks = span.marks if isinstance(span, AgentSpan) else ()
        events = [
            Event(
                f"taofold.{mark.name}",
                mark_attributes(mark, self._content),
                nanoseconds(mark.at),
            )
            for mark in marks
        ]
        raised = exception_attributes(span, self._content)
        if raised is not None:
            events.append(Event("exception", raised, nanoseconds(span.end)))
        return tuple(events)


class _Queued(NamedTuple):
    """A span in the SDK's queue, which reads only its context."""

    span: Span
    context: SpanContext


class _TranslatingExporter(SpanExporter):
    """Translates spans in the sending thread, so that the run does not wait.

    It also records durations as histograms of the GenAI conventions, for the application's meter
    provider. Without a meter provider they are dropped.
    """

    def __init__(self, translate: OtelTranslation, exporter: SpanExporter) -> None:
        self._translate, self._exporter = translate, exporter
        meter = get_meter(PROJECT, schema_url=_SCHEMA)
        self._durations = {
            kind: meter.create_histogram(name, "s", explicit_bucket_boundaries_advisory=bounds)
            for kind, (name, bounds) in _DURATIONS.items()
        }

    def export(self, spans: Sequence[Any]) -> SpanExportResult:
        """Sends the spans that `OtelExporter` has queued."""
        queued: Sequence[_Queued] = spans
        translated = [self._translate(each.span) for each in queued]
        for each, span in zip(queued, translated, strict=True):
            if (histogram := self._durations.get(type(each.span))) is not None:
                facts = span.attributes or {}
                dimensions = {name: facts[name] for name in _DIMENSIONS & facts.keys()}
                histogram.record((each.span.end - each.span.start) / 1000, dimensions)
        return self._exporter.export(translated)

    def shutdown(self) -> None:
        """Closes the sending exporter."""
        self._exporter.shutdown()


class OtelExporter:
    """Sends spans in batches, from the thread of the SDK's `BatchSpanProcessor`."""

    def __init__(self, translate: OtelTranslation, exporter: SpanExporter) -> None:
        translating = _TranslatingExporter(translate, exporter)
        self._processor = BatchSpanProcessor(translating, max_export_batch_size=translate.batch)
        atexit.register(self._processor.shutdown)

    def export(self, spans: Sequence[Span]) -> None:
        """Queues the spans."""
        for span in spans:
            queued: Any = _Queued(span, _context(int(span.trace, 16), span.id))
            self._processor.on_end(queued)

    def flush(self, seconds: float = PATIENCE) -> bool:
        """Waits until the queued spans are sent; returns False if `seconds` were over first."""
        return _within(seconds, self._processor.force_flush)

    def close(self) -> None:
        """Sends the queued spans, within `PATIENCE`."""
        atexit.unregister(self._processor.shutdown)
        if not _within(PATIENCE, self._processor.shutdown):
            _LOGGER.warning("spans were not sent within %g s; %s", PATIENCE, _AGAIN)


def _within(seconds: float, call: Callable[[], object]) -> bool:
    """Returns True if `call` ended within `seconds`. The SDK's own calls have no such limit."""
    thread = threading.Thread(target=call, name="taofold-traces", daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()


def post(
    spans: Sequence[Span],
    translate: OtelTranslation,
    *,
    backend: Backend = "otlp",
    endpoint: str = "",
    headers: Mapping[str, str] | None = None,
) -> str:
    """Sends the spans now. Returns the URL, without credentials.

    Raises:
        ExportFailed: The back end did not accept them.
        ConfigError: The endpoint is not an http or https URL.
    """
    to = target(backend, endpoint, headers)
    exporter, reasons = otlp_exporter(to), _Reasons()
    logger = logging.getLogger(type(exporter).__module__)
    logger.addHandler(reasons)
    try:
        for start in range(0, len(spans), translate.batch):
            part = [translate(span) for span in spans[start : start + translate.batch]]
            if exporter.export(part) is not SpanExportResult.SUCCESS:
                raise ExportFailed(f"{to.shown} did not take the spans: {reasons.last}")
    finally:
        logger.removeHandler(reasons)
        exporter.shutdown()
    return to.shown


class _Reasons(logging.Handler):
    """Keeps the last failure that the SDK's exporter logs, the only place with the reason."""

    last = "no reason given"
    _error = ""

    def emit(self, record: logging.LogRecord) -> None:
        cause = record.args[0] if isinstance(record.args, tuple) and record.args else None
        if record.levelno >= logging.ERROR:
            self.last = record.getMessage() + self._error
        elif isinstance(cause, requests.RequestException):
            # Only the class, because the text of a failed attempt contains the URL with its query.
            self._error = f" ({type(cause).__name__})"


def dumps(spans: Iterable[Span], translate: OtelTranslation) -> str:
    """Returns the spans as one OTLP request in its JSON form, with hex ids."""
    request = encode_spans([translate(span) for span in spans])
    document: dict[str, Any] = MessageToDict(request, use_integers_for_enums=True)
    # protobuf's JSON has bytes as base64. OTLP's JSON form has ids as hex digits.
    for resource in document.get("resourceSpans", ()):
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for holder in (span, *span.get("links", ())):
                    for name in {"traceId", "spanId", "parentSpanId"} & holder.keys():
                        holder[name] = b64decode(holder[name]).hex()
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def nanoseconds(ms: float) -> int:
    """Returns a moment in milliseconds as nanoseconds, to the microsecond."""
    return round(ms * 1000) * 1000


def _remote(span: Span) -> bool:
    """Returns True if the parent is a span of the application, perhaps in another process."""
    return isinstance(span, AgentSpan) and span.root


def _context(trace: int, id_: str, remote: bool = False) -> SpanContext:
    return SpanContext(trace, int(id_, 16), is_remote=remote, trace_flags=_SAMPLED)

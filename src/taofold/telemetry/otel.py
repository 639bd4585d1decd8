"""OpenTelemetry: spans over OTLP/HTTP, while runs go on (`traced`) or after the fact (`post`); and
as OTLP's JSON (`dumps`).

    agent = Agent("openai:gpt-5", log=traced("sqlite:runs.db"))

sends every span when it is over to where the standard variables say
(`OTEL_EXPORTER_OTLP_ENDPOINT`, `…_HEADERS`, `OTEL_SERVICE_NAME`, …). Needs the extra `otel`.

Requests are written in protobuf directly, ten times as fast as through the SDK's objects
(`request`, `encode_span`); field numbers are opentelemetry-proto's (`trace.proto`, `common.proto`).
"""

import os
import struct
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, cast
from urllib.parse import unquote, urlsplit

import msgspec

from taofold.core.errors import ConfigError
from taofold.log.log import Log
from taofold.log.open import open_log
from taofold.policy.redaction import Redactor
from taofold.telemetry import spans
from taofold.telemetry.attributes import (
    attributes,
    exception_attributes,
    link_attributes,
    mark_attributes,
    title,
)
from taofold.telemetry.outbox import PATIENCE, ExportFailed, Outbox, endpoint_of, send
from taofold.telemetry.prompt import Disclosure, Lengths
from taofold.telemetry.spans import AgentSpan, ModelSpan, Span
from taofold.telemetry.traced_log import NoExporter, TracedLog

try:
    from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags
except ImportError as error:
    raise ConfigError(
        f"OpenTelemetry is not installed ({error}): pip install 'taofold[otel]'"
    ) from error

PATH: Final = "/v1/traces"
LOCAL_COLLECTOR: Final = "http://localhost:4318"
"""Where OpenTelemetry sends if nobody says where."""
PROJECT: Final = "taofold"
_SCHEMA: Final = "https://opentelemetry.io/schemas/1.44.0"
_SCOPE: Final = InstrumentationScope(PROJECT, schema_url=_SCHEMA)
_OTLP: Final = "OTEL_EXPORTER_OTLP_"
_PROVIDERS: Final = (
    "OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER",
    "OTEL_PYTHON_EXPORTER_OTLP_HTTP_TRACES_CREDENTIAL_PROVIDER",
)
_SDK_ONLY: Final = (
    *[f"{_OTLP}{word}CERTIFICATE" for word in ("", "TRACES_", "CLIENT_", "TRACES_CLIENT_")],
    *_PROVIDERS,
)
"""Where one of these is set, OpenTelemetry's own exporter sends: we do not know them."""
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
_FINE: Final = Status(StatusCode.UNSET)
_BATCH: Final = 128
"""Spans in one request."""
_BYTES: Final = 2_000_000
"""Bytes in one request; a span that is larger goes alone. Collectors take 4 MB and more."""


def traced(
    log: Log | str,
    *,
    endpoint: str = "",
    headers: Mapping[str, str] | None = None,
    content: bool = False,
    project: str = "",
    redactor: Redactor | None = None,
    exporter: SpanExporter | None = None,
) -> TracedLog:
    """`log`, of whose runs every span is sent over OTLP when it is over.

    Args:
        log: a log or its name.
        endpoint: the back end's URL, "/v1/traces" is added to one without a path; "" = what
            the environment says.
        headers: sent along, besides those of the environment.
        content: Tell also what people, models and tools said, redacted.
        project: the service's name; "" = what the environment says, else "taofold".
        redactor: takes secrets out of content; by default those of the environment.
        exporter: gets the spans instead of one over OTLP.

    With `OTEL_SDK_DISABLED=true` nothing is sent.

    Raises:
        ConfigError: the endpoint is no URL.
    """
    if disabled():
        return TracedLog(open_log(log), NoExporter())
    connected = _exporter(exporter, endpoint, headers, content, project, redactor)
    return TracedLog(open_log(log), connected, prompts=content, content=content)


def exporter(*, content: bool = False) -> "OtelExporter":
    """The exporter that the standard variables describe."""
    return _exporter(None, "", None, content, "", None)


def disabled() -> bool:
    """Is OpenTelemetry switched off, by `OTEL_SDK_DISABLED`?"""
    return os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def _exporter(
    given: SpanExporter | None,
    endpoint: str,
    headers: Mapping[str, str] | None,
    content: bool,
    project: str,
    redactor: Redactor | None,
) -> "OtelExporter":
    translate = OtelTranslation(content=content, project=project, redactor=redactor)
    if given is not None:
        return OtelExporter(translate, given)
    url = traces_url(endpoint) if endpoint else _environment_url(LOCAL_COLLECTOR)
    where = endpoint_of(url)
    # Client certificates and credential providers are the SDK's: its own exporter knows them.
    if any(os.environ.get(name) for name in _SDK_ONLY):
        sdk = OTLPSpanExporter(
            endpoint=url, headers=dict(headers) if headers else None, session=_session()
        )
        return OtelExporter(translate, sdk, where)
    return OtelExporter(translate, url=url, headers=_sent(headers))


def _session() -> Any:
    """What the SDK sends through: it follows no redirect, which would take the headers along.

    None where the environment names a provider: then the session is the operator's own.
    """
    if any(os.environ.get(name) for name in _PROVIDERS):
        return None
    session = import_module("requests").Session()
    # `requests` raises TooManyRedirects at the first one.
    session.max_redirects = 0
    return session


class OtelTranslation:
    """Our spans as OpenTelemetry's."""

    def __init__(
        self, *, content: bool = False, project: str = "", redactor: Redactor | None = None
    ) -> None:
        secrets = redactor or Redactor(Redactor.secrets_in(os.environ))
        self._content = Disclosure(secrets.viewing(), Lengths.of()) if content else None
        name = project or os.environ.get("OTEL_SERVICE_NAME", "").strip() or PROJECT
        resource = Resource.create({"service.name": name, "openinference.project.name": name})
        attributes = dict(resource.attributes)
        attributes.pop("service.instance.id", None)  # random: what is sent again would be another
        self._resource = Resource(attributes, resource.schema_url)

    def encoded(self, span: Span) -> bytes:
        """The same span in protobuf, for a request."""
        return encode_span(span, self._content)

    def request(self, spans: Iterable[bytes]) -> bytes:
        """One OTLP request in protobuf of encoded spans."""
        return request(spans, self._resource.attributes, (PROJECT, _SCHEMA))

    def __call__(self, span: Span) -> ReadableSpan:
        """The same span; its ids are ours, so that sending it twice gives the same."""
        trace = int(span.trace, 16)
        error = Status(StatusCode.ERROR, span.error) if span.error else _FINE
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
            status=error,
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


class OtelExporter:
    """Sends spans from a thread of its own: to `url`, or through an exporter of the SDK's."""

    def __init__(
        self,
        translate: OtelTranslation,
        exporter: SpanExporter | None = None,
        where: str = "the exporter",
        *,
        url: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._exporter, self._translate, self._where = exporter, translate, where
        self._url, self._headers = url, headers or {}
        self._outbox: Outbox[Span] = Outbox(self._send)

    def export(self, spans: Sequence[Span]) -> None:
        """Queue the spans."""
        self._outbox.put(spans)

    def flush(self, seconds: float = PATIENCE) -> bool:
        """Waits until the queued spans are sent; False if the time was over first."""
        return self._outbox.flush(seconds)

    def close(self) -> None:
        """Send what is queued."""
        self._outbox.close()
        if self._exporter is not None:
            self._exporter.shutdown()

    def _send(self, spans: Sequence[Span]) -> None:
        # Our own encoder, unless the SDK has to send.
        if self._exporter is None:
            for body in encode(spans, self._translate):
                send(self._url, body, self._headers, sleep=self._outbox.pause)
            return
        for start in range(0, len(spans), _BATCH):
            part = [self._translate(span) for span in spans[start : start + _BATCH]]
            if self._exporter.export(part) is not SpanExportResult.SUCCESS:
                raise ExportFailed(f"{self._where} did not take the spans")


def encode(spans: Iterable[Span], translate: OtelTranslation) -> list[bytes]:
    """The spans as OTLP requests (protobuf), each small enough for any back end."""
    requests: list[bytes] = []
    batch: list[bytes] = []
    # Two nested lengths are longer around spans than around none.
    envelope = len(translate.request([])) + 16
    size = envelope
    for span in spans:
        body = translate.encoded(span)
        if batch and (len(batch) == _BATCH or size + len(body) > _BYTES):
            requests.append(translate.request(batch))
            batch, size = [], envelope
        batch.append(body)
        size += len(body)
    if batch:
        requests.append(translate.request(batch))
    return requests


def dumps(spans: Iterable[Span], translate: OtelTranslation) -> str:
    """The spans as one OTLP request in its JSON form, in which ids are hex digits."""
    # protobuf's JSON has bytes as base64 and enumerations as
    # names; OTLP's JSON wants hex digits for ids, and numbers.
    document: dict[str, Any] = MessageToDict(encode_spans([translate(span) for span in spans]))
    for resource in document.get("resourceSpans", ()):
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for name in ("traceId", "spanId", "parentSpanId"):
                    if name in span:
                        span[name] = b64decode(span[name]).hex()
                span["kind"] = _KIND_NUMBERS[span["kind"]]
                if "code" in span.get("status", {}):
                    span["status"]["code"] = _STATUS_NUMBERS[span["status"]["code"]]
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def post(
    spans: Iterable[Span],
    translate: OtelTranslation,
    *,
    endpoint: str = "",
    headers: Mapping[str, str] | None = None,
) -> str:
    """Send the spans now. Returns where they went.

    Raises:
        ExportFailed: the back end did not take them.
        ConfigError: there is no endpoint, or it is no URL.
    """
    url = traces_url(endpoint) if endpoint else _environment_url()
    for body in encode(spans, translate):
        send(url, body, _sent(headers))
    return endpoint_of(url)


def traces_url(endpoint: str) -> str:
    """The URL that takes traces; one without a path is a base."""
    endpoint_of(endpoint)
    path = urlsplit(endpoint).path
    return endpoint if path.strip("/") else endpoint.rstrip("/") + PATH


def _environment_url(default: str = "") -> str:
    endpoint = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "").strip()
    base = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip() or default
    if not endpoint and not base:
        raise ConfigError("no endpoint: give --endpoint or set OTEL_EXPORTER_OTLP_ENDPOINT")
    # As OpenTelemetry specifies: the variable for
    # traces is used as it is, the base gets the path.
    return endpoint or base.rstrip("/") + PATH


def _sent(headers: Mapping[str, str] | None) -> dict[str, str]:
    more = headers or {}
    # Those of the caller win over those of the environment.
    return {**_environment_headers(), **more, "Content-Type": "application/x-protobuf"}


def _environment_headers() -> dict[str, str]:
    """`OTEL_EXPORTER_OTLP_HEADERS`: `key=value,…` with %-escapes."""
    names = ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
    listed = next((os.environ[name] for name in names if os.environ.get(name)), "")
    pairs = [pair.partition("=") for pair in listed.split(",") if "=" in pair]
    return {name.strip(): unquote(value.strip()) for name, _, value in pairs}


def _remote(span: Span) -> bool:
    """Is its parent a span of the application's?"""
    return isinstance(span, AgentSpan) and span.root


def _context(trace: int, id_: str, remote: bool = False) -> SpanContext:
    return SpanContext(trace, int(id_, 16), is_remote=remote, trace_flags=_SAMPLED)


_KIND_NUMBERS: Final = {"SPAN_KIND_INTERNAL": 1, "SPAN_KIND_CLIENT": 3}
_STATUS_NUMBERS: Final = {"STATUS_CODE_OK": 1, "STATUS_CODE_ERROR": 2}


# Each constant is a field's tag (number << 3 | wire type), then its value: here field 6, `kind`.
_INTERNAL: Final = b"\x30\x01"
_CLIENT: Final = b"\x30\x03"
_ERROR: Final = b"\x18\x02"
_FLAGS: Final = b"\x85\x01" + struct.pack("<I", 0x100)
"""Field 16: it is known that the parent is not remote."""
_REMOTE: Final = b"\x85\x01" + struct.pack("<I", 0x300)
"""The same where the parent is the application's span, which may be elsewhere."""
_LINKED: Final = b"\x35" + struct.pack("<I", 0x300)
_SHORT: Final = 128
"""Characters of a text that may come again: a name, a word, an id."""
_FIXED: Final = struct.Struct("<Q")
_DOUBLE: Final = struct.Struct("<d")
_WHOLE: Final = range(-(1 << 63), 1 << 63)


def request(spans: Iterable[bytes], resource: Mapping[str, Any], scope: tuple[str, str]) -> bytes:
    """One `ExportTraceServiceRequest` of spans that are encoded, for which nothing is copied twice.

    `scope` is name and schema of what made the spans.
    """
    name, schema = scope
    scoped = b"".join([_field(1, _text(1, name)), *spans, _text(3, schema)])
    # ResourceSpans, in it the resource and ScopeSpans.
    return _field(1, _field(1, _attributes(1, resource)) + _field(2, scoped))


def encode_span(span: Span, content: Disclosure | None = None) -> bytes:
    """A span as it stands in a request."""
    return _field(2, _span(span, content))


def _span(span: Span, content: Disclosure | None) -> bytes:
    flags = _FLAGS
    if isinstance(span, AgentSpan) and span.root and span.parent:
        flags = _REMOTE
    parts = [
        _field(1, bytes.fromhex(span.trace)),
        _field(2, bytes.fromhex(span.id)),
        _field(4, bytes.fromhex(span.parent)) if span.parent else b"",
        _text(5, title(span)),
        _CLIENT if isinstance(span, ModelSpan) else _INTERNAL,
        # Fields 7 and 8 are fixed64: nanoseconds since the epoch.
        b"\x39" + _FIXED.pack(nanoseconds(span.start)),
        b"\x41" + _FIXED.pack(nanoseconds(span.end)),
        _attributes(9, attributes(span, content)),
        flags,
    ]
    if isinstance(span, AgentSpan):
        for mark in span.marks:
            facts = mark_attributes(mark, content)
            parts.append(_event(f"taofold.{mark.name}", mark.at, facts))
        parts += [_link(link) for link in span.links]
    if span.error:
        raised = exception_attributes(span, content)
        if raised is not None:
            parts.append(_event("exception", span.end, raised))
    status = _text(2, span.error) + _ERROR if span.error else b""
    parts.append(_field(15, status))
    return b"".join(parts)


def _event(name: str, at: float, facts: Mapping[str, Any]) -> bytes:
    time = b"\x09" + _FIXED.pack(nanoseconds(at))
    return _field(11, time + _text(2, name) + _attributes(3, facts))


def _link(link: spans.Link) -> bytes:
    context = _field(1, bytes.fromhex(link.trace)) + _field(2, bytes.fromhex(link.id))
    return _field(13, context + _attributes(4, link_attributes(link)) + _LINKED)


def nanoseconds(ms: float) -> int:
    """A moment in milliseconds, to the microsecond."""
    return round(ms * 1000) * 1000


def _attributes(number: int, attributes: Mapping[str, Any]) -> bytes:
    return b"".join([_attribute(number, name, value) for name, value in attributes.items()])


def _attribute(number: int, name: str, value: Any) -> bytes:
    if isinstance(value, str):
        # Names, words and ids come again in every span;
        # a long text does not, and would fill the cache.
        return _known(number, name, value) if len(value) <= _SHORT else _told(number, name, value)
    if isinstance(value, bool | int | float):
        return _known(number, name, value)
    return _told(number, name, value)


# `typed`: 1, 1.0 and True are equal as keys, and are three different values of OTLP.
@lru_cache(maxsize=4096, typed=True)
def _known(number: int, name: str, value: str | float) -> bytes:
    return _told(number, name, value)


def _told(number: int, name: str, value: Any) -> bytes:
    return _field(number, _text(1, name) + _field(2, _value(value)))


def _value(value: Any) -> bytes:
    """An `AnyValue`."""
    # Before int, of which bool is a subclass.
    if isinstance(value, bool):
        return b"\x10\x01" if value else b"\x10\x00"
    if isinstance(value, int) and value in _WHOLE:
        # int64 as a varint: negative numbers in two's complement, ten bytes long.
        return b"\x18" + _varint(value & 0xFFFF_FFFF_FFFF_FFFF)
    if isinstance(value, float):
        return b"\x21" + _DOUBLE.pack(value)
    if isinstance(value, list | tuple):
        items = cast("Iterable[Any]", value)
        return _field(5, b"".join([_field(1, _value(element)) for element in items]))
    # What int64 cannot hold is told as text rather than dropped.
    return _field(1, str(value).encode("utf-8", "replace"))


def _text(number: int, text: str) -> bytes:
    return _field(number, text.encode("utf-8", "replace")) if text else b""


def _field(number: int, payload: bytes) -> bytes:
    """A field with a length; numbers below 16 take one byte."""
    return bytes((number << 3 | 2,)) + _varint(len(payload)) + payload


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)

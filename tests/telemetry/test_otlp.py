"""The protobuf that we write, read by OpenTelemetry's own definitions."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from taofold.telemetry import otel
from taofold.telemetry.projection import spans_of
from tests.telemetry.kit import calculator, family, told

pytestmark = pytest.mark.anyio
VALUES = st.one_of(
    st.text(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False),
    st.lists(st.text(), max_size=3),
)  # fmt: skip


def resource(found: dict[str, Any]) -> dict[str, Any]:
    body = otel.request([], found, ("x", ""))
    return told(ExportTraceServiceRequest.FromString(body).resource_spans[0].resource)


@given(st.dictionaries(st.text(min_size=1), VALUES, max_size=5))
def test_every_value_is_read_back_as_it_was(found: dict[str, Any]) -> None:
    read = resource(found)
    assert read == found
    assert {name: type(value) for name, value in read.items()} == {
        name: type(value) for name, value in found.items()
    }


def test_what_protobuf_cannot_hold_does_not_stop_the_rest() -> None:
    found = {"far": 2**64, "half": "a\ud800b", "long": "x" * 100_000, "one": 1, "true": True}
    read = resource(found)
    assert read["far"] == str(2**64)
    assert read["half"] == "a?b"
    assert (read["long"], read["one"], read["true"]) == (found["long"], 1, True)
    assert type(read["true"]) is bool
    assert type(resource({"true": 1})["true"]) is int, "what is remembered has its type"


@pytest.mark.parametrize("content", [False, True])
async def test_the_sdk_would_send_the_same(content: bool) -> None:
    """Every kind of span, with marks, errors and parents."""
    runs = [await calculator(approve="all").run("add"), await family().run("ask")]
    runs.append(await calculator().run("add"))
    spans = [span for run in runs for span in spans_of(run.records)]
    translate = otel.OtelTranslation(content=content)
    assert len({type(one) for one in spans}) == 4
    ours = ExportTraceServiceRequest.FromString(translate.request(map(translate.encoded, spans)))
    assert ours == encode_spans([translate(one) for one in spans])


@pytest.mark.parametrize(
    "name", ["OTEL_EXPORTER_OTLP_CERTIFICATE", "OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE"]
)
def test_who_needs_certificates_gets_opentelemetrys_own_exporter(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert otel.exporter()._exporter is None
    monkeypatch.setenv(name, __file__)
    made = otel.exporter()
    assert isinstance(made._exporter, OTLPSpanExporter)
    made.close()

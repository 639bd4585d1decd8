"""Over OTLP: what a back end of ours receives, decoded from protobuf."""

import json
import logging
import threading

import pytest
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from taofold import MemoryLog
from taofold.core.errors import ConfigError, LogError
from taofold.telemetry import otel
from taofold.telemetry.projection import Roots, spans_of
from taofold.telemetry.targets import target
from taofold.telemetry.traced_log import TracedLog, with_traces
from tests.runtime.kit import LOGS, settled
from tests.telemetry.kit import calculator, capturing, family, told

pytestmark = pytest.mark.anyio


async def test_a_run_is_sent_while_it_goes_on_and_arrives_whole():
    with capturing() as server:
        log = otel.traced("memory", endpoint=server.url)
        result = await calculator(log=log, approve="all").run("add", session="s1")
        await log.close()
        spans = server.spans()
    assert {path for _, path, _, _ in server.requests} == {"/v1/traces"}
    root = next(one for one in spans if not one.parent_span_id)
    assert (root.name, root.kind, root.status.code) == ("invoke_agent calculator", 1, 0)
    assert {one.parent_span_id for one in spans if one is not root} == {root.span_id}
    assert {one.trace_id for one in spans} == {root.trace_id}
    facts = told(root)
    assert facts["gen_ai.operation.name"] == "invoke_agent"
    assert facts["openinference.span.kind"] == "AGENT"
    assert facts["gen_ai.conversation.id"] == facts["session.id"] == "s1"
    assert facts["gen_ai.aggregated_usage.input_tokens"] == result.usage.input_tokens
    assert [event.name for event in root.events] == ["taofold.violated", "taofold.step"]


async def test_a_chat_span_has_the_words_of_both_conventions():
    with capturing() as server:
        log = otel.traced("memory", endpoint=server.url, content=True)
        await calculator(log=log, approve="all").run("what is 2 + 3?")
        await log.close()
        first = next(one for one in server.spans() if one.name == "chat gpt-test")
    facts = told(first)
    assert first.kind == 3
    assert facts["gen_ai.provider.name"] == facts["gen_ai.system"] == "openai"
    assert facts["gen_ai.request.model"] == facts["llm.model_name"] == "gpt-test"
    assert facts["gen_ai.usage.input_tokens"] == facts["llm.token_count.prompt"] == 100
    assert facts["gen_ai.usage.output_tokens"] == facts["llm.token_count.completion"] == 10
    [reply] = json.loads(facts["gen_ai.output.messages"])
    assert (reply["role"], reply["finish_reason"]) == ("assistant", "stop")
    assert "two and three first" in reply["parts"][0]["content"]
    assert facts["output.value"] == reply["parts"][0]["content"]


async def test_a_tool_span_has_its_parameters_and_its_failure():
    with capturing() as server:
        log = otel.traced("memory", endpoint=server.url, content=True)
        await calculator(log=log, approve="all").run("add")
        await log.close()
        spans = {one.name: one for one in server.spans()}
    added = told(spans["execute_tool add"])
    assert json.loads(added["gen_ai.tool.call.arguments"]) == {"a": 5, "b": 1}
    assert json.loads(added["tool.parameters"]) == {"a": 5, "b": 1}
    assert added["gen_ai.tool.call.result"] == added["output.value"] == "6"
    failed = spans["execute_tool fail"]
    assert (failed.status.code, told(failed)["error.type"]) == (2, "ValueError")
    assert "no such thing" in told(failed)["error.message"]
    [raised] = failed.events
    assert (raised.name, told(raised)) == ("exception", {
        "exception.type": "ValueError", "exception.message": "ValueError: no such thing",
    })  # fmt: skip
    assert raised.time_unix_nano == failed.end_time_unix_nano
    assert spans["execute_tool unknown"].events == [], "a refusal is no exception"
    unknown = told(spans["execute_tool unknown"])
    assert (unknown["taofold.refused"], unknown["taofold.tool.called"]) == ("unknown", "made_up")
    assert told(spans["approve remove"])["taofold.approval.verdict"] == "allow"


async def test_sums_over_all_spans_count_every_token_once():
    with capturing() as server:
        log = otel.traced("memory", endpoint=server.url)
        result = await family(log).run("ask")
        await log.close()
        facts = [told(one) for one in server.spans()]
    for word, count in (
        ("input", result.usage.input_tokens),
        ("output", result.usage.output_tokens),
    ):
        assert sum([one.get(f"gen_ai.usage.{word}_tokens", 0) for one in facts]) == count
    whole = [one for one in facts if "gen_ai.aggregated_usage.input_tokens" in one]
    assert {one["gen_ai.operation.name"] for one in whole} == {"invoke_agent"}


async def test_what_the_sdk_switches_off_is_off(monkeypatch):
    monkeypatch.setenv("OTEL_SDK_DISABLED", "True")
    with capturing() as server:
        log = otel.traced("memory", endpoint=server.url)
        assert (await calculator(log=log, approve="all").run("add")).success
        await log.close()
        named = with_traces(MemoryLog(), "otlp")
        await calculator(log=named, approve="all").run("add")
        await named.close()
    assert server.requests == []


@pytest.mark.parametrize("content", [False, True])
async def test_content_goes_in_smaller_requests(content):
    spans = spans_of((await calculator(approve="all").run("add")).records) * 4
    with capturing() as server:
        otel.post(spans, otel.OtelTranslation(content=content), endpoint=server.url)
    assert len(server.spans()) == len(spans)
    assert len(server.requests) == (3 if content else 1)


@pytest.mark.parametrize(
    "name", ["OTEL_EXPORTER_OTLP_CERTIFICATE", "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE"]
)
async def test_certificates_are_those_that_the_variables_name(name, monkeypatch):
    monkeypatch.setenv(name, __file__)
    exporter = otel.otlp_exporter(target("otlp", "https://127.0.0.1:9"))
    assert exporter._client._transport._session.verify == __file__
    exporter.shutdown()


async def test_durations_are_histograms_of_the_applications_meter_provider(monkeypatch):
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader])
    monkeypatch.setattr(otel, "get_meter", provider.get_meter)
    with capturing() as server:
        log = otel.traced("memory", endpoint=server.url)
        await calculator(log=log, approve="all").run("add")
        await log.close()
        spans = server.spans()
    [scope] = reader.get_metrics_data().resource_metrics[0].scope_metrics
    found = {one.name: (one.unit, one.data.data_points) for one in scope.metrics}
    assert {unit for unit, _ in found.values()} == {"s"}
    [run] = found["gen_ai.invoke_agent.duration"][1]
    [root] = [one for one in spans if not one.parent_span_id]
    assert run.sum == pytest.approx(
        (root.end_time_unix_nano - root.start_time_unix_nano) / 1e9, abs=1e-6
    )
    assert run.attributes["gen_ai.agent.name"] == "calculator"
    assert "taofold.run.id" not in run.attributes, "a dimension has few values"
    calls = {one.attributes["gen_ai.request.model"]: one.count
             for one in found["gen_ai.client.operation.duration"][1]}  # fmt: skip
    assert calls == {"gpt-test": 4}
    tools = {(one.attributes["gen_ai.tool.name"], one.attributes.get("error.type")): one.count
             for one in found["gen_ai.execute_tool.duration"][1]}  # fmt: skip
    assert tools[("add", None)] == 2
    assert tools[("fail", "ValueError")] == 1
    provider.shutdown()


async def test_what_is_sent_later_is_what_was_sent_live():
    with capturing() as live:
        log = otel.traced("memory", endpoint=live.url)
        result = await family(log).run("ask")
        [row] = await log.rows(parent=result.run_id)
        records = await log.read(row.run)
        await log.close()
    roots: Roots = {}
    spans = [*spans_of(result.records, roots), *spans_of(records, roots)]
    with capturing() as later:
        where = otel.post(spans, otel.OtelTranslation(), endpoint=later.url)
        otel.post(spans, otel.OtelTranslation(), endpoint=later.url)
    assert where == f"{later.url}/v1/traces"
    assert len(later.requests) == 2
    assert later.requests[0][3] == later.requests[1][3], "sent again, it is the same"
    assert _plain(live.spans()) == _plain(later.spans()[: len(spans)])
    assert {one.trace_id for one in live.spans()} == {later.spans()[0].trace_id}


def _plain(spans):
    return sorted([one.SerializeToString(deterministic=True) for one in spans])


@pytest.mark.parametrize("name", LOGS)
async def test_a_run_that_another_process_carries_on_keeps_its_trace(name, tmp_path):
    """The resuming process did not receive the run's first events, so it reads them."""
    inner = LOGS[name](tmp_path)
    with capturing() as server:
        first = otel.traced(inner, endpoint=server.url)
        waiting = await calculator(log=first).run("add")
        assert waiting.status == "waiting"
        first.exporter.close()
        before = len(server.spans())
        second = otel.traced(inner, endpoint=server.url)
        agent = calculator("the script is over", log=second)
        agent = agent.replace(model=type(agent.model)(_left(), name="openai:gpt-test"))
        await settled(agent, type(waiting)(**{**vars(waiting), "log": second}))
        second.exporter.close()
        spans = server.spans()
        records = await inner.read(waiting.run_id)
        await inner.close()
    assert 0 < before < len(spans)
    assert len({one.span_id for one in spans}) == len(spans)
    assert {one.span_id.hex() for one in spans} == {one.id for one in spans_of(records)}
    removed = next(one for one in spans if one.name == "execute_tool remove")
    assert removed.trace_id == spans[0].trace_id


def _left():
    from tests.runtime.kit import finish

    return [finish("6")]


async def test_a_back_end_that_is_away_costs_a_run_nothing(caplog):
    class Broken(SpanExporter):
        def export(self, spans):
            raise OSError("away")

    log = otel.traced("memory", exporter=Broken())
    assert (await calculator(log=log, approve="all").run("add")).success
    await log.close()
    assert "away" in caplog.text


async def test_a_back_end_that_hangs_does_not_hold_up_the_end(caplog, monkeypatch):
    """Mutant: `close` calls the processor's `shutdown` itself: the test hangs."""
    begun, release = threading.Event(), threading.Event()

    class Hanging(SpanExporter):
        def export(self, spans):
            begun.set()
            release.wait()
            return SpanExportResult.SUCCESS

    monkeypatch.setattr(otel, "PATIENCE", 0.01)
    log = otel.traced("memory", exporter=Hanging())
    assert (await calculator(log=log, approve="all").run("add")).success
    assert not await log.flush(0.01)
    begun.wait()
    await log.close()
    assert not release.is_set()
    assert "the log has them: taofold runs export" in caplog.text
    release.set()


async def test_a_configured_log_shows_each_failure_once(monkeypatch, caplog):
    """Mutant: no filter is added: each batch is logged."""
    logger = logging.getLogger("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    before = list(logger.filters)
    with capturing() as server:
        server.answers = [401] * 20
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url)
        log = with_traces(MemoryLog(), "otlp")
        for _ in range(2):
            assert (await calculator(log=log, approve="all").run("add")).success
            assert await log.flush(180)
        await log.close()
    assert len(server.requests) == 2
    assert caplog.text.count("401") == 1
    assert logger.filters == before


async def test_a_projection_that_fails_costs_a_run_nothing(caplog):
    class Broken:
        def export(self, spans):
            raise RuntimeError("broken")

        def close(self):
            pass

    log = TracedLog(MemoryLog(), Broken())
    assert (await calculator(log=log, approve="all").run("add")).success
    await log.close()
    assert "a part of its trace is lost" in caplog.text


async def test_spans_leave_only_when_they_are_durable():
    """The log refuses the records, so no span is sent."""
    seen = []

    class Kept(SpanExporter):
        def export(self, spans):
            seen.extend(spans)
            return SpanExportResult.SUCCESS

    class Refusing(MemoryLog):
        async def append(self, run, epoch, records, **rest):
            if any(type(one.event).__name__ == "Replied" for one in records):
                raise LogError("disk full")
            return await super().append(run, epoch, records, **rest)

    log = otel.traced(Refusing(), exporter=Kept())
    with pytest.raises(LogError):
        await calculator(log=log).run("add")
    await log.close()
    assert [one.name for one in seen] == []


async def test_what_passes_is_tried_again(monkeypatch):
    monkeypatch.setattr("opentelemetry.exporter.otlp.common.http.random.uniform", lambda *_: 0)
    spans = spans_of((await calculator(approve="all").run("add")).records)
    with capturing() as server:
        server.answers = [503, 429]
        otel.post(spans, otel.OtelTranslation(), endpoint=server.url)
    assert len(server.requests) == 3


async def test_a_back_end_that_is_not_there_is_named_with_the_kind_of_failure(monkeypatch):
    """Mutant: the text of the failed attempt is shown: it holds the query of the URL."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3")
    monkeypatch.setattr("opentelemetry.exporter.otlp.common.http.random.uniform", lambda *_: 0)
    spans = spans_of((await calculator(approve="all").run("add")).records)
    with pytest.raises(otel.ExportFailed) as caught:
        otel.post(
            spans, otel.OtelTranslation(), endpoint="http://me:hidden@127.0.0.1:9/x?key=hidden"
        )
    assert str(caught.value).startswith("http://127.0.0.1:9/x did not take the spans: ")
    assert "ConnectionError" in str(caught.value)
    assert "hidden" not in str(caught.value)


async def test_a_refusal_names_the_back_end_without_its_password(caplog):
    spans = spans_of((await calculator(approve="all").run("add")).records)
    with capturing() as server:
        server.answers = [401]
        url = server.url.replace("http://", "http://me:hidden@") + "/x?key=hidden"
        with pytest.raises(otel.ExportFailed) as caught:
            otel.post(spans, otel.OtelTranslation(), endpoint=url)
    assert len(server.requests) == 1, "a refusal is not repeated"
    assert str(caught.value).startswith(f"{server.url}/x did not take the spans: ")
    assert "401" in str(caught.value)
    assert "hidden" not in str(caught.value)
    assert "hidden" not in caplog.text


@pytest.mark.parametrize(
    "said", ["localhost:4318", "file:///etc/passwd", "http://", "http://[x", "http://x:99999"]
)
async def test_an_endpoint_that_is_no_url_is_the_programmers_mistake(said):
    with pytest.raises(ConfigError, match="http or https"):
        otel.traced("memory", endpoint=said)


async def test_the_environment_says_where_and_with_which_headers(monkeypatch):
    spans = spans_of((await calculator(approve="all").run("add")).records)
    with capturing() as server:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url + "/base/")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b, x-other=c")
        otel.post(spans, otel.OtelTranslation())
    [(_, path, headers, _)] = server.requests
    assert path == "/base/v1/traces"
    assert (headers["x-key"], headers["x-other"]) == ("a b", "c")


async def test_the_json_form_is_otlps_own():
    """Parsed by the definitions of OpenTelemetry, but for ids: there they are hex, not base64."""
    from base64 import b64encode

    from google.protobuf.json_format import Parse
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    spans = spans_of((await calculator(approve="all").run("add")).records)
    said = json.loads(otel.dumps(spans, otel.OtelTranslation()))
    [scope] = said["resourceSpans"][0]["scopeSpans"]
    assert [one["spanId"] for one in scope["spans"]] == [one.id for one in spans]
    for one in scope["spans"]:
        for name in ("traceId", "spanId", "parentSpanId"):
            if name in one:
                one[name] = b64encode(bytes.fromhex(one[name])).decode()
    parsed = Parse(json.dumps(said), ExportTraceServiceRequest())
    with capturing() as server:
        otel.post(spans, otel.OtelTranslation(), endpoint=server.url)
        [(*_, body)] = server.requests
    assert parsed == ExportTraceServiceRequest.FromString(body)


async def test_the_resource_has_nothing_random_in_it():
    spans = spans_of((await calculator(approve="all").run("add")).records)
    resource = json.loads(otel.dumps(spans, otel.OtelTranslation(project="p")))["resourceSpans"][0]
    facts = {one["key"]: one["value"] for one in resource["resource"]["attributes"]}
    assert facts["service.name"] == facts["openinference.project.name"] == {"stringValue": "p"}
    assert "service.instance.id" not in facts

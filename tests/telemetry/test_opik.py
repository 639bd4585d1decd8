"""Opik through its OTLP endpoint: path and headers, as its documentation names them."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from taofold.core.errors import ConfigError
from taofold.core.values import Message
from taofold.telemetry import otel
from taofold.telemetry.projection import spans_of
from taofold.telemetry.prompt import Prompt
from taofold.telemetry.targets import target
from tests.telemetry.kit import SECRET, calculator, capturing, family, told

pytestmark = pytest.mark.anyio
PATH = "/api/v1/private/otel/v1/traces"


def sent_headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The variables of an Opik project, and those of another collector."""
    monkeypatch.setenv("OPIK_API_KEY", "opik-key")
    monkeypatch.setenv("OPIK_WORKSPACE", "team")
    monkeypatch.setenv("OPIK_PROJECT_NAME", "mine")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=other,x-collector=other")
    return monkeypatch


@pytest.mark.scenario("TEA-27")
@pytest.mark.document_item("004.output.opik", "004.scenario.opik")
async def test_a_run_is_sent_to_opiks_endpoint_with_its_headers(
    variables: pytest.MonkeyPatch,
) -> None:
    with capturing() as server:
        variables.setenv("OPIK_URL_OVERRIDE", f"{server.url}/api/")
        log = otel.traced("memory", backend="opik")
        result = await family(log).run("ask the helper", session="s1")
        assert result.success
        await log.close()
        spans = server.spans()
    assert {(method, path) for method, path, _, _ in server.requests} == {("POST", PATH)}
    headers = sent_headers(server.requests[0][2])
    assert headers["authorization"] == "opik-key"
    assert headers["comet-workspace"] == "team"
    assert headers["projectname"] == "mine"
    assert headers["content-type"] == "application/x-protobuf"
    facts = {one.name: told(one) for one in spans}
    # Attributes that Opik's mapping rules read: the thread, the model, the provider, the tokens.
    assert facts["invoke_agent parent"]["gen_ai.conversation.id"] == "s1"
    chat = facts["chat gpt-test"]
    assert (chat["gen_ai.request.model"], chat["gen_ai.system"]) == ("gpt-test", "openai")
    assert (chat["gen_ai.usage.input_tokens"], chat["gen_ai.usage.output_tokens"]) == (100, 10)
    kinds = {one["openinference.span.kind"] for one in facts.values()}
    assert kinds == {"AGENT", "LLM", "TOOL"}


@pytest.mark.parametrize("key", ["opik-key", ""])
async def test_headers_for_another_collector_do_not_go_to_opik(
    variables: pytest.MonkeyPatch, key: str
) -> None:
    """Mutant: `prepare` removes nothing: the other collector's key goes to Opik."""
    variables.setenv("OPIK_API_KEY", key)
    spans = spans_of((await calculator(approve="all").run("add")).records)
    with capturing() as server:
        translate = otel.OtelTranslation()
        otel.post(spans, translate, backend="opik", endpoint=f"{server.url}/api")
        otel.post(spans, translate, endpoint=server.url)
    to_opik, to_collector = [sent_headers(headers) for _, _, headers, _ in server.requests]
    assert "other" not in to_opik.values()
    assert to_opik.get("authorization", "") == key
    assert to_collector["authorization"] == to_collector["x-collector"] == "other"
    assert "opik-key" not in to_collector.values()


def test_the_variables_of_opik_are_read_and_have_defaults() -> None:
    found = target("opik", environment={"OPIK_URL_OVERRIDE": "https://x/api", "OPIK_API_KEY": "k"})
    assert found.url == "https://x/api/v1/private/otel/v1/traces"
    assert found.headers == {
        "projectName": "taofold", "Comet-Workspace": "default", "Authorization": "k",
    }  # fmt: skip
    local = target("opik", environment={})
    assert local.url == f"http://localhost:5173{PATH}"
    assert "Authorization" not in local.headers
    assert target("opik", local.url, environment={}).url == local.url, "the whole URL will do"


def test_a_wrong_url_is_refused_under_the_name_of_its_variable() -> None:
    with pytest.raises(ConfigError, match="OPIK_URL_OVERRIDE: an endpoint is an http or https URL"):
        target("opik", environment={"OPIK_URL_OVERRIDE": "nowhere"})


async def test_a_refusal_names_the_place_and_not_the_key(
    variables: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    spans = spans_of((await calculator(approve="all").run("add")).records)
    with capturing() as server:
        server.answers = [403]
        with pytest.raises(otel.ExportFailed, match=f"127.0.0.1:[0-9]+{PATH} did not take"):
            otel.post(spans, otel.OtelTranslation(), backend="opik", endpoint=f"{server.url}/api")
    assert "403" in caplog.text
    assert "opik-key" not in caplog.text


@pytest.mark.scenario("PEER-31")
async def test_secrets_are_redacted_before_they_are_sent() -> None:
    spans = spans_of((await calculator(approve="all").run("add")).records)
    spans = tuple(replace(one, message=SECRET, **_planted(one)) for one in spans)
    assert SECRET in repr(spans)
    with capturing() as server:
        translate = otel.OtelTranslation(content=True)
        otel.post(spans, translate, backend="opik", endpoint=f"{server.url}/api")
    assert len(server.spans()) == len(spans)
    assert SECRET.encode() not in b"".join([body for *_, body in server.requests])


def _planted(span: Any) -> dict[str, Any]:
    values = {"goal": SECRET, "text": SECRET, "reasoning": SECRET, "parameters": {"x": [SECRET]}}
    values |= {"result": {"x": SECRET}, "output": SECRET, "instructions": SECRET}
    values |= {"prompt": Prompt(tuple([Message(r, SECRET) for r in ("system", "user")]))}
    return {name: value for name, value in values.items() if hasattr(span, name)}

"""`taofold runs export --format otlp|opik`, and `traces:` in the configuration."""

import json
from pathlib import Path

import pytest

from tests.telemetry.kit import capturing, told
from tests.terminal import Taofold


@pytest.fixture
def run(taofold: Taofold, project: Path) -> str:
    """A run with a child run."""
    done = taofold("run", "agents:boss", "what is 17 + 25?", "--approve", "all", "--quiet")
    assert done.code == 0, done.err
    return "last"


def test_a_run_and_its_child_are_written_as_one_otlp_trace(taofold: Taofold, run: str) -> None:
    done = taofold("runs", "export", run, "--format", "otlp")
    assert done.code == 0, done.err
    [resource] = json.loads(done.out)["resourceSpans"]
    spans = resource["scopeSpans"][0]["spans"]
    names = [one["name"] for one in spans]
    assert names.count("invoke_agent agent") == 1
    assert names.count("invoke_agent adder") == 1
    assert len({one["traceId"] for one in spans}) == 1
    assert [one["name"] for one in spans if "parentSpanId" not in one] == ["invoke_agent agent"]
    assert "17 + 25" not in done.out
    assert "17 + 25" in taofold("runs", "export", run, "--format", "otlp", "--content").out


def test_a_run_is_sent_to_an_endpoint(taofold: Taofold, run: str) -> None:
    with capturing() as server:
        done = taofold("runs", "export", run, "--format", "otlp", "--endpoint", server.url)
        spans = server.spans()
    assert done.code == 0, done.err
    assert f"{len(spans)} spans sent to {server.url}/v1/traces" in done.err
    assert done.out == ""
    assert {told(one)["openinference.span.kind"] for one in spans} == {"AGENT", "LLM", "TOOL"}


def test_a_run_goes_to_opik(taofold: Taofold, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPIK_PROJECT_NAME", "mine")
    monkeypatch.setenv("OPIK_API_KEY", "key")
    written = taofold("runs", "export", run, "--format", "opik").out
    assert written == taofold("runs", "export", run, "--format", "otlp").out
    with capturing() as server:
        done = taofold("runs", "export", run, "-f", "opik", "--endpoint", f"{server.url}/api")
        spans = server.spans()
    assert done.code == 0, done.err
    [(method, path, headers, _)] = server.requests
    assert (method, path) == ("POST", "/api/v1/private/otel/v1/traces")
    assert (headers["projectname"], headers["authorization"]) == ("mine", "key")
    [resource] = json.loads(written)["resourceSpans"]
    assert [one.span_id.hex() for one in spans] == [
        one["spanId"] for one in resource["scopeSpans"][0]["spans"]
    ]


def test_a_trace_is_written_to_a_file_once(taofold: Taofold, run: str, project: Path) -> None:
    assert taofold("runs", "export", run, "-f", "otlp", "-o", "trace.json").code == 0
    assert json.loads((project / "trace.json").read_text())
    assert taofold("runs", "export", run, "-f", "otlp", "-o", "trace.json").code == 2


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("-f", "otlp", "--endpoint", "localhost:4318"), 2, "http or https URL"),
        (("-f", "otlp", "--endpoint", "http://127.0.0.1:9", "-o", "x"), 2, "give either"),
        (("-f", "ndjson", "--content"), 2, "go with --format otlp or opik"),
        (("-f", "nonsense"), 2, "otlp, opik"),
    ],
)
def test_what_cannot_be_done_is_said(
    taofold: Taofold, run: str, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = taofold("runs", "export", run, *arguments)
    assert done.code == code
    assert said in done.err


def test_a_back_end_that_refuses_is_named_and_nothing_else_happens(
    taofold: Taofold, run: str
) -> None:
    with capturing() as server:
        server.answers = [401]
        done = taofold("runs", "export", run, "-f", "otlp", "--endpoint", server.url)
    assert done.code == 1
    assert "401" in done.err
    assert "Traceback" not in done.err


def test_a_configured_project_is_traced_by_every_command(
    taofold: Taofold, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run waits, and another command resumes it: one trace, without message contents."""
    operator = project.parent / "config" / "taofold"
    operator.mkdir(parents=True)
    (operator / "config.yml").write_text("traces: otlp\n")
    with capturing() as server:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url)
        waiting = taofold("run", "agents:writer", "write", "--approve", "wait", "--quiet")
        assert waiting.code == 3, waiting.err
        assert server.spans()
        taofold("approvals", "approve", "last")
        done = taofold("runs", "resume", "last", "--quiet")
        spans = server.spans()
    assert "error" not in done.err
    names = [one.name for one in spans]
    assert "execute_tool note" in names
    assert "approve note" in names
    assert names.count("invoke_agent agent") == 1
    assert len({one.trace_id for one in spans}) == 1
    assert b"hello 7777" not in b"".join(body for *_, body in server.requests)


def test_a_wrong_name_in_the_configuration_is_said(taofold: Taofold, project: Path) -> None:
    (project / ".taofold" / "config.yml").write_text("traces: jaeger\n")
    done = taofold("run", "agents:adder", "go")
    assert done.code == 2
    assert "traces" in done.err


def test_a_wrong_name_in_the_environment_is_said(
    taofold: Taofold, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAOFOLD_TRACES", "jaeger")
    done = taofold("run", "agents:adder", "go")
    assert done.code == 2
    assert "TAOFOLD_TRACES: must be otlp or opik" in done.err

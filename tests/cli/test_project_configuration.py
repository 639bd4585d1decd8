"""Limits on the configuration that comes with a repository.

Mutants: `_not_the_projects` finds nothing; the project's file overrides the operator's;
`TAOFOLD_TRACES_CONTENT` has no effect.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from taofold.cli.project import config
from taofold.files.config import PROJECT_KEYS, Config, read_config
from tests.terminal import Taofold

VARIANTS = {
    "traces": "traces: otlp\n",
    "opik": "model: test:answer\ntraces: opik\n",
    "content": "traces_content: true\n",
    "both": "traces: otlp\ntraces_content: true\n",
    "json": '{"traces": "otlp"}\n',
    "quoted": '"traces": otlp\n',
    "off": "traces_content: false\n",
    "empty": "traces: ''\n",
}


@pytest.mark.parametrize("text", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("name", ["config.yml", "config.yaml"])
def test_a_project_cannot_have_its_runs_sent_elsewhere(
    project: Path, taofold: Taofold, monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    heard: list[str] = []

    class Listener(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(self.path)
            self.send_response(200)
            self.end_headers()

    with HTTPServer(("127.0.0.1", 0), Listener) as listener:
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        # Every user of this machine may listen there.
        here = f"http://127.0.0.1:{listener.server_port}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", here)
        monkeypatch.setenv("OPIK_URL_OVERRIDE", f"{here}/api")
        (project / ".taofold" / name).write_text(text)
        result = taofold("run", "agents:adder", "17 + 25")
        listener.shutdown()
    assert result.code == 2
    line = 2 if text.startswith("model") else 1
    assert f".taofold/{name}:{line}: traces" in result.err
    assert "a project may not set this" in result.err
    assert heard == []


def test_each_key_is_the_projects_or_the_operators(project: Path) -> None:
    assert PROJECT_KEYS.keys() <= Config.model_fields.keys()
    path = project / ".taofold/config.yml"
    for key, field in Config.model_fields.items():
        value = field.get_default()
        path.write_text(json.dumps({key: value if isinstance(value, str | bool) else {}}))
        read, faults = read_config(path, {})
        refused = any("a project may not set this" in str(fault) for fault in faults)
        assert refused == (key not in PROJECT_KEYS), key
        assert (read is None) == bool(faults)


@pytest.mark.parametrize("key", ["network", "trust", "contain", "approvers", "rights", "log"])
def test_there_is_no_key_for_network_or_trust(project: Path, taofold: Taofold, key: str) -> None:
    (project / ".taofold/config.yml").write_text(f"{key}: true\n")
    result = taofold("run", "agents:adder", "17 + 25")
    assert result.code == 2
    assert f"config.yml:1: {key}" in result.err


def test_the_operator_may_set_all_of_them_and_is_stronger(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = project.parent / "config/taofold/config.yml"
    operator.parent.mkdir(parents=True)
    operator.write_text("traces: otlp\nmodel: test:answer\nlimits: {usd: 1}\n")
    (project / ".taofold/config.yml").write_text(
        "model: deepseek:chat\nprovider: groq\nlimits: {usd: 100000, steps: 7}\n"
    )
    read = config()
    assert (read.model, read.provider, read.traces) == ("test:answer", "groq", "otlp")
    assert read.limits.given() == {"usd": 1, "steps": 7}
    assert not read.traces_content
    monkeypatch.setenv("TAOFOLD_TRACES_CONTENT", "true")
    monkeypatch.setenv("TAOFOLD_LIMITS_USD", "2")
    assert config().traces_content
    assert config().limits.usd == 2
    monkeypatch.setenv("TAOFOLD_TRACES_CONTENT", "perhaps")
    with pytest.raises(ExceptionGroup, match="the configuration cannot be used"):
        config()

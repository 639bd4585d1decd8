"""Cassettes that were recorded: what is written, and that it answers like the provider did."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from taofold import Agent, ConfigError
from taofold.models.transport import allow_model_requests, answered_by
from taofold.testing import Cassette, Recorder

pytest_plugins = ["pytester"]

KEY = 'sk-"quoted"-and-secret-0123456789'


class Provider(BaseHTTPRequestHandler):
    """A chat-completions server that repeats the key, and streams on request."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        text = f"Oslo, and you are {self.headers['authorization'].removeprefix('Bearer ')}."
        if body.get("stream"):
            chunk = {"choices": [{"index": 0, "delta": {"content": text}}]}
            end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
            events = [json.dumps(chunk), json.dumps(end), "[DONE]"]
            kind, data = "text/event-stream", "".join(f"data: {event}\n\n" for event in events)
        else:
            message = {"role": "assistant", "content": text}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            kind, data = "application/json", json.dumps({"choices": [choice], "model": "m"})
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("set-cookie", f"session={KEY}")
        self.end_headers()
        self.wfile.write(data.encode())

    def log_message(self, *arguments: object) -> None:
        """Nothing is printed."""


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("OPENAI_CHAT_BASE_URL", f"http://127.0.0.1:{server.server_address[1]}/v1")
    yield
    server.shutdown()
    server.server_close()


def agent() -> Agent[None, str]:
    return Agent("openai-chat:m", strategy="direct", max_tokens=9)


@pytest.mark.usefixtures("provider")
@pytest.mark.parametrize("stream", [False, True])
def test_a_cassette_answers_as_the_provider_did_and_holds_no_key(
    stream: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder, file = Recorder(), tmp_path / "cassettes" / "oslo.json"
    heard: list[object] = []
    options = {"listener": heard.append} if stream else {}
    with allow_model_requests(), answered_by(recorder):
        said = agent().run_sync("The capital of Norway?", **options).output
    assert said is not None
    assert said.startswith("Oslo")
    recorder.save(file)

    text = file.read_text(encoding="utf-8")
    assert "secret" not in text
    assert "cookie" not in text.lower()
    assert [path.name for path in file.parent.iterdir()] == ["oslo.json"]

    cassette = Cassette.load(file)
    monkeypatch.setenv("OPENAI_API_KEY", "another")
    with answered_by(cassette):
        again = agent().run_sync("The capital of Norway?", **options).output
    cassette.assert_complete()
    assert again == "Oslo, and you are REDACTED."


def test_nothing_recorded_is_a_mistake_and_leaves_the_file(tmp_path: Path) -> None:
    file = tmp_path / "old.json"
    file.write_text("old")
    with pytest.raises(ConfigError, match="no model was asked"):
        Recorder().save(file)
    assert file.read_text() == "old"


@pytest.mark.usefixtures("provider")
def test_an_empty_or_short_value_in_the_environment_leaves_the_cassette_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMPTY_TOKEN", "")
    monkeypatch.setenv("SHORT_TOKEN", "o")
    recorder, file = Recorder(), tmp_path / "oslo.json"
    with allow_model_requests(), answered_by(recorder):
        agent().run_sync("The capital of Norway?")
    recorder.save(file)
    with answered_by(Cassette.load(file)):
        again = agent().run_sync("The capital of Norway?").output
    assert again == "Oslo, and you are REDACTED."


@pytest.mark.parametrize("levels", [0, 1, 2, 3])
def test_a_secret_within_json_within_json_is_not_written(levels: int, tmp_path: Path) -> None:
    body = f"the key is {KEY}"
    for _ in range(levels):
        body = json.dumps({"arguments": body})
    recorder, file = Recorder(secrets=[KEY]), tmp_path / "nested.json"
    recorder.exchanges.append({"request": {"body": body}})
    recorder.save(file)
    text = file.read_text(encoding="utf-8")
    assert "REDACTED" in text
    assert "secret" not in text


def test_a_further_secret_that_is_too_short_is_refused() -> None:
    with pytest.raises(ConfigError, match="8 characters"):
        Recorder(secrets=["abc"])


TESTS = """
import pytest
from taofold import Agent

@pytest.mark.cassette("oslo.json")
def test_it_passes():
    agent = Agent("openai-chat:m", strategy="direct")
    assert agent.run_sync("The capital?").output.startswith("Oslo")

@pytest.mark.cassette("fails.json")
def test_it_fails():
    agent = Agent("openai-chat:m", strategy="direct")
    assert agent.run_sync("The capital?").output == "Bergen"
"""


@pytest.mark.usefixtures("provider")
def test_the_plugin_records_what_passed_and_plays_it(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")  # the plugin is what is tested
    pytester.makepyfile(TESTS)
    pytester.runpytest_subprocess("--record-cassettes", "-p", "no:xdist").assert_outcomes(
        passed=1, failed=1
    )
    assert [path.name for path in (pytester.path / "cassettes").iterdir()] == ["oslo.json"]
    pytester.runpytest_subprocess("-k", "passes", "-p", "no:xdist").assert_outcomes(passed=1)


def test_an_absent_cassette_names_the_flag_that_records_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--record-cassettes"):
        Cassette.load(tmp_path / "oslo.json")


def test_the_cache_key_of_a_run_is_not_compared() -> None:
    """`openai:` sends a key that is derived from the run's id. Mutant: `_PER_RUN` is empty."""
    answer = {"type": "message", "role": "assistant", "status": "completed", "id": "m"}
    answer["content"] = [{"type": "output_text", "text": "Oslo.", "annotations": []}]  # type: ignore[assignment]
    reply = {"id": "r", "object": "response", "status": "completed", "output": [answer]}
    body = {"model": "gpt-5", "prompt_cache_key": "of another run"}
    request = {"path": "/v1/responses", "body": body}
    cassette = Cassette([{"request": request, "response": {"json": reply}}])
    model = {"model": "openai:gpt-5", "api_key": "k"}
    with answered_by(cassette):
        result = Agent(model, strategy="direct").run_sync("The capital of Norway?")
    assert result.output == "Oslo."
    assert cassette.requests[0]["prompt_cache_key"] != "of another run"
    cassette.assert_complete()

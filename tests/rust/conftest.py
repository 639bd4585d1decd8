"""Fixtures: a project, the programs of both runtimes, and a provider that follows a script."""

import json
import sys
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.prerequisites import taofold_rs
from tests.rust.kit import AGENT, FLOW, Program, Script, program
from tests.terminal import enter


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = enter(tmp_path / "project", monkeypatch)
    (folder / "agent.yaml").write_text(AGENT)
    (folder / "flow.yaml").write_text(FLOW)
    (folder / "a.txt").write_text("one two three\n")
    monkeypatch.setenv("TAOFOLD_MODEL", "openai-compatible:m")
    return folder


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Generator[Script]:
    """Starts a chat completions server that returns one reply of a script for each request."""
    replies: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            message = {"content": replies.pop(0)}
            usage = {"prompt_tokens": 10, "completion_tokens": 5}
            answer = {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        monkeypatch.setenv("OPENAI_COMPATIBLE_BASE_URL", url)
        yield replies.extend
        server.shutdown()
        thread.join()


@pytest.fixture
def python(project: Path) -> Program:
    return program(sys.executable, "-m", "taofold.cli")


@pytest.fixture
def rust(project: Path) -> Program:
    return program(str(taofold_rs()))


@pytest.fixture(params=["python first", "rust first"])
def both(request: pytest.FixtureRequest, python: Program, rust: Program) -> tuple[Program, Program]:
    """Returns the runtime that starts a run and the one that continues it."""
    return (python, rust) if request.param == "python first" else (rust, python)

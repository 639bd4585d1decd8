"""Shared helpers of the trace tests: runs, and a server that receives the spans."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from taofold import Agent, MemoryLog, tool
from tests.runtime.kit import Memo, act, batch, finish

SECRET = "sk-abcdefghijklmnopqrstuvwx"


@tool(effect="read")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="read")
def fail(why: str) -> int:
    """Fail."""
    raise ValueError(why)


@tool
def remove(path: str) -> str:
    """Remove a file."""
    return f"{path} removed"


SCRIPT = (
    act("add", "two and three first", a=2, b=3),
    batch(("add", {"a": 5, "b": 1}), ("fail", {"why": "no such thing"}), ("made_up", {"x": 1})),
    act("remove", path="/old"),
    finish("6"),
)


def calculator(*script: Any, **options: Any) -> Agent[Any, Any]:
    return Agent(
        Memo(script or SCRIPT, name="openai:gpt-test"),
        tools=[add, fail, remove],
        name="calculator",
        instructions="Calculate.",
        **options,
    )


def family(log: Any = None) -> Agent[Any, Any]:
    """An agent that asks another one."""
    child = Agent(
        Memo([act("add", a=1, b=1), finish("2")], name="anthropic:claude-test"),
        tools=[add],
        name="helper",
    )
    script = [act("helper", goal="what is 1 + 1?"), finish("two")]
    return Agent(
        Memo(script, name="openai:gpt-test"),
        tools=[child], name="parent", log=log or MemoryLog(), approve="all",
    )  # fmt: skip


@dataclass
class Received:
    """Requests as they came: method, path, headers, body without its compression."""

    url: str = ""
    requests: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    """Status codes of the next requests; 200 after them."""

    def spans(self) -> list[Any]:
        """Every OTLP span that was received, decoded."""
        return [span for _, _, _, body in self.requests for span in decoded(body)]


def decoded(body: bytes) -> list[Any]:
    """The spans of one OTLP request, read by OpenTelemetry's own protobuf."""
    resources = ExportTraceServiceRequest.FromString(body).resource_spans
    return [span for one in resources for scope in one.scope_spans for span in scope.spans]


@contextmanager
def capturing() -> Iterator[Received]:
    """A server of ours on loopback."""
    received = Received()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            status = received.answers.pop(0) if received.answers else 200
            received.requests.append((self.command, self.path, dict(self.headers), body))
            self.send_response(status)
            if status == 307:
                self.send_header("Location", f"{received.url}/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_PUT = do_POST

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    received.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield received
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def told(span: Any) -> dict[str, Any]:
    """The attributes of a decoded span."""
    return {one.key: plain(one.value) for one in span.attributes}


def plain(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [plain(one) for one in value.array_value.values]
    return getattr(value, kind)

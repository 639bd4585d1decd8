"""Credentials go to the server that they were made for: no client of the house takes them along.

Mutants it catches: `urlopen` in any of them (it repeats every header for a redirect), an MCP
client without its hook.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from taofold import network
from taofold.cli import model_probe
from taofold.core.events import Record, RunStarted
from taofold.telemetry.projection import spans_of
from taofold.telemetry.targets import TraceTarget

SECRET = "sk-0123456789abcdefghijkl"


class Elsewhere:
    """A pair of servers: `url` redirects every request to `thief`, which records it."""

    def __init__(self, status: int) -> None:
        self.heard: list[str] = []
        self.asked = 0
        outer = self

        class Thief(BaseHTTPRequestHandler):
            def _any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                outer.heard.append(f"{self.command} {self.path}\n{self.headers}{body!r}")
                said = json.dumps({"data": [{"index": 0, "embedding": [1.0, 0.0]}]}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            do_GET = do_POST = do_PUT = _any

            def log_message(self, *_: Any) -> None:
                return

        class Front(Thief):
            def _any(self) -> None:
                outer.asked += 1
                self.rfile.read(int(self.headers.get("Content-Length", "0")))
                self.send_response(status)
                self.send_header("Location", f"http://127.0.0.1:{outer.thief}/taken")
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_GET = do_POST = do_PUT = _any

        self._servers = [ThreadingHTTPServer(("127.0.0.1", 0), kind) for kind in (Thief, Front)]
        self.thief = self._servers[0].server_port
        self.url = f"http://127.0.0.1:{self._servers[1].server_port}"

    @contextmanager
    def open(self) -> Iterator["Elsewhere"]:
        threads = [threading.Thread(target=one.serve_forever) for one in self._servers]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            for one, thread in zip(self._servers, threads, strict=True):
                one.shutdown()
                one.server_close()
                thread.join()


def _spans(url: str) -> None:
    otel = pytest.importorskip("taofold.telemetry.otel")
    spans = spans_of([Record("r", 0, 1, RunStarted(goal="x"))])
    with pytest.raises(otel.ExportFailed, match="redirects are not followed"):
        otel.post(spans, otel.OtelTranslation(), endpoint=url, headers={"x-api-key": SECRET})


def _probe(url: str) -> None:
    assert model_probe._json(f"{url}/v1/models", {"name": "m"}, key=SECRET) == {}


def _direct(url: str) -> None:
    with pytest.raises(OSError, match="30"):
        network.send(url, None, {"x-api-key": SECRET}, timeout=5)


CLIENTS: dict[str, Callable[[str], None]] = {
    "spans": _spans, "doctor's probe": _probe, "direct": _direct,
}  # fmt: skip


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("client", CLIENTS)
def test_a_redirect_does_not_take_the_key_along(client: str, status: int) -> None:
    with Elsewhere(status).open() as servers:
        CLIENTS[client](servers.url)
    assert servers.asked >= 1
    assert servers.heard == []


@pytest.mark.parametrize("status", [302, 307])
def test_what_opentelemetrys_exporter_sends_through_follows_no_redirect(status: int) -> None:
    """The current release follows no redirect. The oldest supported one does."""
    otel = pytest.importorskip("taofold.telemetry.otel")
    requests = pytest.importorskip("requests")
    with Elsewhere(status).open() as servers:
        session = otel._session(TraceTarget(servers.url, {}, named=True))
        with pytest.raises(requests.TooManyRedirects, match="redirects are not followed"):
            session.post(servers.url, data=b"x", headers={"x-api-key": SECRET})
    assert servers.asked == 1
    assert servers.heard == []


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["http", "sse"])
@pytest.mark.parametrize("status", [302, 307])
async def test_an_mcp_server_that_redirects_elsewhere_gets_no_key_there(
    kind: str, status: int
) -> None:
    pytest.importorskip("mcp")
    from taofold.bridges.mcp import McpServer
    from taofold.core.errors import ConfigError

    with Elsewhere(status).open() as servers:
        make = McpServer.http if kind == "http" else McpServer.sse
        server = make(f"{servers.url}/mcp", headers={"x-api-key": SECRET}, pins=False)
        with pytest.raises(ConfigError):
            await server.open()
        await server.close()
    assert servers.asked >= 1
    assert servers.heard == []


@pytest.mark.anyio
async def test_an_mcp_client_that_follows_redirects_is_stopped_at_the_border() -> None:
    """Mutant: the clients have no hook on requests."""
    pytest.importorskip("mcp")
    from taofold.bridges.mcp.client.address import ServerAddress
    from taofold.bridges.mcp.client.session import Credentials, client_factory

    with Elsewhere(307).open() as servers:
        place = ServerAddress("http", url=servers.url, headers={"x-api-key": SECRET})
        async with client_factory(place, Credentials(place))() as client:
            client.follow_redirects = True
            with pytest.raises(ConnectionError, match="not followed"):
                await client.post(f"{servers.url}/mcp", json={})
    assert servers.heard == []

"""HTTP statuses of a server during a call: lost sessions, refused tokens, no answer.

Mutants: a lost session is not opened again; an unanswered call is repeated; headers are not read
again after a 401; a refusal counts as "it may have happened".
"""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from taofold import RunContext
from taofold.bridges.mcp import McpServer
from taofold.core.errors import ConfigError
from taofold.tools import Outcome

pytestmark = pytest.mark.anyio
TOOL = {"name": "note", "description": "Write it down.", "inputSchema": {"type": "object"}}


class Peer:
    """A server of the older era with scripted responses."""

    def __init__(self) -> None:
        self.sessions: set[str] = set()
        self.greeted = 0
        self.token = ""
        self.forgetful = False
        self.calls: list[str] = []
        self.unknown = (404, "Session not found")
        self.answer: Callable[[str], int] = lambda _: 200
        """The status of a call with this text. 0 ends the connection."""
        self.reason, self.retry_after = "maintenance until noon", ""
        self.url = ""

    def restart(self) -> None:
        self.sessions.clear()


def _error(message: str, code: int = -32001) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}


class Handler(BaseHTTPRequestHandler):
    peer: Peer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        session = self.headers.get("Mcp-Session-Id")
        if self.peer.token and self.headers.get("Authorization") != f"Bearer {self.peer.token}":
            self._send(401, {"error": "invalid_token"})
        elif body["method"] == "initialize":
            self.peer.greeted += 1
            session = f"session-{self.peer.greeted}"
            if not self.peer.forgetful:
                self.peer.sessions.add(session)
            result = {
                "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "peer", "version": "1"},
            }  # fmt: skip
            self._send(200, self._result(body, result), session)
        elif body["method"] == "server/discover":
            self._send(200, _error("no such method", -32601) | {"id": body["id"]})
        elif session not in self.peer.sessions:
            status, message = self.peer.unknown
            self._send(status, _error(message))
        elif "id" not in body:
            self._send(202, None)
        elif body["method"] == "tools/list":
            self._send(200, self._result(body, {"tools": [TOOL]}))
        else:
            self._call(body)

    def _call(self, body: dict[str, Any]) -> None:
        text = body["params"]["arguments"]["text"]
        self.peer.calls.append(text)
        status = self.peer.answer(text)
        if not status:
            self.close_connection = True
            self.connection.close()
        elif status == 200:
            content = [{"type": "text", "text": f"noted {text}"}]
            self._send(200, self._result(body, {"content": content}))
        else:
            self._send(status, {"detail": self.peer.reason}, after=self.peer.retry_after)

    def _result(self, body: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": body["id"], "result": result}

    def do_GET(self) -> None:
        self._send(405, None)

    def do_DELETE(self) -> None:
        self._send(200, None)

    def _send(self, status: int, body: Any, session: str = "", after: str = "") -> None:
        text = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        if session:
            self.send_header("Mcp-Session-Id", session)
        if after:
            self.send_header("Retry-After", after)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def listening() -> Iterator[Peer]:
    peer = Peer()
    handler = type("PeerHandler", (Handler,), {"peer": peer})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    peer.url = f"http://127.0.0.1:{server.server_address[1]}/mcp"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield peer
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def bridge(peer: Peer, **options: Any) -> McpServer:
    return McpServer.http(peer.url, **{"name": "s", "pins": False, "trust": True} | options)


async def note(server: McpServer, text: str) -> Outcome:
    return await server["s_note"].bind({"text": text}).run(RunContext(None))


@pytest.mark.parametrize(
    "unknown", [(404, "Session not found"), (400, "Bad Request: No valid session ID provided")]
)
async def test_a_server_that_forgot_the_session_is_greeted_anew_and_each_call_is_made_once(
    unknown: tuple[int, str],
) -> None:
    with listening() as peer:
        peer.unknown = unknown
        async with bridge(peer) as server:
            assert (await note(server, "before")).value == "noted before"
            peer.restart()
            texts = [f"after {n}" for n in range(6)]
            again = await asyncio.gather(*[note(server, text) for text in texts])
            assert [one.value for one in again] == [f"noted {text}" for text in texts]
            assert sorted(peer.calls) == sorted(["before", *texts])
            assert peer.greeted == 2, "once for all of them"


async def test_a_server_that_never_knows_its_sessions_is_not_asked_for_ever() -> None:
    with listening() as peer:
        async with bridge(peer) as server:
            await note(server, "before")
            peer.forgetful = True
            peer.restart()
            said = await note(server, "after")
            assert said.status == "failure"
            assert peer.calls == ["before"]


async def test_a_call_that_broke_off_is_in_doubt_and_not_made_again() -> None:
    with listening() as peer:
        async with bridge(peer) as server:
            peer.answer = lambda text: 0 if text == "break" else 200
            said = await asyncio.gather(note(server, "break"), note(server, "beside"))
            assert "it may have happened" in str(said[0].value)
            assert said[1].value == "noted beside"
            assert sorted(peer.calls) == ["beside", "break"]
            assert (await note(server, "later")).value == "noted later"
            assert peer.greeted == 1, "one call's affair, not the session's"


async def test_an_error_of_the_server_is_told_with_its_status() -> None:
    with listening() as peer:
        async with bridge(peer) as server:
            peer.answer = lambda _: 503
            said = await note(server, "x")
            assert said.status == "failure"
            assert "503" in str(said.value)
            assert "maintenance until noon" in str(said.value)


@pytest.mark.parametrize("status", [400, 402, 405, 409, 413, 422, 429])
async def test_a_call_that_the_server_refuses_is_told_with_status_reason_and_time(
    status: int,
) -> None:
    with listening() as peer:
        peer.reason, peer.retry_after = "quota exceeded: 100 calls a day", "120"
        async with bridge(peer) as server:
            peer.answer = lambda text: 200 if text == "y" else status
            said = await note(server, "x")
            assert said.status == "failure"
            for part in (str(status), "quota exceeded: 100 calls a day", "after 120"):
                assert part in str(said.value)
            assert (await note(server, "y")).status == "success", "the session goes on"


async def test_headers_are_read_again_after_a_401_and_only_then() -> None:
    tokens = ["first", "second"]
    asked: list[str] = []

    async def headers() -> dict[str, str]:
        asked.append(tokens[0])
        return {"Authorization": f"Bearer {tokens[0]}"}

    with listening() as peer:
        peer.token = "first"
        async with bridge(peer, headers=headers) as server:
            assert (await note(server, "1")).value == "noted 1"
            assert asked == ["first"]
            peer.token = tokens.pop(0) and tokens[0]
            said = await asyncio.gather(*[note(server, str(n)) for n in (2, 3, 4)])
            assert [one.status for one in said] == ["success"] * 3
            assert asked == ["first", "second"]
            assert sorted(peer.calls) == ["1", "2", "3", "4"]


async def test_a_refused_token_is_named_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEER_TOKEN", "right")
    named = {"Authorization": "Bearer ${PEER_TOKEN}"}
    with listening() as peer:
        peer.token = "right"
        async with bridge(peer, headers=named) as server:
            assert (await note(server, "1")).status == "success"
            peer.token = "other-token"
            refused = await note(server, "2")
            assert "does not accept the credentials (401)" in str(refused.value)
            assert "may have happened" not in str(refused.value)
            monkeypatch.setenv("PEER_TOKEN", "other-token")
            assert (await note(server, "3")).status == "success"
            assert peer.calls == ["1", "3"]
        with pytest.raises(ConfigError, match="does not accept the credentials"):
            await bridge(peer, headers={"Authorization": "Bearer wrong"}).open()


async def test_where_nobody_answers_nothing_happened() -> None:
    with listening() as peer:
        server = await bridge(peer).open()
        await note(server, "before")
    said = await note(server, "after")
    assert "nobody answers there" in str(said.value)
    assert "may have happened" not in str(said.value)
    await server.close()


@pytest.mark.parametrize(
    ("status", "doubt"), [(500, True), (502, True), (504, True), (503, False), (429, False)]
)
async def test_a_call_that_a_gateway_gave_up_is_in_doubt(status: int, doubt: bool) -> None:
    """Mutant: a gateway's timeout counts as a call that was not made."""
    with listening() as peer:
        async with bridge(peer) as server:
            peer.answer = lambda _: status
            said = str((await note(server, "once")).value)
            assert f"answers {status}" in said
            assert ("it may have happened" in said) is doubt
            assert peer.calls == ["once"]

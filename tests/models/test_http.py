"""The HTTP client against a server of our own on this machine."""

import asyncio
import gc
import gzip
import ssl
import subprocess
import sys
import tracemalloc
import warnings
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from taofold.core.errors import ConfigError, ModelError
from taofold.models import transport
from taofold.models.transport import (
    Bounds,
    Http,
    aclose_all,
    allow_model_requests,
    forbid_model_requests,
)
from taofold.network import proxy_for

pytestmark = [pytest.mark.anyio, pytest.mark.allow_model_requests]

Serve = Callable[[Callable[[web.Request], Awaitable[web.StreamResponse]]], Awaitable[str]]


@pytest.fixture
async def serve(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Serve]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    servers: list[TestServer] = []

    async def start(handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> str:
        app = web.Application(client_max_size=1 << 24)
        app.router.add_post("/v1/x", handler)
        server = TestServer(app)
        await server.start_server()
        servers.append(server)
        return str(server.make_url("/v1/x"))

    yield start
    await aclose_all()
    for server in servers:
        await server.close()


async def test_a_body_goes_there_and_an_answer_comes_back(serve: Serve) -> None:
    async def echo(request: web.Request) -> web.Response:
        body = await request.read()
        return web.Response(body=body, status=201, headers={"Retry-After": request.headers["X-A"]})

    url = await serve(echo)
    answer = await Http().post(url, {"X-A": "7"}, b"hello", Bounds())
    assert (answer.status, answer.body, answer.headers["retry-after"]) == (201, b"hello", "7")


async def test_a_body_of_megabytes_is_sent_without_a_warning(serve: Serve) -> None:
    async def count(request: web.Request) -> web.Response:
        return web.Response(text=str(len(await request.read())))

    answer = await Http().post(await serve(count), {}, b"x" * (3 << 20), Bounds())
    assert answer.body == str(3 << 20).encode()


async def test_a_stream_arrives_before_it_ends(serve: Serve) -> None:
    heard = asyncio.Event()

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"data: 1\n\n")
        await heard.wait()
        await response.write(b"data: 2\n\n")
        return response

    pieces: list[bytes] = []

    def listen(piece: bytes) -> None:
        pieces.append(piece)
        heard.set()

    answer = await Http().post(await serve(stream), {}, b"", Bounds(), listen)
    assert answer.body == b""
    assert b"".join(pieces) == b"data: 1\n\ndata: 2\n\n"


async def test_an_error_answer_to_a_stream_is_kept_whole(serve: Serve) -> None:
    async def no(request: web.Request) -> web.Response:
        return web.Response(status=400, text="no", content_type="text/event-stream")

    answer = await Http().post(await serve(no), {}, b"", Bounds(), lambda piece: None)
    assert (answer.status, answer.body) == (400, b"no")


async def test_an_answer_larger_than_allowed_is_refused(serve: Serve) -> None:
    async def huge(request: web.Request) -> web.Response:
        response = web.Response(body=b"0" * 100_000)
        response.enable_compression(web.ContentCoding.gzip)
        return response

    with pytest.raises(ModelError, match="larger than 50000 bytes") as caught:
        await Http().post(await serve(huge), {}, b"", Bounds(size=50_000))
    assert caught.value.kind == "request", "the next answer would be as large"


@pytest.mark.parametrize("coding", ["gzip", "deflate", "two members"])
async def test_an_answer_is_unpacked_whatever_was_asked_for(serve: Serve, coding: str) -> None:
    async def packed(request: web.Request) -> web.Response:
        assert request.headers["Accept-Encoding"] == "identity"
        parts = [gzip.compress(b"hello "), gzip.compress(b"you")]
        data = {"gzip": gzip.compress(b"hello you"), "deflate": zlib.compress(b"hello you")}
        name = "deflate" if coding == "deflate" else "gzip"
        body = data.get(coding, b"".join(parts))
        return web.Response(body=body, headers={"Content-Encoding": name})

    assert (await Http().post(await serve(packed), {}, b"", Bounds())).body == b"hello you"


async def test_an_answer_in_an_unknown_coding_is_refused_once(serve: Serve) -> None:
    async def packed(request: web.Request) -> web.Response:
        return web.Response(body=b"x", headers={"Content-Encoding": "br"})

    with pytest.raises(ModelError, match="encoded as 'br', which was not asked for") as caught:
        await Http().post(await serve(packed), {}, b"", Bounds())
    assert caught.value.kind == "request"


async def test_a_bomb_is_never_unpacked_beyond_the_bound(serve: Serve) -> None:
    bomb = gzip.compress(bytes(1 << 28), 9)

    async def packed(request: web.Request) -> web.Response:
        return web.Response(body=bomb, headers={"Content-Encoding": "gzip"})

    url = await serve(packed)
    tracemalloc.start()
    try:
        with pytest.raises(ModelError, match="larger than 1048576 bytes"):
            await Http().post(url, {}, b"", Bounds(size=1 << 20))
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


async def test_a_redirect_is_never_followed(serve: Serve) -> None:
    async def away(request: web.Request) -> web.Response:
        raise web.HTTPTemporaryRedirect("http://127.0.0.1:1/steal")

    answer = await Http().post(await serve(away), {"Authorization": "k"}, b"", Bounds())
    assert answer.status == 307


async def test_silence_ends_in_a_timeout_that_says_what_to_raise(serve: Serve) -> None:
    async def mute(request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    with pytest.raises(ModelError, match=r"within 0\.05 s: raise `timeout`") as caught:
        await Http().post(await serve(mute), {}, b"", Bounds(total=0.05))
    assert caught.value.kind == "timeout"


async def test_nobody_listening_is_a_network_error_without_the_secret() -> None:
    url = "http://user:hunter2@127.0.0.1:1/v1?key=hunter2"
    with pytest.raises(ModelError) as caught:
        await Http().post(url, {}, b"", Bounds())
    assert caught.value.kind == "network"
    assert "hunter2" not in str(caught.value)
    assert "http://127.0.0.1:1/v1" in str(caught.value)


async def test_a_connection_that_breaks_is_a_network_error(serve: Serve) -> None:
    async def slam(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    with pytest.raises(ModelError) as caught:
        await Http().post(await serve(slam), {}, b"", Bounds())
    assert caught.value.kind == "network"


async def raw(answers: list[bytes]) -> tuple[asyncio.Server, list[int]]:
    """A server that gives each connection one of `answers` and closes at the next request."""
    connections: list[int] = []

    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(1)
        answer = answers.pop(0) if answers else b""
        await reader.readuntil(b"\r\n\r\n")
        if answer:
            writer.write(answer)
            await reader.read(10)
        writer.close()
        await writer.wait_closed()

    return await asyncio.start_server(serve_one, "127.0.0.1", 0), connections


async def test_a_kept_connection_that_the_server_dropped_is_replaced_at_once() -> None:
    ok = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    server, connections = await raw([ok, ok])
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    for _ in range(2):
        assert (await Http().post(url, {}, b"", Bounds())).body == b"ok"
    assert len(connections) == 2
    with pytest.raises(ModelError, match="cannot talk to"):
        await Http().post(url, {}, b"", Bounds())
    assert len(connections) == 3, "once, not for ever"
    await aclose_all()
    server.close()
    await server.wait_closed()


async def test_a_certificate_nobody_vouches_for_is_refused() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(ModelError) as caught:
        await Http().post(f"https://127.0.0.1:{port}/v1", {}, b"", Bounds())
    assert caught.value.kind == "network"
    server.close()
    await server.wait_closed()
    await aclose_all()


async def test_what_a_listener_raises_is_its_own_and_not_the_networks(serve: Serve) -> None:
    async def stream(request: web.Request) -> web.Response:
        return web.Response(body=b"x", content_type="text/event-stream")

    def broken(piece: bytes) -> None:
        raise BrokenPipeError("terminal gone")

    with pytest.raises(BrokenPipeError, match="terminal gone"):
        await Http().post(await serve(stream), {}, b"", Bounds(), broken)


async def test_all_adapters_share_one_session_of_their_loop(serve: Serve) -> None:
    async def ok(request: web.Request) -> web.Response:
        return web.Response(text="ok")

    url = await serve(ok)
    await asyncio.gather(*(Http().post(url, {}, b"", Bounds()) for _ in range(20)))
    loop = asyncio.get_running_loop()
    session = transport._sessions[loop].client
    await Http().post(url, {}, b"", Bounds())
    assert transport._sessions[loop].client is session
    await aclose_all()
    assert session.closed
    assert (await Http().post(url, {}, b"", Bounds())).status == 200, "and a new one opens"


def test_a_loop_that_ends_closes_its_session_by_itself() -> None:
    """No "Unclosed client session", no warning, nothing for the caller to remember."""
    sessions: list[object] = []

    async def main() -> None:
        async def ok(request: web.Request) -> web.Response:
            return web.Response(text="ok")

        app = web.Application()
        app.router.add_post("/", ok)
        server = TestServer(app)
        await server.start_server()
        await Http().post(str(server.make_url("/")), {}, b"", Bounds())
        sessions.append(transport._sessions[asyncio.get_running_loop()].client)
        await server.close()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(main())
        gc.collect()
    assert sessions[0].closed  # type: ignore[attr-defined]


async def test_the_guard_forbids_requests_and_names_the_way_out(serve: Serve) -> None:
    async def ok(request: web.Request) -> web.Response:
        return web.Response(text="ok")

    url = await serve(ok)
    with forbid_model_requests():
        with pytest.raises(ConfigError, match="ScriptedModel"):
            await Http().post(url, {}, b"", Bounds())
        with allow_model_requests():
            assert (await Http().post(url, {}, b"", Bounds())).status == 200
        with pytest.raises(ConfigError):
            await Http().post(url, {}, b"", Bounds())
    with forbid_model_requests(url.removesuffix("/v1/x")):
        assert (await Http().post(url, {}, b"", Bounds())).status == 200


def test_proxies_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "NO_PROXY", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    assert proxy_for("https://api.example.com/v1") == "http://proxy:3128"
    assert proxy_for("http://api.example.com/v1") is None
    monkeypatch.setenv("NO_PROXY", "example.com")
    assert proxy_for("https://api.example.com/v1") is None
    monkeypatch.setenv("HTTPS_PROXY", "socks5://u:p@proxy:1080")
    with pytest.raises(ConfigError, match="not an HTTP proxy") as caught:
        proxy_for("https://other.org")
    assert "u:p" not in str(caught.value)


async def test_a_request_goes_through_the_proxy(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    async def proxy(request: web.Request) -> web.Response:
        seen.append(request.raw_path)
        return web.Response(text="proxied")

    monkeypatch.setenv("HTTP_PROXY", (await serve(proxy)).removesuffix("/v1/x"))
    answer = await Http().post("http://models.invalid/v1/x", {}, b"", Bounds())
    assert answer.body == b"proxied"
    assert seen == ["http://models.invalid/v1/x"]


def test_resolving_a_model_does_not_load_the_client() -> None:
    code = (
        "import sys; from taofold.runtime.providers import resolve; "
        "resolve('ollama:x'); print('aiohttp' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"

"""The network under all providers: POST a body, get an answer or a stream of bytes, through the
proxy that the environment asks for.

`Transport` is the interface, `Http` the one over real HTTP. Tests switch it off
(`forbid_model_requests`) or have another answer in its place (`answered_by`). One `aiohttp` session
per event loop is shared by all adapters (docs/adr/0006: a third of the CPU of the alternative). It
is loaded at the first request, closed when the loop shuts down, never follows a redirect (that
would hand the key to another host) and never reads more than it was told to. Knows nothing about
JSON, providers or retries.
"""

from __future__ import annotations

import asyncio
import io
import os
import zlib
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass
from weakref import WeakKeyDictionary

from taofold.core.errors import ConfigError, ModelError
from taofold.network import bare_url, unpacking

if TYPE_CHECKING:
    import aiohttp

OnBytes: TypeAlias = Callable[[bytes], bool | None]
"""Hears bytes of a stream. True: the reply has ended, whatever may still come."""
Body: TypeAlias = bytes | tuple[bytes, ...]
"""What is sent; in pieces if it is so large that joining them would cost more than sending them."""
LARGE: Final = 1 << 20
"""Bytes from which a body stays in pieces."""


def same_server(url: str, other: str) -> bool:
    """Do both lead to one server, by one protocol? Over http a key would be sent in clear."""
    first, second = urlsplit(url), urlsplit(other)
    return (first.scheme, first.netloc) == (second.scheme, second.netloc)


def joined(pieces: Sequence[bytes]) -> Body:
    """The pieces of a body, joined if that is cheap."""
    large = max(map(len, pieces), default=0) >= LARGE
    return tuple(pieces) if large else b"".join(pieces)


def whole(body: Body) -> bytes:
    """The body as one string of bytes."""
    return body if isinstance(body, bytes) else b"".join(body)


class HttpResponse(NamedTuple):
    """An HTTP answer. `body` is empty if it went to the listener; header names have any case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Bounds(NamedTuple):
    """How long and how much. Seconds and bytes."""

    connect: float = 10.0
    total: float = 120.0
    size: int = 16 << 20


class Transport(Protocol):
    """Carries one request. Raises `ModelError` of kind network or timeout; never retries."""

    async def post(
        self,
        url: str,
        headers: Mapping[str, str],
        body: Body,
        bounds: Bounds,
        on_bytes: OnBytes | None = None,
    ) -> HttpResponse:
        """POST `body`. A streamed answer with status 200 goes to `on_bytes` as it arrives."""
        ...


def proxy_for(url: str) -> str | None:
    """The proxy that the environment (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY) asks for.

    Raises `ConfigError` for a SOCKS proxy, which the client cannot use.
    """
    parts = urlsplit(url)
    # Without user and password, which NO_PROXY does not name.
    if proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if proxy and not proxy.startswith(("http://", "https://")):
        if "://" in proxy:
            raise ConfigError(
                f"the proxy {bare_url(proxy)} is not an HTTP proxy: set HTTPS_PROXY to one, or add "
                f"{parts.hostname!r} to NO_PROXY"
            )
        proxy = f"http://{proxy}"
    return proxy or None


@dataclass(slots=True)
class Guard:
    """May real requests leave this process? Tests switch them off."""

    closed: bool = False
    allowed: tuple[str, ...] = ()
    stand_in: Transport | None = None
    """What answers instead of the network, e.g. a cassette."""

    def check(self, url: str) -> None:
        """Raise `ConfigError` if `url` must not be called."""
        # Nothing is allowed: no URL begins with NUL.
        if self.closed and not url.startswith(self.allowed or ("\0",)):
            raise ConfigError(
                f"a model request to {bare_url(url)} was forbidden by forbid_model_requests(): use "
                "a ScriptedModel or a cassette, or mark the test allow_model_requests"
            )


guard: Final = Guard()


@contextmanager
def forbid_model_requests(*allow: str) -> Generator[None, None, None]:
    """Within this block the HTTP client refuses every URL that starts with none of `allow`."""
    before = guard.closed, guard.allowed
    guard.closed, guard.allowed = True, allow
    try:
        yield
    finally:
        guard.closed, guard.allowed = before


@contextmanager
def allow_model_requests() -> Generator[None, None, None]:
    """Undo `forbid_model_requests` within this block."""
    before = guard.closed
    # `allowed` stays: it has a meaning only while the guard is closed.
    guard.closed = False
    try:
        yield
    finally:
        guard.closed = before


@contextmanager
def answered_by(transport: Transport) -> Generator[None, None, None]:
    """Within this block `transport` answers the requests of all adapters that have none of
    their own.
    """
    before = guard.stand_in
    guard.stand_in = transport
    try:
        yield
    finally:
        guard.stand_in = before


@dataclass(slots=True)
class _Lane:
    """What is worked out once for a URL."""

    url: Any
    proxy: str | None
    was_kept: bool = False
    """A connection may have been kept open from an earlier request."""


@dataclass(slots=True)
class _Session:
    """The session of one loop, and the generator that closes it when the loop shuts down."""

    client: aiohttp.ClientSession
    lanes: dict[str, _Lane] = field(default_factory=dict[str, _Lane])
    timeouts: dict[tuple[Bounds, bool], aiohttp.ClientTimeout] = field(
        default_factory=dict[Any, Any]
    )
    lifetime: AsyncGenerator[None, None] | None = None


_DOCUMENTS: Final = ("application/json", "text/html")
_LINGER: Final = 1.0
"""Seconds in which a server should end a stream after the reply has."""

_sessions: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Session]] = WeakKeyDictionary()


async def _live(client: aiohttp.ClientSession) -> AsyncGenerator[None, None]:
    # asyncio closes the generators that are open when a loop shuts down: no atexit,
    # no "Unclosed client session", and nobody has to remember anything.
    try:
        yield
    finally:
        await client.close()


async def _open(loop: asyncio.AbstractEventLoop) -> _Session:
    import aiohttp  # noqa: PLC0415  (an import of 0.2 s, paid by the first request)

    # Loops that ended without `shutdown_asyncgens`; their sockets go with them.
    for dead in [other for other in _sessions if other.is_closed()]:
        _sessions.pop(dead, None)
    client = aiohttp.ClientSession(
        # No limit of its own: how many calls go on at
        # once is the limiter's and the runs' to say.
        connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=60, keepalive_timeout=30),
        # A provider's cookies would tie one account's calls to another's.
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=("User-Agent",),
        # Unpacked here, within the bound: the client would unpack what it has received at once.
        headers={"Accept-Encoding": "identity"},
        auto_decompress=False,
    )
    session = _sessions[loop] = _Session(client)
    session.lifetime = _live(client)
    # Only a generator that was begun is closed by the loop.
    await anext(session.lifetime)
    return session


async def aclose_all() -> None:
    """Close the session of the running loop. The next request opens a new one."""
    session = _sessions.pop(asyncio.get_running_loop(), None)
    if session is not None and session.lifetime is not None:
        await session.lifetime.aclose()


class Http:
    """The `Transport` over the network."""

    async def post(
        self,
        url: str,
        headers: Mapping[str, str],
        body: Body,
        bounds: Bounds,
        on_bytes: OnBytes | None = None,
    ) -> HttpResponse:
        """POST `body`; see `Transport`."""
        guard.check(url)
        loop = asyncio.get_running_loop()
        session = _sessions.get(loop)
        if session is None or session.client.closed:
            session = await _open(loop)
        lane = session.lanes.get(url) or _lane(session, url)
        try:
            return await _exchange(session, lane, headers, body, bounds, on_bytes)
        except _ListenerFailed as failed:
            # The listener's own error, as it was raised.
            raise failed.__cause__ or failed from None
        except _failures() as error:
            raise _broken(error, url, bounds) from error


def _failures() -> tuple[type[Exception], ...]:
    import aiohttp  # noqa: PLC0415

    return OSError, aiohttp.ClientError, zlib.error


def _lane(session: _Session, url: str) -> _Lane:
    import yarl  # noqa: PLC0415

    return session.lanes.setdefault(url, _Lane(yarl.URL(url), proxy_for(url)))


def _timeout(session: _Session, bounds: Bounds, streamed: bool) -> aiohttp.ClientTimeout:
    # A stream may take long as long as it moves: `total` bounds its silence there.
    key = bounds, streamed
    if (timeout := session.timeouts.get(key)) is None:
        import aiohttp  # noqa: PLC0415

        timeout = session.timeouts[key] = aiohttp.ClientTimeout(
            total=bounds.total * (10 if streamed else 1),
            connect=bounds.connect,
            sock_connect=bounds.connect,
            sock_read=bounds.total if streamed else None,
        )
    return timeout


async def _exchange(
    session: _Session,
    lane: _Lane,
    headers: Mapping[str, str],
    body: Body,
    bounds: Bounds,
    on_bytes: OnBytes | None,
) -> HttpResponse:
    timeout = _timeout(session, bounds, on_bytes is not None)
    async with await _start(session, lane, headers, body, timeout) as response:
        if on_bytes is not None and not _streams(response):
            # An error, or a server that does not stream: it is
            # read whole, and the reader gets the document.
            on_bytes = None
        got: list[bytes] = []
        size = 0
        unpacked = _unpacking(response, bounds.size)
        while received := await response.content.readany():
            chunk = unpacked(received) if unpacked else received
            size += len(chunk)
            if size > bounds.size:
                # Of no kind that is tried again: the next answer would be as large.
                raise ModelError(
                    f"the answer of {bare_url(str(lane.url))} is larger than {bounds.size} bytes",
                    kind="request",
                )
            if not chunk:
                continue
            if on_bytes is None:
                got.append(chunk)
            elif _tell(on_bytes, chunk):
                if not response.content.at_eof():
                    await _finish(response, bounds.size - size)
                break
        return HttpResponse(response.status, response.headers, b"".join(got))


def _unpacking(response: aiohttp.ClientResponse, most: int) -> Callable[[bytes], bytes] | None:
    """Returns what unpacks the pieces of an answer; None if they are sent as they are.

    Raises:
        ModelError: the answer has a coding that was not asked for and is not known.
    """
    try:
        return unpacking(response.headers.get("Content-Encoding", ""), most)
    except ValueError as error:
        where = bare_url(str(response.url))
        raise ModelError(f"the answer of {where} {error}", kind="request") from None


async def _start(
    session: _Session,
    lane: _Lane,
    headers: Mapping[str, str],
    body: Body,
    timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109  (the client's own kind)
) -> aiohttp.ClientResponse:
    while True:
        try:
            response = await session.client.post(
                lane.url,
                data=_payload(body),
                headers=headers,
                proxy=lane.proxy,
                allow_redirects=False,
                timeout=timeout,
            )
        except _disconnected() as error:
            # A connection that was kept open may have been closed by the server meanwhile
            # (llama.cpp does so after a stream): that is no failure yet.
            # Tried again once, and only on a connection that was kept. The server may
            # have read the request before it closed: a model call is made at least once.
            if not lane.was_kept or isinstance(error, _refused()):
                raise
            lane.was_kept = False
        else:
            lane.was_kept = True
            return response


def _payload(body: Body) -> Any:
    """What the client sends: large bodies piece by piece, never as one more copy."""
    if isinstance(body, bytes):
        return body if len(body) < LARGE else io.BytesIO(body)
    import aiohttp  # noqa: PLC0415

    class Pieces(aiohttp.payload.Payload):
        _autoclose = True

        def __init__(self, value: tuple[bytes, ...]) -> None:
            super().__init__(value, content_type="application/json")
            self._size = sum([len(piece) for piece in value])

        def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
            return b"".join(self._value).decode(encoding, errors)

        async def write(self, writer: Any) -> None:
            for piece in self._value:
                await writer.write(piece)

        async def write_with_length(self, writer: Any, content_length: int | None) -> None:
            await self.write(writer)

    return Pieces(body)


def _disconnected() -> tuple[type[Exception], ...]:
    import aiohttp  # noqa: PLC0415

    return aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, ConnectionResetError


def _refused() -> type[Exception]:
    import aiohttp  # noqa: PLC0415

    return aiohttp.ClientConnectorError


def _streams(response: aiohttp.ClientResponse) -> bool:
    return response.status == 200 and response.content_type not in _DOCUMENTS


class _ListenerFailed(Exception):
    """Keeps a listener's OSError (a closed pipe, say) from being taken for the network's."""


def _tell(on_bytes: OnBytes, chunk: bytes) -> bool:
    try:
        return on_bytes(chunk) is True
    except OSError as error:
        raise _ListenerFailed from error


async def _finish(response: aiohttp.ClientResponse, size: int) -> None:
    """Read to the end of a stream whose reply is complete, so that its connection can be kept.

    A server that does not close it, breaks off, or goes on talking loses the connection instead.
    """
    body = response.content
    with suppress(TimeoutError, *_failures()):
        async with asyncio.timeout(_LINGER):
            while size > 0 and (chunk := await body.readany()):
                size -= len(chunk)


def _broken(error: Exception, url: str, bounds: Bounds) -> ModelError:
    import aiohttp  # noqa: PLC0415

    where = bare_url(url)
    kind = type(error).__name__
    # Before TimeoutError, of which it is a subclass:
    # no connection may pass, a slow answer does not.
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return ModelError(f"no connection to {where} within {bounds.connect:g} s", kind="network")
    if isinstance(error, TimeoutError):
        return ModelError(
            f"{where} did not answer within {bounds.total:g} s: raise `timeout`", kind="timeout"
        )
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
        reason = f"its TLS certificate was not accepted ({kind})"
    elif isinstance(error, aiohttp.InvalidURL):
        return ModelError(f"{where!r} is not a URL that can be called", kind="request")
    elif isinstance(error, aiohttp.ClientConnectorDNSError):
        reason = "its name cannot be resolved"
    elif isinstance(error, aiohttp.ClientPayloadError | zlib.error):
        reason = "its answer broke off, or is not encoded as it says"
    elif isinstance(error, aiohttp.ClientResponseError):
        reason = f"its answer is not HTTP that can be read ({error.message.splitlines()[0][:80]})"
    elif isinstance(error, OSError):
        reason = os.strerror(error.errno) if error.errno else kind
    else:
        reason = kind
    return ModelError(f"cannot talk to {where}: {reason}", kind="network")

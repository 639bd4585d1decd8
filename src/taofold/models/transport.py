"""HTTP for all providers: posts a body, returns an answer or a stream of bytes.

`Transport` is the interface, `Http` the implementation, which uses the environment's proxy. Tests
disable it (`forbid_model_requests`) or replace it (`answered_by`). All adapters share one `aiohttp`
session per event loop (docs/adr/0006: a third of the CPU of the alternative). The session is loaded
at the first request and closed with the loop. It never follows a redirect, which could send the key
to another host, and never reads more than its bound. This module does not depend on JSON, providers
or retries.
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
from weakref import WeakKeyDictionary

from taofold.core.errors import ConfigError, ModelError
from taofold.core.values import Usage
from taofold.network import bare_url, proxy_for, unpacking

if TYPE_CHECKING:
    import aiohttp

OnBytes: TypeAlias = Callable[[bytes], bool | None]
"""Takes bytes of a stream. Returns True if the reply has ended."""
Body: TypeAlias = bytes | tuple[bytes, ...]
"""The body of a request, in pieces if joining them would cost more than sending them."""
LARGE: Final = 1 << 20
"""Number of bytes from which a body stays in pieces."""


def same_server(url: str, other: str) -> bool:
    """Returns True if both URLs lead to one server by one protocol. HTTP would expose a key."""
    first, second = urlsplit(url), urlsplit(other)
    return (first.scheme, first.netloc) == (second.scheme, second.netloc)


def joined(pieces: Sequence[bytes]) -> Body:
    """Returns the pieces of a body, joined if that is cheap."""
    large = max(map(len, pieces), default=0) >= LARGE
    return tuple(pieces) if large else b"".join(pieces)


def whole(body: Body) -> bytes:
    """Returns the body as one bytes object."""
    return body if isinstance(body, bytes) else b"".join(body)


class HttpResponse(NamedTuple):
    """An HTTP answer. `body` is empty if it went to the listener. Header names have any case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Bounds(NamedTuple):
    """Bounds of time and size, in seconds and bytes."""

    connect: float = 10.0
    total: float = 120.0
    size: int = 16 << 20


class Transport(Protocol):
    """Carries one request. Raises `ModelError` of kind network or timeout. Never retries."""

    async def post(
        self,
        url: str,
        headers: Mapping[str, str],
        body: Body,
        bounds: Bounds,
        on_bytes: OnBytes | None = None,
    ) -> HttpResponse:
        """Posts `body`. A streamed answer with status 200 goes to `on_bytes` as it arrives."""
        ...


@dataclass(slots=True)
class Guard:
    """Permission for real requests of this process. Tests withdraw it."""

    closed: bool = False
    allowed: tuple[str, ...] = ()
    stand_in: Transport | None = None
    """A replacement for the network, such as a cassette."""

    def check(self, url: str) -> None:
        """Raises `ConfigError` if `url` must not be called."""
        # NUL matches no URL, so nothing is allowed.
        if self.closed and not url.startswith(self.allowed or ("\0",)):
            raise ConfigError(
                f"a model request to {bare_url(url)} was forbidden by forbid_model_requests(): use "
                "a ScriptedModel or a cassette, or mark the test allow_model_requests"
            )


guard: Final = Guard()


@contextmanager
def forbid_model_requests(*allow: str) -> Generator[None, None, None]:
    """Refuses all HTTP requests to models in this block, for tests.

    Example:
        ```python
        from taofold.testing import forbid_model_requests

        with forbid_model_requests("http://127.0.0.1"):
            ...  # only a local server can be called
        ```

    Args:
        allow: URL prefixes that stay allowed.

    Raises:
        ConfigError: At a request to another URL.
    """
    before = guard.closed, guard.allowed
    guard.closed, guard.allowed = True, allow
    try:
        yield
    finally:
        guard.closed, guard.allowed = before


@contextmanager
def allow_model_requests() -> Generator[None, None, None]:
    """Allows HTTP requests to models in this block, inside of `forbid_model_requests`.

    Example:
        ```python
        from taofold.testing import allow_model_requests, forbid_model_requests

        with forbid_model_requests(), allow_model_requests():
            ...  # requests are allowed again
        ```
    """
    before = guard.closed
    # `allowed` stays, because it matters only while the guard is closed.
    guard.closed = False
    try:
        yield
    finally:
        guard.closed = before


@contextmanager
def answered_by(transport: Transport) -> Generator[None, None, None]:
    """Answers the requests of all adapters in this block with `transport`.

    Adapters with their own transport keep it.

    Example:
        ```python
        from taofold.testing import Cassette, answered_by

        exchange = {"request": {"path": "/v1/responses"}, "response": {"status": 500, "json": {}}}
        with answered_by(Cassette([exchange])):
            ...  # models get this answer
        ```

    Args:
        transport: The replacement for the network.
    """
    before = guard.stand_in
    guard.stand_in = transport
    try:
        yield
    finally:
        guard.stand_in = before


@dataclass(slots=True)
class _Lane:
    """Values computed once for a URL."""

    url: Any
    proxy: str | None
    was_kept: bool = False
    """A connection may be open from an earlier request."""


@dataclass(slots=True)
class _Session:
    """The session of one loop, and the generator that closes it with the loop."""

    client: aiohttp.ClientSession
    lanes: dict[str, _Lane] = field(default_factory=dict[str, _Lane])
    timeouts: dict[tuple[Bounds, bool], aiohttp.ClientTimeout] = field(
        default_factory=dict[Any, Any]
    )
    lifetime: AsyncGenerator[None, None] | None = None


_DOCUMENTS: Final = ("application/json", "text/html")
_LINGER: Final = 1.0
"""Seconds in which a server should end a stream after the reply."""

_sessions: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Session]] = WeakKeyDictionary()


async def _live(client: aiohttp.ClientSession) -> AsyncGenerator[None, None]:
    # asyncio closes open generators when a loop shuts down, so sessions need no explicit close.
    try:
        yield
    finally:
        await client.close()


async def _open(loop: asyncio.AbstractEventLoop) -> _Session:
    import aiohttp  # noqa: PLC0415  (an import of 0.2 s, paid by the first request)

    # Loops that ended without `shutdown_asyncgens`. Their sockets are closed with them.
    for dead in [other for other in _sessions if other.is_closed()]:
        _sessions.pop(dead, None)
    client = aiohttp.ClientSession(
        # No limit here: the limiter and the runs bound concurrent calls.
        connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=60, keepalive_timeout=30),
        # A provider's cookies would link the calls of different accounts.
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=("User-Agent",),
        # Unpacked here, within the bound. The client would unpack everything at once.
        headers={"Accept-Encoding": "identity"},
        auto_decompress=False,
    )
    session = _sessions[loop] = _Session(client)
    session.lifetime = _live(client)
    # A loop closes only generators that have started.
    await anext(session.lifetime)
    return session


async def aclose_all() -> None:
    """Closes the session of the running loop. The next request opens a new one."""
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
        """Posts `body`. See `Transport`."""
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
    # A stream may take any time while data arrive: `total` bounds its silence.
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
            # An error, or a server that does not stream. Read as a whole, and the reader gets the
            # document.
            on_bytes = None
        got: list[bytes] = []
        size = 0
        unpacked = _unpacking(response, bounds.size)
        while received := await response.content.readany():
            chunk = unpacked(received) if unpacked else received
            size += len(chunk)
            if size > bounds.size:
                # Not retried, because the next answer would be as large.
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
    """Returns a function that unpacks pieces of an answer, or None for plain ones.

    Raises:
        ModelError: The answer has an unknown encoding that was not requested.
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
            # The server may have closed an open connection (llama.cpp does so after a stream),
            # which is not a failure. Retried once, and only on a reused connection. The server may
            # have read the request before: a model call is made at least once.
            if not lane.was_kept or isinstance(error, _refused()):
                raise
            lane.was_kept = False
        else:
            lane.was_kept = True
            return response


def _payload(body: Body) -> Any:
    """Returns the payload for the client: large bodies piece by piece, without another copy."""
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
    """Separates a listener's OSError (such as a closed pipe) from the network's."""


def _tell(on_bytes: OnBytes, chunk: bytes) -> bool:
    try:
        return on_bytes(chunk) is True
    except OSError as error:
        raise _ListenerFailed from error


async def _finish(response: aiohttp.ClientResponse, size: int) -> None:
    """Reads a stream to its end after the reply, so that the connection can be reused.

    If the server does not end it in time, the connection is dropped.
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
    # Before its base class TimeoutError: a missing connection is retried, a slow answer is not.
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return _unsent(f"no connection to {where} within {bounds.connect:g} s")
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
    if isinstance(error, aiohttp.ClientConnectorError):
        return _unsent(f"cannot talk to {where}: {reason}")
    return ModelError(f"cannot talk to {where}: {reason}", kind="network")


def _unsent(message: str) -> ModelError:
    """Returns the error of a request that did not reach the provider, which bills nothing."""
    return ModelError(message, kind="network", usage=Usage())

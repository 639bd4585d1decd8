"""The seam to the network, and the switch that keeps tests off it.

What carries requests is a `Transport`; the one over real HTTP is in `http.py`. It knows
nothing about JSON or providers.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeAlias
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from taofold.core.errors import ConfigError

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


def place(url: str) -> str:
    """Scheme, host, port and path of `url`: what may be shown. User, password, query may not."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}{parts.path}"


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
                f"the proxy {place(proxy)} is not an HTTP proxy: set HTTPS_PROXY to one, or add "
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
                f"a model request to {place(url)} was forbidden by forbid_model_requests(): use a "
                "ScriptedModel or a cassette, or mark the test allow_model_requests"
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

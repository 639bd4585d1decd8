"""HTTP connections that are safe with URLs and keys: public addresses only, or no redirects.

`connector` and `is_public` are for URLs from a model or a server. For any spelling, name resolution
or redirect, the decision is made where the socket for one address is created, and the connection
goes to that address. There is no second URL parser and no lookup that could differ a moment later.

`send` is for requests with credentials: one blocking request that returns a redirect like any other
response. Following it would send the headers, and with them the key, to any host that the server
names.

`http_parts` and `bare_url` parse a configured URL and return the part that may be shown.
`unpacking` decodes a compressed body within a bound. `proxy_for` reads the environment's proxy, and
`retry_after` the time that an answer asks to wait. Knows nothing about tools, models or providers.
"""

import errno
import importlib
import ipaddress
import socket
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from unicodedata import normalize
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

from taofold.core.errors import ConfigError

if TYPE_CHECKING:
    import aiohttp


Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_NEAR_4: Final = tuple(
    ipaddress.IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # this host
        "10.0.0.0/8",
        "100.64.0.0/10",  # shared by a provider's customers; 100.100.100.200 of Alibaba
        "127.0.0.0/8",
        "169.254.0.0/16",  # link-local: metadata of most clouds
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocol assignments; 192.0.0.192 of Oracle
        "192.0.2.0/24",
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "168.63.129.16/32",  # Azure's wire server
        "161.26.0.0/16",  # IBM's services, reachable from its machines only
        "166.8.0.0/14",
    )
)
_GLOBAL_6: Final = ipaddress.IPv6Network("2000::/3")
_NEAR_6: Final = tuple(
    ipaddress.IPv6Network(text)
    for text in (
        "2001::/23",  # protocol assignments: Teredo, benchmarks, ORCHID
        "2001:db8::/32",
        "2002::/16",  # 6to4: leads to any IPv4 address, and is retired
        "3fff::/20",
    )
)
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_ISATAP: Final = 0x5EFE
"""Marker in the middle of an interface id: the last 32 bits are an IPv4 address (RFC 5214)."""


def parse_address(text: str) -> Address | None:
    """Returns the address in `text`, without a zone; None if it is not an address."""
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


def is_public(text: str) -> bool:
    """Returns whether `text` is an address of the public internet. An invalid address is not."""
    address = parse_address(text)
    if isinstance(address, ipaddress.IPv6Address):
        # `::ffff:127.0.0.1` and NAT64's prefix lead to an IPv4 address, which then decides.
        inner = address.ipv4_mapped
        if address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
        if inner is None:
            return _is_public_6(address)
        address = inner
    return address is not None and not any(address in network for network in _NEAR_4)


def _is_public_6(address: ipaddress.IPv6Address) -> bool:
    if address not in _GLOBAL_6 or any(address in network for network in _NEAR_6):
        return False
    # The bits "universal" and "group" of an ISATAP interface id may be set.
    isatap = (int(address) >> 32) & 0xFCFF_FFFF == _ISATAP
    return not isatap or is_public(str(ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)))


def is_loopback(host: str) -> bool:
    """Returns whether `host` is `localhost` or a loopback address. Resolves no name."""
    address = parse_address(host)
    if address is None:
        return host == "localhost"
    # ::ffff:127.0.0.1 is how a dual-stack socket shows an IPv4 client.
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def is_own(text: str) -> bool:
    """Returns whether `text` is an address of this machine, by its routing table. Sends nothing.

    A machine may have public addresses of its own. Services on them behind a firewall are reachable
    from inside without passing it.
    """
    address = parse_address(text)
    if address is None:
        return False
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(address), 9))  # a datagram socket only looks up a route
            source = parse_address(probe.getsockname()[0])
    except OSError:
        return False
    return source == address


Resolve: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
"""`(name, port) -> addresses`."""
Allowed: TypeAlias = Callable[[str], bool]
"""Returns whether an address may be reached."""
_SOCKETS: Final = (socket.AF_INET, socket.AF_INET6)


class NotPublic(OSError):
    """The address is not of the public internet."""


def reachable(address: str) -> bool:
    """Returns whether `address` is public and not one of this machine's own."""
    return is_public(address) and not is_own(address)


def connector(
    resolve: Resolve | None = None, allowed: Allowed = reachable
) -> "aiohttp.TCPConnector":
    """Returns a connector for one `aiohttp` session that connects only to `allowed` addresses.

    The first of several addresses that is allowed and responds is used. If none is allowed, aiohttp
    raises `ClientConnectorError` with the reason.
    """
    client = importlib.import_module("aiohttp")  # 0.2 s, paid by the first request

    def checked(candidate: Any) -> socket.socket:
        family, kind, protocol, _, where = candidate
        address = str(where[0])
        if family not in _SOCKETS or not allowed(address):
            # With an error number: aiohttp shows the text of such errors only.
            raise NotPublic(errno.EACCES, f"{address} is not an address of the public internet")
        return socket.socket(family, kind, protocol)

    resolver: Any = None if resolve is None else _Resolver(resolve)
    connector: aiohttp.TCPConnector = client.TCPConnector(
        # Without the cache: a name is resolved for each new connection.
        resolver=resolver,
        use_dns_cache=False,
        socket_factory=checked,
    )
    return connector


class _Resolver:
    """A resolver for aiohttp that calls `resolve`."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve

    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[dict[str, Any]]:
        addresses = await self._resolve(host, port)
        return [
            {
                "hostname": host,
                "host": address,
                "port": port,
                "family": socket.AF_INET6 if ":" in address else socket.AF_INET,
                "proto": 0,
                "flags": socket.AI_NUMERICHOST,
            }
            for address in dict.fromkeys(addresses)
        ]

    async def close(self) -> None:
        """Does nothing."""


class _Unredirected(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        return None  # so that 3xx raises HTTPError


_OPENER: Final = urllib.request.build_opener(_Unredirected)
_PROXYLESS: Final = urllib.request.build_opener(_Unredirected, urllib.request.ProxyHandler({}))


def send(
    url: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    timeout: float,
    method: str | None = None,
    proxies: bool = True,
) -> Any:
    """Returns the open response (a context manager with `read` and `status`), status 200 to 299.

    Args:
        url: http or https. The caller is responsible for its target.
        body: None sends GET.
        headers: May hold credentials.
        timeout: Seconds for connecting, and for each read.
        method: Replaces GET or POST.
        proxies: Use those that the environment names.

    Raises:
        ValueError: `url` has another scheme.
        urllib.error.HTTPError: Any other status, redirects too; see `reason`.
        OSError: No connection.
    """
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"only http and https URLs can be called, not {url[:100]!r}")
    request = urllib.request.Request(url, body, dict(headers or {}), method=method)  # noqa: S310
    opener = _OPENER if proxies else _PROXYLESS
    return opener.open(request, timeout=timeout)


def reason(error: urllib.error.HTTPError) -> str:
    """Returns status and phrase; for a redirect also its target, which helps to fix the URL."""
    target = error.headers.get("Location", "") if 300 <= error.code < 400 else ""
    reason = f"{error.code} {error.reason}"
    return (
        f"{reason}: it points to {target[:200]!r}; redirects are not followed" if target else reason
    )


def http_parts(url: str) -> SplitResult:
    """Returns the parts of an http or https URL that names a host.

    Raises:
        ValueError: `url` has another scheme, or cannot be parsed.
    """
    parts = urlsplit(url)
    # The port is read here: `urlsplit` raises then, not when the URL is split.
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
        raise ValueError(f"{url[:100]!r} is not an http or https URL")
    return parts


def bare_url(url: str) -> str:
    """Returns scheme, host, port and path of `url`, without user, password and query."""
    parts = urlsplit(url)
    # `hostname` lacks the brackets of an IPv6 address in a URL.
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}{parts.path}"


def ascii_host(host: str) -> str:
    """Returns the host in lookup form, with its punycode; "" if it is invalid."""
    if host.isascii():
        return f"[{host}]" if ":" in host else host
    try:
        return normalize("NFKC", host).encode("idna").decode()
    except UnicodeError:
        return ""


def origin(url: str) -> tuple[str, str, int]:
    """Returns scheme, host and port: the trust boundary of a request to `url`.

    Raises:
        ValueError: The port is invalid.
    """
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    return parts.scheme, (parts.hostname or "").rstrip("."), port


def unpacking(coding: str, most: int) -> Callable[[bytes], bytes] | None:
    """Returns a function that unpacks pieces of a body, each to at most `most` + 1 bytes.

    A megabyte of gzip may hold a gigabyte. None: the body is not compressed.

    Raises:
        ValueError: `coding` (of the header Content-Encoding) is neither gzip nor deflate.
    """
    name = coding.strip().lower()
    if name in ("", "identity"):
        return None
    if name not in ("gzip", "x-gzip", "deflate"):
        raise ValueError(f"is encoded as {name[:20]!r}, which was not asked for")
    # 32 more than the window: the header decides between gzip and zlib.
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)

    def unpacked(piece: bytes) -> bytes:
        nonlocal unpacker
        data = unpacker.decompress(piece, most + 1)
        # A further member of gzip may follow.
        while unpacker.eof and unpacker.unused_data and len(data) <= most:
            rest, unpacker = unpacker.unused_data, zlib.decompressobj(zlib.MAX_WBITS | 32)
            data += unpacker.decompress(rest, most + 1)
        return data

    return unpacked


def proxy_for(url: str) -> str | None:
    """Returns the environment's proxy (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY).

    Raises:
        ConfigError: It is a SOCKS proxy, which the client does not support.
    """
    parts = urlsplit(url)
    # Without user and password, which NO_PROXY does not contain.
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


_LONGEST_WAIT: Final = 86_400.0
"""Seconds. A longer wait is shortened to a day."""


def retry_after(headers: Mapping[str, str], now: Callable[[], float] = time.time) -> float | None:
    """Returns the seconds that an answer asks to wait (RFC 9110 10.2.3), or None."""
    exact = headers.get("Retry-After-Ms") or headers.get("retry-after-ms")
    value = headers.get("Retry-After") or headers.get("retry-after")
    try:
        if exact:
            return bounded_wait(float(exact) / 1000)
        if not value:
            return None
        if value.strip().replace(".", "", 1).isdigit():
            return bounded_wait(float(value))
        moment = parsedate_to_datetime(value)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return bounded_wait(moment.timestamp() - now())
    except (ValueError, OverflowError):
        return None


def bounded_wait(seconds: float) -> float:
    """Returns `seconds` as a wait between zero and a day. NaN is zero."""
    # In this order: NaN compares as false and becomes 0.
    return min(max(0.0, seconds), _LONGEST_WAIT)

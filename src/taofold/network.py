"""HTTP connections that are safe with URLs and keys: public addresses only, or no redirects.

`connector` and `is_public`, for URLs that a model or a server wrote: whatever a URL spells, however
a name resolves, whichever redirect led there, the decision is made where the socket for one address
is created, and the connection goes to that address. There is no second parser of URLs and no
look-up that could disagree a moment later.

`send`, for requests with credentials: one blocking request, of which a redirect is an answer like
any other. Following it would hand the headers, and with them the key, to whomever the server names.
`http_parts` and `bare_url` read a URL that a person configured, and what of it may be
shown. `unpacking` decodes a compressed body within a bound.

Knows nothing about tools, models or providers.
"""

import errno
import importlib
import ipaddress
import socket
import urllib.error
import urllib.request
import zlib
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from unicodedata import normalize
from urllib.parse import SplitResult, urlsplit

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
"""In the middle of an interface id: the last 32 bits are an IPv4 address (RFC 5214)."""


def parse_address(text: str) -> Address | None:
    """The address that `text` spells, without a zone; None if it is none."""
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


def is_public(text: str) -> bool:
    """Is it an address of the public internet? What is no address is not public."""
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


def is_own(text: str) -> bool:
    """Is it an address of this machine, as its routing table says? Sends nothing.

    A machine may have public addresses of its own: what listens there behind a firewall is
    reached from inside without passing it.
    """
    address = parse_address(text)
    if address is None:
        return False
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(address), 9))  # a datagram socket: only a route is looked up
            source = parse_address(probe.getsockname()[0])
    except OSError:
        return False
    return source == address


Resolve: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
"""`(name, port) -> addresses`."""
Allowed: TypeAlias = Callable[[str], bool]
"""Is this address one that may be reached?"""
_SOCKETS: Final = (socket.AF_INET, socket.AF_INET6)


class NotPublic(OSError):
    """The address is not of the public internet."""


def reachable(address: str) -> bool:
    """Is it public, and not one of this machine's own?"""
    return is_public(address) and not is_own(address)


def connector(
    resolve: Resolve | None = None, allowed: Allowed = reachable
) -> "aiohttp.TCPConnector":
    """A connector for one `aiohttp` session that connects only where `allowed` says so.

    Of several addresses the first that is allowed and answers is taken. Where none is, aiohttp
    raises `ClientConnectorError`, which says why.
    """
    client = importlib.import_module("aiohttp")  # 0.2 s, paid by the first request

    def checked(candidate: Any) -> socket.socket:
        family, kind, protocol, _, where = candidate
        address = str(where[0])
        if family not in _SOCKETS or not allowed(address):
            # With a number: aiohttp shows the text of such errors only.
            raise NotPublic(errno.EACCES, f"{address} is not an address of the public internet")
        return socket.socket(family, kind, protocol)

    resolver: Any = None if resolve is None else _Resolver(resolve)
    connector: aiohttp.TCPConnector = client.TCPConnector(
        # Without the cache: a name is resolved for the
        # connection that is made, not for an earlier one.
        resolver=resolver,
        use_dns_cache=False,
        socket_factory=checked,
    )
    return connector


class _Resolver:
    """A resolver for aiohttp that asks `resolve`."""

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
        """Nothing to let go."""


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
    """The open response (a context manager with `read` and `status`), status 200 to 299.

    Args:
        url: http or https. Whoever passes it in answers for where it leads.
        body: None sends GET.
        headers: may hold credentials.
        timeout: seconds for connecting, and for each read.
        method: instead of GET or POST.
        proxies: use those that the environment names.

    Raises:
        ValueError: `url` is of another kind.
        urllib.error.HTTPError: any other status, redirects too; see `reason`.
        OSError: no connection.
    """
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"only http and https URLs can be called, not {url[:100]!r}")
    request = urllib.request.Request(url, body, dict(headers or {}), method=method)  # noqa: S310
    opener = _OPENER if proxies else _PROXYLESS
    return opener.open(request, timeout=timeout)


def reason(error: urllib.error.HTTPError) -> str:
    """Status and phrase; of a redirect also where it points, for whoever configured the URL."""
    target = error.headers.get("Location", "") if 300 <= error.code < 400 else ""
    reason = f"{error.code} {error.reason}"
    return (
        f"{reason}: it points to {target[:200]!r}; redirects are not followed" if target else reason
    )


def http_parts(url: str) -> SplitResult:
    """The parts of an http or https URL that names a host.

    Raises:
        ValueError: `url` is of another kind, or cannot be split.
    """
    parts = urlsplit(url)
    # The port is read here: `urlsplit` raises then, not when the URL is split.
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
        raise ValueError(f"{url[:100]!r} is no http or https URL")
    return parts


def bare_url(url: str) -> str:
    """Scheme, host, port and path of `url`: what may be shown. User, password, query may not."""
    parts = urlsplit(url)
    # `hostname` is without the brackets that an IPv6 address has in a URL.
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}{parts.path}"


def ascii_host(host: str) -> str:
    """Returns the host as it is looked up, with its punycode; "" if it is none."""
    if host.isascii():
        return f"[{host}]" if ":" in host else host
    try:
        return normalize("NFKC", host).encode("idna").decode()
    except UnicodeError:
        return ""


def origin(url: str) -> tuple[str, str, int]:
    """Scheme, host and port: whom a request to `url` trusts.

    Raises:
        ValueError: the port is none.
    """
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    return parts.scheme, (parts.hostname or "").rstrip("."), port


def unpacking(coding: str, most: int) -> Callable[[bytes], bytes] | None:
    """Returns what unpacks the pieces of a body, each to at most `most` + 1 bytes.

    A megabyte of gzip may hold a gigabyte. None: the body is sent as it is.

    Raises:
        ValueError: `coding` (of the header Content-Encoding) is none of gzip and deflate.
    """
    name = coding.strip().lower()
    if name in ("", "identity"):
        return None
    if name not in ("gzip", "x-gzip", "deflate"):
        raise ValueError(f"is encoded as {name[:20]!r}, which was not asked for")
    # 32 more than the window: the head decides between gzip and zlib.
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

"""`http.get`: pages of the public web, and nothing that is near.

Every address is checked where it is used: the connection goes to the very address that was
checked, so a name that resolves to something else a moment later gains nothing, and each
redirect is a new request with a new check. Knows nothing about searching or pages' content.
"""

import asyncio
import importlib
import ipaddress
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias
from urllib.parse import urljoin, urlsplit

from taofold.tools.context import Outcome
from taofold.tools.make import make
from taofold.tools.tool import Tool

LARGEST: Final = 1 << 20
"""Bytes of a page, after decompression."""
SECONDS: Final = 20.0
REDIRECTS: Final = 5
_SHARED: Final = ipaddress.ip_network("64:ff9b::/96")
"""NAT64: holds an IPv4 address, which may be a near one."""
_TEXT: Final = (
    "text/",
    "application/json",
    "application/xml",
    "application/xhtml",
    "+json",
    "+xml",
)

Resolve: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
"""`(name, port) -> addresses`."""
Allowed: TypeAlias = Callable[[str], bool]
"""Is this address one that may be reached?"""


class Near(OSError):
    """The address is not of the public internet."""


def is_public(address: str) -> bool:
    """Is it an address of the public internet, and not this machine's or its network's?"""
    try:
        found = ipaddress.ip_address(address.split("%", 1)[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour
        if found in _SHARED:
            inner = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        if inner is not None:
            found = inner
    return found.is_global and not found.is_multicast and not found.is_reserved


async def lookup(name: str, port: int) -> list[str]:
    """The addresses of `name`, as this machine resolves it."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return [str(one[4][0]) for one in found]


class _Checked:
    """A resolver for aiohttp that gives only addresses that may be reached."""

    def __init__(self, resolve: Resolve, allowed: Allowed) -> None:
        self._resolve, self._allowed = resolve, allowed

    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[dict[str, Any]]:
        addresses = await self._resolve(host, port)
        for address in addresses:
            if not self._allowed(address):
                raise Near(f"{host!r} is {address}, which is not of the public internet")
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
        pass


class Web:
    """Gets pages. `resolve` and `allowed` are seams; by default only the public internet is."""

    def __init__(self, resolve: Resolve = lookup, allowed: Allowed = is_public) -> None:
        self._resolve, self._allowed = resolve, allowed

    async def get(self, url: str) -> Outcome:
        """Get a page of the public web.

        Args:
            url: Begins with https:// or http://.
        """
        try:
            async with asyncio.timeout(SECONDS):
                return await self._follow(url)
        except TimeoutError:
            return Outcome(f"{url!r} did not answer within {SECONDS:g} s", "timeout")
        except (OSError, ValueError) as error:
            return Outcome(f"{url!r} cannot be had: {error}", "failure")

    async def _follow(self, url: str) -> Outcome:
        aiohttp = importlib.import_module("aiohttp")
        resolver = _Checked(self._resolve, self._allowed)
        connector = aiohttp.TCPConnector(resolver=resolver, use_dns_cache=False)
        timeout = aiohttp.ClientTimeout(total=SECONDS)
        async with aiohttp.ClientSession(
            connector=connector, timeout=timeout, trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(), headers={"User-Agent": "taofold"},
        ) as session:  # fmt: skip
            try:
                for _ in range(REDIRECTS + 1):
                    self._check(url)
                    async with session.get(url, allow_redirects=False) as response:
                        target = response.headers.get("Location", "")
                        if response.status not in (301, 302, 303, 307, 308) or not target:
                            return await _read(response, url)
                    url = urljoin(url, target)
            except aiohttp.ClientError as error:
                cause = error.__cause__
                said = cause if isinstance(cause, Near) else error
                return Outcome(f"{url!r} cannot be had: {said}", "failure")
        return Outcome(f"more than {REDIRECTS} redirects, the last to {url!r}", "failure")

    def _check(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("only http:// and https:// addresses can be had")
        if parts.username is not None or parts.password is not None:
            raise ValueError("an address with a name and a password is refused")
        try:
            ipaddress.ip_address(parts.hostname)
        except ValueError:
            return  # a name: the resolver checks what it means
        if not self._allowed(parts.hostname):
            raise Near(f"{parts.hostname} is not of the public internet")


async def _read(response: Any, url: str) -> Outcome:
    kind = response.headers.get("Content-Type", "text/plain").lower()
    if not any(mark in kind for mark in _TEXT):
        return Outcome(f"{url!r} is {kind!r}, which is no text", "failure")
    body = bytearray()
    async for chunk in response.content.iter_chunked(1 << 16):
        body += chunk
        if len(body) > LARGEST:
            break
    cut = len(body) > LARGEST
    try:
        text = bytes(body[:LARGEST]).decode(response.charset or "utf-8", "replace")
    except LookupError:
        text = bytes(body[:LARGEST]).decode("utf-8", "replace")
    if response.status >= 400:
        return Outcome(f"{url!r} answered {response.status}: {text[:500]}", "failure")
    return Outcome(text, "partial" if cut else "success", f"{response.status} {url}")


def http_tool(web: Web | None = None) -> Tool:
    """The tool `http.get`: a read, so tier 1; raise it where addresses must not tell anything."""
    web = web or Web()
    return make(web.get, name="http.get", effect="read", timeout=SECONDS + 5,
                toolset="web")  # fmt: skip

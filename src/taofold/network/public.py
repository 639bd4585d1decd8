"""Connections to the public internet only, decided on the address that is connected to.

Whatever a URL spells, however a name resolves, whichever redirect led there: the decision is
made where the socket for one address is created, and the connection goes to that address.
There is nothing else to agree with: no second parser of URLs, no look-up that could say
something different a moment later.
"""

import errno
import importlib
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from taofold.network.addresses import is_own, is_public

if TYPE_CHECKING:
    import aiohttp

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

    def checked(found: Any) -> socket.socket:
        family, kind, protocol, _, where = found
        address = str(where[0])
        if family not in _SOCKETS or not allowed(address):
            # With a number: aiohttp shows the text of such errors only.
            raise NotPublic(errno.EACCES, f"{address} is not an address of the public internet")
        return socket.socket(family, kind, protocol)

    resolver: Any = None if resolve is None else _Resolver(resolve)
    found: aiohttp.TCPConnector = client.TCPConnector(
        resolver=resolver, use_dns_cache=False, socket_factory=checked
    )
    return found


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

"""`http.get`: gets pages of the public web, never of private networks.

The parser of the connecting client parses a URL once. `taofold.network` checks the address of each
connection. So an odd spelling of a host, a redirect, or a name that changes its address cannot
reach a private network. This module neither searches nor interprets pages.
"""

import asyncio
import importlib
from typing import Any, Final

from taofold.network import Allowed, Resolve, connector, is_public, reachable
from taofold.tools.context import Outcome
from taofold.tools.tool import Tool, make

__all__ = ["LARGEST", "REDIRECTS", "SECONDS", "Web", "http_tool", "is_public"]

LARGEST: Final = 1 << 20
"""Maximum bytes of a page, after decompression."""
SECONDS: Final = 20.0
REDIRECTS: Final = 5
_MOVED: Final = (301, 302, 303, 307, 308)
_TEXT: Final = (
    "text/",
    "application/json",
    "application/xml",
    "application/xhtml",
    "+json",
    "+xml",
)


class Web:
    """Gets pages. `resolve` (None: the system's resolver) and `allowed` are seams for tests."""

    def __init__(self, resolve: Resolve | None = None, allowed: Allowed = reachable) -> None:
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

    async def _follow(self, text: str) -> Outcome:
        aiohttp = importlib.import_module("aiohttp")
        url = _page(text)
        async with aiohttp.ClientSession(
            connector=connector(self._resolve, self._allowed),
            timeout=aiohttp.ClientTimeout(total=SECONDS),
            trust_env=False,  # a proxy would connect without the check
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": "taofold"},
        ) as session:
            try:
                # Redirects are followed here, so that `_page` and the connector check each address.
                for _ in range(REDIRECTS + 1):
                    async with session.get(url, allow_redirects=False) as response:
                        target = response.headers.get("Location", "")
                        if response.status not in _MOVED or not target:
                            return await _read(response, str(url))
                    url = _page(target, base=url)
            except aiohttp.ClientError as error:
                return Outcome(f"{str(url)!r} cannot be had: {error}", "failure")
        return Outcome(f"more than {REDIRECTS} redirects, the last to {str(url)!r}", "failure")


def _page(text: str, base: Any = None) -> Any:
    """Returns `text` as a URL relative to `base`, parsed as the client does (a `yarl.URL`).

    Raises:
        ValueError: The URL may not be requested.
    """
    url = importlib.import_module("yarl").URL(text)
    url = url if base is None else base.join(url)
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError("only http:// and https:// addresses can be had")
    if url.user is not None or url.password is not None:
        raise ValueError("an address with a name and a password is refused")
    return url


async def _read(response: Any, url: str) -> Outcome:
    kind = response.headers.get("Content-Type", "text/plain").lower()
    if not any(mark in kind for mark in _TEXT):
        return Outcome(f"{url!r} is {kind!r}, which is no text", "failure")
    body = bytearray()
    async for chunk in response.content.iter_chunked(1 << 16):
        body += chunk
        # Counted after decompression, because a small body may unpack to any size.
        if len(body) > LARGEST:
            break
    cut = len(body) > LARGEST
    try:
        # The page names its encoding, which Python may not know.
        text = bytes(body[:LARGEST]).decode(response.charset or "utf-8", "replace")
    except LookupError:
        text = bytes(body[:LARGEST]).decode("utf-8", "replace")
    if response.status >= 400:
        return Outcome(f"{url!r} answered {response.status}: {text[:500]}", "failure")
    return Outcome(text, "partial" if cut else "success", f"{response.status} {url}")


def http_tool() -> Tool:
    """Returns the tool `http.get`. A read, so tier 1. Raise it if URLs must not leak data."""
    return make(Web().get, name="http.get", effect="read", timeout=SECONDS + 5, toolset="web")

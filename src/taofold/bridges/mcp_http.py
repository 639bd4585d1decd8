"""The HTTP client of one MCP server: its credentials, its home, and what its refusals mean.

The `mcp` package makes one error of most statuses ("Server returned an error response"), and a
server that is away for a moment ends its session with every call in it. Here each becomes an error
of the protocol that belongs to the one request and says what happened.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import Any, Final, TypeAlias

from taofold.bridges.mcp_place import Place, filled
from taofold.network.direct import origin
from taofold.policy.redaction import Redactor

CLOSED: Final = -32000
"""The connection ended before the answer: nobody knows what became of the request."""
LOST: Final = -32097
"""The server does not know the session (any more), so it has not looked at the request."""
REFUSED: Final = -32096
"""The server does not accept the credentials."""
ABSENT: Final = -32095
"""Nobody answers at the server's address: the request was not sent."""
LARGEST: Final = 32 * 1024 * 1024
"""Bytes of one event from a server: a result, or a page of its tools."""
_SHOWN: Final = 300
_LOGGER: Final = logging.getLogger("taofold.mcp")

Headers: TypeAlias = Mapping[str, str]
HeaderSource: TypeAlias = Callable[[], "Headers | Awaitable[Headers]"]
"""Gives the headers when they are first needed, and again whenever the server answers 401."""


class Credentials:
    """The headers for a server, as they were last read."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._known: dict[str, str] | None = None
        self._reading = asyncio.Lock()

    async def headers(self) -> dict[str, str]:
        """What to send along.

        Raises:
            ConfigError: a variable that they name is not set.
        """
        async with self._reading:
            if self._known is None:
                self._known = await self._read()
            return self._known

    async def renewed(self, refused: dict[str, str]) -> bool:
        """Reads them again, unless somebody did meanwhile; are they others than `refused`?"""
        async with self._reading:
            if self._known == refused:
                self._known = await self._read()
            return self._known != refused

    async def _read(self) -> dict[str, str]:
        source = self._place.header_source
        if source is None:
            return filled(self._place.headers)
        found = await asyncio.to_thread(source)
        return dict(await found if isawaitable(found) else found)


def client_factory(
    place: Place, credentials: Credentials, create: Callable[..., Any]
) -> Callable[..., Any]:
    """A maker of clients like those of `create`, the package's own.

    They send nothing to another origin than the server's: generation 1 of the package follows
    redirects wherever they lead, and only `Authorization` stays behind, not a key under another
    name.
    """
    scheme, host, port = origin(place.url)
    home = {(scheme, host, port)}
    if (scheme, port) == ("http", 80):
        home.add(("https", host, 443))  # the same server, better protected

    async def at_home(request: Any) -> None:
        if origin(str(request.url)) not in home:
            raise ConnectionError(f"the server redirects to {request.url.host!r}: not followed")

    def made(**options: Any) -> Any:
        model = create(**options)
        return _client_class(type(model), credentials)(
            headers=model.headers,
            timeout=model.timeout,
            follow_redirects=model.follow_redirects,
            auth=options.get("auth"),
            event_hooks={"request": [at_home]},
        )

    return made


def _client_class(base: Any, credentials: Credentials) -> Any:
    """A client of `httpx`, in the generation that the package brings."""
    errors: Any = __import__(base.__module__.partition(".")[0])

    class ServerClient(base):  # type: ignore[misc]
        """Answers for the server where it gives no answer of the protocol."""

        async def send(self, request: Any, **options: Any) -> Any:
            try:
                sent = await credentials.headers()
                response = await self._sent(request, sent, options)
                if response.status_code == 401 and await self._renewed(sent):
                    await response.aclose()
                    response = await self._sent(request, await credentials.headers(), options)
            except (errors.ConnectError, errors.ConnectTimeout) as error:
                return _answer(errors, request, 503, ABSENT, f"nobody answers there: {error}")
            except errors.TransportError as error:
                # Raised, it would end the session and every other call in it.
                text = f"the connection broke off ({type(error).__name__})"
                return _answer(errors, request, 503, CLOSED, text)
            return await self._judged(request, response)

        async def _renewed(self, refused: dict[str, str]) -> bool:
            try:
                return await credentials.renewed(refused)
            except Exception:  # the refusal is what is told
                _LOGGER.warning("the headers for a server cannot be read", exc_info=True)
                return False

        async def _sent(self, request: Any, headers: Headers, options: Any) -> Any:
            request.headers.update(headers)
            above: Any = super()
            return await above.send(request, **options)

        async def _judged(self, request: Any, response: Any) -> Any:
            status = response.status_code
            if status in (401, 403):
                reason = await _reason(response)
                return _answer(errors, request, status, REFUSED, _refusal(status, reason))
            if status in (400, 404) and request.headers.get("mcp-session-id"):
                reason = await _reason(response)
                # The specification demands 404; many servers made with the TypeScript SDK say 400.
                if status == 404 or "session" in reason.lower():
                    return _answer(errors, request, status, LOST, reason or "session not found")
            elif status >= 500:
                reason = await _reason(response)
                if not _is_protocol(response):
                    text = f"the server answers {status}: {reason}"
                    return _answer(errors, request, status, -32603, text)
            return response

    return ServerClient


def _refusal(status: int, reason: str) -> str:
    what = "does not accept the credentials" if status == 401 else "forbids it"
    more = f": {reason}" if reason else ""
    return f"the server {what} ({status}){more}; check its `headers`"


async def _reason(response: Any) -> str:
    """What the server says about it, without secrets."""
    await response.aread()
    return Redactor().text(" ".join(response.text.split())[:_SHOWN])


def _is_protocol(response: Any) -> bool:
    """Is the answer one of the protocol, which says more than its status?"""
    return '"jsonrpc"' in response.text


def _answer(errors: Any, request: Any, status: int, code: int, message: str) -> Any:
    error = {"code": code, "message": message}
    body = {"jsonrpc": "2.0", "id": None, "error": error}
    return errors.Response(status, json=body, request=request)

"""`sign_in`: signs a user in to an MCP server with a browser.

The browser is redirected to a port of this machine that is open for one response. `oauth` stores
and refreshes the tokens.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from taofold.bridges.mcp.client.address import OAuth, ServerAddress
from taofold.bridges.mcp.client.oauth import (
    CALLBACK,
    Person,
    Redirected,
    SignInFailed,
    admit,
    provider,
)
from taofold.bridges.mcp.client.session import REFUSED, SessionHandlers, open_session
from taofold.bridges.mcp.sdk import code, innermost, load
from taofold.core.errors import ConfigError
from taofold.core.text import clip
from taofold.policy.redaction import Redactor

PATIENCE: Final = 300.0
"""Seconds for a sign-in."""
_NO_BROWSER: Final = (
    *(OSError, ValueError, IndexError, TimeoutError),
    *(asyncio.IncompleteReadError, asyncio.LimitOverrunError),
)
"""Errors of a connection without a browser's request."""
_PAGE: Final = (
    b"<!doctype html><meta charset=utf-8><title>taofold</title>"
    b"<p>You may close this page and go back to the terminal."
)


@dataclass(frozen=True, slots=True)
class SignedIn:
    """The result of a sign-in."""

    tools: int
    """Number of tools on the first page of the server's list."""
    scope: str
    asked: bool
    """True if the user was asked. False: the server needs no sign-in."""


async def sign_in(
    address: ServerAddress,
    show: Callable[[str], None],
    *,
    redirected: Redirected | None = None,
    redirect: str = "",
    seconds: float = PATIENCE,
) -> SignedIn:
    """Signs in to the server at `address` and stores the tokens.

    `show` gets the address that the user must open. The browser is redirected to a port of this
    machine. If it runs on another machine, `redirected` returns its final address. With `redirect`
    it is sent to that address instead, and no port is opened.

    Raises:
        SignInFailed: It was refused or took longer than `seconds`.
        ConfigError: The server has no sign-in.
    """
    oauth = address.oauth or OAuth()
    if oauth.grant == "client_credentials":
        raise ConfigError("a client with credentials of its own needs nobody to sign in")
    lines: list[str] = []
    callback = _Callback()
    async with nullcontext() if redirect else callback:

        async def shown(url: str) -> None:
            # A page in a private network is as risky as a request, so it is checked, too.
            await admit(address.url, url)
            lines.append(url)
            callback.expect(parse_qs(urlsplit(url).query).get("state", [""])[0])
            show(url)

        person = Person(shown, redirected or callback.redirected, redirect or callback.address)
        authorizer = provider(address, oauth, person)
        handlers = SessionHandlers(_nobody, _unheard)
        session_of = open_session(address, "auto", handlers, deque[str](), authorizer)
        try:
            async with asyncio.timeout(seconds), session_of as session:
                page = await session.listed("tools", None)
        except TimeoutError:
            raise SignInFailed(f"nobody signed in within {seconds:g} s") from None
        except Exception as error:
            # The package retries; its first error is the cause.
            cause = authorizer.failed or innermost(error)
            if isinstance(cause, ConfigError | SignInFailed):
                raise cause from error
            said = clip(Redactor(guesses=True).text(str(cause)), 500)
            if lines and code(cause) == REFUSED:
                # The error's hint names the command that was just run, so it is replaced.
                authorizer.kept.forget()
                raise SignInFailed(
                    "a person signed in, but the server refuses the token (401): it may be for "
                    "another audience or scope; nothing was kept"
                ) from error
            if type(cause).__name__ == "OAuthRegistrationError":
                said += "; register a client there yourself and name it with --client-id"
            raise SignInFailed(said) from error
    tokens = authorizer.context.current_tokens
    scope = "" if tokens is None else str(tokens.scope or "")
    return SignedIn(len(page.tools), scope, bool(lines))


async def _nobody(*_: Any) -> Any:
    return load("mcp.types").ElicitResult(action="cancel")


async def _unheard(_: Any) -> None:
    return


class _Callback:
    """A port of this machine that receives one redirect of a browser."""

    def __init__(self) -> None:
        self._state = ""
        self._came: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._server: asyncio.Server | None = None
        self.address = ""

    async def __aenter__(self) -> "_Callback":
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.address = f"http://127.0.0.1:{port}{CALLBACK}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()

    def expect(self, state: str) -> None:
        """Accepts only a response with this state: any program on this machine can call the
        port.
        """
        self._state = state

    async def redirected(self) -> str:
        return await self._came

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(10):
                head = await reader.readuntil(b"\r\n\r\n")
            target = head.split(b" ", 2)[1].decode("ascii")
            parts = urlsplit(target)
            states = parse_qs(parts.query).get("state", [])
            ours = parts.path == CALLBACK and states == [self._state] and self._state
            status = b"200 OK" if ours else b"404 Not Found"
            body = _PAGE if ours else b""
            writer.write(
                b"HTTP/1.1 %b\r\nContent-Type: text/html\r\nContent-Length: %d\r\n"
                b"Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n"
                b"Connection: close\r\n\r\n%b" % (status, len(body), body)
            )
            await writer.drain()
            if ours and not self._came.done():
                self._came.set_result(target)
        except _NO_BROWSER:
            pass
        finally:
            writer.close()

"""Signing in to the MCP servers of the agents that are offered, in a browser: sign-ins, their
routes, and the JSON that these take and give.

A sign-in (`SignIns`) begins and ends at this process: the browser comes back to a page of the
console, which hands over where it ended. Whoever brings that must be the principal that began, else
somebody could have their own account at the server put under another's name, or the other way
round. The tokens are kept by the MCP bridge; none is ever told here.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Final, cast
from urllib.parse import parse_qs, urlsplit

from pydantic import BaseModel, Field
from starlette.requests import Request

from taofold.bridges.mcp.client.address import ServerAddress
from taofold.bridges.mcp.client.oauth import KeptTokens, SignInFailed, StoredTokens
from taofold.bridges.mcp.client.signin import SignedIn, sign_in
from taofold.core.text import iso
from taofold.core.values import Principal
from taofold.server.api import schemas
from taofold.server.catalog import AnyAgent
from taofold.server.endpoint import ApiCall, ApiEndpoint, Problem, RequestModel

MOST_SIGNINS: Final = 100
"""Sign-ins under way at once."""
_DEEP: Final = 4


@dataclass(eq=False)
class _SignIn:
    """One sign-in under way."""

    principal: str
    url: str
    page: asyncio.Future[str]
    """The page to open."""
    ended: asyncio.Future[str]
    """Where the browser came back to."""
    task: asyncio.Task[SignedIn]
    state: str = ""


@dataclass(frozen=True, slots=True)
class SignInEntry:
    """A server to which the principal can sign in, and what is kept of it."""

    label: str
    address: ServerAddress
    stored: StoredTokens


class SignIns:
    """The sign-ins of one server process."""

    def __init__(self, agents: Iterable[AnyAgent]) -> None:
        self._servers = {
            server.address.url: server for agent in agents for server in _servers(agent, _DEEP)
        }
        self._under_way: list[_SignIn] = []

    async def entries(self, principal: Principal) -> list[SignInEntry]:
        """The servers to which `principal` can sign in."""
        entries: list[SignInEntry] = []
        for server in self._servers.values():
            target = self._target(server, principal)
            if target is not None:
                assert target.oauth is not None
                tokens = KeptTokens(target.url, target.oauth.client_id, principal=target.principal)
                entries.append(
                    SignInEntry(server.label, target, await asyncio.to_thread(tokens.stored))
                )
        return entries

    async def begin(self, principal: Principal, url: str, redirect: str) -> str:
        """Begin to sign in; returns the page that the principal must open, "" = none needed.

        Raises:
            Problem: there is no such server, it cannot be reached, or too many are under way.
        """
        target = self._target_at(principal, url)
        for earlier in [s for s in self._under_way if s.principal == principal.id]:
            if earlier.url == url:
                earlier.task.cancel()
        if len(self._under_way) >= MOST_SIGNINS:
            raise Problem(503, "busy", "too many sign-ins are under way")
        loop = asyncio.get_running_loop()
        page: asyncio.Future[str] = loop.create_future()
        ended: asyncio.Future[str] = loop.create_future()

        async def redirected() -> str:
            return str(await ended)

        def show(address: str) -> None:
            if not page.done():
                page.set_result(address)

        task = asyncio.create_task(sign_in(target, show, redirected=redirected, redirect=redirect))
        entry = _SignIn(principal.id, url, page, ended, task)
        self._under_way.append(entry)
        task.add_done_callback(lambda _: self._under_way.remove(entry))
        waits: list[asyncio.Future[Any]] = [page, task]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if not page.done():
            await _result(task)
            return ""
        address: str = page.result()
        if urlsplit(address).scheme not in ("http", "https"):
            task.cancel()
            raise Problem(502, "signin", "the server names a page that is no web page")
        entry.state = parse_qs(urlsplit(address).query).get("state", [""])[0]
        return address

    async def finish(self, principal: Principal, address: str) -> tuple[str, SignedIn]:
        """End the sign-in whose browser came back to `address`; returns the server's url.

        Raises:
            Problem: the principal began none that this answers, or it was refused.
        """
        state = parse_qs(urlsplit(address).query).get("state", [""])[0]
        for entry in self._under_way:
            own = entry.principal == principal.id
            if own and state and entry.state == state and not entry.ended.done():
                entry.ended.set_result(address)
                return entry.url, await _result(entry.task)
        raise Problem(404, "not_found", "you have begun no such sign-in here: begin it anew")

    async def forget(self, principal: Principal, url: str) -> bool:
        """Delete the tokens of `principal`; were there any?"""
        target = self._target_at(principal, url)
        assert target.oauth is not None
        tokens = KeptTokens(target.url, target.oauth.client_id, principal=target.principal)
        return await asyncio.to_thread(tokens.forget)

    def close(self) -> None:
        """Give up what is under way."""
        for entry in self._under_way:
            entry.task.cancel()

    def _target_at(self, principal: Principal, url: str) -> ServerAddress:
        server = self._servers.get(url)
        target = None if server is None else self._target(server, principal)
        if target is None:
            raise Problem(404, "not_found", "there is no such server to which you can sign in")
        return target

    def _target(self, server: Any, principal: Principal) -> ServerAddress | None:
        """Where `principal` is to sign in; None if it must not: the sign-in is the operator's."""
        target = cast("ServerAddress", server.address)
        if not target.per_principal and principal.id != Principal().id:
            return None
        return target.of(principal)


async def _result(task: asyncio.Task[SignedIn]) -> SignedIn:
    try:
        return await asyncio.shield(task)
    except SignInFailed as error:
        raise Problem(502, "signin", str(error)) from error
    except asyncio.CancelledError:
        if task.cancelled():
            raise Problem(409, "signin", "another sign-in was begun since") from None
        raise


def _servers(agent: AnyAgent, depth: int) -> list[Any]:
    """The MCP servers of the agent, and of those that it calls, where a person signs in."""
    servers: list[Any] = []
    for tool_source in agent.tools:
        oauth: Any = getattr(getattr(tool_source, "address", None), "oauth", None)
        if oauth is not None and oauth.grant == "authorization_code":
            servers.append(tool_source)
    if depth:
        for tool in agent.toolset.values():
            if tool.agent is not None:
                servers += _servers(cast("AnyAgent", tool.agent), depth - 1)
    return servers


PAGE: Final = "/signed-in"
"""Where a browser comes back to; the console hands over the address."""
Url = Annotated[str, Field(min_length=1, max_length=4000)]


class SignInBody(RequestModel, title="SignIn"):
    """To which server."""

    server: Url = Field(description="Its address, as `GET /servers` lists it.")


class ReturnedBody(RequestModel, title="Returned"):
    """Where the browser ended."""

    address: Url


class McpServerView(schemas.ResponseBody, title="McpServer"):
    """A server, and whether the caller is signed in there. No secret is told."""

    name: str
    server: str
    shared: bool
    """Do the runs of everybody use this sign-in?"""
    signed_in: bool
    scope: str
    expires_at: str
    renewed: bool


class McpServers(schemas.ResponseBody):
    """The servers to which the caller can sign in."""

    items: list[McpServerView]


class SignInPage(schemas.ResponseBody):
    """The page to open; "" if the server wants no sign-in."""

    address: str


class SignedInView(schemas.ResponseBody, title="SignedIn"):
    """What a sign-in came to."""

    server: str
    tools: int
    scope: str


def _view(entry: SignInEntry) -> McpServerView:
    tokens, until = entry.stored.tokens or {}, entry.stored.expires_at
    return McpServerView(
        name=entry.label,
        server=entry.address.url,
        shared=not entry.address.per_principal,
        signed_in=bool(tokens),
        scope=str(tokens.get("scope") or ""),
        expires_at="" if until is None else iso(int(until * 1000)),
        renewed=bool(tokens.get("refresh_token")),
    )


async def servers(call: ApiCall) -> BaseModel:
    """Where the caller can sign in."""
    return McpServers(
        items=[_view(entry) for entry in await call.server.signins.entries(call.principal)]
    )


async def begin(call: ApiCall) -> BaseModel:
    """Begin to sign in."""
    url = call.body.server
    address = await call.server.signins.begin(call.principal, url, _redirect(call.request))
    call.server.audit("mcp_signin", call.principal.id, detail=f"begun at {url}")
    return SignInPage(address=address)


def _redirect(request: Request) -> str:
    """The page of ours as the caller's browser reaches it."""
    host = request.headers["host"]
    origin = request.headers.get("origin", "")
    # Behind a proxy that ends TLS only the browser knows that it speaks https. The host was
    # checked by the middleware; an origin that is not this very host gets no code.
    scheme = urlsplit(origin).scheme if urlsplit(origin).netloc == host else request.url.scheme
    return f"{scheme}://{host}{PAGE}"


async def finish(call: ApiCall) -> BaseModel:
    """End a sign-in."""
    url, signed_in = await call.server.signins.finish(call.principal, call.body.address)
    call.server.audit("mcp_signin", call.principal.id, detail=f"done at {url}")
    return SignedInView(server=url, tools=signed_in.tools, scope=signed_in.scope)


async def forget(call: ApiCall) -> BaseModel:
    """Delete the caller's tokens."""
    if await call.server.signins.forget(call.principal, call.body.server):
        call.server.audit("mcp_signout", call.principal.id, detail=f"out of {call.body.server}")
    return await servers(call)


ENDPOINTS: Final = (
    ApiEndpoint(
        "GET",
        "/servers",
        servers,
        "MCP servers to which you can sign in.",
        "servers",
        answers={200: McpServers},
        right="start",
    ),
    ApiEndpoint(
        "POST",
        "/servers/signin",
        begin,
        "Begin to sign in to an MCP server: the answer is the page to open.",
        "servers",
        body=SignInBody,
        answers={200: SignInPage},
        right="start",
    ),
    ApiEndpoint(
        "POST",
        "/servers/signin/finish",
        finish,
        "End a sign-in with the address at which the browser ended.",
        "servers",
        body=ReturnedBody,
        answers={200: SignedInView},
        right="start",
    ),
    ApiEndpoint(
        "POST",
        "/servers/signout",
        forget,
        "Delete your tokens for an MCP server.",
        "servers",
        body=SignInBody,
        answers={200: McpServers},
        right="start",
    ),
)

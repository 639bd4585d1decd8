"""Browser sign-ins to the MCP servers of the served agents: routes and JSON.

A sign-in (`SignIns`) begins and ends at this process: the browser is redirected to a page of the
console, which sends its final address. The sender must be the principal that began the sign-in;
otherwise a user could connect an account to another principal. The MCP bridge stores the tokens; no
response contains them.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Final, cast
from urllib.parse import parse_qs, urlsplit

from pydantic import Field
from starlette.requests import Request

from taofold.bridges.mcp.client.address import ServerAddress
from taofold.bridges.mcp.client.oauth import KeptTokens, SignInFailed, StoredTokens
from taofold.bridges.mcp.client.signin import SignedIn, sign_in
from taofold.core.text import iso
from taofold.core.values import Principal
from taofold.server.api import schemas
from taofold.server.catalog import AnyAgent
from taofold.server.endpoint import ApiCall, Problem, RequestModel, Routes

routes: Final = Routes("servers")

MOST_SIGNINS: Final = 100
"""Maximum concurrent sign-ins."""
_DEEP: Final = 4


@dataclass(eq=False)
class _SignIn:
    """One running sign-in."""

    principal: str
    url: str
    page: asyncio.Future[str]
    """The page to open."""
    ended: asyncio.Future[str]
    """The final address of the browser."""
    task: asyncio.Task[SignedIn]
    state: str = ""


@dataclass(frozen=True, slots=True)
class SignInEntry:
    """A server to which the principal can sign in, with its stored sign-in."""

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
        """Returns the servers to which `principal` can sign in."""
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
        """Begins a sign-in. Returns the page that the principal must open; "" = none needed.

        Raises:
            Problem: The server is unknown or unreachable, or there are too many sign-ins.
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
        """Ends the sign-in whose browser was redirected to `address`. Returns the server's url.

        Raises:
            Problem: The principal has no such sign-in, or it was refused.
        """
        state = parse_qs(urlsplit(address).query).get("state", [""])[0]
        for entry in self._under_way:
            own = entry.principal == principal.id
            if own and state and entry.state == state and not entry.ended.done():
                entry.ended.set_result(address)
                return entry.url, await _result(entry.task)
        raise Problem(404, "not_found", "you have begun no such sign-in here: begin it anew")

    async def forget(self, principal: Principal, url: str) -> bool:
        """Deletes the tokens of `principal`. Returns whether there were any."""
        target = self._target_at(principal, url)
        assert target.oauth is not None
        tokens = KeptTokens(target.url, target.oauth.client_id, principal=target.principal)
        return await asyncio.to_thread(tokens.forget)

    def close(self) -> None:
        """Cancels all running sign-ins."""
        for entry in self._under_way:
            entry.task.cancel()

    def _target_at(self, principal: Principal, url: str) -> ServerAddress:
        server = self._servers.get(url)
        target = None if server is None else self._target(server, principal)
        if target is None:
            raise Problem(404, "not_found", "there is no such server to which you can sign in")
        return target

    def _target(self, server: Any, principal: Principal) -> ServerAddress | None:
        """Returns the address for a sign-in of `principal`; None if only the operator signs in."""
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
    """Returns the MCP servers with a user sign-in, of the agent and its inner agents."""
    servers: list[Any] = []
    team = agent.team.values()
    for tool_source in [source for member in team for source in member.tools]:
        oauth: Any = getattr(getattr(tool_source, "address", None), "oauth", None)
        if oauth is not None and oauth.grant == "authorization_code":
            servers.append(tool_source)
    if depth:
        for tool in [tool for member in team for tool in member.toolset.values()]:
            if tool.agent is not None:
                servers += _servers(cast("AnyAgent", tool.agent), depth - 1)
    return servers


PAGE: Final = "/signed-in"
"""Path of the page to which a browser is redirected."""
Url = Annotated[str, Field(min_length=1, max_length=4000)]


class SignInBody(RequestModel, title="SignIn"):
    """The server to sign in to."""

    server: Url = Field(description="Its address, as `GET /servers` lists it.")


class ReturnedBody(RequestModel, title="Returned"):
    """The final address of the browser."""

    address: Url


class McpServerView(schemas.ResponseBody, title="McpServer"):
    """A server, and whether the caller is signed in. Contains no secrets."""

    name: str
    server: str
    shared: bool
    """True if all runs use this sign-in."""
    signed_in: bool
    scope: str
    expires_at: str
    renewed: bool


class McpServers(schemas.ResponseBody):
    """The servers to which the caller can sign in."""

    items: list[McpServerView]


class SignInPage(schemas.ResponseBody):
    """The page to open; "" if the server needs no sign-in."""

    address: str


class SignedInView(schemas.ResponseBody, title="SignedIn"):
    """The result of a sign-in."""

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


@routes.get("/servers", right="start")
async def servers(call: ApiCall) -> McpServers:
    """Lists the MCP servers to which you can sign in."""
    return McpServers(
        items=[_view(entry) for entry in await call.server.signins.entries(call.principal)]
    )


@routes.post("/servers/signin", right="start", body=SignInBody)
async def begin(call: ApiCall) -> SignInPage:
    """Begins a sign-in to an MCP server. Returns the page to open."""
    url = call.body.server
    address = await call.server.signins.begin(call.principal, url, _redirect(call.request))
    call.server.audit("mcp_signin", call.principal.id, detail=f"begun at {url}")
    return SignInPage(address=address)


def _redirect(request: Request) -> str:
    """Returns the redirect page's address for the caller's browser."""
    host = request.headers["host"]
    origin = request.headers.get("origin", "")
    # Behind a TLS proxy only the browser knows that it uses https. The middleware checked the host;
    # another origin is not used.
    scheme = urlsplit(origin).scheme if urlsplit(origin).netloc == host else request.url.scheme
    return f"{scheme}://{host}{PAGE}"


@routes.post("/servers/signin/finish", right="start", body=ReturnedBody)
async def finish(call: ApiCall) -> SignedInView:
    """Ends a sign-in with the final address of the browser."""
    url, signed_in = await call.server.signins.finish(call.principal, call.body.address)
    call.server.audit("mcp_signin", call.principal.id, detail=f"done at {url}")
    return SignedInView(server=url, tools=signed_in.tools, scope=signed_in.scope)


@routes.post("/servers/signout", right="start", body=SignInBody)
async def forget(call: ApiCall) -> McpServers:
    """Deletes your tokens for an MCP server."""
    if await call.server.signins.forget(call.principal, call.body.server):
        call.server.audit("mcp_signout", call.principal.id, detail=f"out of {call.body.server}")
    return await servers(call)

"""The routes by which a principal signs in to MCP servers of the agents, and out again."""

from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import BaseModel, Field
from starlette.requests import Request

from taofold.core.text import iso
from taofold.server.api import schemas
from taofold.server.endpoint import ApiCall, ApiEndpoint, RequestModel
from taofold.server.mcp_signins import Entry

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


def _view(entry: Entry) -> McpServerView:
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

"""The routes of browser sessions: sign in by a link or a token, who I am, sign out.

How cookies, links and tokens are checked is in `server.auth`; signing in to MCP servers is in
`mcp_signins`.
"""

import asyncio
from typing import Final

from pydantic import BaseModel
from starlette.responses import JSONResponse, RedirectResponse, Response

import taofold
from taofold.server.api import schemas
from taofold.server.api.schemas import Login
from taofold.server.auth import SESSION_S, BrowserSession
from taofold.server.endpoint import ApiCall, ApiEndpoint, Nothing, Problem


async def me(call: ApiCall) -> BaseModel:
    """Who the caller is."""
    return _me(call.principal.id, call.principal.roles, call.csrf)


def _me(id_: str, roles: tuple[str, ...], csrf: str) -> schemas.Me:
    return schemas.Me(id=id_, roles=list(roles), csrf=csrf, version=taofold.__version__)


async def enter(call: ApiCall) -> Response:
    """Sign in by the link that was printed when the server began."""
    if call.request.method == "HEAD":  # a preview of the link must not use it up
        raise Problem(405, "method", "this cannot be done here", headers={"Allow": "GET"})
    # In a thread: it locks and syncs a file.
    cookie = await asyncio.to_thread(call.server.signin.redeem, call.path["code"])
    if cookie is None:
        raise Problem(404, "not_found", "this link was used or is too old: start one anew")
    call.server.audit("signin", "local", detail="by link")
    # To another address: the code is used up, and a reload must not ask for it again.
    answer = RedirectResponse("/", 303)
    _set(call, answer, cookie)
    return answer


async def login(call: ApiCall) -> Response:
    """Sign in with a token; this machine's user with the local one."""
    server, request = call.server, call.request
    client = request.client.host if request.client else ""
    token = server.tokens.check(call.body.token)
    # The local token is taken from this machine only, also where it was copied elsewhere.
    if token is None and not server.authenticator.accepts_local_token(
        call.body.token, request.headers, client
    ):
        raise Problem(401, "unauthorized", "the token is not valid")
    cookie = await asyncio.to_thread(server.signin.cookie, token)
    session = server.signin.read(cookie)
    assert isinstance(session, BrowserSession)
    detail = "by the local token" if token is None else f"by token {token.id}"
    server.audit("signin", session.principal.id, detail=detail)
    view = _me(session.principal.id, session.principal.roles, session.csrf)
    answer = JSONResponse(view.model_dump())
    _set(call, answer, cookie)
    return answer


async def logout(call: ApiCall) -> Response:
    """End the session: its cookie is refused from now on, whoever has it."""
    authenticator, signin = call.server.authenticator, call.server.signin
    cookie = authenticator.cookie(call.request.headers)
    if cookie is not None:
        await asyncio.to_thread(signin.end, cookie)
    call.server.audit("signout", call.principal.id)
    answer = JSONResponse(schemas.Accepted(id=call.principal.id).model_dump(), 202)
    answer.delete_cookie(signin.name, path="/", httponly=True, samesite="strict")
    return answer


def _set(call: ApiCall, answer: Response, cookie: str) -> None:
    answer.set_cookie(
        call.server.signin.name,
        cookie,
        max_age=SESSION_S,
        path="/",
        # Browsers drop a `Secure` cookie that arrives over plain HTTP, as on loopback.
        secure=call.request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )


ENDPOINTS: Final = (
    ApiEndpoint(
        "GET",
        "/me",
        me,
        "Who you are.",
        "server",
        answers={200: schemas.Me},
        right="signed_in",
    ),
    ApiEndpoint(
        "GET",
        "/signin/{code}",
        enter,
        "Sign in by a one-time link.",
        "server",
        answers={303: ""},
        errors=(404,),
        page=True,
        status=303,
        right="public",
    ),
    ApiEndpoint(
        "POST",
        "/signin",
        login,
        "Sign in with a token.",
        "server",
        body=Login,
        answers={200: schemas.Me},
        right="public",
    ),
    ApiEndpoint(
        "POST",
        "/signout",
        logout,
        "Sign out.",
        "server",
        body=Nothing,
        answers={202: schemas.Accepted},
        status=202,
        right="signed_in",
    ),
)

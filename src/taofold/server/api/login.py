"""The routes of browser sessions: sign in with a link or a token, own identity, sign out.

`server.auth` checks sessions, links and tokens. `mcp_signins` signs in to MCP servers.
"""

import asyncio
from typing import Final

import taofold
from taofold.server.api import schemas
from taofold.server.api.schemas import Login
from taofold.server.auth import BrowserSession
from taofold.server.endpoint import ApiCall, Nothing, Problem, Routes

routes: Final = Routes("server")


@routes.get("/me", right="signed_in")
async def me(call: ApiCall) -> schemas.Me:
    """Returns your identity."""
    return schemas.Me(
        id=call.principal.id, roles=list(call.principal.roles), version=taofold.__version__
    )


@routes.post("/signin", right="public", body=Login)
async def login(call: ApiCall) -> schemas.NewSession:
    """Signs in with a token, or with the code of a one-time link."""
    secret, detail = await (_by_code(call) if call.body.code else _by_token(call))
    session = call.server.signin.read(secret)
    assert isinstance(session, BrowserSession)
    call.server.audit("signin", session.principal.id, detail=detail)
    return schemas.NewSession(
        id=session.principal.id,
        roles=list(session.principal.roles),
        version=taofold.__version__,
        session=secret,
    )


async def _by_code(call: ApiCall) -> tuple[str, str]:
    # In a thread, because it locks and syncs a file.
    secret = await asyncio.to_thread(call.server.signin.redeem, call.body.code)
    if secret is None:
        raise Problem(401, "unauthorized", "this link was used or is too old: start one anew")
    return secret, "by link"


async def _by_token(call: ApiCall) -> tuple[str, str]:
    server, request = call.server, call.request
    client = request.client.host if request.client else ""
    token = server.tokens.check(call.body.token)
    # The local token is accepted from this machine only, even if it was copied.
    if token is None and not server.authenticator.accepts_local_token(
        call.body.token, request.headers, client
    ):
        raise Problem(401, "unauthorized", "the token is not valid")
    detail = "by the local token" if token is None else f"by token {token.id}"
    return await asyncio.to_thread(server.signin.begin, token), detail


@routes.post("/signout", right="signed_in", body=Nothing, status=202)
async def logout(call: ApiCall) -> schemas.Accepted:
    """Signs out. The session is refused afterwards."""
    secret = call.server.authenticator.session(call.request.headers)
    if secret is not None:
        await asyncio.to_thread(call.server.signin.end, secret)
    call.server.audit("signout", call.principal.id)
    return schemas.Accepted(id=call.principal.id)

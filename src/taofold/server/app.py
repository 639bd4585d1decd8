"""The ASGI application: all routes, and what a route does with a request that `middleware` let
pass.

It checks who sends it, that the sender's roles give the right that the endpoint declares, how much
they ask for, and what the request says; only then its handler is called. There are no other routes.
Whatever goes wrong, also a bug, leaves as problem details.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Final

from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from taofold.core.values import Principal
from taofold.foreign_code import contained
from taofold.server import console
from taofold.server.agui import endpoint as agui
from taofold.server.api import (
    approvals,
    attachments,
    learning,
    login,
    mcp_signins,
    runs,
    system,
)
from taofold.server.auth import Caller, unauthorized
from taofold.server.endpoint import (
    ApiCall,
    ApiEndpoint,
    Problem,
    check_body,
    check_path,
    check_query,
    problem_of,
    too_many_requests,
)
from taofold.server.middleware import AccessRecord, ProtectionMiddleware
from taofold.server.openapi import document
from taofold.server.server import Server

ENDPOINTS: Final[Sequence[ApiEndpoint]] = (
    *runs.ENDPOINTS,
    *attachments.ENDPOINTS,
    *runs.COURSE,
    *approvals.ENDPOINTS,
    *learning.ENDPOINTS,
    *mcp_signins.ENDPOINTS,
    *login.ENDPOINTS,
    *system.ENDPOINTS,
    *agui.ENDPOINTS,
    *console.ENDPOINTS,
)

_LONGEST_NUMBER: Final = 16
NOBODY: Final = Principal("nobody", ())
"""Who has not signed in."""

_logger = logging.getLogger(__name__)


def create_app(server: Server, *, extra: Sequence[ApiEndpoint] = ()) -> ASGIApp:
    """The application of `server`. `extra` endpoints come on top."""
    published = document((*ENDPOINTS, *extra), server.settings)

    async def openapi(call: ApiCall) -> Response:
        return JSONResponse(published)

    described = ApiEndpoint(
        "GET", "/openapi.json", openapi, "The API.", "server", hidden=True, right="public"
    )
    endpoints = (*ENDPOINTS, *extra, described)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        await server.start()
        try:
            yield
        finally:
            await server.stop()

    app = Starlette(
        routes=_routes(server, endpoints),
        lifespan=lifespan,
        exception_handlers={HTTPException: _http, Exception: _unexpected},
    )
    # A redirect would leave the checks of host and path to the client's next request.
    app.router.redirect_slashes = False
    pages = frozenset(endpoint.path for endpoint in endpoints if endpoint.page)
    return ProtectionMiddleware(app, server, pages)


def _routes(server: Server, endpoints: Sequence[ApiEndpoint]) -> list[Route]:
    """One route for each path, so that another method is answered with those there are."""
    by_path: dict[str, dict[str, ApiEndpoint]] = {}
    for endpoint in endpoints:
        by_path.setdefault(endpoint.path, {})[endpoint.method] = endpoint
    return [_route(server, path, methods) for path, methods in by_path.items()]


def _route(server: Server, path: str, endpoints: Mapping[str, ApiEndpoint]) -> Route:
    async def handle(request: Request) -> Response:
        access: AccessRecord = request.scope["taofold"]
        access.route = path
        try:
            with contained():
                return await _answered(server, endpoints[_method(request)], request, access)
        except Exception as error:
            problem = problem_of(error)
            if problem is None:
                raise
            access.code, access.detail = problem.code, problem.detail
            return problem.response()

    return Route(path, handle, methods=list(endpoints))


def _method(request: Request) -> str:
    return "GET" if request.method == "HEAD" else request.method


async def _answered(
    server: Server, endpoint: ApiEndpoint, request: Request, access: AccessRecord
) -> Response:
    caller = _authenticated(server, endpoint, request)
    # The limit comes before the right: who may do nothing must not ask without end either.
    if caller is not None:
        access.who = caller.principal.id
        _limit(server, access.who)
    _authorize(server, endpoint, caller)
    path = check_path(request.path_params)
    query = check_query(endpoint, request)
    settings = server.settings
    # A chunked body states no length: like one that lies, it gets the smaller bound.
    upload = endpoint.upload and _length(request) > settings.body_bytes
    try:
        async with asyncio.timeout(settings.upload_s if upload else settings.body_s):
            # Only large bodies take one of the few places:
            # ordinary requests are not queued behind them.
            with server.uploading() if upload else contextlib.nullcontext():
                most = settings.upload_bytes if upload else settings.body_bytes
                body = await check_body(endpoint, request, most)
    except TimeoutError:
        # The rest of the body may still arrive: on a kept
        # connection it would read as the next request.
        raise Problem(
            408, "timeout", "the body took too long to arrive", headers={"Connection": "close"}
        ) from None
    principal = caller.principal if caller is not None else NOBODY
    answer = await endpoint.handler(ApiCall(server, request, principal, path, query, body))
    if isinstance(answer, BaseModel):
        return _json(answer, endpoint.status)
    return answer


def _length(request: Request) -> int:
    """How long the body says it is; 0 if it does not."""
    length = request.headers.get("content-length", "")
    return (
        # `isdigit` also holds for `²`, on which `int` raises; 16 digits are more than any bound.
        int(length)
        if length.isascii() and length.isdigit() and len(length) < _LONGEST_NUMBER
        else 0
    )


def _authenticated(server: Server, endpoint: ApiEndpoint, request: Request) -> Caller | None:
    """Who it is; None without credentials, or with wrong ones where anybody may come.

    Raises:
        Problem: 401.
    """
    client = request.client.host if request.client else ""
    try:
        return server.authenticator.authenticate(request.headers, client)
    except Problem:
        if endpoint.right == "public":
            return None
        raise


def _authorize(server: Server, endpoint: ApiEndpoint, caller: Caller | None) -> None:
    """Let in whoever holds what the endpoint declares.

    Raises:
        Problem: 401 it is nobody, 403 its roles do not give the right.
    """
    if endpoint.right == "public":
        return
    if caller is None:
        raise unauthorized()
    if endpoint.right != "signed_in":
        server.require(caller.principal, endpoint.right)


def _limit(server: Server, who: str) -> None:
    wait = server.rates.take(f"principal:{who}", asyncio.get_running_loop().time())
    if wait:
        raise too_many_requests(wait)


def _json(answer: BaseModel, status: int) -> Response:
    return Response(answer.model_dump_json(), status, media_type="application/json")


async def _http(request: Request, error: Exception) -> Response:
    """What the router itself refuses."""
    assert isinstance(error, HTTPException)
    codes = {404: "not_found", 405: "method"}
    code = codes.get(error.status_code, "refused")
    details = {404: "there is nothing here", 405: "this cannot be done here"}
    detail = details.get(error.status_code, str(error.detail))
    access: AccessRecord = request.scope["taofold"]
    access.code, access.detail = code, detail
    return Problem(error.status_code, code, detail, headers=error.headers).response()


async def _unexpected(request: Request, error: Exception) -> Response:
    # The client is told nothing of it: a traceback may hold data of other principals.
    _logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return Problem(500, "internal", "something went wrong here; it was written down").response()
